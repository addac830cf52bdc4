"""Search for orders of saddle systems: the rule that chooses pivots, then the order itself.

    restart  orders of the rule with other sequences of the bodies (another root, nested
             dissection, noise) and noisy costs
    evolve   the best rule is changed at some bodies, and the change kept if the order that it
             leads to is no worse
    rebuild  a stretch of the best order is chosen anew by a noisy rule, all other pivots stay
             (a large neighbourhood search: Shaw 1998); kept if it is no worse

Evolution settles first: it sees far, but what the rule cannot say it does not find. A price is
that of the estimates; deviations follow the same pivots. Runs come in generations, each run at
bodies, or in a part of the order, of its own: what is left of a system does not depend on the
order in which lines have gone, so that what runs of a generation gain adds up. The same seed
and evaluations give the same order however many workers share the runs. What is found is
executed, and gone on with only if it answers as many states to full precision as the order of
the rule; what counts is the whole program.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from dynsys.errors import PlanMismatchError
from dynsys.plan.estimator_spec import EstimatorSpec, PlannedEstimator
from dynsys.plan.methods import SaddleOrder
from dynsys.plan.orders.restarts import body_levels
from dynsys.plan.saddle_program import PRECISE, executed_estimator, lost_digits
from dynsys.plan.search.saddle_price import DrawnRule, Pivots, Price, SaddleProblem
from dynsys.plan.search.search import Progress, Search, say_slow_search
from dynsys.resumable import Serial, executor
from dynsys.types import Array, BoolArray

__all__ = [
    "Found",
    "Mode",
    "SaddleTask",
    "drawn_rule",
    "noisy_rule",
    "run_saddle_task",
    "search_saddle",
]

Mode: TypeAlias = Literal["restart", "evolve", "rebuild"]

RUNS = 4
"""Runs of a generation: fixed, so that results do not depend on the number of workers."""
RESTARTS, EVALUATIONS_PER_RUN = 12, 100
SETTLED = 0.01
"""Part of the cost; an evolution that gains less in a generation has settled."""
CHECKED = 0.01
"""The same; what gains more is executed before the search goes on from it."""
STEADY, MULTIPLIER, KEPT = 3e-2, 1e4, 1e-4
"""What the pivots of a found order keep to, or as far as those of the rule's order do."""
SIGMAS = (0.02, 0.1, 0.3, 0.6)
"""Noise of restarts and of what is rebuilt."""
MUTATED, SPREADS = (0.1, 0.3, 1.0), (0.1, 0.3, 1.0)
"""Parts of the keys of a body that an evolution changes at once, and by how much."""
STRETCHES = (3, 6, 12, 24, 48, 96)
"""Numbers of pivots that are chosen anew."""
MEASURED = 64
"""States at which a program is measured, where that is what is searched for."""


class SaddleTask(NamedTuple):
    """A run: where it begins, its random numbers, how long it goes on, what it may change.

    ``start`` to ``stop`` is the part of the order that may be rebuilt; ``bodies`` (bodies,)
    tells which may evolve. ``seconds`` ends a run early.
    """

    mode: Mode
    pivots: Pivots
    rule: DrawnRule
    levels: Array
    seed: tuple[int, ...]
    evaluations: int
    bound: Price
    bodies: BoolArray
    start: int = 0
    stop: int = 0
    seconds: float | None = None


class Found(NamedTuple):
    """An order, what it costs by its price, and the rule it comes from."""

    operations: int
    pivots: Pivots
    rule: DrawnRule


class _Known(NamedTuple):
    """An order that was executed and kept its digits, with its whole cost."""

    cost: float
    found: Found
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
    say_slow_search()
    try:
        generations.report()
        with executor(search.workers, search.scheduler) as pool:
            while not generations.is_over:
                generations.generation(pool)
        generations.check()
    except KeyboardInterrupt:
        pass
    best = generations.best.estimator
    if best is start:
        return start
    found_by = f"search of {generations.evaluations} evaluations, seed {search.seed}"
    return replace(best, ordering=f"{start.ordering}, {found_by}")


