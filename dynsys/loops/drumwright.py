"""M^-1 R column by column through articulated bodies: Theta(n m) for m columns ([DRUM]).

    s_k   motion axis of freedom k          U_k = IA_k s_k         D_k = s_k . U_k + armature_k

    leaves to base   u_i = R_i - s_i . Y_i              Y_parent += Y_i + g_i u_i
    base to leaves   x_i = u_i / D_i - g_i . v_parent         v_i = v_parent + s_i x_i

with g_i = U_i / D_i. Y are articulated-body impulses, v velocity changes, both in one common
frame. As in [DRUM] section 5.2 these are computed once for all columns, a column starts at its
last nonzero, and only freedoms that carry part of it take part in the first pass. Columns are
taken in blocks of :data:`BLOCK`, innermost in every loop, for vector arithmetic; blocks are
independent and go to threads.

[DRUM] computes the articulated inertias in the global frame, too. There an inertia far from the
origin holds m |r|^2 beside the body's own moments, and what the joints feel is lost to
cancellation, as |r|^2. Here U and D come from body frames (:mod:`dynsys.loops.articulated`) and
only s and U are moved to the common frame, where the loss grows as |r| alone. The paper's way
is in ``experiments.drumwright2012``, its operations counted and its error measured.

Three corrections to the paper as printed, without which it does not give M^-1. Algorithm 1,
line 5 propagates g_i u_i but not Y_i, so impulses would vanish past the first joint.
Lines 8 and 12 have delta_ik where a general R needs R_ik. Algorithm 2, line 7 has
-I^-1 (Y_0 + 1_k): a base impulse moves the base along it, I^-1 (1_k - Y_0).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.jit import Loop
from dynsys.loops.flat import TreeArrays
from dynsys.loops.tree_state import TreeState
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = [
    "BLOCK",
    "Freedoms",
    "contact_inertia",
    "floating_base",
    "gather_impulses",
    "inverse",
    "multiply_inverse",
    "update_velocities",
]

BLOCK = 32
"""Columns per block: 6 n x 16 numbers of workspace, within a core's cache up to n = 1000."""


@final
@dataclass(frozen=True, eq=False)
class Freedoms:
    """s, gain = U / D (nv, 6) and D (nv,) of every freedom; ``parent`` (nv,), expanded.

    The common frame is parallel to the base's, at ``origin`` (3,) in its coordinates.
    """

    parent: IntArray
    s: ScalarArray
    gain: ScalarArray
    D: ScalarArray
    origin: Array

    @staticmethod
    def at(state: TreeState) -> Freedoms:
        """Articulated-body quantities of a state, in a frame at the middle of the robot.

        Raises
        ------
        SingularSystemError
            naming the joint that moves no inertia.
        """
        tree, poses = state.tree, state.poses
        U, D = state.articulated
        s, wrench = tree.S.copy(), U.copy()
        origin = poses.r.mean(axis=0)
        express_commonly(tree.first, poses.E, poses.r - origin, s, wrench)
        return Freedoms(tree.freedom_parent, s, wrench / D[:, None], D, origin)


def floating_base(tree: TreeArrays) -> bool:
    """Whether freedoms 0..5 are those of one free body that carries all other freedoms."""
    if len(tree.first) < 2 or tree.first[1] != 6 or not (tree.freedom_parent[6:] >= 5).all():
        return False
    return bool(np.linalg.matrix_rank(tree.S[:6]) == 6)


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


# ---- algorithms 1 and 2 for a block of columns: columns last, so that inner loops are vectors


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


@Loop
def express_commonly(first: IntArray, E: Array, r: Array, s: Array, U: Array) -> None:
    """Move s and U (nv, 6) from body frames to the common one, in place."""
    for i in range(len(E)):
        x, y, z = r[i, 0], r[i, 1], r[i, 2]
        for k in range(first[i], first[i + 1]):
            for part in range(2):  # s: line vector (angular, linear); U: (moment, force)
                v = s if part == 0 else U
                a0, a1, a2 = v[k, 0], v[k, 1], v[k, 2]
                b0, b1, b2 = v[k, 3], v[k, 4], v[k, 5]
                for m in range(3):
                    v[k, m] = E[i, 0, m] * a0 + E[i, 1, m] * a1 + E[i, 2, m] * a2
                    v[k, m + 3] = E[i, 0, m] * b0 + E[i, 1, m] * b1 + E[i, 2, m] * b2
                fixed, moved = (0, 3) if part == 0 else (3, 0)  # moved += r x fixed
                v[k, moved] += y * v[k, fixed + 2] - z * v[k, fixed + 1]
                v[k, moved + 1] += z * v[k, fixed] - x * v[k, fixed + 2]
                v[k, moved + 2] += x * v[k, fixed + 1] - y * v[k, fixed]
