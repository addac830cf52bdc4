"""Jbar and N from the sparse factors ([OSI] section 8).

Jbar = Ld^-1 (YD^T Lambda)    eq. 33      Jbar = L^-1 (Y^T Lambda)    eq. 32
N = 1 - Jbar J                eq. 10
"""

from __future__ import annotations

import numpy as np

from dynsys.operational.jacobian_products import mul_JT
from dynsys.operational.supports import Supports
from dynsys.recursive.sparse_factors import solve_L
from dynsys.types import ArrayLike, IntArray, ScalarArray

__all__ = ["inertia_weighted_inverse", "null_space_projection"]


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
