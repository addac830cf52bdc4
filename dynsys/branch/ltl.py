"""LTL factorisation H = L^T L without fill-in ([BIS] section 2). Cost n s + D1 d + D2 (m + a).

A Cholesky factorisation that runs backwards: rows from the leaves to the base, and within a row
only over the ancestors. Zeros that branches put into H stay zeros in L.
"""

from __future__ import annotations

import numpy as np

from dynsys.branch.compiled import Loop
from dynsys.branch.pattern import check_matrix
from dynsys.errors import SingularSystemError
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = ["ltl", "ltl_in_situ", "ltl_scalars"]


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
    L, array = check_matrix(H, parent)
    with np.errstate(invalid="ignore", divide="ignore"):
        ltl_in_situ(L, array)
    require_positive(np.diagonal(L))
    return np.tril(L)


def ltl_scalars(H: ScalarArray, parent: IntArray) -> ScalarArray:
    """L (n, n) over scalars of any kind, unchecked; zeros above the diagonal."""
    L = H.copy()
    ltl_in_situ(L, parent)
    L[np.triu_indices(len(L), 1)] = 0
    return L


@Loop
def ltl_in_situ(H: ScalarArray, parent: IntArray) -> None:
    """Replace the lower triangle of H (n, n) by L ([BIS] section 2, the listing)."""
    for k in range(len(H) - 1, -1, -1):
        H[k, k] = np.sqrt(H[k, k])
        j = parent[k]
        while j >= 0:
            H[k, j] = H[k, j] / H[k, k]
            j = parent[j]
        i = parent[k]
        while i >= 0:
            j = i
            while j >= 0:
                H[i, j] = H[i, j] - H[k, i] * H[k, j]
                j = parent[j]
            i = parent[i]


def require_positive(pivots: Array) -> None:
    """Raise SingularSystemError naming the first pivot (leaf to base) that is not positive."""
    bad = np.flatnonzero(~(pivots > 0))
    if len(bad):
        row = int(bad[-1])
        raise SingularSystemError(
            f"the matrix is not positive definite: pivot {pivots[row]:.3g} at row {row}; the"
            " bodies that freedom moves have no inertia along it: give them mass or armature"
        )
