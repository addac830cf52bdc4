"""The reduced system: what the laws leave open, and what the readings say of it.

    laws      D d + b_D = 0     <=>   d = T z + d_0,    z = (qdd, external wrenches)
    readings  y = Y d + b_Y     <=>   B z = c,          B = Y T,   c = y - b_Y - Y d_0

Given z, the recursion of inverse dynamics yields every other unknown without a division, so T
and d_0 exist at every state. Estimates, verdicts, sensor placement and the studio all ask the
rows B z = c: which directions of z they see (rank), and which z fits them best,

    minimise  |N (B z - c)|^2   subject to   E (B z - c) = 0,

where N turns the noisy readings into rows of unit noise and E picks those without noise.
Nothing is assumed of the ranks: exact rows may repeat each other, and directions of z that no
row sees stay open. Rank is judged on rows and columns of unit size, so units and noise do not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from dynsys.errors import StateError
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import Array, BoolArray, IntArray

__all__ = [
    "CONTRADICTION",
    "RANK_TOLERANCE",
    "DenseSolution",
    "LawResponse",
    "Rank",
    "ReducedSystem",
    "WhitenedRows",
    "check_finite",
    "in_parts",
    "noise_axes",
    "rank_of",
    "read_blocks",
    "whiten",
]

RANK_TOLERANCE = 1e-11
"""Singular values below this part of the largest, rows and columns of unit size, are zero."""

ROUNDING = 1e-13
"""Entries below this part of the terms they are the sum of are rounding."""

OPEN = 1e-7
"""A quantity that unseen directions move by more than this part of its reach is open."""

CONTRADICTION = 1e-8
"""Exact rows that miss each other by more than this part of their terms contradict."""

NO_NOISE = 1e-14
"""Eigenvalues of a group's covariance below this part of its largest are noise of zero."""


# ---- the laws solved for what they determine: d = T z + d_0 --------------------------------


@final
@dataclass(frozen=True, eq=False)
class LawResponse:
    """T (unknowns, freedoms of z) and d_0 (unknowns,) of a robot at any state.

    The laws are those of ``system``, whose equations begin with, or are, the laws of its robot.
    """

    system: LinearSystem

    @property
    def open_columns(self) -> IntArray:
        """Columns of D that z = (qdd, external wrenches) fills, in their order."""
        return self.system.open_columns

    @cached_property
    def _steps(self) -> tuple[tuple[UnknownBlock, EquationBlock, tuple[Term, ...]], ...]:
        """Unknown, its law, and the law's other terms, in the order of inverse dynamics."""
        return tuple(
            (target, law, tuple(term for term in law.terms if term.unknown is not target))
            for law, target in self.system.inverse_dynamics
        )

    def at(
        self,
        kinematics: Kinematics,
        directions: Array | None = None,
        *,
        bias: bool = True,
        absolute: bool = False,
    ) -> Array:
        """[T Z, d_0] (unknowns, k + 1) at a state, in the scalars of its kinematics.

        Parameters
        ----------
        kinematics : the state.
        directions : Z (size of z, k), the identity if None.
        bias : False leaves d_0 zero.
        absolute : True sums the magnitudes of all terms instead.
        """
        columns = self.open_columns
        Z = np.eye(len(columns)) if directions is None else directions
        size = self.system.unknowns.size, Z.shape[1] + 1
        d = np.zeros(size, dtype=np.result_type(kinematics.qd, np.float64))
        d[columns, :-1] = np.abs(Z) if absolute else Z
        for target, law, others in self._steps:
            _add_terms(d[target.slice], others, kinematics, d, absolute)
            if bias:
                _add_bias(d[target.slice], law, kinematics, absolute)
        return d


def read_blocks(
    blocks: Iterable[EquationBlock], kinematics: Kinematics, d: Array, *, absolute: bool = False
) -> Array:
    """Y d (rows, k + 1) of unknowns d (n, k + 1), b_Y added to the last column.

    In the scalars of the kinematics; ``absolute`` sums the magnitudes of all terms.
    """
    parts = [np.zeros((0, d.shape[1]))]
    for block in blocks:
        part = np.zeros((block.size, d.shape[1]), dtype=d.dtype)
        _add_terms(part, block.terms, kinematics, d, absolute)
        _add_bias(part, block, kinematics, absolute)
        parts.append(part)
    return np.concatenate(parts)


def _add_terms(
    rows: Array, terms: Iterable[Term], kinematics: Kinematics, d: Array, absolute: bool
) -> None:
    for term in terms:
        value = term.at(kinematics)
        rows += (abs(value) if absolute else value) @ d[term.unknown.slice]


def _add_bias(
    rows: Array, block: EquationBlock, kinematics: Kinematics, absolute: bool
) -> None:
    if block.bias is not None:
        bias = block.bias(kinematics)
        rows[:, -1] += abs(bias) if absolute else bias


