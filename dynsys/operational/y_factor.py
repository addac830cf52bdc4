"""Sparse factors of the operational-space inverse inertia ([OSI] sections 6 and 8).

    Y = J L^-1                               Lambda^-1 = Y Y^T        eq. 20, 21   figure 8
    Yd = J Ld^-1,  YD = Yd D^-1              Lambda^-1 = YD Yd^T      eq. 22, 23   figure 9

for H = L^T L or H = Ld^T D Ld. Y, Yd and YD have the pattern of J. Cost O(m d^2 + m^2 d).
Scalars of any kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.jit import Loop
from dynsys.recursive.sparse_factors import as_columns, scalar_type
from dynsys.types import ArrayLike, BoolArray, IntArray, ScalarArray

__all__ = [
    "Supports",
    "ancestor",
    "lambda_inverse",
    "mul_J",
    "mul_JT",
    "mul_JT_into",
    "mul_J_into",
    "y_factor",
    "yd_factors",
]


def y_factor(J: ArrayLike, L: ArrayLike, supports: Supports, parent: IntArray) -> ScalarArray:
    """Y = J L^-1 (m, n) from the factor L of H = L^T L."""
    matrix, factor = np.asarray(J), np.asarray(L)
    kind = scalar_type(matrix, factor)
    Y = np.array(matrix, dtype=kind)
    divide_rows(Y, np.ascontiguousarray(factor, kind), parent, *supports.arrays, False)
    return Y


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
    divide_rows(Yd, np.ascontiguousarray(factor, kind), parent, *supports.arrays, True)
    divide_columns(Yd, d.astype(kind), *supports.arrays, YD)
    return Yd, YD


def lambda_inverse(left: ArrayLike, right: ArrayLike, supports: Supports) -> ScalarArray:
    """Lambda^-1 (m, m) = left right^T, symmetric: (Y, Y) or (YD, Yd) ([OSI] figure 10)."""
    a, b = np.asarray(left), np.asarray(right)
    kind = scalar_type(a, b)
    out = np.zeros((len(a), len(a)), dtype=kind)
    common = np.empty(a.shape[1], dtype=np.intp)
    multiply_supported(
        np.ascontiguousarray(a, kind),
        np.ascontiguousarray(b, kind),
        *supports.arrays,
        common,
        out,
    )
    return out


@Loop
def divide_rows(
    Y: ScalarArray,
    L: ScalarArray,
    parent: IntArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    unit: bool,
) -> None:
    """Replace Y (m, n) by Y L^-1 ([OSI] figure 8; with ``unit`` the first half of figure 9)."""
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
    Yd: ScalarArray,
    diag: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    YD: ScalarArray,
) -> None:
    """Write Yd diag^-1 into YD (m, n) where the support is ([OSI] figure 9)."""
    for g in range(len(row) - 1):
        for k in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                YD[k, nodes[p]] = Yd[k, nodes[p]] / diag[nodes[p]]


@Loop
def multiply_supported(
    left: ScalarArray,
    right: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    common: IntArray,
    out: ScalarArray,
) -> None:
    """Write left right^T, assumed symmetric, over common supports ([OSI] eq. 31, figure 10).

    The common support of two groups is found once, by merging; of two ways to the base it is
    the way of their nearest common ancestor. ``common`` (n,) is scratch.
    """
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


# ----------------------------------------------------------------------
# Supports: the freedoms at which rows of J, Y, Yd and YD may be nonzero.
#
# [OSI] writes the support of a row that depends on one body as kappa_e(b_e(i)), a way to the
# base. Here it is any set of freedoms closed under ``parent``, so that the same loops also
# serve
# coordinates that depend on several bodies. Rows come in groups of equal support.


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


@final
@dataclass(frozen=True, eq=False)
class Supports:
    """Pattern of J: rows ``row[g]`` .. ``row[g + 1] - 1`` of group g, all of equal support.

    That support is ``nodes[start[g]:start[g + 1]]``: descending, closed under parent.
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

    @staticmethod
    def of_rows(b_e: Sequence[int] | IntArray, parent: IntArray) -> Supports:
        """Pattern of rows that depend on one body each: b_e (m,) of [OSI] figure 4, 0-based.

        ``b_e`` is ``last_freedom(robot)[bodies]``, ``parent`` is ``expanded_parent(robot)``.
        """
        runs: list[list[int]] = []
        for node in map(int, b_e):
            if runs and runs[-1][0] == node:
                runs[-1].append(node)
            else:
                runs.append([node])
        return Supports.above([run[:1] for run in runs], [len(run) for run in runs], parent)

    @property
    def arrays(self) -> tuple[IntArray, IntArray, IntArray]:
        """The three arrays, as the loops take them."""
        return self.row, self.start, self.nodes

    @property
    def m(self) -> int:
        """Number of rows."""
        return int(self.row[-1])

    @property
    def depths(self) -> IntArray:
        """d_i of [OSI] table 1: number of elements of every row that may be nonzero."""
        return np.repeat(np.diff(self.start), np.diff(self.row))

    def mask(self, n: int) -> BoolArray:
        """Pattern as booleans (m, n)."""
        out = np.zeros((self.m, n), dtype=bool)
        for g in range(len(self.row) - 1):
            nodes = self.nodes[self.start[g] : self.start[g + 1]]
            out[self.row[g] : self.row[g + 1], nodes] = True
        return out


