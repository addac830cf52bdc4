"""Lambda^-1 by the recursion of Rodriguez, Jain and Kreutz-Delgado ([OSI] appendix B).

    leaves to base:   psi_i = X_i^T tau_i and S_i D_i^-1 S_i^T (:mod:`dynsys.operational.omega`)
    base to leaves:   Omega_ii = S_i D_i^-1 S_i^T + psi_i^T Omega_pp psi_i        figure 14
    branches:         Omega_ij from the parents' block

[ROD] had it first. Cost O(N + m^2 d). To know the wanted blocks, others must be known:

    Omega_ii                      from the parent's diagonal block
    Omega_ij, i supports j        from Omega_i,parent(j)
    Omega_ij, on two branches     from Omega_parent(i),parent(j)

Figure 15 as printed marks need(parent(i), parent(j)) and later visits only pairs i <= j. Where
parent(i) > parent(j) the mark falls below the diagonal and is lost, and figure 14 then reads a
block that was never computed. Here the mark is put above the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, final

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.tree_state import TreeState
from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod
from dynsys.operational.omega import (
    Gathering,
    add_transposed_product,
    multiply,
    propagators,
    wanted_bodies,
)
from dynsys.operational.sparse_jacobian import ancestor
from dynsys.operational.tasks import TaskSpace
from dynsys.types import Array, IntArray

__all__ = ["BlockPlan", "Kind", "Method", "needed_blocks", "plan_blocks"]


@final
class Method(AbstractMethod):
    """Articulated-body inertias, then Omega block by block: O(N + m^2 d)."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        super().__init__(robot, space)
        self.plan = plan_blocks(robot.parent, wanted_bodies(space))
        place = self.plan.place
        self.gather = Gathering(space, lambda a, b: place[a, b] if a <= b else -2 - place[b, a])

    def lambda_inv(self, state: TreeState) -> Array:
        plan = self.plan
        blocks = np.zeros((len(plan.i), 6, 6))
        propagate(plan.i, plan.j, plan.kind, plan.source, *propagators(state), blocks)
        return self.gather(state.poses, blocks)


class Kind(IntEnum):
    """How a block of Omega is computed."""

    DIAGONAL = 0
    SUPPORTING = 1  # i supports j
    BRANCHES = 2
    BRANCHES_TRANSPOSED = 3  # from the transpose of a stored block
    ZERO = 4  # bodies of separate robots


def needed_blocks(
    parent: Sequence[int] | IntArray, bodies: Sequence[int], *, as_printed: bool = False
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


class BlockPlan(NamedTuple):
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
    """Fill the blocks (n_blocks, 6, 6), zeros at first: last two loops of [OSI] figure 14."""
    half = np.empty((6, 6))
    for b in range(len(row)):
        i, j = row[b], column[b]
        if kind[b] == DIAGONAL:
            blocks[b] = mobility[i]
        if kind[b] == ZERO or source[b] < 0:
            continue
        if kind[b] == TRANSPOSED:
            multiply(blocks[source[b]].T, psi[j], half)
        else:
            multiply(blocks[source[b]], psi[j], half)
        if kind[b] == SUPPORTING:
            blocks[b] = half
        else:
            add_transposed_product(psi[i], half, blocks[b])
