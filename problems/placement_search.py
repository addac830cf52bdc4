"""Search for the best set of sensors: greedy, exchanges, then branch and bound for proof.

A set is never better than its union with everything that could still be bought: a branch whose
union is no better than the best set known is done. Where branches are left when the time is up,
the best of their unions bounds what any set could reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from problems.placement_score import Score, ScoreBoard

__all__ = ["Search"]


@final
class Search:
    """Sets of candidates, by number, within a budget.

    Parameters
    ----------
    board : scores of sets.
    costs : of each candidate.
    evaluations : sets that may be scored in search of a proof.
    """

    def __init__(self, board: ScoreBoard, costs: list[float], evaluations: int) -> None:
        self.board, self.costs, self.evaluations = board, costs, evaluations
        self.everyone = frozenset(range(len(costs)))

    def cost(self, chosen: frozenset[int]) -> float:
        """Cost of a set."""
        return float(sum(self.costs[c] for c in chosen))

    def _affordable(self, chosen: frozenset[int], budget: float) -> list[int]:
        left = budget - self.cost(chosen) + 1e-9
        return [c for c in sorted(self.everyone - chosen) if self.costs[c] <= left]

    def best(
        self, budget: float, *, until_determined: bool = False
    ) -> tuple[frozenset[int], list[frozenset[int]]]:
        """Greedy, with exchanges after every step: the last set, and all on the way."""
        chosen: frozenset[int] = frozenset()
        curve = [chosen]
        while options := self._affordable(chosen, budget):
            before = self.board.score(chosen)
            if until_determined and not before.open_goals:
                break
            step = min(options, key=lambda c: self._merit(before, chosen | {c}, self.costs[c]))
            if not self.board.score(chosen | {step}) < before:
                break
            chosen = self._exchanged(chosen | {step})
            curve.append(chosen)
        return chosen, curve

    def _merit(
        self, before: Score, chosen: frozenset[int], cost: float
    ) -> tuple[float, float, float, float]:
        """What a step gains per cost, most important first; smaller is better."""
        after = self.board.score(chosen)
        gain = math.inf if math.isinf(before.variance) else before.variance - after.variance
        return (
            -(before.open_goals - after.open_goals) / cost,
            -(before.unseen - after.unseen) / cost if after.open_goals else 0.0,
            -gain / cost if math.isfinite(gain) else 0.0,
            after.variance,
        )

    def _exchanged(self, chosen: frozenset[int]) -> frozenset[int]:
        """Swap one sensor for another of no greater cost while that helps."""
        improved = True
        while improved:
            improved = False
            for out in sorted(chosen):
                rest = chosen - {out}
                swaps = [
                    rest | {c}
                    for c in sorted(self.everyone - chosen)
                    if self.costs[c] <= self.costs[out]
                ]
                best = min(swaps, key=self.board.score, default=chosen)
                if self.board.score(best) < self.board.score(chosen):
                    chosen, improved = best, True
                    break
        return chosen

    # ---- proof ---------------------------------------------------------------------------

    def least_cost(self) -> float:
        """Cost below which no set can determine all goals.

        Every open goal needs a further row, and no candidate brings more directions than it
        sees alone: the cheapest way to buy enough, were candidates divisible.
        """
        needed = float(self.board.score(frozenset()).open_goals)
        if self.board.score(self.everyone).open_goals:
            return math.inf
        total = 0.0
        offers = [
            (c, min(g, needed)) for c, g in zip(self.costs, self.board.gains, strict=True)
        ]
        cheapest = min((c for c, g in offers if g), default=0.0)
        start = needed
        for cost, gain in sorted(((c, g) for c, g in offers if g), key=lambda o: o[0] / o[1]):
            take = min(1.0, needed / gain)
            total, needed = total + take * cost, needed - take * gain
            if needed <= 0:
                break
        return max(total, cheapest) if start else 0.0

    def cheapest_budget(self) -> float:
        """Cost of the cheapest set found that determines all goals."""
        if math.isinf(self.least_cost()):
            return self.cost(self.everyone)
        chosen, _ = self.best(self.cost(self.everyone), until_determined=True)
        return self.cost(chosen)

    def prove(self, chosen: frozenset[int], budget: float) -> tuple[Score, bool]:
        """Bound on every set within the budget, and whether ``chosen`` reaches it."""
        best = self.board.score(chosen)
        nodes: list[tuple[Score, frozenset[int], tuple[int, ...]]] = []
        limit = self.board.evaluations + self.evaluations

        def open_node(taken: frozenset[int], left: Sequence[int]) -> None:
            useful = tuple(c for c in left if self.cost(taken | {c}) <= budget + 1e-9)
            bound = self.board.score(taken | frozenset(useful))
            if bound < best:
                nodes.append((bound, taken, useful))

        alone = sorted(self.everyone, key=lambda c: self.board.score(frozenset({c})))
        open_node(frozenset(), alone)
        while nodes and self.board.evaluations < limit:
            nodes.sort(reverse=True, key=lambda node: node[0])
            _, taken, left = nodes.pop()  # the one that promises most
            if not left:
                continue
            pick, rest = left[0], left[1:]
            best = min(best, self.board.score(taken | {pick}))
            open_node(taken | {pick}, rest)
            open_node(taken, rest)
        if nodes:
            bound = min(node[0] for node in nodes)
            return min(bound, self.board.score(chosen)), False
        return min(best, self.board.score(chosen)), best >= self.board.score(chosen)
