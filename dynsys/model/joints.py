"""Joint models: transform, motion subspace, worst-case sparsity, integration.

Every joint chooses its velocity in successor (child) coordinates, so that its motion subspace
``S`` (6, nv) is constant and its velocity bias c_J = dS/dt qd ([RBDA] eq. 3.41) is zero:

    v_child = X v_parent + S qd          a_child = X a_parent + S qdd + v_child x S qd

| joint       | nq | nv | position q                       | velocity                        |
|-------------|----|----|----------------------------------|---------------------------------|
| revolute    | 1  | 1  | angle about the axis             | its rate                        |
| prismatic   | 1  | 1  | distance along the axis          | its rate                        |
| helical     | 1  | 1  | angle; advance = pitch * angle   | its rate                        |
| cylindrical | 2  | 2  | angle, distance                  | their rates                     |
| planar      | 3  | 3  | angle, two distances (parent)    | angular rate, two rates (child) |
| spherical   | 4  | 3  | unit quaternion x y z w          | angular velocity (child)        |
| free        | 7  | 6  | position, unit quaternion        | angular, linear velocity (child)|
| fixed       | 0  | 0  |                                  |                                 |

A joint about or along one axis is described by S alone: its first coordinate turns where S has
an angular part, and every coordinate slides along the linear part of its column of S.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.spatial import (
    ROUNDING,
    Transform,
    cross,
    quaternion_to_rotation,
    rotation_about,
    vector,
)
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "JOINT_TYPES",
    "AbstractJoint",
    "Cylindrical",
    "Fixed",
    "Free",
    "Helical",
    "Planar",
    "Prismatic",
    "Revolute",
    "Spherical",
    "between",
    "random_quaternion",
]

JOINT_TYPES: dict[str, type[AbstractJoint]] = {}
"""Joint classes by their kind, in the order of the table above."""


class AbstractJoint(ABC):
    """What the rest of dynsys asks of a joint. A class states its kind, nq and nv."""

    kind: ClassVar[str]
    nq: ClassVar[int]
    nv: ClassVar[int]

    def __init_subclass__(cls, kind: str = "", nq: int = 0, nv: int = 0) -> None:
        super().__init_subclass__()
        if kind:
            cls.kind, cls.nq, cls.nv = kind, nq, nv
            JOINT_TYPES[kind] = cls

    @property
    @abstractmethod
    def S(self) -> Array:
        """Motion subspace (6, nv), child coordinates, constant."""

    @abstractmethod
    def transform(self, q: ScalarArray) -> Transform:
        """Transform from the joint's frame on the parent to the child, at position q (nq,)."""

    @abstractmethod
    def pattern(self) -> tuple[BoolArray, BoolArray]:
        """Worst-case nonzeros of the transform's E (3, 3) and r (3,), over all q."""

    def neutral(self) -> Array:
        """Position (nq,) at which child and joint frame coincide."""
        return np.zeros(self.nq)

    @property
    @abstractmethod
    def reach(self) -> Array:
        """Random positions without limits lie within + or - this: pi, or 1 m.

        One number for each position but the quaternion, if there is one, which is last.
        """

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        """Random position (nq,) between the limits; within the reach where there are none."""
        q, n = np.empty(self.nq), len(self.reach)
        q[:n] = rng.uniform(*between(lower[:n], upper[:n], self.reach))
        if n < self.nq:
            q[n:] = random_quaternion(rng)
        return q

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        """Position (.., nq) after moving at constant velocity v (.., nv) for time dt."""
        return q + v * dt

    def difference(self, q0: Array, q1: Array) -> Array:
        """Velocity v (.., nv) with ``integrate(q0, v, 1)`` = q1: the shortest way there."""
        return q1 - q0

    def tangent(self, q: ScalarArray) -> ScalarArray:
        """T (nq, nv), derivative of ``integrate(q, v, 1)`` by v at v = 0; any scalars."""
        return np.eye(self.nv)

    def rate(self, q: Array, v: Array) -> Array:
        """Rate dq/dt = T v (.., nq) of the position at velocity v (.., nv)."""
        return v

    def velocity(self, q: Array, rate: Array) -> Array:
        """Velocity v (.., nv) whose T v is nearest to a rate dq/dt (.., nq)."""
        return rate


def between(lower: Array, upper: Array, reach: Array) -> tuple[Array, Array]:
    """Least and largest random positions: the limits, + or - ``reach`` where there are none."""
    low = np.where(np.isfinite(lower), lower, -reach)
    return low, np.maximum(low, np.where(np.isfinite(upper), upper, reach))


# ---- joints about or along one axis ------------------------------------------------------


