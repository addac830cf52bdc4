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
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from dynsys.jit import Loop
from dynsys.plan.orders.orders import AbstractNested, OrderingContext, Part, Pattern, PivotOrder

__all__ = ["Peeled", "Peeling", "peel"]


class Peeling(NamedTuple):
    """What peeling found, in pivot order.

    ``first``: peeled from the front, unknowns that forward substitution gives;
    ``core``: what has no singleton (not square for a rectangular matrix);
    ``last``: peeled from the back, unknowns that one equation each uses.
    """

    first: Part
    core: Part
    last: Part

    @property
    def is_triangular(self) -> bool:
        """True if nothing is left over: the matrix is a permuted triangular one."""
        return not len(self.core.rows) and not len(self.core.cols)


def peel(pattern: Pattern, *, columns: bool = True) -> Peeling:
    """Peel rows with one entry, then columns with one entry (unless ``columns`` is False).

    O(entries); the matrix may be rectangular.

    Examples
    --------
    >>> from scipy.sparse import csc_array
    >>> shuffled = csc_array(np.array([[1, 1, 1], [0, 1, 0], [1, 1, 0]], dtype=bool))
    >>> peeling = peel(shuffled)
    >>> peeling.is_triangular, peeling.first.rows.tolist(), peeling.first.cols.tolist()
    (True, [1, 2, 0], [1, 0, 2])
    """
    by_row = pattern.tocsr()
    n_rows, n_cols = pattern.shape
    start = np.concatenate([by_row.indptr, pattern.indptr[1:] + pattern.nnz])
    others = np.concatenate([by_row.indices + n_rows, pattern.indices])
    first, last, left = _peel(
        n_rows, n_cols, start.astype(np.int32), others.astype(np.int32), columns
    )
    core = Part(np.flatnonzero(left[:n_rows]), np.flatnonzero(left[n_rows:]))
    return Peeling(Part(*first.astype(np.intp)), core, Part(*last[:, ::-1].astype(np.intp)))


@final
@dataclass(frozen=True)
class Peeled(AbstractNested):
    """Triangular peeling; the core, if any, is ordered by ``inner``."""

    outer: ClassVar[str] = "peeled"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        found = peel(pattern)
        if found.is_triangular:
            return self.joined([found.first, found.last])
        core = self.order_part(pattern, context, found.core)
        back = Part(found.last.rows[::-1], found.last.cols[::-1])
        return self.joined([back, found.first, core])


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
