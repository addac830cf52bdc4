"""Methods of elimination that have an order as data, and the type of each.

"symmetric" has its steps (:mod:`.symmetric`). Every other method has an order: a type with
``method``, its name; ``encoded()``, data that JSON holds; ``decoded(content)``, the way back,
ValueError if they are no order. A new method adds its type here, and its executor to the table
of :mod:`.estimator`.

A plan says which order its operations were counted for, see :func:`counted_digest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias

from dynsys.errors import PlanMismatchError
from dynsys.plan.fingerprint import canonical_bytes
from dynsys.plan.operations import Operations
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.recursion_order import RecursionOrder
from dynsys.plan.saddle_order import SaddleOrder
from dynsys.plan.symmetric import SymmetricStep

__all__ = ["ORDERS", "EliminationOrder", "Method", "counted_digest", "require_count"]

Method: TypeAlias = Literal["symmetric", "lu", "saddle", "recursion"]
EliminationOrder: TypeAlias = PivotOrder | SaddleOrder | RecursionOrder

ORDERS: Mapping[str, type[PivotOrder] | type[SaddleOrder] | type[RecursionOrder]] = {
    order.method: order for order in (PivotOrder, SaddleOrder, RecursionOrder)
}


def counted_digest(
    order: EliminationOrder | None, steps: Sequence[SymmetricStep], operations: Operations
) -> str:
    """Digest of a sequence of elimination, of either kind, with the operations it executes.

    Pivots that do not touch each other can be exchanged at the same cost, often in the very
    same program: neither of them tells which sequence was counted.
    """
    given = None if order is None else [order.method, order.encoded()]
    return sha256(canonical_bytes([given, steps, operations])).hexdigest()


def require_count(
    counted: str,
    order: EliminationOrder | None,
    steps: Sequence[SymmetricStep],
    operations: Operations,
) -> None:
    """Raise PlanMismatchError unless these are what ``counted`` is the digest of."""
    if counted != counted_digest(order, steps, operations):
        raise PlanMismatchError(
            "the order of the plan is not the one that its operations were counted for: one of"
            " them was changed. Make a new plan"
        )
