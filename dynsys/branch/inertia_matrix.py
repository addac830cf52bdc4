"""Composite-rigid-body algorithm as a compiled loop: H without touching its zeros. O(n d).

The listing of [BIS] section 5 for joints of any number of freedoms. It is the twin, for numbers
and robots of any size, of :func:`dynsys.crba`, which runs on scalars of any kind.
"""

from __future__ import annotations

import numpy as np

from dynsys.branch.compiled import Loop
from dynsys.branch.packed import PackedTree
from dynsys.types import Array, IntArray

__all__ = ["composite_rigid_bodies", "inertia_matrix"]


def inertia_matrix(tree: PackedTree, X: Array) -> Array:
    """Joint-space inertia matrix H (nv, nv) from the motion transforms X (N, 6, 6)."""
    H = np.zeros((len(tree.S), len(tree.S)))
    composite_rigid_bodies(tree.parent, X, tree.inertia.copy(), tree.S, tree.first, H)
    H[np.diag_indices(len(H))] += tree.armature
    return H


@Loop
def composite_rigid_bodies(
    parent: IntArray, X: Array, composite: Array, S: Array, first: IntArray, H: Array
) -> None:
    """Fill H (nv, nv) where the pattern is; ``composite`` (N, 6, 6) starts as the inertias."""
    f, g, half = np.empty(6), np.empty(6), np.empty((6, 6))
    for i in range(len(parent) - 1, -1, -1):
        for k in range(first[i], first[i + 1]):
            for r in range(6):  # f = composite_i s_k
                f[r] = 0.0
                for c in range(6):
                    f[r] += composite[i, r, c] * S[k, c]
            j = i
            while j >= 0:
                for other in range(first[j], first[j + 1]):
                    element = 0.0
                    for r in range(6):
                        element += f[r] * S[other, r]
                    H[k, other] = H[other, k] = element  # [BIS] eq. (5)
                if parent[j] >= 0:
                    for c in range(6):  # f = X_j' f
                        g[c] = 0.0
                        for r in range(6):
                            g[c] += X[j, r, c] * f[r]
                    f[:] = g
                j = parent[j]
        if parent[i] >= 0:
            for r in range(6):
                for c in range(6):
                    half[r, c] = 0.0
                    for k in range(6):
                        half[r, c] += composite[i, r, k] * X[i, k, c]
            for r in range(6):
                for c in range(6):
                    for k in range(6):
                        composite[parent[i], r, c] += X[i, k, r] * half[k, c]
