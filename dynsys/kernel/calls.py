"""How compiled code is called with NumPy arrays, whatever compiled it.

Arrays that fit are used in place: ``fast`` and ``_fast_rows`` check them where the code runs.
Others are converted first (:mod:`dynsys.kernel.arguments`), and rows are shared among threads
(:mod:`dynsys.kernel.threads`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dynsys.kernel.arguments import SHAPE_WORDS, FloatArray, batch_converted, one_converted
from dynsys.kernel.python_entry import FastCall
from dynsys.kernel.threads import SharedRows
from dynsys.plan.operations import Operations
from dynsys.program.signature import Signature

__all__ = ["AbstractCompiledKernel", "AbstractKernel", "Answer"]

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
    operations: Operations | None = None
    """What it executes for one state, exactly, if that is known before it runs. Loops over the
    joints of any robot (:mod:`dynsys.loops`) decide joint by joint what to do: None."""
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
            finite = one_converted(self, inputs, outputs)
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
        outputs = self.empty_rows(n) if out is None else tuple(out)
        finite = self.run_rows((*inputs, *outputs), n, threads)
        if finite is None:
            return batch_converted(self, inputs, out, threads)
        return outputs, finite

    def empty_rows(self, n: int) -> tuple[FloatArray, ...]:
        """New output arrays for n states."""
        return tuple([np.empty((n, size), self.dtype) for size in self._sizes])

    def run_rows(self, arrays: Sequence[Any], n: int, threads: int) -> bool | None:
        """All n rows of a batch by up to so many threads; None if the arrays don't fit."""
        if threads == 1:
            return self._fast_rows(arrays, 0, 1)
        return self._shared.run(partial(self._fast_rows, arrays), n, threads)