# ----------------------------------------------------------------------
# Products with a sparse Jacobian: J x and J^T x ([OSI] figures 5 and 6, table 1).
#
# They visit only elements that may be nonzero, and serve Y, Yd and YD as well. ``x`` is a
# vector
# or a matrix of columns; scalars of any kind.


def mul_J(J: ArrayLike, supports: Supports, x: ArrayLike) -> ScalarArray:
    """J x (m,) or (m, k): sum d_i m + (d_i - 1) a per column."""
    matrix = np.asarray(J)
    columns, shape = as_columns(x, matrix.shape[1], "x")
    kind = scalar_type(matrix, columns)
    y = np.zeros((len(matrix), columns.shape[1]), dtype=kind)
    mul_J_into(np.ascontiguousarray(matrix, kind), *supports.arrays, columns.astype(kind), y)
    return y.reshape(len(matrix), *shape[1:])


def mul_JT(J: ArrayLike, supports: Supports, x: ArrayLike) -> ScalarArray:
    """J^T x (n,) or (n, k): sum d_i (m + a) per column."""
    matrix = np.asarray(J)
    columns, shape = as_columns(x, len(matrix), "x")
    kind = scalar_type(matrix, columns)
    y = np.zeros((matrix.shape[1], columns.shape[1]), dtype=kind)
    mul_JT_into(np.ascontiguousarray(matrix, kind), *supports.arrays, columns.astype(kind), y)
    return y.reshape(matrix.shape[1], *shape[1:])


@Loop
def mul_J_into(
    J: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    x: ScalarArray,
    y: ScalarArray,
) -> None:
    """Write J x into y (m, k); rows without support stay as they are ([OSI] figure 5)."""
    for g in range(len(row) - 1):
        for i in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                j = nodes[p]
                for c in range(x.shape[1]):
                    if p == start[g]:
                        y[i, c] = J[i, j] * x[j, c]
                    else:
                        y[i, c] = y[i, c] + J[i, j] * x[j, c]


@Loop
def mul_JT_into(
    J: ScalarArray,
    row: IntArray,
    start: IntArray,
    nodes: IntArray,
    x: ScalarArray,
    y: ScalarArray,
) -> None:
    """Add J^T x to y (n, k) ([OSI] figure 6)."""
    for g in range(len(row) - 1):
        for i in range(row[g], row[g + 1]):
            for p in range(start[g], start[g + 1]):
                j = nodes[p]
                for c in range(x.shape[1]):
                    y[j, c] = y[j, c] + J[i, j] * x[i, c]
