"""CHOLMOD by scikit-sparse, of version 0.4.16 or 0.5, whose names differ: one interface.

    P A P^T = L D L^T        A symmetric, quasi-definite; P from the pattern alone, once

0.4.16 builds against SuiteSparse 5 and newer, 0.5 against 7.4 and newer. Neither is needed:
what uses CHOLMOD asks :func:`has_cholmod` first, or catches ImportError.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any, Literal, TypeAlias, final

import numpy as np
from scipy.sparse import csc_array, csc_matrix

from dynsys.types import Array, IntArray

__all__ = ["CholmodOrder", "SimplicialFactors", "fill_reducing_order", "has_cholmod"]

CholmodOrder: TypeAlias = Literal["default", "amd", "metis", "nesdis", "colamd"]


def has_cholmod() -> bool:
    """Tell whether CHOLMOD (scikit-sparse) is installed."""
    try:
        _library()
    except ImportError:
        return False
    return True


def fill_reducing_order(A: csc_array[np.float64], method: CholmodOrder) -> IntArray:
    """Order p (n,) of a symmetric pattern: A[p][:, p] has little fill.

    Raises
    ------
    ImportError
        if scikit-sparse is not installed.
    """
    return SimplicialFactors(A, method).order


@final
class SimplicialFactors:
    """L D L^T of symmetric matrices of one pattern: analysed once, factorised again and again.

    Without pivoting: quasi-definite matrices have such factors in any order (Vanderbei, 1995).
    Raises ImportError if scikit-sparse is not installed.
    """

    def __init__(self, A: csc_array[np.float64], method: CholmodOrder = "default") -> None:
        library = _library()
        self._is_new = hasattr(library, "CholeskyFactor")
        self._error: type[Exception] = library.CholmodError
        if self._is_new:
            self._factor: Any = library.CholeskyFactor(
                A, order=method, supernodal_mode="simplicial"
            )
        else:
            self._factor = library.analyze(
                csc_matrix(A), mode="simplicial", ordering_method=method
            )

    @property
    def order(self) -> IntArray:
        """P as an order (n,) of rows and columns."""
        found = self._factor.perm if self._is_new else self._factor.P()
        return np.array(found, dtype=np.intp)

    def factor(self, A: csc_array[np.float64]) -> bool:
        """Factorise a matrix of the same pattern; False if a pivot is zero."""
        try:
            if self._is_new:
                return bool(self._factor.factorize(A, ldl=True).rcond > 0.0)
            self._factor.cholesky_inplace(csc_matrix(A))
        except self._error:
            return False
        return True

    def solve(self, b: Array) -> Array:
        """A^-1 b for b (n,) or (n, k), A the matrix that was factorised last.

        No word about the condition of A, of which 0.5 would warn: who asks looks at residuals.
        """
        if not self._is_new:
            return np.asarray(self._factor(b))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # 0.5 takes no array that is read-only
            return np.asarray(self._factor.solve(b if b.flags.writeable else b.copy()))


def _library() -> Any:
    return import_module("sksparse.cholmod")
