"""Programs of the dynamics of one robot: recorded, simplified, counted.

The symmetric elimination (:mod:`.symmetric`) runs on expression-graph scalars, on the robot
with its frames re-chosen and masses regrouped (:mod:`dynsys.program.frames`); what it leaves is
simplified, and guarded where a pivot is not safe by argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import final

import numpy as np
from numpy.typing import NDArray

from dynsys.model.spatial import MassMoments, cross_force, cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import at_parameters, parameter_samples
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.step_order import staged_steps
from dynsys.plan.symmetric import SymmetricStep, solve_symmetric, symmetric_steps
from dynsys.program.frames import Reframed, Regrouping, reframe
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.kinematics import transforms, velocities
from dynsys.recursive.rnea import net_wrenches
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "DYNAMICS_OUTPUTS",
    "PARAMETERS",
    "SAMPLES",
    "DynamicsSpec",
    "body_quantities",
    "cheapest_accurate",
    "dynamics_program",
    "dynamics_signature",
    "guarded_dynamics",
    "sample_states",
    "symmetric_dynamics",
]

SAMPLES = 12
ACCURATE = 1e-13
"""Relative error at random states that no well-conditioned elimination exceeds."""
NO_WORSE = 2.0
"""Errors of two programs at a dozen states that far apart are the same."""
PIVOT_MARGIN = 1e10
"""A watched pivot may fall this far below its median before pivoting takes over."""
PARAMETERS = "parameters"
"""Name of the input that holds parameters of the robot."""
DYNAMICS_OUTPUTS = ("torque", "qdd", "acceleration", "joint_wrench")


def sample_states(
    robot: KinematicTree, count: int, seed: int, extra: int
) -> NDArray[np.longdouble]:
    """Random inputs (count, nq + nv + extra): q with unit quaternions, then normal numbers."""
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(count)], dtype=np.longdouble)
    for where in robot.quaternion_slices:
        q[:, where] /= np.sqrt((q[:, where] ** 2).sum(axis=1, keepdims=True))
    rest = rng.normal(size=(count, robot.nv + extra)).astype(np.longdouble)
    return np.hstack([q, rest])


@final
@dataclass(frozen=True, eq=False)
class DynamicsSpec:
    """What is asked of the dynamics of a robot.

    Parameters
    ----------
    known : (nv,) freedoms whose qdd is given; of the others the torque is.
    given : name of the input vector (nv,) that holds them.
    outputs : any of :data:`DYNAMICS_OUTPUTS`, in the order wanted.
    wrenches : external wrenches (n_bodies, 6) are a further input, else they are zero.
    steps : the order of elimination, executed as it stands; by default leaf to root.
    parameters : of the robot, by name, whose values are the last input.
    """

    robot: KinematicTree
    known: BoolArray
    given: str
    outputs: tuple[str, ...]
    wrenches: bool = False
    steps: Sequence[SymmetricStep] | None = None
    parameters: tuple[str, ...] = ()

    @property
    def signature(self) -> Signature:
        """Inputs and outputs by name."""
        found = dynamics_signature(self.robot, self.given, self.outputs, self.wrenches)
        if not self.parameters:
            return found
        return Signature((*found.inputs, (PARAMETERS, len(self.parameters))), found.outputs)

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs)."""
        extra = self.signature.n_inputs - self.robot.nq - self.robot.nv
        states = sample_states(self.robot, count, seed, extra)
        if self.parameters:
            values = parameter_samples(self.robot, self.parameters, count, seed)
            states[:, -len(self.parameters) :] = values
        return states


