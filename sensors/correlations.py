"""Noise that two sensors share: a vibrating board, a common supply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import LayoutError, nearest_name
from dynsys.types import Array, ArrayLike

__all__ = ["Correlation", "check_correlations", "sparse_blocks"]

Correlation: TypeAlias = tuple[str, str, ArrayLike]
"""Names of two sensors and the covariance (size of first, size of second) between them."""

Checked: TypeAlias = tuple[str, str, Array]


def check_correlations(
    own: Mapping[str, Array], correlations: Sequence[Correlation], where: Callable[[str], str]
) -> tuple[Checked, ...]:
    """Correlations as read-only arrays; LayoutError if names, sizes or values cannot be.

    ``own`` holds the covariance (size, size) of each sensor by itself, by name; ``where`` gives
    the place of a sensor in its file, for messages.
    """
    for item in correlations:
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 3:
            raise LayoutError(
                f"a correlation is (sensor, other sensor, covariance), got {item!r:.80}"
            )
    checked = tuple(_check_one(own, item, where(item[0])) for item in correlations)
    pairs = [frozenset(item[:2]) for item in checked]
    if len(set(pairs)) < len(pairs):
        first, second, _ = next(
            c for c, pair in zip(checked, pairs, strict=True) if pairs.count(pair) > 1
        )
        raise LayoutError(f"{where(first)}{first!r} and {second!r} are correlated twice")
    for names in _groups(pairs):
        _check_noise(own, checked, names, where(names[0]))
    return checked


def _check_one(own: Mapping[str, Array], item: Correlation, here: str) -> Checked:
    first, second, given = item
    text = f"{here}correlation of {first!r} and {second!r}"
    for name in (first, second):
        if name not in tuple(own):
            hint = nearest_name(str(name), tuple(own))
            raise LayoutError(f"{text}: no sensor is called {name!r}{hint}")
    if first == second:
        raise LayoutError(f"{text}: that is one sensor; give it a covariance instead")
    try:
        matrix = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LayoutError(f"{text} is not numeric: {error}") from None
    rows, columns = len(own[first]), len(own[second])
    if matrix.shape != (rows, columns) or not np.isfinite(matrix).all():
        raise LayoutError(
            f"{text} must be {rows} x {columns} finite numbers, got shape {matrix.shape}"
        )
    matrix.setflags(write=False)
    return str(first), str(second), matrix  # names as sensors keep them


def _groups(pairs: Sequence[frozenset[str]]) -> list[list[str]]:
    """Sensors that are correlated directly or through others, sorted."""
    groups: list[set[str]] = []
    for pair in pairs:
        joined = set(pair).union(*(group for group in groups if group & pair))
        groups = [group for group in groups if not group & pair] + [joined]
    return [sorted(group) for group in groups]


def _check_noise(
    own: Mapping[str, Array], correlations: Sequence[Checked], names: list[str], here: str
) -> None:
    """Raise LayoutError if the joint covariance of some sensors has a negative eigenvalue."""
    starts = np.cumsum([0, *(len(own[name]) for name in names)]).tolist()
    start = dict(zip(names, starts, strict=False))
    noise = np.zeros((starts[-1], starts[-1]))
    for name in names:
        at = slice(start[name], start[name] + len(own[name]))
        noise[at, at] = own[name]
    for first, second, matrix in correlations:
        if first in start:
            rows = slice(start[first], start[first] + len(own[first]))
            columns = slice(start[second], start[second] + len(own[second]))
            noise[rows, columns], noise[columns, rows] = matrix, matrix.T
    scale = np.sqrt(np.abs(noise).max(axis=1))
    if not np.isfinite(scale).all():
        raise LayoutError(f"{here}correlations between {', '.join(names)}: the noise overflows")
    scale[scale == 0] = 1.0
    if np.linalg.eigvalsh(noise / scale / scale[:, None])[0] < -1e-12:
        raise LayoutError(
            f"{here}correlations between {', '.join(names)}: together with their own noise the"
            " covariance has a negative eigenvalue; no noise has it"
        )


def sparse_blocks(
    blocks: Sequence[tuple[slice, slice, Array]], size: int
) -> csc_array[np.float64]:
    """Sparse matrix (size, size) from dense blocks and their places."""
    rows, columns = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    data = [np.zeros(0)]
    for at, beside, block in blocks:
        i, j = np.nonzero(block)
        rows.append(at.start + i)
        columns.append(beside.start + j)
        data.append(block[i, j])
    places = np.concatenate(rows), np.concatenate(columns)
    return csc_array((np.concatenate(data), places), shape=(size, size))
