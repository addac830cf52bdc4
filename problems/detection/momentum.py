"""The momentum observer: external joint torques from q, qd and drive torques, without qdd.

Generalised momentum p = H(q) qd changes by drive torques, gravity, friction and the torques
tau_x of whatever touches the robot,

    p' = tau + beta(q, qd) - friction(qd) + tau_x,      p_i = S_i^T h_i,
    beta_i = (v_i x S_i)^T h_i + S_i^T w_i

with h_i and w_i the momentum and the weight of all that hangs on joint i. Proof: in the frame
of body i, h_i' = f_i + w_i - v_i x* h_i, and S_i is constant there. De Luca and Mattone (2003)
compare p with the integral of what is known,

    r(t) = K (p(t) - p(0) - integral of (tau + beta - friction + r) ds),    r' = K (tau_x - r)

a low pass of tau_x with bandwidth K / (2 pi) Hz. It is the classical twin of contact estimation
here: no accelerations, but no deviations either, and no sensor but the drives. Cost O(n).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.model.spatial import cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import fingerprint_robot
from dynsys.plan.record import SAMPLES, sample_states
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.inputs import finite_rows
from dynsys.recursive.kinematics import transforms, velocities
from dynsys.types import Array, ArrayLike, ScalarArray
from problems.inputs import ascending_times

__all__ = ["MomentumObserver", "momentum_rates"]


def momentum_rates(
    robot: KinematicTree, q: ScalarArray, qd: ScalarArray
) -> tuple[ScalarArray, ScalarArray]:
    """p = H(q) qd and beta (nv,), over scalars of any kind; see the module."""
    X_up = transforms(robot, q)
    v = velocities(robot, X_up, qd)
    weight: list[ScalarArray] = []
    momentum: list[ScalarArray] = []
    g: list[ScalarArray] = []
    for i, (X, parent) in enumerate(zip(X_up, robot.parent, strict=True)):
        inertia = robot.moments[i].matrix()
        fall = np.concatenate([np.zeros(3), robot.gravity])
        g.append(X.motion(fall if parent < 0 else g[parent]))
        momentum.append(inertia @ v[i])
        weight.append(inertia @ g[i])
    p, beta = robot.armature * qd, 0 * qd
    for i in reversed(range(robot.n_bodies)):
        S, freedoms = robot.motion_subspace[i], robot.v_slices()[i]
        for k, column in enumerate(S.T):
            at = freedoms.start + k
            p[at] = p[at] + column @ momentum[i]
            turned = cross_motion(v[i], column)
            beta[at] = beta[at] + turned @ momentum[i] + column @ weight[i]
        if (parent := robot.parent[i]) >= 0:
            momentum[parent] = momentum[parent] + X_up[i].force_back(momentum[i])
            weight[parent] = weight[parent] + X_up[i].force_back(weight[i])
    return p, beta


@final
@dataclass(frozen=True, eq=False)
class MomentumObserver:
    """External joint torques of a robot; see the module.

    Parameters
    ----------
    robot : the robot; with friction, if it has been asked to.
    gain : K, 1/s: the observer follows what touches the robot within about 1 / K seconds.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> still = np.zeros((500, 3))
    >>> holding = np.tile(dynsys.rnea(robot, *np.zeros((3, 3))), (500, 1))
    >>> r = MomentumObserver(robot, gain=50.0).run(np.arange(500) / 500, still, still, holding)
    >>> bool(np.abs(r).max() < 1e-9)
    True
    """

    robot: KinematicTree
    gain: float = 25.0

    def __post_init__(self) -> None:
        if not isinstance(self.robot, KinematicTree):
            raise ModelError(f"a momentum observer needs a robot, got {self.robot!r:.60}")
        if not isinstance(self.gain, (int, float, np.number)) or not 0 < self.gain < np.inf:
            raise StateError(
                f"the gain of a momentum observer must be positive, got {self.gain!r}"
            )

    @cached_property
    def _kernel(self) -> Kernel:
        robot = self.robot

        def program() -> Program:
            graph = Graph()
            q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
            p, beta = momentum_rates(robot, q, qd)
            return simplify(graph.program([*p, *beta]), sample_states(robot, SAMPLES, 0))

        signature = Signature(
            (("q", robot.nq), ("qd", robot.nv)), (("p", robot.nv), ("beta", robot.nv))
        )
        made_from = ("momentum", fingerprint_robot(robot).digest)
        return kernel_from(program, signature, sample_states(robot, 3, 7), made_from)

    def rates(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
        """p and beta less friction, (N, nv) each, at states (N, nq), (N, nv)."""
        positions, speeds = finite_rows(self.robot, (("q", q), ("qd", qd)), "sample")
        (p, beta), _ = self._kernel.batch(positions, speeds)
        lost = np.flatnonzero(~(np.isfinite(p) & np.isfinite(beta)).all(axis=1))
        if len(lost):
            raise StateError(
                f"sample {lost[0]}: the momentum of robot {self.robot.name!r} overflows"
                " float64; check the units of q and qd"
            )
        return p, beta - self.robot.friction_torque(speeds)

    def run(self, time: ArrayLike, q: ArrayLike, qd: ArrayLike, torque: ArrayLike) -> Array:
        """External joint torques (N, nv) along a log; the first sample is taken as untouched.

        Between samples everything known is taken as linear in time, so that the rate of the
        log does not bound the gain.
        """
        positions, speeds, drives = finite_rows(
            self.robot, (("q", q), ("qd", qd), ("torque", torque)), "sample"
        )
        times = ascending_times(time, len(positions))
        p, beta = self.rates(positions, speeds)
        known = drives + beta
        r, out = np.zeros(self.robot.nv), np.zeros_like(p)
        for k, dt in enumerate(np.diff(times), start=1):
            # r' = K (p' - known - r): over a step, p' - known has this mean
            drift = (p[k] - p[k - 1]) / dt - 0.5 * (known[k] + known[k - 1])
            r = r + (drift - r) * -np.expm1(-self.gain * dt)
            out[k] = r
        return out
