"""SuperLU by SciPy for matrices that may be singular: asked only what it can answer.

    P_r A P_c = L U        rows by partial pivoting, columns by their pattern alone

Where A has no n entries, not zero, of which no two share a row or a column, it is singular
whatever their values. SuperLU then runs out of rows: BLAS complains on the terminal (of DTRSV,
DGEMV), or a segmentation fault ends the process. Such a matrix is not given to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.csgraph import structural_rank
from scipy.sparse.linalg import SuperLU, splu

__all__ = ["factorised", "factorised_again", "is_singular_by_pattern"]


def factorised(A: csc_array[np.float64], **options: Any) -> SuperLU | None:
    """P_r A P_c = L U of a square matrix; None if its pattern or a pivot says: singular.

    ``options`` as of :func:`scipy.sparse.linalg.splu`.
    """
    return None if is_singular_by_pattern(A) else factorised_again(A, **options)


def is_singular_by_pattern(A: csc_array[np.float64]) -> bool:
    """Tell whether a square matrix is singular by where its entries are; zeros are none."""
    short = (A.indices.astype(np.int32), A.indptr.astype(np.int32))  # all that SciPy 1.13 takes
    kept = csc_array((A.data.copy(), *short), A.shape)
    kept.eliminate_zeros()
    return bool(structural_rank(kept) < A.shape[0])


def factorised_again(A: csc_array[np.float64], **options: Any) -> SuperLU | None:
    """As :func:`factorised`, of a pattern, in any order and with its zeros, taken before."""
    try:
        return splu(A, **options)
    except RuntimeError:  # a pivot is exactly zero
        return None
