"""Greedy orders by the thousand: Markowitz's rule with other weights and some noise.

    cost of a pivot = (f flops + g fill + h count + pull) exp(sigma z),    z normal, drawn anew

:mod:`.markowitz` in compiled loops on one irreducible block after the other, fifty times faster
and with more candidates at every step. flops are what the step really multiplies and adds:
factors +-1, products and sums of constants are free. The pull, one number for every unknown,
leads the elimination towards a root of the tree that is drawn, any body of it, along a nested
dissection of the tree, or wherever a search wants it (a decoder of random keys: Bean 1994). All
weights and the threshold of pivots are drawn for every restart; with sigma = 0 ties are broken
at random and nothing else (a greedy randomised construction: Feo and Resende 1995).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.jit import Loop
from dynsys.model.tree import KinematicTree
from dynsys.plan.orders.dulmage_mendelsohn import block_triangular
from dynsys.plan.orders.markowitz import CANCELLED
from dynsys.plan.orders.orders import Part, Pattern, PivotOrder, entry_columns
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array

__all__ = ["Restarts", "Weights", "body_levels", "tree_potentials"]

STATES = 8
"""Sampled states at which pivots are judged."""
PULLS = (0.0, 0.0, 0.3, 1.0, 4.0)
"""Strengths of a pull along the tree."""


@final
@dataclass(frozen=True)
class Weights:
    """How a restart values a pivot, see the module.

    ``threshold`` as in Markowitz; ``breadth`` pivots of lowest count are compared at a step.
    Of equals, the first equations and unknowns (``ties`` 1), the last (-1), or any (0).
    """

    flops: float = 0.0
    fill: float = 1.0
    count: float = 0.0
    sigma: float = 0.0
    threshold: float = 0.01
    breadth: int = 96
    ties: int = 0

    @staticmethod
    def drawn(rng: np.random.Generator, least: float) -> Weights:
        """Any of the variants, mostly fill; pivots not below ``least``."""
        variant = int(rng.integers(8))
        some = 0.2 * float(rng.random()) ** 2
        return Weights(
            flops=some if variant > 2 else float(variant == 0),
            fill=float(variant > 0 and variant != 2),
            count=float(variant == 2),
            sigma=float(rng.choice([0.0, 0.0, 0.02, 0.05, 0.1, 0.2])),
            threshold=max(least, 10.0 ** rng.uniform(-3.0, -1.3)),
            breadth=int(rng.choice([48, 96, 96, 192])),
            ties=int(rng.choice([-1, 0, 0, 1])),
        )


@final
@dataclass(frozen=True, eq=False)
class Restarts:
    """Randomised greedy orders of one matrix.

    Parameters
    ----------
    pattern : a square matrix.
    values : (states, entries) at sampled states.
    potentials : (any number, columns) between 0 and 1, what is low goes first.
    """

    pattern: Pattern
    values: Array
    potentials: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @cached_property
    def blocks(self) -> list[_Block]:
        """Irreducible blocks, in block triangular order."""
        rows, cols = self.pattern.indices, entry_columns(self.pattern)
        return [_Block.of(part, rows, cols, self.values) for part in self._parts]

    @cached_property
    def _parts(self) -> list[Part]:
        return block_triangular(self.pattern)

    @property
    def is_triangular(self) -> bool:
        """True if substitution solves the system: there is nothing to choose."""
        return all(len(block.part.rows) == 1 for block in self.blocks)

    def drawn(self, rng: np.random.Generator, least: float) -> PivotOrder | None:
        """A greedy order with weights and a pull of its own."""
        pull = None
        strength = float(rng.choice(PULLS))
        if strength and len(self.potentials):
            pull = strength * self.potentials[int(rng.integers(len(self.potentials)))]
        return self.order(Weights.drawn(rng, least), rng, pull)

    def order(
        self, weights: Weights, rng: np.random.Generator, pull: Array | None = None
    ) -> PivotOrder | None:
        """A greedy order; None if it ends before all pivots are found.

        ``pull`` (columns,) is added to the cost of pivots in a column.
        """
        pulled = np.zeros(self.pattern.shape[1]) if pull is None else pull
        pivots: list[tuple[int, int]] = []
        for block in self.blocks:
            found = block.greedy(weights, rng, pulled[block.part.cols])
            if found is None:
                return None
            pivots += found
        return PivotOrder.of(pivots)


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """An irreducible block: its rows and columns, and its values (n, n, states)."""

    part: Part
    values: Array

    @staticmethod
    def of(part: Part, rows: NDArray[Any], cols: NDArray[Any], values: Array) -> _Block:
        n, states = len(part.rows), min(STATES, len(values))
        if n == 1:
            return _Block(part, np.ones((1, 1, states)))
        place = np.full((2, max(int(rows.max()), int(cols.max())) + 1), -1)
        place[0, part.rows], place[1, part.cols] = np.arange(n), np.arange(n)
        inside = np.flatnonzero((place[0, rows] >= 0) & (place[1, cols] >= 0))
        found = np.zeros((n, n, states))
        found[place[0, rows[inside]], place[1, cols[inside]]] = values[:states, inside].T
        return _Block(part, found)

    def greedy(
        self, w: Weights, rng: np.random.Generator, pull: Array
    ) -> list[tuple[int, int]] | None:
        """Pivots of the block; None if there are not enough."""
        n = len(self.part.rows)
        if n == 1:
            return [(int(self.part.rows[0]), int(self.part.cols[0]))]
        noise = np.exp(w.sigma * rng.normal(size=(n, w.breadth)))
        ties = rng.random((2, n))
        if w.ties:
            ties = np.array([self.part.rows, self.part.cols]) * w.ties
            ties = (ties - ties.min()) / (1 + ties.max() - ties.min())
        weights = np.array([w.flops, w.fill, w.count])
        found = greedy(self.values.copy(), noise, ties, weights, pull, w.threshold)
        if found[-1, 0] < 0:
            return None
        rows, cols = self.part.rows[found[:, 0]], self.part.cols[found[:, 1]]
        return list(zip(rows.tolist(), cols.tolist(), strict=True))


# ---- where a restart may be pulled to --------------------------------------------------------


def tree_potentials(system: LinearSystem) -> Array:
    """Potentials (n_bodies + 1, columns) of :func:`body_levels`: what is far goes first."""
    levels = body_levels(system.robot)
    found = np.zeros((len(levels), system.unknowns.size))
    for block in system.unknowns.blocks:
        for k, level in enumerate(levels):
            found[k, block.columns] = 1.0 - level[block.body] / max(1.0, float(level.max()))
    return found


def body_levels(robot: KinematicTree) -> Array:
    """Levels (n_bodies + 1, n_bodies): distances from each body, then a nested dissection.

    A nested dissection takes the body that leaves the smallest parts when it is cut out (a
    centroid) at level 0, and so on in every part.
    """
    n = robot.n_bodies
    near: list[list[int]] = [[] for _ in range(n)]
    for i, parent in enumerate(robot.parent):
        if parent >= 0:
            near[i].append(int(parent))
            near[int(parent)].append(i)
    levels = [_distances(near, root) for root in range(n)]
    return np.array([*levels, _dissected(near)], dtype=np.float64)


def _distances(near: list[list[int]], root: int) -> list[int]:
    """Joints between each body and the root; 0 where there is no way."""
    level, queue, met = [0] * len(near), [root], {root}
    for i in queue:
        for j in near[i]:
            if j not in met:
                met.add(j)
                level[j] = level[i] + 1
                queue.append(j)
    return level


def _dissected(near: list[list[int]]) -> list[int]:
    """Level of each body in a nested dissection by centroids, 0 for the first."""
    level = [0] * len(near)
    parts = [(0, part) for part in _parts(near, set(range(len(near))))]
    while parts:
        depth, part = parts.pop()
        cut = min(
            sorted(part), key=lambda i: max(map(len, _parts(near, part - {i})), default=0)
        )
        level[cut] = depth
        parts += [(depth + 1, rest) for rest in _parts(near, part - {cut})]
    return level


def _parts(near: list[list[int]], bodies: set[int]) -> list[set[int]]:
    """Connected parts of some bodies."""
    left, found = set(bodies), []
    while left:
        queue = [min(left)]
        left.discard(queue[0])
        for i in queue:
            more = [j for j in near[i] if j in left]
            left.difference_update(more)
            queue += more
        found.append(set(queue))
    return found


# ---- the greedy choice, compiled -------------------------------------------------------------
#
# What is left of a block: values (n, n, states), kind (n, n); length (2, n) and lists
# (2, n, n): the columns of every row, -1 long once it is eliminated, the rows of every column.

NONE, GENERAL, FIXED, UNIT = 0, 1, 2, 3
ROW, COL = 0, 1


@Loop
def greedy(values: Any, noise: Any, ties: Any, weights: Any, pull: Any, least: Any) -> Any:
    """Pivots (n, 2) of a block; the last is -1 if there are not n.

    Parameters
    ----------
    values : (n, n, states), overwritten.
    noise : (n, breadth) factors of the costs at every step.
    ties : (2, n) numbers in [0, 1) that tell rows and columns of equal counts apart.
    weights : (3,) of flops, fill and count in the cost.
    pull : (n,) added to the costs of a column.
    least : smallest admissible ratio of a pivot to its column or row.
    """
    n = len(values)
    kind = np.zeros((n, n), np.int8)
    length, lists = np.zeros((2, n), np.int64), np.zeros((2, n, n), np.int64)
    for i in range(n):
        for j in range(n):
            kind[i, j] = _kind(values, i, j)
            if kind[i, j] != NONE:
                lists[ROW, i, length[ROW, i]] = j
                length[ROW, i] += 1
                lists[COL, j, length[COL, j]] = i
                length[COL, j] += 1
    pivots = np.full((n, 2), -1)
    key, where = np.zeros(noise.shape[1]), np.zeros((noise.shape[1], 2), np.int64)
    for step in range(n):
        size = _lowest(length, lists, ties, key, where)
        for e in range(size):
            cost = _cost(kind, length, lists, where[e, 0], where[e, 1], weights)
            key[e] = noise[step, e] * (cost + pull[where[e, 1]])
        chosen, safest = -1, 0.0
        for _ in range(size):  # the cheapest that is admissible, else the safest
            e = int(np.argmin(key[:size]))
            ratio = _ratio(values, length, lists, where[e, 0], where[e, 1])
            if ratio > safest:
                chosen, safest = e, ratio
            if ratio >= least:
                chosen = e
                break
            key[e] = np.inf
        if chosen < 0:
            return pivots
        r, c = where[chosen, 0], where[chosen, 1]
        _eliminate(values, kind, length, lists, r, c)
        pivots[step, 0] = r
        pivots[step, 1] = c
    return pivots


@Loop
def _kind(values: Any, i: Any, j: Any) -> Any:
    """NONE, GENERAL, FIXED for a constant or UNIT for +-1, by the values at all states."""
    largest, spread = 0.0, 0.0
    for e in range(values.shape[2]):
        largest = max(largest, abs(values[i, j, e]))
        spread = max(spread, abs(values[i, j, e] - values[i, j, 0]))
    if largest == 0.0:
        return NONE
    if spread > CANCELLED * largest:
        return GENERAL
    return UNIT if abs(largest - 1.0) < CANCELLED else FIXED


@Loop
def _lowest(length: Any, lists: Any, ties: Any, key: Any, where: Any) -> Any:
    """Entries ``where`` (room, 2) of lowest count; returns how many there are."""
    room, size, last = len(key), 0, np.inf
    for i in range(length.shape[1]):
        for e in range(length[ROW, i]):
            j = lists[ROW, i, e]
            now = (length[ROW, i] - 1) * (length[COL, j] - 1) + (ties[0, i] + ties[1, j]) / 2.0
            if now >= last:
                continue
            at = size if size < room else room - 1
            while at > 0 and key[at - 1] > now:
                key[at] = key[at - 1]
                where[at, 0] = where[at - 1, 0]
                where[at, 1] = where[at - 1, 1]
                at -= 1
            key[at] = now
            where[at, 0] = i
            where[at, 1] = j
            size = min(size + 1, room)
            if size == room:
                last = key[room - 1]
    return size


@Loop
def _ratio(values: Any, length: Any, lists: Any, r: Any, c: Any) -> Any:
    """Least of |pivot| / min(largest of its row, largest of its column) over the states."""
    worst = np.inf
    for e in range(values.shape[2]):
        row = column = 0.0
        for k in range(length[ROW, r]):
            row = max(row, abs(values[r, lists[ROW, r, k], e]))
        for k in range(length[COL, c]):
            column = max(column, abs(values[lists[COL, c, k], c, e]))
        worst = min(worst, abs(values[r, c, e]) / min(row, column))
    return worst


@Loop
def _cost(kind: Any, length: Any, lists: Any, r: Any, c: Any, weights: Any) -> Any:
    """Weighed cost of the pivot (r, c); right-hand sides count as known."""
    work = filled = 0
    pivot, right, below = kind[r, c], length[ROW, r] - 1, length[COL, c] - 1
    by_row = below > right  # u / p, else l / p
    scaled = GENERAL if pivot == GENERAL else NONE
    if pivot != UNIT and right > 0 and below > 0:
        work += 1 + (right + 1 if by_row else 0)
        scaled = pivot
    for x in range(length[COL, c]):
        i = lists[COL, c, x]
        if i == r:
            continue
        l = kind[i, c]
        if scaled != NONE and not by_row and right > 0:
            l = GENERAL if l == GENERAL or scaled == GENERAL else FIXED
            work += l == GENERAL
        work += 1 + (l != UNIT)  # b_i
        for y in range(length[ROW, r]):
            j = lists[ROW, r, y]
            if j == c:
                continue
            u = kind[r, j]
            if scaled != NONE and by_row:
                u = GENERAL if u == GENERAL or scaled == GENERAL else FIXED
            varies = l == GENERAL or u == GENERAL
            work += varies and l != UNIT and u != UNIT
            if kind[i, j] == NONE:
                filled += 1
            else:
                work += varies or kind[i, j] == GENERAL
    count = right * below
    return weights[0] * work + weights[1] * filled + (weights[2] + 1e-3) * count + 0.1


@Loop
def _eliminate(values: Any, kind: Any, length: Any, lists: Any, r: Any, c: Any) -> None:
    """Take (r, c) as the next pivot."""
    states = values.shape[2]
    for x in range(length[ROW, r]):  # the row leaves all columns
        _drop(length, lists, COL, lists[ROW, r, x], r)
    for x in range(length[COL, c]):
        i = lists[COL, c, x]
        _drop(length, lists, ROW, i, c)
        for y in range(length[ROW, r]):
            j = lists[ROW, r, y]
            if j == c:
                continue
            kept = False
            for e in range(states):
                product = values[i, c, e] / values[r, c, e] * values[r, j, e]
                old = values[i, j, e]
                values[i, j, e] = old - product
                kept |= abs(old - product) > CANCELLED * (abs(old) + abs(product))
            before = kind[i, j]
            if not kept:
                for e in range(states):
                    values[i, j, e] = 0.0
            kind[i, j] = _kind(values, i, j)
            if before == NONE and kept:
                lists[ROW, i, length[ROW, i]] = j
                length[ROW, i] += 1
                lists[COL, j, length[COL, j]] = i
                length[COL, j] += 1
            elif before != NONE and not kept:
                _drop(length, lists, ROW, i, j)
                _drop(length, lists, COL, j, i)
    length[ROW, r] = -1
    length[COL, c] = 0


@Loop
def _drop(length: Any, lists: Any, which: Any, k: Any, item: Any) -> None:
    """Take an item from list k of rows or columns."""
    for e in range(length[which, k]):
        if lists[which, k, e] == item:
            length[which, k] -= 1
            lists[which, k, e] = lists[which, k, length[which, k]]
            return
