"""Symbolic LU: which entries of L and U are nonzero under a pivot order, and what that costs.

    row i of L + U  =  row i of A,  and row k of U for every k < i in it

worked out row by row; the time is that of the elimination itself, without the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.sparse import csr_array

from dynsys.errors import SingularSystemError, StructurallySingularError
from dynsys.ordering.compiled import compiled
from dynsys.ordering.orders import Pattern, PivotOrder, require_square
from dynsys.types import Array, BoolArray, IntArray

__all__ = ["SymbolicLU", "numeric_lu", "symbolic_lu"]


@final
@dataclass(frozen=True, eq=False)
class SymbolicLU:
    """Pattern of L + U of ``A[row_order][:, col_order]``, by rows, unit diagonal of L left out.

    ``columns[start[i] : start[i + 1]]`` are the columns of row i, ascending;
    ``touched`` (n,) tells which pivots an earlier step changes: the others stay entries of A.
    """

    order: PivotOrder
    start: IntArray
    columns: IntArray
    touched: BoolArray
    entries_before: int

    @property
    def n(self) -> int:
        """Number of pivots."""
        return len(self.touched)

    @property
    def nnz(self) -> int:
        """Entries of L + U, the diagonal once."""
        return len(self.columns)

    @property
    def fill(self) -> int:
        """Entries of L + U that are not entries of A."""
        return self.nnz - self.entries_before

    @cached_property
    def rows(self) -> IntArray:
        """Row of every entry."""
        return np.repeat(np.arange(self.n), np.diff(self.start))

    @cached_property
    def below(self) -> IntArray:
        """c_k (n,): entries of column k of L below the pivot."""
        return np.bincount(self.columns[self.columns < self.rows], minlength=self.n)

    @cached_property
    def right(self) -> IntArray:
        """r_k (n,): entries of row k of U right of the pivot."""
        return np.bincount(self.rows[self.columns > self.rows], minlength=self.n)

    @property
    def is_triangular(self) -> bool:
        """True if substitution alone solves the system: nothing to eliminate, no fill."""
        return not (self.below * self.right).any()


def symbolic_lu(pattern: Pattern, order: PivotOrder) -> SymbolicLU:
    """Pattern of the factors of ``A[row_order][:, col_order]``, pivots on the diagonal.

    Raises
    ------
    StructurallySingularError
        if a pivot of the order is no entry of its matrix even after fill.

    Examples
    --------
    >>> from scipy.sparse import csc_array
    >>> arrow = csc_array(np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1]], dtype=bool))
    >>> symbolic_lu(arrow, PivotOrder([0, 1, 2], [0, 1, 2])).fill
    2
    >>> symbolic_lu(arrow, PivotOrder([2, 1, 0], [2, 1, 0])).fill
    0
    """
    n = require_square(pattern)
    A = csr_array(order.apply_pattern(pattern).tocsr())
    A.sort_indices()
    start, columns, touched, missing = _symbolic(
        n, A.indptr.astype(np.int64), A.indices.astype(np.int64)
    )
    if missing >= 0:
        raise StructurallySingularError(
            f"step {missing} of the pivot order takes row {int(order.row_order[missing])} and"
            f" column {int(order.col_order[missing])}, an entry that is always zero there;"
            " use an ordering that matches equations with unknowns"
        )
    keys = np.repeat(np.arange(n), np.diff(start)) * n + columns
    keys.sort()
    return SymbolicLU(order, start.astype(np.intp), keys % n, touched, int(A.nnz))


@compiled
def _symbolic(n: Any, start: Any, cols: Any) -> Any:
    """Row i's columns in the order they are met; those of U are also kept by themselves."""
    out_start, upper_start = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    out, upper = np.zeros(2 * len(cols) + n, np.int64), np.zeros(len(cols) + n, np.int64)
    touched = np.zeros(n, np.bool_)
    mark = np.full(n, -1, np.int64)
    size = n_upper = 0
    for i in range(n):
        if size + n > len(out):
            longer = np.zeros(2 * len(out) + n, np.int64)
            longer[:size] = out[:size]
            out = longer
        if n_upper + n > len(upper):
            longer = np.zeros(2 * len(upper) + n, np.int64)
            longer[:n_upper] = upper[:n_upper]
            upper = longer
        at = size
        for e in range(start[i], start[i + 1]):
            mark[cols[e]] = i
            out[size] = cols[e]
            size += 1
        while at < size:  # the list grows while it is read
            k = out[at]
            at += 1
            if k > i:
                upper[n_upper] = k
                n_upper += 1
            elif k < i:
                for e in range(upper_start[k], upper_start[k + 1]):
                    j = upper[e]
                    if j == i:
                        touched[i] = True
                    if mark[j] != i:
                        mark[j] = i
                        out[size] = j
                        size += 1
        out_start[i + 1], upper_start[i + 1] = size, n_upper
        if mark[i] != i:
            return out_start, out[:size], touched, i
    return out_start, out[:size].copy(), touched, -1


