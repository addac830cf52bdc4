"""The order in which a saddle system is eliminated, as data: that of method "saddle".

A pivot names the lines (:class:`~dynsys.plan.saddle.RecordedSaddle`) that it eliminates, one of
a single pivot, two of a pair:

    acceleration(link_2)[3]        an unknown: kind, body or joint, entry
    law balance(link_2)[3]         the multiplier of a law
    reading wrist[2]               the multiplier of a reading

Names hold for any question about the same laws and sensors: other outputs, deviations, sensors
that may be switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, final

__all__ = ["Pivot", "SaddleOrder", "lists_of_names"]

Pivot: TypeAlias = tuple[str] | tuple[str, str]


@final
@dataclass(frozen=True)
class SaddleOrder:
    """Pivots one after the other, and the joints whose stages are written the other way round.

    Parameters
    ----------
    pivots : (u,) is eliminated by its diagonal entry, (u, v) by the entry between them; of a
        pair at least one diagonal entry is zero when its turn comes.
    turned : (kind, joint), see :class:`~dynsys.plan.saddle.StagedUnknowns`.

    Raises
    ------
    ValueError
        if a line comes twice.
    """

    pivots: tuple[Pivot, ...]
    turned: tuple[tuple[str, str], ...] = ()

    method: ClassVar[Literal["saddle"]] = "saddle"

    def __post_init__(self) -> None:
        lines: set[str] = set()
        for pivot in self.pivots:
            for line in pivot:
                if line in lines:
                    raise ValueError(f"the order eliminates {line!r} twice")
                lines.add(line)

    def encoded(self) -> dict[str, Any]:
        """Data that JSON holds; :meth:`decoded` reads them."""
        return {"pivots": list(map(list, self.pivots)), "turned": list(map(list, self.turned))}

    @staticmethod
    def decoded(content: Any) -> SaddleOrder:
        """Order of :meth:`encoded` data; ValueError if they are no order."""
        pivots, turned = lists_of_names(content, {"pivots": (1, 2), "turned": (2,)})
        return SaddleOrder(pivots, turned)


def lists_of_names(
    content: Any, sizes: Mapping[str, tuple[int, ...]]
) -> list[tuple[tuple[Any, ...], ...]]:
    """Lists of an order, by their keys and how many names an entry has; ValueError if wrong."""
    if not isinstance(content, dict):
        raise ValueError("'order' is missing or no mapping")
    for key, lengths in sizes.items():
        given = content.get(key)
        if not isinstance(given, list):
            raise ValueError(f"{key!r} of the order is missing or no list")
        for entry in given:
            if not isinstance(entry, list) or len(entry) not in lengths:
                raise ValueError(f"an entry of {key!r} is no list of names")
            if not all(isinstance(name, str) for name in entry):
                raise ValueError(f"an entry of {key!r} holds something that is no name")
    return [tuple(map(tuple, content[key])) for key in sizes]
