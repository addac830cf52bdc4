"""What operational-space quantities cost, sparse and dense ([OSI] table 1).

d_i is the number of nonzeros of row i of J, d_ij that of the common support of rows i and j.
"""

from __future__ import annotations

import numpy as np

from dynsys.model.expanded import depths
from dynsys.operational.supports import Supports
from dynsys.program.counting import OperationCount
from dynsys.types import IntArray

__all__ = ["dense_counts", "sparse_counts"]


def sparse_counts(supports: Supports, parent: IntArray) -> dict[str, OperationCount]:
    """Cost of each operation of [OSI] table 1, sparse column.

    Keys: "J x", "J^T x" (one vector), "Y" (also Yd and YD together), "Lambda^-1" (lower
    triangle), "Jbar LTL", "Jbar LTDL", "N". ``parent`` (n,) is the expanded parent array. The
    table's d_i (d_i - 1) / 2 for Y is the sum of (depth - 1) over the way of one body; here it
    is that sum over the support, so that rows of several bodies are counted as well.
    """
    d, m, n = supports.depths, supports.m, len(parent)
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
