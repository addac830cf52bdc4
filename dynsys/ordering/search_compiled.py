"""Price and safety of a pivot order in compiled loops: what a search asks thousands of times.

Both eliminate ``A[row_order][:, col_order]`` along its diagonal. The price is that of
:func:`~dynsys.ordering.operations.elimination_operations`, step by step the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

__all__ = ["elimination_price", "worst_ratio"]

NONE, GENERAL, UNIT = 0, 1, 2
CANCELLED = 1e-12

_Function = TypeVar("_Function", bound=Callable[..., Any])
_njit: Any = numba.njit


def compiled(function: _Function) -> _Function:
    """Compile on first use; compiled functions may call each other."""
    jitted: _Function = _njit(cache=True)(function)
    return jitted


@compiled
def elimination_price(place: Any, known_rhs: Any) -> Any:
    """Operations of the elimination, or -1 if a pivot is structurally zero.

    Parameters
    ----------
    place : (n, n) int8, permuted: NONE, GENERAL or UNIT; is overwritten.
    known_rhs : (n,) bool, permuted: right-hand sides that are not zero; is overwritten.
    """
    n = len(place)
    closed, block = _blocks(place)
    solved, x_known = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    finish = np.zeros(n, np.int8)  # GENERAL: the row still has to be divided or multiplied
    right, below = np.zeros(n, np.int64), np.zeros(n, np.int64)
    total = waiting_from = 0
    for k in range(n):
        pivot = place[k, k]
        if pivot == NONE:
            return -1
        n_right = 0
        for j in range(n):
            if j != k and place[k, j] != NONE:
                right[n_right] = j
                n_right += 1
        if n_right == 0:
            solved[k], x_known[k] = True, known_rhs[k]
            if known_rhs[k] and pivot != UNIT:
                total += 1
            total += _determine(place, known_rhs, k, k + 1, x_known[k])
        else:
            n_below = 0
            for i in range(k + 1, n):
                if place[i, k] != NONE and block[i] == block[k]:
                    below[n_below] = i
                    n_below += 1
            finish[k] = pivot
            if n_below:
                total += _clear(place, known_rhs, k, right[:n_right], below[:n_below], finish)
        if closed[k]:
            for m in range(k, waiting_from - 1, -1):
                if not solved[m]:
                    total += _back(place, known_rhs, m, finish[m], x_known)
                    solved[m] = True
                    total += _determine(place, known_rhs, m, k + 1, x_known[m])
            waiting_from = k + 1
    return total


@compiled
def _blocks(place: Any) -> Any:
    """Pivots at which all unknowns so far are determined; end of each row's block."""
    n = len(place)
    closed, block = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    farthest = -1
    for k in range(n):
        for j in range(n - 1, farthest, -1):
            if place[k, j] != NONE:
                farthest = j
                break
        closed[k] = farthest <= k
    end = n - 1
    for k in range(n - 1, -1, -1):
        if closed[k]:
            end = k
        block[k] = end
    return closed, block


@compiled
def _determine(place: Any, known_rhs: Any, c: Any, start: Any, known: Any) -> Any:
    """Substitute the value of unknown c in the rows from ``start`` on."""
    total = 0
    for i in range(start, len(place)):
        entry = place[i, c]
        if entry != NONE:
            place[i, c] = NONE
            if known:
                total += (entry != UNIT) + known_rhs[i]
                known_rhs[i] = True
    return total


@compiled
def _clear(place: Any, known_rhs: Any, k: Any, right: Any, below: Any, finish: Any) -> Any:
    """Subtract multiples of row k from the rows below."""
    pivot = place[k, k]
    total = int(pivot != UNIT)  # its reciprocal
    scale_rows = len(below) > len(right)
    if scale_rows:
        finish[k] = NONE
        if pivot != UNIT:
            for j in right:
                total += place[k, j] != UNIT
                place[k, j] = GENERAL
            total += known_rhs[k]
    for i in below:
        multiplier = place[i, k]
        place[i, k] = NONE
        if not scale_rows and pivot != UNIT:
            total += multiplier != UNIT
            multiplier = GENERAL
        for j in right:
            value = place[k, j]
            total += multiplier != UNIT and value != UNIT
            if place[i, j] == NONE:
                product_unit = multiplier == UNIT and value == UNIT
                place[i, j] = UNIT if product_unit else GENERAL
            else:
                total += 1
                place[i, j] = GENERAL
        if known_rhs[k]:
            total += (multiplier != UNIT) + known_rhs[i]
            known_rhs[i] = True
    return total


@compiled
def _back(place: Any, known_rhs: Any, m: Any, finish: Any, x_known: Any) -> Any:
    """Back substitution in row m."""
    known, total = known_rhs[m], 0
    for j in range(len(place)):
        if j != m and place[m, j] != NONE and x_known[j]:
            total += (place[m, j] != UNIT) + known
            known = True
    x_known[m] = known
    if known and finish == GENERAL:
        total += 1
    return total


@compiled
def worst_ratio(
    rows: Any, cols: Any, values: Any, row_place: Any, col_place: Any, enough: Any
) -> Any:
    """Worst ratio of a pivot to the largest entry of its column or row, whichever is smaller.

    ``rows, cols`` (entries,) of ``values`` (states, entries); ``row_place, col_place`` (n,) are
    the places of rows and columns in the order. Returns 0 as soon as it is below ``enough``.
    """
    n = len(row_place)
    worst = np.inf
    right = np.zeros(n, np.int64)
    for s in range(len(values)):
        A = np.zeros((n, n))
        for e in range(len(rows)):
            A[row_place[rows[e]], col_place[cols[e]]] = values[s, e]
        for k in range(n):
            largest, n_right = abs(A[k, k]), 0
            for j in range(k + 1, n):
                if A[k, j] != 0.0:
                    right[n_right] = j
                    n_right += 1
                    largest = max(largest, abs(A[k, j]))
            column = abs(A[k, k])
            for i in range(k + 1, n):
                column = max(column, abs(A[i, k]))
            bound = min(largest, column)
            ratio = abs(A[k, k]) / bound if bound > 0.0 else 0.0
            if ratio < enough or ratio == 0.0:
                return 0.0
            worst = min(worst, ratio)
            for i in range(k + 1, n):
                if A[i, k] != 0.0:
                    factor = A[i, k] / A[k, k]
                    for e in range(n_right):
                        old, product = A[i, right[e]], factor * A[k, right[e]]
                        new = old - product
                        small = abs(new) <= CANCELLED * (abs(old) + abs(product))
                        A[i, right[e]] = 0.0 if small else new
    return worst
