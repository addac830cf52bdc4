"""A tree as flat arrays: what every compiled loop reads. Made once per robot.

parent (N,)          parent of each body
first (N + 1,)       freedoms of body i are first[i] .. first[i + 1] - 1
S (nv, 6)            motion subspace, one row per freedom
inertia (N, 6, 6)    spatial inertia of each body
freedom_parent (nv,) expanded parent array
last (N,)            last freedom that moves each body, -1 if none does
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final, overload

import numpy as np

from dynsys.errors import ModelError
from dynsys.jit import Loop
from dynsys.model.expanded import expanded_parent, last_freedom
from dynsys.model.joints import (
    AbstractJoint,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
)
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, IntArray

__all__ = [
    "PackedJoints",
    "PackedTree",
    "Poses",
    "composite_rigid_bodies",
    "inertia_matrix",
]


@final
@dataclass(frozen=True, eq=False)
class PackedTree:
    """The arrays of the module, and ``armature`` (nv,)."""

    parent: IntArray
    first: IntArray
    S: Array
    inertia: Array
    armature: Array
    freedom_parent: IntArray
    last: IntArray

    @staticmethod
    def of(robot: KinematicTree) -> PackedTree:
        """Arrays of a robot.

        Raises
        ------
        ModelError
            if the robot has coupled (mimic) joints: its inertia matrix has no tree sparsity.
        """
        if robot.is_coupled:
            raise ModelError(
                f"robot {robot.name!r} has coupled (mimic) joints, so its inertia matrix has no"
                ' tree sparsity; load it with mimic="independent" or use the method "dense"'
            )
        sizes = [joint.nv for joint in robot.joints]
        subspaces = [S.T for S in robot.motion_subspace]
        return PackedTree(
            parent=np.array(robot.parent),
            first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp),
            S=np.ascontiguousarray(np.concatenate([np.zeros((0, 6)), *subspaces])),
            inertia=np.array([moments.matrix() for moments in robot.moments]),
            armature=np.array(robot.armature),
            freedom_parent=expanded_parent(robot),
            last=last_freedom(robot),
        )


# ----------------------------------------------------------------------
# Joint transforms, poses and integration of a whole robot as compiled loops. O(n).
#
# The twin, for numbers and robots of any size, of
# :func:`dynsys.recursive.kinematics.transforms`,
# ``poses`` and ``robot.integrate``. Conventions are those of :mod:`dynsys.model.spatial`:
# ``E`` (N, 3, 3) takes base to body coordinates, ``r`` (N, 3) is the body's origin in the
# base's.

SCREW, CYLINDRICAL, PLANAR, SPHERICAL, FREE, FIXED = range(6)
KINDS: dict[type[AbstractJoint], int] = {
    Revolute: SCREW,
    Prismatic: SCREW,
    Helical: SCREW,
    Cylindrical: CYLINDRICAL,
    Planar: PLANAR,
    Spherical: SPHERICAL,
    Free: FREE,
    Fixed: FIXED,
}


@final
@dataclass(frozen=True, eq=False)
class PackedJoints:
    """Joints of a robot without coupled ones, as flat arrays, one row per body.

    ``turn`` and ``slide`` (N, 3): rotation axis and translation per unit of a one-freedom
    joint's q; ``e1``, ``e2`` (N, 3): the plane of a planar joint. ``q0``, ``v0``: first entry
    of the joint in q and in v.
    """

    parent: IntArray
    kind: IntArray
    q0: IntArray
    v0: IntArray
    place_E: Array
    place_r: Array
    turn: Array
    slide: Array
    e1: Array
    e2: Array

    @staticmethod
    def of(robot: KinematicTree) -> PackedJoints:
        """Arrays of a robot.

        Raises
        ------
        ModelError
            if the robot has coupled (mimic) joints or a joint of a kind not listed here.
        """
        n = robot.n_bodies
        turn, slide, e1, e2 = (np.zeros((n, 3)) for _ in range(4))
        for i, joint in enumerate(robot.joints):
            if type(joint) not in KINDS or robot.bodies[i].coupling is not None:
                raise ModelError(
                    f"robot {robot.name!r}, joint {robot.joint_names[i]!r}: compiled kinematics"
                    " take neither coupled (mimic) joints nor new kinds; use the dense methods"
                )
            if isinstance(joint, (Revolute, Helical, Cylindrical, Planar)):
                turn[i] = joint.axis
            if isinstance(joint, (Prismatic, Cylindrical)):
                slide[i] = joint.axis
            if isinstance(joint, Helical):
                slide[i] = joint.pitch * joint.axis
            if isinstance(joint, Planar):
                e1[i], e2[i] = joint.directions
        return PackedJoints(
            parent=np.array(robot.parent),
            kind=np.array([KINDS[type(joint)] for joint in robot.joints], dtype=np.intp),
            q0=np.array([q.start for q in robot.q_slices()], dtype=np.intp),
            v0=np.array([v.start for v in robot.v_slices()], dtype=np.intp),
            place_E=np.array([b.placement.E for b in robot.bodies]).reshape(n, 3, 3),
            place_r=np.array([b.placement.r for b in robot.bodies]).reshape(n, 3),
            turn=turn,
            slide=slide,
            e1=e1,
            e2=e2,
        )

    def transforms(self, q: Array) -> tuple[Array, Array]:
        """E (N, 3, 3) and r (N, 3) of every transform parent -> body at q (nq,)."""
        E, r = np.empty_like(self.place_E), np.empty_like(self.place_r)
        place_joints(
            *(self.kind, self.q0, self.place_E, self.place_r),
            *(self.turn, self.slide, self.e1, self.e2, q, E, r),
        )
        return E, r

    def poses(self, E_up: Array, r_up: Array) -> Poses:
        """Transforms base -> body from those parent -> body."""
        E, r = E_up.copy(), r_up.copy()
        compose(self.parent, E, r)
        return Poses(E, r)

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        """Return q (nq,) after moving at constant v (nv,) for time dt; unchecked."""
        out = np.empty_like(q)
        advance(self.kind, self.q0, self.v0, q, v, dt, out)
        return out


@final
class Poses(Sequence[Transform]):
    """Poses of all bodies: arrays ``E`` (N, 3, 3), ``r`` (N, 3), and Transforms by number."""

    def __init__(self, E: Array, r: Array) -> None:
        self.E, self.r = E, r

    def __len__(self) -> int:
        return len(self.E)

    @overload
    def __getitem__(self, i: int) -> Transform: ...
    @overload
    def __getitem__(self, i: slice) -> list[Transform]: ...
    def __getitem__(self, i: int | slice) -> Transform | list[Transform]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        return Transform(self.E[i], self.r[i])


@Loop
def place_joints(
    kind: IntArray,
    q0: IntArray,
    place_E: Array,
    place_r: Array,
    turn: Array,
    slide: Array,
    e1: Array,
    e2: Array,
    q: Array,
    E: Array,
    r: Array,
) -> None:
    """Write the transform parent -> body of every joint: its placement, then the joint's."""
    turned, moved = np.empty((3, 3)), np.empty(3)
    for i in range(len(kind)):
        k = q0[i]
        if kind[i] == SPHERICAL or kind[i] == FREE:
            first = k if kind[i] == SPHERICAL else k + 3
            x, y, z, w = q[first], q[first + 1], q[first + 2], q[first + 3]
            turned[0, 0] = 1 - 2 * (y * y + z * z)
            turned[1, 1] = 1 - 2 * (x * x + z * z)
            turned[2, 2] = 1 - 2 * (x * x + y * y)
            turned[0, 1], turned[1, 0] = 2 * (x * y + w * z), 2 * (x * y - w * z)
            turned[0, 2], turned[2, 0] = 2 * (x * z - w * y), 2 * (x * z + w * y)
            turned[1, 2], turned[2, 1] = 2 * (y * z + w * x), 2 * (y * z - w * x)
        elif kind[i] == FIXED:
            turned[:, :] = np.eye(3)
        else:  # E = c 1 + (1 - c) a a^T - s [a]x about a unit axis, 1 if there is none
            a = turn[i]
            c, s = (np.cos(q[k]), np.sin(q[k])) if np.any(a != 0) else (1.0, 0.0)
            for m in range(3):
                n, p = (m + 1) % 3, (m + 2) % 3
                turned[m, m] = c + (1 - c) * (a[m] * a[m])
                turned[m, n] = (1 - c) * (a[m] * a[n]) + s * a[p]
                turned[n, m] = (1 - c) * (a[m] * a[n]) - s * a[p]
        for m in range(3):
            moved[m] = 0.0
            if kind[i] == FREE:
                moved[m] = q[k + m]
            elif kind[i] == SCREW:
                moved[m] = slide[i, m] * q[k]
            elif kind[i] == CYLINDRICAL:
                moved[m] = slide[i, m] * q[k + 1]
            elif kind[i] == PLANAR:
                moved[m] = e1[i, m] * q[k + 1] + e2[i, m] * q[k + 2]
        for m in range(3):
            r[i, m] = place_r[i, m]
            for n in range(3):
                r[i, m] += place_E[i, n, m] * moved[n]
                E[i, m, n] = 0.0
                for p in range(3):
                    E[i, m, n] += turned[m, p] * place_E[i, p, n]


