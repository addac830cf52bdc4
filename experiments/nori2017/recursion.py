"""Load cells by substitution along the tree: RNEA with open parameters.

Open are the joint accelerations that no sensor gives and the components of external wrenches
that no load cell gives; as many components of joint wrenches are measured. With the parameters
p set to zero RNEA gives every wrench; what p adds is, through joint i,

    f_i += Ic_i da_i            open joints below or at i: da_i is the acceleration they add
         + X_ij^T Ic_j S_j p_j  open joints j beyond i
         - X_ik^T e_k p_k       open components k of external wrenches beyond i,

Ic_i the composite inertia of all that joint i moves. The measured components are as many linear
equations in p; torques follow by one product per joint. Everything is of cost O(n) but the
elimination of the few parameters, whose pivots are chosen over sampled states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.sparse import csc_array

from dynsys.model.spatial import MassMoments, Transform, mirrored, rotate_matrix
from dynsys.model.tree import KinematicTree
from dynsys.plan.lu import factor_and_solve
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.record import SAMPLES, body_quantities, sample_states
from dynsys.program.frames import Reframed, invisible_moments, reframe
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.simplify import simplify
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import net_wrenches
from dynsys.types import ScalarArray

__all__ = ["OpenParameters", "load_cell_parameters", "open_recursion_program"]

Component = tuple[int, int]
"""(body, component of the wrench 0..5: moment, then force)."""


@final
@dataclass(frozen=True)
class OpenParameters:
    """What no sensor gives, and the measured joint wrenches that make up for it."""

    joints: tuple[int, ...]
    external: tuple[Component, ...]
    measured: tuple[Component, ...]

    def __post_init__(self) -> None:
        if len(self.measured) != len(self.joints) + len(self.external):
            raise ValueError("as many components must be measured as parameters are open")


def load_cell_parameters(robot: KinematicTree) -> OpenParameters:
    """autoSensSIEfriction: two joints open at each end, and the torsion of both load cells."""
    n = robot.n_bodies
    cell = (0, 1, 3, 4, 5)
    return OpenParameters((0, 1, n - 2, n - 1), ((n - 1, 2),), tuple((0, c) for c in cell))


def open_recursion_program(
    robot: KinematicTree, given: OpenParameters, *, everything: bool = False
) -> Program:
    """Torques (nv,) from q, qd, external wrenches (6 n), qdd (nv) and the measured components.

    Open entries of the wrenches and of qdd are inputs that nothing reads. With ``everything``
    parameters, accelerations and joint wrenches of all bodies (6 n each) follow the torques.
    """
    graph = Graph()
    sizes = (robot.nq, robot.nv, 6 * robot.n_bodies, robot.nv, len(given.measured))
    q, qd, f_ext, qdd, measured = (graph.inputs(size) for size in sizes)
    samples = sample_states(robot, SAMPLES, 0, sum(sizes[2:]))
    order = _parameter_order(robot, given)
    wrenches = f_ext.reshape(-1, 6)
    torque, found = _Recursion(robot, given, q, qd).solve(wrenches, qdd, measured, order)
    outputs = list(torque)
    if everything:
        n_joints = len(given.joints)
        qdd[list(given.joints)] = found[:n_joints]
        for (body, component), value in zip(given.external, found[n_joints:], strict=True):
            wrenches[body, component] = value
        bodies = body_quantities(robot, q, qd, qdd, wrenches)
        outputs += [*found, *np.ravel(bodies["acceleration"])]
        outputs += list(np.ravel(bodies["joint_wrench"]))
    return simplify(graph.program(outputs), samples)


def _parameter_order(robot: KinematicTree, given: OpenParameters) -> PivotOrder:
    """Pivots of the parameters: Markowitz's order over sampled states, thresholded."""
    matrices = []
    for seed in range(32):
        q = robot.random_configuration(seed)
        recursion = _Recursion(robot, given, q, np.zeros(robot.nv))
        matrices.append(np.array(recursion.matrix(), dtype=np.float64))
    values = np.array(matrices)
    values[np.abs(values) < 1e-13 * np.abs(values).max()] = 0.0
    pattern = csc_array((values != 0).any(axis=0))
    pattern.sort_indices()
    columns = np.repeat(np.arange(values.shape[2]), np.diff(pattern.indptr))
    context = OrderingContext(None, values[:, pattern.indices, columns])
    return Markowitz("flops").order(pattern, context)