def _unit(axis: Array, what: str) -> Array:
    axis = np.asarray(axis, dtype=np.float64)
    length = float(np.linalg.norm(axis)) if axis.shape == (3,) else 0.0
    if not np.isfinite(length) or length == 0.0:
        raise ModelError(
            f"{what} joint: axis {axis.tolist()} is not a direction; give 3 numbers"
        )
    unit = axis / length
    unit = np.where(np.abs(unit) <= ROUNDING, 0.0, unit)
    unit.setflags(write=False)
    return unit


def _columns(*columns: tuple[Array, Array]) -> Array:
    """S (6, nv) from the angular and linear part (3,) of every column."""
    S = np.column_stack([np.concatenate(column) for column in columns])
    S.setflags(write=False)
    return S


_NONE = np.zeros(3)


@dataclass(frozen=True, eq=False)
class _AxisJoint(AbstractJoint):
    """A joint described by one unit axis (3,), child and parent alike, and its S."""

    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", _unit(self.axis, self.kind))

    @cached_property
    def _turns(self) -> bool:
        """Whether q[0] is an angle about the axis."""
        return bool(self.S[:3].any())

    @cached_property
    def _slides(self) -> list[tuple[int, Array]]:
        """Coordinates that move the origin, and the direction (3,) in which each does."""
        return [(k, linear) for k, linear in enumerate(self.S[3:].T) if linear.any()]

    def transform(self, q: ScalarArray) -> Transform:
        E = rotation_about(self.axis, np.cos(q[0]), np.sin(q[0])) if self._turns else np.eye(3)
        steps = [direction * q[k] for k, direction in self._slides]
        return Transform(E, sum(steps[1:], start=steps[0]) if steps else np.zeros(3))

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        a = np.abs(self.axis) if self._turns else _NONE
        a_cross = np.array([[0, a[2], a[1]], [a[2], 0, a[0]], [a[1], a[0], 0]])
        return (np.eye(3) + np.outer(a, a) + a_cross) > 0, (self.S[3:] != 0).any(axis=1)

    @cached_property
    def reach(self) -> Array:
        return np.where(self.S[:3].any(axis=0), np.pi, 1.0)


@final
@dataclass(frozen=True, eq=False)
class Revolute(_AxisJoint, kind="revolute", nq=1, nv=1):
    """Rotation by q about ``axis``; also URDF's continuous joint."""

    @cached_property
    def S(self) -> Array:
        return _columns((self.axis, _NONE))


@final
@dataclass(frozen=True, eq=False)
class Prismatic(_AxisJoint, kind="prismatic", nq=1, nv=1):
    """Translation by q along ``axis``."""

    @cached_property
    def S(self) -> Array:
        return _columns((_NONE, self.axis))


@final
@dataclass(frozen=True, eq=False)
class Helical(_AxisJoint, kind="helical", nq=1, nv=1):
    """Screw: rotation by q about ``axis`` with advance ``pitch`` * q along it (m/rad)."""

    pitch: float = 0.0

    def __post_init__(self) -> None:
        _AxisJoint.__post_init__(self)
        if not np.isfinite(self.pitch):
            raise ModelError(f"helical joint: pitch {self.pitch} m/rad is not a finite number")

    @cached_property
    def S(self) -> Array:
        return _columns((self.axis, self.pitch * self.axis))


@final
@dataclass(frozen=True, eq=False)
class Cylindrical(_AxisJoint, kind="cylindrical", nq=2, nv=2):
    """Independent rotation q[0] about and translation q[1] along ``axis``."""

    @cached_property
    def S(self) -> Array:
        return _columns((self.axis, _NONE), (_NONE, self.axis))


@final
@dataclass(frozen=True, eq=False)
class Planar(_AxisJoint, kind="planar", nq=3, nv=3):
    """Motion in the plane normal to ``axis``: q = (angle, distance along e1, along e2).

    e1 is the frame axis that follows the normal (x for a normal along z, as in URDF and
    [RBDA] table 4.1), made perpendicular to it; e2 = axis x e1. The distances are measured on
    the parent, the linear velocity in the turned child.
    """

    @property
    def directions(self) -> tuple[Array, Array]:
        """In-plane unit directions e1, e2 (3,)."""
        n = self.axis
        start = np.roll(np.eye(3)[np.argmax(np.abs(n))], 1)
        e1 = _unit(start - n * float(n @ start), "planar")
        return e1, np.asarray(cross(n, e1))

    @cached_property
    def S(self) -> Array:
        e1, e2 = self.directions
        return _columns((self.axis, _NONE), (_NONE, e1), (_NONE, e2))

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        half = 0.5 * v[..., 0] * dt
        chord = np.sinc(half / np.pi) * dt  # |chord of the arc| / |velocity|
        return q + self._turned(q[..., 0] + half, v, dt, chord)

    def difference(self, q0: Array, q1: Array) -> Array:
        way = q1 - q0
        turn = way[..., 0] - 2 * np.pi * np.round(way[..., 0] / (2 * np.pi))
        half = 0.5 * turn
        moved = self._turned(-(q0[..., 0] + half), way, 1.0, 1.0 / np.sinc(half / np.pi))
        moved[..., 0] = turn
        return moved

    def rate(self, q: Array, v: Array) -> Array:
        return self._turned(q[..., 0], v, 1.0, 1.0)

    def velocity(self, q: Array, rate: Array) -> Array:
        return self._turned(-q[..., 0], rate, 1.0, 1.0)

    @staticmethod
    def _turned(angle: Array, x: Array, turn: float, move: Array | float) -> Array:
        """(turn x0, move (x1, x2) turned by the angle), leading axes allowed."""
        c, s = np.cos(angle), np.sin(angle)
        x1, x2 = x[..., 1], x[..., 2]
        parts = [turn * x[..., 0], move * (c * x1 - s * x2), move * (s * x1 + c * x2)]
        return np.stack(parts, axis=-1)

    def tangent(self, q: ScalarArray) -> ScalarArray:
        c, s = np.cos(q[0]), np.sin(q[0])
        return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


