"""What one solve knows: the unknowns d, their covariance, what the residuals say.

More readings than needed: the symmetric (Karush-Kuhn-Tucker) system

    [ C    Y    0  ] [lambda]   [ y - b_Y ]
    [ Y^T  0    D^T] [  d   ] = [    0    ]        lambda = C^-1 (y - b_Y - Y d)
    [ 0    D    0  ] [  nu  ]   [  - b_D  ]

with the covariance C of the readings. Exact readings are zeros of C, nothing else changes. A
missing reading has its row of Y and of C replaced by those of lambda = 0: same pattern. Its
inverse holds minus the covariance of d, and the information C^-1 - C^-1 Y cov Y^T C^-1 that the
residuals carry.

As many readings as needed: LU of [D; Y], the noise has no say. Fewer, or constraints that
repeat each other: the dense way of :mod:`problems.estimation.least_squares`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import SuperLU, splu

from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.least_squares import (
    AbstractFactors,
    DenseSolution,
    KktAssembly,
    WhitenedRows,
)

__all__ = [
    "AbstractPosterior",
    "DensePosterior",
    "Equations",
    "KktPosterior",
    "SquarePosterior",
    "solve_kkt",
    "solve_square",
]

Equations: TypeAlias = "tuple[csc_array[np.float64], Array]"
"""Matrix and vector."""

OPEN = 1e-7
"""A quantity that moves by more than this part of its reach along an open direction is open."""


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

    @abstractmethod
    def residual_information(self, rows: IntArray) -> Array:
        """Information (k, k) that the residuals of the readings ``rows`` carry."""


# ---- more readings than needed ---------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class KktPosterior(AbstractPosterior):
    """Minimiser by the symmetric system above; scaled so that no entry exceeds one."""

    factors: AbstractFactors
    K: csc_array[np.float64]
    scale: Array
    present: BoolArray
    d: Array
    multipliers: Array
    chi_square: float
    degrees_of_freedom: int
    method: str

    def _inverse_block(self, places: IntArray) -> Array:
        if self.factors.current is not self.K:  # another state has been solved since
            self.factors.factor(self.K)
        rhs = np.zeros((self.K.shape[0], len(places)))
        rhs[places, np.arange(len(places))] = 1.0
        block = self.factors.solve(rhs)[places]
        return np.asarray(0.5 * (block + block.T))

    def covariance(self, columns: IntArray) -> Array:
        return -self._inverse_block(len(self.scale) + columns)

    def residual_information(self, rows: IntArray) -> Array:
        s = np.where(self.present, self.scale, 0.0)[rows]
        return np.outer(s, s) * self._inverse_block(rows)


def solve_kkt(
    factors: AbstractFactors,
    assembly: KktAssembly,
    laws: Equations,
    readings: Equations,
    present: BoolArray,
) -> KktPosterior | None:
    """Minimise at one state; None if the system is singular to rounding.

    Parameters
    ----------
    factors, assembly : of the symmetric system, kept from state to state.
    laws : D and b_D.
    readings : Y and y - b_Y.
    present : readings (m,) that are there.
    """
    (D, b), (Y, c) = laws, readings
    scale, law_scale = assembly.scales(D.data, Y.data, present)
    K = assembly.matrix(D.data, Y.data, present, (scale, law_scale))
    if not factors.factor(K):
        return None
    m, n = Y.shape
    c = np.where(present, c, 0.0)
    x = factors.solve(np.concatenate([scale * c, np.zeros(n), -law_scale * b]))
    d, multipliers = x[m : m + n], scale * x[:m]
    return KktPosterior(
        factors=factors,
        K=K,
        scale=scale,
        present=present,
        d=d,
        multipliers=multipliers,
        chi_square=max(float(multipliers @ (c - np.asarray(Y @ d))), 0.0),
        degrees_of_freedom=int(present.sum()) - (n - len(b)),
        method=factors.name,
    )


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
        rhs = np.zeros((self.A.shape[1], len(columns)))
        rhs[columns, np.arange(len(columns))] = 1.0
        rows = self._transposed.solve(rhs)[-len(self.multipliers) :]
        return np.asarray(rows.T @ (self.noise @ rows))

    def residual_information(self, rows: IntArray) -> Array:
        return np.zeros((len(rows), len(rows)))


def solve_square(
    factors: AbstractFactors, A: csc_array[np.float64], b: Array, noise: csc_array[np.float64]
) -> SquarePosterior | None:
    """Solve A d = b, A = [D; Y], at one state; None if it is singular to rounding."""
    sizes = np.zeros(A.shape[0])
    np.maximum.at(sizes, A.indices, np.abs(A.data))
    if not sizes.all():
        return None
    data = A.data / sizes[A.indices]
    if not factors.factor(csc_array((data, A.indices, A.indptr), shape=A.shape)):
        return None
    return SquarePosterior(
        A, noise, factors.solve(b / sizes), np.zeros(noise.shape[0]), factors.name
    )


# ---- any number of readings ------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class DensePosterior(AbstractPosterior):
    """d = T z + d_0 from the minimiser over z, any rank.

    Parameters
    ----------
    solution : the minimiser.
    response : [T, d_0] (n, size of z + 1).
    whitened : rows of unit noise.
    """

    solution: DenseSolution
    response: Array
    whitened: WhitenedRows
    method: str = "dense"

    @cached_property
    def d(self) -> Array:  # type: ignore[override]
        """All unknowns (n,)."""
        return np.asarray(self.response[:, :-1] @ self.solution.z + self.response[:, -1])

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
        return int(self.solution.null.shape[1]) == 0

    def determined(self, combination: Array, columns: IntArray) -> BoolArray:
        if self.is_complete:
            return np.ones(len(combination), dtype=bool)
        T = self.response[columns, :-1]
        moved = np.linalg.norm(combination @ (T @ self.solution.null), axis=1)
        reach = np.linalg.norm(T * self.solution.scale, axis=1)
        return np.asarray(moved <= OPEN * (np.abs(combination) @ reach))

    def covariance(self, columns: IntArray) -> Array:
        deviation = self.response[columns, :-1] @ self.solution.deviation
        return np.asarray(deviation @ deviation.T)

    def residual_information(self, rows: IntArray) -> Array:
        seen = self.whitened.noisy[:, rows].toarray()
        explained = self.solution.explained.T @ seen
        return np.asarray(seen.T @ seen - explained.T @ explained)
