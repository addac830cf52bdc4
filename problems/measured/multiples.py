"""Numbers that are a multiple of what they should be: another unit, another sign.

    a x = b + noise,    x about 1000 for N mm in place of N m, -1 for another sign

A factor is told from an offset, which moves numbers as much where they hardly change.
"""

from __future__ import annotations

import numpy as np

from dynsys.types import Array

__all__ = ["NEAR", "times_wrong"]

NEAR = 1.25
"""Factor within which a number is what it should be."""
TOLD = 4.0
"""Times more squares that one explanation leaves than another that is told from it."""


def times_wrong(given: Array, expected: Array) -> float | None:
    """Factor by which numbers (N,) or (N, k) would have to be larger to be what is expected.

    None if they are about right, no multiple of it, or off by constants as well: a factor is
    told from an offset by numbers that change, or by several columns that share it.
    """
    known = np.isfinite(given) & np.isfinite(expected)
    a, b = given[known], expected[known]
    size_a, size_b, product = float(a @ a), float(b @ b), float(a @ b)
    if len(a) < 8 or size_a == 0.0 or size_b == 0.0:
        return None
    if abs(product) < 0.9 * np.sqrt(size_a * size_b):
        return None
    off, there = (x.reshape(len(given), -1) for x in (given - expected, known))
    by_column = [off[there[:, k], k] for k in range(off.shape[1]) if there[:, k].any()]
    left_by_offsets = sum(len(x) * float(x.var()) for x in by_column)
    left = min(size_a, size_b) - product**2 / max(size_a, size_b)
    if left > left_by_offsets * (TOLD if len(by_column) > 1 else 1.0 / TOLD):
        return None
    times = product / size_a
    return None if 1 / NEAR < times < NEAR else times
