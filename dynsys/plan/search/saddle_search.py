"""Search for orders of saddle systems: the rule that chooses pivots, then the order itself.

    restart  pivots chosen by the rule of :mod:`..saddle_elimination` with other sequences of
             the bodies (another root, nested dissection, noise) and noisy costs: always safe
    anneal   small changes of an order, priced by residues: pivots moved, two of them exchanged,
             pairs that change partners, split or joined

A price is that of the estimates; deviations follow the same pivots. What a run finds is
executed, and gone on with only if it answers as many states to full precision as the order of
the rule; what counts is the whole program. Runs come in generations as in :mod:`.search`: the
same seed and evaluations give the same order however many workers share them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from dynsys.errors import NoOrderError, PlanMismatchError
from dynsys.plan.estimator_spec import EstimatorSpec, PlannedEstimator, failures
from dynsys.plan.methods import SaddleOrder
from dynsys.plan.orders.restarts import body_levels
from dynsys.plan.saddle_elimination import Candidate, PivotRule
from dynsys.plan.saddle_program import executed_estimator, saddle_order
from dynsys.plan.search.local import move_block, swap_places
from dynsys.plan.search.saddle_price import Pivots, Price, SaddleProblem
from dynsys.plan.search.search import Progress, Search
from dynsys.resumable import Serial, executor
from dynsys.types import Array

__all__ = ["SaddleTask", "drawn_rule", "run_saddle_task", "search_saddle"]

RUNS, ELITE = 4, 3
EVALUATIONS_PER_RUN = 250
RESTARTS = 4
"""Orders of the rule that a search begins with; each counts as RESTART_WORTH evaluations."""
RESTART_WORTH = 40
HEAT = 0.002
STEADY, MULTIPLIER, KEPT = 3e-2, 1e4, 1e-4
"""What the pivots of a found order keep to, or as far as those of the rule's order do."""
MEASURED = 64
"""States at which a program is measured, where that is what is searched for."""


class SaddleTask(NamedTuple):
    """Where a run begins, its random numbers, its evaluations, and what pivots keep to."""

    start: Pivots
    seed: tuple[int, ...]
    evaluations: int
    bound: Price


class _Known(NamedTuple):
    """An order that was executed and kept its digits, with its whole cost."""

    cost: float
    pivots: Pivots
    estimator: PlannedEstimator[SaddleOrder]


def search_saddle(
    spec: EstimatorSpec,
    start: PlannedEstimator[SaddleOrder],
    search: Search,
    dtype: str = "float64",
) -> PlannedEstimator[SaddleOrder]:
    """Best estimator found; ``start`` itself if there is none better."""
    generations = _Generations(spec, start, search, dtype)
    if generations.bound is None:
        return start
    try:
        with executor(search.workers, search.scheduler) as pool:
            generations.restarts()
            while not generations.is_over:
                generations.generation(pool)
    except KeyboardInterrupt:
        pass
    best = generations.elite[0].estimator
    if best is start:
        return start
    found_by = f"search of {generations.evaluations} evaluations, seed {search.seed}"
    return replace(best, ordering=f"{start.ordering}, {found_by}")


class _Generations:
    """The best orders so far, what was spent on them, and the next generation of runs."""

    def __init__(
        self,
        spec: EstimatorSpec,
        start: PlannedEstimator[SaddleOrder],
        search: Search,
        dtype: str,
    ) -> None:
        self.spec, self.start, self.search, self.dtype = spec, start, search, dtype
        self.began = time.perf_counter()
        self.problem = SaddleProblem.of(spec, start.order)
        self.evaluations = self.generations = 0
        self.failures = failures(start.program, spec)
        pivots = self.problem.pivots(start.order)
        self.elite = [_Known(self._cost(start), pivots, start)]
        first = self.problem.price(pivots)
        self.bound = None if first is None else first.at_least(STEADY, MULTIPLIER, KEPT)

    @property
    def is_over(self) -> bool:
        """True if the evaluations or the seconds are spent."""
        search = self.search
        late = search.seconds and time.perf_counter() - self.began >= search.seconds
        return bool(late) or (
            search.evaluations is not None and self.evaluations >= search.evaluations
        )

    def restarts(self) -> None:
        """Orders of other rules."""
        rng = np.random.default_rng((self.search.seed, 1))
        levels = body_levels(self.spec.robot)
        for _ in range(RESTARTS):
            if self.is_over:
                return
            self.evaluations += RESTART_WORTH
            with suppress(NoOrderError):
                order = saddle_order(self.spec, drawn_rule(levels, rng))
                if order.turned == self.start.order.turned:
                    self._take(self.problem.pivots(order))

    def generation(self, pool: Executor) -> None:
        """Runs from the best orders; what they find is executed."""
        tasks = list(self._tasks())
        alone = isinstance(pool, Serial)  # one by one, so that each is seen when it is done
        given = [] if alone else tasks
        futures = [pool.submit(run_saddle_task, self.problem, task) for task in given]
        for index, task in enumerate(tasks):
            found = run_saddle_task(self.problem, task) if alone else futures[index].result()
            self.evaluations += task.evaluations
            if found is not None:
                self._take(found)
            self._report()
            if self.is_over and self.search.seconds:
                break
        for future in futures:
            future.cancel()
        self.generations += 1

    def _tasks(self) -> Iterator[SaddleTask]:
        wanted = self.search.evaluations
        left = RUNS * EVALUATIONS_PER_RUN if wanted is None else wanted - self.evaluations
        elite = list(self.elite)
        for index in range(RUNS):
            count = min(EVALUATIONS_PER_RUN, left - index * EVALUATIONS_PER_RUN)
            if count <= 0 or self.bound is None:
                return
            seed = (self.search.seed, 2, self.generations, index)
            yield SaddleTask(elite[index % len(elite)].pivots, seed, count, self.bound)

    def _take(self, pivots: Pivots) -> None:
        """Execute an order, and keep it if it loses no digits and is among the best."""
        order = self.problem.order(pivots)
        try:
            found = executed_estimator(self.spec, order, "", self.dtype)
        except (PlanMismatchError, ZeroDivisionError):
            return
        if failures(found.program, self.spec) > self.failures:
            return
        known = [*self.elite, _Known(self._cost(found), pivots, found)]
        best: dict[float, _Known] = {}
        for one in known:
            best.setdefault(one.cost, one)
        self.elite = [best[cost] for cost in sorted(best)[:ELITE]]

    def _cost(self, estimator: PlannedEstimator[SaddleOrder]) -> float:
        measure, program = self.search.measure, estimator.program
        if measure is None:
            return float(estimator.operations.total)
        return measure(program, self.spec.samples(MEASURED, 0).astype(np.float64))

    def _report(self) -> None:
        if self.search.progress is not None:
            best, start = self.elite[0].estimator.operations, self.start.operations
            seconds = time.perf_counter() - self.began
            wanted = self.search.evaluations
            self.search.progress(Progress(self.evaluations, wanted, seconds, start, best))


