"""Composite-rigid-body algorithm: the joint-space inertia matrix H(q) (nv, nv). O(n d).

    composite_i = I_i + sum over children of X^T composite_j X
    F = composite_i S_i ;  H_ii = S_i^T F ;  F <- X^T F towards the base ;  H_ij = F^T S_j

([RBDA] section 6.2.) A composite body is described by its mass (constant), first moment h (3,)
and rotational inertia about the origin (3, 3), ten numbers instead of thirty-six.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynsys.model.spatial import MassMoments, Transform, cross, mirrored, rotate_matrix
from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.recursive.kinematics import transforms
from dynsys.types import Array, ArrayLike, ScalarArray

__all__ = ["Composite", "crba", "crba_scalars"]


class Composite(NamedTuple):
    """Mass, first moment (3,) and rotational inertia (3, 3) about the origin of a subtree."""

    mass: float | np.floating[Any]
    h: ScalarArray
    I: ScalarArray

    @staticmethod
    def of(moments: MassMoments) -> Composite:
        return Composite(moments.mass, moments.first, moments.rotational)

    def plus(self, other: Composite) -> Composite:
        return Composite(self.mass + other.mass, self.h + other.h, self.I + other.I)

    def seen_by_parent(self, X: Transform) -> Composite:
        """X^T (self) X: rotate, then shift the origin by r ([RBDA] eq. 2.66)."""
        h = X.E.T @ self.h
        moved = h + self.mass * X.r
        # I' = I + (2 h.r + m r.r) 1 - h r^T - r h^T - m r r^T, with moved = h + m r:
        outer = np.array(
            [[X.r[i] * moved[j] + h[i] * X.r[j] for j in range(3)] for i in range(3)]
        )
        trace = outer[0, 0] + outer[1, 1] + outer[2, 2]
        rotated = rotate_matrix(X.E, self.I)
        shift = np.array(
            [[(trace if i == j else 0) - outer[i, j] for j in range(3)] for i in range(3)]
        )
        return Composite(self.mass, moved, mirrored(rotated + shift))

    def times(self, motion: ScalarArray) -> ScalarArray:
        """Wrench (6,) = inertia times motion vector (w, v): (I w + h x v, m v - h x w)."""
        w, v = motion[:3], motion[3:]
        return np.concatenate([self.I @ w + cross(self.h, v), self.mass * v - cross(self.h, w)])


def crba(robot: KinematicTree, q: ArrayLike) -> Array:
    """Joint-space inertia matrix H (nv, nv) at q (nq,), armature included."""
    return crba_scalars(robot, robot.check_q(q))


def crba_scalars(robot: Mechanism, q: ScalarArray) -> ScalarArray:
    """H (nv, nv) over scalars of any kind; see :func:`crba`."""
    X_up = transforms(robot, q)
    composite = [Composite.of(moments) for moments in robot.moments]
    H = np.zeros((robot.nv, robot.nv), dtype=q.dtype)
    for i in reversed(range(robot.n_bodies)):
        _add_rows(robot, X_up, composite[i], i, H)
        if (parent := robot.parent[i]) >= 0:
            composite[parent] = composite[parent].plus(composite[i].seen_by_parent(X_up[i]))
    for k in range(robot.nv):
        H[k, k] = H[k, k] + robot.armature[k]
    return H


def _add_rows(
    robot: Mechanism, X_up: list[Transform], composite: Composite, i: int, H: ScalarArray
) -> None:
    """Add the terms of joint i with itself and with every joint below it to H, in place."""
    S, freedoms = robot.motion_subspace, robot.v_slices()
    F = [composite.times(column) for column in S[i].T]
    for k, row in enumerate(range(freedoms[i].start, freedoms[i].stop)):
        H[row, freedoms[i]] = H[row, freedoms[i]] + S[i].T @ F[k]
    j = i
    while (parent := int(robot.parent[j])) >= 0:
        F = [X_up[j].force_back(wrench) for wrench in F]
        j = parent
        for k, row in enumerate(range(freedoms[i].start, freedoms[i].stop)):
            terms = S[j].T @ F[k]
            H[row, freedoms[j]] = H[row, freedoms[j]] + terms
            H[freedoms[j], row] = H[freedoms[j], row] + terms
