"""The reference path of estimation: one state at a time, by sparse or dense factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import ContradictionError
from dynsys.system.equations import Kinematics
from dynsys.types import Array, BoolArray
from problems.estimation.least_squares import (
    AbstractFactors,
    CholmodFactors,
    KktAssembly,
    SuperLUFactors,
    check_finite,
    has_cholmod,
    rank_of,
    solve_dense,
)
from problems.estimation.measured_system import MeasuredSystem
from problems.estimation.posterior import (
    AbstractPosterior,
    DensePosterior,
    Equations,
    solve_kkt,
    solve_square,
)

__all__ = ["PosteriorSolver"]

CONTRADICTION = 1e-8
"""Exact statements that miss each other by more than this part of their terms contradict."""


@final
@dataclass(frozen=True, eq=False)
class PosteriorSolver:
    """Solves a measured system at one state after the other; analyses are kept.

    As many readings as needed: LU. More: the symmetric system. Where these are singular, or
    with ``backend`` ``dense``: orthogonal factors in the open unknowns.
    """

    measured: MeasuredSystem
    backend: str

    def at(self, q: Array, qd: Array, rows: Array) -> AbstractPosterior:
        """All that one state's readings ``rows`` (m,), NaN where there is none, say."""
        measured = self.measured
        present = ~np.isnan(rows)
        kinematics = Kinematics.at(measured.robot, q, qd)
        data, b = measured.whole.values(kinematics)
        laws, (Y, b_y) = measured.parts(data, b)
        readings = Y, np.where(present, rows, 0.0) - b_y
        found: AbstractPosterior | None = None
        enough = int(present.sum()) >= measured.needed
        if self.backend != "dense" and enough and not self._nullity:
            if present.all() and len(present) == measured.needed:
                found = self._square(data, np.concatenate([-laws[1], readings[1]]))
            else:
                found = solve_kkt(*self._kkt, laws, readings, present)
        if found is None or not np.isfinite(found.d).all():
            found = self._dense(kinematics, readings, present)
        check_finite(found.d)
        return found

    def _square(self, data: Array, b: Array) -> AbstractPosterior | None:
        system = self.measured.whole
        A = csc_array((data, system.indices, system.indptr), shape=system.shape)
        return solve_square(self._square_factors, A, b, self.measured.covariance)

    @cached_property
    def _square_factors(self) -> AbstractFactors:
        return SuperLUFactors()

    @cached_property
    def _kkt(self) -> tuple[AbstractFactors, KktAssembly]:
        measured, whole = self.measured, self.measured.whole
        (D, _), (Y, _) = measured.parts(np.ones(whole.nnz), np.ones(whole.shape[0]))
        assembly = KktAssembly(D, Y, measured.covariance)
        if self.backend == "superlu" or not has_cholmod():
            return SuperLUFactors(), assembly
        signs = np.ones(assembly.size)
        signs[assembly.m : assembly.m + assembly.n] = -1.0
        return CholmodFactors(signs), assembly

    def _dense(
        self, kinematics: Kinematics, readings: Equations, present: BoolArray
    ) -> DensePosterior:
        """Dense solve in the open unknowns, any rank."""
        rows, response = self.measured.reduced(kinematics, *readings)
        whitened = self.measured.whitened(present)
        solution = solve_dense(rows, whitened)
        wrong = np.flatnonzero(solution.violation > CONTRADICTION)
        if len(wrong):
            labels = self.measured.labels(np.unique(whitened.exact[wrong].indices))
            listed = ", ".join(labels[:8]) + (" ..." if len(labels) > 8 else "")
            raise ContradictionError(
                f"robot {self.measured.robot.name!r}: readings without noise contradict each"
                f" other or the laws at this state: {listed}; correct them, or give the sensors"
                " a std"
            )
        return DensePosterior(solution, response, whitened)

    @cached_property
    def _nullity(self) -> int:
        """Number of directions that no reading sees at a random state, none missing."""
        robot = self.measured.robot
        q = robot.random_configuration(0)
        kinematics = Kinematics.at(robot, q, np.zeros(robot.nv))
        _, readings = self.measured.at(kinematics)
        return rank_of(self.measured.reduced(kinematics, *readings)[0].B).nullity