# ---- restarts of the rule ------------------------------------------------------------------


def drawn_rule(levels: Array, rng: np.random.Generator) -> PivotRule:
    """Rule with another sequence of the bodies and noisy costs.

    ``levels`` (any number, bodies): distances from roots, or levels of a dissection; what is
    far goes first.
    """
    place: Array = np.arange(levels.shape[1], dtype=np.float64)
    kind = rng.random()
    if kind < 0.2:
        place = levels[int(rng.integers(len(levels)))] + 1e-3 * place
    elif kind < 0.4:
        place = place + rng.normal(size=len(place)) * rng.choice([0.5, 1.0, 3.0])
    sigma = float(rng.choice([0.0, 0.1, 0.3, 0.6]))
    constants_first = bool(rng.random() < 0.7)

    def rank(candidate: Candidate) -> tuple[float, ...]:
        updates = (candidate.updates + 0.5) * float(np.exp(sigma * rng.normal()))
        return (candidate.last_resort, candidate.varying and constants_first, updates)

    return PivotRule(place=lambda body: float(place[body]), rank=rank)


# ---- local moves ---------------------------------------------------------------------------


def run_saddle_task(problem: SaddleProblem, task: SaddleTask) -> Pivots | None:
    """Best order of a run of small changes; None if none is better than its beginning."""
    rng = np.random.default_rng(task.seed)
    start = problem.price(task.start)
    if start is None:
        return None
    present, found = task.start, None
    cost = best = start.operations
    heat = HEAT * cost
    for k in range(task.evaluations):
        now = heat * (1.0 - k / task.evaluations)
        pivots = _MOVES[int(rng.integers(len(_MOVES)))](present, rng)
        lucky = rng.random()  # drawn always: runs do not depend on outcomes' order
        if pivots == present:
            continue
        price = problem.price(pivots)
        if price is None or not price.is_as_safe(task.bound):
            continue
        worse = price.operations - cost
        if worse > 0 and not (now and lucky < np.exp(-worse / now)):
            continue
        present, cost = pivots, price.operations
        if cost < best:
            best, found = cost, present
    return found


def _exchange(pivots: Pivots, rng: np.random.Generator) -> Pivots:
    """Two pairs close to each other change partners; singles are joined, pairs split."""
    out = list(pivots)
    i = int(rng.integers(len(out)))
    j = min(len(out) - 1, i + 1 + int(rng.integers(12)))
    (a, b), (c, d) = out[i], out[j]
    if i == j:
        return out
    if b >= 0 and d >= 0:
        out[i], out[j] = ((a, d), (c, b)) if rng.random() < 0.5 else ((a, c), (b, d))
    elif b < 0 and d < 0:
        out[i] = (a, c)
        del out[j]
    elif d < 0:
        if rng.random() < 0.3:
            out[i : i + 1] = [(a, -1), (b, -1)]
        else:
            out[i], out[j] = ((c, b), (a, -1)) if rng.random() < 0.5 else ((a, c), (b, -1))
    else:
        out[i], out[j] = ((c, -1), (a, d)) if rng.random() < 0.5 else ((d, -1), (c, a))
    return out


_MOVES = (partial(move_block, longest=1), move_block, move_block, swap_places, _exchange)
