"""Dulmage-Mendelsohn decomposition: which equations can determine which unknowns.

Coarse: a maximum matching of equations with unknowns splits any matrix into

    under   fewer equations than unknowns: no values whatever determine all of them,
    square  as many equations as unknowns, perfectly matched,
    over    more equations than unknowns: equations that check each other,

with  A = [[under, *, *], [0, square, *], [0, 0, over]].

Fine: the strongly connected components of the square part are its irreducible diagonal blocks;
ordered by who needs whom they make it block lower triangular, and only the blocks are factored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from dynsys.errors import StructurallySingularError
from dynsys.jit import Loop
from dynsys.plan.orders.orders import (
    AbstractNested,
    OrderingContext,
    Part,
    Pattern,
    PivotOrder,
    entry_columns,
    require_square,
)
from dynsys.plan.orders.peeling import peel
from dynsys.types import BoolArray, IntArray

__all__ = [
    "BlockTriangular",
    "CoarseDecomposition",
    "block_triangular",
    "coarse_decomposition",
    "matching",
]


def matching(pattern: Pattern) -> IntArray:
    """Column matched to each row (rows,), -1 for none: as many as possible, each column once.

    Peeling matches singletons (some maximum matching contains them), and augmenting paths the
    core: mechanics leaves little to augment, so that it runs in about linear time. (Hopcroft
    and Karp's algorithm as SciPy has it takes minutes on a shuffled triangular matrix of 10^5
    rows.)
    """
    peeling = peel(pattern)
    column_of_row = np.full(pattern.shape[0], -1, dtype=np.intp)
    for peeled in (peeling.first, peeling.last):
        column_of_row[peeled.rows] = peeled.cols
    rows, cols = peeling.core
    if len(rows) and len(cols):
        core = OrderingContext().restricted(pattern, peeling.core)[0].tocsr()
        found = _augmented(
            *core.shape, core.indptr.astype(np.int64), core.indices.astype(np.int64)
        )
        column_of_row[rows] = np.where(found >= 0, cols[found], -1)
    return column_of_row


@Loop
def _augmented(n_rows: Any, n_cols: Any, start: Any, cols: Any) -> Any:
    """Greedy matching, then a shortest augmenting path from every row left over."""
    column_of, row_of = np.full(n_rows, -1, np.int64), np.full(n_cols, -1, np.int64)
    for r in range(n_rows):
        for e in range(start[r], start[r + 1]):
            if row_of[cols[e]] < 0:
                row_of[cols[e]], column_of[r] = r, cols[e]
                break
    seen = np.full(n_cols, -1, np.int64)  # last search that met a column
    came_from = np.zeros(n_cols, np.int64)  # row from which it was met
    queue = np.zeros(n_rows + 1, np.int64)
    for root in range(n_rows):
        if column_of[root] >= 0:
            continue
        queue[0], head, tail, free = root, 0, 1, -1
        while head < tail and free < 0:
            r = queue[head]
            head += 1
            for e in range(start[r], start[r + 1]):
                c = cols[e]
                if seen[c] == root:
                    continue
                seen[c], came_from[c] = root, r
                if row_of[c] < 0:
                    free = c
                    break
                queue[tail] = row_of[c]
                tail += 1
        while free >= 0:  # flip the path back to its root
            r = came_from[free]
            before = column_of[r]
            column_of[r], row_of[free] = free, r
            free = before if r != root else -1
    return column_of


class CoarseDecomposition(NamedTuple):
    """Rows and columns of the three parts; ``column_of_row`` is the matching behind it."""

    under: Part
    square: Part
    over: Part
    column_of_row: IntArray

    @property
    def structural_rank(self) -> int:
        """Largest rank that a matrix of this pattern can have."""
        return int((self.column_of_row >= 0).sum())


def coarse_decomposition(pattern: Pattern) -> CoarseDecomposition:
    """Coarse Dulmage-Mendelsohn decomposition of a matrix of any shape.

    Examples
    --------
    >>> from scipy.sparse import csc_array
    >>> A = csc_array(np.array([[1, 1, 0], [0, 0, 1], [0, 0, 1]], dtype=bool))
    >>> parts = coarse_decomposition(A)
    >>> parts.under.cols.tolist(), parts.over.rows.tolist(), parts.structural_rank
    ([0, 1], [1, 2], 2)
    """
    n_rows, n_cols = pattern.shape
    column_of_row = matching(pattern)
    matched = np.flatnonzero(column_of_row >= 0)
    unmatched_cols = np.setdiff1d(np.arange(n_cols), column_of_row[matched])
    unmatched_rows = np.flatnonzero(column_of_row < 0)
    # nodes: rows, then columns; edges column -> row, and row -> column along the matching
    rows = pattern.indices.astype(np.intp)
    cols = entry_columns(pattern)
    there, back = (n_rows + cols, rows), (matched, n_rows + column_of_row[matched])
    under = _reachable(n_rows + n_cols, there, back, n_rows + unmatched_cols)
    over = _reachable(n_rows + n_cols, there[::-1], back[::-1], unmatched_rows)
    parts = [
        Part(np.flatnonzero(nodes[:n_rows]), np.flatnonzero(nodes[n_rows:]))
        for nodes in (under, ~(under | over), over)
    ]
    return CoarseDecomposition(parts[0], parts[1], parts[2], column_of_row)


def _reachable(
    n: int, there: tuple[IntArray, ...], back: tuple[IntArray, ...], starts: IntArray
) -> BoolArray:
    """Nodes on alternating paths from ``starts``: one more node leads to all of them."""
    if not len(starts):
        return np.zeros(n, dtype=bool)
    tails = np.concatenate([there[0], back[0], np.full(len(starts), n)])
    heads = np.concatenate([there[1], back[1], starts])
    graph = csr_array((np.ones(len(tails), np.int8), (tails, heads)), shape=(n + 1, n + 1))
    reached = np.zeros(n + 1, dtype=bool)
    reached[breadth_first_order(graph, n, return_predecessors=False)] = True
    return reached[:n]


def block_triangular(pattern: Pattern) -> list[Part]:
    """Irreducible blocks (rows, columns) that make a regular square matrix block lower
    triangular, in that order; entry k of rows and of columns are matched.

    Raises
    ------
    StructurallySingularError
        if no perfect matching exists.
    """
    n = require_square(pattern)
    column_of_row = matching(pattern)
    if (column_of_row < 0).any():
        raise StructurallySingularError(
            f"only {int((column_of_row >= 0).sum())} of {n} equations can each be given an"
            " unknown of their own; coarse_decomposition says which unknowns stay open"
        )
    row_of_column = np.empty(n, dtype=np.intp)
    row_of_column[column_of_row] = np.arange(n)
    # equation r needs column c, which equation row_of_column[c] gives
    needed_by = pattern.indices
    gives = row_of_column[entry_columns(pattern)]
    graph = csr_array((np.ones(len(gives), np.int8), (gives, needed_by)), shape=(n, n))
    n_blocks, labels = connected_components(graph, directed=True, connection="strong")
    label = labels.astype(np.intp)
    rank = np.empty(n_blocks, dtype=np.intp)
    rank[_topological(n_blocks, label[gives], label[needed_by])] = np.arange(n_blocks)
    block = rank[label]
    rows = np.argsort(block, kind="stable")
    bounds = np.searchsorted(block[rows], np.arange(n_blocks + 1))
    return [Part(rows[a:b], column_of_row[rows[a:b]]) for a, b in pairwise(bounds.tolist())]


def _topological(n: int, tails: IntArray, heads: IntArray) -> IntArray:
    """Order of n nodes in which every edge goes forward."""
    import networkx as nx  # half a second that only this order needs

    between = tails != heads
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(zip(tails[between].tolist(), heads[between].tolist(), strict=True))
    return np.fromiter(nx.topological_sort(graph), dtype=np.intp, count=n)


@final
@dataclass(frozen=True)
class BlockTriangular(AbstractNested):
    """Block lower triangular form; every block of more than one row is ordered by ``inner``."""

    outer: ClassVar[str] = "block triangular"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        return self.joined(
            self.order_part(pattern, context, block) if len(block.rows) > 1 else block
            for block in block_triangular(pattern)
        )
