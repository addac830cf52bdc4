"""Spatial (6-D) vector algebra over scalars of any kind.

Conventions, those of the papers [RBDA]: angular part first, body coordinates. A
:class:`Transform` from frame A to frame B holds

    E   (3, 3)   rotation, takes A coordinates to B coordinates
    r   (3,)     origin of B, in A coordinates

and stands for the motion transform  X = [[E, 0], [-E [r]x, E]]  ([RBDA] eq. 2.24). Forces
travel back by its transpose. Arrays may hold float64, longdouble or expression-graph nodes:
nothing here looks at a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "Inertia",
    "MassMoments",
    "Transform",
    "compose",
    "congruence",
    "cross",
    "cross_force",
    "cross_motion",
    "frame_axis",
    "quaternion_to_rotation",
    "rotate_matrix",
    "rotation_about",
    "rotation_from_rpy",
    "rpy_of",
    "skew",
    "vector",
]

ROUNDING = 2.0**-52
"""Entries of a unit-scale rotation below this are rounding of an exact zero."""


def vector(*entries: Any) -> ScalarArray:
    """Array of the given scalars; object dtype only where one of them needs it."""
    return np.array(entries)


def cross(a: ScalarArray, b: ScalarArray) -> ScalarArray:
    """a x b for 3-vectors."""
    return vector(
        a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
    )


def skew(v: ScalarArray) -> ScalarArray:
    """[v]x, the (3, 3) matrix with [v]x u = v x u."""
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


def cross_motion(v: ScalarArray, m: ScalarArray) -> ScalarArray:
    """Rate v x m of a motion vector m fixed in a frame that moves at v ([RBDA] eq. 2.31)."""
    return np.concatenate([cross(v[:3], m[:3]), cross(v[3:], m[:3]) + cross(v[:3], m[3:])])


def cross_force(v: ScalarArray, f: ScalarArray) -> ScalarArray:
    """Rate v x* f of a force vector f fixed in a frame that moves at v ([RBDA] eq. 2.32)."""
    return np.concatenate([cross(v[:3], f[:3]) + cross(v[3:], f[3:]), cross(v[:3], f[3:])])


def rotation_about(axis: Array, cosine: Any, sine: Any) -> ScalarArray:
    """Coordinate rotation E (3, 3) of a frame turned about ``axis`` (transpose of Rodrigues).

    E = c 1 + (1 - c) a a^T - s [a]x ; an axis of the frame gives exact zeros and ones.
    """
    a = axis
    if np.count_nonzero(a) == 1:
        return _rotation_about_frame_axis(int(np.flatnonzero(a)[0]), cosine, sine * a.sum())
    versine = 1 - cosine
    E = np.empty((3, 3), dtype=np.asarray(cosine).dtype)
    for i in range(3):
        E[i, i] = cosine + versine * (a[i] * a[i])
        j, k = (i + 1) % 3, (i + 2) % 3
        E[i, j] = versine * (a[i] * a[j]) + sine * a[k]
        E[j, i] = versine * (a[i] * a[j]) - sine * a[k]
    return E


def _rotation_about_frame_axis(k: int, c: Any, s: Any) -> ScalarArray:
    if k == 0:
        return np.array([[1, 0, 0], [0, c, s], [0, -s, c]])
    if k == 1:
        return np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


def rotation_from_rpy(rpy: Array) -> Array:
    """Coordinate rotation E of URDF's fixed-axis roll, pitch, yaw; exact zeros restored."""
    x, y, z = np.eye(3)
    roll, pitch, yaw = (float(angle) for angle in rpy)
    E: Array = (
        rotation_about(x, np.cos(roll), np.sin(roll))
        @ rotation_about(y, np.cos(pitch), np.sin(pitch))
        @ rotation_about(z, np.cos(yaw), np.sin(yaw))
    )
    return without_rounding(E)


