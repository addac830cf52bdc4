"""The `reference` backend: factorise D at each state with SuperLU, columns by COLAMD.

Readable and general rather than fast; the other backends are compared with it.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import SuperLU, splu

from dynsys.errors import SingularSystemError
from dynsys.system.diagnosis import describe_singularity, null_vector
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array

__all__ = ["residual", "solve_square"]

SUSPECT_PIVOT = 1e-10
"""Pivots below this part of their column are looked into: D may be singular to rounding."""


def solve_square(system: LinearSystem, D: csc_array[np.float64], b: Array) -> Array:
    """Return d (n,) with D d + b = 0 for a square system.

    Raises
    ------
    SingularSystemError
        naming the unknowns that the equations leave open at this state.
    """
    try:
        factors = splu(D, permc_spec="COLAMD")
    except RuntimeError:  # SuperLU met a pivot that is exactly zero
        factors = None
    if factors is None or _smallest_pivot(factors) < SUSPECT_PIVOT:
        null = null_vector(D)
        if null is not None:
            raise SingularSystemError(describe_singularity(system, null))
    if factors is None:
        raise SingularSystemError(
            f"robot {system.robot.name!r}: a pivot vanished at this state although no unknown"
            " is undetermined; change the state by a small amount"
        )
    d = -factors.solve(b)
    return d - factors.solve(D @ d + b)  # one step of iterative refinement


def _smallest_pivot(factors: SuperLU) -> float:
    """Smallest ratio of a pivot to the largest entry of U in its column."""
    U = csc_array(factors.U)
    largest = np.maximum.reduceat(np.abs(U.data), U.indptr[:-1])
    return float((np.abs(U.diagonal()) / largest).min())


def residual(D: csc_array[np.float64], d: Array, b: Array) -> float:
    """Largest |D d + b| relative to the largest (|D| |d| + |b|): max norms over all rows.

    About 1e-16 for a good solve. Not row by row: where all terms of an equation should cancel
    to zero, as proper accelerations do in free fall, their rounding has no scale of its own.
    """
    scale = float(np.max(abs(D) @ np.abs(d) + np.abs(b), initial=0.0))
    return float(np.max(np.abs(D @ d + b), initial=0.0)) / scale if scale > 0 else 0.0
