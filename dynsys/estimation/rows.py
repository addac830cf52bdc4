"""Laws of motion and measurements as sparse rows of scalars: numbers or graph nodes.

The rows of [NORI] eq. (3), each joint kept in two stages, its constant placement and its
motion. The acceleration c_i carried to the joint and the wrench h_i on the parent's side of it
become unknowns of their own:

    c_i = X_placement a_parent          a_i = X_motion c_i + S_i qdd_i + v_i x S_i qd_i
    h_i = X_motion^T f_i                balance of the parent:  ... + X_placement^T h_i

Elementary rotations and shifts then cost what they should. Each stage can also be written the
other way round, f_i = X_motion^-T h_i and c_i = X_motion^-1 (a_i - ...): the same equations,
but with a constant coefficient on the unknown that the measurements leave open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dynsys.model.spatial import Transform, cross_force, cross_motion
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import net_wrench_law, torque_law
from dynsys.system.unknowns import UnknownBlock, UnknownLayout
from dynsys.types import Array, ScalarArray

__all__ = ["LinearRow", "Unknowns", "equation_rows", "law_rows"]


@final
@dataclass(frozen=True, eq=False)
class LinearRow:
    """sum over columns  coefficient * unknown  +  constant  =  0, at ``body``.

    ``not_for`` are columns that the row should not be solved for: another one defines them.
    """

    body: int
    coefficients: dict[int, Any]
    constant: Any
    not_for: tuple[int, ...] = ()


@final
class Unknowns:
    """Columns of the robot's unknowns, then those of the stages between them.

    ``turned`` are the joints (kind of unknown, body) whose stages are written the other way
    round: kind ``joint_wrench`` or ``acceleration``.
    """

    def __init__(self, layout: UnknownLayout, turned: Collection[tuple[str, int]] = ()) -> None:
        self.layout = layout
        self.turned = frozenset(turned)
        self.body: dict[int, int] = {
            k: block.body for block in layout.blocks for k in block.columns.tolist()
        }
        self._next = layout.size
        self.carried: dict[int, list[int]] = {}
        """Columns of c_i, by body, for joints in two stages."""
        self.passed_on: dict[int, list[int]] = {}
        """Columns of h_i, likewise."""
        for i, body in enumerate(layout.robot.bodies):
            if body.parent >= 0 and body.joint.nv:
                self.carried[i], self.passed_on[i] = self._six(i), self._six(i)

    def _six(self, body: int) -> list[int]:
        columns = list(range(self._next, self._next + 6))
        self._next += 6
        self.body |= dict.fromkeys(columns, body)
        return columns

    def block(self, kind: Any, body: int) -> list[int]:
        """Columns of one unknown of the robot."""
        columns: list[int] = self.layout.block(kind, body).columns.tolist()
        return columns

    def columns(self, unknown: UnknownBlock) -> list[int]:
        """Columns of an unknown of any layout of the same robot."""
        return self.block(unknown.kind, unknown.body)

    def on_parent_side(self, term: Term) -> Array | None:
        """Coefficient on h_i of a term on f_i, if it is a constant there; None if not.

        Sensors that cut the parent see X^T f_i: constant on h_i, and constants are safe pivots.
        """
        i = term.unknown.body
        if term.is_constant or term.unknown.kind != "joint_wrench" or i not in self.passed_on:
            return None
        seen = [
            np.linalg.solve(_motion(kin, q, i).matrix(), _value(term, kin).T).T
            for kin, q in self._states
        ]
        rounding = 1e-14 * float(np.abs(seen).max())
        if float(np.ptp(seen, axis=0).max(initial=0.0)) > rounding:
            return None
        return np.where(np.abs(seen[0]) <= rounding, 0.0, seen[0])

    @cached_property
    def _states(self) -> list[tuple[Kinematics, Array]]:
        """A few random states."""
        robot, rng = self.layout.robot, np.random.default_rng(0)
        positions = [robot.random_configuration(rng) for _ in range(3)]
        return [(Kinematics.at(robot, q, np.zeros(robot.nv)), q) for q in positions]


def _value(term: Term, kin: Kinematics) -> ScalarArray:
    """Coefficient (rows, size) with zeros outside the pattern."""
    value = term.value(kin) if callable(term.value) else term.value
    entries: ScalarArray = np.zeros(term.pattern.shape, dtype=value.dtype)
    entries[term.pattern] = value[term.pattern]
    return entries


class _Rows:
    """Rows being collected for one law: coefficients add up."""

    def __init__(self, body: int, constant: ScalarArray, not_for: Sequence[int] = ()) -> None:
        self._rows = [LinearRow(body, {}, x, tuple(not_for)) for x in constant]

    def add(self, columns: Sequence[int], matrix: ScalarArray) -> None:
        for row, entries in zip(self._rows, matrix, strict=True):
            for column, x in zip(columns, entries, strict=True):
                if isinstance(x, (int, float, np.floating)) and x == 0:
                    continue
                before = row.coefficients.get(column)
                row.coefficients[column] = x if before is None else before + x

    def __iter__(self) -> Iterator[LinearRow]:
        return iter(self._rows)


def law_rows(unknowns: Unknowns, kin: Kinematics, q: ScalarArray) -> list[LinearRow]:
    """All laws of the robot, in the module's stages."""
    rows: list[LinearRow] = []
    layout = unknowns.layout
    for i in range(layout.robot.n_bodies):
        rows.extend(_acceleration(unknowns, kin, q, i))
        rows.extend(_balance(unknowns, kin, q, i))
        laws = [torque_law(layout, i)] if i in layout.driven else []
        if layout.net_wrench:
            laws.append(net_wrench_law(layout, i))
        for law in laws:
            rows.extend(equation_rows(unknowns, law, kin))
    return rows


