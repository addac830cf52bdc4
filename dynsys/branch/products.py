"""Products with sparse triangular factors: L x and L^T x ([BIS] appendix, table 1).

Cost per vector n m + D1 (m + a); D1 (m + a) with a unit diagonal. ``x`` is a vector (n,) or a
matrix (n, k), scalars of any kind; ``unit=True`` says that the diagonal of L is ones.
"""

from __future__ import annotations

from dynsys.branch.columns import common_scalars, scalar_type
from dynsys.branch.compiled import Loop
from dynsys.types import ArrayLike, IntArray, ScalarArray

__all__ = ["mul_L", "mul_LT", "mul_LT_into", "mul_L_into"]


def mul_L(L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False) -> ScalarArray:
    """L x for x (n,) or (n, k).

    Examples
    --------
    >>> mul_L([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [1.0, 10.0]).tolist()
    [2.0, 31.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    y = columns.copy()
    mul_L_into(factor, array, columns, y, unit)
    return y.reshape(shape)


def mul_LT(L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False) -> ScalarArray:
    """L^T x for x (n,) or (n, k).

    Examples
    --------
    >>> mul_LT([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [1.0, 10.0]).tolist()
    [12.0, 30.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    y = columns.astype(scalar_type(factor, columns))
    mul_LT_into(factor, array, columns, y, unit)
    return y.reshape(shape)


@Loop
def mul_L_into(
    L: ScalarArray, parent: IntArray, x: ScalarArray, y: ScalarArray, unit: bool
) -> None:
    """Write L x into y (n, k); y may be x itself."""
    for i in range(len(L) - 1, -1, -1):
        for c in range(x.shape[1]):
            y[i, c] = x[i, c] if unit else L[i, i] * x[i, c]
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                y[i, c] = y[i, c] + L[i, j] * x[j, c]
            j = parent[j]


@Loop
def mul_LT_into(
    L: ScalarArray, parent: IntArray, x: ScalarArray, y: ScalarArray, unit: bool
) -> None:
    """Write L^T x into y (n, k), which must not be x."""
    for i in range(len(L)):
        for c in range(x.shape[1]):
            y[i, c] = x[i, c] if unit else L[i, i] * x[i, c]
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                y[j, c] = y[j, c] + L[i, j] * x[i, c]
            j = parent[j]
