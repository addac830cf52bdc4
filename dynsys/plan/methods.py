"""Methods of elimination that have an order as data, and the type of each.

"symmetric" has its steps (:mod:`.symmetric`). Every other method has an order: a type with
``method``, its name; ``encoded()``, data that JSON holds; ``decoded(content)``, the way back,
ValueError if they are no order. A new method adds its type here, and its executor to the table
of :mod:`.estimator`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.recursion_order import RecursionOrder
from dynsys.plan.saddle_order import SaddleOrder

__all__ = ["ORDERS", "EliminationOrder", "Method"]

Method: TypeAlias = Literal["symmetric", "lu", "saddle", "recursion"]
EliminationOrder: TypeAlias = PivotOrder | SaddleOrder | RecursionOrder

ORDERS: Mapping[str, type[PivotOrder] | type[SaddleOrder] | type[RecursionOrder]] = {
    order.method: order for order in (PivotOrder, SaddleOrder, RecursionOrder)
}
