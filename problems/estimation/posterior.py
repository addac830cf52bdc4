"""Ways to the answer of :mod:`problems.estimation.estimator` at one state.

That file's own, of any rank; and, where unknowns are many and nothing is open, the symmetric
system of :mod:`dynsys.plan.saddle` by sparse factors, whose inverse holds the covariances.
Around either, what the noise of q and qd adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from dynsys.cholmod import has_cholmod
from dynsys.plan.saddle import ScaledSaddle, SparseSaddle
from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.assembly import Assembly
from problems.estimation.estimator import AbstractPosterior, Estimator
from problems.estimation.factors import (
    AbstractFactors,
    CholmodFactors,
    SuperLUFactors,
)
from problems.measured.measured_system import Equations, MeasuredSystem

if TYPE_CHECKING:
    from problems.estimation.derivatives import StateSlopes

__all__ = ["EncoderPosterior", "PosteriorSolver"]

MANY = 100
"""Entries of z that statements leave, above which sparse factors are faster."""


def _unit_columns(size: int, places: IntArray) -> Array:
    """Columns (size, k) of the identity."""
    columns = np.zeros((size, len(places)))
    columns[places, np.arange(len(places))] = 1.0
    return columns


# ---- sparse factors --------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SaddlePosterior(AbstractPosterior):
    """Minimiser by the symmetric system."""

    factors: AbstractFactors
    saddle: ScaledSaddle
    d: Array
    chi_square: float
    degrees_of_freedom: int
    method: str

    def _inverse_block(self, lines: IntArray) -> Array:
        K = self.saddle.matrix
        if self.factors.current is not K:  # another state has been solved since
            self.factors.factor(K)
        block = self.factors.solve(_unit_columns(K.shape[0], lines))[lines]
        return np.asarray(0.5 * (block + block.T))

    def covariance(self, columns: IntArray) -> Array:
        return -self._inverse_block(self.saddle.lines.unknowns[columns])


# ---- noise of q and qd ---------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class EncoderPosterior(AbstractPosterior):
    """A posterior whose covariance has the noise of q and qd too, to first order.

        J Sigma J^T,      J = derivatives of the unknowns by q and qd

    ``of_readings`` is the posterior of exact q and qd, ``std`` (2 nv,) their deviations.
    Chi-square and residuals are those of the readings alone.
    """

    of_readings: AbstractPosterior
    slopes: Callable[[], StateSlopes]
    std: Array

    @property
    def d(self) -> Array:  # type: ignore[override]
        """All unknowns (n,)."""
        return self.of_readings.d

    @property
    def chi_square(self) -> float:  # type: ignore[override]
        """Sum of squared residuals in standard deviations."""
        return self.of_readings.chi_square

    @property
    def degrees_of_freedom(self) -> int:  # type: ignore[override]
        """What the chi-square is expected to be."""
        return self.of_readings.degrees_of_freedom

    @property
    def method(self) -> str:  # type: ignore[override]
        """The way that found it."""
        return self.of_readings.method

    @property
    def is_complete(self) -> bool:
        return self.of_readings.is_complete

    def determined(self, combination: Array, columns: IntArray) -> BoolArray:
        return self.of_readings.determined(combination, columns)

    @cached_property
    def _slopes(self) -> StateSlopes:
        return self.slopes()

    def covariance(self, columns: IntArray) -> Array:
        J = self._slopes.by_state(columns) * self.std
        return np.asarray(self.of_readings.covariance(columns) + J @ J.T)

    def variance(self, combination: Array, columns: IntArray) -> Array:
        J = self._slopes.by_state(columns, combination) * self.std  # by rows: some may be NaN
        own = self.of_readings.variance(combination, columns)
        return np.asarray(own + np.einsum("ij,ij->i", J, J))


# ---- one state after the other -------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class PosteriorSolver:
    """Solves a measured system at one state after the other; analyses are kept.

    ``backend`` ``cholmod`` or ``superlu``: by sparse factors of that library where these do.
    ``dense``: by :class:`~problems.estimation.estimator.Estimator`. Others: by whichever is
    faster.
    """

    measured: MeasuredSystem
    backend: str

    def at(self, q: Array, qd: Array, rows: Array) -> AbstractPosterior:
        """All that one state's readings ``rows`` (m,), NaN where there is none, say."""
        present = ~np.isnan(rows)
        found: AbstractPosterior | None = None
        if self.is_sparse and int(present.sum()) >= self.measured.needed:
            data, b = self.assembly.at(q, qd)
            laws, (Y, b_y) = self.measured.parts(data, b)
            c = np.where(present, rows, 0.0) - b_y
            found = self._saddle(laws, (Y, c), present)
        if found is None or not (np.isfinite(found.d).all() and np.isfinite(found.chi_square)):
            return self.estimator.at(q, qd, rows)
        return found

    @cached_property
    def is_sparse(self) -> bool:
        """Whether sparse factors are asked first."""
        if self.backend == "dense" or self.measured.nullity:
            return False
        complete = np.ones(len(self.measured.variance), dtype=bool)
        many = len(self.measured.statements(complete).left) > MANY
        return many or self.backend in ("cholmod", "superlu")

    @cached_property
    def estimator(self) -> Estimator:
        """What defines the answer."""
        return Estimator(self.measured)

    @cached_property
    def assembly(self) -> Assembly:
        """What fills its matrices."""
        return Assembly(self.measured)

    # ---- the symmetric system ------------------------------------------------------------

    @cached_property
    def _system(self) -> SparseSaddle:
        return self.measured.saddle()

    @cached_property
    def _factors(self) -> AbstractFactors:
        if self.backend == "superlu" or not has_cholmod():
            return SuperLUFactors()
        return CholmodFactors(self._system.signs)

    def _saddle(
        self, laws: Equations, readings: Equations, present: BoolArray
    ) -> SaddlePosterior | None:
        """Minimise, given D, b_D and Y, y - b_Y; None if the system is singular to rounding."""
        (D, b), (Y, c), factors = laws, readings, self._factors
        saddle = self._system.at(D.data, Y.data, present)
        c = np.where(present, c, 0.0)
        if not factors.factor(saddle.matrix):
            return None
        d, multipliers = saddle.solution(factors.solve(saddle.right_side(c, b)))
        dof = int(present.sum()) - self.measured.needed
        return SaddlePosterior(
            factors=factors,
            saddle=saddle,
            d=d,
            chi_square=max(float(multipliers @ (c - np.asarray(Y @ d))), 0.0) if dof else 0.0,
            degrees_of_freedom=dof,
            method=factors.name,
        )
