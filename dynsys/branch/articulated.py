"""Articulated-body quantities per freedom, in one common frame ([DRUM] section 5).

    s_k   motion axis of freedom k          U_k = I^A_k s_k         D_k = s_k . U_k + armature_k

Joints of several freedoms come apart into single ones with massless bodies between (the
expanded graph of [BIS]), so that one rank-one step per freedom serves every joint:

    I^A_parent(k) += I^A_k - U_k U_k^T / D_k                                    [DRUM] eq. (7)

[DRUM] computes all of it in the global frame. There an inertia far from the origin holds
m |r|^2 beside the body's own moments, and what the joints feel is lost to cancellation, as
|r|^2. Here the inertias are gathered in body frames, one transform per body, and only s and U
are moved to the common frame, where the loss grows as |r| alone. :func:`articulate_globally` is
the paper's way; ``experiments.drumwright2012`` counts its operations and measures its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.branch.compiled import Loop
from dynsys.branch.packed import PackedTree
from dynsys.branch.packed_joints import PackedJoints
from dynsys.errors import SingularSystemError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["Freedoms", "TreeArrays", "articulate_globally", "motion_matrices"]


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
        articulate(
            *(tree.parent, motion_matrices(E_up, r_up), tree.inertia.copy()),
            *(tree.S, tree.first, tree.armature, U, D),
        )
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


@Loop
def articulate_globally(
    parent: IntArray, inertia: ScalarArray, s: ScalarArray, gain: ScalarArray, D: ScalarArray
) -> None:
    """Fill gain (n, 6) and D (n,) from isolated inertias (n, 6, 6), all in one frame.

    Only the upper triangle of the symmetric inertias is read and written. D starts as armature.
    """
    for k in range(len(parent) - 1, -1, -1):
        U = gain[k]
        for r in range(6):
            U[r] = inertia[k, 0, r] * s[k, 0]
            for c in range(1, 6):
                U[r] = U[r] + inertia[k, min(c, r), max(c, r)] * s[k, c]
        for r in range(6):
            D[k] = D[k] + s[k, r] * U[r]
        for r in range(6):
            scaled = U[r] / D[k]
            for c in range(r, 6):
                if parent[k] >= 0:
                    p = parent[k]
                    inertia[p, r, c] = inertia[p, r, c] + inertia[k, r, c] - scaled * U[c]
            U[r] = scaled
