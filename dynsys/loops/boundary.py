"""Arguments of loops and of the reference: what is accepted, copied, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import StateError
from dynsys.program.signature import Signature
from dynsys.types import ArrayLike

__all__ = [
    "FloatArray",
    "input_array",
    "input_rows",
    "is_plain",
    "output_target",
]

FloatArray: TypeAlias = NDArray[Any]
_FLOAT64 = np.dtype(np.float64)


def is_plain(array: FloatArray) -> bool:
    """Whether loops can use the numbers of an array as they lie."""
    return array.dtype == _FLOAT64 and array.flags.aligned


def input_array(value: ArrayLike, name: str, shape: tuple[int | None, ...]) -> FloatArray:
    """Real numbers of the given shape (None: any length) as float64, copied only if needed."""
    if type(value) is np.ndarray and is_plain(value):
        if value.shape == shape or (shape[0] is None and value.shape[1:] == shape[1:]):
            return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"dtype {array.dtype}")
        array = np.require(array, np.float64, ["A"])
    except (TypeError, ValueError) as error:
        raise StateError(f"{name}: expected an array of real numbers ({error})") from error
    if array.ndim != len(shape) or array.shape[-1] != shape[-1]:
        expected = f"({', '.join('N' if n is None else str(n) for n in shape)})"
        raise StateError(f"{name}: expected shape {expected}, got {array.shape}")
    return array


def input_rows(values: Sequence[ArrayLike], signature: Signature) -> list[FloatArray]:
    """Inputs (N, size) of a batch as float64, all with the same N."""
    arrays = [
        input_array(value, name, (None, size))
        for value, (name, size) in zip(values, signature.inputs, strict=True)
    ]
    lengths = {name: len(x) for x, (name, _) in zip(arrays, signature.inputs, strict=True)}
    if len(set(lengths.values())) > 1:
        raise StateError(f"batch: all arguments need as many rows, got {lengths}")
    return arrays


def output_target(
    array: FloatArray, name: str, shape: tuple[int, ...], busy: Sequence[FloatArray]
) -> FloatArray:
    """The array itself if the loops can write to it, else a fresh one to copy from.

    ``busy`` are arrays it must not overlap.
    """
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind != "f":
        found = f"{array.dtype}{array.shape}" if isinstance(array, np.ndarray) else type(array)
        raise StateError(f"out, {name}: expected a float array of shape {shape}, got {found}")
    if not array.flags.writeable:
        raise StateError(f"out, {name}: the array is read-only; hand in a writeable one")
    if is_plain(array) and not any(np.may_share_memory(array, other) for other in busy):
        return array
    return np.empty(shape, np.float64)
