"""Markowitz's order: at every step the pivot that makes the least work, among the safe ones.

    count   r_k c_k, the largest possible number of updates (Markowitz 1957)
    flops   what the step really multiplies, adds and divides: factors +-1 are free, and an
            update that fills an empty place is no addition
    fill    new entries

With values at sampled states, a pivot is admissible if at every state it is at least
``threshold`` times the largest entry of its column, or of its row. Sampling is no proof: the
plan says so of each pivot, and a kernel checks it at run time.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from dynsys.errors import StructurallySingularError
from dynsys.plan.lu import entries_by_row, subtract_multiple
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, Pattern, PivotOrder
from dynsys.types import Array

__all__ = ["ActiveMatrix", "Cost", "Markowitz"]

Cost: TypeAlias = Literal["count", "flops", "fill"]
_RELAX = 0.1


@final
@dataclass(frozen=True)
class Markowitz(AbstractOrdering):
    """Greedy order of least work per step.

    Parameters
    ----------
    cost : what a step costs: "count", "flops" or "fill".
    threshold : smallest admissible ratio of a pivot to its column's or row's largest entry, at
        all sampled states; where no entry reaches it, it is lowered tenfold for that step.
    breadth : how many admissible candidates of lowest count are compared, for costs other than
        the count.
    seed : breaks ties at random; None takes the first.
    """

    cost: Cost = "count"
    threshold: float = 0.01
    breadth: int = 24
    seed: int | None = None

    @property
    def name(self) -> str:
        return f"Markowitz ({self.cost})"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        return self.complete(pattern, context, ())

    def complete(
        self, pattern: Pattern, context: OrderingContext, first: Sequence[tuple[int, int]]
    ) -> PivotOrder:
        """Order that begins with the given pivots (row, column) and goes on greedily.

        Where the given pivots are all there are, they are taken as they come, unchecked.

        Raises
        ------
        StructurallySingularError
            if no pivot is left before the end, or a given pivot is zero when its turn comes.
        """
        n = pattern.shape[0]
        if len(first) == n:
            return PivotOrder.of(first)
        active = ActiveMatrix(pattern, context.values)
        rng = None if self.seed is None else np.random.default_rng(self.seed)
        pivots = list(first)
        for r, c in pivots:
            if c not in active.rows.get(r, {}):
                raise StructurallySingularError(
                    f"the given pivot at row {r}, column {c} is zero when its turn comes"
                )
            active.eliminate(r, c)
        while len(pivots) < n:
            r, c = self._next(active, rng, len(pivots), n)
            active.eliminate(r, c)
            pivots.append((r, c))
        return PivotOrder.of(pivots)

    def _next(
        self, active: ActiveMatrix, rng: np.random.Generator | None, done: int, n: int
    ) -> tuple[int, int]:
        if active.rows_by_count[0] or active.cols_by_count[0]:
            raise StructurallySingularError(
                f"after {done} of {n} pivots an equation or unknown has no entry left: the"
                " system is singular; coarse_decomposition and the verdict say where"
            )
        threshold = self.threshold
        while not (found := self._candidates(active, threshold)):
            threshold = threshold * _RELAX if threshold > np.finfo(float).tiny else -1.0
        costs = [self._cost(active, r, c) for r, c in found]
        best = min(costs)
        ties = [pivot for pivot, cost in zip(found, costs, strict=True) if cost == best]
        return ties[0 if rng is None else int(rng.integers(len(ties)))]

    def _candidates(self, active: ActiveMatrix, threshold: float) -> list[tuple[int, int]]:
        """Admissible entries of lowest count."""
        found: dict[tuple[int, int], None] = {}
        least: int | None = None
        enough = 1 if self.cost == "count" and self.seed is None else self.breadth
        for bound, r, c in _entries_by_count(active):
            if least is not None and bound > least and len(found) >= enough:
                break
            count = (len(active.rows[r]) - 1) * (len(active.cols[c]) - 1)
            if self.cost == "count" and least is not None and count >= least + (enough > 1):
                continue
            if len(found) >= 4 * self.breadth:
                break
            if (r, c) not in found and active.ratio(r, c) >= threshold:
                found[r, c] = None
                least = count if least is None else min(least, count)
        return list(found)

    def _cost(self, active: ActiveMatrix, r: int, c: int) -> tuple[int, int]:
        row, column = active.rows[r], active.cols[c]
        count = (len(row) - 1) * (len(column) - 1)
        if self.cost == "count" or count == 0:
            return (count if self.cost == "count" else 0, count)
        others = [i for i in column if i != r]
        columns = [j for j in row if j != c]
        filled = sum(j not in active.rows[i] for i in others for j in columns)
        if self.cost == "fill":
            return filled, count
        general_pivot = not active.is_unit(row[c])
        general_right = sum(not active.is_unit(row[j]) for j in columns)
        multiplied = len(others) * general_right
        if not general_pivot:
            general_below = sum(not active.is_unit(active.rows[i][c]) for i in others)
            multiplied = general_below * general_right
        scaled = 1 + min(len(others), len(columns)) if general_pivot else 0
        return multiplied + scaled + count - filled, count


def _entries_by_count(active: ActiveMatrix) -> Iterator[tuple[int, int, int]]:
    """Entries with a lower bound of the counts of all that follow, columns and rows in turn."""
    for k in range(1, len(active.cols_by_count)):
        for c in list(active.cols_by_count[k]):
            for r in active.cols[c]:
                yield (k - 1) ** 2, r, c
        for r in list(active.rows_by_count[k]):
            for c in active.rows[r]:
                yield k * (k - 1), r, c


# ---- the part of a matrix that elimination has not reached yet, at many states at once -----

CANCELLED = 1e-12
"""Differences below this part of their terms, at every sampled state, are taken for zero."""


@final
class ActiveMatrix:
    """Rows as mappings column -> values (states,); columns as sets of rows.

    Without values the pattern alone is eliminated, and every entry is as good a pivot as any.
    ``rows_by_count[k]`` and ``cols_by_count[k]`` hold what has k entries left, for finding
    pivots of little fill. Sets are mappings to None: they keep their order.
    """

    def __init__(self, pattern: Pattern, values: Array | None) -> None:
        n_rows, n_cols = pattern.shape
        self.numeric = values is not None
        data = [_Entry()] * pattern.nnz if values is None else list(values.T.copy())
        self.rows: dict[int, dict[int, Any]] = {
            r: {c: x for c, x in row.items() if not self.numeric or x.any()}
            for r, row in enumerate(entries_by_row(pattern, data))
        }
        self.cols: dict[int, dict[int, None]] = {c: {} for c in range(n_cols)}
        for r, row in self.rows.items():
            for c in row:
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
        row, column = self.rows.pop(r), self.cols[c]
        del self.rows_by_count[len(row)][r]
        for j in row:
            self._set_entry(r, j, False)
        del self.cols[c], self.cols_by_count[len(column)][c]
        pivot = row.pop(c)
        for i in column:
            target = self.rows[i]
            before = len(target)
            entry = target.pop(c)
            if row:
                minus = _difference if self.numeric else operator.sub
                for j, came in subtract_multiple(target, entry / pivot, row, minus):
                    self._set_entry(i, j, came)
            _recount(self.rows_by_count, i, before, len(target))

    def _set_entry(self, i: int, j: int, there: bool) -> None:
        """Column j has row i from now on, or no more."""
        column = self.cols[j]
        before = len(column)
        if there:
            column[i] = None
        else:
            del column[i]
        _recount(self.cols_by_count, j, before, len(column))


class _Entry:
    """A scalar of which nothing is known but that it is there."""

    def _entry(self, *_: Any) -> _Entry:
        return self

    __mul__ = __truediv__ = __sub__ = __neg__ = _entry


def _difference(old: Array, product: Array) -> Array | float:
    """old - product (states,), or 0 where that cancels at every state."""
    new = old - product
    kept = np.abs(new) > CANCELLED * (np.abs(old) + np.abs(product))
    return new if kept.any() else 0.0


def _recount(table: list[dict[int, None]], key: int, before: int, after: int) -> None:
    if before != after:
        del table[before][key]
        table[after][key] = None
