"""Orders that follow the robot: the recursion of [NORI], and elimination along the tree.

Every law gives one unknown with the pivot -1: balance_i gives f_i, acceleration_i gives a_i
(the net wrench law f^B_i), torque_i gives tau_i, unless the torque is known: then it gives
qdd_i, with the joint's inertia as pivot. Whatever else is in the system (sensors in place of
known quantities) is left over: after the laws its rows speak of few unknowns only, and
Markowitz's order takes these; give it values at sampled states, or its pivots may be zero.

    NewtonEuler   inverse dynamics is triangular under it: Property 1 of [NORI]
    LeafToRoot    body by body, leaves first: the order of ABA
    RootToLeaf    accelerations outwards, then wrenches back: RNEA with open parameters
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import final

import numpy as np

from dynsys.errors import StructurallySingularError
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import (
    AbstractOrdering,
    OrderingContext,
    Part,
    Pattern,
    PivotOrder,
)
from dynsys.plan.orders.peeling import peel
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from dynsys.types import IntArray

__all__ = ["LeafToRoot", "NewtonEuler", "RootToLeaf", "rnea_order"]

_LAWS = ("acceleration", "net_wrench", "balance", "torque")
_NONE = np.zeros(0, dtype=np.intp)


# ---- the recursive Newton-Euler algorithm as a pair of permutations ------------------------


@final
@dataclass(frozen=True)
class NewtonEuler(AbstractOrdering):
    """Order of the recursive Newton-Euler algorithm, [NORI] eq. (10)-(11): inverse dynamics."""

    name: str = "RNEA"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        return PivotOrder(*rnea_order(_system(self, context)))


def rnea_order(system: LinearSystem) -> tuple[IntArray, IntArray]:
    """Row and column order that make inverse dynamics lower triangular, [NORI] eq. (10)-(11).

    columns  f^x_1, qdd_1 .. f^x_N, qdd_N,  a_1 .. a_N,  (f^B_N), f_N, tau_N ..
             (f^B_1), f_1, tau_1
    rows     the known-quantity equations, acceleration, (net wrench), balance and torque laws,
             each in the place of the unknown it determines

    ``D[row_order][:, col_order]`` has -1 and 1 on its diagonal: forward substitution solves it.
    Beyond (10)-(11): a torque waits for the last wrench of the joints coupled to it (mimic),
    and f^B_i, where it is an unknown, comes just before f_i.

    Parameters
    ----------
    system : laws plus all external wrenches and all joint accelerations as known quantities.
    """
    robot = system.robot
    rows: list[IntArray] = []
    columns: list[IntArray] = []
    for kind, equation, i in _rnea_sequence(system):
        names = robot.joint_names if kind in ("torque", "qdd") else robot.body_names
        rows.append(system.rows(system.equation(f"{equation}({names[i]})")))
        columns.append(system.unknowns.block(kind, i).columns)
    return np.concatenate(rows), np.concatenate(columns)


def _rnea_sequence(system: LinearSystem) -> Iterable[tuple[UnknownKind, str, int]]:
    """Unknowns with the equations that give them."""
    bodies, complete_at = range(system.robot.n_bodies), _complete_at(system)
    for i in bodies:
        yield "external_wrench", "known_external_wrench", i
        if i in system.unknowns.driven:
            yield "qdd", "known_qdd", i
    for i in bodies:
        yield "acceleration", "acceleration", i
    for i in reversed(bodies):
        if system.unknowns.net_wrench:
            yield "net_wrench", "net_wrench", i
        yield "joint_wrench", "balance", i
        for leader in complete_at.get(i, ()):
            yield "torque", "torque", leader


def _system(ordering: AbstractOrdering, context: OrderingContext) -> LinearSystem:
    if context.system is None:
        raise StructurallySingularError(
            f"the order {ordering.name!r} follows a robot: give it an OrderingContext with the"
            " system whose pattern is ordered"
        )
    return context.system


def _complete_at(system: LinearSystem) -> dict[int, list[int]]:
    """Joints whose torque is complete once the wrench of a body is known, leaf to root.

    That is the body itself, or the first of the joints that a coupling (mimic) drives.
    """
    complete_at: dict[int, list[int]] = {}
    for leader, joints in system.unknowns.driven.items():
        complete_at.setdefault(min(joints), []).append(leader)
    return complete_at


# ---- elimination along the tree ------------------------------------------------------------


@final
@dataclass(frozen=True)
class LeafToRoot(AbstractOrdering):
    """Body by body, leaves first: f_i, a_i, qdd_i. The symmetric order, and that of ABA.

    In terms of dual pairs, f_i with acceleration_i and a_i with balance_i are one 2 x 2 pivot
    [[0, -1], [-1, M]], taken here through its entries -1; qdd_i with torque_i is the joint's
    articulated inertia, positive for every physical robot. What is known goes first: stated
    quantities, and the accelerations of bodies that only joints of known acceleration carry.
    """

    name: str = "leaf to root"
    leftovers: Markowitz = field(default_factory=lambda: Markowitz("fill"))

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        taken = _LawsFirst(_system(self, context), pattern)
        taken.known_accelerations()
        for i in reversed(taken.bodies):
            taken.law("net_wrench", "net_wrench", i)
            taken.law("balance", "joint_wrench", i)
            taken.law("acceleration", "acceleration", i)
            taken.qdd(i)
        return self.leftovers.complete(pattern, context, taken.pivots)


@final
@dataclass(frozen=True)
class RootToLeaf(AbstractOrdering):
    """Accelerations from the root outwards, then wrenches back: RNEA with parameters.

    Unknowns that no law gives are carried along as parameters: cheap where they are few, as
    with load cells.
    """

    name: str = "root to leaf"
    leftovers: Markowitz = field(default_factory=lambda: Markowitz("fill"))

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        taken = _LawsFirst(_system(self, context), pattern)
        for i in taken.bodies:
            taken.law("acceleration", "acceleration", i)
        for i in reversed(taken.bodies):
            taken.law("net_wrench", "net_wrench", i)
            taken.law("balance", "joint_wrench", i)
        return self.leftovers.complete(pattern, context, taken.pivots)


class _LawsFirst:
    """Pivots taken so far, each row and column once; stated quantities come first."""

    def __init__(self, system: LinearSystem, pattern: Pattern) -> None:
        self.system, self.bodies = system, range(system.robot.n_bodies)
        self.rows_of = {(e.kind, e.body): system.rows(e).tolist() for e in system.equations}
        stated = np.concatenate(
            [system.rows(e) for e in system.equations if e.kind not in _LAWS] or [_NONE]
        )
        part = Part(stated, np.arange(pattern.shape[1]))
        first = peel(OrderingContext().restricted(pattern, part)[0], columns=False).first
        self.pivots = list(zip(stated[first.rows].tolist(), first.cols.tolist(), strict=True))
        self.row_taken = {r for r, _ in self.pivots}
        self.col_taken = {c for _, c in self.pivots}
        self.complete_at = _complete_at(system)
        for leader in system.unknowns.driven:
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

    def qdd(self, i: int) -> None:
        """Take qdd of the joints whose wrenches are complete at body i and torques known."""
        for leader in self.complete_at.get(i, ()):
            tau = self.system.unknowns.block("torque", leader).columns.tolist()
            if self.col_taken.issuperset(tau):
                self.law("torque", "qdd", leader)
