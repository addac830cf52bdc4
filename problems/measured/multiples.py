"""Numbers that are a multiple of what they should be: another unit, another sign.

    a x = b + noise,    x about 1000 for N mm in place of N m, -1 for another sign

A factor is told from an offset, which moves numbers as much where they hardly change.
"""

from __future__ import annotations

import numpy as np

from dynsys.types import Array, BoolArray

__all__ = ["NEAR", "times_wrong"]

NEAR = 1.25
"""Factor within which a number is what it should be."""
TOLD = 4.0
"""Deviations of a slope from none, and of that of a factor from that of an offset, one."""


def times_wrong(given: Array, expected: Array) -> float | None:
    """Factor by which numbers (N,) or (N, k) would have to be larger to be what is expected.

    None if they are about right, no multiple of it, or perhaps off by constants: changes tell
    which, they have the factor too; without any, several columns that share it do.
    """
    known = np.isfinite(given) & np.isfinite(expected)
    a, b = given[known], expected[known]
    size_a, size_b, product = float(a @ a), float(b @ b), float(a @ b)
    if len(a) < 8 or size_a == 0.0 or size_b == 0.0:
        return None
    if abs(product) < 0.9 * np.sqrt(size_a * size_b):
        return None
    times = product / size_a
    if 1 / NEAR < times < NEAR:
        return None
    slope, std, columns = _slope(given, expected, known)
    if min(abs(slope), abs(1.0 / times - 1.0)) > TOLD * std:
        return times if abs(slope - 1.0 / times) < abs(slope - 1.0) else None
    return times if columns > 1 else None


def _slope(given: Array, expected: Array, known: BoolArray) -> tuple[float, float, int]:
    """By how much numbers change with what is expected, its deviation, number of columns."""
    there = known.reshape(len(known), -1)
    count = there.sum(axis=0)
    changes = []
    for x in (given, expected):
        kept = np.where(there, x.reshape(there.shape), 0.0)
        changes.append(np.where(there, kept - kept.sum(axis=0) / np.maximum(count, 1), 0.0))
    a, b = changes
    size, columns = float((b * b).sum()), int((count > 0).sum())
    if size == 0.0:
        return 0.0, np.inf, columns
    slope = float((a * b).sum()) / size
    left = float(((a - slope * b) ** 2).sum()) / max(int(count.sum()) - columns - 1, 1)
    return slope, float(np.sqrt(left / size)), columns
