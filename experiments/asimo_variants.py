"""ASIMO Next-Generation and the variants of [OSI] table 3, as parent arrays of bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from dynsys.types import IntArray

__all__ = ["TABLE_3", "Variant"]


@final
@dataclass
class Variant:
    """A robot by its connectivity: torso (floating), head, arms with hands, waist, legs.

    This numbering, torso, head, arms, waist, legs, is one in which [OSI] figure 15, read to the
    letter, gives the paper's numbers; see :mod:`dynsys.operational.rjk`.
    """

    extra: int = 0
    limbs: int = 2
    fingers: tuple[int, ...] = (1, 1)
    parent: list[int] = field(default_factory=lambda: [-1])
    hands: list[int] = field(default_factory=list)
    tips: list[list[int]] = field(default_factory=list)
    feet: list[int] = field(default_factory=list)
    head: int = 0

    def __post_init__(self) -> None:
        self.head = self._limb(0, 3)
        for _ in range(self.limbs):
            hand = self._limb(0, 7 + self.extra)
            self.hands.append(hand)
            self.tips.append([self._limb(hand, length) for length in self.fingers])
        waist = self._limb(0, 1)
        self.feet = [self._limb(waist, 6 + self.extra) for _ in range(self.limbs)]

    def _limb(self, parent: int, length: int) -> int:
        for _ in range(length):
            self.parent.append(parent)
            parent = len(self.parent) - 1
        return parent

    def bodies(self, space: str) -> list[int]:
        """HF: hands and feet; HFH: also the head; FTF: forefingers, thumbs and feet."""
        if space == "FTF":
            return [*(tips[k] for tips in self.tips for k in (0, 1)), *self.feet]
        return [*self.hands, *self.feet, *([self.head] if space == "HFH" else [])]

    def expanded(self) -> IntArray:
        """Expanded parent array (n,): the torso's joint has six freedoms."""
        return np.array([*range(-1, 5), *(p + 5 for p in self.parent[1:])], dtype=np.intp)

    def names(self) -> list[str]:
        """Names of the bodies that a drawing shows."""
        names = [""] * len(self.parent)
        names[0], names[self.head], names[self.feet[0] - 6 - self.extra] = (
            "torso",
            "head",
            "waist",
        )
        for hand in self.hands:
            names[hand] = "hand"
        for foot in self.feet:
            names[foot] = "foot"
        return names


TABLE_3 = (
    ("ASIMO", "HF", Variant(), 1.618),
    ("ASIMO", "HFH", Variant(), 1.923),
    ("+ 6 joints per limb", "HF", Variant(extra=6), 1.369),
    ("+ 12 joints per limb", "HF", Variant(extra=12), 1.095),
    ("4 arms, 4 legs", "HF", Variant(limbs=4), 2.496),
    ("+ 10 DoF per hand", "HF", Variant(fingers=(3, 3, 3, 3)), 1.122),
    ("+ 10 DoF per hand", "FTF", Variant(fingers=(3, 3, 3, 3)), 1.277),
)
"""Robot, operational space, connectivity, the paper's cost ratio."""
