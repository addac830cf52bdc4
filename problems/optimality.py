"""The optimality conditions of an estimate in extended precision, and how far they hold.

With the laws solved for what they determine, d = T z + d_0, the readings are B z = c and

    [ C    B ] [lambda]   [ c ]
    [ B^T  0 ] [  z   ] = [ 0 ]        K x = b

is met by the exact estimate. B and c are built in extended precision. For any matrix R, best
one close to the inverse of K, and any x,

    exact x - x = R (b - K x) + G (exact x - x),        G = 1 - R K,

so that, with v = |R| (|b - K x| + delta), any s >= v and gamma the largest entry of |G| s / s,

    |error of x| <= v + |G| s / (1 - gamma),
    |error of W x| <= |A| (|b - K x| + delta) + |W - A K| |error of x|,    A = W R.

delta is one unit in the last place of float64 of all that adds up in a row. Where gamma is not
well below one, K is singular to rounding and there is no bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dynsys.types import Array, ScalarArray
from problems.open_problem import OpenProblem
from problems.trust import EPS, EPS_EXTENDED, EXTENDED

__all__ = ["Optimality"]

LARGEST_EXTENDED = 500
"""Rows of K up to which G is computed in extended precision: cubic, and not by LAPACK."""

FLOOR = 1e-3
"""Part of the largest error, in natural units, that s has everywhere."""

LARGEST_GAMMA = 0.5
"""Beyond this, too little of R is known to be right."""

TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class Optimality:
    """Optimality conditions K x = b of a problem, x = (lambda, z)."""

    problem: OpenProblem

    @cached_property
    def is_square(self) -> bool:
        """True if there are as many rows as unknowns: K is B, the noise has no say."""
        m, n = self.problem.B.shape
        return bool(m == n)

    @cached_property
    def K(self) -> ScalarArray:
        """Matrix of the conditions."""
        return self._matrix(self.problem.B, self.problem.C)

    @cached_property
    def K_size(self) -> Array:
        """Sums of the magnitudes of all that adds up to its entries."""
        return self._matrix(self.problem.B_size, np.abs(self.problem.C))

    def _matrix(self, B: ScalarArray, C: Array) -> ScalarArray:
        if self.is_square:
            return B
        n = B.shape[1]
        return np.block([[C, B], [B.T, np.zeros((n, n), dtype=B.dtype)]])

    @cached_property
    def b(self) -> ScalarArray:
        """Right-hand side."""
        zeros = len(self.K) - len(self.problem.c)
        return np.concatenate([self.problem.c, np.zeros(zeros)])

    @cached_property
    def of_z(self) -> slice:
        """Where z is in x."""
        return slice(len(self.K) - len(self.problem.columns), None)

    @cached_property
    def _scaled(self) -> tuple[Array, Array, Array]:
        """Rows' and columns' scales (n,) that bring K to unit size, and K so scaled."""
        K = self.K.astype(np.float64)
        rows, columns = np.ones(len(K)), np.ones(len(K))
        for _ in range(8):
            for scale, axis in ((rows, 1), (columns, 0)):
                size = np.abs(rows[:, None] * K * columns).max(axis=axis, initial=0.0)
                scale /= np.sqrt(np.where(size > 0, size, 1.0))
        if not self.is_square:
            self._balance(rows, columns, K)
        return rows, columns, rows[:, None] * K * columns

    def _balance(self, rows: Array, columns: Array, K: Array) -> None:
        """Weigh C against B by the least singular value of B: K is then no worse than B."""
        m = self.of_z.start
        B = rows[:m, None] * K[:m, m:] * columns[m:]
        is_usable = B.size and np.isfinite(B).all()
        least = np.linalg.svd(B, compute_uv=False)[-1] if is_usable else 1.0
        balance = np.sqrt(max(float(least), EPS))
        for scale in (rows, columns):
            scale[:m] *= balance
            scale[m:] /= balance

    @cached_property
    def R(self) -> Array | None:
        """An inverse of K to rounding, None if there is none."""
        rows, columns, scaled = self._scaled
        try:
            inverse = np.linalg.inv(scaled)
        except np.linalg.LinAlgError:
            return None
        found = columns[:, None] * inverse * rows
        return np.asarray(found) if np.isfinite(found).all() else None

    @property
    def z_scale(self) -> Array:
        """Natural units of z."""
        return self._scaled[1][self.of_z]

    @cached_property
    def condition(self) -> float:
        """Condition number of K, rows and columns brought to unit size."""
        rows, columns, scaled = self._scaled
        if self.R is None or not len(scaled):
            return 1.0 if not len(scaled) else np.inf
        inverse = self.R / columns[:, None] / rows
        return float(np.abs(scaled).sum(axis=1).max() * np.abs(inverse).sum(axis=1).max())

    def solve(self, b: ScalarArray) -> ScalarArray:
        """K^-1 b (n,) or (n, k), refined in extended precision."""
        assert self.R is not None
        R = self.R.astype(EXTENDED)
        x = R @ b
        for _ in range(4):
            x = x + R @ (b - self.K @ x)
        return x

    @cached_property
    def x(self) -> ScalarArray:
        """The exact estimate, as exactly as extended precision can tell."""
        return self.solve(self.b)

    @cached_property
    def sums(self) -> Array:
        """Sum of the magnitudes of all that adds up in each row of K x = b."""
        size = self.K_size @ np.abs(self.x).astype(np.float64)
        size[: len(self.problem.c_size)] += self.problem.c_size
        return np.asarray(size)

    def backward_error(self, z: Array) -> float:
        """Largest residual of K x = b at an answer's z and the exact multipliers, relative.

        Relative to the magnitudes in its row; rows in which all is zero are held against the
        others by one unit in the last place.
        """
        if self.R is None:
            return np.inf
        x, rows = self.x.copy(), self._scaled[0]
        x[self.of_z] = z
        left = np.abs(self.K @ x - self.b)
        floor = EPS * np.max(rows * self.sums, initial=0.0) / rows
        found = float(np.max(left / (self.sums + floor + TINY), initial=0.0))
        return np.inf if np.isnan(found) else found

    def errors(self, W: Array) -> Array:
        """Bounds (k,) on the errors of W z, W (k, size of z); infinite where there is none."""
        if self.R is None or not self.problem.is_definite:
            return np.full(len(W), np.inf)
        if not len(self.K):
            return np.zeros(len(W))
        error = self._spread
        A = W @ self.R[self.of_z]
        scalar = self._scalar
        left = -(A.astype(scalar) @ self.K.astype(scalar))
        left[:, self.of_z] += W
        doubt = self._doubt + self._slack * (self.K_size @ error)
        return np.asarray(np.abs(A) @ doubt + np.abs(left).astype(np.float64) @ error)

    @cached_property
    def _scalar(self) -> type[np.floating[Any]]:
        return EXTENDED if len(self.K) <= LARGEST_EXTENDED else np.float64

    @cached_property
    def _slack(self) -> float:
        """One unit in the last place of K, and the rounding of a product with it."""
        return EPS + len(self.K) * float(np.finfo(self._scalar).eps)

    @cached_property
    def _doubt(self) -> Array:
        """|b - K x| + delta."""
        slack = EPS + 8 * (len(self.K) + 8) * EPS_EXTENDED
        left = np.abs(self.b - self.K @ self.x).astype(np.float64)
        return np.asarray(left + slack * self.sums + TINY)

    @cached_property
    def _spread(self) -> Array:
        """Bounds (n,) on the errors of x."""
        assert self.R is not None
        size, scalar = np.abs(self.R), self._scalar
        G = np.abs(np.eye(len(size)) - self.R.astype(scalar) @ self.K.astype(scalar))
        v, units = size @ self._doubt, self._scaled[1]
        s = v + FLOOR * np.max(v / units) * units
        Gs = G.astype(np.float64) @ s + self._slack * (size @ (self.K_size @ s))
        gamma = float(np.max(Gs / s))
        if not gamma < LARGEST_GAMMA:
            return np.full(len(v), np.inf)
        return np.asarray(v + Gs / (1 - gamma))
