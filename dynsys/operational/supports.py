"""Supports: the freedoms at which rows of J, Y, Yd and YD may be nonzero.

[OSI] writes the support of a row that depends on one body as kappa_e(b_e(i)), a way to the
base. Here it is any set of freedoms closed under ``parent``, so that the same loops also serve
coordinates that depend on several bodies. Rows come in groups of equal support.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.types import BoolArray, IntArray

__all__ = ["Supports", "ancestor"]


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
