"""What factorising, multiplying and solving with a tree's sparsity costs, and H ([BIS]).

Counts in the sums D0, D1, D2 over the depths of a tree (eq. 15, 8, 9;
:func:`dynsys.recursive.sparse_factors.tree_sums`): table 1, and the composite-rigid-body
algorithm on a branched tree (section 5):

    D0a (ra + rxa) + D1a vxa + D0b (ra + rxb) + D1b vxb - savings at a floating base    eq. 21

ra adds two rigid-body inertias, rx transforms one, vx transforms a vector. The subscript a
stands for DH nodes, whose frame is two axial screws from the parent's; of the children of a
node only one can be such, the others (b) need a general transform, three screws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynsys.errors import ModelError
from dynsys.recursive.sparse_factors import TreeSums, check_parent
from dynsys.types import ArrayLike, BoolArray, IntArray
from experiments.counting import OperationCount

__all__ = [
    "CrbaSums",
    "crba_count",
    "crba_sums",
    "dh_nodes",
    "factor_count",
    "product_count",
    "rnea_count",
    "solve_count",
    "subtree_sizes",
    "triangular_solve_count",
    "unbranched_sums",
]

# ---- the dense case ----------------------------------------------------------------------


def unbranched_sums(n: int) -> TreeSums:
    """Chain of n nodes, the dense case."""
    if n < 1:
        raise ModelError(f"the size of a tree must be a whole number >= 1, got {n!r}")
    return TreeSums(n, n - 1, (n * n - n) // 2, (n**3 - n) // 6)


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


# ---- the composite-rigid-body algorithm, [BIS] section 5 ---------------------------------

ADD_RIGID = OperationCount(0, 10)
"""ra of [BIS] section 5."""
SCREWS_RIGID = {2: OperationCount(32, 33), 3: OperationCount(47, 48)}
"""rx by number of axial screws."""
SCREWS_VECTOR = {2: OperationCount(20, 12), 3: OperationCount(24, 18)}
"""vx by number of axial screws; the general one is a rotation matrix and a cross product."""
SAVED_RIGID, SAVED_VECTOR = OperationCount(18, 21), OperationCount(12, 8)
"""What rx and vx save at a DH node on a floating base ([BIS] eq. 21)."""


class CrbaSums(NamedTuple):
    """D0a, D1a (DH nodes), D0b, D1b (others), D0c, D1c (DH nodes on a floating base)."""

    D0a: int
    D1a: int
    D0b: int
    D1b: int
    D0c: int
    D1c: int


def subtree_sizes(parent: ArrayLike) -> IntArray:
    """|nu(i)|: number of nodes of each subtree, its root included."""
    array = check_parent(parent)
    sizes = np.ones(len(array), dtype=np.intp)
    for i in range(len(array) - 1, -1, -1):
        if array[i] >= 0:
            sizes[array[i]] += sizes[i]
    return sizes


def dh_nodes(parent: ArrayLike) -> BoolArray:
    """Which nodes get Denavit-Hartenberg frames: of every node's children the largest subtree.

    This choice maximises D1a, hence is optimal ([BIS] after eq. 20); ties go to the first
    child. The number of the others is [BIS] eq. (17).

    Examples
    --------
    >>> dh_nodes([-1, 0, 0, 2]).tolist()
    [True, False, True, True]
    """
    array, sizes = check_parent(parent), subtree_sizes(parent)
    best: dict[int, int] = {}
    for i, p in enumerate(array.tolist()):
        if p not in best or sizes[i] > sizes[best[p]]:
            best[p] = i
    chosen = np.zeros(len(array), dtype=bool)
    chosen[list(best.values())] = True
    return chosen


def crba_sums(
    parent: ArrayLike, *, floating_base: bool = False, dh: BoolArray | None = None
) -> CrbaSums:
    """D0a ... D1c of [BIS] eq. (19) and (21), from the body parent array (N,).

    ``floating_base`` says that bodies on the base hang there by a 6-DoF joint. ``dh`` marks
    the DH nodes, by default :func:`dh_nodes`.
    """
    array, sizes = check_parent(parent), subtree_sizes(parent)
    chosen = dh_nodes(parent) if dh is None else dh
    inner = array >= 0
    a, b = inner & chosen, inner & ~chosen
    on_base = np.zeros(len(array), dtype=bool)
    if floating_base:
        on_base[inner] = array[array[inner]] < 0
    c = a & on_base
    return CrbaSums(
        int(a.sum()),
        int(sizes[a].sum()),
        int(b.sum()),
        int(sizes[b].sum()),
        int(c.sum()),
        int(sizes[c].sum()),
    )


def crba_count(sums: CrbaSums) -> OperationCount:
    """Cost of H ([BIS] eq. 21; eq. 20 where D0c = D1c = 0), all joints revolute.

    Examples
    --------
    >>> str(crba_count(crba_sums([-1, *range(24)], floating_base=True)))
    '6462m + 4419a'
    """
    return (
        sums.D0a * (ADD_RIGID + SCREWS_RIGID[2])
        + sums.D1a * SCREWS_VECTOR[2]
        + sums.D0b * (ADD_RIGID + SCREWS_RIGID[3])
        + sums.D1b * SCREWS_VECTOR[3]
        - sums.D0c * SAVED_RIGID
        - sums.D1c * SAVED_VECTOR
    )


def rnea_count(n_bodies: int, non_dh: int, *, floating_base: bool) -> OperationCount:
    """Cost of C by Balafoutis, Patel and Misra's RNEA, as [BIS] section 6 corrects it.

    (93 N - 69) m + (81 N - 66) a, 7 m + 13 a more for a 6-DoF joint on the base and 4 m + 8 a
    for every node that is no DH node.
    """
    base = OperationCount(7, 13) if floating_base else OperationCount()
    chain = OperationCount(93 * n_bodies - 69, 81 * n_bodies - 66)
    return chain + base + non_dh * OperationCount(4, 8)
