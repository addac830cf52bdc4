"""Covariance of the readings, turned into exact rows and rows of unit noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.csgraph import connected_components

from dynsys.types import Array, BoolArray, IntArray

__all__ = ["WhitenedRows", "whiten"]

NO_NOISE = 1e-14
"""Eigenvalues of a group's covariance below this part of its largest are noise of zero."""


@final
@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Combinations of the present rows: ``exact`` (e, rows), ``noisy`` (w, rows) of unit noise.

    With covariance C of the present rows:  noisy C noisy^T = 1  and  exact C exact^T = 0.
    """

    exact: csr_array[np.float64]
    noisy: csr_array[np.float64]


def whiten(covariance: csc_array[np.float64], present: BoolArray) -> WhitenedRows:
    """Rows of unit noise, and rows without noise, from the rows that are present.

    Rows whose noise is correlated, directly or through others, form a group; each group is
    turned into its principal axes. Most groups are single rows.
    """
    size = len(present)
    _, label = connected_components(covariance, directed=False)
    counts = np.bincount(label, minlength=size)
    diagonal = covariance.diagonal()
    exact: list[tuple[IntArray, Array]] = []
    noisy: list[tuple[IntArray, Array]] = []
    alone = np.flatnonzero(present & (counts[label] == 1))
    for i in alone.tolist():
        if diagonal[i] > 0:
            noisy.append((np.array([i]), np.array([1 / np.sqrt(diagonal[i])])))
        else:
            exact.append((np.array([i]), np.ones(1)))
    for group in np.flatnonzero(counts > 1).tolist():
        rows = np.flatnonzero((label == group) & present)
        block = covariance[rows][:, rows].toarray()
        std = np.sqrt(np.where(np.diag(block) > 0, np.diag(block), 1.0))
        values, axes = np.linalg.eigh(block / np.outer(std, std))
        for value, axis in zip(values, axes.T, strict=True):
            combination = axis / std
            if value > NO_NOISE * values[-1]:
                noisy.append((rows, combination / np.sqrt(value)))
            else:
                exact.append((rows, combination))
    return WhitenedRows(_stack(exact, size), _stack(noisy, size))


def _stack(rows: list[tuple[IntArray, Array]], size: int) -> csr_array[np.float64]:
    lengths = [len(where) for where, _ in rows]
    indices = np.concatenate([np.zeros(0, dtype=np.intp), *(where for where, _ in rows)])
    data = np.concatenate([np.zeros(0), *(values for _, values in rows)])
    return csr_array((data, indices, np.cumsum([0, *lengths])), shape=(len(rows), size))
