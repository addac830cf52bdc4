"""One robot at one q, by compiled loops: where its bodies are, H, its factors, U and D.

Each quantity is computed when it is first asked for, in the robot's own frames; M^-1, the
operational-space methods and the simulation share them. Conventions are those of
:mod:`dynsys.model.spatial`: ``E`` (N, 3, 3) takes base (or parent) to body coordinates, ``r``
(N, 3) is the body's origin in the base's (or parent's).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final, overload

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.jit import Loop
from dynsys.loops.flat import (
    AXIAL,
    CYLINDRICAL,
    FREE,
    KIND,
    NV,
    PLANAR,
    Q0,
    V0,
    FlatRobot,
    TreeArrays,
    flat_robot,
)
from dynsys.loops.states import articulated_freedoms, body_transforms, inertia_states
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.recursive.sparse_factors import ltdl_in_situ
from dynsys.types import Array, IntArray

__all__ = ["Poses", "TreeState", "integrate"]


@final
class TreeState:
    """A robot without coupled joints at q (nq,); the position is not checked."""

    def __init__(self, robot: KinematicTree, q: Array) -> None:
        self.robot = robot
        self.q = q

    @cached_property
    def flat(self) -> FlatRobot:
        """The robot as flat arrays."""
        return flat_robot(self.robot)

    @property
    def tree(self) -> TreeArrays:
        """Topology and inertias of the robot; an error if it has coupled joints."""
        return self.flat.tree

    @cached_property
    def up(self) -> tuple[Array, Array]:
        """E (N, 3, 3) and r (N, 3) of the transforms parent -> body."""
        n = self.robot.n_bodies
        E, r = np.empty((n, 3, 3)), np.empty((n, 3))
        self.flat.call(body_transforms(), self.q, E, r)
        return E, r

    @cached_property
    def poses(self) -> Poses:
        """Transform base -> body of every body."""
        E, r = (x.copy() for x in self.up)
        compose(self.tree.parent, E, r)
        return Poses(E, r)

    @cached_property
    def X(self) -> Array:
        """Motion transforms (N, 6, 6) parent -> body ([RBDA] eq. 2.24)."""
        X = np.zeros((self.robot.n_bodies, 6, 6))
        fill_motion_matrices(*self.up, X)
        return X

    @cached_property
    def H(self) -> Array:
        """Joint-space inertia matrix (nv, nv), armature included."""
        n = self.robot.nv
        H = np.empty((n, n))
        self.flat.call(inertia_states(), self.q[None], H.reshape(1, n * n))
        return H

    @cached_property
    def ltdl(self) -> tuple[Array, Array]:
        """L (nv, nv), unit diagonal not stored, and diag (nv,): H = L^T diag L.

        Raises
        ------
        SingularSystemError
            naming the joint that moves no inertia.
        """
        F = self.H.copy()
        ltdl_in_situ(F, self.tree.freedom_parent)
        diag = np.diagonal(F).copy()
        self.require_positive(diag)
        return F, diag

    @cached_property
    def articulated(self) -> tuple[Array, Array]:
        """U = IA S (nv, 6) and D = S . U + armature (nv,) of every freedom, body frames.

        Joints of several freedoms come apart into single ones with massless bodies between,
        the last freedom nearest to the body (the expanded graph of [BIS]).

        Raises
        ------
        SingularSystemError
            naming the joint that moves no inertia.
        """
        U, D = np.empty((self.robot.nv, 6)), np.empty(self.robot.nv)
        self.flat.call(articulated_freedoms(), self.q, U, D)
        self.require_positive(D)
        return U, D

    def require_positive(self, pivots: Array) -> None:
        """Raise SingularSystemError naming the joint if a pivot (nv,) is not positive."""
        bad = np.flatnonzero(~(pivots > 0))
        if len(bad):
            body = int(np.searchsorted(self.tree.first, bad[-1], side="right")) - 1
            raise SingularSystemError(
                f"robot {self.robot.name!r}: the bodies that joint"
                f" {self.robot.joint_names[body]!r} moves have no inertia along it; give them"
                " mass or the joint armature"
            )


def integrate(robot: KinematicTree, q: Array, v: Array, dt: float) -> Array:
    """Return q (nq,) after moving at constant v (nv,) for time dt; unchecked.

    The twin of ``robot.integrate`` for robots of any size without coupled joints.
    """
    out = np.empty_like(q)
    advance(flat_robot(robot).integers, q, v, dt, out)
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
def advance(integers: IntArray, q: Array, v: Array, dt: float, out: Array) -> None:
    """Write q after time dt at constant v; see the joints' ``integrate``."""
    for i in range(1, len(integers)):
        kind, k, j = integers[i, KIND], integers[i, Q0], integers[i, V0]
        if kind == AXIAL:
            if integers[i, NV] > 0:
                out[k] = q[k] + v[j] * dt
        elif kind == CYLINDRICAL:
            out[k], out[k + 1] = q[k] + v[j] * dt, q[k + 1] + v[j + 1] * dt
        elif kind == PLANAR:
            half = 0.5 * v[j] * dt
            chord = dt if half == 0.0 else dt * np.sin(half) / half
            c, s = np.cos(q[k] + half), np.sin(q[k] + half)
            out[k] = q[k] + 2 * half
            out[k + 1] = q[k + 1] + chord * (c * v[j + 1] - s * v[j + 2])
            out[k + 2] = q[k + 2] + chord * (s * v[j + 1] + c * v[j + 2])
        else:  # a quaternion
            n = k + 3 if kind == FREE else k
            a, b, c = v[j] * dt, v[j + 1] * dt, v[j + 2] * dt
            angle2 = a * a + b * b + c * c
            angle = np.sqrt(angle2)
            sinc = 0.5 - angle2 / 48 if angle < 1e-3 else np.sin(0.5 * angle) / angle
            x, y, z, w = sinc * a, sinc * b, sinc * c, np.cos(0.5 * angle)
            ux, uy, uz, u0 = q[n], q[n + 1], q[n + 2], q[n + 3]
            if kind == FREE:  # displacement in the starting frame, then in the base's
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
                tx, ty = 2 * (uy * dz - uz * dy), 2 * (uz * dx - ux * dz)
                tz = 2 * (ux * dy - uy * dx)
                out[k] = q[k] + dx + u0 * tx + (uy * tz - uz * ty)
                out[k + 1] = q[k + 1] + dy + u0 * ty + (uz * tx - ux * tz)
                out[k + 2] = q[k + 2] + dz + u0 * tz + (ux * ty - uy * tx)
            px = u0 * x + w * ux + uy * z - uz * y
            py = u0 * y + w * uy + uz * x - ux * z
            pz = u0 * z + w * uz + ux * y - uy * x
            pw = u0 * w - ux * x - uy * y - uz * z
            size = np.sqrt(px * px + py * py + pz * pz + pw * pw)
            out[n], out[n + 1] = px / size, py / size
            out[n + 2], out[n + 3] = pz / size, pw / size
