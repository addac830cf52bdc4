"""Shared type aliases. Shapes are stated in docstrings."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "ArrayLike", "BoolArray", "IntArray", "ScalarArray"]

Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]
ScalarArray: TypeAlias = NDArray[Any]
"""Array of scalars of any kind: float64, longdouble, or nodes of the expression graph."""