# ---- joints that turn by a unit quaternion (x, y, z, w), and no joint --------------------


@final
@dataclass(frozen=True, eq=False)
class Spherical(AbstractJoint, kind="spherical", nq=4, nv=3):
    """Ball joint: unit quaternion (x, y, z, w), angular velocity in child coordinates."""

    @property
    def S(self) -> Array:
        return np.vstack([np.eye(3), np.zeros((3, 3))])

    def transform(self, q: ScalarArray) -> Transform:
        return Transform(quaternion_to_rotation(q), np.zeros(3))

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.ones((3, 3), dtype=bool), np.zeros(3, dtype=bool)

    def neutral(self) -> Array:
        return np.array([0.0, 0.0, 0.0, 1.0])

    @property
    def reach(self) -> Array:
        return np.zeros(0)

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        return quaternion_step(q, v * dt)

    def difference(self, q0: Array, q1: Array) -> Array:
        return quaternion_turn(q0, q1)

    def tangent(self, q: ScalarArray) -> ScalarArray:
        return quaternion_tangent(q)

    def rate(self, q: Array, v: Array) -> Array:
        return quaternion_rate(q, v)

    def velocity(self, q: Array, rate: Array) -> Array:
        return angular_velocity(q, rate)


@final
@dataclass(frozen=True, eq=False)
class Free(AbstractJoint, kind="free", nq=7, nv=6):
    """Six freedoms: q = (position in parent, quaternion), v = (angular, linear) in child."""

    @property
    def S(self) -> Array:
        return np.eye(6)

    def transform(self, q: ScalarArray) -> Transform:
        return Transform(quaternion_to_rotation(q[3:]), vector(*q[:3]))

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.ones((3, 3), dtype=bool), np.ones(3, dtype=bool)

    def neutral(self) -> Array:
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    @property
    def reach(self) -> Array:
        return np.ones(3)

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        where, quaternion = q[..., :3], q[..., 3:]
        turn, step = v[..., :3] * dt, v[..., 3:] * dt
        moved = rotated(quaternion, along_arc(turn, step))
        return np.concatenate([where + moved, quaternion_step(quaternion, turn)], axis=-1)

    def difference(self, q0: Array, q1: Array) -> Array:
        turn = quaternion_turn(q0[..., 3:], q1[..., 3:])
        way = rotated(conjugate(q0[..., 3:]), q1[..., :3] - q0[..., :3])
        return np.concatenate([turn, before_arc(turn, way)], axis=-1)

    def rate(self, q: Array, v: Array) -> Array:
        quaternion = q[..., 3:]
        turning = quaternion_rate(quaternion, v[..., :3])
        return np.concatenate([rotated(quaternion, v[..., 3:]), turning], axis=-1)

    def velocity(self, q: Array, rate: Array) -> Array:
        quaternion = q[..., 3:]
        linear = rotated(conjugate(quaternion), rate[..., :3])
        return np.concatenate([angular_velocity(quaternion, rate[..., 3:]), linear], axis=-1)

    def tangent(self, q: ScalarArray) -> ScalarArray:
        T = np.zeros((7, 6), dtype=q.dtype)
        T[:3, 3:] = quaternion_to_rotation(q[3:]).T
        T[3:, :3] = quaternion_tangent(q[3:])
        return T


def random_quaternion(rng: np.random.Generator) -> Array:
    """Uniformly distributed unit quaternion (4,)."""
    x = rng.normal(size=4)
    return x / np.linalg.norm(x)


# ---- unit quaternions (.., 4) and vectors (.., 3) -----------------------------------------


