"""The reduced system: what the laws leave open, and what the readings say of it.

    laws      D d + b_D = 0     <=>   d = T z + d_0,    z = (qdd, external wrenches)
    readings  y = Y d + b_Y     <=>   B z = c,          B = Y T,   c = y - b_Y - Y d_0

Given z, the recursion of inverse dynamics yields every other unknown without a division, so T
and d_0 exist at every state. Estimates, verdicts, sensor placement and the studio all ask the
rows B z = c which directions of z they see (rank); which z fits them best says
:mod:`problems.estimation.estimator`. Nothing is assumed of the ranks: exact rows may repeat
each other, and directions of z that no row sees stay open. z is in natural units of the robot,
and rank is judged on rows and columns of unit size (:mod:`dynsys.system.size`), so units and
noise do not matter, and a row that cancels at a posture sees nothing there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from dynsys.errors import StateError
from dynsys.system.equations import Kinematics
from dynsys.system.size import without_rounding
from dynsys.types import Array, BoolArray, IntArray

__all__ = [
    "RANK_TOLERANCE",
    "Rank",
    "ReducedSystem",
    "WhitenedRows",
    "check_finite",
    "columns_left",
    "in_parts",
    "noise_axes",
    "rank_of",
    "row_size",
    "whiten",
]

RANK_TOLERANCE = 1e-11
"""Singular values below this part of the largest, rows and columns of unit size, are zero."""

CLEAR = 0.1
"""An entry of at least this part of its size determines its unknown beyond doubt."""

OPEN = 1e-8
"""A quantity that unseen directions move by more than this part of its reach is open."""

NO_NOISE = 1e-14
"""Eigenvalues of a group's covariance below this part of its largest are noise of zero."""


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

    def sizes(self, size: Array) -> tuple[Array, Array]:
        """Sizes of these combinations from those of the rows or numbers."""
        return np.asarray(abs(self.exact) @ size), np.asarray(abs(self.noisy) @ size)


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


def noise_spread(variance: Array) -> float:
    """Ratio of the largest to the smallest deviation that is not zero; 1 if there are none.

    Rows of unit noise are worse scaled by that than rows of unit size: where a precise reading
    and a crude one meet, rounding of the one is seen in what only the other tells.
    """
    noisy = variance[variance > 0]
    return float(np.sqrt(noisy.max() / noisy.min())) if len(noisy) else 1.0


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
    scale : (size of z,) natural unit of each entry: rows of unit size times this have columns
        of unit size.
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

    def reach(self, size: Array) -> Array:
        """Size (k,) of quantities T z for z of natural size, from the sizes (k, n) of T."""
        return np.asarray(np.linalg.norm(size * self.scale, axis=1))

    def is_open(self, T: Array, size: Array, combination: Array | None = None) -> BoolArray:
        """Tell which quantities T z, or combinations of them, move along unseen directions.

        ``size`` (k, n) are the sizes of T.
        """
        moved, reach = T @ self.null, self.reach(size)
        if combination is not None:
            moved, reach = combination @ moved, np.abs(combination) @ reach
        return np.asarray(np.linalg.norm(moved, axis=1) > OPEN * reach)


def rank_of(
    B: Array,
    size: Array | None = None,
    scale: Array | None = None,
    tolerance: float = RANK_TOLERANCE,
) -> Rank:
    """Rank of B (rows, n) with null space, rows and columns brought to unit size.

    ``size`` (rows, n) are the sizes of its entries, by default the entries themselves: a row
    far below its size sees nothing. Columns that a row with a single entry determines are
    peeled off first; a singular value decomposition of what is left does the rest.
    """
    n, size = B.shape[1], np.abs(B) if size is None else size
    rest = columns_left(B != 0, np.abs(B) > CLEAR * size)
    if scale is None:
        scale = _unit_columns(size)
        scale[rest] = _unit_columns(size[:, rest])
    core = in_parts(B[:, rest], row_size(size[:, rest])) * scale[rest]
    core = core[np.any(core != 0, axis=1)]
    _, singular, Vt = np.linalg.svd(core, full_matrices=True)
    rank = int((singular > tolerance * max(singular[:1].max(initial=0.0), 1.0)).sum())
    null, seen = np.zeros((n, len(rest) - rank)), np.zeros((n, n - len(rest) + rank))
    null[rest] = Vt[rank:].T
    seen[rest, :rank] = Vt[:rank].T
    peeled = np.setdiff1d(np.arange(n), rest)
    seen[peeled, rank + np.arange(len(peeled))] = 1.0
    found = np.concatenate([singular[:rank], np.zeros(len(rest) - rank)])
    return Rank(scale[:, None] * null, scale[:, None] * seen, found, scale)


def row_size(size: Array) -> Array:
    """Size (rows,) of rows from the sizes (rows, n) of their entries."""
    return np.asarray(np.linalg.norm(size, axis=1))


def in_parts(rows: Array, size: Array) -> Array:
    """Rows (k, n) in parts of their natural size (k,)."""
    return np.asarray(rows / np.where(size > 0, size, 1.0)[:, None])


