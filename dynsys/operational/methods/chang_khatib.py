"""Lambda^-1 by the recursion of Chang and Khatib ([CK] table 1): O(n m), m bodies.

    steps 1, 2   transforms; force propagators L_i, leaves to base                   eq. 2, 8
    step 3       Omega_ii = S_i D_i^-1 S_i^T + L_i^T Omega_hh L_i, h = parent(i)     eq. 24
    step 4       Omega_ij = Omega_i,parent(j) L_j down from Omega_hh, where h is the
                 nearest common ancestor of i and j; Omega_ih = Omega_hi^T           eq. 29
    step 5       Lambda^-1_ij = R_i Omega_ij R_j^T                                   eq. 22

The operational points may be tips or interior bodies. Blocks that several pairs pass through
are computed once: at most n per operational body and per branching body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

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
from dynsys.types import Array, BoolArray, IntArray

__all__ = ["Method", "Recursion", "plan_recursion"]


@final
class Method(AbstractMethod):
    """Propagators, then Omega along the ways between operational bodies: O(n m + m^2)."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        super().__init__(robot, space)
        self.plan = plan_recursion(robot.parent, wanted_bodies(space))
        self.gather = Gathering(space, self.plan.find)

    def lambda_inv(self, state: TreeState) -> Array:
        plan = self.plan
        blocks = np.zeros((len(plan.body), 6, 6))
        propagate_outward(plan.body, plan.source, plan.square, *propagators(state), blocks)
        return self.gather(state.poses, blocks)


@final
@dataclass(frozen=True, eq=False)
class Recursion:
    """Blocks in the order they are computed, each after its source.

    Block k is Omega_i,body[k], from block ``source[k]`` (-1: none) times the propagator of
    ``body[k]``; ``square`` marks i = body[k]; the source is transposed if it says -2 - source.
    ``place`` finds (i, j).
    """

    body: IntArray
    source: IntArray
    square: BoolArray
    place: dict[tuple[int, int], int]

    def find(self, i: int, j: int) -> int:
        """Place of Omega_ij, -2 - the place of Omega_ji, or -1 where it is zero."""
        if (i, j) in self.place:
            return self.place[i, j]
        return -2 - self.place[j, i] if (j, i) in self.place else -1


def plan_recursion(parent: Sequence[int] | IntArray, bodies: Sequence[int]) -> Recursion:
    """Plan of steps 3 and 4 for the given bodies.

    Examples
    --------
    >>> sorted(plan_recursion([-1, 0, 0, 1], [2, 3]).place)
    [(0, 0), (0, 1), (0, 3), (1, 1), (2, 2), (3, 2), (3, 3)]
    """
    plan = _Planner(parent)
    for body in bodies:
        plan.add_square(body)
    for k, i in enumerate(bodies):
        for j in bodies[:k]:
            plan.add_pair(i, j)
    return Recursion(
        np.array(plan.body, dtype=np.intp),
        np.array(plan.source, dtype=np.intp),
        np.array(plan.square, dtype=np.bool_),
        plan.place,
    )


@final
class _Planner:
    """Collects blocks, each once."""

    def __init__(self, parent: Sequence[int] | IntArray) -> None:
        self.parent = [int(p) for p in parent]
        self.body: list[int] = []
        self.source: list[int] = []
        self.square: list[bool] = []
        self.place: dict[tuple[int, int], int] = {}

    def add_square(self, i: int) -> None:
        """Omega_ii and those of all bodies below it (step 3)."""
        way = []
        while i >= 0 and (i, i) not in self.place:
            way.append(i)
            i = self.parent[i]
        for j in reversed(way):
            below = self.parent[j]
            self._put(j, j, -1 if below < 0 else self.place[below, below])

    def add_pair(self, i: int, j: int) -> None:
        """Omega_ij, or its transpose (step 4); nothing if no joint moves both."""
        h = ancestor(self.parent, i, j)
        if h < 0:
            return
        if h == j:
            i, j = j, i
        start = self.place[h, h]
        if h != i:
            start = -2 - self._walk(h, h, i, start)
        self._walk(i, h, j, start)

    def _walk(self, row: int, h: int, tip: int, start: int) -> int:
        """Omega_row,x for x on the way from h to tip; ``start`` holds Omega_row,h."""
        way = []
        while tip != h and (row, tip) not in self.place:
            way.append(tip)
            tip = self.parent[tip]
        last = start if tip == h else self.place[row, tip]
        for x in reversed(way):
            last = self._put(row, x, last)
        return last

    def _put(self, row: int, body: int, source: int) -> int:
        self.place[row, body] = len(self.body)
        self.body.append(body)
        self.source.append(source)
        self.square.append(row == body)
        return len(self.body) - 1


@Loop
def propagate_outward(
    body: IntArray,
    source: IntArray,
    square: BoolArray,
    propagator: Array,
    mobility: Array,
    blocks: Array,
) -> None:
    """Fill the blocks (n_blocks, 6, 6), zeros at first: eq. 24 and 29 of [CK]."""
    half = np.empty((6, 6))
    for b in range(len(body)):
        L, j = propagator[body[b]], source[b]
        if square[b]:
            blocks[b] = mobility[body[b]]
        if j == -1:
            continue
        if j >= 0:
            multiply(blocks[j], L, half)
        else:
            multiply(blocks[-2 - j].T, L, half)
        if square[b]:
            add_transposed_product(L, half, blocks[b])
        else:
            blocks[b] = half
