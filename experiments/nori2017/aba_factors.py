"""The articulated-body algorithm as products of sparse matrices: Property 2 of [NORI].

With the articulated inertias IA_i in hand, five block-sparse matrices turn the system of
forward dynamics into a lower triangular one ([NORI] appendix B):

    T = W_left D W_right,   T[row_order][:, col_order] lower triangular,
    W_left = W4 W3 W2 W1,   T d' + W_left b = 0,   d = W_right d'

Deviations from the paper: (a) it writes ``T d + b = 0``; W_left multiplies b as well, and the
triangular solve gives d', in which f_i is replaced by p_i = f_i - IA_i a_i. (b) Its row order
(34) is misprinted, see :func:`aba_order`. (c) Its joints have one freedom and no rotor: here
joint inertias are matrices S^T IA S + armature. (d) Where f^B_i is an unknown it is replaced
by f^B_i - I_i a_i, as the scripts behind the paper do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import spsolve_triangular

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["AbaFactors", "aba_factors", "aba_order", "articulated_inertias"]

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
        _stacked(rows[kind, i] for _, kind, i in sequence),
        _stacked(system.unknowns.block(kind, i).columns for kind, _, i in sequence),
    )


def _stacked(blocks: Iterable[IntArray]) -> IntArray:
    """One index array from those of blocks."""
    return np.concatenate(list(blocks)).astype(np.intp)
