"""What a plan of method "recursion" holds: which parameters are open, and how they are found.

Unknowns are named ``qdd(joint)[k]`` and ``external_wrench(body)[k]``, readings ``sensor[row]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, final

from dynsys.plan.saddle_order import lists_of_names

__all__ = ["RecursionOrder"]

Names: TypeAlias = tuple[str, ...]


@final
@dataclass(frozen=True)
class RecursionOrder:
    """Choices of the recursion with open parameters, see :mod:`dynsys.plan.recursion`.

    Parameters
    ----------
    substituted : (reading, unknown): the exact reading is solved for this entry of qdd or of an
        external wrench. All other entries are open parameters.
    anchors : (body, anchor): the open wrench on the body is asked for at the anchor, a body on
        the way to the base.
    pivots : of the small system in the open parameters, in their order: (reading, unknown)
        where as many readings are left as parameters.
    regrouped : whether masses move towards the base past joints whose wrench nobody asks for.
    """

    substituted: tuple[Names, ...]
    anchors: tuple[Names, ...]
    pivots: tuple[Names, ...]
    regrouped: bool = True

    method: ClassVar[Literal["recursion"]] = "recursion"

    def __post_init__(self) -> None:
        for what in ("substituted", "pivots"):
            names = [name for entry in getattr(self, what) for name in entry]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise ValueError(f"{twice!r} comes twice in {what!r} of the order")

    def encoded(self) -> dict[str, Any]:
        """Data that JSON holds; :meth:`decoded` reads them."""
        lists = {key: list(map(list, getattr(self, key))) for key in _SIZES}
        return {**lists, "regrouped": self.regrouped}

    @staticmethod
    def decoded(content: Any) -> RecursionOrder:
        """Order of :meth:`encoded` data; ValueError if they are no order."""
        substituted, anchors, pivots = lists_of_names(content, _SIZES)
        if not isinstance(content.get("regrouped"), bool):
            raise ValueError("'regrouped' of the order is neither true nor false")
        return RecursionOrder(substituted, anchors, pivots, content["regrouped"])


_SIZES = {"substituted": (2,), "anchors": (2,), "pivots": (1, 2)}
"""Lists of an order, and how many names an entry has."""
