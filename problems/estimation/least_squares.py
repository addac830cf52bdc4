"""Least squares with exact constraints in the open unknowns z: the careful, dense way.

    minimise  |N (B z - c)|^2   subject to   E (B z - c) = 0

B, c are the rows of all readings as functions of z, N and E whiten them (unit noise; exact).
Nothing is assumed of the ranks: constraints may repeat each other, and directions of z that no
row sees stay open and are returned as such. Rank is judged on rows and columns of unit size,
independent of the noise; the least-squares problem itself is solved by orthogonal factors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csc_array, csc_matrix, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from dynsys.errors import StateError
from dynsys.types import Array, BoolArray, IntArray

__all__ = [
    "RANK_TOLERANCE",
    "AbstractFactors",
    "CholmodFactors",
    "DenseSolution",
    "KktAssembly",
    "Rank",
    "Rows",
    "SuperLUFactors",
    "WhitenedRows",
    "check_finite",
    "has_cholmod",
    "rank_of",
    "solve_dense",
    "whiten",
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


# ----------------------------------------------------------------------
# Covariance of the readings, turned into exact rows and rows of unit noise.

NO_NOISE = 1e-14
"""Eigenvalues of a group's covariance below this part of its largest are noise of zero."""


@final
@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Combinations of the present rows: ``exact`` (e, rows), ``noisy`` (w, rows) of unit noise.

    With covariance C of the present rows:  noisy C noisy^T = 1  and  exact C exact^T = 0.
    """

    exact: csr_array[np.float64]
    noisy: csr_array[np.float64]


def whiten(covariance: csc_array[np.float64], present: BoolArray) -> WhitenedRows:
    """Rows of unit noise, and rows without noise, from the rows that are present.

    Rows whose noise is correlated, directly or through others, form a group; each group is
    turned into its principal axes. Most groups are single rows.
    """
    size = len(present)
    _, label = connected_components(covariance, directed=False)
    counts = np.bincount(label, minlength=size)
    diagonal = covariance.diagonal()
    exact: list[tuple[IntArray, Array]] = []
    noisy: list[tuple[IntArray, Array]] = []
    alone = np.flatnonzero(present & (counts[label] == 1))
    for i in alone.tolist():
        if diagonal[i] > 0:
            noisy.append((np.array([i]), np.array([1 / np.sqrt(diagonal[i])])))
        else:
            exact.append((np.array([i]), np.ones(1)))
    for group in np.flatnonzero(counts > 1).tolist():
        rows = np.flatnonzero((label == group) & present)
        block = covariance[rows][:, rows].toarray()
        std = np.sqrt(np.where(np.diag(block) > 0, np.diag(block), 1.0))
        values, axes = np.linalg.eigh(block / np.outer(std, std))
        for value, axis in zip(values, axes.T, strict=True):
            combination = axis / std
            if value > NO_NOISE * values[-1]:
                noisy.append((rows, combination / np.sqrt(value)))
            else:
                exact.append((rows, combination))
    return WhitenedRows(_stack(exact, size), _stack(noisy, size))


def _stack(rows: list[tuple[IntArray, Array]], size: int) -> csr_array[np.float64]:
    lengths = [len(where) for where, _ in rows]
    indices = np.concatenate([np.zeros(0, dtype=np.intp), *(where for where, _ in rows)])
    data = np.concatenate([np.zeros(0), *(values for _, values in rows)])
    return csr_array((data, indices, np.cumsum([0, *lengths])), shape=(len(rows), size))


# ----------------------------------------------------------------------
# Factors of sparse systems of one pattern: SuperLU with pivoting, CHOLMOD with refinement.

GROWTH = 1e12
"""A random right-hand side that grows this much, entries of the matrix at most one, means that
the matrix is singular to rounding."""

SHIFT = 1e-7
"""Regularisation that lets a Cholesky-like factorisation run without pivoting; iterative
refinement takes it out again."""

CONVERGED = 1e-13
"""Residual, relative to the largest entry, that refinement must reach."""

STEPS = 20
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)


def has_cholmod() -> bool:
    """Tell whether CHOLMOD (scikit-sparse) is installed."""
    try:
        import_module("sksparse.cholmod")
    except ImportError:
        return False
    return True


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
        self._gather: IntArray
        self._pattern: tuple[NDArray[np.int32], NDArray[np.int32]]

    @property
    def name(self) -> str:
        return "superlu"

    def factor(self, K: csc_array[np.float64]) -> bool:
        self.current = K
        try:
            if self._order is None:
                self._keep_order(K, np.argsort(splu(K, permc_spec="COLAMD").perm_c))
            ordered = csc_array((K.data[self._gather], *self._pattern), shape=K.shape)
            self._factors = splu(ordered, permc_spec="NATURAL")
        except RuntimeError:  # a pivot is exactly zero
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
        self._cholmod = import_module("sksparse.cholmod")
        self._shift = SHIFT * signs
        self._places: IntArray
        self._diagonal: IntArray
        self._pattern: tuple[NDArray[np.int32], NDArray[np.int32]]
        self._factor: Any = None
        self._fallback = SuperLUFactors()
        self._by_fallback = False

    @property
    def name(self) -> str:
        return self._fallback.name if self._by_fallback else "cholmod"

    def factor(self, K: csc_array[np.float64]) -> bool:
        self.current = K
        self._by_fallback = False
        try:
            if self._factor is None:
                self._analyse(K)
            data = np.zeros(len(self._pattern[0]))
            data[self._places] = K.data
            data[self._diagonal] += self._shift
            self._factor.cholesky_inplace(csc_matrix((data, *self._pattern), shape=K.shape))
            x = self._refined(_probe(K.shape[0]))
        except self._cholmod.CholmodError:
            x = None
        if x is not None and float(np.abs(x).max()) < 0.1 / SHIFT:
            return True
        self._by_fallback = True
        return self._fallback.factor(K)

    def _analyse(self, K: csc_array[np.float64]) -> None:
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
        self._pattern = (kept % n).astype(np.int32), starts.astype(np.int32)
        pattern = csc_matrix((np.ones(len(kept)), *self._pattern), shape=K.shape)
        self._factor = self._cholmod.analyze(pattern, mode="simplicial")

    def _refined(self, b: Array) -> Array | None:
        """K^-1 b, refined while its residual shrinks, by the largest entry or row by row.

        Row by row, by the terms of each: the torques of a light hand are as good as those of
        a heavy trunk.
        """
        size = abs(self.current)
        x, before = self._factor(b), (np.inf, np.inf)
        for _ in range(STEPS):
            r = b - self.current @ x
            largest = float(np.abs(b).max()) + float(np.abs(x).max())
            terms = size @ np.abs(x) + np.abs(b) + EPS * largest + TINY
            missed = float(np.abs(r).max()), float(np.max(np.abs(r) / terms))
            if not (missed[0] < 0.5 * before[0] or missed[1] < 0.5 * before[1]):
                return np.asarray(x) if missed[0] <= CONVERGED * largest else None
            x, before = x + self._factor(r), missed
        return None

    def solve(self, b: Array) -> Array:
        if not self._by_fallback:
            x = self._refined(b)
            if x is not None:
                return x
            self._by_fallback = True
            self._fallback.factor(self.current)
        return self._fallback.solve(b)


def _probe(n: int) -> Array:
    return np.random.default_rng(0).uniform(-1.0, 1.0, n)


# ----------------------------------------------------------------------
# The symmetric system of constrained least squares: places once, values at every state.
#
#     [ S C S    S Y     0     ]
#     [ Y^T S     0    (L D)^T ]        S, L diagonal: no entry exceeds one
#     [   0      L D     0     ]
#
# A missing reading has its row of Y and of C replaced by those of lambda = 0: same pattern.


@final
class KktAssembly:
    """Pattern of the symmetric system, and the way of D's, Y's and C's entries into it.

    Parameters
    ----------
    D, Y : any matrices of the patterns of the laws and of the readings.
    covariance : C of the readings.
    """

    def __init__(
        self,
        D: csc_array[np.float64],
        Y: csc_array[np.float64],
        covariance: csc_array[np.float64],
    ) -> None:
        (self.n_laws, self.n), self.m = D.shape, Y.shape[0]
        self._d_rows, d_columns = D.indices.astype(np.intp), _columns(D)
        self._y_rows, y_columns = Y.indices.astype(np.intp), _columns(Y)
        places = np.arange(self.m)
        both = csc_array(covariance).tocoo()
        self._c_rows = np.concatenate([both.coords[0], places]).astype(np.intp)
        self._c_columns = np.concatenate([both.coords[1], places]).astype(np.intp)
        self._c_values = both.data
        self.variance: Array = covariance.diagonal()
        unknown, law = self.m + y_columns, self.m + self.n + self._d_rows
        rows = [self._c_rows, self._y_rows, unknown, law, self.m + d_columns]
        columns = [self._c_columns, unknown, self._y_rows, self.m + d_columns, law]
        self._places(np.concatenate(rows), np.concatenate(columns))

    @property
    def size(self) -> int:
        """Rows of the system."""
        return self.m + self.n + self.n_laws

    def _places(self, rows: IntArray, columns: IntArray) -> None:
        keys = columns * self.size + rows
        kept, self._target = np.unique(keys, return_inverse=True)
        self._indices = (kept % self.size).astype(np.int32)
        starts = np.searchsorted(kept, np.arange(self.size + 1) * self.size)
        self._indptr = starts.astype(np.int32)

    def scales(self, D: Array, Y: Array, present: BoolArray) -> tuple[Array, Array]:
        """S (m,) and L (laws,) from the entries of D and Y."""
        largest = np.where(present, np.sqrt(self.variance), 1.0)
        np.maximum.at(largest, self._y_rows, np.abs(Y) * present[self._y_rows])
        laws = np.zeros(self.n_laws)
        np.maximum.at(laws, self._d_rows, np.abs(D))
        return 1.0 / np.where(largest > 0, largest, 1.0), 1.0 / laws

    def matrix(
        self, D: Array, Y: Array, present: BoolArray, scales: tuple[Array, Array]
    ) -> csc_array[np.float64]:
        """Return the system for entries of D and Y in the order of their patterns."""
        S, L = scales
        seen = np.where(present, S, 0.0)
        i, j = self._c_rows[: len(self._c_values)], self._c_columns[: len(self._c_values)]
        noise = self._c_values * seen[i] * seen[j]
        gone = np.where(present, 0.0, 1.0)
        readings, laws = Y * seen[self._y_rows], D * L[self._d_rows]
        entries = np.concatenate([noise, gone, readings, readings, laws, laws])
        data = np.bincount(self._target, entries, len(self._indices)).astype(np.float64)
        return csc_array((data, self._indices, self._indptr), shape=(self.size, self.size))


def _columns(A: csc_array[np.float64]) -> IntArray:
    return np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))