def guarded_dynamics(spec: DynamicsSpec, dtype: str = "float64") -> Program:
    """Dynamics program that answers NaN to bad quaternions and to vanishing pivots.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    robot, signature = spec.robot, spec.signature
    pivots = pivot_safety(robot, spec.known)
    watch = tuple(pivot.joint for pivot in pivots if pivot.safe_by == "sampling")
    program = dynamics_program(spec, watch)
    reciprocals = np.abs(program.evaluate(spec.samples(20, 3))[:, signature.n_outputs :])
    limits = [float(PIVOT_MARGIN * x) for x in np.median(reciprocals, axis=0)]
    n_finite = signature.n_inputs
    return guarded(program, robot.quaternion_slices, dtype, limits, n_finite=n_finite)


def dynamics_program(spec: DynamicsSpec, watch: tuple[str, ...] = ()) -> Program:
    """Program of the symmetric elimination of D; reciprocal pivots of ``watch`` joints follow.

    Masses are regrouped where that costs no digits, see :func:`cheapest_accurate`.
    """
    samples = spec.samples(SAMPLES, 0)

    def record(regroup: Regrouping) -> Program:
        return _recorded_dynamics(spec, watch, regroup, samples)

    if spec.known.all():
        return record("all")
    error = partial(_rounding_error, states=samples.astype(np.float64))
    return cheapest_accurate(record, error, ACCURATE)


def cheapest_accurate(
    record: Callable[[Regrouping], Program], error: Callable[[Program], float], enough: float
) -> Program:
    """Program on regrouped masses, as many as rounding allows.

    All of them cost least. Where that leaves an error above ``enough``, a pivot cancels almost
    all of some link's inertia; then only solid links are regrouped, and none if even so the
    error is larger than with every mass in its place.
    """
    program = record("all")
    if error(program) <= enough:
        return program
    solid, in_place = record("solid"), record("none")
    return solid if error(solid) <= max(enough, NO_WORSE * error(in_place)) else in_place


def _rounding_error(program: Program, states: Array) -> float:
    """Largest error of double precision, relative to the largest output of its state."""
    exact = program.evaluate(states.astype(np.longdouble))
    scale = np.abs(exact).max(axis=1)
    errors = np.abs(program.evaluate(states) - exact).max(axis=1)
    return float(np.max(errors / np.maximum(scale, np.finfo(float).tiny)))


def _recorded_dynamics(
    spec: DynamicsSpec,
    watch: tuple[str, ...],
    regroup: Regrouping,
    samples: NDArray[np.longdouble],
) -> Program:
    robot, graph = spec.robot, Graph()
    q, qd, inputs = graph.inputs(robot.nq), graph.inputs(robot.nv), graph.inputs(robot.nv)
    f_ext = graph.inputs(6 * robot.n_bodies).reshape(-1, 6) if spec.wrenches else None
    at = None
    if spec.parameters:
        at = at_parameters(robot, spec.parameters, graph.inputs(len(spec.parameters)))
    mechanism = reframe(robot, regroup=regroup, at_values=at)
    qdd, torque, reciprocals = symmetric_dynamics(
        mechanism, q, qd, inputs, spec.known, f_ext, spec.steps
    )
    results: dict[str, ScalarArray] = {"qdd": qdd, "torque": torque}
    if not set(spec.outputs) <= set(results):
        results |= body_quantities(robot, q, qd, qdd, f_ext, at.moments if at else {})
    answers = [x for name in spec.outputs for x in np.ravel(results[name])]
    watched = [x for joint in watch for x in reciprocals[robot.v_slice(joint).start]]
    return simplify(graph.program([*answers, *watched]), samples)


def dynamics_signature(
    robot: KinematicTree, given: str, outputs: tuple[str, ...], wrenches: bool
) -> Signature:
    """Inputs and outputs of :class:`DynamicsSpec`."""
    size = {"torque": robot.nv, "qdd": robot.nv}
    inputs = [("q", robot.nq), ("qd", robot.nv), (given, robot.nv)]
    if wrenches:
        inputs.append(("f_ext", 6 * robot.n_bodies))
    return Signature(
        tuple(inputs), tuple((name, size.get(name, 6 * robot.n_bodies)) for name in outputs)
    )


def symmetric_dynamics(
    mechanism: Reframed,
    q: ScalarArray,
    qd: ScalarArray,
    inputs: ScalarArray,
    known: BoolArray,
    f_ext: ScalarArray | None = None,
    steps: Sequence[SymmetricStep] | None = None,
) -> tuple[ScalarArray, ScalarArray, dict[int, ScalarArray]]:
    """qdd, torque (nv,) and reciprocal pivots; ``f_ext`` in the robot's own frames.

    ``steps`` are those of the robot's bodies, by default leaf to root.
    """
    X_up = transforms(mechanism, q)
    imposed = inputs.copy()
    imposed[~known] = 0
    friction = mechanism.friction_torque(qd)
    net = inputs.copy()
    net[~known] = inputs[~known] - friction[~known]
    bias = net_wrenches(mechanism, X_up, qd, imposed)
    if f_ext is not None:
        for body, place in enumerate(mechanism.place):
            bias[place] = bias[place] - mechanism.wrench_to_new(body, f_ext[body])
    steps = symmetric_steps(mechanism.robot, known) if steps is None else steps
    staged = staged_steps(mechanism, steps)
    qdd, torque, reciprocals = solve_symmetric(mechanism, X_up, bias, net, known, staged)
    torque[known], torque[~known] = torque[known] + friction[known], inputs[~known]
    return qdd, torque, reciprocals


def body_quantities(
    robot: KinematicTree,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    f_ext: ScalarArray | None,
    moments: Mapping[int, MassMoments] = MappingProxyType({}),
) -> dict[str, ScalarArray]:
    """Accelerations and joint wrenches (n_bodies, 6) of the robot's own frames, from qdd.

    ``moments`` stand in place of those of some bodies.

    The laws of :mod:`dynsys.system.laws`, solved one after the other: with qdd known the rows
    of accelerations are triangular from the root, those of balance from the leaves.
    """
    X_up = transforms(robot, q)
    v = velocities(robot, X_up, qd)
    a: list[ScalarArray] = []
    f: list[ScalarArray] = []
    gravity = np.concatenate([np.zeros(3), -robot.gravity])
    for i, (X, parent, freedoms) in enumerate(
        zip(X_up, robot.parent, robot.v_slices(), strict=True)
    ):
        S, M = robot.motion_subspace[i], moments.get(i, robot.moments[i]).matrix()
        # a_i = X_i a_parent + S_i qdd_i + v_i x S_i qd_i   [NORI] (3a), proper accelerations
        carried = X.motion(gravity if parent < 0 else a[parent])
        a.append(carried + S @ qdd[freedoms] + cross_motion(v[i], S @ qd[freedoms]))
        # f_i = I_i a_i + v_i x* I_i v_i - f^x_i + sum of children's   [NORI] (3f)
        f.append(M @ a[i] + cross_force(v[i], M @ v[i]) - (0 if f_ext is None else f_ext[i]))
    for i in reversed(range(robot.n_bodies)):
        if (parent := robot.parent[i]) >= 0:
            f[parent] = f[parent] + X_up[i].force_back(f[i])
    return {"acceleration": np.array(a), "joint_wrench": np.array(f)}
