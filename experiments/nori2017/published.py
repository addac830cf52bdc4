"""Counting rules of the published scripts that no other part of dynsys needs.

Products of sparse matrices, the closed form for ABA (which the paper takes from [RBDA] without
printing it), and the LU count of figure 1 that means to leave out factors +-1.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dynsys.plan.operations import Operations
from dynsys.plan.published import published_lu

__all__ = ["aba_operations", "discounted_lu", "published_product"]


def aba_operations(n: int) -> Operations:
    """Closed form the scripts use for ABA: 205 n - 248 additions, 224 n - 259 products."""
    return Operations(224 * n - 259, 205 * n - 248)


def discounted_lu(L: csr_array[np.float64], U: csr_array[np.float64]) -> Operations:
    """``lu_cost`` of the copy behind figure 1. It can be negative.

    It means to leave out factors +-1, but takes off every entry that is not 1 and every one
    that is not -1, at rows and columns counted from the first instead of from the pivot.
    """
    n = L.shape[0]
    both = csr_array(csr_array(L.T).multiply(csr_array(U))).tocoo()
    packed = csr_array(L + U).toarray() - np.eye(n)  # L below, U on and above the diagonal
    above = (both.col > both.row) & (both.data != 0)
    k, shifted = both.row[above], both.col[above] - both.row[above] - 1
    cost = published_lu(L, U)
    taken_off = 0
    for entries in (packed[shifted, k], packed[k, shifted]):
        taken_off += int((entries != 1).sum() + (entries != -1).sum())
    return Operations(cost.multiplications - taken_off, cost.additions)


def published_product(
    A: csr_array[np.float64], B: csr_array[np.float64], *, corrected: bool = False
) -> Operations:
    """``mult_cost`` of the scripts, for the product A B.

    Of an entry with z > 1 products only the z - 1 additions are counted, of one with z = 1 the
    multiplication; ``corrected`` counts z multiplications and z - 1 additions.
    """
    ones_a = csr_array((np.ones(A.nnz), A.indices, A.indptr), A.shape)
    ones_b = csr_array((np.ones(B.nnz), B.indices, B.indptr), B.shape)
    products = np.rint(csr_array(ones_a @ ones_b).data).astype(np.int64)
    products = products[products > 0]
    multiplications = products.sum() if corrected else (products == 1).sum()
    return Operations(int(multiplications), int((products - 1).sum()))