class _Recursion:
    """One state, scalars of any kind."""

    def __init__(
        self, robot: KinematicTree, given: OpenParameters, q: ScalarArray, qd: ScalarArray
    ) -> None:
        self.robot, self.given, self.qd = robot, given, qd
        self.mechanism = regrouped_above(robot, {body for body, _ in given.measured})
        self.place = self.mechanism.place
        self.X_up = transforms(self.mechanism, q)
        self.unit_wrench = self._unit_wrenches()
        # column of each parameter: the wrench it adds through every stage towards the base
        self.columns: list[dict[int, ScalarArray]] = [
            *(self._towards_base(self.place[j], self.unit_wrench[j]) for j in given.joints),
            *(self._external_column(body, c) for body, c in given.external),
        ]

    def _unit_wrenches(self) -> list[ScalarArray]:
        """Ic_i S_i (6,) of every body: the wrench through its joint per unit of qdd_i."""
        mechanism, X_up = self.mechanism, self.X_up
        composite: list[Any] = list(mechanism.moments)
        for k in reversed(range(mechanism.n_bodies)):
            if (parent := int(mechanism.parent[k])) >= 0:
                composite[parent] = composite[parent].plus(_carried(composite[k], X_up[k]))
        units = []
        for k in self.place:
            S = mechanism.motion_subspace[k][:, 0]
            units.append(_momentum(composite[k], S))
        return units

    def _external_column(self, body: int, component: int) -> dict[int, ScalarArray]:
        wrench = np.zeros(6)
        wrench[component] = -1.0
        return self._towards_base(
            self.place[body], self.mechanism.wrench_to_new(body, wrench), own=True
        )

    def _towards_base(
        self, stage: int, wrench: ScalarArray, *, own: bool = False
    ) -> dict[int, ScalarArray]:
        """The wrench seen at every stage from here to the base; ``own``: at this one too."""
        seen = {stage: wrench} if own else {}
        while (parent := int(self.mechanism.parent[stage])) >= 0:
            wrench = self.X_up[stage].force_back(wrench)
            seen[parent] = wrench
            stage = parent
        return seen

    def matrix(self) -> ScalarArray:
        """Coefficients (measured, parameters) of the measured components."""
        rows = [self._row(body, component) for body, component in self.given.measured]
        return np.array(rows)

    def _row(self, body: int, component: int) -> list[Any]:
        stage, to_new = self.place[body], self.mechanism.to_new[body]
        row: list[Any] = []
        for k, column in enumerate(self.columns):
            wrench = column.get(stage)
            if wrench is None and k < len(self.given.joints) and self.given.joints[k] == body:
                wrench = self.unit_wrench[body]
            row.append(0.0 if wrench is None else to_new.force_back(wrench)[component])
        return row

    def solve(
        self, f_ext: ScalarArray, qdd: ScalarArray, measured: ScalarArray, order: PivotOrder
    ) -> tuple[ScalarArray, list[Any]]:
        """Torques (nv,) and the parameters."""
        mechanism, given = self.mechanism, self.given
        known = qdd.copy()
        known[list(given.joints)] = 0.0
        f = self._wrenches(self._without_open(f_ext), known)
        rhs = [
            value - mechanism.to_new[body].force_back(f[self.place[body]])[component]
            for value, (body, component) in zip(measured, given.measured, strict=True)
        ]
        rows = [
            {j: x for j, x in enumerate(row) if not (isinstance(x, float) and x == 0)}
            for row in self.matrix()
        ]
        parameters = factor_and_solve(rows, rhs, order).x
        return self._torques(f, parameters), parameters

    def _without_open(self, f_ext: ScalarArray) -> ScalarArray:
        known = f_ext.copy()
        for body, component in self.given.external:
            known[body, component] = 0.0
        return known

    def _wrenches(self, f_ext: ScalarArray, qdd: ScalarArray) -> list[ScalarArray]:
        """Wrench through the joint of every stage, parameters zero: RNEA."""
        mechanism = self.mechanism
        f = net_wrenches(mechanism, self.X_up, self.qd, qdd)
        for body, stage in enumerate(self.place):
            f[stage] = f[stage] - mechanism.wrench_to_new(body, f_ext[body])
        for k in reversed(range(mechanism.n_bodies)):
            if (parent := int(mechanism.parent[k])) >= 0:
                f[parent] = f[parent] + self.X_up[k].force_back(f[k])
        return f

    def _torques(self, f: Sequence[ScalarArray], parameters: Sequence[Any]) -> ScalarArray:
        mechanism, joints = self.mechanism, self.given.joints
        qdd = dict(zip(joints, parameters, strict=False))
        added: list[ScalarArray] = []  # acceleration that open joints add, by stage
        torque = np.zeros(self.robot.nv, dtype=object)
        body_at = {stage: body for body, stage in enumerate(self.place)}
        for k in range(mechanism.n_bodies):
            parent = int(mechanism.parent[k])
            da = np.zeros(6) if parent < 0 else self.X_up[k].motion(added[parent])
            body = body_at.get(k)
            if body in qdd:
                da = da + mechanism.motion_subspace[k][:, 0] * qdd[body]
            added.append(da)
            if body is None:
                continue
            S = mechanism.motion_subspace[k][:, 0]
            tau = S @ f[k] + self.unit_wrench[body] @ da
            for p, column in zip(parameters, self.columns, strict=True):
                if k in column:
                    tau = tau + (S @ column[k]) * p
            torque[mechanism.v_slices()[k]] = tau
        return torque


