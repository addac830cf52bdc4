"""Kernel: machine code of one program, called with NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynsys.errors import StateError
from dynsys.kernel.llvm.computation import AbstractComputation
from dynsys.kernel.llvm.module import emit_module
from dynsys.kernel.llvm.target import Target, compile_object, host, load_object
from dynsys.kernel.python_entry import builtin_function
from dynsys.kernel.workers import Workers, check_threads
from dynsys.program.program import Program
from dynsys.program.signature import Signature

__all__ = [
    "AbstractKernel",
    "Kernel",
    "build_kernel",
    "compile_kernel",
]

FloatArray: TypeAlias = NDArray[Any]

ROWS_WORTH_A_THREAD = 256
"""Fewer take less time than waking a thread."""


def compile_kernel(
    program: Program | AbstractComputation,
    signature: Signature,
    *,
    dtype: str = "float64",
    target: Target | None = None,
    segment: int | None = None,
) -> bytes:
    """Object code of a program, to be stored or handed to :meth:`Kernel.from_object`.

    ``segment`` is the largest number of operations in one function, by default a tuned one.
    """
    target = target or host()
    if isinstance(program, Program):
        text = emit_module(
            program, signature, dtype, target, segment_one=segment, segment_batch=segment
        )
    else:
        text = program.module(signature, dtype, target)
    return compile_object(text, target)


def build_kernel(
    program: Program,
    signature: Signature,
    *,
    dtype: str = "float64",
    target: Target | None = None,
    segment: int | None = None,
) -> Kernel:
    """Compile a program for this machine and load it; arguments as :func:`compile_kernel`."""
    code = compile_kernel(program, signature, dtype=dtype, target=target, segment=segment)
    return Kernel.from_object(code, signature, dtype=dtype)


@final
class Kernel:
    """Machine code of a program: outputs from inputs, for one state or many.

    Arrays are those of the signature, in its order. All methods return the tuple of outputs and
    whether every number in them is finite.
    """

    def __init__(self, code: bytes, signature: Signature, dtype: str) -> None:
        self.signature = signature
        self.dtype = np.dtype(dtype)
        loaded = load_object(code)
        self._loaded = loaded
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        n = len(signature.groups)
        self._one = ctypes.CFUNCTYPE(None, *[pointer] * n)(loaded.one)
        team = [pointer, integer, integer, *[pointer, integer] * n]
        self._team = ctypes.CFUNCTYPE(integer, *team)(loaded.team)
        self._workers = Workers(loaded)
        self.fast = builtin_function(loaded.call, loaded) or _never
        self._rows_fast = builtin_function(loaded.rows, loaded) or _never
        self._sizes = tuple(size for _, size in signature.outputs)

    @classmethod
    def from_object(
        cls, code: bytes, signature: Signature, *, dtype: str = "float64"
    ) -> Kernel:
        """Load what :func:`compile_kernel` made for the same signature and dtype."""
        return cls(code, signature, dtype)

    def __repr__(self) -> str:
        return f"Kernel({self.signature}; {self.dtype})"

    @property
    def address(self) -> int:
        """Address of ``void one(in0, ..., out0, ...)``; valid while this object lives."""
        return self._loaded.one

    # ---- one state -----------------------------------------------------------------------

    def one(
        self, *inputs: ArrayLike, out: Sequence[FloatArray] | None = None
    ) -> tuple[tuple[FloatArray, ...], bool]:
        """Outputs for one state, written into ``out`` if given.

        Raises
        ------
        StateError
            If an argument has the wrong length or is not numeric.
        """
        if out is None:
            dtype = self.dtype
            outputs = tuple([np.empty(size, dtype) for size in self._sizes])
        else:
            self.signature.check_count(inputs, out)  # the fast way knows their sum only
            outputs = tuple(out)
        finite = self.fast(*inputs, *outputs)
        if finite is None:
            finite = self._one_slowly(inputs, outputs)
        return outputs, finite

    def _one_slowly(
        self, inputs: tuple[ArrayLike, ...], outputs: tuple[FloatArray, ...]
    ) -> bool:
        """Convert and validate arguments, compute, and copy to outputs of any layout."""
        self.signature.check_count(inputs, outputs)
        arrays = [
            self._vector(value, name, size)
            for value, (name, size) in zip(inputs, self.signature.inputs, strict=True)
        ]
        for array, (name, size) in zip(outputs, self.signature.outputs, strict=True):
            _check_output(array, name, (size,))
        results = [np.empty(size, self.dtype) for size in self._sizes]
        finite = self.fast(*arrays, *results)
        if finite is None:
            self._one(*(_address(array) for array in (*arrays, *results)))
            finite = all(bool(np.isfinite(result).all()) for result in results)
        for array, result in zip(outputs, results, strict=True):
            array[...] = result
        return finite

    def _vector(self, value: ArrayLike, name: str, size: int) -> FloatArray:
        array = _numeric(value, name, self.dtype)
        if array.shape != (size,):
            raise StateError(f"{name}: expected {size} numbers, got an array {array.shape}")
        usable = array.flags.c_contiguous and array.flags.aligned
        return array if usable else array.copy()

    # ---- many states ---------------------------------------------------------------------

    def batch(
        self,
        *inputs: ArrayLike,
        out: Sequence[FloatArray] | None = None,
        threads: int = 1,
    ) -> tuple[tuple[FloatArray, ...], bool]:
        """Outputs (N, size) from inputs (N, size), rows split over threads.

        Arrays of the kernel's dtype whose rows are contiguous are used in place, whatever the
        distance from row to row. The GIL is released.

        Raises
        ------
        StateError
            If an argument has the wrong shape or is not numeric, or ``threads`` is below 1.
        """
        if out is not None:
            self.signature.check_count(inputs, out)  # the fast way knows their sum only
        first = inputs[0] if inputs else None
        if out is None and isinstance(first, np.ndarray) and first.ndim == 2:
            n, dtype = len(first), self.dtype
            outputs = tuple([np.empty((n, size), dtype) for size in self._sizes])
        else:
            outputs = () if out is None else tuple(out)
        finite = self._share_rows((*inputs, *outputs), threads)
        if finite is None:
            return self._batch_slowly(inputs, out, threads)
        return outputs, finite

    def _share_rows(self, arrays: tuple[Any, ...], threads: int) -> bool | None:
        """All rows, if the arrays can be used as they are; None if not."""
        first = arrays[0] if arrays else None
        rows = len(first) if isinstance(first, np.ndarray) and first.ndim else 0
        return self._rows_fast(self._board(rows, threads), *arrays)

    def _board(self, rows: int, threads: int) -> NDArray[np.int64]:
        """Lines of the threads that help the caller with so many rows; they are awake."""
        shares = -(-rows // ROWS_WORTH_A_THREAD)
        return self._workers.awake(min(check_threads(threads), shares) - 1)

    def _batch_slowly(
        self, inputs: tuple[ArrayLike, ...], out: Sequence[FloatArray] | None, threads: int
    ) -> tuple[tuple[FloatArray, ...], bool]:
        """Validate and convert what the fast path refused; copy only what cannot be used."""
        self.signature.check_count(inputs, out)
        arrays = [
            self._rows(value, name, size)
            for value, (name, size) in zip(inputs, self.signature.inputs, strict=True)
        ]
        n = self._same_length(arrays)
        if out is None:
            outputs = tuple(np.empty((n, size), self.dtype) for size in self._sizes)
            targets = list(outputs)
        else:
            outputs = tuple(out)
            targets = self._usable_outputs(outputs, arrays, n)
        finite = self._run([*arrays, *targets], n, threads)
        for array, target in zip(outputs, targets, strict=True):
            if array is not target:
                array[...] = target
        return outputs, finite

    def _rows(self, value: ArrayLike, name: str, size: int) -> FloatArray:
        array = _numeric(value, name, self.dtype)
        if array.ndim != 2 or array.shape[1] != size:
            raise StateError(f"{name}: expected shape (N, {size}), got {array.shape}")
        return array if self._in_place(array) else array.copy()

    def _in_place(self, array: FloatArray) -> bool:
        item = self.dtype.itemsize
        return bool(
            array.dtype == self.dtype
            and array.dtype.isnative
            and array.flags.aligned
            and (array.shape[1] <= 1 or array.strides[1] == item)
            and array.strides[0] % item == 0
        )

    def _same_length(self, arrays: list[FloatArray]) -> int:
        lengths = {
            name: len(array)
            for array, (name, _) in zip(arrays, self.signature.inputs, strict=True)
        }
        if len(set(lengths.values())) > 1:
            raise StateError(f"batch: all arguments need as many rows, got {lengths}")
        return next(iter(lengths.values()), 0)

    def _usable_outputs(
        self, outputs: tuple[FloatArray, ...], inputs: list[FloatArray], n: int
    ) -> list[FloatArray]:
        """The outputs themselves where possible, else fresh arrays to copy from."""
        targets: list[FloatArray] = []
        for array, (name, size) in zip(outputs, self.signature.outputs, strict=True):
            _check_output(array, name, (n, size))
            usable = self._in_place(array) and not any(
                np.may_share_memory(array, other) for other in (*inputs, *targets)
            )
            targets.append(array if usable else np.empty((n, size), self.dtype))
        return targets

    def _run(self, arrays: list[FloatArray], n: int, threads: int) -> bool:
        item = self.dtype.itemsize
        arguments: list[int] = []
        for array in arrays:
            arguments += [_address(array), array.strides[0] // item]
        board = self._board(n, threads)
        flag = self._team(_address(board), len(board), n, *arguments)
        if flag < 0:
            raise MemoryError("no memory is left for the scratch of a batch")
        return bool(flag)


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _never(*_: object) -> bool | None:
    """The fast path of interpreters that have none."""
    return None


def _numeric(value: ArrayLike, name: str, dtype: np.dtype[Any]) -> FloatArray:
    """Real numbers as an array, converted to ``dtype`` only if they are of another."""
    try:
        array = np.asarray(value)
        if array.dtype != dtype:
            if array.dtype.kind not in "fiub":
                raise TypeError(f"dtype {array.dtype}")
            array = array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise StateError(f"{name}: expected an array of real numbers ({error})") from error
    return array


def _check_output(array: Any, name: str, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind != "f":
        found = f"{array.dtype}{array.shape}" if isinstance(array, np.ndarray) else type(array)
        raise StateError(f"out, {name}: expected a float array of shape {shape}, got {found}")
    if not array.flags.writeable:
        raise StateError(f"out, {name}: the array is read-only; hand in a writeable one")


# ----------------------------------------------------------------------
# What every kernel offers, whatever computes behind it.


class AbstractKernel(Protocol):
    """Outputs from inputs, as its ``signature`` names them, for one state or many."""

    signature: Signature

    def fast(self, *arrays: Any) -> bool | None:
        """Inputs, then outputs: whether all results are finite; None if it can't be done so."""
        ...

    def one(
        self, *inputs: ArrayLike, out: Sequence[NDArray[Any]] | None = None
    ) -> tuple[tuple[NDArray[Any], ...], bool]:
        """Outputs for one state, and whether they are all finite."""
        ...

    def batch(
        self,
        *inputs: ArrayLike,
        out: Sequence[NDArray[Any]] | None = None,
        threads: int = 1,
    ) -> tuple[tuple[NDArray[Any], ...], bool]:
        """Outputs (N, size) for inputs (N, size), and whether they are all finite."""
        ...
