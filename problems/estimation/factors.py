"""Factors of sparse systems of one pattern, one state after the other.

SuperLU: LU with pivoting. CHOLMOD: LDL^T without pivoting of the shifted, quasi-definite
matrix, refined on the matrix itself. Either keeps what depends on the pattern alone, refines
every solution, and says when a matrix is singular to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import SuperLU

from dynsys.cholmod import SimplicialFactors, has_cholmod
from dynsys.superlu import factorised, factorised_again, is_singular_by_pattern
from dynsys.types import Array, BoolArray, IntArray

__all__ = [
    "AbstractFactors",
    "CholmodFactors",
    "SuperLUFactors",
    "general_backend",
]

GROWTH = 1e12
"""A random right-hand side that grows this much, entries of the matrix at most one, means that
the matrix is singular to rounding."""

SHIFT = 1e-7
"""Regularisation that lets a Cholesky-like factorisation run without pivoting; iterative
refinement takes it out again."""

GROWN = 0.1 / SHIFT
"""A random right-hand side that grows this much is left to pivoting."""

CONVERGED = 1e-13
"""Residual, relative to the largest entry, that refinement must reach."""

STEPS = 20
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


def general_backend() -> Literal["cholmod", "superlu"]:
    """Backend of the general path: the faster of those that are installed."""
    return "cholmod" if has_cholmod() else "superlu"


class AbstractFactors(ABC):
    """Factors of the last of many matrices of one pattern."""

    current: csc_array[np.float64]
    """The matrix that was factorised last."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Which library answered for the current matrix."""

    @abstractmethod
    def factor(self, K: csc_array[np.float64]) -> bool:
        """Factorise; False if the matrix is singular to rounding."""

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """K^-1 b for b (n,) or (n, k), refined."""


@final
class SuperLUFactors(AbstractFactors):
    """Pivoting LU; the column order (COLAMD, from the pattern alone) is found once."""

    def __init__(self) -> None:
        self._order: IntArray | None = None
        self._factors: SuperLU | None = None
        self._filled: BoolArray
        self._gather: IntArray
        self._pattern: tuple[NDArray[np.int32], NDArray[np.int32]]

    @property
    def name(self) -> str:
        return "superlu"

    def factor(self, K: csc_array[np.float64]) -> bool:
        self.current = K
        filled = K.data != 0.0  # rows of missing readings hold zeros
        if self._order is None:
            first = factorised(K, permc_spec="COLAMD")
            if first is None:
                return False
            self._keep_order(K, np.argsort(first.perm_c))
        elif not np.array_equal(filled, self._filled) and is_singular_by_pattern(K):
            return False
        self._filled = filled
        ordered = csc_array((K.data[self._gather], *self._pattern), shape=K.shape)
        self._factors = factorised_again(ordered, permc_spec="NATURAL")
        if self._factors is None:
            return False
        x = self.solve(_probe(K.shape[0]))
        return bool(np.isfinite(x).all()) and float(np.abs(x).max()) < GROWTH

    def _keep_order(self, K: csc_array[np.float64], order: IntArray) -> None:
        """Keep the column order, and where each entry of K goes under it."""
        places = csc_array((np.arange(K.nnz), K.indices, K.indptr), shape=K.shape)[:, order]
        self._order, self._gather = order, places.data
        self._pattern = places.indices, places.indptr

    def _once(self, b: Array) -> Array:
        assert self._factors is not None
        x = np.empty_like(b)
        x[self._order] = self._factors.solve(b)
        return x

    def solve(self, b: Array) -> Array:
        x = self._once(b)
        return np.asarray(x - self._once(self.current @ x - b))


@final
class CholmodFactors(AbstractFactors):
    """LDL^T by CHOLMOD of the quasi-definite K + SHIFT diag(signs); its analysis is reused.

    Refined to full accuracy on K itself; where that does not converge, SuperLU takes over.
    """

    def __init__(self, signs: Array) -> None:
        self._shift = SHIFT * signs
        self._places: IntArray
        self._diagonal: IntArray
        self._shifted: csc_array[np.float64]
        self._factors: SimplicialFactors | None = None
        self._size: csc_array[np.float64] | None = None
        self._fallback = SuperLUFactors()
        self._by_fallback = False

    @property
    def name(self) -> str:
        return self._fallback.name if self._by_fallback else "cholmod"

    def factor(self, K: csc_array[np.float64]) -> bool:
        self.current = K
        self._size = None
        if self._factors is None:
            self._factors = self._analysed(K)
        data = self._shifted.data
        data[...] = 0.0
        data[self._places] = K.data
        data[self._diagonal] += self._shift
        is_regular = self._factors.factor(self._shifted)
        x = self._refined(_probe(K.shape[0]), None) if is_regular else None
        self._by_fallback = x is None or not float(np.abs(x).max()) < GROWN
        return not self._by_fallback or self._fallback.factor(K)

    def _analysed(self, K: csc_array[np.float64]) -> SimplicialFactors:
        """Order and symbolic factors of the pattern of K with its diagonal, once."""
        n = K.shape[0]
        columns = np.repeat(np.arange(n), np.diff(K.indptr))
        keys = columns * n + K.indices
        diagonal = np.arange(n) * (n + 1)
        kept = np.union1d(keys, diagonal)
        self._places, self._diagonal = (
            np.searchsorted(kept, keys),
            np.searchsorted(kept, diagonal),
        )
        starts = np.searchsorted(kept, np.arange(n + 1) * n)
        pattern = (kept % n).astype(np.int32), starts.astype(np.int32)
        self._shifted = csc_array((np.ones(len(kept)), *pattern), shape=K.shape)
        return SimplicialFactors(self._shifted)

    def _refined(self, b: Array, size: csc_array[np.float64] | None) -> Array | None:
        """K^-1 b, refined while the residual shrinks, by the largest entry or row by row.

        Row by row, given the ``size`` |K|, by the terms of each: the torques of a light hand
        are as good as those of a heavy trunk.
        """
        assert self._factors is not None
        x, size_b, before = self._factors.solve(b), np.abs(b), (np.inf, np.inf)
        for _ in range(STEPS):
            r, size_x = b - self.current @ x, np.abs(x)
            size_r, largest = np.abs(r), size_b.max(axis=0) + size_x.max(axis=0) + TINY
            missed, missed_row = float(np.max(size_r.max(axis=0) / largest)), np.inf
            if size is not None:
                terms = size @ size_x + size_b + EPS * largest
                missed_row = float(np.max(size_r / terms))
            shrinks = missed > EPS and missed < 0.5 * before[0]  # below, it is but rounding
            if not (shrinks or missed_row < 0.5 * before[1]):
                return np.asarray(x) if missed <= CONVERGED else None
            x, before = x + self._factors.solve(r), (missed, missed_row)
        return None

    def solve(self, b: Array) -> Array:
        if not self._by_fallback:
            if self._size is None:
                self._size = abs(self.current)
            x = self._refined(b, self._size)
            if x is not None:
                return x
            self._by_fallback = True
            self._fallback.factor(self.current)
        return self._fallback.solve(b)


@cache
def _probe(n: int) -> Array:
    probe = np.random.default_rng(0).uniform(-1.0, 1.0, n)
    probe.flags.writeable = False
    return probe
