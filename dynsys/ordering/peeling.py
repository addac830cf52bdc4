"""Triangular peeling: rows and columns with one entry left, in linear time.

A row with one entry left determines its unknown: it becomes the next pivot, and its column is
known from there on. A column with one entry left takes part in one equation only: it is
determined by it, after everything else. What peels completely is a permuted triangular matrix,
and peeling finds the permutation whenever there is one: the order in which entries are peeled
does not matter, since peeling one never takes away another's chance.

    A[row_order][:, col_order] = [[L, 0], [*, M]]                     where nothing is left,
                                 [[U, *, *], [0, L, 0], [0, *, core]]  else,

L and M lower triangular, U upper triangular: all fill is within the core.

Inverse dynamics has an empty core for every tree ([NORI] Property 1 exhibits one permutation),
so that problem 1 of [NORI] is solved outright from any shuffling of equations and unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from dynsys.ordering.compiled import compiled
from dynsys.ordering.orders import (
    AbstractOrdering,
    Natural,
    OrderingContext,
    Pattern,
    PivotOrder,
    require_square,
)
from dynsys.types import IntArray

__all__ = ["Peeled", "Peeling", "peel"]


@final
@dataclass(frozen=True, eq=False)
class Peeling:
    """What peeling found; the arrays of each pair belong together, in pivot order.

    ``first_rows, first_cols``: peeled from the front, unknowns that forward substitution gives;
    ``core_rows, core_cols``: what has no singleton (sizes differ for a rectangular matrix);
    ``last_rows, last_cols``: peeled from the back, unknowns that one equation each uses.
    """

    first_rows: IntArray
    first_cols: IntArray
    core_rows: IntArray
    core_cols: IntArray
    last_rows: IntArray
    last_cols: IntArray

    @property
    def is_triangular(self) -> bool:
        """True if nothing is left over: the matrix is a permuted triangular one."""
        return not len(self.core_rows) and not len(self.core_cols)


def peel(pattern: Pattern, *, columns: bool = True) -> Peeling:
    """Peel rows with one entry, then columns with one entry (unless ``columns`` is False).

    O(entries); the matrix may be rectangular.

    Examples
    --------
    >>> from scipy.sparse import csc_array
    >>> shuffled = csc_array(np.array([[1, 1, 1], [0, 1, 0], [1, 1, 0]], dtype=bool))
    >>> peeling = peel(shuffled)
    >>> peeling.is_triangular, peeling.first_rows.tolist(), peeling.first_cols.tolist()
    (True, [1, 2, 0], [1, 0, 2])
    """
    by_row = pattern.tocsr()
    n_rows, n_cols = pattern.shape
    found = _peel(
        n_rows,
        n_cols,
        by_row.indptr.astype(np.int32),
        by_row.indices.astype(np.int32),
        pattern.indptr.astype(np.int32),
        pattern.indices.astype(np.int32),
        columns,
    )
    first, last, row_left, col_left = found
    core_rows, core_cols = np.flatnonzero(row_left), np.flatnonzero(col_left)
    return Peeling(
        first[0].astype(np.intp),
        first[1].astype(np.intp),
        core_rows,
        core_cols,
        last[0][::-1].astype(np.intp),
        last[1][::-1].astype(np.intp),
    )


@final
@dataclass(frozen=True)
class Peeled(AbstractOrdering):
    """Triangular peeling; the core, if any, is ordered by ``inner``."""

    inner: AbstractOrdering = field(default_factory=Natural)

    @property
    def name(self) -> str:
        return f"peeled, {self.inner.name}"

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        require_square(pattern)
        peeling = peel(pattern)
        if peeling.is_triangular:
            return PivotOrder(
                np.concatenate([peeling.first_rows, peeling.last_rows]),
                np.concatenate([peeling.first_cols, peeling.last_cols]),
            )
        rows, cols = peeling.core_rows, peeling.core_cols
        part, inner_context = (context or OrderingContext()).restricted(pattern, rows, cols)
        rows, cols = self.inner.order(part, inner_context).within(rows, cols)
        return PivotOrder(
            np.concatenate([peeling.last_rows[::-1], peeling.first_rows, rows]),
            np.concatenate([peeling.last_cols[::-1], peeling.first_cols, cols]),
        )


@compiled
def _peel(
    n_rows: Any,
    n_cols: Any,
    row_start: Any,
    row_cols: Any,
    col_start: Any,
    col_rows: Any,
    with_columns: Any,
) -> Any:
    """Peel by counts; the last column of a row is the xor of the columns it has left.

    ``rows`` and ``cols`` hold count and xor side by side, -1 for the count of what is peeled:
    of a shuffled matrix every look is one at memory far away.
    """
    rows, cols = np.zeros((n_rows, 2), np.int32), np.zeros((n_cols, 2), np.int32)
    for r in range(n_rows):
        for e in range(row_start[r], row_start[r + 1]):
            c = row_cols[e]
            rows[r, 0] += 1
            rows[r, 1] ^= c
            cols[c, 0] += 1
            cols[c, 1] ^= r
    size = min(n_rows, n_cols)
    first, last = np.zeros((2, size), np.int32), np.zeros((2, size), np.int32)
    n_first = n_last = 0
    row_queue, col_queue = np.zeros(n_rows, np.int32), np.zeros(n_cols, np.int32)
    row_tail = col_tail = row_head = col_head = 0
    for r in range(n_rows):
        if rows[r, 0] == 1:
            row_queue[row_tail] = r
            row_tail += 1
    for c in range(n_cols):
        if cols[c, 0] == 1:
            col_queue[col_tail] = c
            col_tail += 1
    while True:
        if row_head < row_tail:
            r = row_queue[row_head]
            row_head += 1
            if rows[r, 0] != 1:
                continue
            c = rows[r, 1]
            first[0, n_first], first[1, n_first] = r, c
            n_first += 1
        elif with_columns and col_head < col_tail:
            c = col_queue[col_head]
            col_head += 1
            if cols[c, 0] != 1:
                continue
            r = cols[c, 1]
            last[0, n_last], last[1, n_last] = r, c
            n_last += 1
        else:
            break
        rows[r, 0] = cols[c, 0] = -1
        for e in range(col_start[c], col_start[c + 1]):
            other = col_rows[e]
            if rows[other, 0] > 0:
                rows[other, 0] -= 1
                rows[other, 1] ^= c
                if rows[other, 0] == 1:
                    row_queue[row_tail] = other
                    row_tail += 1
        for e in range(row_start[r], row_start[r + 1]):
            other = row_cols[e]
            if cols[other, 0] > 0:
                cols[other, 0] -= 1
                cols[other, 1] ^= r
                if cols[other, 0] == 1:
                    col_queue[col_tail] = other
                    col_tail += 1
    return first[:, :n_first], last[:, :n_last], rows[:, 0] >= 0, cols[:, 0] >= 0