def quaternion_step(quaternion: Array, turn: Array) -> Array:
    """Quaternion after a further rotation vector ``turn`` (.., 3) in body coordinates."""
    angle = _length(turn)
    xyz = 0.5 * np.sinc(0.5 * angle / np.pi) * turn
    moved = _product(quaternion, np.concatenate([xyz, np.cos(0.5 * angle)], axis=-1))
    return np.asarray(moved / _length(moved))


def quaternion_turn(start: Array, end: Array) -> Array:
    """Shortest rotation vector (.., 3) that :func:`quaternion_step` goes from start to end."""
    way = _product(conjugate(start), end)
    way = np.where(way[..., 3:] < 0, -way, way)  # both signs stand for the same rotation
    sine = _length(way[..., :3])
    half = np.arctan2(sine, way[..., 3:])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sine > 0, 2 * half / sine, 2.0) * way[..., :3])


def quaternion_tangent(quaternion: ScalarArray) -> ScalarArray:
    """Derivative (4, 3) of :func:`quaternion_step` by the turn, at none."""
    x, y, z, w = quaternion / 2
    return np.array([[w, -z, y], [z, w, -x], [-y, x, w], [-x, -y, -z]])


def quaternion_rate(quaternion: Array, w: Array) -> Array:
    """Rate (.., 4) of a quaternion that turns at angular velocity w (.., 3), body axes."""
    return _product(quaternion, np.concatenate([0.5 * w, np.zeros_like(w[..., :1])], axis=-1))


def angular_velocity(quaternion: Array, rate: Array) -> Array:
    """Angular velocity (.., 3), body axes, whose :func:`quaternion_rate` is nearest."""
    square = (quaternion * quaternion).sum(axis=-1, keepdims=True)
    return np.asarray(2 * _product(conjugate(quaternion), rate)[..., :3] / square)


def conjugate(quaternion: Array) -> Array:
    """Quaternion (.., 4) of the inverse rotation."""
    return np.asarray(quaternion * np.array([-1.0, -1.0, -1.0, 1.0]))


def rotated(quaternion: Array, x: Array) -> Array:
    """E^T x (.., 3): body coordinates to the parent's."""
    u, w = quaternion[..., :3], quaternion[..., 3:]
    return np.asarray(x + 2 * _cross(u, _cross(u, x) + w * x))


def along_arc(turn: Array, x: Array) -> Array:
    """Displacement (.., 3) in the starting frame at velocity x while the body turns."""
    angle = _length(turn)
    a2 = angle * angle
    small = angle < 1e-3  # series: what follows is below 1e-16
    a, b = np.where(small, 1.0, angle), np.where(small, 1.0, a2)
    along = 0.5 * np.sinc(0.5 * angle / np.pi) ** 2
    square = np.where(small, 1 / 6 - a2 / 120, (a - np.sin(a)) / (b * a))
    once = _cross(turn, x)
    return np.asarray(x + along * once + square * _cross(turn, once))


def before_arc(turn: Array, x: Array) -> Array:
    """Undo :func:`along_arc` for turns of at most pi: the velocity that ends at x."""
    angle = _length(turn)
    small = angle < 1e-3
    half = np.where(small, 1.0, 0.5 * angle)
    square = (1 - half * np.cos(half) / np.sin(half)) / np.where(small, 1.0, angle * angle)
    square = np.where(small, 1 / 12 + angle * angle / 720, square)
    once = _cross(turn, x)
    return np.asarray(x - 0.5 * once + square * _cross(turn, once))


def _product(a: Array, b: Array) -> Array:
    """Hamilton's product of quaternions x, y, z, w."""
    u, u0, v, v0 = a[..., :3], a[..., 3:], b[..., :3], b[..., 3:]
    real = u0 * v0 - (u * v).sum(axis=-1, keepdims=True)
    return np.concatenate([u0 * v + v0 * u + _cross(u, v), real], axis=-1)


def _cross(a: Array, b: Array) -> Array:
    """a x b along the last axis."""
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    return np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)


def _length(x: Array) -> Array:
    """Length of vectors along the last axis, which stays: (.., 1)."""
    return np.asarray(np.sqrt((x * x).sum(axis=-1, keepdims=True)))


@final
@dataclass(frozen=True, eq=False)
class Fixed(AbstractJoint, kind="fixed", nq=0, nv=0):
    """No freedom. Readers fold fixed joints away; a tree may still hold them."""

    @property
    def S(self) -> Array:
        return np.zeros((6, 0))

    def transform(self, q: ScalarArray) -> Transform:
        return Transform.identity()

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.eye(3, dtype=bool), np.zeros(3, dtype=bool)

    @property
    def reach(self) -> Array:
        return np.zeros(0)
