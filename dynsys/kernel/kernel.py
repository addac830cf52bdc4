"""Kernel: compiled code of one computation, called with NumPy arrays.

    kernel.one(q, qd, qdd)      one state: vectors in, vectors out
    kernel.batch(Q, QD, QDD)    many states: a row each, several side by side in SIMD registers

Arrays that fit are checked in machine code and used in place; others are converted first
(:mod:`dynsys.kernel.arguments`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from dynsys.kernel.arguments import (
    SHAPE_WORDS,
    FloatArray,
    copy_back,
    input_rows,
    input_vectors,
    output_targets,
)
from dynsys.kernel.llvm.computation import AbstractComputation, compile_computation
from dynsys.kernel.llvm.target import Target, host, load_object
from dynsys.kernel.python_entry import (
    CHUNK,
    FastCall,
    builtin_function,
    portable_call,
    portable_rows,
    share,
)
from dynsys.kernel.threads import SharedRows
from dynsys.program.program import Program
from dynsys.program.signature import Signature

__all__ = ["AbstractCompiledKernel", "AbstractKernel", "Kernel"]

Answer: TypeAlias = tuple[tuple[FloatArray, ...], bool]
"""Output arrays as the signature lists them, and whether every number in them is finite."""


class AbstractKernel(Protocol):
    """Outputs from inputs, as its ``signature`` names them, for one state or many."""

    signature: Signature

    def fast(self, *arrays: Any) -> bool | None:
        """Inputs, then outputs: whether all results are finite; None if it can't be done so."""

    def one(self, *inputs: ArrayLike, out: Sequence[FloatArray] | None = None) -> Answer:
        """Outputs for one state."""

    def batch(
        self, *inputs: ArrayLike, out: Sequence[FloatArray] | None = None, threads: int = 1
    ) -> Answer:
        """Outputs (N, size) for inputs (N, size)."""


class AbstractCompiledKernel(ABC):
    """Outputs of type ``dtype``, computed by compiled code in the type ``arithmetic``."""

    fast: FastCall
    """Inputs, then outputs, used as they are: whether all is finite; None if they don't fit."""
    length_words = SHAPE_WORDS

    def __init__(self, signature: Signature, dtype: str, arithmetic: str, chunk: int) -> None:
        self.signature = signature
        self.dtype, self.arithmetic = np.dtype(dtype), np.dtype(arithmetic)
        self._sizes = tuple(size for _, size in signature.outputs)
        self._shared = SharedRows(chunk)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.signature}; {self.dtype})"

    @abstractmethod
    def _fast_rows(self, arrays: Sequence[Any], part: int, parts: int) -> bool | None:
        """Like ``fast``, for one of several parts of the rows of a batch."""

    def one(self, *inputs: ArrayLike, out: Sequence[FloatArray] | None = None) -> Answer:
        """Outputs for one state, written into ``out`` if given, and whether all are finite.

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
            vectors = input_vectors(inputs, self.signature, self.arithmetic, self.length_words)
            targets = output_targets(outputs, self.signature, vectors, self.arithmetic)
            finite = bool(self.fast(*vectors, *targets))
            copy_back(outputs, targets)
        return outputs, finite

    def batch(
        self, *inputs: ArrayLike, out: Sequence[FloatArray] | None = None, threads: int = 1
    ) -> Answer:
        """Outputs (N, size) from inputs (N, size), and whether all are finite.

        Arrays of the kernel's dtype whose rows are contiguous are used in place, whatever the
        distance from row to row. The GIL is released; threads share the rows of batches that
        take long enough.

        Raises
        ------
        StateError
            If an argument has the wrong shape or is not numeric, or ``threads`` is below 1.
        """
        if out is not None:
            self.signature.check_count(inputs, out)  # the fast way knows their sum only
        first = inputs[0] if inputs else None
        n = len(first) if isinstance(first, np.ndarray) and first.ndim == 2 else 0
        outputs = self._rows_out(n) if out is None else tuple(out)
        finite = self._shared.run(partial(self._fast_rows, (*inputs, *outputs)), n, threads)
        if finite is None:
            rows = input_rows(inputs, self.signature, self.arithmetic)
            n = len(rows[0])
            outputs = self._rows_out(n) if out is None else tuple(out)
            targets = output_targets(outputs, self.signature, rows, self.arithmetic, (n,))
            finite = self._shared.run(partial(self._fast_rows, (*rows, *targets)), n, threads)
            if finite is None and n:
                raise MemoryError("no memory is left for the scratch of a batch")
            copy_back(outputs, targets)
        return outputs, finite is not False

    def _rows_out(self, n: int) -> tuple[FloatArray, ...]:
        return tuple([np.empty((n, size), self.dtype) for size in self._sizes])


@final
class Kernel(AbstractCompiledKernel):
    """Machine code of a program: outputs from inputs, for one state or many."""

    length_words = "{} numbers, got an array"

    def __init__(self, code: bytes, signature: Signature, dtype: str = "float64") -> None:
        super().__init__(signature, dtype, dtype, CHUNK)
        loaded = self._loaded = load_object(code)
        self.fast = builtin_function(loaded.call, loaded) or portable_call(
            signature, dtype, loaded.one
        )
        self._rows = builtin_function(loaded.rows, loaded) or portable_rows(
            signature, dtype, loaded.share
        )

    @classmethod
    def compile(
        cls,
        computation: Program | AbstractComputation,
        signature: Signature,
        *,
        dtype: str = "float64",
        target: Target | None = None,
        segment: int | None = None,
    ) -> Kernel:
        """Compile and load; ``segment`` operations at most go into one function."""
        code = compile_computation(computation, signature, dtype, target or host(), segment)
        return cls(code, signature, dtype)

    @property
    def address(self) -> int:
        """Address of ``void one(in0, ..., out0, ...)``; valid while this object lives."""
        return self._loaded.one

    def _fast_rows(self, arrays: Sequence[Any], part: int, parts: int) -> bool | None:
        return self._rows(share(part, parts), *arrays)
