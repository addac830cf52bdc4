"""Every pivot order of a small system: the least number of operations, proved.

The irreducible blocks of the block triangular form are solved one after the other; within a
block every order and every pairing of equations and unknowns is tried. The price of a step
depends on what is left of the matrix and on nothing else, so that a matrix met again at no
lower cost is not continued (branch and bound). The price is that of the estimate: structure,
with +-1 free.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from dynsys.errors import StructurallySingularError, TooLarge
from dynsys.plan.orders.dulmage_mendelsohn import block_triangular
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.search.local import Pivots, as_order
from dynsys.plan.search.price import SearchProblem
from dynsys.types import IntArray

__all__ = ["Optimum", "least_operations"]

Matrix: TypeAlias = frozenset[tuple[int, int, bool]]
"""Entries (row, column, is +-1) of what is left."""

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
    for rows, cols in block_triangular(problem.pattern):
        search = _BranchAndBound(problem, rows, cols, limit - matrices)
        search.run()
        matrices += len(search.least)
        if search.best is None:
            raise StructurallySingularError("an irreducible block has no order")
        pivots += search.best
    order = as_order(pivots)
    found = problem.estimate(order)
    if found is None:
        raise StructurallySingularError("the blocks in their order do not eliminate")
    return Optimum(order, found, matrices)


class _BranchAndBound:
    def __init__(
        self, problem: SearchProblem, rows: IntArray, cols: IntArray, limit: int
    ) -> None:
        within, across = set(rows.tolist()), set(cols.tolist())
        columns = np.repeat(np.arange(problem.size), np.diff(problem.indptr)).tolist()
        self.start: Matrix = frozenset(
            (r, c, bool(unit))
            for r, c, unit in zip(problem.indices.tolist(), columns, problem.unit, strict=True)
            if r in within and c in across
        )
        self.limit = limit
        self.least: dict[Matrix, int] = {}
        self.bound: float = np.inf
        self.best: Pivots | None = None

    def run(self) -> None:
        stack: list[tuple[Matrix, int, Pivots]] = [(self.start, 0, [])]
        while stack:
            matrix, cost, pivots = stack.pop()
            if not matrix:
                if cost < self.bound:
                    self.bound, self.best = cost, pivots
                continue
            left = len({r for r, _, _ in matrix})
            if cost + LEAST_STEP * (left - 1) >= self.bound:
                continue
            if self.least.get(matrix, np.inf) <= cost:
                continue
            self.least[matrix] = cost
            if len(self.least) > self.limit:
                raise TooLarge(f"more than {self.limit} matrices; search instead")
            steps = [(*eliminate(matrix, r, c), (r, c)) for r, c in choices(matrix)]
            # the cheapest first, so that the bound is good soon
            for price, after, pivot in sorted(steps, key=lambda s: (s[0], s[2]), reverse=True):
                if after is not None:
                    stack.append((after, cost + price, [*pivots, pivot]))


def choices(matrix: Matrix) -> list[tuple[int, int]]:
    """Pivots worth trying: all, or one singleton where there is one.

    A row with one entry determines its unknown at a price that waiting does not change. A
    column with one entry leaves its row to back substitution; waiting could only replace one of
    the row's entries, which saves two operations at most and costs two at least.
    """
    in_row, in_col = Counter(r for r, _, _ in matrix), Counter(c for _, c, _ in matrix)
    for r, c, _ in sorted(matrix):
        if in_row[r] == 1 or in_col[c] == 1:
            return [(r, c)]
    return [(r, c) for r, c, _ in matrix]


def eliminate(matrix: Matrix, r: int, c: int) -> tuple[int, Matrix | None]:
    """Price of the pivot (r, c) with its back substitution, and the matrix it leaves.

    None if it leaves an equation or an unknown without entry.
    """
    row = {j: unit for i, j, unit in matrix if i == r}
    column = {i: unit for i, j, unit in matrix if j == c and i != r}
    pivot = row.pop(c)
    rest = {(i, j): unit for i, j, unit in matrix if i != r and j != c}
    if not row:
        price = (not pivot) + sum((not unit) + 1 for unit in column.values())
    else:
        price = sum((not unit) + 1 for unit in row.values()) + (not pivot)
        if column:
            price += _clear(row, column, pivot, rest)
    rows, cols = {i for i, _ in rest}, {j for _, j in rest}
    before = {i for i, _, _ in matrix} - {r}
    before_cols = {j for _, j, _ in matrix} - {c}
    if rows != before or cols != before_cols:
        return price, None
    return price, frozenset((i, j, unit) for (i, j), unit in rest.items())


def _clear(
    row: dict[int, bool],
    column: dict[int, bool],
    pivot: bool,
    rest: dict[tuple[int, int], bool],
) -> int:
    """Updates of one step, with its reciprocal and scaling; see ``elimination_price``."""
    price = int(not pivot)
    scale_row = len(column) > len(row)
    if scale_row and not pivot:
        # scaled rows need no division at the end
        price += sum(not unit for unit in row.values())
        row = dict.fromkeys(row, False)
    for i, below in column.items():
        multiplier = below
        if not scale_row and not pivot:
            price += not multiplier
            multiplier = False
        for j, value in row.items():
            price += not (multiplier or value)
            if (i, j) in rest:
                price += 1
                rest[i, j] = False
            else:
                rest[i, j] = multiplier and value
        price += (not multiplier) + 1
    return price