def numeric_lu(
    A: csr_array[np.float64], symbolic: SymbolicLU
) -> tuple[csr_array[np.float64], csr_array[np.float64]]:
    """L (unit diagonal) and U with A[row_order][:, col_order] = L U.

    The pivots are those of the order: no exchange. A is in its own, unpermuted order. Entries
    that vanish are left out of L and U.

    Raises
    ------
    SingularSystemError
        if a pivot is exactly zero.
    """
    n = symbolic.n
    permuted = csr_array(A.tocsr()[symbolic.order.row_order][:, symbolic.order.col_order])
    values, failed = _numeric(
        n,
        permuted.indptr.astype(np.int64),
        permuted.indices.astype(np.int64),
        permuted.data.astype(np.float64),
        symbolic.start.astype(np.int64),
        symbolic.columns.astype(np.int64),
    )
    if failed >= 0:
        raise SingularSystemError(
            f"pivot {failed} (row {int(symbolic.order.row_order[failed])}, column"
            f" {int(symbolic.order.col_order[failed])}) is zero at this state"
        )
    rows, columns = symbolic.rows, symbolic.columns
    return (
        _part(n, rows, columns, values, columns < rows, unit=True),
        _part(n, rows, columns, values, columns >= rows, unit=False),
    )


def _part(
    n: int, rows: IntArray, columns: IntArray, values: Array, keep: BoolArray, *, unit: bool
) -> csr_array[np.float64]:
    keep = keep & (values != 0)
    r, c, v = rows[keep], columns[keep], values[keep]
    if unit:
        diagonal = np.arange(n)
        r, c = np.concatenate([r, diagonal]), np.concatenate([c, diagonal])
        v = np.concatenate([v, np.ones(n)])
    return csr_array((v, (r, c)), shape=(n, n))


@compiled
def _numeric(n: Any, start: Any, cols: Any, values: Any, lu_start: Any, lu_cols: Any) -> Any:
    """Row by row: scatter row i of A, subtract multiples of the rows of U it meets."""
    out = np.zeros(len(lu_cols))
    pivot_at = np.zeros(n, np.int64)
    work = np.zeros(n)
    for i in range(n):
        for e in range(start[i], start[i + 1]):
            work[cols[e]] += values[e]
        for e in range(lu_start[i], lu_start[i + 1]):
            k = lu_cols[e]
            if k < i and work[k] != 0.0:
                work[k] /= out[pivot_at[k]]
                factor = work[k]
                for g in range(pivot_at[k] + 1, lu_start[k + 1]):
                    work[lu_cols[g]] -= factor * out[g]
            elif k == i:
                pivot_at[i] = e
                if work[k] == 0.0:
                    return out, i
        for e in range(lu_start[i], lu_start[i + 1]):
            out[e] = work[lu_cols[e]]
            work[lu_cols[e]] = 0.0
    return out, -1
