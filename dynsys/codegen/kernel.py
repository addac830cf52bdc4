"""Kernel: machine code of one program, called with NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynsys.codegen.emit import emit_module
from dynsys.codegen.fastcall import builtin_function
from dynsys.codegen.graph import Program
from dynsys.codegen.machine_code import compile_object, load_object
from dynsys.codegen.signature import Signature
from dynsys.codegen.target import Target, host
from dynsys.errors import StateError

__all__ = ["Kernel", "build_kernel", "compile_kernel"]

FloatArray: TypeAlias = NDArray[Any]

_HEADER = 16
_CHUNK = 256
"""Threads take whole multiples of this many states."""


def compile_kernel(
    program: Program,
    signature: Signature,
    *,
    dtype: str = "float64",
    target: Target | None = None,
) -> bytes:
    """Object code of a program, to be stored or handed to :meth:`Kernel.from_object`."""
    target = target or host()
    module = emit_module(program, signature, dtype, target)
    header = module.scratch_bytes.to_bytes(_HEADER, "little")
    return header + compile_object(module.text, target)


def build_kernel(
    program: Program,
    signature: Signature,
    *,
    dtype: str = "float64",
    target: Target | None = None,
) -> Kernel:
    """Compile a program for this machine and load it."""
    code = compile_kernel(program, signature, dtype=dtype, target=target)
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
        self._scratch_bytes = int.from_bytes(code[:_HEADER], "little")
        loaded = load_object(code[_HEADER:], dtype)
        self._loaded = loaded
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        n = len(signature.groups)
        self._one = ctypes.CFUNCTYPE(None, *[pointer] * n)(loaded.one)
        self._batch = ctypes.CFUNCTYPE(integer, integer, pointer, *[pointer, integer] * n)(
            loaded.batch
        )
        self._fast = builtin_function(loaded.call, loaded) or _never
        self._n_in = len(signature.inputs)
        self._sizes = tuple(size for _, size in signature.outputs)

    @classmethod
    def from_object(cls, code: bytes, signature: Signature, *, dtype: str = "float64") -> Kernel:
        """Load what :func:`compile_kernel` made for the same signature and dtype."""
        return cls(code, signature, dtype)

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
            outputs = tuple(out)
        finite = self._fast(*inputs, *outputs)
        if finite is None:
            finite = self._one_slowly(inputs, outputs)
        return outputs, finite

    def _one_slowly(
        self, inputs: tuple[ArrayLike, ...], outputs: tuple[FloatArray, ...]
    ) -> bool:
        """Convert and validate arguments, compute, and copy to outputs of any layout."""
        self._check_count(inputs, outputs)
        arrays = [
            self._vector(value, name, size)
            for value, (name, size) in zip(inputs, self.signature.inputs, strict=True)
        ]
        for array, (name, size) in zip(outputs, self.signature.outputs, strict=True):
            _check_output(array, name, (size,))
        results = [np.empty(size, self.dtype) for size in self._sizes]
        self._one(*(array.ctypes.data for array in (*arrays, *results)))
        for array, result in zip(outputs, results, strict=True):
            array[...] = result
        return all(bool(np.isfinite(result).all()) for result in results)

    def _vector(self, value: ArrayLike, name: str, size: int) -> FloatArray:
        array = _numeric(value, name, self.dtype)
        if array.shape != (size,):
            raise StateError(f"{name}: expected {size} numbers, got an array {array.shape}")
        return np.require(array, self.dtype, ["C", "A"])

    def _check_count(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        names = [name for name, _ in self.signature.inputs]
        if len(inputs) != len(names):
            raise StateError(f"expected {len(names)} arguments {names}, got {len(inputs)}")
        names = [name for name, _ in self.signature.outputs]
        if len(outputs) != len(names):
            raise StateError(f"out: expected {len(names)} arrays {names}, got {len(outputs)}")

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
            If an argument has the wrong shape or is not numeric.
        """
        self._check_count(inputs, self.signature.outputs if out is None else out)
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
        return array if self._in_place(array) else np.require(array, self.dtype, ["C", "A"])

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
        chunks = min(max(1, threads), max(1, n // _CHUNK))
        if chunks == 1:
            return self._run_rows(arrays, 0, n)
        cuts = [n * i // chunks // _CHUNK * _CHUNK for i in range(chunks)] + [n]
        with ThreadPoolExecutor(chunks) as pool:
            parts = pool.map(
                lambda i: self._run_rows(arrays, cuts[i], cuts[i + 1]), range(chunks)
            )
            return all(parts)

    def _run_rows(self, arrays: list[FloatArray], start: int, stop: int) -> bool:
        scratch = np.empty(self._scratch_bytes + 64, np.uint8)
        address = -(-scratch.ctypes.data // 64) * 64
        arguments: list[int] = []
        for array in arrays:
            arguments.append(array.ctypes.data + start * array.strides[0])
            arguments.append(array.strides[0] // self.dtype.itemsize)
        return bool(self._batch(stop - start, address, *arguments))


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
