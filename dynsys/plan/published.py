"""What the scripts behind [NORI] count for an LU, faithful also where they are wrong.

Published counts stand beside executed ones (:mod:`dynsys.plan.operations`) and are never mixed
with them. The scripts look at values, not at patterns: :func:`numeric_lu` gives the factors at
one state, without the entries that vanish there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, tril, triu
from scipy.sparse.linalg import spsolve_triangular

from dynsys.errors import SingularSystemError
from dynsys.jit import Loop
from dynsys.plan.lu import SymbolicLU
from dynsys.plan.operations import Operations
from dynsys.types import Array

__all__ = ["numeric_lu", "published_lu", "published_substitution"]


def published_lu(L: csr_array[np.float64], U: csr_array[np.float64]) -> Operations:
    """``lu_cost`` of the scripts, from the factors P A Q = L U.

    It takes the entrywise product of a pivot's column and row for their outer product, which
    counts about a tenth of the additions.
    """
    both = csr_array(csr_array(L.T).multiply(csr_array(U)))  # row k: i with L_ik and U_ki
    both.eliminate_zeros()
    shared = int(both.nnz) - int((both.diagonal() != 0).sum())
    scaled = int(L.nnz) - L.shape[0]
    return Operations(scaled + shared, shared)


def published_substitution(
    L: csr_array[np.float64], b: Array, U: csr_array[np.float64] | None = None
) -> Operations:
    """``fw_cost`` of the scripts, L x = b; with U also ``fb_cost``, L U x = b.

    additions         nnz(b) + nnz(strict L)  [+ nnz(L^-1 b) + nnz(strict U)]
    multiplications   nnz(L)                  [+ nnz(U)]
    """
    n = L.shape[0]
    cost = Operations(int(L.nnz), int(np.count_nonzero(b)) + int(L.nnz) - n)
    if U is None:
        return cost
    c = spsolve_triangular(csr_array(L), np.asarray(b, dtype=np.float64), lower=True)
    return cost + Operations(int(U.nnz), int(np.count_nonzero(c)) + int(U.nnz) - n)


def numeric_lu(
    A: csr_array[np.float64], symbolic: SymbolicLU
) -> tuple[csr_array[np.float64], csr_array[np.float64]]:
    """L (unit diagonal) and U with A[row_order][:, col_order] = L U.

    The pivots are those of the order: no exchange. A is in its own, unpermuted order. Entries
    that vanish are left out of L and U.

    Raises
    ------
    SingularSystemError
        if a pivot is exactly zero.
    """
    n = symbolic.n
    permuted = csr_array(A.tocsr()[symbolic.order.row_order][:, symbolic.order.col_order])
    values, failed = _numeric(
        n,
        permuted.indptr.astype(np.int64),
        permuted.indices.astype(np.int64),
        permuted.data.astype(np.float64),
        symbolic.start.astype(np.int64),
        symbolic.columns.astype(np.int64),
    )
    if failed >= 0:
        raise SingularSystemError(
            f"pivot {failed} (row {int(symbolic.order.row_order[failed])}, column"
            f" {int(symbolic.order.col_order[failed])}) is zero at this state"
        )
    both = csr_array((values, symbolic.columns, symbolic.start), shape=(n, n))
    both.eliminate_zeros()
    return csr_array(tril(both, -1) + eye_array(n)), csr_array(triu(both))


@Loop
def _numeric(n: Any, start: Any, cols: Any, values: Any, lu_start: Any, lu_cols: Any) -> Any:
    """Row by row: scatter row i of A, subtract multiples of the rows of U it meets."""
    out = np.zeros(len(lu_cols))
    pivot_at = np.zeros(n, np.int64)
    work = np.zeros(n)
    for i in range(n):
        for e in range(start[i], start[i + 1]):  # row i of A
            work[cols[e]] += values[e]
        for e in range(lu_start[i], lu_start[i + 1]):
            k = lu_cols[e]
            if k < i and work[k] != 0.0:  # l_ik = a_ik / u_kk, a_i -= l_ik u_k
                work[k] /= out[pivot_at[k]]
                factor = work[k]
                for g in range(pivot_at[k] + 1, lu_start[k + 1]):
                    work[lu_cols[g]] -= factor * out[g]
            elif k == i:
                pivot_at[i] = e
                if work[k] == 0.0:
                    return out, i
        for e in range(lu_start[i], lu_start[i + 1]):
            out[e] = work[lu_cols[e]]
            work[lu_cols[e]] = 0.0
    return out, -1
