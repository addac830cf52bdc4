"""One run of the search: a function of its task alone, whichever process runs it.

restart  Greedy orders from nothing, each with weights of its own (:mod:`..orders.restarts`).
evolve   A greedy construction is pulled towards the present order by one number per unknown;
         some of these are changed at random, and kept if the order they lead to is no worse:
         the look-ahead that small moves do not have.
anneal   A neighbour is accepted if its price is no higher, or a little higher early on, and if
         its pivots are safe at the sampled states.

Prices are those of the program that would be executed, counted by values. The best few orders
of a run are recorded and simplified, and what that says is their price.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.orders.dulmage_mendelsohn import block_triangular
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.plan.orders.restarts import Weights
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
    "move_block",
    "neighbour",
    "price",
    "run_task",
    "swap_places",
]

Measure: TypeAlias = Callable[[Program, Array], float]
"""Cost of a program at inputs (n, n_inputs), such as its nanoseconds; it must be importable."""
Mode: TypeAlias = Literal["restart", "evolve", "anneal"]

HEAT = 0.003
"""Part of the cost that a step may cost at first."""
PRICED = 2
"""Sequences priced exactly at the end of a run."""
GREEDY_WORTH = 5
"""Evaluations that one greedy construction counts for."""
PULLS = (0.0, 4.0, 16.0, 64.0)
"""How strongly an evolution is pulled towards the order it begins with."""
MOSTLY = 0.8
"""How often an evolution counts fill and little else."""
MUTATED, SPREADS = (0.02, 0.05, 0.2), (0.3, 1.0, 3.0)
"""Parts of the numbers that are changed at once, and by how much."""


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


class Task(NamedTuple):
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
    """Best sequences of a run, priced exactly; none if it found none that is safe."""
    walk = _Walk(problem, task)
    {"restart": walk.restart, "evolve": walk.evolve, "anneal": walk.anneal}[task.mode]()
    origin = "randomised greedy" if task.mode == "restart" else task.start.origin
    return [price(problem, order, origin, task.measure) for order in walk.best_orders()]


def price(
    problem: SearchProblem, order: PivotOrder, origin: str, measure: Measure | None
) -> Candidate:
    """Exact operations of an order, and its cost: with watching, or by ``measure``."""
    program = problem.program(order)
    operations = program_operations(program)
    cost = float(operations.total + problem.watching(order))
    if measure is not None:
        cost = measure(program, problem.samples.astype(np.float64))
    return Candidate(order, operations, cost, origin, problem.safety(order))


class _Walk:
    """The present order and its price, the best so far, and the evaluations that are left."""

    def __init__(self, problem: SearchProblem, task: Task) -> None:
        self.problem, self.task, self.left = problem, task, task.evaluations
        self.rng = np.random.default_rng(task.seed)
        self.pivots, self.segments = by_blocks(problem.pattern, task.start.order)
        start = PivotOrder.of(self.pivots)
        self.cost = self._price(start) or np.inf
        self.found: dict[PivotOrder, float] = {}
        if self.cost < np.inf:
            self.found[start] = self.cost

    @property
    def best(self) -> float:
        """The least price so far."""
        return min(self.found.values(), default=np.inf)

    def best_orders(self) -> list[PivotOrder]:
        """The best few, best first."""
        return sorted(self.found, key=self.found.__getitem__)[:PRICED]

    def _price(self, order: PivotOrder) -> int | None:
        return self.problem.counted(order, self.task.threshold)[0]

    def _keep(self, order: PivotOrder, cost: float) -> bool:
        """Remember a better order; False if it is not safe after all."""
        if cost >= self.best:
            return True
        threshold = self.task.threshold
        if self.problem.safety(order, threshold) < threshold:
            return False
        self.found[order] = cost
        return True

    def restart(self) -> None:
        """Greedy orders, one as good as another to begin with."""
        self.found.clear()
        while self.left > 0:
            self.left -= GREEDY_WORTH
            order = self.problem.restarts.drawn(self.rng, self.task.threshold)
            cost = None if order is None else self._price(order)
            if order is not None and cost is not None:
                self._keep(order, cost)

    def evolve(self) -> None:
        """Change what pulls a greedy construction, one and the same but for that."""
        rng, n = self.rng, len(self.pivots)
        weights = replace(Weights.drawn(rng, self.task.threshold), sigma=0.0)
        if rng.random() < MOSTLY:
            weights = replace(weights, flops=0.05, fill=1.0, count=0.0)
        place = np.argsort([c for _, c in self.pivots])
        pull, best = float(rng.choice(PULLS)) * place / n, np.inf
        seed = int(rng.integers(2**31))
        changed = pull
        while self.left > 0:
            self.left -= GREEDY_WORTH
            order = self.problem.restarts.order(weights, np.random.default_rng(seed), changed)
            cost = None if order is None else self._price(order)
            if order is not None and cost is not None and cost <= best:
                if self._keep(order, cost):
                    pull, best = changed, cost
            which = rng.random(n) < rng.choice(MUTATED)
            changed = pull + which * rng.normal(size=n) * rng.choice(SPREADS)

    def anneal(self) -> None:
        """Accept what the price and chance allow."""
        heat, total = HEAT * self.best, max(1, self.left)
        while self.left > 0:
            now = heat * self.left / total
            self.left -= 1
            pivots = neighbour(self.pivots, self.segments, self.rng)
            lucky = self.rng.random()  # drawn always: runs do not depend on outcomes' order
            if pivots == self.pivots:
                continue
            order = PivotOrder.of(pivots)
            cost = self._price(order)
            if cost is None:
                continue
            if cost > self.cost and not (now and lucky < np.exp((self.cost - cost) / now)):
                continue
            if self._keep(order, cost):
                self.pivots, self.cost = pivots, cost


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


def move_block(pivots: Pivots, rng: np.random.Generator, longest: int = 12) -> Pivots:
    """Take up to ``longest`` consecutive pivots and put them elsewhere."""
    n = len(pivots)
    length = int(rng.integers(1, min(longest, n - 1) + 1))
    start = int(rng.integers(n - length + 1))
    rest = pivots[:start] + pivots[start + length :]
    to = _place_near(start, len(rest) + 1, rng)
    return rest[:to] + pivots[start : start + length] + rest[to:]


def swap_places(pivots: Pivots, rng: np.random.Generator, whole: bool = True) -> Pivots:
    """Two pivots exchange their places, or (not ``whole``) only the unknowns they give."""
    out = list(pivots)
    i = int(rng.integers(len(out)))
    j = _place_near(i, len(out), rng)
    (ri, ci), (rj, cj) = out[i], out[j]
    out[i], out[j] = (out[j], out[i]) if whole else ((ri, cj), (rj, ci))
    return out


_MOVES: tuple[Move, ...] = (
    partial(move_block, longest=1),
    move_block,
    move_block,
    swap_places,
    partial(swap_places, whole=False),
)