@Loop
def compose(parent: IntArray, E: Array, r: Array) -> None:
    """Replace transforms parent -> body by base -> body, in place."""
    turned, moved = np.empty((3, 3)), np.empty(3)
    for i in range(len(parent)):
        p = parent[i]
        if p >= 0:
            for m in range(3):
                moved[m] = r[p, m]
                for n in range(3):
                    moved[m] += E[p, n, m] * r[i, n]
                    turned[m, n] = 0.0
                    for k in range(3):
                        turned[m, n] += E[i, m, k] * E[p, k, n]
            r[i] = moved
            E[i] = turned


@Loop
def advance(
    kind: IntArray, q0: IntArray, v0: IntArray, q: Array, v: Array, dt: float, out: Array
) -> None:
    """Write q after time dt at constant v; see the joints' ``integrate``."""
    for i in range(len(kind)):
        k, j = q0[i], v0[i]
        if kind[i] == SCREW:
            out[k] = q[k] + v[j] * dt
        elif kind[i] == CYLINDRICAL:
            out[k], out[k + 1] = q[k] + v[j] * dt, q[k + 1] + v[j + 1] * dt
        elif kind[i] == PLANAR:
            half = 0.5 * v[j] * dt
            chord = dt if half == 0.0 else dt * np.sin(half) / half
            c, s = np.cos(q[k] + half), np.sin(q[k] + half)
            out[k] = q[k] + 2 * half
            out[k + 1] = q[k + 1] + chord * (c * v[j + 1] - s * v[j + 2])
            out[k + 2] = q[k + 2] + chord * (s * v[j + 1] + c * v[j + 2])
        elif kind[i] == SPHERICAL or kind[i] == FREE:
            n = k if kind[i] == SPHERICAL else k + 3
            a, b, c = v[j] * dt, v[j + 1] * dt, v[j + 2] * dt
            angle2 = a * a + b * b + c * c
            angle = np.sqrt(angle2)
            sinc = 0.5 - angle2 / 48 if angle < 1e-3 else np.sin(0.5 * angle) / angle
            x, y, z, w = sinc * a, sinc * b, sinc * c, np.cos(0.5 * angle)
            ux, uy, uz, u0 = q[n], q[n + 1], q[n + 2], q[n + 3]
            if kind[i] == FREE:  # displacement in the starting frame, then in the base's
                if angle < 1e-3:
                    f, g = 0.5 - angle2 / 24, 1 / 6 - angle2 / 120
                else:
                    f = (1 - np.cos(angle)) / angle2
                    g = (angle - np.sin(angle)) / (angle2 * angle)
                dx, dy, dz = v[j + 3] * dt, v[j + 4] * dt, v[j + 5] * dt
                kx, ky, kz = b * dz - c * dy, c * dx - a * dz, a * dy - b * dx
                dx += f * kx + g * (b * kz - c * ky)
                dy += f * ky + g * (c * kx - a * kz)
                dz += f * kz + g * (a * ky - b * kx)
                tx, ty, tz = (
                    2 * (uy * dz - uz * dy),
                    2 * (uz * dx - ux * dz),
                    2 * (ux * dy - uy * dx),
                )
                out[k] = q[k] + dx + u0 * tx + (uy * tz - uz * ty)
                out[k + 1] = q[k + 1] + dy + u0 * ty + (uz * tx - ux * tz)
                out[k + 2] = q[k + 2] + dz + u0 * tz + (ux * ty - uy * tx)
            px = u0 * x + w * ux + uy * z - uz * y
            py = u0 * y + w * uy + uz * x - ux * z
            pz = u0 * z + w * uz + ux * y - uy * x
            pw = u0 * w - ux * x - uy * y - uz * z
            size = np.sqrt(px * px + py * py + pz * pz + pw * pw)
            out[n], out[n + 1], out[n + 2], out[n + 3] = (
                px / size,
                py / size,
                pz / size,
                pw / size,
            )


