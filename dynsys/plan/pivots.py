"""Which pivots are safe, and how that is known: by argument, or by sampling only.

Pivots of a scalar order (:func:`planned_pivots`) are safe by argument, at every state of every
physical robot, if they are

- an entry that no state changes and no earlier step touches, such as the -1 of a law;
- the inertia of a joint: the pivot of qdd_i in its torque law, after the laws of all bodies
  that the joint moves and nothing else but laws and other joint inertias. It is then a Schur
  complement of the joint-space inertia of these bodies, which is positive definite.

The pivot of a joint in the symmetric elimination (:func:`pivot_safety`) is its articulated
inertia S^T IA S + armature. IA is the inertia of the joint's own body plus positive
semidefinite terms of what hangs on it, so that

    pivot >= sum over the bodies the joint moves directly of S^T I S, + armature      > 0

holds at every state where the right-hand side, which does not depend on q, is positive
definite: safe by argument. Where it is not (a massless body between two joints), the pivot
depends on what the body carries.

All others are safe only by sampling: the worst ratio over the sampled states is stated, a
kernel checks them at run time, and a state that fails the check is solved by pivoting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.model.tree import KinematicTree
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.orders.markowitz import ActiveMatrix
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.symmetric import SymmetricStep
from dynsys.recursive.crba import crba_scalars
from dynsys.system.equations import EquationBlock
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array, BoolArray

__all__ = [
    "PivotSafety",
    "PlannedPivot",
    "SafeBy",
    "pivot_safety",
    "planned_pivots",
    "sampled_ratios",
    "symmetric_pivots",
]

SafeBy: TypeAlias = Literal["argument", "sampling"]

_LAW_GIVES = {
    "balance": "joint_wrench",
    "acceleration": "acceleration",
    "net_wrench": "net_wrench",
}
_AXES = ("x", "y", "z")


@final
@dataclass(frozen=True)
class PlannedPivot:
    """A pivot that depends on the state.

    ``step`` is its place in the order; ``name`` says in words of the robot which unknown is
    taken from which equation; ``ratio`` is the worst sampled ratio of the pivot to the largest
    entry of its column or row, None where no states were sampled.
    """

    step: int
    name: str
    safety: SafeBy
    ratio: float | None = None


def planned_pivots(
    system: LinearSystem, order: PivotOrder, context: OrderingContext | None = None
) -> tuple[PlannedPivot, ...]:
    """Pivots of an order that are not constants, with the reason why they are safe.

    ``context`` brings sampled values; without them ratios are None.

    Raises
    ------
    StructurallySingularError, SingularSystemError
        if a pivot is structurally zero, or vanishes at the sampled states.
    """
    symbolic = symbolic_lu(system.pattern(), order)
    constant = _constant_pivots(system, order) & ~symbolic.touched
    effective = (symbolic.below > 0) & (symbolic.right > 0)
    argued = _joint_inertias(system, order, effective, constant)
    values = None if context is None else context.values
    ratios = None if values is None else sampled_ratios(system, order, values)
    equations = _equations_by_row(system)
    pivots = []
    for k in np.flatnonzero(~constant).tolist():
        equation = equations[int(order.row_order[k])][0]
        name = pivot_name(system, equation, int(order.col_order[k]))
        ratio = None if ratios is None else float(ratios[k])
        pivots.append(PlannedPivot(k, name, "argument" if argued[k] else "sampling", ratio))
    return tuple(pivots)


def sampled_ratios(system: LinearSystem, order: PivotOrder, values: Array) -> Array:
    """Worst ratio (n,) over the states of each pivot to its column's or row's largest entry."""
    active = ActiveMatrix(system.pattern(), values)
    ratios = np.zeros(len(order.row_order))
    for k, (r, c) in enumerate(order.pivots):
        if c not in active.rows[r]:
            name = pivot_name(system, _equations_by_row(system)[r][0], c)
            raise SingularSystemError(
                f"the pivot of the {name} is zero at every sampled state; use another order"
            )
        ratios[k] = active.ratio(r, c)
        active.eliminate(r, c)
    return ratios


def pivot_name(system: LinearSystem, equation: EquationBlock, column: int) -> str:
    """Say in words of the robot which unknown a pivot takes from which equation."""
    unknown = system.unknowns.at(column)
    component = column - unknown.start
    part = ""
    if unknown.kind not in ("torque", "qdd"):
        kinds = ("angular", "linear") if unknown.kind == "acceleration" else ("moment", "force")
        part = f", {kinds[component // 3]} {_AXES[component % 3]},"
    elif unknown.size > 1:
        part = f", freedom {component},"
    return f"{unknown}{part} from equation {equation.name!r}"


def _equations_by_row(system: LinearSystem) -> list[tuple[EquationBlock, int]]:
    """Equation of every row of D, and the row's place in it."""
    return [(block, i) for block in system.equations for i in range(block.size)]


def _constant_pivots(system: LinearSystem, order: PivotOrder) -> BoolArray:
    """True where the entry of D at a pivot is a nonzero constant."""
    constant: dict[tuple[int, int], float] = {}
    varying: set[tuple[int, int]] = set()
    start = 0
    for block in system.equations:
        for term in block.terms:
            for r, c in np.argwhere(term.pattern).tolist():
                place = (start + r, term.unknown.start + c)
                if callable(term.value):
                    varying.add(place)
                else:
                    constant[place] = constant.get(place, 0.0) + float(term.value[r, c])
        start += block.size
    return np.array([p not in varying and constant.get(p, 0) != 0 for p in order.pivots], bool)


