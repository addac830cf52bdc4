"""The compiled estimator behind :class:`Estimation`: all quantities of many states at once.

Used where the layout has a kernel (every unknown determined, no prior) and no reading is
missing; a state the kernel cannot answer comes out as NaN and goes to the reference path.
"""

from __future__ import annotations

from typing import final

from dynsys.codegen.interface import AbstractKernel
from dynsys.estimation import estimation_kernel
from dynsys.model.tree import KinematicTree
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array
from problems.estimate import QUANTITIES, Quantity
from sensors.layout import Layout

__all__ = ["CompiledEstimator"]


@final
class CompiledEstimator:
    """Kernels of one layout, one per choice of standard deviations, compiled on first use."""

    def __init__(self, robot: KinematicTree, layout: Layout) -> None:
        self.robot = robot
        self.layout = layout
        self._kernels: dict[tuple[Quantity, ...], AbstractKernel] = {}

    def kernel(self, uncertainty: tuple[Quantity, ...]) -> AbstractKernel:
        """Kernel with all quantities and the standard deviations asked for.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel; says why.
        """
        if uncertainty not in self._kernels:
            self._kernels[uncertainty] = estimation_kernel(
                self.robot,
                self.layout.equations(UnknownLayout(self.robot)),
                self.layout.covariance(),
                QUANTITIES,
                uncertainty=uncertainty,
            )
        return self._kernels[uncertainty]

    def solve(
        self, q: Array, qd: Array, y: Array, uncertainty: tuple[Quantity, ...], threads: int
    ) -> tuple[dict[Quantity, Array], dict[Quantity, Array]] | None:
        """Values and standard deviations of N states, or None where a state has no answer.

        Raises
        ------
        KernelBuildError
            if the layout has no kernel.
        """
        arrays, finite = self.kernel(uncertainty).batch(q, qd, y, threads=threads)
        if not finite:
            return None
        shaped = [
            x.reshape(len(q), -1, 6) if self._spatial(k) else x
            for k, x in zip((*QUANTITIES, *uncertainty), arrays, strict=True)
        ]
        values = dict(zip(QUANTITIES, shaped, strict=False))
        return values, dict(zip(uncertainty, shaped[len(QUANTITIES) :], strict=True))

    @staticmethod
    def _spatial(quantity: Quantity) -> bool:
        return quantity not in ("torque", "qdd")
