"""Search: pivot orders that cost less than any constructive one, found offline.

    search_order  constructive orders first, then generations of runs until time is up
    Generations   each has the same runs however many workers share them, every one begins at
                  one of the best orders of the generations before, and they are merged in the
                  order of the runs
    run_task      one run: greedy orders, or changes of one (:mod:`dynsys.plan.search.local`)

So the same seed and the same number of evaluations give the same plan, on one core or on a
cluster. The search can be stopped at any time; it returns the best it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, final

from dynsys.distribution import say_slow
from dynsys.errors import (
    DynsysError,
    SingularSystemError,
    StructurallySingularError,
    UnavailableOrdering,
)
from dynsys.jit import has_compiled_loops
from dynsys.plan.operations import Operations
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.libraries import library_orderings
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext
from dynsys.plan.orders.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.plan.search.local import Candidate, Measure, Mode, Task, get_ready, price, run_task
from dynsys.plan.search.price import SearchProblem
from dynsys.resumable import Serial, executor
from dynsys.system.linear_system import LinearSystem

__all__ = [
    "Generations",
    "Progress",
    "Search",
    "SearchResult",
    "constructive",
    "say_slow_search",
    "search_order",
]


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
    workers, scheduler : see :func:`~dynsys.resumable.executor`.
    threshold : smallest admissible ratio of a pivot to its column or row, at every sampled
        state. Constructive orders that fall below it are not taken, unless all do.
    measure : cost of a program to minimise in place of its operations, such as its measured
        nanoseconds (then results are not repeatable).
    progress : called after every run, and once before the first.
    """

    seconds: float | None = None
    evaluations: int | None = None
    seed: int = 0
    workers: int = 1
    scheduler: str | None = None
    threshold: float = 1e-3
    measure: Measure | None = None
    progress: Callable[[Progress], None] | None = field(default=None, compare=False)

    @property
    def is_off(self) -> bool:
        """True if there is nothing to do but construct."""
        return not self.seconds and not self.evaluations


class Progress(NamedTuple):
    """How far a search is: evaluations made and wanted, seconds spent, the best so far."""

    evaluations: int
    wanted: int | None
    seconds: float
    start: Operations
    best: Operations


class SearchResult(NamedTuple):
    """What a search found.

    ``elite`` are the best few, best first; ``constructive`` is the best order it began with;
    ``interrupted`` says that Ctrl-C ended it.
    """

    best: Candidate
    constructive: Candidate
    evaluations: int
    seconds: float
    interrupted: bool
    elite: tuple[Candidate, ...] = ()


def say_slow_search() -> None:
    """Warn where orders are not priced by compiled loops."""
    if not has_compiled_loops():
        say_slow("the search prices orders in plain Python and tries some 50 times fewer")


def search_order(
    problem: SearchProblem, search: Search, system: LinearSystem | None = None
) -> SearchResult:
    """Best order found; with ``system``, orders that follow the robot are beginnings too."""
    began = time.perf_counter()
    if search.is_off:
        known = constructive(problem, search, system)
        return Generations(problem, search, known, began).result(interrupted=False)
    say_slow_search()
    with executor(search.workers, search.scheduler) as pool:
        pool.submit(get_ready)  # other processes start while the beginnings are constructed
        known = constructive(problem, search, system)
        generations = Generations(problem, search, known, began)
        try:
            while not generations.is_over:
                generations.generation(pool)
        except KeyboardInterrupt:
            return generations.result(interrupted=True)
    return generations.result(interrupted=False)


# ---- generations of independent runs -------------------------------------------------------

RUNS = 8
"""Runs of a generation: fixed, so that results do not depend on the number of workers."""
FIRST: tuple[Mode, ...] = ("restart", "evolve")
MODES: tuple[Mode, ...] = ("anneal", "evolve")
"""Kinds of runs: of the first generation, and, in turn, of all others."""
ELITE = 4
"""Orders that the runs of the next generation begin at."""
EVALUATIONS_PER_RUN = 500


