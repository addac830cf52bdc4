"""Verdict on a layout before any data: what it determines, what not, what would repair it.

Three looks, each sharper than the one before: the pattern of the equations (no values can make
up for too few of them), the rank at random states (values that cancel at every state), and the
states within the joint limits where the rank drops.

A verdict is about the measured system alone and never solves it, so this room lies below
estimation: :meth:`problems.Estimation.verdict` calls :func:`judge`, nothing here knows of
estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias, final

import numpy as np

from dynsys.notebook import facts, folded, lines
from dynsys.plan.orders.dulmage_mendelsohn import coarse_decomposition
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array
from problems.labels import and_more
from problems.measured.measured_system import QUANTITIES, MeasuredSystem
from problems.measured.reduced import noise_spread
from problems.verdict.posture import PostureRank, WeakestPosture, weakest_posture
from problems.verdict.repairs import Repair, repairs
from problems.verdict.statements import Statement, statement_lines, statements
from problems.verdict.words import (
    UnseenDirection,
    component_names,
    describe,
    unseen_directions,
)

__all__ = ["RankDrop", "Status", "Verdict", "judge"]

EPS = float(np.finfo(np.float64).eps)

Status: TypeAlias = Literal["well posed", "over-determined", "under-determined", "singular"]

_STATUS_WORDS: Mapping[str, str] = {
    "well posed": "every quantity is determined{where}, by exactly as many readings as needed",
    "over-determined": "every quantity is determined{where}, and readings check each other",
    "under-determined": "there are too few readings of the right kind, whatever the posture",
    "singular": "there are enough readings, but at every posture they leave something unseen",
}


@final
@dataclass(frozen=True)
class RankDrop:
    """A state within reach at which more is unseen than elsewhere.

    Attributes
    ----------
    q : the position.
    where : in words.
    lost : number of further directions that are not seen there.
    condition : condition number there.
    directions : all that is not seen there.
    repairs : smallest additions that let everything be seen there.
    """

    q: Array
    where: str
    lost: int
    condition: float
    directions: tuple[UnseenDirection, ...]
    repairs: tuple[Repair, ...]


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """What a layout determines.

    Attributes
    ----------
    status : ``well posed`` (square), ``over-determined`` (readings check each other),
        ``under-determined`` (too few equations by their pattern), ``singular`` (enough, but
        their values cancel at every state).
    rank, unknowns, equations : of the whole system, counted as [NORI] does, with the net
        wrenches f^B among the unknowns.
    structural_rank : the largest rank that any values could give.
    determined, undetermined : names by quantity; components too where only some are open.
    directions : what no sensor sees, in words.
    repairs : smallest additions that make it well posed.
    rank_drops : states where more is lost.
    condition : percentiles 0, 50, 90, 100 of the condition number over random states: of the
        readings as rows of z = (qdd, external wrenches), rows and columns in parts of their
        size (:mod:`dynsys.system.size`), exact ones before all others. Rounding moves an
        estimate by up to about condition * spread * 2e-16 of its size. That of D, with units in
        it, bounds nothing: given z, the laws yield all else without a division.
    spread : ratio of the largest to the smallest deviation of a noisy reading.
    checks : number of readings that the others check.
    statements : what is taken to hold in all of this, and what is lost where it does not.
    without : names of the sensors and statements that are taken not to hold.
    """

    robot: str
    status: Status
    rank: int
    unknowns: int
    equations: int
    structural_rank: int
    determined: Mapping[str, tuple[str, ...]]
    undetermined: Mapping[str, Mapping[str, tuple[str, ...]]]
    directions: tuple[UnseenDirection, ...]
    repairs: tuple[Repair, ...]
    rank_drops: tuple[RankDrop, ...]
    condition: tuple[float, float, float, float]
    spread: float
    samples: int
    statements: tuple[Statement, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def is_well_posed(self) -> bool:
        """True if every quantity is determined at almost every state: at random ones.

        Not at each: at those of ``rank_drops``, the neutral posture is often one of them,
        directions are not seen, and what they move is NaN in an estimate.
        """
        return self.rank == self.unknowns

    @property
    def nullity(self) -> int:
        """Number of independent directions that no sensor sees."""
        return self.unknowns - self.rank

    @property
    def checks(self) -> int:
        """Number of equations beyond those that are needed."""
        return self.equations - self.rank

    def __bool__(self) -> bool:
        return self.is_well_posed

    @property
    def words(self) -> str:
        """What the status means; if every quantity is determined, the posture where not."""
        drops = self.rank_drops if self.is_well_posed else ()
        where = " at almost every posture" if drops else ""
        lost = [f"; {drop.where}, {_not_seen(drop.lost)}" for drop in drops[:1]]
        return "".join([_STATUS_WORDS[self.status].format(where=where), *lost])

    @property
    def headline(self) -> str:
        """Status, and what it means."""
        off = f" without {and_more(self.without, 4)}" if self.without else ""
        return f"{self.robot}{off}: {self.status}: {self.words}"

    @property
    def open_words(self) -> tuple[str, ...]:
        """What is not determined, one line per quantity."""
        return tuple(_open_lines(self))

    def __str__(self) -> str:
        return "\n".join(_report(self))

    def _repr_html_(self) -> str:
        rank = f"{self.rank} of {self.unknowns} unknowns, {self.equations} equations"
        about = [("verdict", f"{self.status}: {self.words}"), ("rank", rank)]
        about += [("readings to check others by", str(self.checks))]
        text = facts(f"layout of {self.robot!r}", about)
        text += lines("not seen by any sensor", describe(self.directions))
        text += lines("not determined", self.open_words)
        text += lines("any one of these repairs it", (repair.words for repair in self.repairs))
        return text + folded("all of it", f"<pre>{escape(str(self))}</pre>")

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as plain lists, mappings, numbers and strings."""
        return {
            "robot": self.robot,
            "status": self.status,
            "well_posed": self.is_well_posed,
            "rank": self.rank,
            "unknowns": self.unknowns,
            "equations": self.equations,
            "structural_rank": self.structural_rank,
            "determined": {k: list(v) for k, v in self.determined.items()},
            "undetermined": {
                k: {n: list(c) for n, c in v.items()} for k, v in self.undetermined.items()
            },
            "unseen": [_direction_json(d) for d in self.directions],
            "repairs": [
                {"words": r.words, "yaml": r.yaml, "python": r.python, "strength": r.strength}
                for r in self.repairs
            ],
            "rank_drops": [
                {
                    "where": drop.where,
                    "q": drop.q.tolist(),
                    "lost": drop.lost,
                    "condition": drop.condition if np.isfinite(drop.condition) else None,
                    "unseen": [_direction_json(d) for d in drop.directions],
                    "repairs": [repair.words for repair in drop.repairs],
                }
                for drop in self.rank_drops
            ],
            "condition": dict(
                zip(("least", "median", "p90", "most"), self.condition, strict=True)
            ),
            "samples": self.samples,
            "statements": [statement.to_json() for statement in self.statements],
            "without": list(self.without),
        }


