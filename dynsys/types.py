"""Shared type aliases, and what a number from outside is. Shapes are stated in docstrings."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "ArrayLike", "BoolArray", "IntArray", "ScalarArray", "float_array"]

Array: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]
ScalarArray: TypeAlias = NDArray[Any]
"""Array of scalars of any kind: float64, longdouble, or nodes of the expression graph."""


def float_array(x: ArrayLike) -> Array:
    """Return x as float64, not copied where it is; what numpy masks is missing: NaN.

    Raises
    ------
    TypeError, ValueError
        if x is not made of real numbers: texts, dates and complex numbers are none.
    """
    if type(x) is np.ndarray and x.dtype == np.float64:
        return x
    if isinstance(x, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in x):
        x = np.ma.array(x)
    array = np.asarray(x)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers; give their real part")
    if array.dtype.kind not in "fiubO":
        first = repr(array.flat[0].item()) if array.size else f"dtype {array.dtype}"
        raise TypeError(f"{first} is no number")
    found: Array = array.astype(np.float64, copy=False)
    if isinstance(x, np.ma.MaskedArray) and x.mask is not np.ma.nomask:
        found = np.where(np.ma.getmaskarray(x), np.nan, found)
    return found
