"""What factorising, multiplying and solving with a tree's sparsity costs ([BIS] section 4).

d_i is the depth of node i, the base at 0 ([BIS] section 4.1):

    D0 = sum min(1, d_i - 1)    D1 = sum (d_i - 1)    D2 = sum d_i (d_i - 1) / 2    eq. 15, 8, 9

D1 elements of H lie below its diagonal; D2 elements are updated while it is factorised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.expanded import depths
from dynsys.program.counting import OperationCount
from dynsys.recursive.sparse_factors import check_parent
from dynsys.types import ArrayLike

__all__ = [
    "CLOSED_FORMS",
    "TreeSums",
    "balanced_tree_sums",
    "factor_count",
    "product_count",
    "side_branches_sums",
    "solve_count",
    "spanning_grid_sums",
    "tree_sums",
    "triangular_solve_count",
    "unbranched_sums",
]


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
        len(d),
        int(np.minimum(1, above).sum()),
        int(above.sum()),
        int((d * above // 2).sum()),
    )


# ---- closed forms of [BIS] table 2 -------------------------------------------------------


def unbranched_sums(n: int) -> TreeSums:
    """Chain of n nodes, the dense case."""
    n = _whole(n)
    return TreeSums(n, n - 1, (n * n - n) // 2, (n**3 - n) // 6)


def side_branches_sums(m: int) -> TreeSums:
    """Chain of m nodes with one short side branch each, n = 2 m ([BIS] figure 4a)."""
    m = _whole(m)
    return TreeSums(2 * m, 2 * m - 1, m * m, (2 * m**3 + 3 * m * m + m) // 6)


def balanced_tree_sums(m: int) -> TreeSums:
    """Balanced binary tree of m levels, n = 2^m - 1 ([BIS] figure 4b)."""
    m = _whole(m)
    D1 = sum(i * 2**i for i in range(1, m))
    D2 = sum(i * (i + 1) * 2 ** (i - 1) for i in range(1, m))
    return TreeSums(2**m - 1, 2**m - 2, D1, D2)


def spanning_grid_sums(m: int) -> TreeSums:
    """Spanning tree of an m x m grid along shortest paths, n = m^2 ([BIS] figure 4c)."""
    m = _whole(m)
    return TreeSums(m * m, m * m - 1, m**3 - m * m, (7 * m**4 - 6 * m**3 - m * m) // 12)


CLOSED_FORMS = {
    "unbranched": unbranched_sums,
    "short side branches": side_branches_sums,
    "balanced tree": balanced_tree_sums,
    "spanning grid": spanning_grid_sums,
}


def _whole(value: int) -> int:
    if value < 1:
        raise ModelError(f"the size of a tree must be a whole number >= 1, got {value!r}")
    return value


# ---- operation counts of [BIS] table 1 ---------------------------------------------------


def factor_count(sums: TreeSums, *, unit: bool) -> OperationCount:
    """Factorise: LTDL if ``unit`` (no square roots), else LTL."""
    return OperationCount(sums.D2, sums.D2, sums.D1, 0 if unit else sums.n)


def product_count(sums: TreeSums, *, unit: bool) -> OperationCount:
    """L x or L^T x for one vector."""
    return OperationCount(sums.D1 + (0 if unit else sums.n), sums.D1)


def triangular_solve_count(sums: TreeSums, *, unit: bool) -> OperationCount:
    """L^-1 x or L^-T x for one vector."""
    return OperationCount(sums.D1, sums.D1, 0 if unit else sums.n)


def solve_count(sums: TreeSums, *, unit: bool) -> OperationCount:
    """Back-substitute: x = H^-1 b for one vector, from LTDL factors if ``unit``, else LTL's."""
    return OperationCount(2 * sums.D1, 2 * sums.D1, sums.n if unit else 2 * sums.n)
