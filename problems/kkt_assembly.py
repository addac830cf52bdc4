"""The symmetric system of constrained least squares: places once, values at every state.

    [ S C S    S Y     0     ]
    [ Y^T S     0    (L D)^T ]        S, L diagonal: no entry exceeds one
    [   0      L D     0     ]

A missing reading has its row of Y and of C replaced by those of lambda = 0: same pattern.
"""

from __future__ import annotations

from typing import final

import numpy as np
from scipy.sparse import csc_array

from dynsys.types import Array, BoolArray, IntArray

__all__ = ["KktAssembly"]


@final
class KktAssembly:
    """Pattern of the symmetric system, and the way of D's, Y's and C's entries into it.

    Parameters
    ----------
    D, Y : any matrices of the patterns of the laws and of the readings.
    covariance : C of the readings.
    """

    def __init__(
        self,
        D: csc_array[np.float64],
        Y: csc_array[np.float64],
        covariance: csc_array[np.float64],
    ) -> None:
        (self.n_laws, self.n), self.m = D.shape, Y.shape[0]
        self._d_rows, d_columns = D.indices.astype(np.intp), _columns(D)
        self._y_rows, y_columns = Y.indices.astype(np.intp), _columns(Y)
        places = np.arange(self.m)
        both = csc_array(covariance).tocoo()
        self._c_rows = np.concatenate([both.coords[0], places]).astype(np.intp)
        self._c_columns = np.concatenate([both.coords[1], places]).astype(np.intp)
        self._c_values = both.data
        self.variance: Array = covariance.diagonal()
        unknown, law = self.m + y_columns, self.m + self.n + self._d_rows
        rows = [self._c_rows, self._y_rows, unknown, law, self.m + d_columns]
        columns = [self._c_columns, unknown, self._y_rows, self.m + d_columns, law]
        self._places(np.concatenate(rows), np.concatenate(columns))

    @property
    def size(self) -> int:
        """Rows of the system."""
        return self.m + self.n + self.n_laws

    def _places(self, rows: IntArray, columns: IntArray) -> None:
        keys = columns * self.size + rows
        kept, self._target = np.unique(keys, return_inverse=True)
        self._indices = (kept % self.size).astype(np.int32)
        starts = np.searchsorted(kept, np.arange(self.size + 1) * self.size)
        self._indptr = starts.astype(np.int32)

    def scales(self, D: Array, Y: Array, present: BoolArray) -> tuple[Array, Array]:
        """S (m,) and L (laws,) from the entries of D and Y."""
        largest = np.where(present, np.sqrt(self.variance), 1.0)
        np.maximum.at(largest, self._y_rows, np.abs(Y) * present[self._y_rows])
        laws = np.zeros(self.n_laws)
        np.maximum.at(laws, self._d_rows, np.abs(D))
        return 1.0 / np.where(largest > 0, largest, 1.0), 1.0 / laws

    def matrix(
        self, D: Array, Y: Array, present: BoolArray, scales: tuple[Array, Array]
    ) -> csc_array[np.float64]:
        """Return the system for entries of D and Y in the order of their patterns."""
        S, L = scales
        seen = np.where(present, S, 0.0)
        i, j = self._c_rows[: len(self._c_values)], self._c_columns[: len(self._c_values)]
        noise = self._c_values * seen[i] * seen[j]
        gone = np.where(present, 0.0, 1.0)
        readings, laws = Y * seen[self._y_rows], D * L[self._d_rows]
        entries = np.concatenate([noise, gone, readings, readings, laws, laws])
        data = np.bincount(self._target, entries, len(self._indices)).astype(np.float64)
        return csc_array((data, self._indices, self._indptr), shape=(self.size, self.size))


def _columns(A: csc_array[np.float64]) -> IntArray:
    return np.repeat(np.arange(A.shape[1]), np.diff(A.indptr))
