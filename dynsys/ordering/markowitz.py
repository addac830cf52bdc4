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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from dynsys.errors import StructurallySingularError
from dynsys.ordering.active_matrix import ActiveMatrix
from dynsys.ordering.orders import (
    AbstractOrdering,
    OrderingContext,
    Pattern,
    PivotOrder,
    require_square,
)

__all__ = ["Cost", "Markowitz"]

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

    def order(self, pattern: Pattern, context: OrderingContext | None = None) -> PivotOrder:
        return self.complete(pattern, context, ())

    def complete(
        self,
        pattern: Pattern,
        context: OrderingContext | None,
        first: Sequence[tuple[int, int]],
    ) -> PivotOrder:
        """Order that begins with the given pivots (row, column) and goes on greedily.

        Where the given pivots are all there are, they are taken as they come, unchecked.

        Raises
        ------
        StructurallySingularError
            if no pivot is left before the end, or a given pivot is zero when its turn comes.
        """
        n = require_square(pattern)
        if len(first) == n:
            return PivotOrder([r for r, _ in first], [c for _, c in first])
        active = ActiveMatrix(pattern, None if context is None else context.values)
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
        return PivotOrder([r for r, _ in pivots], [c for _, c in pivots])

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
