"""Methods of elimination, and the order that each executes, as data.

    "symmetric"   the steps of :mod:`.symmetric`: dynamics
    "lu"          rows and columns of scalar pivots, :class:`~.orders.orders.PivotOrder`
    "saddle"      single and paired pivots of a saddle system, :class:`SaddleOrder`
    "recursion"   parameters that stay open, and how they are found, :class:`RecursionOrder`

The type of an order has ``method``, its name; ``encoded()``, data that JSON holds;
``decoded(content)``, the way back, ValueError if they are no order. A new method adds its type
here, and its executor to the table of :mod:`.estimator`.

Orders of the last two are made of names, which hold for any question about the same laws and
sensors: other outputs, deviations, sensors that may be switched off.

    acceleration(link_2)[3]        an unknown: kind, body or joint, entry
    wrist[2]                       a reading: sensor, row
    law balance(link_2)[3]         of saddle systems: the multiplier of a law
    reading wrist[2]               and of a reading
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, final

from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.symmetric import SymmetricStep

__all__ = [
    "ORDERS",
    "EliminationOrder",
    "Method",
    "Pivot",
    "RecursionOrder",
    "SaddleOrder",
    "require_own_order",
]

Names: TypeAlias = tuple[str, ...]
Pivot: TypeAlias = tuple[str] | tuple[str, str]
"""Lines (:class:`~dynsys.plan.saddle.RecordedSaddle`) that a pivot eliminates."""


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
        pivots, turned = _lists_of_names(content, {"pivots": (1, 2), "turned": (2,)})
        return SaddleOrder(pivots, turned)


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
        substituted, anchors, pivots = _lists_of_names(content, _SIZES)
        if not isinstance(content.get("regrouped"), bool):
            raise ValueError("'regrouped' of the order is neither true nor false")
        return RecursionOrder(substituted, anchors, pivots, content["regrouped"])


_SIZES = {"substituted": (2,), "anchors": (2,), "pivots": (1, 2)}
"""Lists of an order, and how many names an entry has."""


def _lists_of_names(
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


Method: TypeAlias = Literal["symmetric", "lu", "saddle", "recursion"]
EliminationOrder: TypeAlias = PivotOrder | SaddleOrder | RecursionOrder

ORDERS: Mapping[str, type[PivotOrder] | type[SaddleOrder] | type[RecursionOrder]] = {
    order.method: order for order in (PivotOrder, SaddleOrder, RecursionOrder)
}


def require_own_order(
    method: str, order: EliminationOrder | None, steps: Sequence[SymmetricStep]
) -> None:
    """ValueError unless a method has its own kind of order, or steps if it has no order."""
    if type(order) is not ORDERS.get(method, type(None)) or (order is not None and steps):
        raise ValueError(f"method {method!r} needs its own kind of pivot order")