def _carried(m: MassMoments, X: Transform) -> MassMoments:
    """Moments of a composite body in its parent's frame; see MassMoments.seen_from."""
    first = X.E.T @ m.first
    second = mirrored(rotate_matrix(X.E, m.second))
    mixed = np.outer(X.r, first)
    second = second + mixed + mixed.T + m.mass * np.outer(X.r, X.r)
    return MassMoments(m.mass, first + m.mass * X.r, second)


def _momentum(m: MassMoments, motion: ScalarArray) -> ScalarArray:
    """Spatial inertia of the moments times a motion vector (6,)."""
    return m.matrix() @ motion


def regrouped_above(robot: KinematicTree, measured: set[int]) -> Reframed:
    """The robot with cheaper frames and masses regrouped, wrenches of ``measured`` kept.

    Regrouping changes the wrench through the joint the mass passes, and no other: mass passes
    every joint but those whose wrench is measured.
    """
    mechanism = reframe(robot, regroup="none")
    moments = list(mechanism.moments)
    for body in reversed(range(robot.n_bodies)):
        stage, parent = mechanism.place[body], int(robot.parent[body])
        if body in measured or parent < 0:
            continue
        moved = invisible_moments(mechanism.stages[stage].joint, moments[stage])
        moments[stage] = moments[stage].minus(moved)
        to_joint = Transform.identity()
        k = stage
        while k != mechanism.place[parent]:
            to_joint = mechanism.stages[k].placement.then(to_joint)
            k = mechanism.stages[k].parent
        above = mechanism.place[parent]
        moments[above] = moments[above].plus(moved.seen_from(to_joint))
    return replace(mechanism, moments=tuple(moments))
