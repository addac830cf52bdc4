"""M^-1 R column by column through articulated bodies: Theta(n m) for m columns ([DRUM]).

    leaves to base   u_i = R_i - s_i . Y_i              Y_parent += Y_i + g_i u_i
    base to leaves   x_i = u_i / D_i - g_i . v_parent         v_i = v_parent + s_i x_i

with g_i = U_i / D_i of :mod:`dynsys.loops.drumwright`.

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
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.jit import Loop
from dynsys.loops.packed import PackedJoints, PackedTree
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = [
    "Freedoms",
    "TreeArrays",
    "contact_inertia",
    "floating_base",
    "gather_impulses",
    "inverse",
    "motion_matrices",
    "multiply_inverse",
    "point_velocities",
    "start_at_base",
    "update_velocities",
]

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


# ----------------------------------------------------------------------
# The loops of [DRUM] algorithms 1 and 2 for a block of columns; see :mod:`.drumwright`.
#
# Arrays with columns have them last, so that the innermost loops are vector arithmetic.


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


# ----------------------------------------------------------------------
# Articulated-body quantities per freedom, in one common frame ([DRUM] section 5).
#
#     s_k   motion axis of freedom k          U_k = I^A_k s_k         D_k = s_k . U_k +
#     armature_k
#
# Joints of several freedoms come apart into single ones with massless bodies between (the
# expanded graph of [BIS]), so that one rank-one step per freedom serves every joint:
#
#     I^A_parent(k) += I^A_k - U_k U_k^T / D_k                                    [DRUM] eq. (7)
#
# [DRUM] computes all of it in the global frame. There an inertia far from the origin holds
# m |r|^2 beside the body's own moments, and what the joints feel is lost to cancellation, as
# |r|^2. Here the inertias are gathered in body frames, one transform per body, and only s and U
# are moved to the common frame, where the loss grows as |r| alone. The paper's way is in
# ``experiments.drumwright2012.runs``, its operations counted and its error measured.


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


@final
class TreeArrays:
    """A robot's flat arrays, made once; gives matrices and freedoms at any q."""

    def __init__(self, robot: KinematicTree) -> None:
        self.robot = robot
        self.tree = PackedTree.of(robot)
        self.joints = PackedJoints.of(robot)

    def motion_matrices(self, q: Array) -> Array:
        """Motion transforms X (N, 6, 6) parent -> body."""
        return motion_matrices(*self.joints.transforms(q))

    def freedoms(self, q: Array) -> Freedoms:
        """Articulated-body quantities at q (nq,), in a frame at the middle of the robot.

        Raises
        ------
        SingularSystemError
            naming the joint that moves no inertia.
        """
        tree = self.tree
        E_up, r_up = self.joints.transforms(q)
        poses = self.joints.poses(E_up, r_up)
        U, D = np.empty_like(tree.S), np.empty(len(tree.S))
        X, IA = motion_matrices(E_up, r_up), tree.inertia.copy()
        articulate(tree.parent, X, IA, tree.S, tree.first, tree.armature, U, D)
        self.require_positive(D)
        s = tree.S.copy()
        origin = poses.r.mean(axis=0)
        express_commonly(tree.first, poses.E, poses.r - origin, s, U)
        return Freedoms(tree.freedom_parent, s, U / D[:, None], D, origin)

    def require_positive(self, D: Array) -> None:
        """Raise SingularSystemError naming the joint if a pivot D (nv,) is not positive."""
        bad = np.flatnonzero(~(D > 0))
        if len(bad):
            body = int(np.searchsorted(self.tree.first, bad[-1], side="right")) - 1
            raise SingularSystemError(
                f"robot {self.robot.name!r}: the bodies that joint"
                f" {self.robot.joint_names[body]!r} moves have no inertia along it; give them"
                " mass or the joint armature"
            )


def motion_matrices(E: Array, r: Array) -> Array:
    """X (N, 6, 6) of transforms E (N, 3, 3), r (N, 3) ([RBDA] eq. 2.24)."""
    X = np.zeros((len(E), 6, 6))
    fill_motion_matrices(E, r, X)
    return X


@Loop
def fill_motion_matrices(E: Array, r: Array, X: Array) -> None:
    """Write E on the diagonal and -E [r]x below; X (N, 6, 6) starts as zeros."""
    for i in range(len(E)):
        x, y, z = r[i, 0], r[i, 1], r[i, 2]
        for m in range(3):
            for n in range(3):
                X[i, m, n] = X[i, m + 3, n + 3] = E[i, m, n]
            X[i, m + 3, 0] = E[i, m, 2] * y - E[i, m, 1] * z
            X[i, m + 3, 1] = E[i, m, 0] * z - E[i, m, 2] * x
            X[i, m + 3, 2] = E[i, m, 1] * x - E[i, m, 0] * y


@Loop
def articulate(
    parent: IntArray,
    X: Array,
    inertia: Array,
    S: Array,
    first: IntArray,
    armature: Array,
    U: Array,
    D: Array,
) -> None:
    """Fill U (nv, 6) and D (nv,), body frames; ``inertia`` (N, 6, 6) becomes articulated."""
    half = np.empty((6, 6))
    for i in range(len(parent) - 1, -1, -1):
        for k in range(first[i + 1] - 1, first[i] - 1, -1):
            D[k] = armature[k]
            for r in range(6):
                U[k, r] = 0.0
                for c in range(6):
                    U[k, r] += inertia[i, r, c] * S[k, c]
                D[k] += S[k, r] * U[k, r]
            for r in range(6):
                for c in range(6):
                    inertia[i, r, c] -= U[k, r] * U[k, c] / D[k]
        if parent[i] >= 0:
            for r in range(6):
                for c in range(6):
                    half[r, c] = 0.0
                    for k in range(6):
                        half[r, c] += inertia[i, r, k] * X[i, k, c]
            for r in range(6):
                for c in range(6):
                    for k in range(6):
                        inertia[parent[i], r, c] += X[i, k, r] * half[k, c]


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
