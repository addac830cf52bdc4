"""What an estimate is. This file defines it, in plain NumPy; all else may only be faster.

At a state (q, qd) laws and readings are linear in the unknowns d, all accelerations, wrenches
and torques:

    laws        D d + b_D = 0                    exact
    readings    y = Y d + b_Y + noise            of covariance C, exact where that is zero

    minimise    (y - b_Y - Y d)^T C^-1 (y - b_Y - Y d)    subject to all that is exact

 1  the laws     d = T z + d_0                   z = (qdd, external wrenches): the recursion of
                                                 inverse dynamics, which divides by nothing
 2  readings     B z = c                         B = Y T,  c = y - b_Y - Y d_0; those that are
                                                 missing are left out
 3  statements   z = z_S + K x                   exact readings of one entry of z each, such as
                                                 "nothing touches this link": x is what is left
 4  noise        E (B x - c) = 0                 principal axes of C without noise,
                 N (B x - c) = unit noise        and scaled to unit noise
 5  rank         [E B; N B] null = 0             what no reading sees
 6  exact        x = x_E + F w                   E B F = 0,  F without null
 7  noisy        minimise |A w - a|              A = N B F = Q R P^T,  a = N (c - B x_E):
                                                 w = P R^-1 Q^T a
 8  values       d = T (x_E + F w) + d_0
 9  deviations   cov d = G G^T                   G = T F P R^-1
10  determined   |(T null)_i| ~ 0                all other d_i are open: NaN
11  agreement    r = a - A w                     chi-square = r^T r, its degrees of freedom the
                                                 rows of A less its rank

Nothing is assumed of ranks: exact rows may repeat each other, anything may be missing or open.
Numbers count as zero in parts of their size (:mod:`dynsys.system.size`), ranks are judged on
rows and columns of unit size (:func:`problems.measured.reduced.rank_of`), x in natural units of
the robot. Cost: O(k^3) of the k entries of x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import qr, solve_triangular

from dynsys.errors import ContradictionError
from dynsys.system.equations import Kinematics
from dynsys.system.size import CONTRADICTION, without_rounding
from dynsys.types import Array, BoolArray, IntArray
from problems.measured.measured_system import MeasuredSystem, Statements
from problems.measured.reduced import (
    Rank,
    ReducedSystem,
    WhitenedRows,
    check_finite,
    rank_of,
    row_size,
)

__all__ = [
    "AbstractPosterior",
    "Estimator",
    "Minimiser",
    "ReducedPosterior",
    "least",
    "minimise",
]


class AbstractPosterior(ABC):
    """What the readings of one state say, however it was found.

    Attributes
    ----------
    d : (n,) all unknowns; where not determined, one value of many.
    chi_square, degrees_of_freedom : sum of squared residuals in standard deviations, and what
        it is on average if the noise is as stated.
    method : the way that found it.
    """

    d: Array
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


@final
@dataclass(frozen=True, eq=False)
class Estimator:
    """Estimates of a measured system at one state after the other."""

    measured: MeasuredSystem

    def at(
        self, q: Array, qd: Array, rows: Array, *, statements: bool = True
    ) -> ReducedPosterior:
        """What readings ``rows`` (m,) say, NaN where there is none.

        ``statements`` False leaves these among the exact rows (x is all of z): as they are
        wanted where they themselves are judged, and slower.

        Raises
        ------
        ContradictionError
            if exact readings contradict each other or the laws, naming them.
        StateError
            if something overflows.
        """
        measured, present = self.measured, ~np.isnan(rows)
        y, kinematics = np.where(present, rows, 0.0), Kinematics.at(measured.robot, q, qd)
        stated = measured.statements(present & statements)
        left = measured.reduced(kinematics, y, stated)  # 1, 2, 3: B x = c
        whitened = measured.whitened(present & stated.others)  # 4: E, N
        found = minimise(left, whitened)
        wrong = np.flatnonzero(found.violation > CONTRADICTION)
        if len(wrong) and statements and len(stated.rows):
            # in parts of all of z, and by name if statements have a part in it
            return self.at(q, qd, rows, statements=False)
        if len(wrong):
            labels = measured.labels(np.unique(whitened.exact[wrong].indices))
            listed = ", ".join(labels[:8]) + (" ..." if len(labels) > 8 else "")
            raise ContradictionError(
                f"robot {measured.robot.name!r}: readings without noise contradict each other"
                f" or the laws at this state: {listed}; correct them, or give the sensors a std"
            )
        posterior = ReducedPosterior(left, whitened, found, stated)
        check_finite(posterior.d)
        return posterior


@final
@dataclass(frozen=True, eq=False)
class Minimiser:
    """The x that fits rows best, and all that follows from the factors.

    Attributes
    ----------
    x : (k,) a minimiser; unique but for ``rank.null``.
    deviation : F P R^-1 (k, w): covariance of x is deviation deviation^T.
    rank : what all rows together see.
    explained : Q (rows of A, w): what the unknowns can explain of the noisy rows.
    residual : r (rows of A,), in standard deviations.
    violation : (e,) by how much exact rows contradict one another, in parts of their size.
    """

    x: Array
    deviation: Array
    rank: Rank
    explained: Array
    residual: Array
    violation: Array

    @property
    def unexplained(self) -> Array:
        """Orthonormal basis (f, rows of A) of what no unknown explains of the noisy rows."""
        rows, explained = self.explained.shape
        basis = qr(self.explained)[0] if explained else np.eye(rows)
        return np.asarray(basis[:, explained:].T, dtype=np.float64)


def minimise(rows: ReducedSystem, whitened: WhitenedRows) -> Minimiser:
    """Minimise |N (B x - c)|^2 subject to E (B x - c) = 0, by orthogonal factors."""
    (E, N), (e, n) = whitened.times(rows.B), whitened.times(rows.c)
    E_size, N_size = whitened.sizes(rows.B_size)
    E = without_rounding(E, E_size)
    check_finite(N, E, rows.c)
    # rank of all rows together, and of the exact ones alone, on the same scale
    rank = rank_of(np.vstack([E, N]), np.vstack([E_size, N_size]))
    fixed = rank_of(E, E_size, rank.scale)
    # E x_E = e, as well as exact rows can be met
    x = least(E, e, row_size(E_size), fixed)
    size = E_size @ np.abs(x) + whitened.sizes(rows.c_size)[0] + E_size.max(axis=1, initial=0)
    violation = np.abs(E @ x - e) / np.where(size > 0, size, 1.0)
    # F: free under the exact rows, and seen by some row
    scale = rank.scale[:, None]
    F = scale * _within(fixed.null / scale, rank.null / scale)
    # A w = a,  A = N F = Q R P^T
    Q, R, order = qr(N @ F, mode="economic", pivoting=True)
    a = n - N @ x
    check_finite(a)
    w = np.empty(F.shape[1])
    w[order] = solve_triangular(R, Q.T @ a)
    residual = a - N @ (F @ w)
    check_finite(residual @ residual)
    return Minimiser(
        x=x + F @ w,
        deviation=solve_triangular(R, F[:, order].T, trans="T").T,
        rank=rank,
        explained=np.asarray(Q, dtype=np.float64),
        residual=residual,
        violation=violation,
    )


def least(E: Array, e: Array, size: Array, rank: Rank) -> Array:
    """Solution of E x = e, for e (rows,) or (rows, m), of least size within what E sees.

    Refined once: what a right side has no part in stays rounding of the solution.
    """
    x = np.zeros(E.shape[1:] + e.shape[1:])
    if rank.seen.shape[1]:
        weight = 1.0 / np.where(size > 0, size, 1.0)
        Q, R, order = qr(weight[:, None] * (E @ rank.seen), mode="economic", pivoting=True)
        w = np.empty(rank.seen.shape[1:] + e.shape[1:])
        for _ in range(2):
            w[order] = solve_triangular(R, (Q.T * weight) @ (e - E @ x))
            x = x + rank.seen @ w
    return x


def _within(basis: Array, without: Array) -> Array:
    """Orthonormal basis of span(basis) less span(without), the latter contained in it."""
    if without.shape[1] == 0:
        return basis
    Q, _ = qr(basis.T @ without, mode="full")
    return np.asarray(basis @ Q[:, without.shape[1] :])


@final
@dataclass(frozen=True, eq=False)
class ReducedPosterior(AbstractPosterior):
    """The answer of this file: d = T x + d_0 from the minimiser x, any rank.

    ``rows`` are B x = c, ``whitened`` E and N, ``stated`` what is said of the rest of z.
    """

    rows: ReducedSystem
    whitened: WhitenedRows
    minimiser: Minimiser
    stated: Statements
    method: str = "dense"

    @cached_property
    def d(self) -> Array:  # type: ignore[override]
        """All unknowns (n,)."""
        return np.asarray(self.rows.T @ self.minimiser.x + self.rows.response[:, -1])

    @property
    def chi_square(self) -> float:  # type: ignore[override]
        """Sum of squared residuals in standard deviations."""
        return float(self.minimiser.residual @ self.minimiser.residual)

    @property
    def degrees_of_freedom(self) -> int:  # type: ignore[override]
        """Independent noisy rows that the unknowns cannot explain."""
        rows, explained = self.minimiser.explained.shape
        return int(rows - explained)

    @property
    def is_complete(self) -> bool:
        return self.minimiser.rank.nullity == 0

    def determined(self, combination: Array, columns: IntArray) -> BoolArray:
        T, size = self.rows.T[columns], self.rows.T_size[columns]
        return ~self.minimiser.rank.is_open(T, size, combination)

    def covariance(self, columns: IntArray) -> Array:
        G = self.rows.T[columns] @ self.minimiser.deviation
        return np.asarray(G @ G.T)
