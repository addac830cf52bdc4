"""LU of a sparse system under a pivot order: by scalars of any kind, and by pattern alone.

:func:`factor_and_solve` is the `lu` method of a plan, written once for numbers (float64,
longdouble, arrays of states) and for nodes of the expression graph, where products with 0 and
+-1 vanish by themselves and what no output needs is dropped. Right-looking; only the rows that
back substitution reads are kept:

    pivot k, row u, column l:   A_ij -= l_i u_j / p,   b_i -= l_i b_k / p

One division per pivot; 1/p multiplies the shorter of l (c_k entries) and of u with b_k.
Wherever the rows up to a pivot touch no later unknown, these unknowns are solved for at once
and substituted as values: diagonal blocks of a block lower triangular order are factored, the
rest is only multiplied.

:func:`symbolic_lu` tells which entries of L and U are nonzero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from scipy.sparse import csr_array

from dynsys.errors import SingularSystemError, StructurallySingularError
from dynsys.jit import Loop
from dynsys.plan.orders.orders import Pattern, PivotOrder, entry_columns, require_square
from dynsys.types import BoolArray, IntArray

__all__ = [
    "Row",
    "ScalarSolution",
    "SymbolicLU",
    "entries_by_row",
    "factor_and_solve",
    "subtract_multiple",
    "symbolic_lu",
]

Row: TypeAlias = dict[int, Any]
"""Entries of a row: column -> scalar."""


def entries_by_row(pattern: Pattern, data: Iterable[Any]) -> list[Row]:
    """Rows of a matrix, from scalars in the order of its pattern.

    ``data`` (entries,), or (entries, states) to eliminate many states at once.
    """
    rows: list[Row] = [{} for _ in range(pattern.shape[0])]
    places = zip(pattern.indices.tolist(), entry_columns(pattern).tolist(), strict=True)
    for (r, c), value in zip(places, data, strict=True):
        rows[r][c] = value
    return rows


def subtract_multiple(
    target: Row, multiplier: Any, row: Row, minus: Callable[[Any, Any], Any] = operator.sub
) -> list[tuple[int, bool]]:
    """Row operation target -= multiplier * row; entries that become exactly 0 go.

    Returns the columns whose entry came (True: fill) or went (False: cancelled), in turn.
    """
    changed = []
    for j, value in row.items():
        product = multiplier * value
        if j not in target:
            if not _is_zero(product):
                target[j] = -product
                changed.append((j, True))
        elif _is_zero(updated := minus(target[j], product)):
            del target[j]
            changed.append((j, False))
        else:
            target[j] = updated
    return changed


def _is_zero(x: Any) -> bool:
    """True for an exact zero number; nodes of a graph and arrays are never that."""
    return isinstance(x, (float, int, np.floating)) and x == 0


# ---- factor and solve ----------------------------------------------------------------------


class ScalarSolution(NamedTuple):
    """Unknowns ``x``, by column; ``pivots`` in the order they were divided by."""

    x: list[Any]
    pivots: list[Any]


def factor_and_solve(
    rows: Sequence[Mapping[int, Any]], rhs: Iterable[Any], order: PivotOrder
) -> ScalarSolution:
    """Solve A x = rhs by elimination with the pivots of ``order``, without exchanges.

    Parameters
    ----------
    rows : rows of A as mappings column -> scalar; they are not changed.
    rhs : right-hand side, one scalar per row.
    order : pivots; every one must be nonzero when it is reached.

    Raises
    ------
    SingularSystemError
        if a pivot is exactly zero, or no entry at all.

    Examples
    --------
    >>> rows = [{0: 2.0, 1: 1.0}, {0: 1.0, 1: 3.0}]
    >>> factor_and_solve(rows, [3.0, 4.0], PivotOrder([0, 1], [0, 1])).x
    [1.0, 1.0]
    """
    state = _State(rows, rhs, order)
    for k in range(len(state.row_order)):
        state.eliminate(k)
        if state.closed[k]:
            state.substitute()
    return ScalarSolution(state.x, state.pivots)


class _State:
    """Active rows, their right-hand sides, and the rows waiting for back substitution."""

    def __init__(
        self, rows: Sequence[Mapping[int, Any]], rhs: Iterable[Any], order: PivotOrder
    ) -> None:
        self.row_order, self.col_order = order.row_order.tolist(), order.col_order.tolist()
        self.rows: list[Row] = [
            {c: value for c, value in row.items() if not _is_zero(value)} for row in rows
        ]
        self.rhs: list[Any] = list(rhs)
        self.pivots: list[Any] = []
        self.x: list[Any] = [0.0] * len(self.col_order)
        self.waiting: list[tuple[int, int]] = []
        self.divisor: dict[int, Any] = {}
        self.factor: dict[int, Any] = {}
        self.rows_with: list[set[int]] = [set() for _ in self.col_order]
        for r, row in enumerate(self.rows):
            for c in row:
                self.rows_with[c].add(r)
        self.closed, self.block = self._blocks()

    def _blocks(self) -> tuple[list[bool], list[int]]:
        """Pivots at which all unknowns so far are determined; end of each row's block."""
        place = [0] * len(self.col_order)
        for k, c in enumerate(self.col_order):
            place[c] = k
        farthest, closed = -1, []
        for k, r in enumerate(self.row_order):
            farthest = max(farthest, max((place[c] for c in self.rows[r]), default=k))
            closed.append(farthest <= k)
        block, end = [0] * len(self.rows), len(closed) - 1
        for k in reversed(range(len(closed))):
            if closed[k]:
                end = k
            block[self.row_order[k]] = end
        return closed, block

    def eliminate(self, k: int) -> None:
        """Take pivot k: clear its column in the active rows of its block."""
        r, c = self.row_order[k], self.col_order[k]
        row = self.rows[r]
        pivot = row.pop(c, 0.0)
        if _is_zero(pivot):
            raise SingularSystemError(
                f"pivot {k} (equation row {r}, unknown column {c}) is zero; choose another"
                " order, or a pivoting solve at this state"
            )
        self.pivots.append(pivot)
        for j in (c, *row):
            self.rows_with[j].discard(r)
        if not row:  # x_c = b_r / p, at once
            self._determine(c, self.rhs[r] / pivot)
            return
        self.waiting.append((r, c))
        # l, without the rows of later blocks: they keep the column and get its value instead
        below = sorted(i for i in self.rows_with[c] if self.block[i] == self.block[r])
        if not below:
            self.divisor[r] = pivot
            return
        inverse = 1.0 / pivot
        if len(below) <= len(row):  # A_ij -= (l_i / p) u_j
            self.factor[r] = inverse
            for i in below:
                self._subtract(i, c, self.rows[i].pop(c) * inverse, r)
        else:  # A_ij -= l_i (u_j / p)
            self.rows[r] = {j: value * inverse for j, value in row.items()}
            self.rhs[r] = self.rhs[r] * inverse
            for i in below:
                self._subtract(i, c, self.rows[i].pop(c), r)

    def _subtract(self, i: int, c: int, multiplier: Any, r: int) -> None:
        """Row i -= multiplier * row r, whose column c is the pivot's."""
        self.rows_with[c].discard(i)
        for j, came in subtract_multiple(self.rows[i], multiplier, self.rows[r]):
            (self.rows_with[j].add if came else self.rows_with[j].discard)(i)
        self.rhs[i] = self.rhs[i] - multiplier * self.rhs[r]

    def _determine(self, c: int, value: Any) -> None:
        """Set x_c, and substitute it in every active row."""
        self.x[c] = value
        for i in sorted(self.rows_with[c]):
            self.rhs[i] = self.rhs[i] - self.rows[i].pop(c) * value
        self.rows_with[c].clear()

    def substitute(self) -> None:
        """Back substitution through the rows that wait: all their unknowns are known now."""
        for r, c in reversed(self.waiting):
            value = self.rhs[r]
            for j, u in self.rows[r].items():
                value = value - u * self.x[j]
            if r in self.divisor:
                value = value / self.divisor[r]
            elif r in self.factor:
                value = value * self.factor[r]
            self._determine(c, value)
        self.waiting.clear()