# ----------------------------------------------------------------------
# Composite-rigid-body algorithm as a compiled loop: H without touching its zeros. O(n d).
#
# The listing of [BIS] section 5 for joints of any number of freedoms. It is the twin, for
# numbers
# and robots of any size, of :func:`dynsys.crba`, which runs on scalars of any kind.


def inertia_matrix(tree: PackedTree, X: Array) -> Array:
    """Joint-space inertia matrix H (nv, nv) from the motion transforms X (N, 6, 6)."""
    H = np.zeros((len(tree.S), len(tree.S)))
    composite_rigid_bodies(tree.parent, X, tree.inertia.copy(), tree.S, tree.first, H)
    H[np.diag_indices(len(H))] += tree.armature
    return H


@Loop
def composite_rigid_bodies(
    parent: IntArray, X: Array, composite: Array, S: Array, first: IntArray, H: Array
) -> None:
    """Fill H (nv, nv) where the pattern is; ``composite`` (N, 6, 6) starts as the inertias."""
    f, g, half = np.empty(6), np.empty(6), np.empty((6, 6))
    for i in range(len(parent) - 1, -1, -1):
        for k in range(first[i], first[i + 1]):
            for r in range(6):  # f = composite_i s_k
                f[r] = 0.0
                for c in range(6):
                    f[r] += composite[i, r, c] * S[k, c]
            j = i
            while j >= 0:
                for other in range(first[j], first[j + 1]):
                    element = 0.0
                    for r in range(6):
                        element += f[r] * S[other, r]
                    H[k, other] = H[other, k] = element  # [BIS] eq. (5)
                if parent[j] >= 0:
                    for c in range(6):  # f = X_j' f
                        g[c] = 0.0
                        for r in range(6):
                            g[c] += X[j, r, c] * f[r]
                    f[:] = g
                j = parent[j]
        if parent[i] >= 0:
            for r in range(6):
                for c in range(6):
                    half[r, c] = 0.0
                    for k in range(6):
                        half[r, c] += composite[i, r, k] * X[i, k, c]
            for r in range(6):
                for c in range(6):
                    for k in range(6):
                        composite[parent[i], r, c] += X[i, k, r] * half[k, c]
