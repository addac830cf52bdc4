"""The permutations of UMFPACK, from the shared library that cvxopt or the system brings."""

from __future__ import annotations

import ctypes
from ctypes.util import find_library
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import final

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import SingularSystemError
from dynsys.types import IntArray

__all__ = ["UmfpackLibrary"]

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
        A = csc_array(A)
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
