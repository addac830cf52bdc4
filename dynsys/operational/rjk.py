"""The recursion of Rodriguez, Jain and Kreutz-Delgado for Omega = S H^-1 S^T ([OSI] figure 14).

    leaves to base:   D_i = S_i^T P_i S_i + armature      U_i = P_i S_i
                      tau_i = 1 - U_i D_i^-1 S_i^T        P_parent += X_i^T (tau_i P_i) X_i
    base to leaves:   Omega_ii = S_i D_i^-1 S_i^T + (X_i^T tau_i)^T Omega_pp (X_i^T tau_i)
    branches:         Omega_ij from the parents' block

P_i is an articulated-body inertia, Omega_ij (6, 6) the velocity of body i per impulsive wrench
on body j, each in its own coordinates. Cost O(N + m^2 d). [ROD] had it first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.jit import Loop
from dynsys.loops.packed import PackedTree
from dynsys.model.spatial import Transform
from dynsys.operational.tasks import TaskSpace, TreeState
from dynsys.operational.y_factor import ancestor
from dynsys.types import Array, IntArray

__all__ = [
    "BlockPlan",
    "Gathering",
    "Kind",
    "needed_blocks",
    "omega_blocks",
    "plan_blocks",
    "propagators",
    "propagators_at",
    "wanted_bodies",
]

# ----------------------------------------------------------------------
# Which blocks of Omega = S H^-1 S^T the RJK recursion must compute ([OSI] figure 15).
#
# Omega_ij is a 6x6 block per pair of bodies. To know the wanted ones, others must be known:
#
#     Omega_ii                      from the parent's diagonal block
#     Omega_ij, i supports j        from Omega_i,parent(j)
#     Omega_ij, on two branches     from Omega_parent(i),parent(j)
#
# Figure 15 as printed marks need(parent(i), parent(j)) and later visits only pairs i <= j.
# Where
# parent(i) > parent(j) the mark falls below the diagonal and is lost, and figure 14 then reads
# a
# block that was never computed. Here the mark is put above the diagonal.


class Kind(IntEnum):
    """How a block of Omega is computed."""

    DIAGONAL = 0
    SUPPORTING = 1  # i supports j
    BRANCHES = 2
    BRANCHES_TRANSPOSED = 3  # from the transpose of a stored block
    ZERO = 4  # bodies of separate robots


def needed_blocks(
    parent: Sequence[int] | IntArray,
    bodies: Sequence[int],
    *,
    as_printed: bool = False,
) -> list[tuple[int, int]]:
    """Pairs i <= j whose block of Omega is needed for the given bodies, in ascending order.

    ``as_printed`` follows [OSI] figure 15 to the letter; see the module for what it loses.

    Examples
    --------
    >>> needed_blocks([-1, 0, 0, 1], [2, 3])
    [(0, 0), (0, 1), (1, 1), (2, 2), (2, 3), (3, 3)]
    """
    wanted = sorted(set(bodies))
    waiting = [(i, j) for k, i in enumerate(wanted) for j in wanted[k:]]
    needed: set[tuple[int, int]] = set()
    while waiting:
        pair = waiting.pop()
        if pair in needed:
            continue
        needed.add(pair)
        kind, source = _source(parent, *pair)
        if source is None:
            continue
        if kind is Kind.BRANCHES_TRANSPOSED and as_printed:
            continue
        waiting.append(source)
    return sorted(needed)


def _source(
    parent: Sequence[int] | IntArray, i: int, j: int
) -> tuple[Kind, tuple[int, int] | None]:
    """How block (i, j), i <= j, is computed and from which block."""
    if i == j:
        p = int(parent[i])
        return Kind.DIAGONAL, (p, p) if p >= 0 else None
    common = ancestor(parent, i, j)
    if common < 0:
        return Kind.ZERO, None
    p, q = int(parent[i]), int(parent[j])
    if common == i:
        return Kind.SUPPORTING, (i, q)
    return (Kind.BRANCHES, (p, q)) if p <= q else (Kind.BRANCHES_TRANSPOSED, (q, p))


@final
@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Needed blocks in an order in which each comes after its source.

    Block k is (i[k], j[k]), computed as ``kind[k]`` from block ``source[k]`` (-1: none).
    """

    i: IntArray
    j: IntArray
    kind: IntArray
    source: IntArray
    place: dict[tuple[int, int], int]


def plan_blocks(parent: Sequence[int] | IntArray, bodies: Sequence[int]) -> BlockPlan:
    """Plan of the needed blocks: diagonal ones first, the others by rows ([OSI] figure 14)."""
    pairs = needed_blocks(parent, bodies)
    ordered = [p for p in pairs if p[0] == p[1]] + [p for p in pairs if p[0] != p[1]]
    place = {pair: k for k, pair in enumerate(ordered)}
    found = [_source(parent, *pair) for pair in ordered]
    return BlockPlan(
        np.array([i for i, _ in ordered], dtype=np.intp),
        np.array([j for _, j in ordered], dtype=np.intp),
        np.array([kind for kind, _ in found], dtype=np.intp),
        np.array([-1 if s is None else place[s] for _, s in found], dtype=np.intp),
        place,
    )


DIAGONAL, SUPPORTING = int(Kind.DIAGONAL), int(Kind.SUPPORTING)
TRANSPOSED, ZERO = int(Kind.BRANCHES_TRANSPOSED), int(Kind.ZERO)


