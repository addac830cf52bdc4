"""Least squares with exact constraints in the open unknowns z: the careful, dense way.

    minimise  |N (B z - c)|^2   subject to   E (B z - c) = 0

B, c are the rows of all readings as functions of z, N and E whiten them (unit noise; exact).
Nothing is assumed of the ranks: constraints may repeat each other, and directions of z that no
row sees stay open and are returned as such. Rank is judged on rows and columns of unit size,
independent of the noise; the least-squares problem itself is solved by orthogonal factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import qr, solve_triangular

from dynsys.errors import StateError
from dynsys.types import Array, IntArray
from problems.least_squares_noise import WhitenedRows

__all__ = [
    "RANK_TOLERANCE",
    "DenseSolution",
    "Rank",
    "Rows",
    "check_finite",
    "rank_of",
    "solve_dense",
]

RANK_TOLERANCE = 1e-11
"""Singular values below this part of the largest, rows and columns of unit size, are zero."""

ROUNDING = 1e-13
"""Entries below this part of the terms they are the sum of are rounding."""


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """B (rows, size of z) and c (rows,); ``size`` (rows,): largest sum of |terms| in a row."""

    B: Array
    c: Array
    size: Array

    @staticmethod
    def from_terms(B: Array, magnitude: Array, c: Array) -> Rows:
        """Rows with the rounding removed; ``magnitude`` is B with absolute terms."""
        size = magnitude.max(axis=1, initial=0.0)
        return Rows(np.where(np.abs(B) > ROUNDING * size[:, None], B, 0.0), c, size)


@final
@dataclass(frozen=True, eq=False)
class Rank:
    """What a matrix B sees of z.

    Attributes
    ----------
    null : (size of z, nullity): orthonormal in units of ``scale``; B null = 0.
    seen : (size of z, rank): the orthogonal complement, in the same sense.
    singular : singular values, descending, of the part that is not trivially seen.
    scale : (size of z,) columns of B times this have unit size.
    """

    null: Array
    seen: Array
    singular: Array
    scale: Array

    @property
    def nullity(self) -> int:
        """Number of directions of z that no row sees."""
        return int(self.null.shape[1])

    @property
    def condition(self) -> float:
        """Condition number of what is seen."""
        seen = self.singular[self.singular > 0]
        return float(seen[0] / seen[-1]) if len(seen) else 1.0


def rank_of(B: Array, scale: Array | None = None, tolerance: float = RANK_TOLERANCE) -> Rank:
    """Rank of B (rows, n) with null space, rows and columns brought to unit size.

    Columns that a row with a single entry determines are peeled off first; a singular value
    decomposition of what is left does the rest.
    """
    n = B.shape[1]
    sizes = np.linalg.norm(B, axis=1)
    A = B[sizes > 0] / sizes[sizes > 0, None]
    if scale is None:
        norms = np.linalg.norm(A, axis=0)
        scale = np.where(norms > 0, 1.0 / np.where(norms > 0, norms, 1.0), 1.0)
    rest = _peel(A)
    core = (A * scale)[:, rest]
    core = core[np.any(core != 0, axis=1)]
    _, singular, Vt = np.linalg.svd(core, full_matrices=True)
    largest = singular[0] if len(singular) else 0.0
    rank = int((singular > tolerance * largest).sum())
    null, seen = np.zeros((n, len(rest) - rank)), np.zeros((n, n - len(rest) + rank))
    null[rest] = Vt[rank:].T
    seen[rest, :rank] = Vt[:rank].T
    peeled = np.setdiff1d(np.arange(n), rest)
    seen[peeled, rank + np.arange(len(peeled))] = 1.0
    found = np.concatenate([singular[:rank], np.zeros(len(rest) - rank)])
    return Rank(scale[:, None] * null, scale[:, None] * seen, found, scale)


def _peel(A: Array) -> IntArray:
    """Columns left when those that rows with one entry determine are taken out, repeatedly."""
    filled = A != 0
    open_columns = np.ones(A.shape[1], dtype=bool)
    while True:
        single = filled.sum(axis=1) == 1
        known = filled[single].any(axis=0)
        if not known.any():
            return np.flatnonzero(open_columns)
        open_columns &= ~known
        filled = filled & ~known


@final
@dataclass(frozen=True, eq=False)
class DenseSolution:
    """Minimiser z, and all that follows from the factors.

    Attributes
    ----------
    z : (n,) a minimiser; unique but for ``null``.
    deviation : (n, k): covariance of z is deviation deviation^T.
    null : (n, nullity) directions that no row sees.
    scale : (n,) size of a natural unit of each entry of z.
    explained : (w, k) orthonormal basis of what the noisy rows can explain.
    residual : (w,) of the noisy rows, in standard deviations.
    violation : (e,) by how much exact rows contradict one another, relative to their terms.
    """

    z: Array
    deviation: Array
    null: Array
    scale: Array
    explained: Array
    residual: Array
    violation: Array


def solve_dense(rows: Rows, whitened: WhitenedRows) -> DenseSolution:
    """Minimise over z; see the module."""
    exact, noisy = whitened.exact, whitened.noisy
    A, magnitude = np.asarray(noisy @ rows.B), np.asarray(abs(exact) @ rows.size)
    constraints = _clean(np.asarray(exact @ rows.B), magnitude)
    check_finite(A, constraints, rows.c)
    rank = rank_of(np.vstack([constraints, A]))
    c = np.asarray(exact @ rows.c)
    fixed = rank_of(constraints, rank.scale)
    z = _particular(constraints, c, fixed)
    violation = np.abs(constraints @ z - c)
    terms = np.abs(constraints) @ np.abs(z) + np.abs(c) + magnitude
    violation = violation / np.where(terms > 0, terms, 1.0)
    # directions free under the constraints and seen by some row
    free = _within(fixed.null / rank.scale[:, None], rank.null / rank.scale[:, None])
    free = rank.scale[:, None] * free
    Q, R, order = qr(A @ free, mode="economic", pivoting=True)
    misfit = np.asarray(noisy @ rows.c) - A @ z
    check_finite(misfit)
    w = np.empty(free.shape[1])
    w[order] = solve_triangular(R, Q.T @ misfit)
    deviation = solve_triangular(R, free[:, order].T, trans="T").T
    return DenseSolution(
        z=z + free @ w,
        deviation=deviation,
        null=rank.null,
        scale=rank.scale,
        explained=np.asarray(Q, dtype=np.float64),
        residual=misfit - A @ (free @ w),
        violation=violation,
    )


def check_finite(*numbers: Array) -> None:
    """Raise a StateError if any number is not finite."""
    if not all(np.isfinite(x).all() for x in numbers):
        raise StateError(
            "the equations at this state overflow float64; check the units of q, qd and y"
        )


def _clean(B: Array, size: Array) -> Array:
    return np.where(np.abs(B) > ROUNDING * size[:, None], B, 0.0)


def _particular(B: Array, c: Array, rank: Rank) -> Array:
    """Solution of B z = c of least size, in units of the scale, within what B sees."""
    if rank.seen.shape[1] == 0:
        return np.zeros(B.shape[1])
    sizes = np.linalg.norm(B, axis=1)
    weight = 1.0 / np.where(sizes > 0, sizes, 1.0)
    Q, R, order = qr(weight[:, None] * (B @ rank.seen), mode="economic", pivoting=True)
    w = np.empty(rank.seen.shape[1])
    w[order] = solve_triangular(R, Q.T @ (weight * c))
    z = rank.seen @ w
    w[order] = solve_triangular(R, Q.T @ (weight * (c - B @ z)))
    return np.asarray(z + rank.seen @ w)


def _within(basis: Array, without: Array) -> Array:
    """Orthonormal basis of span(basis) less span(without), the latter contained in it."""
    if without.shape[1] == 0:
        return basis
    inside = basis.T @ without
    Q, _ = qr(inside, mode="full")
    return np.asarray(basis @ Q[:, without.shape[1] :])
