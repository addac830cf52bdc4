"""The loops of [DRUM] algorithms 1 and 2 for a block of columns; see :mod:`.drumwright`.

Arrays with columns have them last, so that the innermost loops are vector arithmetic.
"""

from __future__ import annotations

from dynsys.branch.compiled import Loop
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = ["gather_impulses", "point_velocities", "start_at_base", "update_velocities"]


@Loop
def gather_impulses(
    parent: IntArray,
    s: ScalarArray,
    gain: ScalarArray,
    R: ScalarArray,
    Y: ScalarArray,
    active: BoolArray,
    base: int,
) -> None:
    """Leaves to base: R (n, m) becomes u = R - s . Y; Y (n, 6, m) is scratch.

    Lines 4-5 of both algorithms. ``active`` (n,) marks rows of R that are not zero; the
    freedoms below them join in. Freedoms 0 .. base - 1 are left to :func:`start_at_base`.
    """
    for i in range(len(parent)):
        for r in range(6):
            for c in range(R.shape[1]):
                Y[i, r, c] = 0.0
    for i in range(len(parent) - 1, base - 1, -1):
        if active[i]:
            for r in range(6):
                for c in range(R.shape[1]):
                    R[i, c] = R[i, c] - s[i, r] * Y[i, r, c]
            p = parent[i]
            if p >= 0:
                active[p] = True
                for r in range(6):
                    for c in range(R.shape[1]):
                        Y[p, r, c] = Y[p, r, c] + Y[i, r, c] + gain[i, r] * R[i, c]


@Loop
def start_at_base(
    s: ScalarArray,
    mobility: ScalarArray,
    R: ScalarArray,
    Y: ScalarArray,
    v: ScalarArray,
    x: ScalarArray,
) -> None:
    """Velocity of a floating base from the impulses on it (lines 6-10 of algorithm 2).

    ``mobility`` (6, 6) is the inverse of its articulated inertia, by its freedoms 0..5.
    """
    for i in range(6):
        for c in range(R.shape[1]):
            for r in range(6):
                R[i, c] = R[i, c] - s[i, r] * Y[5, r, c]
    for c in range(R.shape[1]):
        for r in range(6):
            v[5, r, c] = 0.0
        for i in range(6):
            x[i, c] = 0.0
            for k in range(6):
                x[i, c] = x[i, c] + mobility[i, k] * R[k, c]
            for r in range(6):
                v[5, r, c] = v[5, r, c] + s[i, r] * x[i, c]


@Loop
def update_velocities(
    parent: IntArray,
    s: ScalarArray,
    gain: ScalarArray,
    D: ScalarArray,
    u: ScalarArray,
    v: ScalarArray,
    x: ScalarArray,
    base: int,
) -> None:
    """Base to leaves, rows base .. len(x) - 1: x (rows, m) of M^-1 R, v (rows, 6, m).

    Lines 7-10 of algorithm 1, 11-14 of algorithm 2.
    """
    for i in range(base, len(x)):
        p = parent[i]
        for c in range(u.shape[1]):
            x[i, c] = u[i, c] / D[i]
        if p >= 0:
            for r in range(6):
                for c in range(u.shape[1]):
                    x[i, c] = x[i, c] - gain[i, r] * v[p, r, c]
        for r in range(6):
            for c in range(u.shape[1]):
                if p >= 0:
                    v[i, r, c] = v[p, r, c] + s[i, r] * x[i, c]
                else:
                    v[i, r, c] = s[i, r] * x[i, c]


@Loop
def point_velocities(tip: IntArray, arms: Array, v: Array, out: Array) -> None:
    """Velocity v + w x arm of points along z, x, y into out (3 c, m); v (n, 6, >= m)."""
    for k in range(len(tip)):
        a, b, c = arms[k, 0], arms[k, 1], arms[k, 2]
        body = v[tip[k]]
        for m in range(out.shape[1]):
            out[3 * k, m] = body[5, m] + body[0, m] * b - body[1, m] * a
            out[3 * k + 1, m] = body[3, m] + body[1, m] * c - body[2, m] * b
            out[3 * k + 2, m] = body[4, m] + body[2, m] * a - body[0, m] * c
