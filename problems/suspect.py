"""Sensors that disagree with the others, and when readings count as disagreeing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

__all__ = ["SIGNIFICANCE", "UNCHECKED", "Suspect"]

SIGNIFICANCE = 0.01
"""Readings that would disagree this much in fewer than one of a hundred cases disagree."""

UNCHECKED = 1e-9
"""Part of a reading's information that the others must be able to check."""


@final
@dataclass(frozen=True)
class Suspect:
    """A sensor whose removal explains the disagreement.

    ``explains`` of the chi-square go with it, ``degrees_of_freedom`` with its rows; what is
    left over would be as large by chance with probability ``p_value``.
    """

    sensor: str
    explains: float
    degrees_of_freedom: int
    p_value: float

    def __str__(self) -> str:
        return (
            f"sensor {self.sensor!r} disagrees with the others (chi-square {self.explains:.3g})"
        )
