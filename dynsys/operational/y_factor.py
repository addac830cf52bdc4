"""Sparse factors of the operational-space inverse inertia ([OSI] sections 6 and 8).

    Y = J L^-1                               Lambda^-1 = Y Y^T        eq. 20, 21   figure 8
    Yd = J Ld^-1,  YD = Yd D^-1              Lambda^-1 = YD Yd^T      eq. 22, 23   figure 9

for H = L^T L or H = Ld^T D Ld. Y, Yd and YD have the pattern of J. Cost O(m d^2 + m^2 d).
Scalars of any kind.
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import Loop
from dynsys.operational.supports import Supports
from dynsys.recursive.sparse_factors import scalar_type
from dynsys.types import ArrayLike, IntArray, ScalarArray

__all__ = ["lambda_inverse", "y_factor", "yd_factors"]


def y_factor(J: ArrayLike, L: ArrayLike, supports: Supports, parent: IntArray) -> ScalarArray:
    """Y = J L^-1 (m, n) from the factor L of H = L^T L."""
    matrix, factor = np.asarray(J), np.asarray(L)
    kind = scalar_type(matrix, factor)
    Y = np.array(matrix, dtype=kind)
    divide_rows(Y, np.ascontiguousarray(factor, kind), parent, *supports.arrays, False)
    return Y


def yd_factors(
    J: ArrayLike, L: ArrayLike, diag: ArrayLike, supports: Supports, parent: IntArray
) -> tuple[ScalarArray, ScalarArray]:
    """Yd = J L^-1 and YD = Yd diag^-1 (m, n) from the factors of H = L^T diag L.

    The diagonal of L is taken as ones, whatever is stored there.
    """
    matrix, factor, d = np.asarray(J), np.asarray(L), np.asarray(diag)
    kind = scalar_type(matrix, factor, d)
    Yd = np.array(matrix, dtype=kind)
    YD = np.zeros(Yd.shape, dtype=kind)
    divide_rows(Yd, np.ascontiguousarray(factor, kind), parent, *supports.arrays, True)
    divide_columns(Yd, d.astype(kind), *supports.arrays, YD)
    return Yd, YD


def lambda_inverse(left: ArrayLike, right: ArrayLike, supports: Supports) -> ScalarArray:
    """Lambda^-1 (m, m) = left right^T, symmetric: (Y, Y) or (YD, Yd) ([OSI] figure 10)."""
    a, b = np.asarray(left), np.asarray(right)
    kind = scalar_type(a, b)
    out = np.zeros((len(a), len(a)), dtype=kind)
    common = np.empty(a.shape[1], dtype=np.intp)
    multiply_supported(
        np.ascontiguousarray(a, kind),
        np.ascontiguousarray(b, kind),
        *supports.arrays,
        common,
        out,
    )
    return out


@Loop
def divide_rows(
    Y: ScalarArray,
    L: ScalarArray,
    parent: IntArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    unit: bool,
) -> None:
    """Replace Y (m, n) by Y L^-1 ([OSI] figure 8; with ``unit`` the first half of figure 9)."""
    for g in range(len(row) - 1):
        for k in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                i = nodes[p]
                if not unit:
                    Y[k, i] = Y[k, i] / L[i, i]
                j = parent[i]
                while j >= 0:
                    Y[k, j] = Y[k, j] - Y[k, i] * L[i, j]
                    j = parent[j]


@Loop
def divide_columns(
    Yd: ScalarArray,
    diag: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    YD: ScalarArray,
) -> None:
    """Write Yd diag^-1 into YD (m, n) where the support is ([OSI] figure 9)."""
    for g in range(len(row) - 1):
        for k in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                YD[k, nodes[p]] = Yd[k, nodes[p]] / diag[nodes[p]]


@Loop
def multiply_supported(
    left: ScalarArray,
    right: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    common: IntArray,
    out: ScalarArray,
) -> None:
    """Write left right^T, assumed symmetric, over common supports ([OSI] eq. 31, figure 10).

    The common support of two groups is found once, by merging; of two ways to the base it is
    the way of their nearest common ancestor. ``common`` (n,) is scratch.
    """
    for g in range(len(row) - 1):
        for h in range(g + 1):
            size, p, q = 0, start[g], start[h]
            while p < start[g + 1] and q < start[h + 1]:
                if nodes[p] == nodes[q]:
                    common[size] = nodes[p]
                    size, p, q = size + 1, p + 1, q + 1
                elif nodes[p] > nodes[q]:
                    p += 1
                else:
                    q += 1
            for i in range(row[g], row[g + 1]):
                for j in range(row[h], min(row[h + 1], i + 1)):
                    for s in range(size):
                        k = common[s]
                        if s == 0:
                            out[i, j] = left[i, k] * right[j, k]
                        else:
                            out[i, j] = out[i, j] + left[i, k] * right[j, k]
                    out[j, i] = out[i, j]
