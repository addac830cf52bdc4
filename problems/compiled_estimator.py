"""The compiled estimator behind :class:`Estimation`: many states at once, as machine code.

One kernel for samples where every reading is there, another with a weight per reading for the
others: a missing reading, or a contact that does not hold, has weight zero. What a kernel
cannot answer (a state or a set of readings that leaves something open, or needs pivoting)
comes out as NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np

from dynsys.errors import KernelBuildError
from dynsys.kernel.estimators import estimation_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.model.tree import KinematicTree
from dynsys.plan.saddle import Question
from dynsys.system.equations import EquationBlock
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray
from problems.named_quantity import QUANTITIES, Quantity
from sensors.layout import Layout

__all__ = ["CompiledEstimator", "Wanted", "listed"]

Names: TypeAlias = tuple[str, ...]
BLOCK = 2048
"""States per thread handed to a kernel at a time: copies of their readings stay small."""


@final
@dataclass(frozen=True)
class Wanted:
    """What a kernel computes: outputs, and those whose standard deviations come after them."""

    outputs: Names
    uncertainty: Names = ()

    @staticmethod
    def of(outputs: str | Sequence[str], uncertainty: str | Sequence[str]) -> Wanted:
        """From lists of names, or single names."""
        return Wanted(listed(outputs), listed(uncertainty))

    @property
    def names(self) -> Names:
        """Names of all arrays, those of standard deviations ``std_...``."""
        return (*self.outputs, *(f"std_{name}" for name in self.uncertainty))


def listed(names: str | Sequence[str]) -> Names:
    """Return names, also of one that stands alone."""
    return (names,) if isinstance(names, str) else tuple(names)


@final
@dataclass(frozen=True, eq=False)
class CompiledEstimator:
    """Kernels of one layout, compiled on first use."""

    robot: KinematicTree
    layout: Layout

    def __reduce__(self) -> tuple[type[CompiledEstimator], tuple[KinematicTree, Layout]]:
        """Travels as what it was made from; kernels come from the cache there."""
        return CompiledEstimator, (self.robot, self.layout)

    @cached_property
    def _equations(self) -> tuple[EquationBlock, ...]:
        return self.layout.equations(UnknownLayout(self.robot, net_wrench=True))

    @cached_property
    def _found(self) -> dict[tuple[Wanted, Names], Kernel | str]:
        """Kernels, or why there is none: the words, for an error would keep its callers."""
        return {}

    def question(self, wanted: Wanted, switchable: Names = ()) -> Question:
        """What the kernel of the same arguments answers."""
        return Question(
            self.robot,
            self._equations,
            self.layout.covariance(),
            wanted.outputs,
            wanted.uncertainty,
            switchable,
        )

    def kernel(self, uncertainty: Sequence[Quantity] = ()) -> Kernel:
        """Kernel of all quantities, and the standard deviations asked for."""
        return self.kernel_of(Wanted(QUANTITIES, tuple(uncertainty)))

    def kernel_of(
        self, wanted: Wanted, switchable: Names = (), dtype: str = "float64"
    ) -> Kernel:
        """Kernel from (q, qd, y[, weight]) to what is wanted.

        Raises
        ------
        KernelBuildError
            if the layout has no such kernel; says why.
        """
        if dtype not in ("float64", "float32"):
            raise KernelBuildError(f"there are no kernels of dtype {dtype!r}")
        if dtype != "float64":
            return self._build(wanted, switchable, dtype)
        key = wanted, switchable
        if key not in self._found:
            try:
                self._found[key] = self._build(wanted, switchable, dtype)
            except KernelBuildError as error:
                self._found[key] = str(error)
        found = self._found[key]
        if isinstance(found, str):
            raise KernelBuildError(found)
        return found

    def _build(self, wanted: Wanted, switchable: Names, dtype: str) -> Kernel:
        return estimation_kernel(
            self.robot,
            self._equations,
            self.layout.covariance(),
            wanted.outputs,
            uncertainty=wanted.uncertainty,
            switchable=switchable,
            dtype=dtype,
        )

    def solve(
        self, q: Array, qd: Array, y: Array, wanted: Wanted, *, threads: int, switch: bool
    ) -> dict[str, Array]:
        """Arrays (N, size) by name; rows are NaN where there is no answer.

        Parameters
        ----------
        y : (N, rows) readings, NaN where missing.
        switch : False leaves states with missing readings unanswered.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel for complete readings.
        """
        kernel = self.kernel_of(wanted)
        missing = np.isnan(y)
        partial = np.asarray(missing.any(axis=1))
        if not partial.any():
            arrays, _ = kernel.batch(q, qd, y, threads=threads)
            return dict(zip(wanted.names, arrays, strict=True))
        sizes = [size for _, size in kernel.signature.outputs]
        out = [np.full((len(q), size), np.nan) for size in sizes]
        _scatter(out, kernel, ~partial, (q, qd, y), threads)
        weighted = self._weighted(wanted, missing) if switch else None
        if weighted is not None:
            readings = np.where(missing, 0.0, y)
            _scatter(out, weighted, partial, (q, qd, readings, 1.0 - missing), threads)
        return dict(zip(wanted.names, out, strict=True))

    def _weighted(self, wanted: Wanted, missing: BoolArray) -> Kernel | None:
        """Kernel that any reading may be missing from, and the constants that are off here."""
        rows = np.asarray(missing.any(axis=0))
        switchable = tuple(
            sensor.name
            for sensor in self.layout
            if sensor.constant(1) is None or rows[self.layout.slice(sensor.name)].any()
        )
        try:
            return self.kernel_of(wanted, switchable)
        except KernelBuildError:
            return None


def _scatter(
    out: list[Array], kernel: Kernel, who: BoolArray, inputs: tuple[Array, ...], threads: int
) -> None:
    """Answer the states ``who`` and put them in their places, block by block."""
    places = np.flatnonzero(who)
    for start in range(0, len(places), BLOCK * threads):
        some = places[start : start + BLOCK * threads]
        arrays, _ = kernel.batch(*(x[some] for x in inputs), threads=threads)
        for whole, part in zip(out, arrays, strict=True):
            whole[some] = part