def _direction_json(direction: UnseenDirection) -> dict[str, Any]:
    return {"words": direction.words, "parts": [vars(part) for part in direction.parts]}


# ---- text ------------------------------------------------------------------------------------


def _report(verdict: Verdict) -> list[str]:
    lines = [
        verdict.headline,
        f"  rank {verdict.rank} of {verdict.unknowns} unknowns (net wrenches of bodies among"
        f" them, as [NORI] counts), {verdict.equations} equations (laws and readings):"
        f" {_plural(verdict.checks, 'reading')} to check others by",
    ]
    if verdict.structural_rank < verdict.unknowns:
        missing = verdict.unknowns - verdict.structural_rank
        lines.append(f"  by their pattern alone at least {_plural(missing, 'reading')} too few")
    if not verdict.is_well_posed:
        lines += ["not seen by any sensor:"]
        lines += [f"  - {text}" for text in describe(verdict.directions)]
        if len(verdict.directions) == 1:
            parts = [str(part) for part in verdict.directions[0].parts[:8]]
            lines += ["  these move together:", *(f"    {part}" for part in parts)]
        lines += ["not determined:", *(f"  {line}" for line in verdict.open_words)]
        lines += _repair_lines(verdict)
    _, median, high, most = verdict.condition
    lines.append(
        f"condition number over {verdict.samples} random postures: median {median:.2g},"
        f" 90% below {high:.2g}, largest {most:.2g}: rounding moves estimates by up to about"
        f" {most * verdict.spread * EPS:.0e} of the terms they sum"
    )
    for drop in verdict.rank_drops:
        lost = _not_seen(drop.lost)
        if verdict.nullity:
            are = "is" if drop.lost == 1 else "are"
            lost = f"{drop.lost} more {are} not seen, {verdict.nullity + drop.lost} in all"
        lines.append(f"{drop.where}, {lost}; there:")
        lines += [f"  - {text}" for text in describe(drop.directions, 3)]
        lines += [f"  repair there: {repair.words}" for repair in drop.repairs[:1]]
    return [*lines, *statement_lines(verdict.statements)]


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _not_seen(lost: int) -> str:
    return f"{_plural(lost, 'direction')} {'is' if lost == 1 else 'are'} not seen"


def _open_lines(verdict: Verdict) -> list[str]:
    lines = []
    for kind in QUANTITIES:
        names = verdict.undetermined.get(kind, {})
        texts = [n if not parts else f"{n} ({', '.join(parts)})" for n, parts in names.items()]
        if names:
            of = "body" if kind in ("acceleration", "external_wrench") else "joint"
            is_all = not verdict.determined[kind] and not any(names.values()) and len(names) > 1
            said = f"of every {of}" if is_all else and_more(texts, 8)
            lines.append(f"{kind.replace('_', ' ')}: {said}")
    return lines


