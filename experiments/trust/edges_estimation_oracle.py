"""Exact estimates to judge by: the optimality conditions over numbers of 60 decimal digits.

    [ C    B ] [lambda]   [ c ]
    [ B^T  0 ] [  z   ] = [ 0 ]        d = T z + d_0

by elimination with complete pivoting. Directions without a pivot are open: z is zero there.
"""

from __future__ import annotations

import numpy as np

from dynsys.system.equations import Kinematics
from dynsys.types import Array, BoolArray, ScalarArray
from experiments.trust.edges_oracle import unit_wide, wide
from problems.estimation.estimation import Estimation

__all__ = ["exact_unknowns"]

NO_PIVOT = 1e-28
"""Pivots below this are rounding of the model, squared; entries are of unit size."""


def exact_unknowns(problem: Estimation, q: Array, qd: Array, rows: Array) -> ScalarArray:
    """All unknowns d (n,), wide, of the exact estimate; rows as ``measured.pack`` gives."""
    measured = problem.measured
    kinematics = Kinematics.at(problem.robot, unit_wide(problem.robot, q), wide(qd))
    T = measured.response.at(kinematics, wide(np.eye(measured.needed)))
    present = ~np.isnan(rows)
    seen = measured.read(kinematics, T)[present]
    C = measured.covariance.toarray()[np.ix_(present, present)]
    B, c = seen[:, :-1], wide(rows[present]) - seen[:, -1]
    z, unknown = _given(B, c, ~C.any(axis=1))
    if unknown.any():
        known = ~unknown
        c = c - B[:, known] @ z[known] if known.any() else c
        left = (B.astype(float) != 0)[:, unknown].any(axis=1)
        B, c, C = B[np.ix_(left, unknown)], c[left], wide(C[np.ix_(left, left)])
        n = B.shape[1]
        K = np.block([[C, B], [B.T, wide(np.zeros((n, n)))]])
        z[unknown] = _solve(K, np.concatenate([c, wide(np.zeros(n))]))[len(c) :]
    return T[:, :-1] @ z + T[:, -1]


def _given(B: ScalarArray, c: ScalarArray, exact: BoolArray) -> tuple[ScalarArray, BoolArray]:
    """What exact rows of one entry say of z, and which of z is left."""
    filled = B.astype(float) != 0
    z, unknown = wide(np.zeros(B.shape[1])), np.ones(B.shape[1], dtype=bool)
    for row in np.flatnonzero(exact & (filled.sum(axis=1) == 1)):
        column = int(filled[row].argmax())
        z[column], unknown[column] = c[row] / B[row, column], False
    return z, unknown


def _solve(K: ScalarArray, b: ScalarArray) -> ScalarArray:
    """K^-1 b; zero for unknowns that have no pivot."""
    n = len(K)
    scale = np.ones(n)
    size = np.abs(K.astype(float))
    for _ in range(12):
        largest = (scale[:, None] * size * scale).max(axis=1)
        scale = np.exp2(np.round(np.log2(scale / np.sqrt(np.where(largest > 0, largest, 1)))))
    K, b = K * np.outer(scale, scale), b * scale
    order, rank = np.arange(n), 0
    while rank < n:
        left = np.abs(K[rank:, rank:].astype(float))
        i, j = (int(k) + rank for k in np.unravel_index(left.argmax(), left.shape))
        if left.max() < NO_PIVOT:
            break
        K[[rank, i]], b[[rank, i]] = K[[i, rank]], b[[i, rank]]
        K[:, [rank, j]], order[[rank, j]] = K[:, [j, rank]], order[[j, rank]]
        for row in range(rank + 1, n):
            if float(K[row, rank]) != 0:
                factor = K[row, rank] / K[rank, rank]
                K[row, rank:] = K[row, rank:] - factor * K[rank, rank:]
                b[row] = b[row] - factor * b[rank]
        rank += 1
    x = wide(np.zeros(n))
    for k in reversed(range(rank)):
        found = b[k] - K[k, k + 1 :] @ x[order[k + 1 :]] if k + 1 < n else b[k]
        x[order[k]] = found / K[k, k]
    return x * scale
