"""Inverse of the joint-space inertia matrix, and J H^-1 J^T, sparse by the tree.

From the LTDL factors of H:

    H = L^T D L,   W = L^-1,   H^-1 = W D^-1 W^T

W has the sparsity of L: row i is nonzero at i and the freedoms that support it. Entry (i, j) of
the inverse sums over the freedoms that support both, so that limbs meeting only at a floating
base cost six products per entry.

From articulated bodies (U = IA S, D = S . U + armature, in one frame) without forming H: a
wrench x at a body passes the joints towards the base,

    y_j = x . S_j,   x <- x - U_j y_j / D_j          and then   J H^-1 J^T = Y D^-1 Y^T

with x the rows of J as wrenches; x = U_i / D_i with y_i = -1 gives minus a row of W. Twelve
products per entry of W, however deep the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dynsys.recursive.common_frame import Freedoms
from dynsys.recursive.sparse_factors import ltdl_scalars
from dynsys.types import IntArray, ScalarArray

__all__ = [
    "inertia_from_composites",
    "inverse_from_articulated",
    "inverse_scalars",
    "operational_inverse",
]


def inverse_scalars(H: ScalarArray, parent: IntArray) -> ScalarArray:
    """H^-1 (n, n) over scalars of any kind; ``parent`` (n,) is the expanded parent array."""
    L, diag = ltdl_scalars(H, parent)
    support = _supports(parent)
    W: list[dict[int, Any]] = []
    for i in range(len(H)):
        row: dict[int, Any] = {i: 1}
        for j in support[i][1:]:  # L W = 1, row i, column j
            row[j] = -sum(L[i, k] * W[k][j] for k in support[i][1:] if j in W[k])
        W.append(row)
    return _products(W, diag, H.dtype)


def inverse_from_articulated(bodies: Freedoms, parent: IntArray) -> ScalarArray:
    """H^-1 (n, n) from articulated freedoms, over scalars of any kind."""
    D, U = bodies.diagonal, bodies.wrench
    rows = []
    for i, support in enumerate(_supports(parent)):
        row = _passed_on(bodies, U[:, i] / D[i], support[1:])
        rows.append({i: -1, **row})
    return _products(rows, D, D.dtype)


def operational_inverse(
    bodies: Freedoms, wrenches: ScalarArray, supports: Sequence[Iterable[int]]
) -> ScalarArray:
    """J H^-1 J^T (m, m) from articulated freedoms, over scalars of any kind.

    Parameters
    ----------
    bodies : articulated freedoms.
    wrenches : (6, m) rows of J as wrenches in the common frame: J_rj = x_r . S_j.
    supports : per row, the freedoms where J is not zero by structure.
    """
    rows = [
        _passed_on(bodies, x, sorted(support, reverse=True))
        for x, support in zip(wrenches.T, supports, strict=True)
    ]
    return _products(rows, bodies.diagonal, bodies.diagonal.dtype)


def inertia_from_composites(bodies: Freedoms, parent: IntArray) -> ScalarArray:
    """H (n, n) from composite freedoms: H_ij = F_i . S_j, over scalars of any kind."""
    H = np.zeros((len(parent),) * 2, dtype=bodies.diagonal.dtype)
    for i, support in enumerate(_supports(parent)):
        H[i, i] = bodies.diagonal[i]
        for j in support[1:]:
            H[i, j] = H[j, i] = bodies.wrench[:, i] @ bodies.motion[:, j]
    return H


def _passed_on(bodies: Freedoms, x: ScalarArray, support: Iterable[int]) -> dict[int, Any]:
    """y_j of a wrench x (6,) for the joints between its body and the base, in this order."""
    y: dict[int, Any] = {}
    for j in support:
        y[j] = x @ bodies.motion[:, j]
        x = x - bodies.wrench[:, j] * (y[j] / bodies.diagonal[j])
    return y


def _products(rows: Sequence[dict[int, Any]], diag: ScalarArray, dtype: Any) -> ScalarArray:
    """Y D^-1 Y^T (m, m) of sparse rows."""
    reciprocal = [1 / d for d in diag]
    G = np.zeros((len(rows),) * 2, dtype=dtype)
    for i, row in enumerate(rows):
        scaled = {k: y * reciprocal[k] for k, y in row.items()}
        for j in range(i + 1):
            G[i, j] = G[j, i] = sum(y * scaled[k] for k, y in rows[j].items() if k in scaled)
    return G


def _supports(parent: IntArray) -> list[list[int]]:
    """Freedoms on the way from each freedom to the base, itself first."""
    supports: list[list[int]] = []
    for i, above in enumerate(parent):
        supports.append([i, *(supports[above] if above >= 0 else [])])
    return supports
