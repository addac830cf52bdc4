"""What the readings say at one state: the unknowns d, their covariance, their residuals.

More readings than needed: the symmetric system of :mod:`dynsys.plan.saddle`, whose inverse
holds the covariances. As many as needed: LU of [D; Y]; the noise does not change the answer.
Fewer, or readings that these factors find singular: orthogonal factors of the reduced system,
:mod:`problems.measured.reduced`, of any rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import SuperLU, splu

from dynsys.cholmod import has_cholmod
from dynsys.errors import ContradictionError
from dynsys.plan.saddle import ScaledSaddle, SparseSaddle
from dynsys.system.equations import Kinematics
from dynsys.system.size import CONTRADICTION
from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.assembly import Assembly
from problems.estimation.factors import (
    AbstractFactors,
    CholmodFactors,
    SuperLUFactors,
)
from problems.measured.measured_system import Equations, MeasuredSystem
from problems.measured.reduced import (
    DenseSolution,
    ReducedSystem,
    WhitenedRows,
    check_finite,
)

if TYPE_CHECKING:
    from problems.estimation.derivatives import StateSlopes

__all__ = [
    "AbstractPosterior",
    "DensePosterior",
    "EncoderPosterior",
    "PosteriorSolver",
]


class AbstractPosterior(ABC):
    """Unknowns with their uncertainty at one state.

    Attributes
    ----------
    d : (n,) all unknowns; where not determined, one value of many.
    multipliers : (m,) C^-1 times the residuals of the readings.
    chi_square, degrees_of_freedom : sum of squared residuals in standard deviations, and what
        it is expected to be.
    method : library or way that found it.
    """

    d: Array
    multipliers: Array
    chi_square: float
    degrees_of_freedom: int
    method: str

    @property
    def is_complete(self) -> bool:
        """True if every unknown is determined."""
        return True

    def determined(self, combination: Array, columns: IntArray) -> BoolArray:
        """Tell which rows of ``combination @ d[columns]`` are determined."""
        return np.ones(len(combination), dtype=bool)

    @abstractmethod
    def covariance(self, columns: IntArray) -> Array:
        """Covariance (k, k) of d at ``columns``; never the whole inverse is formed."""

    def variance(self, combination: Array, columns: IntArray) -> Array:
        """Variances (rows,) of ``combination @ d[columns]``, where these are determined."""
        C = self.covariance(columns)
        return np.asarray(np.einsum("ij,jk,ik->i", combination, C, combination))


def _unit_columns(size: int, places: IntArray) -> Array:
    """Columns (size, k) of the identity."""
    columns = np.zeros((size, len(places)))
    columns[places, np.arange(len(places))] = 1.0
    return columns


# ---- more readings than needed ---------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SaddlePosterior(AbstractPosterior):
    """Minimiser by the symmetric system."""

    factors: AbstractFactors
    saddle: ScaledSaddle
    d: Array
    multipliers: Array
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


# ---- as many readings as needed --------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SquarePosterior(AbstractPosterior):
    """d = - [D; Y]^-1 [b_D; b_Y - y]; no residuals."""

    A: csc_array[np.float64]
    noise: csc_array[np.float64]
    d: Array
    multipliers: Array
    method: str
    chi_square: float = 0.0
    degrees_of_freedom: int = 0

    @cached_property
    def _transposed(self) -> SuperLU:
        return splu(csc_array(self.A.T))

    def covariance(self, columns: IntArray) -> Array:
        solved = self._transposed.solve(_unit_columns(self.A.shape[1], columns))
        rows = solved[-len(self.multipliers) :]
        return np.asarray(rows.T @ (self.noise @ rows))


# ---- any number of readings ------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class DensePosterior(AbstractPosterior):
    """d = T z + d_0 from the minimiser over z, any rank."""

    solution: DenseSolution
    reduced: ReducedSystem
    whitened: WhitenedRows
    method: str = "dense"

    @cached_property
    def d(self) -> Array:  # type: ignore[override]
        """All unknowns (n,)."""
        return np.asarray(self.reduced.T @ self.solution.z + self.reduced.response[:, -1])

    @cached_property
    def multipliers(self) -> Array:  # type: ignore[override]
        """C^-1 times the residuals."""
        return np.asarray(self.whitened.noisy.T @ self.solution.residual)

    @property
    def chi_square(self) -> float:  # type: ignore[override]
        """Sum of squared residuals in standard deviations."""
        return float(self.solution.residual @ self.solution.residual)

    @property
    def degrees_of_freedom(self) -> int:  # type: ignore[override]
        """Independent noisy rows that the unknowns cannot explain."""
        rows, explained = self.solution.explained.shape
        return int(rows - explained)

    @property
    def is_complete(self) -> bool:
        return self.solution.rank.nullity == 0

    def determined(self, combination: Array, columns: IntArray) -> BoolArray:
        T, size = self.reduced.T[columns], self.reduced.T_size[columns]
        return ~self.solution.rank.is_open(T, size, combination)

    def covariance(self, columns: IntArray) -> Array:
        deviation = self.reduced.T[columns] @ self.solution.deviation
        return np.asarray(deviation @ deviation.T)


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
    def multipliers(self) -> Array:  # type: ignore[override]
        """C^-1 times the residuals."""
        return self.of_readings.multipliers

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

    As many readings as needed: LU. More: the symmetric system. Where these are singular, or
    with ``backend`` ``dense``: orthogonal factors of the reduced system.
    """

    measured: MeasuredSystem
    backend: str

    def at(self, q: Array, qd: Array, rows: Array) -> AbstractPosterior:
        """All that one state's readings ``rows`` (m,), NaN where there is none, say."""
        measured = self.measured
        present = ~np.isnan(rows)
        y = np.where(present, rows, 0.0)
        found: AbstractPosterior | None = None
        enough = int(present.sum()) >= measured.needed
        if self.backend != "dense" and enough and not measured.nullity:
            data, b = self.assembly.at(q, qd)
            laws, (Y, b_y) = measured.parts(data, b)
            if present.all() and len(present) == measured.needed:
                found = self._square(data, np.concatenate([-laws[1], y - b_y]))
            else:
                found = self._saddle(laws, (Y, y - b_y), present)
        if found is None or not (np.isfinite(found.d).all() and np.isfinite(found.chi_square)):
            return self.dense(q, qd, rows)
        return found

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
        return SaddlePosterior(
            factors=factors,
            saddle=saddle,
            d=d,
            multipliers=multipliers,
            chi_square=max(float(multipliers @ (c - np.asarray(Y @ d))), 0.0),
            degrees_of_freedom=int(present.sum()) - self.measured.needed,
            method=factors.name,
        )

    # ---- the square system ---------------------------------------------------------------

    @cached_property
    def _square_factors(self) -> AbstractFactors:
        return SuperLUFactors()

    def _square(self, data: Array, b: Array) -> SquarePosterior | None:
        """Solve [D; Y] d = b, rows of unit size; None if it is singular to rounding."""
        system, factors = self.measured.whole, self._square_factors
        pattern = system.indices, system.indptr
        sizes = np.zeros(system.shape[0])
        np.maximum.at(sizes, system.indices, np.abs(data))
        if not sizes.all():
            return None
        scaled = csc_array((data / sizes[system.indices], *pattern), shape=system.shape)
        if not factors.factor(scaled):
            return None
        A, noise = csc_array((data, *pattern), shape=system.shape), self.measured.covariance
        no_residuals = np.zeros(noise.shape[0])
        return SquarePosterior(A, noise, factors.solve(b / sizes), no_residuals, factors.name)

    # ---- the reduced system --------------------------------------------------------------

    def dense(self, q: Array, qd: Array, rows: Array) -> DensePosterior:
        """All that one state's readings say, by orthogonal factors of any rank."""
        kinematics, present = Kinematics.at(self.measured.robot, q, qd), ~np.isnan(rows)
        reduced = self.measured.reduced(kinematics, np.where(present, rows, 0.0))
        whitened = self.measured.whitened(present)
        solution = reduced.solve(whitened)
        wrong = np.flatnonzero(solution.violation > CONTRADICTION)
        if len(wrong):
            labels = self.measured.labels(np.unique(whitened.exact[wrong].indices))
            listed = ", ".join(labels[:8]) + (" ..." if len(labels) > 8 else "")
            raise ContradictionError(
                f"robot {self.measured.robot.name!r}: readings without noise contradict each"
                f" other or the laws at this state: {listed}; correct them, or give the sensors"
                " a std"
            )
        found = DensePosterior(solution, reduced, whitened)
        check_finite(found.d)
        return found
