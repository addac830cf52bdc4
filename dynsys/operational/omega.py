"""Lambda^-1 = R Omega R^T from blocks of Omega = S H^-1 S^T, and what such recursions share.

Omega_ij (6, 6) is the velocity of body i per impulsive wrench on body j, each in its own
coordinates. The recursions (``rjk``, ``chang_khatib``, ``pv_osimr``) differ in the blocks they
compute and in their order; all of them start from the force propagators of the joints,

    psi_i = X_i^T tau_i,  tau_i = 1 - U_i D_i^-1 S_i^T          mobility_i = S_i D_i^-1 S_i^T

psi takes forces to the parent past the joint, its transpose motions back. U and D are those of
the articulated-body recursion (:mod:`dynsys.loops.articulated`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.tree_state import TreeState
from dynsys.model.spatial import Transform
from dynsys.operational.tasks import TaskSpace
from dynsys.types import Array, IntArray

__all__ = ["Gathering", "add_transposed_product", "multiply", "propagators", "wanted_bodies"]


def wanted_bodies(space: TaskSpace) -> list[int]:
    """Bodies that the coordinates depend on, ascending."""
    return sorted({body for bodies in space.bodies for body in bodies})


def propagators(state: TreeState) -> tuple[Array, Array]:
    """psi and mobility (N, 6, 6) of all bodies: steps 1, 2 of [CK] table 1.

    Raises
    ------
    SingularSystemError
        naming the joint that moves no inertia.
    """
    tree, (U, D) = state.tree, state.articulated
    psi, mobility = np.zeros_like(state.X), np.zeros_like(state.X)
    pass_joints(tree.first, state.X, tree.S, U, D, psi, mobility)
    return psi, mobility


@Loop
def pass_joints(
    first: IntArray, X: Array, S: Array, U: Array, D: Array, psi: Array, mobility: Array
) -> None:
    """Fill psi and mobility, zeros at first, from U (nv, 6) and D (nv,).

    A joint of several freedoms is passed one freedom at a time, last first, each by a rank-one
    step: the joint is the chain of the expanded graph, with massless bodies between.
    """
    tau, row = np.empty((6, 6)), np.empty(6)
    for i in range(len(X)):
        for r in range(6):
            for c in range(6):
                tau[r, c] = 1.0 if r == c else 0.0
        for k in range(first[i + 1] - 1, first[i] - 1, -1):
            for c in range(6):  # row = s_k' tau
                row[c] = 0.0
                for r in range(6):
                    row[c] += S[k, r] * tau[r, c]
            for r in range(6):  # mobility += row' D^-1 row, tau -= U_k D^-1 row
                for c in range(6):
                    mobility[i, r, c] += row[r] * row[c] / D[k]
                    tau[r, c] -= U[k, r] / D[k] * row[c]
        add_transposed_product(X[i], tau, psi[i])


@Loop
def multiply(A: Array, B: Array, out: Array) -> None:
    """Write A B (6, 6)."""
    for r in range(6):
        for c in range(6):
            out[r, c] = 0.0
            for k in range(6):
                out[r, c] += A[r, k] * B[k, c]


@Loop
def add_transposed_product(A: Array, B: Array, out: Array) -> None:
    """Add A^T B to out (6, 6)."""
    for r in range(6):
        for c in range(6):
            for k in range(6):
                out[r, c] += A[k, r] * B[k, c]


@final
class Gathering:
    """R Omega R^T of one operational space, its places of blocks found once.

    ``place(a, b)`` says where Omega_ab of two wanted bodies is stored: k for block k, -2 - k
    for its transpose, -1 if it is zero.
    """

    def __init__(self, space: TaskSpace, place: Callable[[int, int], int]) -> None:
        self.space = space
        pieces = [(task, body) for task, bodies in enumerate(space.bodies) for body in bodies]
        self._task = np.array([task for task, _ in pieces], dtype=np.intp)
        sizes = [space.rows(task).stop - space.rows(task).start for task, _ in pieces]
        self._start = np.cumsum([0, *sizes]).astype(np.intp)
        found = [[place(a, b) for _, b in pieces] for _, a in pieces]
        self._block = np.array(found, dtype=np.intp).reshape(len(pieces), len(pieces))

    def __call__(self, poses: Sequence[Transform], blocks: Array) -> Array:
        """Lambda^-1 (m, m) from the blocks (n_blocks, 6, 6)."""
        space = self.space
        pieces = [R for rows in space.coefficients(poses) for R in rows]
        R = np.concatenate([np.zeros((0, 6)), *pieces])
        out = np.zeros((space.m, space.m))
        multiply_blocks(self._task, space.first_row, self._start, R, self._block, blocks, out)
        return out


@Loop
def multiply_blocks(
    task: IntArray,
    first_row: IntArray,
    start: IntArray,
    R: Array,
    block: IntArray,
    blocks: Array,
    out: Array,
) -> None:
    """Add R_a Omega_ab R_b^T of all pieces a, b into out (m, m), then mirror it.

    Piece p belongs to task[p] and has rows start[p] .. start[p + 1] - 1 of R (.., 6).
    """
    half = np.empty(6)
    for a in range(len(task)):
        for i in range(start[a], start[a + 1]):
            row = first_row[task[a]] + i - start[a]
            for b in range(len(task)):
                k = block[a, b]
                if k == -1 or task[b] > task[a]:
                    continue
                for c in range(6):
                    half[c] = 0.0
                    for r in range(6):
                        if k >= 0:
                            half[c] += R[i, r] * blocks[k, r, c]
                        else:
                            half[c] += R[i, r] * blocks[-2 - k, c, r]
                for j in range(start[b], start[b + 1]):
                    column = first_row[task[b]] + j - start[b]
                    for c in range(6):
                        out[row, column] += half[c] * R[j, c]
    for row in range(len(out)):
        for column in range(row):
            out[column, row] = out[row, column]