def propagators(tree: PackedTree, X: Array) -> tuple[Array, Array]:
    """psi_i = X_i^T tau_i and S_i D_i^-1 S_i^T of every body, both (N, 6, 6).

    psi takes forces to the parent past the joint, its transpose motions back. A joint that
    moves no inertia gives values that are not finite.
    """
    psi, mobility = np.empty_like(X), np.zeros_like(X)
    articulate(
        tree.parent, X, tree.inertia.copy(), tree.S, tree.first, tree.armature, psi, mobility
    )
    return psi, mobility


def omega_blocks(plan: BlockPlan, psi: Array, mobility: Array) -> Array:
    """Needed blocks of Omega (n_blocks, 6, 6), in the order of the plan."""
    blocks = np.zeros((len(plan.i), 6, 6))
    propagate(plan.i, plan.j, plan.kind, plan.source, psi, mobility, blocks)
    return blocks


@Loop
def articulate(
    parent: IntArray,
    X: Array,
    P: Array,
    S: Array,
    first: IntArray,
    armature: Array,
    psi: Array,
    mobility: Array,
) -> None:
    """Second loop of [OSI] figure 14; P (N, 6, 6) are inertias first, articulated in the end.

    A joint of several freedoms is passed one freedom at a time, last first, each by a rank-one
    step: the joint is the chain of the expanded graph, with massless bodies between.
    """
    U, half = np.empty(6), np.empty((6, 6))
    for i in range(len(parent) - 1, -1, -1):
        for r in range(6):
            for c in range(6):
                psi[i, r, c] = 1.0 if r == c else 0.0  # tau of the joint so far
        for k in range(first[i + 1] - 1, first[i] - 1, -1):
            D = armature[k]
            for r in range(6):
                U[r] = 0.0
                for c in range(6):
                    U[r] += P[i, r, c] * S[k, c]
                D += S[k, r] * U[r]
            for r in range(6):  # past this freedom: tau_k tau, tau^T s D^-1 s^T tau
                half[0, r] = 0.0
                for c in range(6):
                    half[0, r] += S[k, c] * psi[i, c, r]
            for r in range(6):
                for c in range(6):
                    mobility[i, r, c] += half[0, r] * half[0, c] / D
            for r in range(6):
                for c in range(6):
                    psi[i, r, c] -= U[r] / D * half[0, c]
            for r in range(6):
                for c in range(6):
                    P[i, r, c] -= U[r] * U[c] / D
        if parent[i] >= 0:
            for r in range(6):
                for c in range(6):
                    half[r, c] = 0.0
                    for k in range(6):
                        half[r, c] += P[i, r, k] * X[i, k, c]
            for r in range(6):
                for c in range(6):
                    for k in range(6):
                        P[parent[i], r, c] += X[i, k, r] * half[k, c]
        half[:, :] = psi[i]
        for r in range(6):
            for c in range(6):
                psi[i, r, c] = 0.0
                for k in range(6):
                    psi[i, r, c] += X[i, k, r] * half[k, c]


@Loop
def propagate(
    row: IntArray,
    column: IntArray,
    kind: IntArray,
    source: IntArray,
    psi: Array,
    mobility: Array,
    blocks: Array,
) -> None:
    """Third and fourth loop of [OSI] figure 14."""
    half = np.empty((6, 6))
    for b in range(len(row)):
        i, j = row[b], column[b]
        if kind[b] == DIAGONAL:
            blocks[b] = mobility[i]
        if kind[b] == ZERO or source[b] < 0:
            continue
        for r in range(6):
            for c in range(6):
                half[r, c] = 0.0
                for k in range(6):
                    if kind[b] == TRANSPOSED:
                        half[r, c] += blocks[source[b], k, r] * psi[j, k, c]
                    else:
                        half[r, c] += blocks[source[b], r, k] * psi[j, k, c]
        if kind[b] == SUPPORTING:
            blocks[b] = half
            continue
        for r in range(6):
            for c in range(6):
                for k in range(6):
                    blocks[b, r, c] += psi[i, k, r] * half[k, c]


# ----------------------------------------------------------------------
# Lambda^-1 = R Omega R^T from blocks of Omega.
#
# Shared by the recursions that give Omega_ij (6, 6), the velocity of body i per impulsive
# wrench
# on body j, for the bodies that an operational space depends on.


def wanted_bodies(space: TaskSpace) -> list[int]:
    """Bodies that the coordinates depend on, ascending."""
    return sorted({body for bodies in space.bodies for body in bodies})


def propagators_at(state: TreeState) -> tuple[Array, Array]:
    """Force propagators and S D^-1 S^T of all bodies (N, 6, 6): steps 1, 2 of [CK] table 1.

    Raises
    ------
    SingularSystemError
        naming the joint that moves no inertia.
    """
    psi, mobility = propagators(state.tree, state.X)
    if not np.isfinite(mobility).all():
        body = int(np.argwhere(~np.isfinite(mobility))[-1][0])
        raise SingularSystemError(
            f"robot {state.robot.name!r}: the bodies that joint"
            f" {state.robot.joint_names[body]!r} moves have no inertia along it; give them"
            " mass or the joint armature"
        )
    return psi, mobility


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
