"""M^-1 R column by column through articulated bodies: Theta(n m) for m columns ([DRUM]).

    leaves to base   u_i = R_i - s_i . Y_i              Y_parent += Y_i + g_i u_i
    base to leaves   x_i = u_i / D_i - g_i . v_parent         v_i = v_parent + s_i x_i

with g_i = U_i / D_i of :mod:`dynsys.branch.articulated`.

Y are articulated-body impulses, v velocity changes, both in one common frame. As in [DRUM]
section 5.2 these are computed once for all columns, a column starts at its last nonzero, and
only freedoms that carry part of it take part in the first pass.

Three corrections to the paper as printed, without which it does not give M^-1. Algorithm 1,
line 5 propagates g_i u_i but not Y_i, so impulses would vanish past the first joint.
Lines 8 and 12 have delta_ik where a general R needs R_ik. Algorithm 2, line 7 has
-I^-1 (Y_0 + 1_k): a base impulse moves the base along it, I^-1 (1_k - Y_0).

Columns are taken in blocks of :data:`BLOCK`, innermost in every loop, for vector arithmetic;
blocks are independent and go to threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dynsys.branch.articulated import Freedoms
from dynsys.branch.drumwright_loops import (
    gather_impulses,
    point_velocities,
    start_at_base,
    update_velocities,
)
from dynsys.types import Array, IntArray

__all__ = ["contact_inertia", "floating_base", "inverse", "multiply_inverse"]

BLOCK = 32
"""Columns per block: 6 n x 16 numbers of workspace, within a core's cache up to n = 1000."""


def multiply_inverse(freedoms: Freedoms, R: Array, base: bool, threads: int = 1) -> Array:
    """M^-1 R (n, m) for R (n, m): [DRUM] algorithm 1, or 2 if ``base``.

    ``base`` says that freedoms 0..5 are those of a free body carrying all others; its inertia
    is then inverted as one 6 x 6 matrix.
    """
    out = np.empty_like(R)
    mobility = _base_mobility(freedoms) if base else np.empty((0, 0))

    def run(start: int, work: _Work) -> None:
        stop = min(start + BLOCK, R.shape[1])
        work.R[:, : stop - start] = R[:, start:stop]
        work.R[:, stop - start :] = 0.0
        _solve(freedoms, mobility, work, len(R))
        out[:, start:stop] = work.x[:, : stop - start]

    _each(run, len(R), R.shape[1], threads)
    return out


def contact_inertia(
    freedoms: Freedoms, J: Array, base: bool, tip: IntArray, points: Array
) -> Array:
    """J M^-1 J^T (3 c, 3 c) for the Jacobian J (3 c, n) of c points, along z, x, y of each.

    Point k moves with freedom ``tip[k]``, at ``points[k]`` (3,) in base coordinates. Six
    products per element: the velocities of all bodies are at hand, J need not be multiplied.
    """
    out = np.empty((len(J), len(J)))
    mobility = _base_mobility(freedoms) if base else np.empty((0, 0))
    arms = points - freedoms.origin

    def run(start: int, work: _Work) -> None:
        stop = min(start + BLOCK, len(J))
        work.R[:, : stop - start] = J[start:stop].T
        work.R[:, stop - start :] = 0.0
        _solve(freedoms, mobility, work, J.shape[1])
        point_velocities(tip, arms, work.v, out[:, start:stop])

    _each(run, J.shape[1], len(J), 1)
    return out


def inverse(freedoms: Freedoms, base: bool, threads: int = 1) -> Array:
    """M^-1 (n, n): unit columns, rows above the diagonal only, the rest by symmetry."""
    n = len(freedoms.D)
    out = np.empty((n, n))
    mobility = _base_mobility(freedoms) if base else np.empty((0, 0))

    def run(start: int, work: _Work) -> None:
        stop = min(start + BLOCK, n)
        work.R[:] = 0.0
        work.R[range(start, stop), range(stop - start)] = 1.0
        _solve(freedoms, mobility, work, stop)
        x = work.x[:stop, : stop - start]
        out[:stop, start:stop] = x
        out[start:stop, :stop] = x.T

    _each(run, n, n, threads)
    return out


class _Work:
    """Scratch of one thread for a block of columns."""

    def __init__(self, n: int, columns: int) -> None:
        self.R, self.x = np.empty((n, columns)), np.empty((n, columns))
        self.Y, self.v = np.empty((n, 6, columns)), np.empty((n, 6, columns))


def _solve(freedoms: Freedoms, mobility: Array, work: _Work, rows: int) -> None:
    """Write the first rows of M^-1 R into x; R is used up."""
    parent, s, gain = freedoms.parent, freedoms.s, freedoms.gain
    x, v = work.x[:rows], work.v[:rows]
    base = len(mobility)  # freedoms of the base, 0 or 6
    active = np.any(work.R != 0, axis=1)
    gather_impulses(parent, s, gain, work.R, work.Y, active, base)
    if base:
        start_at_base(s, mobility, work.R, work.Y, v, x)
    update_velocities(parent, s, gain, freedoms.D, work.R, v, x, base)


def _each(run: Callable[[int, _Work], None], n: int, columns: int, threads: int) -> None:
    """Call ``run`` for every block of columns, dealt out to threads in turn."""
    starts = range(0, columns, BLOCK)
    shares = [starts[t::threads] for t in range(max(1, min(threads, len(starts))))]

    def work_off(share: range) -> None:
        work = _Work(n, min(BLOCK, columns))
        for start in share:
            run(start, work)

    if len(shares) == 1:
        work_off(starts)
        return
    with ThreadPoolExecutor(len(shares) - 1) as pool:
        others = [pool.submit(work_off, share) for share in shares[1:]]
        work_off(shares[0])
        for other in others:
            other.result()


def floating_base(parent: IntArray, S: Array, first: IntArray) -> bool:
    """Whether freedoms 0..5 are those of one free body that carries all other freedoms."""
    if len(first) < 2 or first[1] != 6 or not (parent[6:] >= 5).all():
        return False
    return bool(np.linalg.matrix_rank(S[:6]) == 6)


def _base_mobility(freedoms: Freedoms) -> Array:
    """Velocity of the base per impulse on it, both by its freedoms: (S^T I^A S)^-1 (6, 6).

    From the rank-one steps themselves, which factorise it: no further inertia is needed.
    """
    six = slice(0, 6)
    head = Freedoms(
        *(freedoms.parent[six], freedoms.s[six], freedoms.gain[six], freedoms.D[six]),
        freedoms.origin,
    )
    return multiply_inverse(head, np.eye(6), base=False)
