"""Scalar elimination of a sparse system under a pivot order, over scalars of any kind.

The `lu` method of a plan, written once for numbers (float64, longdouble, arrays of states) and
for nodes of the expression graph, where products with 0 and +-1 vanish by themselves and what
no output needs is dropped. Right-looking; only the rows that back substitution reads are kept:

    pivot k, row u, column l:   A_ij -= l_i u_j / p,   b_i -= l_i b_k / p

One division per pivot; 1/p multiplies the shorter of l (c_k entries) and of u with b_k.
Wherever the rows up to a pivot touch no later unknown, these unknowns are solved for at once
and substituted as values: diagonal blocks of a block lower triangular order are factored, the
rest is only multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.ordering.orders import PivotOrder
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.types import ScalarArray

__all__ = ["Elimination", "entries_by_row", "factor_and_solve", "solve_system"]

Row: TypeAlias = dict[int, Any]
Observer: TypeAlias = Callable[[int, Any, Sequence[Any], Sequence[Any]], None]
"""Called at pivot k with the pivot, the entries below it and those right of it."""


@final
@dataclass(frozen=True, eq=False)
class Elimination:
    """Unknowns ``x``, by column; ``pivots`` in the order they were divided by."""

    x: list[Any]
    pivots: list[Any]

    def array(self) -> ScalarArray:
        """Unknowns as an array (columns,) or, for arrays as scalars, (columns, ...)."""
        return np.array(self.x)


def factor_and_solve(
    rows: Sequence[Mapping[int, Any]],
    rhs: Iterable[Any],
    order: PivotOrder,
    observe: Observer | None = None,
) -> Elimination:
    """Solve A x = rhs by elimination with the pivots of ``order``, without exchanges.

    Parameters
    ----------
    rows : rows of A as mappings column -> scalar; they are not changed.
    rhs : right-hand side, one scalar per row.
    order : pivots; every one must be nonzero when it is reached.
    observe : called at every pivot, for measuring pivots.

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
        if observe is not None:
            state.report(k, observe)
        state.eliminate(k)
        if state.closed[k]:
            state.substitute()
    return Elimination(state.x, state.pivots)


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

    def report(self, k: int, observe: Observer) -> None:
        r, c = self.row_order[k], self.col_order[k]
        column = [self.rows[i][c] for i in self.rows_with[c] if i != r]
        right = [value for j, value in self.rows[r].items() if j != c]
        observe(k, self.rows[r].get(c, 0.0), column, right)

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
        if not row:
            self._determine(c, self.rhs[r] / pivot)
            return
        self.waiting.append((r, c))
        # rows of later blocks keep the column: they get its value instead
        below = sorted(i for i in self.rows_with[c] if self.block[i] == self.block[r])
        if not below:
            self.divisor[r] = pivot
            return
        inverse = 1.0 / pivot
        if len(below) <= len(row):
            self.factor[r] = inverse
            for i in below:
                self._subtract(i, c, self.rows[i].pop(c) * inverse, r)
        else:
            self.rows[r] = {j: value * inverse for j, value in row.items()}
            self.rhs[r] = self.rhs[r] * inverse
            for i in below:
                self._subtract(i, c, self.rows[i].pop(c), r)

    def _subtract(self, i: int, c: int, multiplier: Any, r: int) -> None:
        """Row i -= multiplier * row r, whose column c is the pivot's."""
        target = self.rows[i]
        self.rows_with[c].discard(i)
        for j, value in self.rows[r].items():
            product = multiplier * value
            updated = target[j] - product if j in target else -product
            if _is_zero(updated):
                if target.pop(j, None) is not None:
                    self.rows_with[j].discard(i)
            else:
                target[j] = updated
                self.rows_with[j].add(i)
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


def _is_zero(x: Any) -> bool:
    """True for an exact zero number; nodes of a graph and arrays are never that."""
    return isinstance(x, (float, int, np.floating)) and x == 0


def entries_by_row(system: LinearSystem, data: ScalarArray) -> list[Row]:
    """Rows of D as mappings column -> scalar, from values in the order of its pattern.

    ``data`` (entries,), or (entries, states) to eliminate many states at once.
    """
    rows: list[Row] = [{} for _ in range(system.shape[0])]
    columns = np.repeat(np.arange(system.shape[1]), np.diff(system.indptr))
    places = zip(system.indices.tolist(), columns.tolist(), strict=True)
    for (r, c), value in zip(places, data, strict=True):
        rows[r][c] = value
    return rows


def solve_system(
    system: LinearSystem, kinematics: Kinematics, y: ScalarArray, order: PivotOrder
) -> Elimination:
    """Return d with D d + b = 0, b holding -y, at a state whose scalars may be of any kind.

    ``y`` is in the order of ``system.measured_rows``.
    """
    data, bias = system.values(kinematics)
    rhs = [-value for value in bias]
    for row, value in zip(system.measured_rows.tolist(), y, strict=True):
        rhs[row] = rhs[row] + value
    return factor_and_solve(entries_by_row(system, data), rhs, order)