class Generations:
    """The best orders so far, what has been spent on them, and the next generation of runs.

    Parameters
    ----------
    problem, search : what is searched and how.
    known : orders to begin with, best first.
    began : time of :func:`time.perf_counter` from which the search's seconds count.
    """

    def __init__(
        self, problem: SearchProblem, search: Search, known: list[Candidate], began: float
    ) -> None:
        self.problem, self.search, self.began = problem, search, began
        self.elite = known[:ELITE]
        self.first = known[0]
        self.threshold = min(search.threshold, self.first.safety)
        self.evaluations = self.generations = 0
        self.report()

    @property
    def is_over(self) -> bool:
        """True if the evaluations or the seconds are spent."""
        wanted = self.search.evaluations
        return self._late() or (wanted is not None and self.evaluations >= wanted)

    def result(self, *, interrupted: bool) -> SearchResult:
        """Return the best so far."""
        seconds = time.perf_counter() - self.began
        elite = tuple(sorted(self.elite, key=lambda candidate: candidate.rank))
        return SearchResult(
            elite[0],
            self.first,
            self.evaluations,
            seconds,
            interrupted=interrupted,
            elite=elite,
        )

    def report(self, more: Sequence[Candidate] = ()) -> None:
        """Tell whoever wants to know how far the search is, with candidates not merged yet."""
        if self.search.progress is not None:
            seconds = time.perf_counter() - self.began
            start, best = self.first.operations, self._best(more).operations
            wanted = self.search.evaluations
            self.search.progress(Progress(self.evaluations, wanted, seconds, start, best))

    def _best(self, more: Sequence[Candidate] = ()) -> Candidate:
        safe = [c for c in more if c.safety >= self.threshold]
        return min([*self.elite, *safe], key=lambda candidate: candidate.rank)

    def generation(self, pool: Executor) -> None:
        """Run a generation; if time runs out or Ctrl-C comes, keep what is finished."""
        tasks = list(self._tasks())
        finished: dict[int, list[Candidate]] = {}
        try:
            for index, candidates in _run_all(pool, self.problem, tasks):
                finished[index] = candidates
                self.evaluations += tasks[index].evaluations
                self.report(candidates)
                if self._late():
                    break
        finally:
            self._merge([finished[index] for index in sorted(finished)])
            self.generations += 1

    def _tasks(self) -> Iterator[Task]:
        wanted = self.search.evaluations
        left = RUNS * EVALUATIONS_PER_RUN if wanted is None else wanted - self.evaluations
        modes = RUNS // len(MODES) * MODES if self.generations else FIRST
        for index, mode in enumerate(modes):
            count = min(EVALUATIONS_PER_RUN, left - index * EVALUATIONS_PER_RUN)
            if count <= 0:
                return
            start = self.elite[index // len(MODES) % len(self.elite)]
            seed = (self.search.seed, self.generations, index)
            yield Task(start, seed, count, mode, self.threshold, self.search.measure)

    def _late(self) -> bool:
        limit = self.search.seconds or None
        return limit is not None and time.perf_counter() - self.began >= limit

    def _merge(self, found: Sequence[list[Candidate]]) -> None:
        """Keep the best, each order once; earlier ones where ranks are equal."""
        best: dict[tuple[float, int], Candidate] = {}
        for candidate in [*self.elite, *(candidate for run in found for candidate in run)]:
            if candidate.safety >= self.threshold:
                best.setdefault(candidate.rank, candidate)
        self.elite = [best[rank] for rank in sorted(best)[:ELITE]]


def _run_all(
    pool: Executor, problem: SearchProblem, tasks: Sequence[Task]
) -> Iterator[tuple[int, list[Candidate]]]:
    """Results of the tasks as they come; tasks of a pool that broke are run here."""
    if isinstance(pool, Serial):  # one by one, so that each is seen when it is done
        for index, task in enumerate(tasks):
            yield index, run_task(problem, task)
        return
    futures: dict[Future[list[Candidate]], int] = {}
    lost = set(range(len(tasks)))
    try:
        with suppress(BrokenProcessPool):
            for index in range(len(tasks)):
                futures[pool.submit(run_task, problem, tasks[index])] = index
        for future in as_completed(futures):
            try:
                found = future.result()
            except BrokenProcessPool:
                continue
            lost.discard(futures[future])
            yield futures[future], found
    finally:
        for future in futures:
            future.cancel()
    for index in sorted(lost):
        yield index, run_task(problem, tasks[index])


# ---- orders that a search begins with ------------------------------------------------------


def constructive(
    problem: SearchProblem, search: Search, system: LinearSystem | None = None
) -> list[Candidate]:
    """Orders to begin with, priced, best first; unsafe ones only if there are no others."""
    orderings: list[AbstractOrdering] = [
        Markowitz("fill"),
        Markowitz("count"),
        BlockTriangular(Markowitz("fill")),
    ]
    if system is not None:
        orderings += [RootToLeaf(), LeafToRoot()]
    context = OrderingContext(system, problem.values)
    found: list[Candidate] = []
    failures: list[DynsysError] = []
    for ordering in orderings:
        try:
            order = ordering.order(problem.pattern, context)
            found.append(price(problem, order, ordering.name, search.measure))
        except (StructurallySingularError, SingularSystemError) as error:
            failures.append(error)
    if not search.is_off and found:
        found += _of_libraries(problem, context, search, found)
    if not found:
        raise failures[0]
    safe = [candidate for candidate in found if candidate.safety >= search.threshold]
    return sorted(safe or found, key=lambda candidate: candidate.rank)


def _of_libraries(
    problem: SearchProblem, context: OrderingContext, search: Search, known: Sequence[Candidate]
) -> Iterator[Candidate]:
    """Orders of libraries that are installed, those that cost less than what is known."""
    best = min(candidate.cost for candidate in known)
    for inner in library_orderings():
        with suppress(StructurallySingularError, SingularSystemError, UnavailableOrdering):
            order = BlockTriangular(inner).order(problem.pattern, context)
            cost = problem.counted(order, search.threshold)[0]
            if cost is not None and (cost < best or search.measure is not None):
                yield price(problem, order, f"block triangular, {inner.name}", search.measure)