# ---- the pattern of L and U ----------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SymbolicLU:
    """Pattern of L + U of ``A[row_order][:, col_order]``, by rows, unit diagonal of L left out.

    ``columns[start[i] : start[i + 1]]`` are the columns of row i, ascending;
    ``touched`` (n,) tells which pivots an earlier step changes: the others stay entries of A;
    ``fill`` is the number of entries of L + U that are not entries of A.
    """

    order: PivotOrder
    start: IntArray
    columns: IntArray
    touched: BoolArray
    fill: int

    @property
    def n(self) -> int:
        """Number of pivots."""
        return len(self.touched)

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
    fill = len(columns) - int(A.nnz)
    return SymbolicLU(order, start.astype(np.intp), keys % n, touched, fill)


@Loop
def _symbolic(n: Any, start: Any, cols: Any) -> Any:
    """Row i of L + U is row i of A, and row k of U for every k < i in it.

    Row i's columns in the order they are met; those of U are also kept by themselves.
    """
    out_start, upper_start = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    out, upper = np.zeros(2 * len(cols) + n, np.int64), np.zeros(len(cols) + n, np.int64)
    touched = np.zeros(n, np.bool_)
    mark = np.full(n, -1, np.int64)
    size = n_upper = 0
    for i in range(n):
        if size + n > len(out):  # room for a full row
            longer = np.zeros(2 * len(out) + n, np.int64)
            longer[:size] = out[:size]
            out = longer
        if n_upper + n > len(upper):
            longer = np.zeros(2 * len(upper) + n, np.int64)
            longer[:n_upper] = upper[:n_upper]
            upper = longer
        at = size
        for e in range(start[i], start[i + 1]):  # row i of A
            mark[cols[e]] = i
            out[size] = cols[e]
            size += 1
        while at < size:  # the list grows while it is read
            k = out[at]
            at += 1
            if k > i:
                upper[n_upper] = k
                n_upper += 1
            elif k < i:  # row k of U
                for e in range(upper_start[k], upper_start[k + 1]):
                    j = upper[e]
                    if j == i:
                        touched[i] = True
                    if mark[j] != i:
                        mark[j] = i
                        out[size] = j
                        size += 1
        out_start[i + 1], upper_start[i + 1] = size, n_upper
        if mark[i] != i:  # no pivot
            return out_start, out[:size], touched, i
    return out_start, out[:size].copy(), touched, -1
