"""Branch-induced sparsity: matrices that belong to a tree, their factors, products, solves.

    H_ij = 0 unless one of i, j supports the other                                [BIS] eq. (6)
    L_ij = 0 unless j supports i
    H = L^T L         a Cholesky factorisation that runs backwards                section 2
    H = L^T diag(d) L with a unit diagonal in L, no square roots                  appendix

Rows are factorised from the leaves to the base, and within a row only over the ancestors: zeros
that branches put into H stay zeros in L. Costs ([BIS] table 1), with D1 elements of H below its
diagonal and D2 updates (:func:`tree_sums`), s square roots, d divisions, m and a:

    LTL   n s + D1 d + D2 (m + a)           L x, L^T x        n m + D1 (m + a) per vector
    LTDL  D1 d + D2 (m + a)                 L^-1 x, L^-T x    n d + D1 (m + a) per vector

(``unit=True``, a diagonal of ones in L, saves n m or n d.) ``parent`` has one entry per row,
-1 <= parent[i] < i ([BIS] eq. 2, 0-based); for a robot it is ``expanded_parent(robot)``. It
need not come from a robot: parent[i] = i - 1 means dense. x is a vector (n,) or a matrix
(n, k); products and solves take scalars of any kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynsys.errors import ModelError, SingularSystemError, StateError
from dynsys.jit import Loop
from dynsys.model.expanded import depths
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, ScalarArray

__all__ = [
    "TreeSums",
    "as_columns",
    "check_parent",
    "ltdl",
    "ltdl_in_situ",
    "ltdl_scalars",
    "ltl",
    "ltl_in_situ",
    "mul_L",
    "mul_LT",
    "scalar_type",
    "solve",
    "solve_L",
    "solve_LT",
    "solve_LT_in_situ",
    "solve_L_in_situ",
    "solve_ltdl",
    "solve_ltl",
    "support_mask",
    "tree_sums",
]

ROUNDING = 1e-12
"""An element outside the pattern up to this, relative to its diagonal, is rounding of zero."""


def check_parent(parent: ArrayLike, size: int | None = None) -> IntArray:
    """Return ``parent`` as an index array after checking -1 <= parent[i] < i and its length.

    Raises
    ------
    ModelError
        naming the first entry that is wrong.
    """
    given = np.asarray(parent)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise ModelError("a parent array is one row of whole numbers, -1 for the base")
    array = np.ascontiguousarray(given, dtype=np.intp)
    wrong = np.flatnonzero((array < -1) | (array >= np.arange(len(array))))
    if len(wrong):
        i = int(wrong[0])
        raise ModelError(
            f"parent[{i}] = {array[i]} must lie in -1..{i - 1}: number parents before children,"
            " -1 is the base"
        )
    if size is not None and len(array) != size:
        raise ModelError(
            f"the matrix has {size} rows, the parent array {len(array)} entries; joints of"
            " several freedoms need the expanded one: dynsys.model.expanded.expanded_parent"
        )
    return array


def check_matrix(H: ArrayLike, parent: ArrayLike) -> tuple[Array, IntArray]:
    """Return copies of H (n, n) and parent (n,) after checking that they belong together.

    Only the lower triangle of H is looked at, as the algorithms do.

    Raises
    ------
    StateError
        if H is not square, not finite, or has an element outside the tree's pattern.
    ModelError
        if ``parent`` is no parent array for it.
    """
    matrix = np.array(H, dtype=np.float64, order="C")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise StateError(f"a square matrix is wanted, got shape {matrix.shape}")
    array = check_parent(parent, len(matrix))
    if not np.isfinite(np.tril(matrix)).all():
        i, j = (int(k) for k in np.argwhere(~np.isfinite(np.tril(matrix)))[0])
        raise StateError(f"element ({i}, {j}) of the matrix is not finite")
    place = np.array([-1, -1], dtype=np.intp)
    first_outside(matrix, array, ROUNDING, place)
    if place[0] >= 0:
        i, j = int(place[0]), int(place[1])
        raise StateError(
            f"element ({i}, {j}) = {matrix[i, j]:.3g} of the matrix lies outside the pattern of"
            " the tree ([BIS] eq. 6): the matrix or the parent array is of another robot"
        )
    return matrix, array


@Loop
def first_outside(H: Array, parent: IntArray, tolerance: float, place: IntArray) -> None:
    """Write the first (row, column) below the diagonal that breaks [BIS] eq. (6), if any."""
    for i in range(len(H)):
        ancestor = parent[i]
        for j in range(i - 1, -1, -1):
            if j == ancestor:
                ancestor = parent[ancestor]
            elif abs(H[i, j]) > tolerance * np.sqrt(abs(H[i, i] * H[j, j])):
                place[0], place[1] = i, j
                return


def support_mask(parent: ArrayLike) -> BoolArray:
    """Pattern of L: entry (i, j) is true if j supports i (n, n). H's is this or its transpose.

    Examples
    --------
    >>> int(support_mask([-1, 0, 0, 1]).sum())
    8
    """
    array = check_parent(parent)
    mask = np.eye(len(array), dtype=bool)
    for i, p in enumerate(array):
        if p >= 0:
            mask[i] |= mask[p]
    return mask


class TreeSums(NamedTuple):
    """Size n and the sums D0, D1, D2 over the depths of a tree."""

    n: int
    D0: int
    D1: int
    D2: int

    @property
    def nonzeros(self) -> int:
        """Elements of H that may be nonzero: n + 2 D1; L has n + D1."""
        return self.n + 2 * self.D1


def tree_sums(parent: ArrayLike) -> TreeSums:
    """D0, D1, D2 of any tree, from its (expanded) parent array (n,).

    Examples
    --------
    >>> tree_sums([-1, 0, 0, 1, 1, 2, 2])  # [BIS] figure 1
    TreeSums(n=7, D0=6, D1=10, D2=14)
    """
    d = depths(check_parent(parent))
    above = d - 1
    return TreeSums(
        len(d), int(np.minimum(1, above).sum()), int(above.sum()), int((d * above // 2).sum())
    )


# ---- factors -----------------------------------------------------------------------------


def ltl(H: ArrayLike, parent: ArrayLike) -> Array:
    """Lower triangular L (n, n) with H = L^T L and the sparsity of the tree.

    Parameters
    ----------
    H : (n, n) symmetric positive definite, pattern of [BIS] eq. (6); lower triangle is read.
    parent : (n,) expanded parent array, -1 <= parent[i] < i.

    Raises
    ------
    SingularSystemError
        if H is not positive definite, naming the row.
    StateError, ModelError
        if H and parent do not belong together.

    Examples
    --------
    >>> H = [[4.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 4.0]]
    >>> L = ltl(H, [-1, 0, 0])
    >>> bool(np.allclose(L.T @ L, H)), float(L[2, 1])
    (True, 0.0)
    """
    L = ltl_scalars(*check_matrix(H, parent))
    _require_positive(np.diagonal(L))
    return L


def ltl_scalars(H: ScalarArray, parent: IntArray) -> ScalarArray:
    """L (n, n) over scalars of any kind, unchecked; zeros above the diagonal."""
    L = H.copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        ltl_in_situ(L, parent)
    L[np.triu_indices(len(L), 1)] = 0
    return L


@Loop
def ltl_in_situ(H: ScalarArray, parent: IntArray) -> None:
    """Replace the lower triangle of H (n, n) by L ([BIS] section 2, the listing)."""
    for k in range(len(H) - 1, -1, -1):
        H[k, k] = np.sqrt(H[k, k])
        j = parent[k]
        while j >= 0:  # row k of L
            H[k, j] = H[k, j] / H[k, k]
            j = parent[j]
        i = parent[k]
        while i >= 0:  # H = H - L(k, :)' L(k, :), ancestors of k only
            j = i
            while j >= 0:
                H[i, j] = H[i, j] - H[k, i] * H[k, j]
                j = parent[j]
            i = parent[i]


def _require_positive(pivots: Array) -> None:
    """Raise SingularSystemError naming the first pivot (leaf to base) that is not positive."""
    bad = np.flatnonzero(~(pivots > 0))
    if len(bad):
        row = int(bad[-1])
        raise SingularSystemError(
            f"the matrix is not positive definite: pivot {pivots[row]:.3g} at row {row}; the"
            " bodies that freedom moves have no inertia along it: give them mass or armature"
        )


def ltdl(H: ArrayLike, parent: ArrayLike) -> tuple[Array, Array]:
    """Unit lower triangular L (n, n) and diag (n,) with H = L^T diag(diag) L.

    Parameters and errors are those of :func:`ltl`.

    Examples
    --------
    >>> H = [[4.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 4.0]]
    >>> L, diag = ltdl(H, [-1, 0, 0])
    >>> bool(np.allclose(L.T @ np.diag(diag) @ L, H)), L[2].tolist(), diag.tolist()
    (True, [0.5, 0.0, 1.0], [2.5, 2.0, 4.0])
    """
    L, diag = ltdl_scalars(*check_matrix(H, parent))
    _require_positive(diag)
    return L, diag


def ltdl_scalars(H: ScalarArray, parent: IntArray) -> tuple[ScalarArray, ScalarArray]:
    """L (n, n) and diag (n,) over scalars of any kind, unchecked."""
    L = H.copy()
    with np.errstate(invalid="ignore", divide="ignore"):
        ltdl_in_situ(L, parent)
    diag = np.diagonal(L).copy()
    L[np.triu_indices(len(L), 1)] = 0
    np.fill_diagonal(L, 1)
    return L, diag


@Loop
def ltdl_in_situ(H: ScalarArray, parent: IntArray) -> None:
    """Replace the lower triangle of H (n, n) by L below and d on the diagonal."""
    for k in range(len(H) - 1, -1, -1):
        i = parent[k]
        while i >= 0:  # H = H - L(k, :)' d_k L(k, :), ancestors of k only
            a = H[k, i] / H[k, k]
            j = i
            while j >= 0:
                H[i, j] = H[i, j] - H[k, j] * a
                j = parent[j]
            H[k, i] = a
            i = parent[i]


# ---- products ----------------------------------------------------------------------------


def mul_L(L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False) -> ScalarArray:
    """L x for x (n,) or (n, k).

    Examples
    --------
    >>> mul_L([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [1.0, 10.0]).tolist()
    [2.0, 31.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    y = columns.copy()
    mul_L_into(factor, array, columns, y, unit)
    return y.reshape(shape)


def mul_LT(L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False) -> ScalarArray:
    """L^T x for x (n,) or (n, k).

    Examples
    --------
    >>> mul_LT([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [1.0, 10.0]).tolist()
    [12.0, 30.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    y = columns.astype(scalar_type(factor, columns))
    mul_LT_into(factor, array, columns, y, unit)
    return y.reshape(shape)


@Loop
def mul_L_into(
    L: ScalarArray, parent: IntArray, x: ScalarArray, y: ScalarArray, unit: bool
) -> None:
    """Write L x into y (n, k); y may be x itself."""
    for i in range(len(L) - 1, -1, -1):
        for c in range(x.shape[1]):
            y[i, c] = x[i, c] if unit else L[i, i] * x[i, c]
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                y[i, c] = y[i, c] + L[i, j] * x[j, c]
            j = parent[j]


@Loop
def mul_LT_into(
    L: ScalarArray, parent: IntArray, x: ScalarArray, y: ScalarArray, unit: bool
) -> None:
    """Write L^T x into y (n, k), which must not be x."""
    for i in range(len(L)):
        for c in range(x.shape[1]):
            y[i, c] = x[i, c] if unit else L[i, i] * x[i, c]
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                y[j, c] = y[j, c] + L[i, j] * x[i, c]
            j = parent[j]


# ---- solves ------------------------------------------------------------------------------


def solve_L(
    L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False
) -> ScalarArray:
    """L^-1 x for x (n,) or (n, k).

    Examples
    --------
    >>> solve_L([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [2.0, 31.0]).tolist()
    [1.0, 10.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    solve_L_in_situ(factor, array, columns, unit)
    return columns.reshape(shape)


def solve_LT(
    L: ArrayLike, parent: ArrayLike, x: ArrayLike, *, unit: bool = False
) -> ScalarArray:
    """L^-T x for x (n,) or (n, k).

    Examples
    --------
    >>> solve_LT([[2.0, 0.0], [1.0, 3.0]], [-1, 0], [12.0, 30.0]).tolist()
    [1.0, 10.0]
    """
    factor, array, columns, shape = common_scalars(L, parent, x)
    solve_LT_in_situ(factor, array, columns, unit)
    return columns.reshape(shape)


def solve_ltl(L: ArrayLike, parent: ArrayLike, b: ArrayLike) -> ScalarArray:
    """H^-1 b for H = L^T L: back-substitution, 2 n d + 2 D1 (m + a) per vector."""
    factor, array, columns, shape = common_scalars(L, parent, b)
    solve_LT_in_situ(factor, array, columns, False)
    solve_L_in_situ(factor, array, columns, False)
    return columns.reshape(shape)


def solve_ltdl(L: ArrayLike, diag: ArrayLike, parent: ArrayLike, b: ArrayLike) -> ScalarArray:
    """H^-1 b for H = L^T diag(diag) L: n d + 2 D1 (m + a) per vector."""
    factor, array, columns, shape = common_scalars(L, parent, b)
    d = np.asarray(diag)
    if d.shape != (len(factor),):
        raise StateError(f"diag must have shape ({len(factor)},), got {d.shape}")
    solve_LT_in_situ(factor, array, columns, True)
    scaled = np.asarray(columns / d[:, None])
    solve_L_in_situ(factor, array, scaled, True)
    return scaled.reshape(shape)


def solve(H: ArrayLike, parent: ArrayLike, b: ArrayLike) -> Array:
    """x with H x = b, b (n,) or (n, k), through LTDL: O(n d^2) instead of O(n^3).

    Raises
    ------
    SingularSystemError
        if H is not positive definite, naming the row.

    Examples
    --------
    >>> solve([[4.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 4.0]], [-1, 0, 0], [7.0, 3.0, 6.0])
    array([1., 1., 1.])
    """
    L, diag = ltdl(H, parent)
    return solve_ltdl(L, diag, parent, b)


@Loop
def solve_L_in_situ(L: ScalarArray, parent: IntArray, x: ScalarArray, unit: bool) -> None:
    """Replace x (n, k) by L^-1 x."""
    for i in range(len(L)):
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                x[i, c] = x[i, c] - L[i, j] * x[j, c]
            j = parent[j]
        if not unit:
            for c in range(x.shape[1]):
                x[i, c] = x[i, c] / L[i, i]


@Loop
def solve_LT_in_situ(L: ScalarArray, parent: IntArray, x: ScalarArray, unit: bool) -> None:
    """Replace x (n, k) by L^-T x."""
    for i in range(len(L) - 1, -1, -1):
        if not unit:
            for c in range(x.shape[1]):
                x[i, c] = x[i, c] / L[i, i]
        j = parent[i]
        while j >= 0:
            for c in range(x.shape[1]):
                x[j, c] = x[j, c] - L[i, j] * x[i, c]
            j = parent[j]


# ---- vectors and matrices alike as columns (n, k), in one type of scalar -----------------


def scalar_type(*arrays: ScalarArray) -> np.dtype[Any]:
    """Type that holds the scalars of all arrays: at least float64."""
    return np.result_type(np.float64, *arrays)


def as_columns(x: ArrayLike, rows: int, what: str) -> tuple[ScalarArray, tuple[int, ...]]:
    """Contiguous (rows, k) view or copy of x (rows,) or (rows, k), and the shape x had."""
    array = np.asarray(x)
    if array.ndim not in (1, 2) or len(array) != rows:
        raise StateError(f"{what} must have {rows} rows, got shape {array.shape}")
    columns = 1 if array.ndim == 1 else array.shape[1]
    return np.ascontiguousarray(array.reshape(rows, columns)), array.shape


def common_scalars(
    L: ArrayLike, parent: ArrayLike, x: ArrayLike
) -> tuple[ScalarArray, IntArray, ScalarArray, tuple[int, ...]]:
    """L (n, n), parent (n,), x as columns (n, k) of one type of scalar, and the shape of x."""
    factor = np.asarray(L)
    if factor.ndim != 2 or factor.shape[0] != factor.shape[1]:
        raise StateError(f"a square factor L is wanted, got shape {factor.shape}")
    array = check_parent(parent, len(factor))
    columns, shape = as_columns(x, len(factor), "x")
    kind = scalar_type(factor, columns)
    return np.ascontiguousarray(factor, kind), array, columns.astype(kind), shape