def _repair_lines(verdict: Verdict) -> list[str]:
    if not verdict.repairs:
        return ["no addition of the usual sensors repairs it"]
    lines = ["any one of these would repair it:" if len(verdict.repairs) > 1 else "repair:"]
    lines += [f"  - {repair.words}" for repair in verdict.repairs]
    first = verdict.repairs[0]
    lines += [
        "  in the layout file" + (", for the first:" if len(verdict.repairs) > 1 else ":")
    ]
    return [*lines, *(f"    {line}" for line in first.yaml.strip().splitlines())]


# ---- judging -------------------------------------------------------------------------------


def judge(measured: MeasuredSystem, *, samples: int, seed: int, search: bool) -> Verdict:
    """Judge a layout; see :meth:`problems.Estimation.verdict`."""
    robot, system = measured.robot, measured.whole
    positions = measured.layout.configurations(max(samples, 2), seed)
    postures = [PostureRank(measured, q) for q in positions]
    nullity = min(posture.rank.nullity for posture in postures)
    typical = [posture for posture in postures if posture.rank.nullity == nullity]
    # [NORI] counts the net wrenches among the unknowns, one law for each
    counted = UnknownLayout(robot, net_wrench=True).size
    extra = counted - system.unknowns.size
    equations = system.shape[0] + extra
    structural = coarse_decomposition(system.pattern()).structural_rank + extra
    rank = counted - nullity
    conditions = [posture.condition for posture in typical]
    open_parts = _open_parts(measured, typical[:3])
    return Verdict(
        robot=robot.name,
        status=_status(rank, counted, equations, structural),
        rank=rank,
        unknowns=counted,
        equations=equations,
        structural_rank=structural,
        determined={
            kind: tuple(
                block.name
                for block in system.unknowns.blocks
                if block.kind == kind and block.name not in open_parts.get(kind, {})
            )
            for kind in QUANTITIES
        },
        undetermined=open_parts,
        directions=unseen_directions(typical[0]),
        repairs=repairs(typical[:3]) if nullity else (),
        rank_drops=tuple(_rank_drops(measured, postures, nullity, search)),
        condition=tuple(np.percentile(conditions, [0, 50, 90, 100]).tolist()),
        spread=noise_spread(measured.variance),
        samples=len(postures),
        statements=statements(typical[0]),
    )


def _status(rank: int, unknowns: int, equations: int, structural: int) -> Status:
    if rank == unknowns:
        return "well posed" if equations == unknowns else "over-determined"
    return "under-determined" if structural < unknowns else "singular"


def _open_parts(
    measured: MeasuredSystem, postures: Sequence[PostureRank]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Components that some direction moves, by quantity and name; no components: all."""
    each = [p.rank.is_open(p.reduced.T, p.reduced.T_size) for p in postures]
    is_open = np.any(each, axis=0)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for block in measured.whole.unknowns.blocks:
        moved = np.flatnonzero(is_open[block.slice])
        if block.kind in QUANTITIES and len(moved):
            labels = component_names(block.kind, block.size)
            part = () if len(moved) == block.size else tuple(labels[k] for k in moved)
            found.setdefault(block.kind, {})[block.name] = part
    return found


def _rank_drops(
    measured: MeasuredSystem, postures: Sequence[PostureRank], nullity: int, search: bool
) -> list[RankDrop]:
    """States with more directions unseen: neutral, sampled, and found by going downhill."""
    robot = measured.robot
    found: list[RankDrop] = []
    neutral = PostureRank(measured, np.clip(robot.neutral(), *robot.position_limits))
    places = [("in the neutral posture", neutral)]
    places += [("in a random posture", p) for p in postures if p.rank.nullity > nullity]
    for where, posture in places:
        if posture.rank.nullity > nullity and len(found) < 2:
            lost = posture.rank.nullity - nullity
            words, fixes = unseen_directions(posture), repairs([posture])
            found.append(RankDrop(posture.q, where, lost, np.inf, words, fixes))
    if not search:
        return found
    typical = [posture for posture in postures if posture.rank.nullity == nullity]
    for posture in sorted(typical, key=lambda p: -p.rank.condition)[:2]:
        weakest = weakest_posture(posture)
        if weakest is None:
            break
        if weakest.is_lost:
            found.append(_found_drop(measured, weakest, nullity))
            break
    return found


def _found_drop(measured: MeasuredSystem, weakest: WeakestPosture, nullity: int) -> RankDrop:
    robot = measured.robot
    angles = [
        f"{robot.joint_names[i]} = {float(weakest.q[robot.q_slices()[i]][0]):.3g}"
        for i in weakest.joints
    ]
    where = and_more(angles, 8) if angles else "a posture within the joint limits"
    posture = PostureRank(measured, weakest.q, tolerance=100 * max(weakest.value, 1e-13))
    lost = max(posture.rank.nullity - nullity, 1)
    condition = 1.0 / max(weakest.value, 1e-300)
    fixes = repairs([posture]) if posture.rank.nullity else ()
    words = unseen_directions(posture)
    return RankDrop(weakest.q, f"near {where}", lost, condition, words, fixes)
