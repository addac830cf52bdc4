"""What operational-space quantities cost: sparse, dense, and by the RJK recursion ([OSI]).

Table 1: d_i is the number of nonzeros of row i of J, d_ij that of the common support of rows i
and j. Appendix B, table 4: joints revolute, frames that are axial screws apart; a DH node is
two axial screws from its parent, any other node three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynsys.model.expanded import depths
from dynsys.operational.methods.rjk import needed_blocks
from dynsys.operational.sparse_jacobian import Supports, ancestor
from dynsys.types import BoolArray, IntArray
from experiments.counting import OperationCount
from experiments.featherstone2005.counts import dh_nodes

__all__ = [
    "RjkTransforms",
    "dense_counts",
    "omega_count",
    "propagator_count",
    "rjk_transforms",
    "row_depths",
    "sparse_counts",
    "supports_of_rows",
]


def supports_of_rows(b_e: Sequence[int] | IntArray, parent: IntArray) -> Supports:
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


def row_depths(supports: Supports) -> IntArray:
    """d_i of [OSI] table 1: number of elements of every row that may be nonzero."""
    return np.repeat(np.diff(supports.start), np.diff(supports.row))


def sparse_counts(supports: Supports, parent: IntArray) -> dict[str, OperationCount]:
    """Cost of each operation of [OSI] table 1, sparse column.

    Keys: "J x", "J^T x" (one vector), "Y" (also Yd and YD together), "Lambda^-1" (lower
    triangle), "Jbar LTL", "Jbar LTDL", "N". ``parent`` (n,) is the expanded parent array. The
    table's d_i (d_i - 1) / 2 for Y is the sum of (depth - 1) over the way of one body; here it
    is that sum over the support, so that rows of several bodies are counted as well.
    """
    d, m, n = row_depths(supports), supports.m, len(parent)
    above = depths(parent) - 1
    inside = supports.mask(n).astype(np.int64)
    pairs = (inside @ inside.T)[np.tril_indices(m)]  # d_ij
    total, halves = int(d.sum()), int((inside @ above).sum())
    moved = m * (int(above.sum()) + total)
    return {
        "J x": OperationCount(total, int(np.maximum(0, d - 1).sum())),
        "J^T x": OperationCount(total, total),
        "Y": OperationCount(halves, halves, total),
        "Lambda^-1": OperationCount(int(pairs.sum()), int(np.maximum(0, pairs - 1).sum())),
        "Jbar LTL": OperationCount(moved, moved, m * n),
        "Jbar LTDL": OperationCount(moved, moved),
        "N": OperationCount(n * total, n * total + n),
    }


def dense_counts(m: int, n: int) -> dict[str, OperationCount]:
    """The same by standard matrix arithmetic, dense column of [OSI] table 1."""
    triangle, half = m * (m + 1) // 2, m * n * (n - 1) // 2
    product = OperationCount(m * n * m + half, m * n * m + half - m * n)
    return {
        "J x": OperationCount(m * n, m * (n - 1)),
        "J^T x": OperationCount(m * n, (m - 1) * n),
        "Y": OperationCount(half, half, m * n),
        "Lambda^-1": OperationCount(triangle * n, triangle * (n - 1)),
        "Jbar LTL": product + OperationCount(0, 0, m * n),
        "Jbar LTDL": product,
        "N": OperationCount(m * n * n, (m - 1) * n * n + n),
    }


# ---- the RJK recursion, [OSI] appendix B, table 4 ----------------------------------------

INVERSE = OperationCount(0, 0, 1)
"""D_i^-1, all rows from here on as in [OSI] table 4."""
TAU = OperationCount(5)
TAU_P = OperationCount(15, 15)
INERTIA = {2: OperationCount(60, 62), 3: OperationCount(98, 102)}
"""phi_i (...) phi_i^T by number of screws."""
ADD_INERTIA = OperationCount(0, 21)
DIAGONAL_SHIFT = {2: OperationCount(76, 80), 3: OperationCount(114, 120)}
"""phi_i^T Omega phi_i by number of screws."""
DIAGONAL_TAU = OperationCount(35, 28)
DIAGONAL_ADD = OperationCount(0, 1)
ROW_SHIFT = {2: OperationCount(120, 72), 3: OperationCount(144, 108)}
"""Omega phi_j by number of screws."""
ROW_TAU = OperationCount(30, 24)


class RjkTransforms(NamedTuple):
    """Coordinate transforms of the recursion, (two-screw, three-screw) pairs, and blocks."""

    inertia: tuple[int, int]
    diagonal: tuple[int, int]
    off_diagonal: tuple[int, int]
    diagonal_blocks: int
    off_diagonal_blocks: int


def rjk_transforms(
    parent: Sequence[int] | IntArray,
    bodies: Sequence[int],
    *,
    as_printed: bool = False,
    dh: BoolArray | None = None,
) -> RjkTransforms:
    """Count the transforms for the body parent array (N,) and the operational bodies.

    ``as_printed`` counts the blocks that [OSI] figure 15 marks to the letter; see
    :mod:`dynsys.operational.methods.rjk`. ``dh`` marks DH nodes, by default those of
    :func:`~experiments.featherstone2005.counts.dh_nodes`.
    """
    chosen = dh_nodes(np.asarray(parent)) if dh is None else dh
    inner = [i for i, p in enumerate(parent) if p >= 0]
    pairs = needed_blocks(parent, bodies, as_printed=as_printed)
    diagonal = [i for i, j in pairs if i == j and parent[i] >= 0]
    carried: list[int] = []
    for i, j in pairs:
        common = ancestor(parent, i, j)
        if i != j and common >= 0:
            carried += [j] if common == i else [i, j]
    n_diagonal = sum(i == j for i, j in pairs)

    def split(nodes: list[int]) -> tuple[int, int]:
        two = int(sum(bool(chosen[i]) for i in nodes))
        return two, len(nodes) - two

    return RjkTransforms(
        split(inner), split(diagonal), split(carried), n_diagonal, len(pairs) - n_diagonal
    )


def propagator_count(n_bodies: int, transforms: RjkTransforms) -> OperationCount:
    """Cost of all D_i^-1 and tau_i ([OSI] eq. 39 for ASIMO)."""
    two, three = transforms.inertia
    per_joint = TAU + TAU_P + ADD_INERTIA
    return (
        n_bodies * INVERSE + (two + three) * per_joint + two * INERTIA[2] + three * INERTIA[3]
    )


def omega_count(transforms: RjkTransforms) -> OperationCount:
    """Cost of the needed blocks of Omega ([OSI] eq. 40 for ASIMO)."""
    (two, three), (row_two, row_three) = transforms.diagonal, transforms.off_diagonal
    return (
        two * DIAGONAL_SHIFT[2]
        + three * DIAGONAL_SHIFT[3]
        + (two + three) * (DIAGONAL_TAU + DIAGONAL_ADD)
        + row_two * ROW_SHIFT[2]
        + row_three * ROW_SHIFT[3]
        + (row_two + row_three) * ROW_TAU
    )
