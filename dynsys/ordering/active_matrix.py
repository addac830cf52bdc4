"""The part of a sparse matrix that elimination has not reached yet, at many states at once."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from dynsys.ordering.orders import Pattern
from dynsys.types import Array

__all__ = ["ActiveMatrix"]

CANCELLED = 1e-12
"""Differences below this part of their terms, at every sampled state, are taken for zero."""


@final
class ActiveMatrix:
    """Rows as mappings column -> values (states,); columns as sets of rows.

    Without values the pattern alone is eliminated, and every entry is as good a pivot as any.
    ``rows_by_count[k]`` and ``cols_by_count[k]`` hold what has k entries left, for finding
    pivots of little fill.
    """

    def __init__(self, pattern: Pattern, values: Array | None) -> None:
        n_rows, n_cols = pattern.shape
        self.numeric = values is not None
        columns = np.repeat(np.arange(n_cols), np.diff(pattern.indptr)).tolist()
        data: list[Any] = [True] * pattern.nnz if values is None else list(values.T.copy())
        self.rows: dict[int, dict[int, Any]] = {r: {} for r in range(n_rows)}
        self.cols: dict[int, dict[int, None]] = {c: {} for c in range(n_cols)}
        for r, c, value in zip(pattern.indices.tolist(), columns, data, strict=True):
            if value is True or value.any():
                self.rows[r][c] = value
                self.cols[c][r] = None
        size = max(n_rows, n_cols) + 1
        self.rows_by_count: list[dict[int, None]] = [{} for _ in range(size)]
        self.cols_by_count: list[dict[int, None]] = [{} for _ in range(size)]
        for r, row in self.rows.items():
            self.rows_by_count[len(row)][r] = None
        for c, col in self.cols.items():
            self.cols_by_count[len(col)][c] = None

    def ratio(self, r: int, c: int) -> float:
        """How safe (r, c) is as a pivot: one is safest, zero is no pivot.

        The worst over the states of |pivot| to the largest entry of its column or of its row,
        whichever is smaller; growth in the step is bounded by 1 + 1/ratio.
        """
        if not self.numeric:
            return 1.0
        pivot = np.abs(self.rows[r][c])
        column = np.max([np.abs(self.rows[i][c]) for i in self.cols[c]], axis=0)
        right = np.max([np.abs(value) for value in self.rows[r].values()], axis=0)
        return float((pivot / np.minimum(column, right).clip(np.finfo(float).tiny)).min())

    def is_unit(self, value: Any) -> bool:
        """True for an entry that is +-1 at every state: products with it cost nothing."""
        return self.numeric and bool((np.abs(value) == 1.0).all())

    def eliminate(self, r: int, c: int) -> None:
        """Take (r, c) as the next pivot."""
        row, others = self._take_row(r), self._take_col(c, r)
        pivot = row.pop(c)
        for i in others:
            target = self.rows[i]
            before = len(target)
            entry = target.pop(c)
            factor = entry / pivot if self.numeric and row else True
            for j, value in row.items():
                self._update(i, j, factor, value)
            self._recount(self.rows_by_count, i, before, len(target))

    def _update(self, i: int, j: int, factor: Any, value: Any) -> None:
        target, column = self.rows[i], self.cols[j]
        if j not in target:
            target[j] = -(factor * value) if self.numeric else True
            column[i] = None
            self._recount(self.cols_by_count, j, len(column) - 1, len(column))
        elif self.numeric:
            old, product = target[j], factor * value
            new = old - product
            if (np.abs(new) > CANCELLED * (np.abs(old) + np.abs(product))).any():
                target[j] = new
                return
            del target[j], column[i]
            self._recount(self.cols_by_count, j, len(column) + 1, len(column))

    def _take_row(self, r: int) -> dict[int, Any]:
        row = self.rows.pop(r)
        del self.rows_by_count[len(row)][r]
        for j in row:
            column = self.cols[j]
            del column[r]
            self._recount(self.cols_by_count, j, len(column) + 1, len(column))
        return row

    def _take_col(self, c: int, r: int) -> list[int]:
        column = self.cols.pop(c)
        del self.cols_by_count[len(column)][c]
        return list(column)

    @staticmethod
    def _recount(table: list[dict[int, None]], key: int, before: int, after: int) -> None:
        if before != after:
            del table[before][key]
            table[after][key] = None
