"""Orders found by other libraries, for comparison like for like.

COLAMD and partial pivoting come with SciPy (SuperLU). AMD and METIS need CHOLMOD
(scikit-sparse, the extra ``cholmod``); UMFPACK, which the scripts behind [NORI] use, comes
inside the wheel of cvxopt or with the system. What is missing raises
:class:`UnavailableOrdering` and says so.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, final

import numpy as np
from scipy.sparse import csc_array

from dynsys.cholmod import fill_reducing_order
from dynsys.distribution import install
from dynsys.errors import SingularSystemError, StructurallySingularError, UnavailableOrdering
from dynsys.plan.orders.dulmage_mendelsohn import matching
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, Pattern, PivotOrder
from dynsys.superlu import factorised
from dynsys.types import IntArray

__all__ = ["Cholmod", "SuperLU", "Umfpack", "UmfpackLibrary", "library_orderings"]

find_library = cache(ctypes.util.find_library)
"""Asked once for every name: it starts a process."""


def _sampled(pattern: Pattern, context: OrderingContext) -> csc_array[np.float64]:
    """Matrix at the first sampled state, or with random values where none are given."""
    if context.values is not None:
        data = context.values[0]
    else:
        data = np.random.default_rng(0).uniform(0.5, 1.5, pattern.nnz)
    A = csc_array((data, pattern.indices.copy(), pattern.indptr.copy()), pattern.shape)
    A.eliminate_zeros()
    return A


@final
@dataclass(frozen=True)
class SuperLU(AbstractOrdering):
    """SuperLU at one sampled state: columns by ``columns``, rows by partial pivoting.

    "NATURAL" keeps the columns: plain LU with partial pivoting.
    """

    columns: Literal["COLAMD", "NATURAL", "MMD_ATA", "MMD_AT_PLUS_A"] = "COLAMD"

    @property
    def name(self) -> str:
        return "partial pivoting" if self.columns == "NATURAL" else f"SuperLU {self.columns}"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        A = _sampled(pattern, context)
        factors = factorised(A, permc_spec=self.columns, diag_pivot_thresh=1.0)
        if factors is None:
            raise SingularSystemError(
                "SuperLU met a zero pivot: the matrix is singular at the sampled state"
            )
        return PivotOrder(np.argsort(factors.perm_r), np.argsort(factors.perm_c))


@final
@dataclass(frozen=True)
class Umfpack(AbstractOrdering):
    """UMFPACK at one sampled state: permuted LU of [NORI]; its LU with ``fixed_columns``."""

    fixed_columns: bool = False

    @property
    def name(self) -> str:
        return "UMFPACK, columns kept" if self.fixed_columns else "UMFPACK"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        library = UmfpackLibrary.find()
        if library is None:
            raise UnavailableOrdering(
                "UMFPACK is not installed: pip install cvxopt, or the system's SuiteSparse"
                " library; SuperLU('COLAMD') is the nearest that is always there"
            )
        A = _sampled(pattern, context)
        return PivotOrder(*library.permutations(A, fixed_columns=self.fixed_columns))


@final
@dataclass(frozen=True)
class Cholmod(AbstractOrdering):
    """AMD or METIS through CHOLMOD, on the pattern of B + B^T.

    B is the matrix with rows exchanged so that a maximum matching is on its diagonal, where the
    pivots stay.
    """

    method: Literal["amd", "metis", "nesdis", "colamd"] = "amd"

    @property
    def name(self) -> str:
        return f"CHOLMOD {self.method.upper()}"

    def find(self, pattern: Pattern, context: OrderingContext) -> PivotOrder:
        rows = _matched_rows(pattern)
        B = csc_array(pattern.tocsr()[rows].astype(np.float64))
        try:
            order = fill_reducing_order(csc_array(B + B.T), self.method)
        except ImportError as error:
            raise UnavailableOrdering(
                "AMD and METIS come through CHOLMOD, which is not installed"
                f" ({install('cholmod')}, needs a C compiler and SuiteSparse's headers):"
                f" {error}"
            ) from None
        return PivotOrder(rows[order], order)


def library_orderings() -> list[AbstractOrdering]:
    """Seeds of a search, those of libraries that are not installed among them."""
    return [SuperLU("COLAMD"), Umfpack(), Cholmod("amd"), Cholmod("metis")]


def _matched_rows(pattern: Pattern) -> IntArray:
    """Row to put at each column's place on the diagonal."""
    column_of_row = matching(pattern)
    if (column_of_row < 0).any():
        raise StructurallySingularError(
            "some equations cannot be given an unknown of their own: the system is structurally"
            " singular; coarse_decomposition says where"
        )
    rows = np.empty(len(column_of_row), dtype=np.intp)
    rows[column_of_row] = np.arange(len(column_of_row))
    return rows


