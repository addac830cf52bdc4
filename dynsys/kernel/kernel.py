"""Kernel: one computation, executed as its program says, called with NumPy arrays.

    kernel.one(q, qd, qdd)      one state: vectors in, vectors out
    kernel.batch(Q, QD, QDD)    many states: a row each, several side by side in SIMD registers

A plan executed on the expression graph leaves a program; :mod:`dynsys.kernel.build` makes a
kernel of it and keeps that on disk: machine code, or the same operations one by one as Python
and NumPy do them (:mod:`dynsys.kernel.numpy_kernel`). :mod:`dynsys.kernel.calls` is how it is
called, and what kernels of any backend have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn, Self, final

from dynsys.distribution import required
from dynsys.errors import KernelBuildError
from dynsys.kernel.calls import AbstractCompiledKernel
from dynsys.kernel.llvm.target import FUNCTIONS, load_object
from dynsys.kernel.python_entry import (
    CHUNK,
    FastCall,
    LoadedCode,
    call_function,
    rows_function,
    share,
)
from dynsys.program.signature import Signature
from dynsys.types import BoolArray

__all__ = ["Kernel", "MachineKernel", "as_machine_code"]


class Kernel(AbstractCompiledKernel):
    """What executes a program; ``operations`` are what it executes for one state, exactly."""

    nonzero: BoolArray | None = None
    """Outputs (n_outputs,) that are not zero at every state; None where that is not known."""

    def __copy__(self) -> Self:
        return self  # what it executes does not change

    def __deepcopy__(self, _: object) -> Self:
        return self


@final
class MachineKernel(Kernel):
    """Machine code of a program, as :mod:`dynsys.kernel.build` compiles it, loaded.

    ``operations`` are those of :func:`dynsys.kernel.llvm.computation.executed_operations`.
    """

    length_words = "{} numbers, got an array"

    def __init__(
        self,
        code: bytes,
        signature: Signature,
        dtype: str = "float64",
        batch: Callable[[], bytes] | None = None,
    ) -> None:
        super().__init__(signature, dtype, dtype, CHUNK)
        self._batch = batch  # gives the code for batches when it is needed; None: in ``code``
        self._loaded = load_object(code, FUNCTIONS if batch is None else FUNCTIONS[:2])
        self.fast = call_function(self._loaded, signature, dtype)

    def __reduce__(self) -> NoReturn:
        raise KernelBuildError(
            f"{self!r} is machine code of this processor in this process and does not travel;"
            " send the problem, and compile it there (on the same machine from the cache)"
        )

    @cached_property
    def _loaded_batch(self) -> LoadedCode:
        of_batch = self._batch
        return self._loaded if of_batch is None else load_object(of_batch(), FUNCTIONS[2:])

    @cached_property
    def _rows(self) -> FastCall:
        return rows_function(self._loaded_batch, self.signature, self.dtype.name)

    @property
    def address(self) -> int:
        """Address of ``void one(in0, ..., out0, ...)``; valid while this object lives."""
        return self._loaded.address["one"]

    @property
    def call_address(self) -> int:
        """Address of the machine code of ``fast``; valid while this object lives."""
        return self._loaded.address["call"]

    @property
    def batch_address(self) -> int:
        """Address of ``int64 share(part, parts, n, in0, stride0, ..., out0, stride0, ...)``.

        It computes one of so many parts of n rows and returns -1 if memory is short; valid
        while this object lives.
        """
        return self._loaded_batch.address["share"]

    def _fast_rows(self, arrays: Sequence[Any], part: int, parts: int) -> bool | None:
        return self._rows(share(part, parts), *arrays)


def as_machine_code(kernel: Kernel, purpose: str) -> MachineKernel:
    """Return a kernel that has an address; MissingPackage where NumPy executes it."""
    if not isinstance(kernel, MachineKernel):
        required("llvmlite", purpose)
        raise KernelBuildError(f"{purpose} needs machine code, got {kernel!r}")
    return kernel
