"""Verdict on a layout before any data: what it determines, what not, what would repair it.

Three looks, each sharper than the one before: the pattern of the equations (no values can make
up for too few of them), the rank at random states (values that cancel at every state), and the
states within the joint limits where the rank drops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from dynsys.types import Array
from problems.estimation.estimate import QUANTITIES
from problems.verdict.repairs import Repair
from problems.verdict.words import Direction, describe

__all__ = ["RankDrop", "Status", "Verdict"]

Status: TypeAlias = Literal["well posed", "over-determined", "under-determined", "singular"]

_STATUS_WORDS: Mapping[str, str] = {
    "well posed": "every quantity is determined, by exactly as many readings as needed",
    "over-determined": "every quantity is determined, and readings check each other",
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
    directions: tuple[Direction, ...]
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
    condition : percentiles 0, 50, 90, 100 of the condition number over random states.
    checks : number of readings that the others check.
    """

    robot: str
    status: Status
    rank: int
    unknowns: int
    equations: int
    structural_rank: int
    determined: Mapping[str, tuple[str, ...]]
    undetermined: Mapping[str, Mapping[str, tuple[str, ...]]]
    directions: tuple[Direction, ...]
    repairs: tuple[Repair, ...]
    rank_drops: tuple[RankDrop, ...]
    condition: tuple[float, float, float, float]
    samples: int

    @property
    def is_well_posed(self) -> bool:
        """True if every quantity is determined at almost every state."""
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

    def __str__(self) -> str:
        return "\n".join(_report(self))

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
        }


def _direction_json(direction: Direction) -> dict[str, Any]:
    return {"words": direction.words, "parts": [vars(part) for part in direction.parts]}


# ---- text ------------------------------------------------------------------------------------


def _report(verdict: Verdict) -> list[str]:
    lines = [
        f"{verdict.robot}: {verdict.status}: {_STATUS_WORDS[verdict.status]}",
        f"  rank {verdict.rank} of {verdict.unknowns} unknowns, {verdict.equations} equations"
        f" (laws and readings): {_plural(verdict.checks, 'reading')} to check others by",
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
        lines += ["not determined:", *_open_lines(verdict)]
        lines += _repair_lines(verdict)
    _, median, high, most = verdict.condition
    lines.append(
        f"condition number over {verdict.samples} random postures: median {median:.2g},"
        f" 90% below {high:.2g}, largest {most:.2g}"
    )
    for drop in verdict.rank_drops:
        are = "is" if drop.lost == 1 else "are"
        lost = _plural(drop.lost, "further direction")
        lines.append(f"{drop.where}, {lost} {are} not seen; there:")
        lines += [f"  - {text}" for text in describe(drop.directions, 3)]
        lines += [f"  repair there: {repair.words}" for repair in drop.repairs[:1]]
    return lines


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _open_lines(verdict: Verdict) -> list[str]:
    lines = []
    for kind in QUANTITIES:
        names = verdict.undetermined.get(kind, {})
        texts = [n if not parts else f"{n} ({', '.join(parts)})" for n, parts in names.items()]
        listed = ", ".join(texts[:8]) + (
            f" and {len(texts) - 8} more" if len(texts) > 8 else ""
        )
        if names:
            lines.append(f"  {kind.replace('_', ' ')}: {listed}")
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
    pasted = first.yaml.strip().splitlines()
    more = [f"    # and {len(pasted) - 6} more"] if len(pasted) > 6 else []
    return [*lines, *(f"    {line}" for line in pasted[:6]), *more]