def rpy_of(E: Array) -> tuple[float, float, float]:
    """Roll, pitch, yaw of a coordinate rotation E (3, 3): inverse of :func:`rotation_from_rpy`.

    To rounding everywhere: where roll and yaw turn about the same line, the rest after any roll
    still says what the yaw is.
    """
    x = np.array([1.0, 0.0, 0.0])
    roll = float(np.arctan2(E[1, 2], E[2, 2]))
    rest = rotation_about(x, np.cos(roll), np.sin(roll)).T @ E  # of pitch and yaw
    pitch, yaw = np.arctan2(-rest[0, 2], rest[2, 2]), np.arctan2(-rest[1, 0], rest[1, 1])
    return roll, float(pitch), float(yaw)


def without_rounding(E: Array) -> Array:
    """E with entries below the rounding of a unit-scale matrix set to exact zeros."""
    return np.where(np.abs(E) <= ROUNDING, 0.0, E)


def quaternion_to_rotation(quaternion: ScalarArray) -> ScalarArray:
    """Coordinate rotation E of a unit quaternion (x, y, z, w), parent -> body."""
    x, y, z, w = quaternion
    xx, yy, zz = 2 * x * x, 2 * y * y, 2 * z * z
    xy, xz, yz = 2 * x * y, 2 * x * z, 2 * y * z
    wx, wy, wz = 2 * w * x, 2 * w * y, 2 * w * z
    return np.array(
        [
            [1 - yy - zz, xy + wz, xz - wy],
            [xy - wz, 1 - xx - zz, yz + wx],
            [xz + wy, yz - wx, 1 - xx - yy],
        ]
    )


@final
@dataclass(frozen=True, eq=False)
class Transform:
    """Coordinate transform A -> B of frames: ``E`` (3, 3) and ``r`` (3,), see the module."""

    E: ScalarArray
    r: ScalarArray

    @staticmethod
    def identity() -> Transform:
        """Transform of a frame onto itself."""
        return Transform(np.eye(3), np.zeros(3))

    def motion(self, v: ScalarArray) -> ScalarArray:
        """X v: a motion vector from A to B coordinates. Cost 24 multiplications at most."""
        return np.concatenate([self.E @ v[:3], self.E @ (v[3:] - cross(self.r, v[:3]))])

    def force_back(self, f: ScalarArray) -> ScalarArray:
        """X^T f: a force vector from B to A coordinates."""
        force = self.E.T @ f[3:]
        return np.concatenate([self.E.T @ f[:3] + cross(self.r, force), force])

    def matrix(self) -> ScalarArray:
        """X, the (6, 6) motion transform ([RBDA] eq. 2.24)."""
        X = np.zeros((6, 6), dtype=np.result_type(self.E, self.r))
        X[:3, :3] = X[3:, 3:] = self.E
        X[3:, :3] = -(self.E @ skew(self.r))
        return X

    def then(self, other: Transform) -> Transform:
        """Transform A -> C from this one (A -> B) and ``other`` (B -> C)."""
        return Transform(other.E @ self.E, self.r + self.E.T @ other.r)

    def inverse(self) -> Transform:
        """Transform B -> A."""
        return Transform(self.E.T, -(self.E @ self.r))

    def point(self, p: ScalarArray) -> ScalarArray:
        """Coordinates in A of the point with coordinates ``p`` in B."""
        in_a: ScalarArray = self.r + self.E.T @ p
        return in_a


def compose(first: Transform, second: Transform) -> Transform:
    """Transform A -> C from A -> B and B -> C, rounding of exact zeros removed."""
    both = first.then(second)
    return Transform(without_rounding(np.asarray(both.E)), both.r)


