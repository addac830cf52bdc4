"""Vectors and matrices alike as columns (n, k), in one type of scalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynsys.branch.pattern import check_parent
from dynsys.errors import StateError
from dynsys.types import ArrayLike, IntArray, ScalarArray

__all__ = ["as_columns", "common_scalars", "scalar_type"]


def scalar_type(*arrays: ScalarArray) -> np.dtype[Any]:
    """Type that holds the scalars of all arrays: at least float64."""
    return np.result_type(np.float64, *arrays)


def as_columns(x: ArrayLike, rows: int, what: str) -> tuple[ScalarArray, tuple[int, ...]]:
    """Contiguous (rows, k) view or copy of x (rows,) or (rows, k), and the shape x had."""
    array = np.asarray(x)
    if array.ndim not in (1, 2) or len(array) != rows:
        raise StateError(f"{what} must have {rows} rows, got shape {array.shape}")
    columns = 1 if array.ndim == 1 else array.shape[1]
    return np.ascontiguousarray(array.reshape(rows, columns)), array.shape


def common_scalars(
    L: ArrayLike, parent: ArrayLike, x: ArrayLike
) -> tuple[ScalarArray, IntArray, ScalarArray, tuple[int, ...]]:
    """L (n, n), parent (n,), x as columns (n, k) of one type of scalar, and the shape of x."""
    factor = np.asarray(L)
    if factor.ndim != 2 or factor.shape[0] != factor.shape[1]:
        raise StateError(f"a square factor L is wanted, got shape {factor.shape}")
    array = check_parent(parent, len(factor))
    columns, shape = as_columns(x, len(factor), "x")
    kind = scalar_type(factor, columns)
    return np.ascontiguousarray(factor, kind), array, columns.astype(kind), shape
