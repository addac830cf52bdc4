"""Plain count of the operations of the scalar elimination, by scalars that count themselves."""

from __future__ import annotations

from typing import Any

from dynsys.plan.lu import entries_by_row, factor_and_solve
from dynsys.plan.operations import Operations
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.types import BoolArray


def elimination_operations(
    pattern: Pattern,
    order: PivotOrder,
    unit: BoolArray | None = None,
    known_rhs: BoolArray | None = None,
) -> Operations:
    """Operations of :func:`~dynsys.plan.lu.factor_and_solve`, by structure alone.

    Parameters
    ----------
    pattern, order : the matrix and its pivots.
    unit : (entries,) entries of the pattern that are +-1: products with them are free.
    known_rhs : (rows,) rows whose right-hand side is not zero; all if None.
    """
    counter = _Counter()
    flags = [False] * pattern.nnz if unit is None else unit.tolist()
    rows = entries_by_row(pattern, [_Counted(counter, is_unit) for is_unit in flags])
    full = [True] * len(rows) if known_rhs is None else known_rhs.tolist()
    rhs: list[Any] = [_Counted(counter, False) if known else 0.0 for known in full]
    factor_and_solve(rows, rhs, order)
    return Operations(counter.multiplications, counter.additions, counter.divisions)


class _Counter:
    def __init__(self) -> None:
        self.multiplications = self.additions = self.divisions = 0


class _Counted:
    """A scalar known only to be +-1 or general; arithmetic counts itself."""

    __slots__ = ("counter", "unit")

    def __init__(self, counter: _Counter, unit: bool) -> None:
        self.counter, self.unit = counter, unit

    def __neg__(self) -> _Counted:
        return self

    def __sub__(self, other: Any) -> _Counted:
        if not isinstance(other, _Counted):  # the number zero
            return self
        self.counter.additions += 1
        return _Counted(self.counter, False)

    def __rsub__(self, other: Any) -> _Counted:
        return self

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, _Counted):
            return 0.0 if other == 0 else self
        if self.unit or other.unit:
            return other if self.unit else self
        self.counter.multiplications += 1
        return _Counted(self.counter, False)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if other.unit:
            return self
        self.counter.divisions += 1
        return _Counted(self.counter, False)

    def __rtruediv__(self, other: Any) -> Any:
        if other == 0:
            return 0.0
        if self.unit:
            return self
        self.counter.divisions += 1
        return _Counted(self.counter, False)
