"""Search for the best set of sensors: greedy, exchanges, then branch and bound for proof.

How good a set S of candidates is: at sampled states the laws leave z = (qdd, external wrenches)
open, d = T z + d_0 (:mod:`problems.measured.reduced`), and goals are numbers G z. With the rows
of the layout and of S, all of unit noise,

    open goals   rank of G on the directions of z that no row sees
    variance     mean of diag(G M^-1 G^T),   M = sum of N^T N over layout and S

both of which only fall when sensors are added: a set is never better than its union with
everything that could still be bought. A branch whose union is no better than the best set known
is done; where branches are left when the time is up, the best of their unions bounds what any
set could reach.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast, final

import numpy as np
from scipy.linalg import block_diag
from scipy.linalg.lapack import dposv

from dynsys.errors import LayoutError, nearest_name
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, IntArray
from problems.measured.measured_system import QUANTITIES, MeasuredSystem, at_frame
from problems.measured.reduced import WhitenedRows, in_parts, rank_of, whiten
from problems.verdict.repairs import SEEN

__all__ = ["ScoreBoard", "Search", "parse_goals"]

EXACT_STD = 1e-4
"""Standard deviation (SI units) that stands for none in candidates."""
ROUNDING = 1e-9
"""Variances that differ by this part are the same."""


class Score(NamedTuple):
    """Smaller is better, in this order."""

    open_goals: int
    unseen: int
    variance: float

    def beats(self, other: Score) -> bool:
        """Whether it is better by more than rounding: a sensor is not bought for less."""
        least = other.variance * (1 - ROUNDING)
        return self < other._replace(variance=least)

    @property
    def std(self) -> float:
        """Root mean square standard deviation of the goals; infinite while one is open."""
        return float(np.sqrt(self.variance))


class Goals(NamedTuple):
    """Numbers that are wanted: ``matrix`` (goals, columns) on columns of d, with names."""

    names: tuple[str, ...]
    matrix: Array
    columns: IntArray


def parse_goals(measured: MeasuredSystem, wanted: str | Sequence[str]) -> Goals:
    """Goals from names such as ``torque``, ``torque.l_knee``, ``external_wrench.l_sole``."""
    robot, unknowns = measured.robot, measured.laws.unknowns
    names: list[str] = []
    parts: list[tuple[Array, IntArray]] = []
    for text in [wanted] if isinstance(wanted, str) else wanted:
        kind, _, name = text.partition(".")
        if kind not in QUANTITIES:
            hint = nearest_name(kind, QUANTITIES)
            raise LayoutError(f"goal {text!r}: no quantity {kind!r}{hint}")
        quantity = cast("UnknownKind", kind)
        if not name:
            for block in unknowns.blocks:
                if block.kind == kind:
                    names += [f"{kind}.{block.name}"] * block.size
                    parts.append((np.eye(block.size), block.columns))
            continue
        if kind in ("torque", "qdd"):
            body = robot.joint_index(name)
            M = np.eye(unknowns.block(quantity, body).size)
        else:
            body, M = at_frame(robot, quantity, name)
        names += [text] * len(M)
        parts.append((M, unknowns.block(quantity, body).columns))
    matrix = block_diag(np.zeros((0, 0)), *(M for M, _ in parts))
    columns = np.concatenate([np.zeros(0, dtype=np.intp), *(where for _, where in parts)])
    return Goals(tuple(names), matrix, columns)


@final
@dataclass(frozen=True, eq=False)
class _State:
    """One state in coordinates w of what the layout's exact rows leave open.

    Attributes
    ----------
    goals : (g, k).
    information : (k, k) of the layout.
    unseen : (k, u) directions no row of the layout sees; ``goals_unseen`` (g, u) the goals on
        them, in parts of their natural size.
    added_information : (candidates, k, k).
    views : (rows, u) of each candidate on the unseen directions, in parts of its size.
    """

    goals: Array
    information: Array
    unseen: Array
    goals_unseen: Array
    added_information: Array
    views: tuple[Array, ...]

    @staticmethod
    def at(
        measured: MeasuredSystem,
        goals: Goals,
        q: Array,
        base: WhitenedRows,
        candidates: Sequence[WhitenedRows],
    ) -> _State:
        robot = measured.robot
        reduced = measured.reduced(Kinematics.at(robot, q, np.zeros(robot.nv)))
        (exact, noisy), sizes = base.times(reduced.B), base.sizes(reduced.B_size)
        whole = rank_of(np.vstack([exact, noisy]), np.vstack(sizes))
        # Z: what the exact rows of the layout leave open
        Z = rank_of(exact, sizes[0], whole.scale).null if len(exact) else np.diag(whole.scale)
        N = noisy @ Z
        G = goals.matrix @ reduced.T[goals.columns]
        G_size = np.abs(goals.matrix) @ reduced.T_size[goals.columns]
        unseen: Array = np.asarray(np.linalg.lstsq(Z, whole.null, rcond=None)[0], dtype=float)
        added, views = [], []
        for own in candidates:
            n, size = (
                np.vstack([own_noisy, own_exact / EXACT_STD])
                for own_exact, own_noisy in (own.times(reduced.B), own.sizes(reduced.B_size))
            )
            views.append(in_parts(n @ whole.null, whole.reach(size)))
            added.append((n @ Z).T @ (n @ Z))
        goals_unseen = in_parts(G @ whole.null, whole.reach(G_size))
        return _State(G @ Z, N.T @ N, unseen, goals_unseen, np.array(added), tuple(views))

    def score(self, chosen: Iterable[int]) -> tuple[Score, Array | None]:
        """Score of a set, and the variance of each goal (g,) if none is open."""
        chosen = list(chosen)
        K = self.unseen.shape[1]
        null = np.eye(K)
        if K and chosen:
            _, singular, Vt = np.linalg.svd(np.vstack([self.views[c] for c in chosen]))
            null = Vt[int((singular > SEEN).sum()) :].T
        open_goals = 0
        if null.shape[1]:
            singular = np.linalg.svd(self.goals_unseen @ null, compute_uv=False)
            open_goals = int((singular > SEEN).sum())
        if open_goals:
            return Score(open_goals, null.shape[1], np.inf), None
        if self.goals.shape[1] == 0:  # exact rows leave nothing open, LAPACK nothing to solve
            return Score(0, 0, 0.0), np.zeros(len(self.goals))
        M = self.information + self.added_information[chosen].sum(axis=0)
        if null.shape[1]:
            blind = self.unseen @ null  # no goal depends on these: any information will do
            M = M + np.trace(M) / len(M) * blind @ blind.T
        scale = 1.0 / np.sqrt(np.maximum(np.diag(M), np.finfo(float).tiny))
        scaled = (self.goals * scale).T
        _, solved, failed = dposv(M * np.outer(scale, scale), scaled)
        if failed:
            return Score(0, 0, np.inf), None
        variance = np.einsum("ij,ij->j", scaled, solved)
        return Score(0, 0, float(variance.mean()) if len(variance) else 0.0), variance


@final
class ScoreBoard:
    """Scores of sets of candidates: worst rank and mean variance over some states."""

    def __init__(
        self, measured: MeasuredSystem, goals: Goals, n_base: int, positions: Sequence[Array]
    ) -> None:
        names = measured.layout.names

        def whitened(some: Sequence[str], believed: bool = False) -> WhitenedRows:
            present = np.zeros(len(measured.variance), dtype=bool)
            present[measured.layout.size :] = believed
            for name in some:
                present[measured.layout.slice(name)] = True
            return whiten(measured.covariance, present)

        base = whitened(names[:n_base], True)
        candidates = [whitened([name]) for name in names[n_base:]]
        self.goals = goals
        self.evaluations = 0
        self._states = [_State.at(measured, goals, q, base, candidates) for q in positions]
        self._known: dict[frozenset[int], Score] = {}

    @cached_property
    def gains(self) -> list[int]:
        """Directions of the unseen that each candidate sees by itself, at most."""
        return [
            max(
                int((np.linalg.svd(state.views[c], compute_uv=False) > SEEN).sum())
                for state in self._states
            )
            for c in range(len(self._states[0].views))
        ]

    def score(self, chosen: frozenset[int]) -> Score:
        """Score of a set."""
        if chosen not in self._known:
            self.evaluations += 1
            scores = [state.score(chosen)[0] for state in self._states]
            self._known[chosen] = Score(
                max(s.open_goals for s in scores),
                max(s.unseen for s in scores),
                float(np.mean([s.variance for s in scores])),
            )
        return self._known[chosen]

    def stds(self, chosen: frozenset[int]) -> Mapping[str, float]:
        """Root mean square standard deviation by name of goal, over the states."""
        variances = [state.score(chosen)[1] for state in self._states]
        total: dict[str, list[float]] = {}
        for variance in variances:
            for k, name in enumerate(self.goals.names):
                value = np.inf if variance is None else float(variance[k])
                total.setdefault(name, []).append(value)
        return {name: float(np.sqrt(np.mean(values))) for name, values in total.items()}


# ---- search --------------------------------------------------------------------------------


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
            if not self.board.score(chosen | {step}).beats(before):
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

    def prove(
        self, chosen: frozenset[int], budget: float
    ) -> tuple[Score, bool, frozenset[int]]:
        """Bound on every set within the budget, whether it is reached, and by which set.

        That is ``chosen``, or a better one that is met on the way.
        """
        best, found = self.board.score(chosen), chosen
        nodes: list[tuple[Score, frozenset[int], tuple[int, ...]]] = []
        limit = self.board.evaluations + self.evaluations

        def open_node(taken: frozenset[int], left: Sequence[int]) -> None:
            useful = tuple(c for c in left if self.cost(taken | {c}) <= budget + 1e-9)
            bound = self.board.score(taken | frozenset(useful))
            if bound.beats(best):
                nodes.append((bound, taken, useful))

        alone = sorted(self.everyone, key=lambda c: self.board.score(frozenset({c})))
        open_node(frozenset(), alone)
        while nodes and self.board.evaluations < limit:
            nodes.sort(reverse=True, key=lambda node: node[0])
            _, taken, left = nodes.pop()  # the one that promises most
            if not left:
                continue
            pick, rest = left[0], left[1:]
            if self.board.score(taken | {pick}).beats(best):
                best, found = self.board.score(taken | {pick}), taken | {pick}
            open_node(taken | {pick}, rest)
            open_node(taken, rest)
        bound = min([best, *(node[0] for node in nodes)])
        return bound, not bound.beats(best), found
