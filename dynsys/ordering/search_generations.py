"""Generations of independent runs: what they begin with, who runs them, what is kept.

A generation has the same runs however many workers share them, and is merged in the order of
its runs: results depend on the seed and the number of evaluations alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress

from dynsys.ordering.search_problem import SearchProblem
from dynsys.ordering.search_run import Candidate, Mode, Task, run_task
from dynsys.ordering.search_settings import Progress, Search, SearchResult
from dynsys.ordering.search_workers import Serial

__all__ = ["Generations"]

RUNS = 8
"""Runs of a generation: fixed, so that results do not depend on the number of workers."""
MODES: tuple[Mode, ...] = ("anneal", "climb", "kick", "climb")
"""Kinds of runs, in turn."""
ELITE = 4
"""Orders that the runs of the next generation begin at."""
EVALUATIONS_PER_RUN = 2000
SLOWNESS: dict[Mode, float] = {"anneal": 1.0, "kick": 1.2, "climb": 3.0}
"""Time per evaluation, roughly, relative to annealing."""


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
        best = min(self.elite, key=lambda candidate: candidate.rank)
        return SearchResult(best, self.first, self.evaluations, seconds, interrupted)

    def report(self) -> None:
        """Tell whoever wants to know how far the search is."""
        if self.search.progress is not None:
            seconds = time.perf_counter() - self.began
            best = min(self.elite, key=lambda candidate: candidate.rank)
            self.search.progress(
                Progress(
                    self.evaluations,
                    self.search.evaluations,
                    seconds,
                    self.first.operations,
                    best.operations,
                )
            )

    # ---- one generation ------------------------------------------------------------------

    def generation(self, pool: Executor) -> None:
        """Run a generation; if time runs out or Ctrl-C comes, keep what is finished."""
        tasks = list(self._tasks())
        finished: dict[int, list[Candidate]] = {}
        try:
            for index, candidates in _run_all(pool, self.problem, tasks):
                finished[index] = candidates
                self.evaluations += tasks[index].evaluations
                self._show(candidates)
                if self._late():
                    break
        finally:
            self._merge([finished[index] for index in sorted(finished)])
            self.generations += 1

    def _tasks(self) -> Iterator[Task]:
        wanted = self.search.evaluations
        left = RUNS * EVALUATIONS_PER_RUN if wanted is None else wanted - self.evaluations
        for index in range(RUNS):
            count = min(EVALUATIONS_PER_RUN, left - index * EVALUATIONS_PER_RUN)
            if count <= 0:
                return
            start = self.elite[index // len(MODES) % len(self.elite)]
            yield Task(
                start=start.order,
                origin=start.origin,
                seed=(self.search.seed, self.generations, index),
                evaluations=count,
                mode=MODES[index % len(MODES)],
                threshold=self.threshold,
                objective=self.search.objective,
            )

    def _late(self) -> bool:
        limit = self.search.seconds or None
        return limit is not None and time.perf_counter() - self.began >= limit

    def _show(self, candidates: list[Candidate]) -> None:
        """Report with the candidates of one run counted in, before the generation is merged."""
        before = self.elite
        self.elite = [*before, *candidates]
        self.report()
        self.elite = before

    def _merge(self, found: Sequence[list[Candidate]]) -> None:
        """Keep the best, each order once; earlier ones where ranks are equal."""
        every = [*self.elite, *(candidate for run in found for candidate in run)]
        every = [c for c in every if c.safety >= self.threshold]
        every.sort(key=lambda candidate: candidate.rank)
        elite: list[Candidate] = []
        for candidate in every:
            if all(candidate.rank != other.rank for other in elite):
                elite.append(candidate)
        self.elite = elite[:ELITE]


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
            for index in _longest_first(tasks):
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


def _longest_first(tasks: Sequence[Task]) -> list[int]:
    """Tasks by the time they are expected to take: no worker is left with a long one alone."""
    return sorted(
        range(len(tasks)), key=lambda k: -tasks[k].evaluations * SLOWNESS[tasks[k].mode]
    )
