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

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dynsys.jit import Loop
from dynsys.plan.orders.orders import (
    AbstractOuterOrdering,
    OrderingContext,
    Pattern,
    PivotOrder,
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
    start = np.concatenate([by_row.indptr, pattern.indptr[1:] + pattern.nnz])
    others = np.concatenate([by_row.indices + n_rows, pattern.indices])
    first, last, left = _peel(
        n_rows, n_cols, start.astype(np.int32), others.astype(np.int32), columns
    )
    first_rows, first_cols = first.astype(np.intp)
    last_rows, last_cols = last[:, ::-1].astype(np.intp)
    core_rows, core_cols = np.flatnonzero(left[:n_rows]), np.flatnonzero(left[n_rows:])
    return Peeling(first_rows, first_cols, core_rows, core_cols, last_rows, last_cols)


@final
@dataclass(frozen=True)
class Peeled(AbstractOuterOrdering):
    """Triangular peeling; the core, if any, is ordered by ``inner``."""

    outer: ClassVar[str] = "peeled"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        found = peel(pattern)
        first, last = (found.first_rows, found.first_cols), (found.last_rows, found.last_cols)
        if found.is_triangular:
            return PivotOrder(*map(np.concatenate, zip(first, last, strict=True)))
        core = self.order_part(pattern, context, found.core_rows, found.core_cols)
        back = (lines[::-1] for lines in last)
        return PivotOrder(*map(np.concatenate, zip(back, first, core, strict=True)))


@Loop
def _peel(n_rows: Any, n_cols: Any, start: Any, others: Any, with_columns: Any) -> Any:
    """Peel by counts; the last entry of a line is the xor of those that it has left.

    Lines are the rows and then the columns, ``others[start[k] : start[k + 1]]`` those that
    line k meets. ``lines`` holds count and xor side by side, -1 for the count of what is
    peeled: of a shuffled matrix every look is one at memory far away.
    """
    lines = np.zeros((n_rows + n_cols, 2), np.int32)
    queue = np.zeros((2, max(n_rows, n_cols)), np.int32)  # single rows, single columns
    head, tail = np.zeros(2, np.int32), np.zeros(2, np.int32)
    for k in range(n_rows + n_cols):
        for e in range(start[k], start[k + 1]):
            lines[k, 0] += 1
            lines[k, 1] ^= others[e]
        if lines[k, 0] == 1:
            side = 1 if k >= n_rows else 0
            queue[side, tail[side]] = k
            tail[side] += 1
    peeled = np.zeros((2, 2, min(n_rows, n_cols)), np.int32)  # side; row, column; pivot
    found = np.zeros(2, np.int32)
    while head[0] < tail[0] or (with_columns and head[1] < tail[1]):
        side = 0 if head[0] < tail[0] else 1
        line = queue[side, head[side]]
        head[side] += 1
        if lines[line, 0] != 1:
            continue
        other = lines[line, 1]
        peeled[side, 0, found[side]] = min(line, other)
        peeled[side, 1, found[side]] = max(line, other) - n_rows
        found[side] += 1
        lines[line, 0] = lines[other, 0] = -1
        for gone in (line, other):
            for e in range(start[gone], start[gone + 1]):
                k = others[e]
                if lines[k, 0] > 0:
                    lines[k, 0] -= 1
                    lines[k, 1] ^= gone
                    if lines[k, 0] == 1:
                        to = 1 if k >= n_rows else 0
                        queue[to, tail[to]] = k
                        tail[to] += 1
    return peeled[0, :, : found[0]], peeled[1, :, : found[1]], lines[:, 0] >= 0
