"""The sparse task Jacobian J: its pattern, products with it, J L^-1, Jbar and N ([OSI]).

    y = J^T x                                                                 figure 6
    Yd = J L^-1,  YD = Yd D^-1     for H = L^T D L                            eq. 22, figure 9
    Jbar = L^-1 (YD^T Lambda)                                                 eq. 33
    N = 1 - Jbar J                                                            eq. 10

Yd and YD have the pattern of J; only elements that may be nonzero are visited. Scalars of any
kind. J x and the factor Y for H = L^T L, which no method here needs, are in
``experiments.featherstone2010.runs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.jit import Loop
from dynsys.recursive.sparse_factors import as_columns, scalar_type, solve_L
from dynsys.types import ArrayLike, BoolArray, IntArray, ScalarArray

__all__ = [
    "Pattern",
    "Supports",
    "ancestor",
    "divide_rows",
    "inertia_weighted_inverse",
    "mul_JT",
    "null_space_projection",
    "yd_factors",
]


def ancestor(parent: Sequence[int] | IntArray, p: int, q: int) -> int:
    """Nearest common ancestor of nodes p and q, -1 for the base: ``ancest`` of [OSI].

    Examples
    --------
    >>> ancestor([-1, 0, 0, 1, 1, 2, 2], 3, 4), ancestor([-1, 0, 0, 1, 1, 2, 2], 3, 6)
    (1, 0)
    """
    while p != q:
        if p > q:
            p = int(parent[p])
        else:
            q = int(parent[q])
    return p


Pattern = tuple[IntArray, IntArray, IntArray]


@final
@dataclass(frozen=True, eq=False)
class Supports:
    """Pattern of J: rows ``row[g]`` .. ``row[g + 1] - 1`` of group g, all of equal support.

    That support is ``nodes[start[g]:start[g + 1]]``: descending, closed under parent. [OSI]
    has a row depend on one body, hence on one way to the base, kappa_e(b_e(i)); any set of
    freedoms closed under parent serves coordinates that depend on several bodies as well.
    """

    row: IntArray
    start: IntArray
    nodes: IntArray

    @staticmethod
    def above(
        groups: Sequence[Sequence[int] | IntArray], sizes: Sequence[int], parent: IntArray
    ) -> Supports:
        """Pattern of groups of ``sizes`` rows that depend on the given nodes; -1 adds none.

        Examples
        --------
        >>> tree = np.array([-1, 0, 0, 1, 1, 2, 2])
        >>> Supports.above([[3], [3, 6]], [6, 6], tree).nodes.tolist()
        [3, 1, 0, 6, 3, 2, 1, 0]
        """
        lists = []
        for tips in groups:
            found: set[int] = set()
            for tip in tips:
                node = int(tip)
                while node >= 0 and node not in found:
                    found.add(node)
                    node = int(parent[node])
            lists.append(sorted(found, reverse=True))
        return Supports(
            np.cumsum([0, *sizes]).astype(np.intp),
            np.cumsum([0, *map(len, lists)]).astype(np.intp),
            np.array([k for nodes in lists for k in nodes], dtype=np.intp),
        )

    @property
    def arrays(self) -> Pattern:
        """The three arrays, as the loops take them."""
        return self.row, self.start, self.nodes

    @property
    def m(self) -> int:
        """Number of rows."""
        return int(self.row[-1])

    def mask(self, n: int) -> BoolArray:
        """Pattern as booleans (m, n)."""
        out = np.zeros((self.m, n), dtype=bool)
        for g in range(len(self.row) - 1):
            nodes = self.nodes[self.start[g] : self.start[g + 1]]
            out[self.row[g] : self.row[g + 1], nodes] = True
        return out


# ---- products ---------------------------------------------------------------------------


def mul_JT(J: ArrayLike, supports: Supports, x: ArrayLike) -> ScalarArray:
    """J^T x (n,) or (n, k): sum d_i (m + a) per column."""
    matrix = np.asarray(J)
    columns, shape = as_columns(x, len(matrix), "x")
    kind = scalar_type(matrix, columns)
    y = np.zeros((matrix.shape[1], columns.shape[1]), dtype=kind)
    mul_JT_into(np.ascontiguousarray(matrix, kind), supports.arrays, columns.astype(kind), y)
    return y.reshape(matrix.shape[1], *shape[1:])


@Loop
def mul_JT_into(J: ScalarArray, pattern: Pattern, x: ScalarArray, y: ScalarArray) -> None:
    """Add J^T x to y (n, k) ([OSI] figure 6)."""
    row, start, nodes = pattern
    for g in range(len(row) - 1):
        for i in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                j = nodes[p]
                for c in range(x.shape[1]):
                    y[j, c] = y[j, c] + J[i, j] * x[i, c]


# ---- Y, Jbar, N --------------------------------------------------------------------------


def yd_factors(
    J: ArrayLike, L: ArrayLike, diag: ArrayLike, supports: Supports, parent: IntArray
) -> tuple[ScalarArray, ScalarArray]:
    """Yd = J L^-1 and YD = Yd diag^-1 (m, n) from the factors of H = L^T diag L.

    The diagonal of L is taken as ones, whatever is stored there.
    """
    matrix, factor, d = np.asarray(J), np.asarray(L), np.asarray(diag)
    kind = scalar_type(matrix, factor, d)
    Yd = np.array(matrix, dtype=kind)
    YD = np.zeros(Yd.shape, dtype=kind)
    divide_rows(Yd, np.ascontiguousarray(factor, kind), parent, supports.arrays, True)
    divide_columns(Yd, d.astype(kind), supports.arrays, YD)
    return Yd, YD


@Loop
def divide_rows(
    Y: ScalarArray, L: ScalarArray, parent: IntArray, pattern: Pattern, unit: bool
) -> None:
    """Replace Y (m, n) by Y L^-1 ([OSI] figure 8; with ``unit`` the first half of figure 9)."""
    row, start, nodes = pattern
    for g in range(len(row) - 1):
        for k in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                i = nodes[p]
                if not unit:
                    Y[k, i] = Y[k, i] / L[i, i]
                j = parent[i]
                while j >= 0:
                    Y[k, j] = Y[k, j] - Y[k, i] * L[i, j]
                    j = parent[j]


@Loop
def divide_columns(
    Yd: ScalarArray, diag: ScalarArray, pattern: Pattern, YD: ScalarArray
) -> None:
    """Write Yd diag^-1 into YD (m, n) where the support is ([OSI] figure 9)."""
    row, start, nodes = pattern
    for g in range(len(row) - 1):
        for k in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                YD[k, nodes[p]] = Yd[k, nodes[p]] / diag[nodes[p]]


def inertia_weighted_inverse(
    Y: ArrayLike,
    L: ArrayLike,
    Lambda: ArrayLike,
    supports: Supports,
    parent: IntArray,
    *,
    unit: bool,
) -> ScalarArray:
    """Jbar (n, m): eq. 33 for YD and the unit factor of LTDL, eq. 32 for Y and that of LTL."""
    return solve_L(L, parent, mul_JT(Y, supports, Lambda), unit=unit)


def null_space_projection(J: ArrayLike, Jbar: ArrayLike, supports: Supports) -> ScalarArray:
    """N (n, n) = 1 - Jbar J; its transpose projects torques onto those that do not move xdd."""
    N: ScalarArray = -mul_JT(J, supports, np.asarray(Jbar).T).T
    for k in range(len(N)):
        N[k, k] = 1 + N[k, k]
    return N
