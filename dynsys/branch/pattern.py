"""Branch-induced sparsity: where a matrix that belongs to a tree may be nonzero.

    H_ij = 0 unless one of i, j supports the other    [BIS] eq. (6)
    L_ij = 0 unless j supports i

``parent`` has one entry per row, -1 <= parent[i] < i ([BIS] eq. 2, 0-based); for a robot it is
``expanded_parent(robot)``. It need not come from a robot: parent[i] = i - 1 means dense.
"""

from __future__ import annotations

import numpy as np

from dynsys.branch.compiled import Loop
from dynsys.errors import ModelError, StateError
from dynsys.types import Array, ArrayLike, BoolArray, IntArray

__all__ = ["check_matrix", "check_parent", "first_outside", "support_mask"]

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
