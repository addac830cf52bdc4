"""SuperLU by SciPy for matrices that may be singular: asked only what it can answer.

    P_r A P_c = L U        rows by partial pivoting, columns by their pattern alone

Where the pattern of A has no n entries of which no two share a row or a column, A is singular
whatever its values. SuperLU then runs out of rows: BLAS complains on the terminal (of DTRSV,
DGEMV), or a segmentation fault ends the process. Such a matrix is not given to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.csgraph import structural_rank
from scipy.sparse.linalg import SuperLU, splu

__all__ = ["factorised", "factorised_again"]


def factorised(A: csc_array[np.float64], **options: Any) -> SuperLU | None:
    """P_r A P_c = L U of a square matrix; None if its pattern or a pivot says: singular.

    ``options`` as of :func:`scipy.sparse.linalg.splu`.
    """
    return None if structural_rank(A) < A.shape[0] else factorised_again(A, **options)


def factorised_again(A: csc_array[np.float64], **options: Any) -> SuperLU | None:
    """As :func:`factorised`, of a pattern, in any order, that it has taken before."""
    try:
        return splu(A, **options)
    except RuntimeError:  # a pivot is exactly zero
        return None
