"""Every pivot order of a small system: the least number of operations, proved.

The irreducible blocks of the block triangular form are solved one after the other; within a
block every order and every pairing of equations and unknowns is tried. The price of a step
depends on what is left of the matrix and on nothing else, so that a matrix met again at no
lower cost is not continued (branch and bound). The price is that of the estimate: structure,
with +-1 free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import StructurallySingularError, TooLarge
from dynsys.plan.orders.dulmage_mendelsohn import block_triangular
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.search.price import NONE, SearchProblem, first_pivot_price
from dynsys.types import IntArray

__all__ = ["Optimum", "least_operations"]

Kinds: TypeAlias = NDArray[np.int8]
Pivots: TypeAlias = list[tuple[int, int]]

LEAST_STEP = 2
"""Every step but the last changes a right-hand side and is substituted back: two additions."""


@final
@dataclass(frozen=True, eq=False)
class Optimum:
    """The best order, its estimated operations, and how many matrices were looked at."""

    order: PivotOrder
    operations: int
    matrices: int


def least_operations(problem: SearchProblem, *, limit: int = 2_000_000) -> Optimum:
    """Order of least estimated operations among all orders of the irreducible blocks.

    Parameters
    ----------
    problem : a small system whose pivots are all regarded as safe.
    limit : matrices to look at before giving up.

    Raises
    ------
    TooLarge
        if the limit is reached.
    """
    pivots: Pivots = []
    matrices = 0
    kinds = problem.kinds()
    for rows, cols in block_triangular(problem.pattern):
        rows, cols = np.sort(rows), np.sort(cols)
        best, met = _least(_Left(kinds[np.ix_(rows, cols)], rows, cols), limit - matrices)
        matrices += met
        pivots += best
    order = PivotOrder.of(pivots)
    found = problem.estimate(order)
    if found is None:
        raise StructurallySingularError("the blocks in their order do not eliminate")
    return Optimum(order, found, matrices)


@final
@dataclass(frozen=True, eq=False)
class _Left:
    """What is left of a block: the kinds of its entries, its rows and columns, ascending."""

    kinds: Kinds
    rows: IntArray
    cols: IntArray

    @property
    def key(self) -> tuple[bytes, ...]:
        return self.rows.tobytes(), self.cols.tobytes(), self.kinds.tobytes()

    def choices(self) -> list[tuple[int, int]]:
        """Places of pivots worth trying: all, or one singleton where there is one.

        A row with one entry determines its unknown at a price that waiting does not change. A
        column with one entry leaves its row to back substitution; waiting could only replace
        one of the row's entries, which saves two operations at most and costs two at least.
        """
        there = self.kinds != NONE
        in_row, in_col = there.sum(axis=1, keepdims=True), there.sum(axis=0, keepdims=True)
        single = np.argwhere(there & ((in_row == 1) | (in_col == 1)))
        found: Pivots = (single[:1] if len(single) else np.argwhere(there)).tolist()
        return [(i, j) for i, j in found]

    def without(self, i: int, j: int) -> tuple[int, _Left | None]:
        """Price of the pivot at place (i, j) with its back substitution, and what it leaves.

        None if it leaves an equation or an unknown without entry.
        """
        rows, cols = (np.delete(np.arange(len(self.rows)), k) for k in (i, j))
        kinds = self.kinds[np.ix_(np.append(i, rows), np.append(j, cols))]
        price = int(first_pivot_price(kinds))
        left = np.ascontiguousarray(kinds[1:, 1:])
        if not (left.any(axis=0).all() and left.any(axis=1).all()):
            return price, None
        return price, _Left(left, self.rows[rows], self.cols[cols])


def _least(block: _Left, limit: int) -> tuple[Pivots, int]:
    """Pivots of least price of an irreducible block, and how many matrices were looked at."""
    least: dict[tuple[bytes, ...], int] = {}
    bound, best = np.inf, None
    stack: list[tuple[_Left, int, Pivots]] = [(block, 0, [])]
    while stack:
        left, cost, pivots = stack.pop()
        if not len(left.rows):
            if cost < bound:
                bound, best = cost, pivots
            continue
        if cost + LEAST_STEP * (len(left.rows) - 1) >= bound:
            continue
        if least.get(left.key, np.inf) <= cost:
            continue
        least[left.key] = cost
        if len(least) > limit:
            raise TooLarge(f"more than {limit} matrices; search instead")
        steps = [(*left.without(i, j), (i, j)) for i, j in left.choices()]
        # the cheapest first, so that the bound is good soon
        for price, after, (i, j) in sorted(steps, key=lambda s: (s[0], s[2]), reverse=True):
            if after is not None:
                pivot = int(left.rows[i]), int(left.cols[j])
                stack.append((after, cost + price, [*pivots, pivot]))
    if best is None:
        raise StructurallySingularError("an irreducible block has no order")
    return best, len(least)
