"""Symmetric positive definite systems of at most a handful of unknowns, over any scalars.

    M = L diag(d) L^T,  L unit lower triangular.  Cost n^3/6 + O(n^2) multiplications.

Written out because LAPACK takes numbers only, and these also run on the expression graph.
No pivoting: the joint inertias they factorise are positive definite for physical robots.
"""

from __future__ import annotations

import numpy as np

from dynsys.types import ScalarArray

__all__ = ["factor_ldl", "solve_ldl"]


def factor_ldl(M: ScalarArray) -> ScalarArray:
    """L below the diagonal, reciprocals 1/d on it, from the lower triangle of M (n, n)."""
    F = M.copy()
    n = len(F)
    for k in range(n):
        F[k, k] = 1 / F[k, k]
        for i in range(k + 1, n):
            scaled = F[i, k] * F[k, k]
            for j in range(k + 1, i + 1):
                F[i, j] = F[i, j] - scaled * F[j, k]
        for i in range(k + 1, n):
            F[i, k] = F[i, k] * F[k, k]
    return F


def solve_ldl(F: ScalarArray, b: ScalarArray) -> ScalarArray:
    """Return x (n,) with M x = b from the factors of :func:`factor_ldl`."""
    n = len(F)
    x = [b[k] for k in range(n)]
    for i in range(n):  # x = L \ b
        for j in range(i):
            x[i] = x[i] - F[i, j] * x[j]
    for i in range(n):  # x = diag(d) \ x
        x[i] = x[i] * F[i, i]
    for i in reversed(range(n)):  # x = L' \ x
        for j in range(i + 1, n):
            x[i] = x[i] - F[j, i] * x[j]
    return np.array(x) if n else b