@final
@dataclass(frozen=True, eq=False)
class Inertia:
    """Mass (kg), centre of mass (3,) in body coordinates, inertia (3, 3) about that centre."""

    mass: float
    com: Array
    about_com: Array

    @staticmethod
    def zero() -> Inertia:
        """Inertia of a massless body."""
        return Inertia(0.0, np.zeros(3), np.zeros((3, 3)))

    @property
    def first_moment(self) -> Array:
        """First moment m c (3,) of the mass about the body's origin."""
        return self.mass * self.com

    @property
    def about_origin(self) -> Array:
        """Rotational inertia (3, 3) about the body's origin: I_C + m [c]x [c]x^T."""
        return self._about(np.zeros(3))

    def _about(self, point: Array) -> Array:
        """Rotational inertia (3, 3) about a point (3,): I_C + m [d]x [d]x^T, d = c - point."""
        d = self.com - point
        return self.about_com + self.mass * (float(d @ d) * np.eye(3) - np.outer(d, d))

    def moments(self, dtype: type[np.floating[Any]] = np.float64) -> MassMoments:
        """Mass, first and second moment about the body's origin, worked out once and rounded.

        ``np.longdouble`` keeps what rounding to float64 takes from nearly massless directions.
        """
        mass, com = np.longdouble(self.mass), self.com.astype(np.longdouble)
        about_com = self.about_com.astype(np.longdouble)
        second = np.trace(about_com) / 2 * np.eye(3) - about_com + mass * np.outer(com, com)
        return MassMoments(dtype(mass), (mass * com).astype(dtype), second.astype(dtype))

    def matrix(self) -> Array:
        """Spatial inertia (6, 6): [[I_O, m [c]x], [m [c]x^T, m 1]] ([NORI] footnote 2)."""
        matrix, mc = np.zeros((6, 6)), skew(self.first_moment)
        matrix[:3, :3], matrix[:3, 3:], matrix[3:, :3] = self.about_origin, mc, mc.T
        matrix[[3, 4, 5], [3, 4, 5]] = self.mass
        return matrix

    def seen_from(self, transform: Transform) -> Inertia:
        """Return the inertia of this body in frame A, given the transform A -> body."""
        E = np.asarray(transform.E, dtype=np.float64)
        com = np.asarray(transform.point(self.com), dtype=np.float64)
        return Inertia(self.mass, com, E.T @ self.about_com @ E)

    def plus(self, other: Inertia) -> Inertia:
        """Return the inertia of two bodies welded together, both in the same coordinates."""
        mass = self.mass + other.mass
        if mass == 0.0:
            return Inertia(0.0, np.zeros(3), self.about_com + other.about_com)
        com = (self.first_moment + other.first_moment) / mass
        return Inertia(mass, com, self._about(com) + other._about(com))


@final
@dataclass(frozen=True, eq=False)
class MassMoments:
    """Moments of a mass distribution about an origin: what the recursions read of a body.

    ``mass``, ``first`` = integral of r dm (3,), ``second`` = integral of r r^T dm (3, 3). They
    are linear in the distribution, so that parts of it can be taken off and put elsewhere.
    """

    mass: float | np.floating[Any]
    first: Array
    second: Array

    @property
    def rotational(self) -> Array:
        """Rotational inertia (3, 3) about the origin: tr(second) 1 - second."""
        return np.asarray(np.trace(self.second) * np.eye(3) - self.second)

    def matrix(self) -> Array:
        """Spatial inertia (6, 6) about the origin."""
        h = skew(self.first)
        return np.block([[self.rotational, h], [h.T, self.mass * np.eye(3)]])

    def plus(self, other: MassMoments) -> MassMoments:
        """Moments of both distributions together, same coordinates."""
        return MassMoments(
            self.mass + other.mass, self.first + other.first, self.second + other.second
        )

    def minus(self, other: MassMoments) -> MassMoments:
        """Moments of this distribution without the other one."""
        return MassMoments(
            self.mass - other.mass, self.first - other.first, self.second - other.second
        )

    def seen_from(self, transform: Transform) -> MassMoments:
        """Moments in frame A of this distribution given in B, for the transform A -> B."""
        E, r = transform.E, transform.r
        turned = E.T @ self.first
        mixed = np.outer(r, turned)
        second = E.T @ self.second @ E + mixed + mixed.T + self.mass * np.outer(r, r)
        return MassMoments(self.mass, turned + self.mass * r, second)