def _joint_inertias(
    system: LinearSystem, order: PivotOrder, effective: BoolArray, constant: BoolArray
) -> BoolArray:
    """True for pivots that are joint inertias by the argument of the module."""
    laws = _LawsTaken(system)
    argued = np.zeros(len(effective), dtype=bool)
    equations = _equations_by_row(system)
    for k, (r, c) in enumerate(order.pivots):
        (equation, i), unknown = equations[r], system.unknowns.at(c)
        same_part = equation.body == unknown.body and i == c - unknown.start
        if same_part and _LAW_GIVES.get(equation.kind) == unknown.kind and constant[k]:
            laws.take(equation.body)
        elif same_part and (equation.kind, unknown.kind) == ("torque", "qdd"):
            argued[k] = all(laws.complete(j) for j in system.unknowns.driven[equation.body])
            if not argued[k] and effective[k]:
                break
        elif effective[k]:
            break
    return argued


class _LawsTaken:
    """How many scalar laws of each body have given their unknown."""

    def __init__(self, system: LinearSystem) -> None:
        robot = system.robot
        self.children = robot.children
        self.open = [18 if system.unknowns.net_wrench else 12] * robot.n_bodies
        self.closed: set[int] = set()  # bodies found complete, with all they carry

    def take(self, body: int) -> None:
        self.open[body] -= 1

    def complete(self, body: int) -> bool:
        """True if all laws of a body and of all it carries are taken."""
        waiting, met = [body], []
        while waiting:
            i = waiting.pop()
            if self.open[i]:
                return False
            met.append(i)
            waiting.extend(child for child in self.children[i] if child not in self.closed)
        self.closed.update(met)
        return True


# ---- pivots of the symmetric elimination: joint inertias -----------------------------------

SAMPLES = 20
OWN_SHARE = 1e-9
"""Least share of a body's own inertia, relative to its largest moment, that counts as some."""
SINGULAR = 1e-12
"""A pivot below this part of the joint's composite inertia is rounding: H is singular."""


class PivotSafety(NamedTuple):
    """Pivot of a joint: its name, why it is safe, and the least share of H_ii it kept."""

    joint: str
    safe_by: SafeBy
    worst_share: float


def pivot_safety(robot: KinematicTree, known: BoolArray) -> tuple[PivotSafety, ...]:
    """Judge the pivot of every joint whose qdd is unknown; ``known`` (nv,) marks the others.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any sampled state, naming it.
    """
    shares = _sampled_shares(robot, known)
    found = []
    for i, v in enumerate(robot.v_slices()):
        if robot.bodies[i].coupling is None and v.stop > v.start and not known[v].any():
            safe = _has_own_inertia(robot, v)
            share = float(shares[v].min())
            found.append(
                PivotSafety(robot.joint_names[i], "argument" if safe else "sampling", share)
            )
    return tuple(found)


def symmetric_pivots(
    robot: KinematicTree, known: BoolArray, steps: Sequence[SymmetricStep]
) -> tuple[PlannedPivot, ...]:
    """Pivots of the elimination in symmetric pairs, with the reason why they are safe."""
    found = {pivot.joint: pivot for pivot in pivot_safety(robot, known)}
    planned = []
    for k, step in enumerate(steps):
        if step.kind == "pivot":
            coupling = robot.bodies[step.body].coupling
            pivot = found[robot.joint_names[step.body if coupling is None else coupling.leader]]
            name = f"inertia of joint {pivot.joint!r}"
            planned.append(PlannedPivot(k, name, pivot.safe_by, pivot.worst_share))
    return tuple(planned)


def _has_own_inertia(robot: KinematicTree, v: slice) -> bool:
    """Whether S^T I S + armature of the bodies moved by freedoms v is positive definite."""
    own = np.diag(robot.armature[v])
    scale = float(robot.armature[v].max(initial=0.0))
    for moments, S, slot in zip(
        robot.moments, robot.motion_subspace, robot.v_slices(), strict=True
    ):
        if slot == v:
            own = own + S.T @ moments.matrix() @ S
            scale = max(scale, float(np.abs(moments.matrix()).max()))
    return bool(np.linalg.eigvalsh(own)[0] > OWN_SHARE * scale)


def _sampled_shares(robot: KinematicTree, known: BoolArray) -> Array:
    """Least pivot / H_ii (nv,) over sampled states; 1 where qdd is known."""
    shares = np.ones(robot.nv)
    unknown = np.flatnonzero(~known)
    rng = np.random.default_rng(0)
    best = np.zeros(len(unknown))
    for _ in range(SAMPLES if len(unknown) else 0):
        q = robot.random_configuration(rng, limited=False)
        H = crba_scalars(robot, q)[np.ix_(unknown, unknown)]
        share = _pivots(H) / np.maximum(np.diag(H), np.finfo(float).tiny)
        shares[unknown] = np.minimum(shares[unknown], share)
        best = np.maximum(best, share)
    if (best < SINGULAR).any():
        without = set(unknown[best < SINGULAR].tolist())
        names = [
            name
            for name, v in zip(robot.joint_names, robot.v_slices(), strict=True)
            if without & set(range(v.start, v.stop))
        ]
        raise SingularSystemError(
            f"robot {robot.name!r}: the acceleration of joint {', '.join(map(repr, names))} is"
            " not determined: the bodies it moves have no inertia about its axis; give them"
            " mass or the joint armature"
        )
    return shares


def _pivots(H: Array) -> Array:
    """Pivots (n,) of the elimination of H from the last freedom to the first."""
    A = H.copy()
    pivots = np.empty(len(A))
    for k in reversed(range(len(A))):
        pivots[k] = A[k, k]
        if A[k, k] > 0:
            A[:k, :k] -= np.outer(A[:k, k], A[:k, k]) / A[k, k]
    return pivots
