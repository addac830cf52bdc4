"""Lambda^-1 = YD Yd^T with the sparse factors of H = L^T D L ([OSI] sections 6 and 8).

    Yd = J L^-1,  YD = Yd D^-1          Lambda^-1 = YD Yd^T          eq. 22, 23   figure 9

Likewise Lambda^-1 = Y Y^T for the factor of H = L^T L (eq. 20, 21). Yd and YD have the pattern
of J (:mod:`dynsys.operational.sparse_jacobian`). Cost O(n d^2 + m d^2 + m^2 d).
"""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.tree_state import TreeState
from dynsys.operational.method import AbstractMethod
from dynsys.operational.sparse_jacobian import Pattern, Supports, yd_factors
from dynsys.recursive.sparse_factors import scalar_type
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = ["Method", "lambda_inverse"]


@final
class Method(AbstractMethod):
    """CRBA, LTDL, Yd and YD, product: O(n d^2 + m d^2 + m^2 d)."""

    def lambda_inv(self, state: TreeState) -> Array:
        L, diag = state.ltdl
        supports, parent = self.space.supports, self.tree.freedom_parent
        Yd, YD = yd_factors(self.space.jacobian(state), L, diag, supports, parent)
        return np.asarray(lambda_inverse(YD, Yd, supports))


def lambda_inverse(left: ArrayLike, right: ArrayLike, supports: Supports) -> ScalarArray:
    """Lambda^-1 (m, m) = left right^T, symmetric: (Y, Y) or (YD, Yd) ([OSI] figure 10)."""
    a, b = np.asarray(left), np.asarray(right)
    kind = scalar_type(a, b)
    out = np.zeros((len(a), len(a)), dtype=kind)
    common = np.empty(a.shape[1], dtype=np.intp)
    multiply_supported(
        np.ascontiguousarray(a, kind),
        np.ascontiguousarray(b, kind),
        supports.arrays,
        common,
        out,
    )
    return out


@Loop
def multiply_supported(
    left: ScalarArray, right: ScalarArray, pattern: Pattern, common: IntArray, out: ScalarArray
) -> None:
    """Write left right^T, assumed symmetric, over common supports ([OSI] eq. 31, figure 10).

    The common support of two groups is found once, by merging; of two ways to the base it is
    the way of their nearest common ancestor. ``common`` (n,) is scratch.
    """
    row, start, nodes = pattern
    for g in range(len(row) - 1):
        for h in range(g + 1):
            size, p, q = 0, start[g], start[h]
            while p < start[g + 1] and q < start[h + 1]:
                if nodes[p] == nodes[q]:
                    common[size] = nodes[p]
                    size, p, q = size + 1, p + 1, q + 1
                elif nodes[p] > nodes[q]:
                    p += 1
                else:
                    q += 1
            for i in range(row[g], row[g + 1]):
                for j in range(row[h], min(row[h + 1], i + 1)):
                    for s in range(size):
                        k = common[s]
                        if s == 0:
                            out[i, j] = left[i, k] * right[j, k]
                        else:
                            out[i, j] = out[i, j] + left[i, k] * right[j, k]
                    out[j, i] = out[i, j]