def matrix_pattern(E: BoolArray, r: BoolArray) -> BoolArray:
    """Worst-case nonzeros (6, 6) of a motion transform from those of its E and r."""
    r_cross = np.array([[0, r[2], r[1]], [r[2], 0, r[0]], [r[1], r[0], 0]], dtype=bool)
    pattern = np.zeros((6, 6), dtype=bool)
    pattern[:3, :3] = pattern[3:, 3:] = E
    pattern[3:, :3] = E @ r_cross
    return pattern


# ---- X^T M X, what an articulated inertia becomes one joint further down -----------------


def congruence(X: Transform, M: ScalarArray) -> ScalarArray:
    """X^T M X (6, 6) for symmetric M = [[A, B], [B^T, C]], over scalars of any kind.

    rotation:     (E^T A E, E^T B E, E^T C E)
    translation:  B' = B + [r]x C,   A' = A + [r]x B^T - B' [r]x
    """
    A, B, C = (rotate_matrix(X.E, block) for block in (M[:3, :3], M[:3, 3:], M[3:, 3:]))
    if any(not is_number(x, 0) for x in X.r):
        rC = cross_columns(X.r, C)
        shifted = B + rC
        # [r]x B^T - B' [r]x = (r x rows of B)^T + its mirror - ... gathered by symmetry
        half = cross_columns(X.r, B.T)
        A = A + half + cross_columns(X.r, shifted.T).T
        A = mirrored(A)
        B = shifted
    return np.block([[A, B], [B.T, C]])


def cross_columns(r: ScalarArray, M: ScalarArray) -> ScalarArray:
    """[r]x M: r x every column of M (3, 3)."""
    return np.array(
        [r[1] * M[2] - r[2] * M[1], r[2] * M[0] - r[0] * M[2], r[0] * M[1] - r[1] * M[0]]
    )


def mirrored(A: ScalarArray) -> ScalarArray:
    """A with its upper triangle copied below: equal entries become one node of a graph."""
    A = A.copy()
    for i in range(3):
        for j in range(i):
            A[i, j] = A[j, i]
    return A


def rotate_matrix(E: ScalarArray, M: ScalarArray) -> ScalarArray:
    """E^T M E (3, 3); E about a frame axis is recognised by its exact zeros and ones.

    Such an E mixes two coordinates only. With d = m11 - m22, t = m12 + m21,

        m11' = m22 + c w, m22' = m11 - c w ;  m12' = m12 + s w, m21' = m21 + s w,
        w = c d - s t

    turns a 2x2 block with four multiplications (Brandl, Johanni and Otter 1986 count the same
    way), so that A, B, C of :func:`congruence` cost 28 together, the plain products 60.
    """
    axis = frame_axis(E)
    if axis is None:
        return E.T @ M @ E
    i, j = (axis + 1) % 3, (axis + 2) % 3
    if is_number(E[i, i], 1) and is_number(E[i, j], 0):
        return M
    c, s = E[i, i], E[i, j]
    out = np.array(M, dtype=np.result_type(M.dtype, E.dtype))
    d, t = M[i, i] - M[j, j], M[i, j] + M[j, i]
    w = c * d - s * t
    h, g = c * w, s * w
    out[i, i], out[j, j] = M[j, j] + h, M[i, i] - h
    out[i, j], out[j, i] = M[i, j] + g, M[j, i] + g
    k = axis
    out[i, k], out[j, k] = c * M[i, k] - s * M[j, k], s * M[i, k] + c * M[j, k]
    out[k, i], out[k, j] = c * M[k, i] - s * M[k, j], s * M[k, i] + c * M[k, j]
    return out


def frame_axis(E: ScalarArray) -> int | None:
    """Frame axis 0, 1 or 2 that E turns about, or None; decided by exact zeros and ones."""
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        if is_number(E[k, k], 1) and all(
            is_number(x, 0) for x in (E[k, i], E[k, j], E[i, k], E[j, k])
        ):
            return k
    return None


def is_number(x: Any, value: float) -> bool:
    """Whether x is the plain number ``value`` (an expression-graph node never is)."""
    return isinstance(x, (int, float, np.floating)) and x == value