# ---- UMFPACK, from the shared library that cvxopt or the system brings ---------------------

_SINGULAR = 1  # UMFPACK_WARNING_singular_matrix
_FIXQ, _SCALE, _N_CONTROLS = 13, 16, 20  # places in UMFPACK's control array


@final
@dataclass(frozen=True, eq=False)
class UmfpackLibrary:
    """UMFPACK with 32-bit indices (``umfpack_di_*``), default controls but for row scaling.

    Rows are not scaled, as in the LU of MATLAB and Octave that returns no scaling.
    """

    library: ctypes.CDLL

    @staticmethod
    def find() -> UmfpackLibrary | None:
        """Return the library inside cvxopt's wheel, the system's, or None."""
        for path in (*_in_cvxopt(), find_library("umfpack")):
            if path is None:
                continue
            try:
                library = ctypes.CDLL(path)
            except OSError:
                continue
            if hasattr(library, "umfpack_di_get_numeric"):
                return UmfpackLibrary(library)
        return None

    def permutations(
        self, A: csc_array[np.float64], *, fixed_columns: bool = False
    ) -> tuple[IntArray, IntArray]:
        """Row and column order with P A Q = L U; ``fixed_columns`` keeps the columns (Q = 1).

        Raises
        ------
        SingularSystemError
            if the matrix is singular.
        """
        n_rows, n_cols = A.shape
        A.sort_indices()
        columns, rows = A.indptr.astype(np.int32), A.indices.astype(np.int32)
        data = A.data.astype(np.float64)
        matrix = (_address(columns), _address(rows), _address(data))
        symbolic, numeric = ctypes.c_void_p(), ctypes.c_void_p()
        call, controls = self.library, np.zeros(_N_CONTROLS)
        call.umfpack_di_defaults(_address(controls))
        controls[_SCALE], controls[_FIXQ] = 0, fixed_columns
        natural = np.arange(n_cols, dtype=np.int32)
        first = _address(natural) if fixed_columns else None
        control = _address(controls)
        status = call.umfpack_di_qsymbolic(
            n_rows, n_cols, *matrix, first, ctypes.byref(symbolic), control, None
        )
        if status == 0:
            status = call.umfpack_di_numeric(
                *matrix, symbolic, ctypes.byref(numeric), control, None
            )
        row_order, col_order = np.zeros(n_rows, np.int32), np.zeros(n_cols, np.int32)
        if status == 0:
            orders = (_address(row_order), _address(col_order))
            nothing = [None] * 6
            status = call.umfpack_di_get_numeric(*nothing, *orders, None, None, None, numeric)
        call.umfpack_di_free_symbolic(ctypes.byref(symbolic))
        call.umfpack_di_free_numeric(ctypes.byref(numeric))
        if status != 0:
            what = "the matrix is singular" if status == _SINGULAR else f"status {status}"
            raise SingularSystemError(f"UMFPACK refused the matrix: {what} at this state")
        return row_order.astype(np.intp), col_order.astype(np.intp)


def _in_cvxopt() -> list[str]:
    spec = find_spec("cvxopt")
    if spec is None or spec.origin is None:
        return []
    beside = Path(spec.origin).parents[1] / "cvxopt.libs"
    # its own dependencies are beside it, found by the path that the wheel wrote into it
    return [str(path) for path in sorted(beside.glob("libumfpack*"))]


def _address(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