class _Generations:
    """The order that runs change, the best that was executed, and what was spent."""

    def __init__(
        self,
        spec: EstimatorSpec,
        start: PlannedEstimator[SaddleOrder],
        search: Search,
        dtype: str,
    ) -> None:
        self.spec, self.start, self.search, self.dtype = spec, start, search, dtype
        self.began = time.perf_counter()
        self.problem = problem = SaddleProblem.of(spec, start.order)
        self.levels = body_levels(spec.robot)
        self.evaluations = self.generations = 0
        self.mode: Mode = "restart"
        now = time.perf_counter()
        self.failures, lost = lost_digits(start.program, spec)
        self.allowed = max(PRECISE, lost)
        """Error, beside what is accurate, that the order of the rule would not pass over."""
        self.execution = 4.0 * (time.perf_counter() - now)
        pivots = problem.pivots(start.order)
        first = problem.price(pivots)
        self.bound = None if first is None else first.at_least(STEADY, MULTIPLIER, KEPT)
        self.present = Found(0 if first is None else first.operations, pivots, problem.rule)
        self.best = self.checked = _Known(self._cost(start), self.present, start)

    @property
    def left(self) -> float | None:
        """Seconds left for runs: what they find takes some to be executed."""
        if not self.search.seconds:
            return None
        spent = time.perf_counter() - self.began
        return self.search.seconds - self.execution - spent

    @property
    def is_over(self) -> bool:
        """True if the evaluations or the seconds are spent."""
        wanted, left = self.search.evaluations, self.left
        return (left is not None and left <= 0.0) or (
            wanted is not None and self.evaluations >= wanted
        )

    # ---- a generation --------------------------------------------------------------------

    def generation(self, pool: Executor) -> None:
        """Runs from the present order, side by side; what they gain is put together."""
        tasks, before = list(self._tasks()), self.present.operations
        found: list[Found | None] = []
        if isinstance(pool, Serial):  # one by one, so that each is seen when it is done
            for task in tasks:
                if self.left is None or self.left > 0.0:
                    found.append(
                        run_saddle_task(self.problem, task._replace(seconds=self.left))
                    )
                    self.report()
        else:
            share = None if self.left is None else self.left
            if share is not None:
                share /= -(-len(tasks) // self.search.workers)
            futures = [
                pool.submit(run_saddle_task, self.problem, task._replace(seconds=share))
                for task in tasks
            ]
            found = [future.result() for future in futures]
        self.evaluations += sum(task.evaluations for task in tasks[: len(found)])
        self._join(tasks, found)
        self.generations += 1
        gained = before - self.present.operations
        if self.mode == "restart":
            self.mode = "evolve"
        elif self.mode == "evolve" and gained < SETTLED * before:
            self.mode = "rebuild"
        if self.present.operations < (1.0 - CHECKED) * self.checked.found.operations:
            self.check()
        self.report()

    def _tasks(self) -> Iterator[SaddleTask]:
        """Runs of a generation, each with a part of its own."""
        assert self.bound is not None
        wanted, per_run = self.search.evaluations, EVALUATIONS_PER_RUN
        if self.mode == "restart":
            per_run = RESTARTS
        left = RUNS * per_run if wanted is None else wanted - self.evaluations
        rng = np.random.default_rng((self.search.seed, 1, self.generations))
        part = rng.permutation(self.spec.robot.n_bodies) % RUNS
        n = len(self.present.pivots)
        cuts = (np.arange(RUNS + 1) + rng.uniform(-0.4, 0.4, RUNS + 1)) * n / RUNS
        cuts[0], cuts[-1] = 0, n
        for index, (start, stop) in enumerate(pairwise(cuts)):
            count = min(per_run, left - index * per_run)
            if count <= 0:
                return
            yield SaddleTask(
                self.mode,
                self.present.pivots,
                self.present.rule,
                self.levels,
                (self.search.seed, 2, self.generations, index),
                count,
                self.bound,
                part == index,
                int(start),
                int(stop),
            )

    def _join(self, tasks: list[SaddleTask], found: list[Found | None]) -> None:
        """The best of what runs found, or of what they found together."""
        pairs = [(t, f) for t, f in zip(tasks, found, strict=False) if f is not None]
        together: tuple[Pivots, Price] | None = None
        before, rule = self.present, self.present.rule
        if self.mode == "evolve" and len(pairs) > 1:
            place, keys = rule.place.copy(), rule.keys.copy()
            for task, one in pairs:
                lines = task.bodies[self.problem.bodies]
                place[task.bodies], keys[lines] = (
                    one.rule.place[task.bodies],
                    one.rule.keys[lines],
                )
            rule = replace(rule, place=place, keys=keys)
            together = self.problem.constructed(rule)
        elif self.mode == "rebuild" and len(pairs) > 1:
            pivots, n = list(before.pivots), len(before.pivots)
            for task, one in reversed(pairs):
                behind = len(one.pivots) - (n - task.stop)
                pivots[task.start : task.stop] = one.pivots[task.start : behind]
            price = self.problem.price(pivots)
            together = None if price is None else (pivots, price)
        options = [before, *(one for _, one in pairs)]
        if self.mode == "restart" and pairs:  # a rule to evolve, even if it is a little worse
            options = options[1:]
        if together is not None and self.bound and together[1].is_as_safe(self.bound):
            options.append(Found(together[1].operations, together[0], rule))
        self.present = min(options, key=lambda one: one.operations)

    # ---- what was found, executed --------------------------------------------------------

    def check(self) -> None:
        """Execute the present order; go back to the last one that kept its digits if not."""
        found, began = self.present, time.perf_counter()
        if found.operations >= self.checked.found.operations:
            return
        known = self._executed(found)
        self.execution = time.perf_counter() - began
        if known is None:
            self.present, self.mode = self.checked.found, "rebuild"
            return
        self.checked = known
        if known.cost < self.best.cost:
            self.best = known

    def _executed(self, found: Found) -> _Known | None:
        order = self.problem.order(found.pivots)
        try:
            estimator = executed_estimator(self.spec, order, "", self.dtype)
        except (PlanMismatchError, ZeroDivisionError):
            return None
        failed, lost = lost_digits(estimator.program, self.spec)
        if failed > self.failures or lost > self.allowed:
            return None
        return _Known(self._cost(estimator), found, estimator)

    def _cost(self, estimator: PlannedEstimator[SaddleOrder]) -> float:
        measure, program = self.search.measure, estimator.program
        if measure is None:
            return float(estimator.operations.total)
        return measure(program, self.spec.samples(MEASURED, 0).astype(np.float64))

    def report(self) -> None:
        """Tell how far the search is."""
        if self.search.progress is not None:
            best, start = self.best.estimator.operations, self.start.operations
            seconds = time.perf_counter() - self.began
            wanted = self.search.evaluations
            self.search.progress(Progress(self.evaluations, wanted, seconds, start, best))


# ---- one run: a function of its task alone, whichever process runs it -----------------------


def run_saddle_task(problem: SaddleProblem, task: SaddleTask) -> Found | None:
    """Best order of a run; None if none is safe and as good as its beginning."""
    rng, began = np.random.default_rng(task.seed), time.perf_counter()
    pivots, rule, found = task.pivots, task.rule, None
    least = np.inf
    if task.mode != "restart":
        first = problem.price(pivots) if task.mode == "rebuild" else None
        if task.mode == "evolve":
            now = problem.constructed(rule)
            first = None if now is None else now[1]
        least = np.inf if first is None else first.operations
    for k in range(task.evaluations):
        if task.seconds is not None and time.perf_counter() - began >= task.seconds:
            break
        if task.mode == "rebuild":
            changed = noisy_rule(problem, rng)
            tried = problem.rebuilt(pivots, *_stretch(task, len(pivots), rng), changed)
        else:
            if task.mode == "evolve":
                changed = _evolved(problem, rule, task.bodies, rng)
            else:
                changed = drawn_rule(problem, task.levels, rng)
            if task.mode == "restart" and k == 0 and task.seed[-1] == 0:
                changed = rule  # the rule as it is comes first
            tried = problem.constructed(changed)
        if tried is None or not tried[1].is_as_safe(task.bound):
            continue
        if tried[1].operations <= least:
            pivots, least = tried[0], tried[1].operations
            rule = changed if task.mode != "rebuild" else rule
            found = Found(least, pivots, rule)
    return found


def drawn_rule(problem: SaddleProblem, levels: Array, rng: np.random.Generator) -> DrawnRule:
    """Rule with another sequence of the bodies and noisy costs.

    ``levels`` (any number, bodies): distances from roots, or levels of a dissection; what is
    far goes first.
    """
    place = problem.rule.place
    kind = rng.random()
    if kind < 0.2:
        place = levels[int(rng.integers(len(levels)))] + 1e-3 * place
    elif kind < 0.4:
        place = place + rng.normal(size=len(place)) * rng.choice([0.5, 1.0, 3.0])
    return replace(noisy_rule(problem, rng), place=place)


def noisy_rule(problem: SaddleProblem, rng: np.random.Generator) -> DrawnRule:
    """The rule with noisy costs, constants mostly first."""
    keys = float(rng.choice(SIGMAS)) * rng.normal(size=len(problem.names))
    return replace(problem.rule, keys=keys, constants_first=bool(rng.random() < 0.7))


def _evolved(
    problem: SaddleProblem, rule: DrawnRule, bodies: BoolArray, rng: np.random.Generator
) -> DrawnRule:
    """A rule changed at up to three of its bodies (of all, if it has none): their places, or
    keys of their lines.
    """
    own = np.flatnonzero(bodies if bodies.any() else ~bodies)
    some = rng.choice(own, int(rng.integers(1, 4)))
    if rng.random() < 0.15:
        place = rule.place.copy()
        place[some[0]] += rng.normal() * rng.choice([0.5, 2.0, 6.0])
        return replace(rule, place=place)
    lines = np.isin(problem.bodies, some)
    lines &= rng.random(len(lines)) < rng.choice(MUTATED)
    noise = rng.normal(size=len(lines)) * rng.choice(SPREADS)
    keys = 0.0 if rng.random() < 0.2 else rule.keys + noise
    return replace(rule, keys=np.where(lines, keys, rule.keys))


def _stretch(task: SaddleTask, n: int, rng: np.random.Generator) -> tuple[int, int]:
    """First pivot and the one behind the last of a stretch within the task's part.

    ``n`` is the number of pivots now: behind the part are as many as at the beginning.
    """
    stop = n - (len(task.pivots) - task.stop)
    length = min(int(rng.choice(STRETCHES)), stop - task.start)
    first = task.start + int(rng.integers(stop - task.start - length + 1))
    return first, first + length
