"""Solves with sparse triangular factors: L^-1 x, L^-T x, H^-1 b ([BIS] appendix, table 1).

Cost per vector n d + D1 (m + a) each; D1 (m + a) with a unit diagonal. ``x`` is a vector (n,)
or a matrix (n, k), scalars of any kind; ``unit=True`` says that the diagonal of L is ones.
"""

from __future__ import annotations

import numpy as np

from dynsys.branch.columns import common_scalars
from dynsys.branch.compiled import Loop
from dynsys.branch.ltdl import ltdl
from dynsys.errors import StateError
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = [
    "solve",
    "solve_L",
    "solve_LT",
    "solve_LT_in_situ",
    "solve_L_in_situ",
    "solve_ltdl",
    "solve_ltl",
]


def solve_L(
    L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False
) -> ScalarArray:
    """L^-1 x for x (n,) or (n, k).

    Examples
    --------
    >>> solve_L([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [2.0, 31.0]).tolist()
    [1.0, 10.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    solve_L_in_situ(factor, array, columns, unit)
    return columns.reshape(shape)


def solve_LT(
    L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False
) -> ScalarArray:
    """L^-T x for x (n,) or (n, k).

    Examples
    --------
    >>> solve_LT([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [12.0, 30.0]).tolist()
    [1.0, 10.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    solve_LT_in_situ(factor, array, columns, unit)
    return columns.reshape(shape)


def solve_ltl(L: ArrayLike, parent: ArrayLike, b: ArrayLike) -> ScalarArray:
    """H^-1 b for H = L^T L: back-substitution, 2 n d + 2 D1 (m + a) per vector."""
    factor, array, columns, shape = common_scalars(L, parent, b)
    solve_LT_in_situ(factor, array, columns, False)
    solve_L_in_situ(factor, array, columns, False)
    return columns.reshape(shape)


def solve_ltdl(L: ArrayLike, diag: ArrayLike, parent: ArrayLike, b: ArrayLike) -> ScalarArray:
    """H^-1 b for H = L^T diag(diag) L: n d + 2 D1 (m + a) per vector."""
    factor, array, columns, shape = common_scalars(L, parent, b)
    d = np.asarray(diag)
    if d.shape != (len(factor),):
        raise StateError(f"diag must have shape ({len(factor)},), got {d.shape}")
    solve_LT_in_situ(factor, array, columns, True)
    scaled = np.asarray(columns / d[:, None])
    solve_L_in_situ(factor, array, scaled, True)
    return scaled.reshape(shape)


def solve(H: ArrayLike, parent: ArrayLike, b: ArrayLike) -> Array:
    """x with H x = b, b (n,) or (n, k), through LTDL: O(n d^2) instead of O(n^3).

    Raises
    ------
    SingularSystemError
        if H is not positive definite, naming the row.

    Examples
    --------
    >>> solve([[4.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 4.0]], [-1, 0, 0], [7.0, 3.0, 6.0])
    array([1., 1., 1.])
    """
    L, diag = ltdl(H, parent)
    return solve_ltdl(L, diag, parent, b)


@Loop
def solve_L_in_situ(L: ScalarArray, parent: IntArray, x: ScalarArray, unit: bool) -> None:
    """Replace x (n, k) by L^-1 x."""
    for i in range(len(L)):
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                x[i, c] = x[i, c] - L[i, j] * x[j, c]
            j = parent[j]
        if not unit:
            for c in range(x.shape[1]):
                x[i, c] = x[i, c] / L[i, i]


@Loop
def solve_LT_in_situ(L: ScalarArray, parent: IntArray, x: ScalarArray, unit: bool) -> None:
    """Replace x (n, k) by L^-T x."""
    for i in range(len(L) - 1, -1, -1):
        if not unit:
            for c in range(x.shape[1]):
                x[i, c] = x[i, c] / L[i, i]
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                x[j, c] = x[j, c] - L[i, j] * x[i, c]
            j = parent[j]