# ---- noise: exact rows and rows of unit noise ----------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Combinations of the present rows: ``exact`` (e, rows), ``noisy`` (w, rows) of unit noise.

    With covariance C of the present rows:  noisy C noisy^T = 1  and  exact C exact^T = 0.
    """

    exact: csr_array[np.float64]
    noisy: csr_array[np.float64]

    def times(self, B: Array) -> tuple[Array, Array]:
        """Exact and noisy combinations of rows or numbers B."""
        return np.asarray(self.exact @ B), np.asarray(self.noisy @ B)


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
        unit, none = noise_axes(covariance[rows][:, rows].toarray())
        noisy += [(rows, combination) for combination in unit]
        exact += [(rows, combination) for combination in none]
    return WhitenedRows(_stack(exact, size), _stack(noisy, size))


def noise_axes(covariance: Array) -> tuple[Array, Array]:
    """Combinations (w, k), (e, k) of correlated rows: of unit noise, and without noise."""
    variance = np.diag(covariance)
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    values, axes = np.linalg.eigh(covariance / np.outer(std, std))
    combinations = axes.T / std
    has_noise = values > NO_NOISE * values.max(initial=0.0)
    noisy = combinations[has_noise] / np.sqrt(values[has_noise])[:, None]
    return noisy, combinations[~has_noise]


def _stack(rows: list[tuple[IntArray, Array]], size: int) -> csr_array[np.float64]:
    lengths = [len(where) for where, _ in rows]
    indices = np.concatenate([np.zeros(0, dtype=np.intp), *(where for where, _ in rows)])
    data = np.concatenate([np.zeros(0), *(values for _, values in rows)])
    return csr_array((data, indices, np.cumsum([0, *lengths])), shape=(len(rows), size))


# ---- rank: which directions of z the rows see ----------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Rank:
    """What a matrix B sees of z.

    Attributes
    ----------
    null : (size of z, nullity): orthonormal in units of ``scale``; B null = 0.
    seen : (size of z, rank): the orthogonal complement, in the same sense.
    singular : singular values, descending, of the part that is not trivially seen.
    scale : (size of z,) natural unit of each entry: columns of B times this have unit size.
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

    def reach(self, T: Array) -> Array:
        """Size (k,) of quantities T z for z of natural size."""
        return np.asarray(np.linalg.norm(T * self.scale, axis=1))

    def is_open(self, T: Array, combination: Array | None = None) -> BoolArray:
        """Tell which quantities T z, or combinations of them, move along unseen directions."""
        moved, reach = T @ self.null, self.reach(T)
        if combination is not None:
            moved, reach = combination @ moved, np.abs(combination) @ reach
        return np.asarray(np.linalg.norm(moved, axis=1) > OPEN * reach)


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


def in_parts(rows: Array, size: Array) -> Array:
    """Rows (k, n) in parts of their natural size (k,)."""
    return np.asarray(rows / np.where(size > 0, size, 1.0)[:, None])


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


# ---- the rows at a state, and their least-squares solution ---------------------------------


@final
@dataclass(frozen=True, eq=False)
class DenseSolution:
    """Minimiser z, and all that follows from the factors.

    Attributes
    ----------
    z : (n,) a minimiser; unique but for the null space of ``rank``.
    deviation : (n, k): covariance of z is deviation deviation^T.
    rank : what all rows together see.
    explained : (w, k) orthonormal basis of what the noisy rows can explain.
    residual : (w,) of the noisy rows, in standard deviations.
    violation : (e,) by how much exact rows contradict one another, relative to their terms.
    """

    z: Array
    deviation: Array
    rank: Rank
    explained: Array
    residual: Array
    violation: Array


@final
@dataclass(frozen=True, eq=False)
class ReducedSystem:
    """Readings at a state as rows B z = c of the reduced unknowns, d = T z + d_0.

    Attributes
    ----------
    kinematics : the state.
    response : [T, d_0] (n, size of z + 1).
    B, c : (rows, size of z), (rows,); entries of B that are rounding are zero.
    size : (rows,) largest sum of magnitudes behind an entry of the row.
    """

    kinematics: Kinematics
    response: Array
    B: Array
    c: Array
    size: Array

    @staticmethod
    def of(
        kinematics: Kinematics, response: Array, seen: Array, magnitude: Array, y: Array
    ) -> ReducedSystem:
        """Rows from [Y T, Y d_0 + b_Y], |Y| |T| and the readings y."""
        size = magnitude.max(axis=1, initial=0.0)
        B = _without_rounding(seen[:, :-1], size)
        return ReducedSystem(kinematics, response, B, y - seen[:, -1], size)

    @property
    def T(self) -> Array:
        """What every unknown (n, size of z) owes to z."""
        return self.response[:, :-1]

    def rank(self, tolerance: float = RANK_TOLERANCE) -> Rank:
        """What all readings together see of z."""
        return rank_of(self.B, tolerance=tolerance)

    def solve(self, whitened: WhitenedRows) -> DenseSolution:
        """Minimise |N (B z - c)|^2 subject to E (B z - c) = 0, by orthogonal factors."""
        (exact, A), (c, target) = whitened.times(self.B), whitened.times(self.c)
        magnitude = np.asarray(abs(whitened.exact) @ self.size)
        constraints = _without_rounding(exact, magnitude)
        check_finite(A, constraints, self.c)
        rank = rank_of(np.vstack([constraints, A]))
        # z meets the constraints as well as they can be met
        fixed = rank_of(constraints, rank.scale)
        z = _particular(constraints, c, fixed)
        violation = np.abs(constraints @ z - c)
        terms = np.abs(constraints) @ np.abs(z) + np.abs(c) + magnitude
        violation = violation / np.where(terms > 0, terms, 1.0)
        # directions free under the constraints and seen by some row
        free = _within(fixed.null / rank.scale[:, None], rank.null / rank.scale[:, None])
        free = rank.scale[:, None] * free
        # w minimises |A (z + free w) - target|
        Q, R, order = qr(A @ free, mode="economic", pivoting=True)
        misfit = target - A @ z
        check_finite(misfit)
        w = np.empty(free.shape[1])
        w[order] = solve_triangular(R, Q.T @ misfit)
        deviation = solve_triangular(R, free[:, order].T, trans="T").T
        return DenseSolution(
            z=z + free @ w,
            deviation=deviation,
            rank=rank,
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


def _without_rounding(B: Array, size: Array) -> Array:
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
