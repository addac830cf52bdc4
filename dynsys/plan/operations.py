"""Exact operation counts: what is executed, and what the scripts behind [NORI] count.

Two families, never mixed. Executed: :func:`program_operations` counts the instructions of a
straight-line program, one by one; :func:`elimination_operations` those of the scalar
elimination before simplification; :func:`lu_operations` and :func:`substitution_operations`
those of a textbook LU from c_k and r_k, the entries below and right of pivot k. By the
published rules: ``published_*``, faithful to the scripts also where they are wrong, so that
both stand side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import spsolve_triangular

from dynsys.plan.lu import SymbolicLU, factor_and_solve
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.program.program import Program
from dynsys.types import Array, BoolArray

__all__ = [
    "Operations",
    "aba_operations",
    "elimination_operations",
    "lu_operations",
    "program_operations",
    "published_lu",
    "published_product",
    "published_substitution",
    "substitution_operations",
]


@final
@dataclass(frozen=True)
class Operations:
    """Number of multiplications, additions (and subtractions) and divisions.

    Examples
    --------
    >>> print(Operations(3, 2, 1) + Operations(multiplications=1))
    4 multiplications + 2 additions + 1 division = 7
    """

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0

    @property
    def total(self) -> int:
        """All operations."""
        return self.multiplications + self.additions + self.divisions

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.multiplications + other.multiplications,
            self.additions + other.additions,
            self.divisions + other.divisions,
        )

    def __str__(self) -> str:
        parts = (
            (self.multiplications, "multiplication"),
            (self.additions, "addition"),
            (self.divisions, "division"),
        )
        words = " + ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in parts)
        return f"{words} = {self.total}"


# ---- executed ------------------------------------------------------------------------------


def program_operations(program: Program) -> Operations:
    """Instructions of a straight-line program, each executed once; sines and roots left out."""
    count = program.count()
    return Operations(count["mul"], count["add"], count["div"])


def lu_operations(symbolic: SymbolicLU) -> Operations:
    """Textbook LU of a pattern: sum c_k r_k products and differences, sum c_k quotients."""
    updates = int((symbolic.below * symbolic.right).sum())
    return Operations(updates, updates, int(symbolic.below.sum()))


def substitution_operations(symbolic: SymbolicLU) -> Operations:
    """Forward and back substitution with the factors of a textbook LU, right-hand side full."""
    products = int(symbolic.below.sum() + symbolic.right.sum())
    return Operations(products, products, symbolic.n)


def elimination_operations(
    pattern: Pattern,
    order: PivotOrder,
    unit: BoolArray | None = None,
    known_rhs: BoolArray | None = None,
) -> Operations:
    """Operations of :func:`~dynsys.plan.lu.factor_and_solve`, by structure alone.

    Parameters
    ----------
    pattern, order : the matrix and its pivots.
    unit : (entries,) entries of the pattern that are +-1: products with them are free.
    known_rhs : (rows,) rows whose right-hand side is not zero; all if None.
    """
    counter = _Counter()
    columns = np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr)).tolist()
    flags = [False] * pattern.nnz if unit is None else unit.tolist()
    rows: list[dict[int, Any]] = [{} for _ in range(pattern.shape[0])]
    for r, c, is_unit in zip(pattern.indices.tolist(), columns, flags, strict=True):
        rows[r][c] = _Counted(counter, is_unit)
    full = [True] * len(rows) if known_rhs is None else known_rhs.tolist()
    rhs: list[Any] = [_Counted(counter, False) if known else 0.0 for known in full]
    factor_and_solve(rows, rhs, order)
    return Operations(counter.multiplications, counter.additions, counter.divisions)


class _Counter:
    def __init__(self) -> None:
        self.multiplications = self.additions = self.divisions = 0


class _Counted:
    """A scalar known only to be +-1 or general; arithmetic counts itself."""

    __slots__ = ("counter", "unit")

    def __init__(self, counter: _Counter, unit: bool) -> None:
        self.counter, self.unit = counter, unit

    def __neg__(self) -> _Counted:
        return self

    def __sub__(self, other: Any) -> _Counted:
        if not isinstance(other, _Counted):  # the number zero
            return self
        self.counter.additions += 1
        return _Counted(self.counter, False)

    def __rsub__(self, other: Any) -> _Counted:
        return self

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, _Counted):
            return 0.0 if other == 0 else self
        if self.unit or other.unit:
            return other if self.unit else self
        self.counter.multiplications += 1
        return _Counted(self.counter, False)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if other.unit:
            return self
        self.counter.divisions += 1
        return _Counted(self.counter, False)

    def __rtruediv__(self, other: Any) -> Any:
        if other == 0:
            return 0.0
        if self.unit:
            return self
        self.counter.divisions += 1
        return _Counted(self.counter, False)


# ---- by the published rules ----------------------------------------------------------------


def aba_operations(n: int) -> Operations:
    """Closed form the scripts use for ABA: 205 n - 248 additions, 224 n - 259 products."""
    return Operations(224 * n - 259, 205 * n - 248)


def published_lu(
    L: csr_array[np.float64], U: csr_array[np.float64], *, discount_units: bool = False
) -> Operations:
    """``lu_cost`` of the scripts, from the factors P A Q = L U.

    It takes the entrywise product of a pivot's column and row for their outer product, which
    counts about a tenth of the additions.

    ``discount_units`` is the copy behind figure 1: it means to leave out factors +-1, but takes
    off every entry that is not 1 and every one that is not -1, at rows and columns counted from
    the first instead of from the pivot. It can be negative.
    """
    n = L.shape[0]
    lower, upper = csc_array(L), csr_array(U)
    both = csr_array(csr_array(L.T).multiply(upper))  # row k: entries i with L_ik and U_ki
    both.eliminate_zeros()
    shared = int(both.nnz) - int((both.diagonal() != 0).sum())
    scaled = int(lower.nnz) - n
    multiplications = scaled + shared
    if discount_units:
        multiplications -= _taken_off(csr_array(L + U), both)
    return Operations(multiplications, shared)


def _taken_off(factors: csr_array[np.float64], both: csr_array[np.float64]) -> int:
    """What the discounting copy subtracts: entries unequal to 1 and to -1 at shifted places."""
    n = factors.shape[0]
    packed = factors.toarray() - np.eye(n)  # L below, U on and above the diagonal
    coo = both.tocoo()
    above = coo.col > coo.row
    k, shifted = coo.row[above], coo.col[above] - coo.row[above] - 1
    total = 0
    for entries in (packed[shifted, k], packed[k, shifted]):
        total += int((entries != 1).sum() + (entries != -1).sum())
    return total


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
