"""What every kernel offers, whatever computes behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import ArrayLike, NDArray

from dynsys.program.signature import Signature

__all__ = ["AbstractKernel"]


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