def _acceleration(
    unknowns: Unknowns, kin: Kinematics, q: ScalarArray, i: int
) -> Iterator[LinearRow]:
    robot = kin.robot
    parent, S = int(robot.parent[i]), robot.motion_subspace[i]
    bias: ScalarArray = np.zeros(6)
    if S.shape[1]:
        bias = cross_motion(kin.velocity[i], S @ kin.qd[unknowns.layout.freedoms[i]])
    if parent < 0:
        bias = bias + kin.transforms[i].motion(kin.base_acceleration)
    own = np.eye(6)
    if ("acceleration", i) in unknowns.turned:
        own = _motion(kin, q, i).inverse().matrix()
    law = _Rows(i, own @ bias)
    law.add(unknowns.block("acceleration", i), -own)
    if S.shape[1]:
        law.add(unknowns.block("qdd", i), own @ S)
    if i in unknowns.carried:
        turned = ("acceleration", i) in unknowns.turned
        law.add(unknowns.carried[i], np.eye(6) if turned else _motion(kin, q, i).matrix())
        stage = _Rows(i, np.zeros(6))
        stage.add(unknowns.carried[i], -np.eye(6))
        placement = robot.bodies[i].placement.matrix()
        stage.add(unknowns.block("acceleration", parent), placement)
        yield from stage
    elif parent >= 0:
        law.add(unknowns.block("acceleration", parent), kin.X_up[i])
    yield from law


def _balance(
    unknowns: Unknowns, kin: Kinematics, q: ScalarArray, i: int
) -> Iterator[LinearRow]:
    robot = kin.robot
    inertia = robot.bodies[i].inertia.matrix()
    f = unknowns.block("joint_wrench", i)
    turned = i in unknowns.passed_on and ("joint_wrench", i) in unknowns.turned
    gyroscopic = cross_force(kin.velocity[i], inertia @ kin.velocity[i])
    law = _Rows(i, gyroscopic, f if turned else ())
    law.add(unknowns.block("acceleration", i), inertia)
    law.add(f, -np.eye(6))
    law.add(unknowns.block("external_wrench", i), -np.eye(6))
    for j in robot.children[i]:
        if j in unknowns.passed_on:
            law.add(unknowns.passed_on[j], robot.bodies[j].placement.matrix().T)
        else:
            law.add(unknowns.block("joint_wrench", j), kin.X_up[j].T)
    yield from law
    if i in unknowns.passed_on:
        stage = _Rows(i, np.zeros(6))
        motion = _motion(kin, q, i)
        if turned:
            stage.add(f, -np.eye(6))
            stage.add(unknowns.passed_on[i], motion.inverse().matrix().T)
        else:
            stage.add(f, motion.matrix().T)
            stage.add(unknowns.passed_on[i], -np.eye(6))
        yield from stage


def _motion(kin: Kinematics, q: ScalarArray, i: int) -> Transform:
    """Transform of the joint's motion alone."""
    return kin.robot.bodies[i].joint.transform(kin.robot.joint_position(i, q))


def equation_rows(unknowns: Unknowns, block: EquationBlock, kin: Kinematics) -> list[LinearRow]:
    """Rows of an equation, y not yet subtracted; grouped with its body nearest the root."""
    bodies = [term.unknown.body for term in block.terms]
    rows = _Rows(min(bodies, default=0), block.bias_at(kin))
    for term in block.terms:
        on_parent = unknowns.on_parent_side(term)
        if on_parent is not None:
            rows.add(unknowns.passed_on[term.unknown.body], on_parent)
            continue
        rows.add(unknowns.columns(term.unknown), _value(term, kin))
    return list(rows)
