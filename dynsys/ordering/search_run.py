"""One run of the local search: a function of its task alone, whichever process runs it.

anneal  A neighbour is accepted if its estimate is no higher, or a little higher early on, and
        if its pivots are safe at the sampled states. The best few are priced exactly.
kick    The same, after the end of the sequence was thrown away and completed greedily anew
        (Markowitz, ties at random): the look-ahead that small moves do not have.
climb   Neighbours whose estimate is not much higher are priced exactly at once, and accepted if
        that is no higher: it finds what simplification makes of an order, which no estimate
        sees. One exact price counts as many evaluations as it takes the time of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from dynsys.errors import StructurallySingularError
from dynsys.ordering.markowitz import Cost, Markowitz
from dynsys.ordering.operations import Operations
from dynsys.ordering.orders import PivotOrder
from dynsys.ordering.search_moves import Pivots, as_order, as_pivots, by_blocks, neighbour
from dynsys.ordering.search_problem import SearchProblem

__all__ = ["Candidate", "Objective", "Task", "get_ready", "price", "run_task"]

Objective: TypeAlias = Literal["operations", "time"]
Mode: TypeAlias = Literal["anneal", "kick", "climb"]

HEAT = 0.003
"""Part of the cost that a step may cost at first."""
PRICED = 3
"""Sequences priced exactly at the end of a run."""
CLIMB_MARGIN = 1.02
"""Estimate, relative to that of the present order, up to which a climb prices exactly."""
EXACT_WORTH = 50
"""Evaluations that one exact price counts for."""
_GREEDY: tuple[Cost, ...] = ("fill", "fill", "count", "flops")


@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """A priced order: ``cost`` is what the search minimises, operations or nanoseconds."""

    order: PivotOrder
    operations: Operations
    cost: float
    origin: str
    safety: float

    @property
    def rank(self) -> tuple[float, int]:
        """Cost, and operations where costs are equal."""
        return self.cost, self.operations.total


@final
@dataclass(frozen=True, eq=False)
class Task:
    """Where a run begins, its random numbers, how long it goes on, and what it may do."""

    start: PivotOrder
    origin: str
    seed: tuple[int, ...]
    evaluations: int
    mode: Mode
    threshold: float
    objective: Objective


def get_ready() -> None:
    """Nothing: the process that is told to has loaded by then all that a run needs."""


def run_task(problem: SearchProblem, task: Task) -> list[Candidate]:
    """Best sequences of a run, priced exactly; none if it found no safe improvement."""
    rng = np.random.default_rng(task.seed)
    start = by_blocks(problem.pattern, task.start)[0]
    if task.mode == "kick":
        start = _kicked(problem, start, task, rng)
    walk = _Walk(problem, task, as_order(start), rng)
    found = walk.climb() if task.mode == "climb" else walk.anneal()
    return [price(problem, order, task.origin, task.objective) for order in found]


def price(
    problem: SearchProblem, order: PivotOrder, origin: str, objective: Objective
) -> Candidate:
    """Exact operations of an order, and its time per solve if that is the objective."""
    from dynsys.ordering.search_timing import solve_nanoseconds

    operations = problem.exact(order)
    cost = float(operations.total)
    if objective == "time":
        cost = solve_nanoseconds(problem, order)
    return Candidate(order, operations, cost, origin, problem.safety(order))


def _kicked(
    problem: SearchProblem, pivots: Pivots, task: Task, rng: np.random.Generator
) -> Pivots:
    """A prefix of the sequence, completed greedily; the sequence itself if that is unsafe."""
    keep = int(rng.integers(len(pivots) + 1))
    greedy = Markowitz(
        _GREEDY[int(rng.integers(len(_GREEDY)))],
        threshold=max(task.threshold, 10.0 ** rng.uniform(-3, -1)),
        seed=int(rng.integers(2**31)),
    )
    try:
        order = greedy.complete(problem.pattern, problem.context, pivots[:keep])
    except StructurallySingularError:
        return pivots
    safe = problem.safety(order, task.threshold) >= task.threshold
    return as_pivots(order) if safe else pivots


class _Walk:
    def __init__(
        self,
        problem: SearchProblem,
        task: Task,
        start: PivotOrder,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self.task, self.rng = problem, task, rng
        self.pivots, self.segments = by_blocks(problem.pattern, start)
        cost = problem.estimate(as_order(self.pivots))
        if cost is None:
            raise StructurallySingularError("a search begins with an order that eliminates")
        self.cost = self.best = cost
        self.improved: list[PivotOrder] = [as_order(self.pivots)]

    def climb(self) -> list[PivotOrder]:
        """Accept what is no worse by its exact price."""
        left = self.task.evaluations
        exact = self.problem.exact(as_order(self.pivots)).total
        while left > 0:
            left -= 1
            pivots = neighbour(self.pivots, self.segments, self.rng)
            order = as_order(pivots)
            cost = self.problem.estimate(order)
            if cost is None or cost > CLIMB_MARGIN * self.cost or pivots == self.pivots:
                continue
            if self.problem.safety(order, self.task.threshold) < self.task.threshold:
                continue
            left -= EXACT_WORTH
            found = self.problem.exact(order).total
            if found <= exact:
                self.pivots, self.cost, exact = pivots, cost, found
        return [as_order(self.pivots)]

    def anneal(self) -> list[PivotOrder]:
        """Accept what the estimate and chance allow."""
        heat = HEAT * self.cost
        for k in range(self.task.evaluations):
            left = 1.0 - k / self.task.evaluations
            self._step(neighbour(self.pivots, self.segments, self.rng), heat * left)
        return self.improved[-PRICED:]

    def _step(self, pivots: Pivots, heat: float) -> None:
        order = as_order(pivots)
        cost = self.problem.estimate(order)
        lucky = self.rng.random()  # drawn always, so that runs do not depend on outcomes' order
        if cost is None:
            return
        if cost > self.cost and not (heat and lucky < np.exp((self.cost - cost) / heat)):
            return
        threshold = self.task.threshold
        better = cost < self.best
        states = None if better else 8
        if self.problem.safety(order, threshold, states) < threshold:
            return
        self.pivots, self.cost = pivots, cost
        if better:
            self.best = cost
            self.improved.append(order)
