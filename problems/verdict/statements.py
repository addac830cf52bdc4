"""What a layout takes to hold without reading it, and what is lost where that does not hold.

    B z = c   without the rows of a statement: further directions of z are not seen, and what
              moves along them is not determined

Contacts come and go (``active``, ``switchable``, NaN in a log): a verdict counts all
statements, so that it is true while all of them hold. Each is left out by itself here, at one
posture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.types import BoolArray
from problems.labels import and_more
from problems.measured.measured_system import QUANTITIES
from problems.measured.reduced import rank_of
from problems.verdict.posture import PostureRank
from sensors.sides import states_zero

__all__ = ["Statement", "statement_lines", "statements"]

SHOWN = 4
"""Statements whose loss is told in words."""


@final
@dataclass(frozen=True)
class Statement:
    """A statement that is taken to hold, and what is lost where it does not.

    Attributes
    ----------
    name : of the statement.
    lost : number of further directions that no sensor sees without it; 0: others tell as much.
    undetermined : by quantity, what is then not determined though it is with the statement.
    """

    name: str
    lost: int
    undetermined: Mapping[str, tuple[str, ...]]

    @property
    def words(self) -> str:
        """What is lost."""
        parts = [
            f"{kind.replace('_', ' ')} of {and_more(list(names), 3)}"
            for kind, names in self.undetermined.items()
        ]
        return "; ".join(parts) or "nothing"

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        lists = {kind: list(names) for kind, names in self.undetermined.items()}
        return {"name": self.name, "lost": self.lost, "undetermined": lists}


def statements(posture: PostureRank) -> tuple[Statement, ...]:
    """Statements of a layout, those of contacts that are there first."""
    measured, reduced, rank = posture.measured, posture.reduced, posture.rank
    layout, scale, found = measured.layout, posture.rank.scale, list[Statement]()
    is_open = rank.is_open(reduced.T, reduced.T_size)
    stated = (s for s in layout.sensors if s.constant(1) is not None)
    for sensor in sorted(stated, key=states_zero):
        rest = np.ones(len(reduced.B), dtype=bool)
        rest[layout.slice(sensor.name)] = False
        without = rank_of(reduced.B[rest], reduced.B_size[rest], scale, posture.tolerance)
        lost, open_parts = without.nullity - rank.nullity, dict[str, tuple[str, ...]]()
        if lost:
            newly = without.is_open(reduced.T, reduced.T_size) & ~is_open
            open_parts = _names(posture, newly)
        found.append(Statement(sensor.name, lost, open_parts))
    return tuple(found)


def _names(posture: PostureRank, newly: BoolArray) -> dict[str, tuple[str, ...]]:
    """Names by quantity of what has a component that is open."""
    found: dict[str, tuple[str, ...]] = {}
    for block in posture.measured.whole.unknowns.blocks:
        if block.kind in QUANTITIES and newly[block.slice].any():
            found[block.kind] = (*found.get(block.kind, ()), block.name)
    return {kind: found[kind] for kind in QUANTITIES if kind in found}


def statement_lines(told: Sequence[Statement]) -> list[str]:
    """All of them in some lines."""
    if not told:
        return []
    names = and_more([repr(one.name) for one in told], SHOWN)
    many = "this statement" if len(told) == 1 else f"these {len(told)} statements"
    lines = [f"all of this while {many} hold{'s' * (len(told) == 1)}: {names}"]
    needed = [one for one in told if one.lost]
    if not needed:
        return [*lines, "  whichever of them does not, the others determine as much"]
    lines += [
        f"  where {one.name!r} does not, no longer determined: {one.words}"
        for one in needed[:SHOWN]
    ]
    if len(needed) > SHOWN:
        lines.append(f"  and so for {len(needed) - SHOWN} more")
    return lines
