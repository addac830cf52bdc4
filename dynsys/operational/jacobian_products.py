"""Products with a sparse Jacobian: J x and J^T x ([OSI] figures 5 and 6, table 1).

They visit only elements that may be nonzero, and serve Y, Yd and YD as well. ``x`` is a vector
or a matrix of columns; scalars of any kind.
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import Loop
from dynsys.operational.supports import Supports
from dynsys.recursive.sparse_factors import as_columns, scalar_type
from dynsys.types import ArrayLike, IntArray, ScalarArray

__all__ = ["mul_J", "mul_JT", "mul_JT_into", "mul_J_into"]


def mul_J(J: ArrayLike, supports: Supports, x: ArrayLike) -> ScalarArray:
    """J x (m,) or (m, k): sum d_i m + (d_i - 1) a per column."""
    matrix = np.asarray(J)
    columns, shape = as_columns(x, matrix.shape[1], "x")
    kind = scalar_type(matrix, columns)
    y = np.zeros((len(matrix), columns.shape[1]), dtype=kind)
    mul_J_into(np.ascontiguousarray(matrix, kind), *supports.arrays, columns.astype(kind), y)
    return y.reshape(len(matrix), *shape[1:])


def mul_JT(J: ArrayLike, supports: Supports, x: ArrayLike) -> ScalarArray:
    """J^T x (n,) or (n, k): sum d_i (m + a) per column."""
    matrix = np.asarray(J)
    columns, shape = as_columns(x, len(matrix), "x")
    kind = scalar_type(matrix, columns)
    y = np.zeros((matrix.shape[1], columns.shape[1]), dtype=kind)
    mul_JT_into(np.ascontiguousarray(matrix, kind), *supports.arrays, columns.astype(kind), y)
    return y.reshape(matrix.shape[1], *shape[1:])


@Loop
def mul_J_into(
    J: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    x: ScalarArray,
    y: ScalarArray,
) -> None:
    """Write J x into y (m, k); rows without support stay as they are ([OSI] figure 5)."""
    for g in range(len(row) - 1):
        for i in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                j = nodes[p]
                for c in range(x.shape[1]):
                    if p == start[g]:
                        y[i, c] = J[i, j] * x[j, c]
                    else:
                        y[i, c] = y[i, c] + J[i, j] * x[j, c]


@Loop
def mul_JT_into(
    J: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    x: ScalarArray,
    y: ScalarArray,
) -> None:
    """Add J^T x to y (n, k) ([OSI] figure 6)."""
    for g in range(len(row) - 1):
        for i in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                j = nodes[p]
                for c in range(x.shape[1]):
                    y[j, c] = y[j, c] + J[i, j] * x[i, c]