def _unit_columns(size: Array) -> Array:
    """Factors (n,) that bring the columns of rows of unit size to unit size."""
    norms = np.linalg.norm(in_parts(size, row_size(size)), axis=0)
    return 1.0 / np.where(norms > 0, norms, 1.0)


def columns_left(filled: BoolArray, clear: BoolArray) -> IntArray:
    """Columns left when those that rows with one entry determine are taken out, repeatedly.

    Only an entry that is ``clear`` determines.
    """
    open_columns = np.ones(filled.shape[1], dtype=bool)
    while True:
        single = filled.sum(axis=1) == 1
        known = (filled & clear)[single].any(axis=0)
        if not known.any():
            return np.flatnonzero(open_columns)
        open_columns &= ~known
        filled = filled & ~known


# ---- the rows at a state ---------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class ReducedSystem:
    """Readings at a state as rows B z = c of the reduced unknowns, d = T z + d_0.

    z is in natural units (:func:`dynsys.system.size.natural_units`), all else in those of SI.

    Attributes
    ----------
    kinematics : the state.
    response, response_size : [T, d_0] (n, size of z + 1), and the sizes of that.
    B, c : (rows, size of z), (rows,); entries of B that are rounding are zero.
    B_size, c_size : their sizes.
    """

    kinematics: Kinematics
    response: Array
    response_size: Array
    B: Array
    c: Array
    B_size: Array
    c_size: Array

    @staticmethod
    def of(
        kinematics: Kinematics,
        response: tuple[Array, Array],
        seen: tuple[Array, Array],
        y: Array,
        units: Array,
    ) -> ReducedSystem:
        """Rows from [T, d_0] and [Y T, Y d_0 + b_Y], each with its sizes, and readings y.

        These are for z in units of SI; ``units`` (size of z,) are the natural ones.
        """
        own = np.append(units, 1.0)
        (T, T_size), (rows, size) = ([x * own for x in both] for both in (response, seen))
        B = without_rounding(rows[:, :-1], size[:, :-1])
        c, c_size = y - rows[:, -1], np.abs(y) + size[:, -1]
        return ReducedSystem(kinematics, T, T_size, B, c, size[:, :-1], c_size)

    @property
    def T(self) -> Array:
        """What every unknown (n, size of z) owes to z."""
        return self.response[:, :-1]

    @property
    def T_size(self) -> Array:
        """Sizes (n, size of z) of T."""
        return self.response_size[:, :-1]

    def rank(self, tolerance: float = RANK_TOLERANCE) -> Rank:
        """What all readings together see of z."""
        return rank_of(self.B, self.B_size, tolerance=tolerance)

    def condition(self, whitened: WhitenedRows, spread: float = 1.0) -> float:
        """Condition number |B| |G| of the estimate z = G c, rows and columns of unit size.

        Without exact rows G is the pseudoinverse of B. Exact rows E go first, however well the
        others N see the same: directions V_1 are those that E sees, V_2 those that it leaves,

            G_E = (1 - V_2 (N V_2)^+ N) V_1 (E V_1)^+,     G_N = V_2 (N V_2)^+.

        The larger of the two counts; that of noisy rows times the ``spread`` of their noise.
        [L. Elden, A weighted pseudoinverse, generalized singular values, and constrained least
        squares problems, BIT 22 (1982)]
        """
        own = np.unique(whitened.noisy.indices)
        size = np.vstack([whitened.sizes(self.B_size)[0], self.B_size[own]])
        B = np.vstack([whitened.times(self.B)[0], self.B[own]])
        B, exact = without_rounding(B, size), np.arange(len(B)) < whitened.exact.shape[0]
        # columns that one row determines; a noisy one only what no exact one has a say in
        filled, clear = B != 0, np.abs(B) > CLEAR * size
        left = columns_left(filled[exact], clear[exact])
        said = np.zeros(B.shape[1], dtype=bool)
        said[left] = filled[exact][:, left].any(axis=0)
        rest = columns_left(filled, clear & (exact[:, None] | ~said))
        size = size[:, rest]
        core = in_parts(B[:, rest], row_size(size)) * _unit_columns(size)
        _, singular, Vt = np.linalg.svd(core, full_matrices=False)
        if not len(singular) or not singular[0]:
            return spread
        core = core @ Vt[singular > RANK_TOLERANCE * max(singular[0], 1.0)].T
        _, s, Vt = np.linalg.svd(core[exact])
        rank = int((s > RANK_TOLERANCE * max(s[:1].max(initial=0.0), 1.0)).sum())
        V_1, V_2, N = Vt[:rank].T / s[:rank], Vt[rank:].T, core[~exact]
        inverse = V_2 @ np.linalg.pinv(N @ V_2)
        norms = [np.linalg.norm(G, 2) for G in (V_1 - inverse @ (N @ V_1), spread * inverse)]
        return max(float(singular[0] * max(norms)), spread)


def check_finite(*numbers: Array) -> None:
    """Raise a StateError if any number is not finite."""
    if not all(np.isfinite(x).all() for x in numbers):
        raise StateError(
            "the equations at this state overflow float64; check the units of q, qd and y"
        )
