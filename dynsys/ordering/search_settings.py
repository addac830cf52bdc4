"""How to search, how far a search is, and what it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from dynsys.ordering.operations import Operations
from dynsys.ordering.search_run import Candidate, Objective

__all__ = ["Progress", "Search", "SearchResult"]


@final
@dataclass(frozen=True)
class Progress:
    """How far a search is: evaluations made and wanted, seconds spent, the best so far."""

    evaluations: int
    wanted: int | None
    seconds: float
    start: Operations
    best: Operations


@final
@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    ``constructive`` is the best order it began with; ``interrupted`` says that Ctrl-C ended it.
    """

    best: Candidate
    constructive: Candidate
    evaluations: int
    seconds: float
    interrupted: bool

    @property
    def improvement(self) -> float:
        """Part of the constructive order's cost that the search saved."""
        return 1.0 - self.best.cost / self.constructive.cost


@final
@dataclass(frozen=True)
class Search:
    """How to search.

    Parameters
    ----------
    seconds : time to stop after; None for no limit.
    evaluations : number of orders priced; None for no limit. Without either limit nothing is
        searched: the best constructive order is the result.
    seed : of all random choices.
    workers, scheduler : see :func:`~dynsys.ordering.search_workers.executor`.
    threshold : smallest admissible ratio of a pivot to its column or row, at every sampled
        state. Constructive orders that fall below it are not taken, unless all do.
    objective : "operations" or "time" (measured, hence not repeatable).
    progress : called after every run, and once before the first.
    """

    seconds: float | None = None
    evaluations: int | None = None
    seed: int = 0
    workers: int = 1
    scheduler: str | None = None
    threshold: float = 1e-3
    objective: Objective = "operations"
    progress: Callable[[Progress], None] | None = field(default=None, compare=False)

    @property
    def is_off(self) -> bool:
        """True if there is nothing to do but construct."""
        return not self.seconds and not self.evaluations
