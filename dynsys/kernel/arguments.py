"""Arguments of kernels that code cannot use as they are: converted, copied, or an error.

Compiled code wants numbers of one dtype, aligned, rows contiguous. Whatever else is an array of
real numbers of the right shape is copied into that form; outputs of another form, or that
overlap another array, are computed in fresh arrays and copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dynsys.errors import StateError
from dynsys.program.signature import Signature
from dynsys.types import float_array

__all__ = [
    "SHAPE_WORDS",
    "FloatArray",
    "all_usable",
    "batch_converted",
    "input_array",
    "input_rows",
    "one_converted",
    "output_target",
]

FloatArray: TypeAlias = NDArray[Any]
SHAPE_WORDS = "shape ({}), got"


class ConvertingKernel(Protocol):
    """What a kernel must offer for its arguments to be converted."""

    signature: Signature
    arithmetic: np.dtype[Any]
    length_words: str
    fast: Callable[..., bool | None]

    def empty_rows(self, n: int) -> tuple[FloatArray, ...]:
        """New output arrays for n states."""

    def run_rows(self, arrays: Sequence[Any], n: int, threads: int) -> bool | None:
        """All rows of a batch; None if the arrays don't fit."""


def one_converted(
    kernel: ConvertingKernel, inputs: Sequence[ArrayLike], outputs: Sequence[FloatArray]
) -> bool:
    """One state of awkward arguments: whether all outputs are finite."""
    signature, dtype = kernel.signature, kernel.arithmetic
    signature.check_count(inputs, outputs)
    arrays = [
        input_array(value, name, (size,), dtype, kernel.length_words)
        for value, (name, size) in zip(inputs, signature.inputs, strict=True)
    ]
    targets = _output_targets(outputs, signature, arrays, dtype)
    finite = kernel.fast(*arrays, *targets)
    _copy_back(outputs, targets)
    return bool(finite)


def batch_converted(
    kernel: ConvertingKernel,
    inputs: Sequence[ArrayLike],
    out: Sequence[FloatArray] | None,
    threads: int,
) -> tuple[tuple[FloatArray, ...], bool]:
    """Rows of awkward arguments: outputs, and whether all are finite."""
    signature, dtype = kernel.signature, kernel.arithmetic
    arrays = input_rows(inputs, signature, dtype)
    n = len(arrays[0])
    outputs = kernel.empty_rows(n) if out is None else tuple(out)
    targets = _output_targets(outputs, signature, arrays, dtype, (n,))
    finite = kernel.run_rows([*arrays, *targets], n, threads)
    if finite is None and n:
        raise MemoryError("no memory is left for the scratch of a batch")
    _copy_back(outputs, targets)
    return outputs, finite is not False


def is_usable(array: FloatArray, dtype: DTypeLike = np.float64) -> bool:
    """Whether compiled code can use the numbers of a vector, or of rows, as they lie."""
    item = array.itemsize
    return bool(
        array.dtype == dtype
        and array.flags.aligned
        and (array.shape[-1] <= 1 or array.strides[-1] == item)
        and all(x >= item * array.shape[-1] and x % item == 0 for x in array.strides[:-1])
    )


def all_usable(
    arrays: Sequence[Any],
    signature: Signature,
    dtype: DTypeLike,
    *,
    rows: bool = False,
    apart: bool = False,
) -> bool:
    """Whether code can use arrays for all groups of a signature as they are.

    Outputs must be writeable and, if ``apart``, must not overlap other arrays.
    """
    n_inputs = len(signature.inputs)
    if len(arrays) != len(signature.groups):
        return False
    shape = np.shape(arrays[0])[:1] if rows else ()
    return all(
        type(array) is np.ndarray
        and array.shape == (*shape, size)
        and is_usable(array, dtype)
        and (k < n_inputs or array.flags.writeable)
        and not (
            k >= n_inputs and apart and any(np.may_share_memory(array, x) for x in arrays[:k])
        )
        for k, (array, (_, size)) in enumerate(zip(arrays, signature.groups, strict=True))
    )


def input_array(
    value: ArrayLike,
    name: str,
    shape: tuple[int | None, ...],
    dtype: DTypeLike = np.float64,
    words: str = SHAPE_WORDS,
) -> FloatArray:
    """Real numbers of the given shape (None: any length) in a usable form, copied if need be.

    ``words`` tell in the error what was expected.
    """
    try:
        array = float_array(value).astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise StateError(f"{name}: expected an array of real numbers ({error})") from error
    if array.ndim != len(shape) or array.shape[-1] != shape[-1]:
        sizes = ", ".join("N" if n is None else str(n) for n in shape)
        raise StateError(f"{name}: expected {words.format(sizes)} {array.shape}")
    return array if is_usable(array, dtype) else array.copy()


def input_rows(
    values: Sequence[ArrayLike], signature: Signature, dtype: DTypeLike = np.float64
) -> list[FloatArray]:
    """Inputs (N, size) of a batch in a usable form, all with the same N."""
    signature.check_count(values, None)
    arrays = [
        input_array(value, name, (None, size), dtype)
        for value, (name, size) in zip(values, signature.inputs, strict=True)
    ]
    lengths = {name: len(x) for x, (name, _) in zip(arrays, signature.inputs, strict=True)}
    if len(set(lengths.values())) > 1:
        raise StateError(f"batch: all arguments need as many rows, got {lengths}")
    return arrays


def output_target(
    array: FloatArray,
    name: str,
    shape: tuple[int, ...],
    others: Sequence[FloatArray] = (),
    dtype: DTypeLike = np.float64,
) -> FloatArray:
    """The array itself if code can write to it, else a fresh one to copy from.

    ``others`` are arrays it must not overlap.
    """
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind != "f":
        found = f"{array.dtype}{array.shape}" if isinstance(array, np.ndarray) else type(array)
        raise StateError(f"out, {name}: expected a float array of shape {shape}, got {found}")
    if not array.flags.writeable:
        raise StateError(f"out, {name}: the array is read-only; hand in a writeable one")
    usable = is_usable(array, dtype) and not any(np.may_share_memory(array, x) for x in others)
    return array if usable else np.empty(shape, dtype)


def _output_targets(
    outputs: Sequence[FloatArray],
    signature: Signature,
    inputs: Sequence[FloatArray],
    dtype: DTypeLike,
    rows: tuple[int, ...] = (),
) -> list[FloatArray]:
    """Where code writes all outputs, for one state or so many rows; none overlaps another."""
    targets: list[FloatArray] = []
    for array, (name, size) in zip(outputs, signature.outputs, strict=True):
        shape = (*rows, size)
        targets.append(output_target(array, name, shape, [*inputs, *targets], dtype))
    return targets


def _copy_back(outputs: Sequence[FloatArray], targets: Sequence[FloatArray]) -> None:
    """Give the outputs what was computed in other arrays."""
    for array, target in zip(outputs, targets, strict=True):
        if array is not target:
            array[...] = target
