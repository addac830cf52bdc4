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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, final

import numpy as np

from dynsys.errors import StructurallySingularError
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.orders.dulmage_mendelsohn import block_triangular
from dynsys.plan.orders.markowitz import Cost, Markowitz
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.plan.search.price import SearchProblem
from dynsys.program.program import Program
from dynsys.types import Array

__all__ = [
    "Candidate",
    "Measure",
    "Mode",
    "Task",
    "by_blocks",
    "get_ready",
    "neighbour",
    "price",
    "run_task",
]

Measure: TypeAlias = Callable[[Program, Array], float]
"""Cost of a program at inputs (n, n_inputs), such as its nanoseconds; it must be importable."""
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
    """A priced order: ``cost`` is what the search minimises, operations or what is measured."""

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

    start: Candidate
    seed: tuple[int, ...]
    evaluations: int
    mode: Mode
    threshold: float
    measure: Measure | None = None


def get_ready() -> None:
    """Nothing: the process that is told to has loaded by then all that a run needs."""


def run_task(problem: SearchProblem, task: Task) -> list[Candidate]:
    """Best sequences of a run, priced exactly; none if it found no safe improvement."""
    rng = np.random.default_rng(task.seed)
    pivots = by_blocks(problem.pattern, task.start.order)[0]
    if task.mode == "kick":
        pivots = _kicked(problem, pivots, task, rng)
    walk = _Walk(problem, task, PivotOrder.of(pivots), rng)
    found = walk.climb() if task.mode == "climb" else walk.anneal()
    return [price(problem, order, task.start.origin, task.measure) for order in found]


def price(
    problem: SearchProblem, order: PivotOrder, origin: str, measure: Measure | None
) -> Candidate:
    """Exact operations of an order, and its cost by ``measure`` if that is given."""
    program = problem.program(order)
    operations = program_operations(program)
    cost = float(operations.total)
    if measure is not None:
        cost = measure(program, problem.samples.astype(np.float64))
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
    return order.pivots if safe else pivots


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
        cost = problem.estimate(PivotOrder.of(self.pivots))
        if cost is None:
            raise StructurallySingularError("a search begins with an order that eliminates")
        self.cost = self.best = cost
        self.improved: list[PivotOrder] = [PivotOrder.of(self.pivots)]

    def climb(self) -> list[PivotOrder]:
        """Accept what is no worse by its exact price."""
        left = self.task.evaluations
        exact = self.problem.exact(PivotOrder.of(self.pivots)).total
        while left > 0:
            left -= 1
            pivots = neighbour(self.pivots, self.segments, self.rng)
            order = PivotOrder.of(pivots)
            cost = self.problem.estimate(order)
            if cost is None or cost > CLIMB_MARGIN * self.cost or pivots == self.pivots:
                continue
            if self.problem.safety(order, self.task.threshold) < self.task.threshold:
                continue
            left -= EXACT_WORTH
            found = self.problem.exact(order).total
            if found <= exact:
                self.pivots, self.cost, exact = pivots, cost, found
        return [PivotOrder.of(self.pivots)]

    def anneal(self) -> list[PivotOrder]:
        """Accept what the estimate and chance allow."""
        heat = HEAT * self.cost
        for k in range(self.task.evaluations):
            left = 1.0 - k / self.task.evaluations
            self._step(neighbour(self.pivots, self.segments, self.rng), heat * left)
        return self.improved[-PRICED:]

    def _step(self, pivots: Pivots, heat: float) -> None:
        order = PivotOrder.of(pivots)
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


# ---- neighbours of a pivot sequence: small changes that a run tries ------------------------
#
# The irreducible blocks of a sequence come one after the other in block triangular order, and
# moves stay within a block: what substitution solves is settled. A neighbour need not be an
# elimination (a pivot may have become structurally zero); a run finds that out by its price.

Pivots: TypeAlias = list[tuple[int, int]]
Segments: TypeAlias = list[tuple[int, int]]
"""First place of each block of more than one pivot, and the place behind its last."""
Move: TypeAlias = Callable[[Pivots, np.random.Generator], Pivots]

NEAR = 0.15
"""Part of the sequence within which most moves stay."""


def by_blocks(pattern: Pattern, order: PivotOrder) -> tuple[Pivots, Segments]:
    """The order with irreducible blocks one after the other, and the places of the blocks.

    An order that pairs rows of one block with columns of another stays as it is, one segment.
    """
    pivots = order.pivots
    place = {r: k for k, (r, _) in enumerate(pivots)}
    sequence: Pivots = []
    segments: Segments = []
    for rows, cols in block_triangular(pattern):
        within = sorted(rows.tolist(), key=place.__getitem__)
        block = [pivots[place[r]] for r in within]
        if {c for _, c in block} != set(cols.tolist()):
            return pivots, [(0, len(pivots))]
        if len(block) > 1:
            segments.append((len(sequence), len(sequence) + len(block)))
        sequence += block
    return sequence, segments


def neighbour(pivots: Pivots, segments: Segments, rng: np.random.Generator) -> Pivots:
    """Return a copy changed within one segment; larger segments change more often."""
    if not segments:
        return list(pivots)
    sizes = np.array([stop - start for start, stop in segments], dtype=np.float64)
    start, stop = segments[int(rng.choice(len(segments), p=sizes / sizes.sum()))]
    move = _MOVES[int(rng.integers(len(_MOVES)))]
    return pivots[:start] + move(pivots[start:stop], rng) + pivots[stop:]


def _place_near(at: int, n: int, rng: np.random.Generator) -> int:
    """Another place, mostly close by."""
    if rng.random() < 0.25:
        return int(rng.integers(n))
    reach = max(2, round(NEAR * n))
    return int(np.clip(at + rng.integers(-reach, reach + 1), 0, n - 1))


def _move_block(pivots: Pivots, rng: np.random.Generator, longest: int = 12) -> Pivots:
    """Take up to ``longest`` consecutive pivots and put them elsewhere."""
    n = len(pivots)
    length = int(rng.integers(1, min(longest, n - 1) + 1))
    start = int(rng.integers(n - length + 1))
    rest = pivots[:start] + pivots[start + length :]
    to = _place_near(start, len(rest) + 1, rng)
    return rest[:to] + pivots[start : start + length] + rest[to:]


def _swap(pivots: Pivots, rng: np.random.Generator, whole: bool = True) -> Pivots:
    """Two pivots exchange their places, or (not ``whole``) only the unknowns they give."""
    out = list(pivots)
    i = int(rng.integers(len(out)))
    j = _place_near(i, len(out), rng)
    (ri, ci), (rj, cj) = out[i], out[j]
    out[i], out[j] = (out[j], out[i]) if whole else ((ri, cj), (rj, ci))
    return out


_MOVES: tuple[Move, ...] = (
    partial(_move_block, longest=1),
    _move_block,
    _move_block,
    _swap,
    partial(_swap, whole=False),
)
