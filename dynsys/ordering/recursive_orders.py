"""Orders that follow the robot: those of [NORI], and elimination along the tree.

Every law gives one unknown with the pivot -1: balance_i gives f_i, acceleration_i gives a_i
(the net wrench law f^B_i), torque_i gives tau_i, unless the torque is known: then it gives
qdd_i, with the joint's inertia as pivot. Whatever else is in the system (sensors in place of
known quantities) is left over: after the laws its rows speak of few unknowns only, and
Markowitz's order takes these; give it values at sampled states, or its pivots may be zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from dynsys.errors import StructurallySingularError
from dynsys.ordering.markowitz import Markowitz
from dynsys.ordering.orders import (
    AbstractOrdering,
    OrderingContext,
    Pattern,
    PivotOrder,
    require_square,
)
from dynsys.ordering.peeling import peel
from dynsys.system.aba_factors import aba_order
from dynsys.system.linear_system import LinearSystem
from dynsys.system.orders import rnea_order
from dynsys.system.unknowns import UnknownKind

__all__ = ["ArticulatedBody", "LeafToRoot", "NewtonEuler", "RootToLeaf"]

_LAWS = ("acceleration", "net_wrench", "balance", "torque")
_NONE = np.zeros(0, dtype=np.intp)

Pivots: TypeAlias = list[tuple[int, int]]


def _system(ordering: AbstractOrdering, context: OrderingContext | None) -> LinearSystem:
    if context is None or context.system is None:
        raise StructurallySingularError(
            f"the order {ordering.name!r} follows a robot: give it an OrderingContext with the"
            " system whose pattern is ordered"
        )
    return context.system


@final
@dataclass(frozen=True)
class NewtonEuler(AbstractOrdering):
    """Order of the recursive Newton-Euler algorithm, [NORI] eq. (10)-(11): inverse dynamics."""

    name: str = "RNEA"

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        return PivotOrder(*rnea_order(_system(self, context)))


@final
@dataclass(frozen=True)
class ArticulatedBody(AbstractOrdering):
    """Order of [NORI] eq. (33)-(34) for forward dynamics.

    W^L D W^R of [NORI] Property 2 is triangular under it. As a pivot order of D itself it
    leaves the joint-space inertia as the last block; ABA itself is :class:`LeafToRoot`.
    """

    name: str = "ABA"

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        return PivotOrder(*aba_order(_system(self, context)))


@final
@dataclass(frozen=True)
class LeafToRoot(AbstractOrdering):
    """Body by body, leaves first: f_i, a_i, qdd_i. The symmetric order, and that of ABA.

    In terms of dual pairs, f_i with acceleration_i and a_i with balance_i are one 2 x 2 pivot
    [[0, -1], [-1, M]], taken here through its entries -1; qdd_i with torque_i is the joint's
    articulated inertia, positive for every physical robot. What is known goes first: stated
    quantities, and the accelerations of bodies that only joints of known acceleration carry.
    """

    leftovers: Markowitz = field(default_factory=lambda: Markowitz("fill"))

    @property
    def name(self) -> str:
        return "leaf to root"

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        system = _system(self, context)
        plan = _Pivots(system, pattern)
        plan.known_accelerations()
        for i in reversed(range(system.robot.n_bodies)):
            plan.laws(i)
            plan.qdd(i)
        return self.leftovers.complete(pattern, context, plan.pivots)


@final
@dataclass(frozen=True)
class RootToLeaf(AbstractOrdering):
    """Accelerations from the root outwards, then wrenches back: RNEA with parameters.

    Unknowns that no law gives are carried along as parameters: cheap where they are few, as
    with load cells.
    """

    leftovers: Markowitz = field(default_factory=lambda: Markowitz("fill"))

    @property
    def name(self) -> str:
        return "root to leaf"

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        system = _system(self, context)
        plan = _Pivots(system, pattern)
        bodies = range(system.robot.n_bodies)
        for i in bodies:
            plan.law("acceleration", "acceleration", i)
        for i in reversed(bodies):
            plan.law("net_wrench", "net_wrench", i)
            plan.law("balance", "joint_wrench", i)
        return self.leftovers.complete(pattern, context, plan.pivots)


class _Pivots:
    """Pivots taken so far, each row and column once; stated quantities come first."""

    def __init__(self, system: LinearSystem, pattern: Pattern) -> None:
        require_square(pattern)
        self.system = system
        self.rows_of = {(e.kind, e.body): system.rows(e).tolist() for e in system.equations}
        stated = np.concatenate(
            [system.rows(e) for e in system.equations if e.kind not in _LAWS] or [_NONE]
        )
        part, _ = OrderingContext().restricted(pattern, stated, np.arange(pattern.shape[1]))
        peeling = peel(part, columns=False)
        rows = stated[peeling.first_rows].tolist()
        self.pivots: Pivots = list(zip(rows, peeling.first_cols.tolist(), strict=True))
        self.row_taken = {r for r, _ in self.pivots}
        self.col_taken = {c for _, c in self.pivots}
        self.complete_at: dict[int, list[int]] = {}  # last joint of a coupling, leaf to root
        for leader, joints in system.unknowns.driven.items():
            self.complete_at.setdefault(min(joints), []).append(leader)
            # tau is in no other equation: taken early, the torque law is left alone
            if self._alone(leader):
                self.law("torque", "torque", leader)

    def _alone(self, i: int) -> bool:
        """True if the torque law is the only equation left that uses the torque of joint i."""
        columns = self.system.unknowns.block("torque", i).columns
        starts, stops = self.system.indptr[columns], self.system.indptr[columns + 1]
        return bool((stops - starts == 1).all())

    def law(self, equation: str, kind: UnknownKind, i: int) -> None:
        """Take a law with the unknown it gives, where both are free."""
        if (equation, i) not in self.rows_of:
            return
        columns = self.system.unknowns.block(kind, i).columns.tolist()
        for r, c in zip(self.rows_of[equation, i], columns, strict=True):
            if r not in self.row_taken and c not in self.col_taken:
                self.pivots.append((r, c))
                self.row_taken.add(r)
                self.col_taken.add(c)

    def known_accelerations(self) -> None:
        """Take a_i, root first, of bodies that only joints of known acceleration carry."""
        robot, unknowns = self.system.robot, self.system.unknowns
        known = {-1}
        for i in range(robot.n_bodies):
            qdd = unknowns.block("qdd", i).columns.tolist() if robot.joints[i].nv else []
            if int(robot.parent[i]) in known and self.col_taken.issuperset(qdd):
                known.add(i)
                self.law("acceleration", "acceleration", i)

    def laws(self, i: int) -> None:
        """Take f_i, then a_i."""
        self.law("net_wrench", "net_wrench", i)
        self.law("balance", "joint_wrench", i)
        self.law("acceleration", "acceleration", i)

    def qdd(self, i: int) -> None:
        """Take qdd of the joints whose wrenches are complete at body i and torques known."""
        for leader in self.complete_at.get(i, ()):
            tau = self.system.unknowns.block("torque", leader).columns.tolist()
            if self.col_taken.issuperset(tau):
                self.law("torque", "qdd", leader)
