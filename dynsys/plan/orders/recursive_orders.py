"""Orders that follow the robot: those of [NORI], and elimination along the tree.

Every law gives one unknown with the pivot -1: balance_i gives f_i, acceleration_i gives a_i
(the net wrench law f^B_i), torque_i gives tau_i, unless the torque is known: then it gives
qdd_i, with the joint's inertia as pivot. Whatever else is in the system (sensors in place of
known quantities) is left over: after the laws its rows speak of few unknowns only, and
Markowitz's order takes these; give it values at sampled states, or its pivots may be zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import spsolve_triangular

from dynsys.errors import ModelError, StructurallySingularError
from dynsys.model.tree import KinematicTree
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import (
    AbstractOrdering,
    OrderingContext,
    Pattern,
    PivotOrder,
    require_square,
)
from dynsys.plan.orders.peeling import peel
from dynsys.system.equations import EquationBlock, Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock, UnknownKind
from dynsys.types import Array, IntArray, ScalarArray

__all__ = [
    "AbaFactors",
    "ArticulatedBody",
    "LeafToRoot",
    "NewtonEuler",
    "RootToLeaf",
    "aba_factors",
    "aba_order",
    "articulated_inertias",
    "rnea_order",
]

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


# ----------------------------------------------------------------------
# The recursive Newton-Euler algorithm as a pair of permutations: Property 1 of [NORI].
#
# ``D[row_order][:, col_order]`` of inverse dynamics is lower triangular with -1 and 1 on its
# diagonal, so forward substitution solves it without factorisation.


def rnea_order(system: LinearSystem) -> tuple[IntArray, IntArray]:
    """Row and column order that make inverse dynamics lower triangular, [NORI] eq. (10)-(11).

    columns  f^x_1, qdd_1 .. f^x_N, qdd_N,  a_1 .. a_N,  (f^B_N), f_N, tau_N ..
             (f^B_1), f_1, tau_1
    rows     the known-quantity equations, acceleration, (net wrench), balance and torque laws,
             each in the place of the unknown it determines

    Beyond (10)-(11): a torque waits for the last wrench of the joints coupled to it (mimic),
    and f^B_i, where it is an unknown, comes just before f_i.

    Parameters
    ----------
    system : laws plus all external wrenches and all joint accelerations as known quantities.
    """
    columns: list[UnknownBlock] = []
    rows: list[EquationBlock] = []
    for kind, body in _rnea_sequence(system):
        columns.append(system.unknowns.block(kind, body))
        rows.append(determining_equation(system, kind, body))
    return stacked(system.rows(block) for block in rows), stacked(b.columns for b in columns)


def _rnea_sequence(system: LinearSystem) -> Iterable[tuple[UnknownKind, int]]:
    robot = system.robot
    driven = system.unknowns.driven
    complete_at: dict[int, list[int]] = {}
    for leader, joints in driven.items():
        complete_at.setdefault(min(joints), []).append(leader)
    for i in range(robot.n_bodies):
        yield "external_wrench", i
        if i in driven:
            yield "qdd", i
    for i in range(robot.n_bodies):
        yield "acceleration", i
    for i in reversed(range(robot.n_bodies)):
        if system.unknowns.net_wrench:
            yield "net_wrench", i
        yield "joint_wrench", i
        for leader in complete_at.get(i, ()):
            yield "torque", leader


_DETERMINED_BY = {
    "external_wrench": "known_external_wrench",
    "qdd": "known_qdd",
    "acceleration": "acceleration",
    "net_wrench": "net_wrench",
    "joint_wrench": "balance",
    "torque": "torque",
}


def determining_equation(system: LinearSystem, kind: UnknownKind, body: int) -> EquationBlock:
    """Return the equation that gives an unknown in the recursion of inverse dynamics."""
    names = system.robot.joint_names if kind in ("torque", "qdd") else system.robot.body_names
    return system.equation(f"{_DETERMINED_BY[kind]}({names[body]})")


def stacked(blocks: Iterable[IntArray]) -> IntArray:
    """One index array from those of blocks."""
    return np.concatenate(list(blocks)).astype(np.intp)


# ----------------------------------------------------------------------
# The articulated-body algorithm as products of sparse matrices: Property 2 of [NORI].
#
# With the articulated inertias IA_i in hand, five block-sparse matrices turn the system of
# forward dynamics into a lower triangular one ([NORI] appendix B):
#
#     T = W_left D W_right,   T[row_order][:, col_order] lower triangular,   W_left = W4 W3 W2
#     W1
#
#     T d' + W_left b = 0,    d = W_right d'
#
# Deviations from the paper: (a) it writes ``T d + b = 0``; W_left multiplies b as well, and the
# triangular solve gives d', in which f_i is replaced by p_i = f_i - IA_i a_i. (b) Its row order
# (34) is misprinted, see :func:`aba_order`. (c) Its joints have one freedom and no rotor: here
# joint inertias are matrices S^T IA S + armature. (d) Where f^B_i is an unknown it is replaced
# by f^B_i - I_i a_i, as the scripts behind the paper do.

_Block: TypeAlias = tuple[IntArray, IntArray, ScalarArray]


def articulated_inertias(kinematics: Kinematics) -> list[Array]:
    """IA_i (6, 6) of every body: the inertia felt at its joint ([NORI] eq. 12 I^a, I^A).

    IA_i = I_i + sum over children X_j^T (IA_j - U_j (S_j^T U_j + armature_j)^-1 U_j^T) X_j,
    U_j = IA_j S_j
    """
    robot = kinematics.robot
    IA = [body.inertia.matrix() for body in robot.bodies]
    for j in reversed(range(robot.n_bodies)):
        if (parent := int(robot.parent[j])) >= 0:
            U = IA[j] @ robot.motion_subspace[j]
            Ia = IA[j] - U @ np.linalg.solve(_joint_inertia(robot, j, IA[j]), U.T)
            X = kinematics.X_up[j]
            IA[parent] = IA[parent] + X.T @ Ia @ X
    return IA


def _joint_inertia(robot: KinematicTree, i: int, IA: Array) -> Array:
    """S_i^T IA_i S_i + armature_i (nv_i, nv_i)."""
    S = robot.motion_subspace[i]
    return S.T @ IA @ S + np.diag(robot.armature[robot.v_slices()[i]])


@final
@dataclass(frozen=True, eq=False)
class AbaFactors:
    """The matrices of [NORI] appendix B at one state: W^R and W^L1 .. W^L4, unpermuted."""

    right: csr_array[np.float64]
    left: tuple[csr_array[np.float64], ...]

    def left_product(self) -> csr_array[np.float64]:
        """W^L = W^L4 W^L3 W^L2 W^L1."""
        W1, W2, W3, W4 = self.left
        return csr_array(W4 @ (W3 @ (W2 @ W1)))

    def triangular(self, D: csc_array[np.float64]) -> csr_array[np.float64]:
        """W^L D W^R: lower triangular once permuted by :func:`aba_order`."""
        return csr_array(self.left_product() @ D @ self.right)

    def solve(self, system: LinearSystem, D: csc_array[np.float64], b: Array) -> Array:
        """Return d with D d + b = 0 by one forward substitution: ABA as matrix products."""
        row_order, col_order = aba_order(system)
        T = self.triangular(D)[row_order][:, col_order]
        rhs = -np.asarray(self.left_product() @ b)[row_order]
        replaced = np.zeros(system.unknowns.size)
        replaced[col_order] = spsolve_triangular(csr_array(_lower(T)), rhs, lower=True)
        return np.asarray(self.right @ replaced)


def _lower(T: csr_array[np.float64]) -> csr_array[np.float64]:
    """Lower triangle of T; what the products leave above it is rounding of zero."""
    coo = T.tocoo()
    keep = coo.row >= coo.col
    return csr_array((coo.data[keep], (coo.row[keep], coo.col[keep])), shape=T.shape)


def aba_factors(system: LinearSystem, kinematics: Kinematics) -> AbaFactors:
    """W^R and W^L1 .. W^L4 of a forward-dynamics system at a state ([NORI] eq. 28-32).

    Raises
    ------
    ModelError
        if joints are coupled (mimic): articulated inertias then do not exist body by body.
    """
    robot = system.robot
    if robot.is_coupled:
        raise ModelError(
            f"robot {robot.name!r} has coupled (mimic) joints, for which the articulated-body"
            " algorithm does not hold; read it with independent mimic joints"
        )
    IA = articulated_inertias(kinematics)
    right: list[_Block] = []
    left: tuple[list[_Block], ...] = ([], [], [], [])
    rows = {(block.kind, block.body): system.rows(block) for block in system.equations}
    columns = {(block.kind, block.body): block.columns for block in system.unknowns.blocks}
    for i in range(robot.n_bodies):
        S, parent = robot.motion_subspace[i], int(robot.parent[i])
        acceleration = columns["acceleration", i]
        right.append((columns["joint_wrench", i], acceleration, IA[i]))  # (28)
        if system.unknowns.net_wrench:
            inertia = robot.bodies[i].inertia.matrix()
            right.append((columns["net_wrench", i], acceleration, inertia))
        motion = rows["acceleration", i]
        if S.shape[1]:
            torque, joint_inertia = rows["torque", i], _joint_inertia(robot, i, IA[i])
            left[0].append((torque, motion, S.T @ IA[i]))  # (29)
            left[1].append((torque, torque, np.linalg.inv(joint_inertia)))  # (30)
            left[2].append((motion, torque, -S))  # (31)
        if parent >= 0:
            X = kinematics.X_up[i]
            left[3].append((rows["balance", parent], motion, X.T @ IA[i]))  # (32)
    n_rows, n_cols = system.shape
    return AbaFactors(
        _identity_but(n_cols, right), tuple(_identity_but(n_rows, W) for W in left)
    )


def _identity_but(n: int, blocks: Sequence[_Block]) -> csr_array[np.float64]:
    """Identity (n, n) with the given blocks (rows, columns, values) in their places."""
    diagonal = np.ones(n)
    rows, columns, values = [np.arange(n)], [np.arange(n)], [diagonal]
    for r, c, block in blocks:
        if r is c:
            diagonal[r] = 0.0
        rows.append(np.repeat(r, len(c)))
        columns.append(np.tile(c, len(r)))
        values.append(block.ravel())
    places = (np.concatenate(rows), np.concatenate(columns))
    return csr_array((np.concatenate(values), places), shape=(n, n))


def aba_order(system: LinearSystem) -> tuple[IntArray, IntArray]:
    """Row and column order under which W^L D W^R is lower triangular, [NORI] eq. (33)-(34).

    columns  f^x_1, tau_1 .. f^x_N, tau_N,  (f^B_1 .. f^B_N),  f_N .. f_1,  a_1 .. a_N,
             qdd_1 .. qdd_N
    rows     c(7f^x_1), c(14tau_1) .. ,  (net wrench),  c(3f_N) .. c(3f_1),  c(3a_1) .. c(3a_N),
             c(3tau_1) .. c(3tau_N)

    Deviates from (34), which has c(3tau_i), in descending order, where c(14tau_i) must stand,
    and ends with c(14qdd_i), an equation that does not exist. The known torque determines
    tau_i; the torque law, multiplied by the inverse joint inertia, determines qdd_i.
    """
    bodies = range(system.robot.n_bodies)
    moving = [i for i in bodies if system.robot.joints[i].nv]
    sequence: list[tuple[UnknownKind, str, int]] = []
    for i in bodies:
        sequence.append(("external_wrench", "known_external_wrench", i))
        if i in moving:
            sequence.append(("torque", "known_torque", i))
    if system.unknowns.net_wrench:
        sequence += [("net_wrench", "net_wrench", i) for i in bodies]
    sequence += [("joint_wrench", "balance", i) for i in reversed(bodies)]
    sequence += [("acceleration", "acceleration", i) for i in bodies]
    sequence += [("qdd", "torque", i) for i in moving]
    rows = {(block.kind, block.body): system.rows(block) for block in system.equations}
    return (
        stacked(rows[kind, i] for _, kind, i in sequence),
        stacked(system.unknowns.block(kind, i).columns for kind, _, i in sequence),
    )
