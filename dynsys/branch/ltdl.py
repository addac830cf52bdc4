"""LTDL factorisation H = L^T diag(d) L without fill-in ([BIS] appendix). D1 d + D2 (m + a).

L is unit lower triangular with the sparsity of the tree; no square roots.
"""

from __future__ import annotations

import numpy as np

from dynsys.branch.compiled import Loop
from dynsys.branch.ltl import require_positive
from dynsys.branch.pattern import check_matrix
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = ["ltdl", "ltdl_in_situ", "ltdl_scalars"]


def ltdl(H: ArrayLike, parent: ArrayLike) -> tuple[Array, Array]:
    """Unit lower triangular L (n, n) and diag (n,) with H = L^T diag(diag) L.

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
    >>> L, diag = ltdl(H, [-1, 0, 0])
    >>> bool(np.allclose(L.T @ np.diag(diag) @ L, H)), L[2].tolist(), diag.tolist()
    (True, [0.5, 0.0, 1.0], [2.5, 2.0, 4.0])
    """
    F, array = check_matrix(H, parent)
    with np.errstate(invalid="ignore", divide="ignore"):
        ltdl_in_situ(F, array)
    diag = np.diagonal(F).copy()
    require_positive(diag)
    L = np.tril(F, -1)
    np.fill_diagonal(L, 1.0)
    return L, diag


def ltdl_scalars(H: ScalarArray, parent: IntArray) -> tuple[ScalarArray, ScalarArray]:
    """L (n, n) and diag (n,) over scalars of any kind, unchecked."""
    L = H.copy()
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
        while i >= 0:
            a = H[k, i] / H[k, k]
            j = i
            while j >= 0:
                H[i, j] = H[i, j] - H[k, j] * a
                j = parent[j]
            H[k, i] = a
            i = parent[i]
