"""Joints about or along one axis: revolute, prismatic, helical, cylindrical, planar."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.joint import AbstractJoint, uniform
from dynsys.model.spatial import ROUNDING, Transform, cross, rotation_about
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = ["Cylindrical", "Helical", "Planar", "Prismatic", "Revolute"]


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


@dataclass(frozen=True, eq=False)
class _AxisJoint(AbstractJoint):
    """A joint described by one unit axis (3,), child and parent alike."""

    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", _unit(self.axis, self.kind))

    def _rotation_pattern(self) -> BoolArray:
        a = np.abs(self.axis)
        a_cross = np.array([[0, a[2], a[1]], [a[2], 0, a[0]], [a[1], a[0], 0]])
        pattern: BoolArray = (np.eye(3) + np.outer(a, a) + a_cross) > 0
        return pattern


@final
@dataclass(frozen=True, eq=False)
class Revolute(_AxisJoint):
    """Rotation by q about ``axis``; also URDF's continuous joint."""

    kind: ClassVar[str] = "revolute"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    @property
    def S(self) -> Array:
        return np.concatenate([self.axis, np.zeros(3)])[:, None]

    def transform(self, q: ScalarArray) -> Transform:
        return Transform(rotation_about(self.axis, np.cos(q[0]), np.sin(q[0])), np.zeros(3))

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return self._rotation_pattern(), np.zeros(3, dtype=bool)


@final
@dataclass(frozen=True, eq=False)
class Prismatic(_AxisJoint):
    """Translation by q along ``axis``."""

    kind: ClassVar[str] = "prismatic"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    @property
    def S(self) -> Array:
        return np.concatenate([np.zeros(3), self.axis])[:, None]

    def transform(self, q: ScalarArray) -> Transform:
        return Transform(np.eye(3), self.axis * q[0])

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.eye(3, dtype=bool), self.axis != 0

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        return uniform(rng, lower, upper, 1.0)


@final
@dataclass(frozen=True, eq=False)
class Helical(_AxisJoint):
    """Screw: rotation by q about ``axis`` with advance ``pitch`` * q along it (m/rad)."""

    pitch: float = 0.0
    kind: ClassVar[str] = "helical"
    nq: ClassVar[int] = 1
    nv: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _AxisJoint.__post_init__(self)
        if not np.isfinite(self.pitch):
            raise ModelError(f"helical joint: pitch {self.pitch} m/rad is not a finite number")

    @property
    def S(self) -> Array:
        return np.concatenate([self.axis, self.pitch * self.axis])[:, None]

    def transform(self, q: ScalarArray) -> Transform:
        E = rotation_about(self.axis, np.cos(q[0]), np.sin(q[0]))
        return Transform(E, (self.pitch * self.axis) * q[0])

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return self._rotation_pattern(), (self.pitch * self.axis) != 0


@final
@dataclass(frozen=True, eq=False)
class Cylindrical(_AxisJoint):
    """Independent rotation q[0] about and translation q[1] along ``axis``."""

    kind: ClassVar[str] = "cylindrical"
    nq: ClassVar[int] = 2
    nv: ClassVar[int] = 2

    @property
    def S(self) -> Array:
        zero = np.zeros(3)
        return np.column_stack(
            [np.concatenate([self.axis, zero]), np.concatenate([zero, self.axis])]
        )

    def transform(self, q: ScalarArray) -> Transform:
        E = rotation_about(self.axis, np.cos(q[0]), np.sin(q[0]))
        return Transform(E, self.axis * q[1])

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return self._rotation_pattern(), self.axis != 0

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        return uniform(rng, lower, upper, np.array([np.pi, 1.0]))


@final
@dataclass(frozen=True, eq=False)
class Planar(_AxisJoint):
    """Motion in the plane normal to ``axis``: q = (angle, distance along e1, along e2).

    e1 is the frame axis that follows the normal (x for a normal along z, as in URDF and
    [RBDA] table 4.1), made perpendicular to it; e2 = axis x e1. The distances are measured on
    the parent, the linear velocity in the turned child.
    """

    kind: ClassVar[str] = "planar"
    nq: ClassVar[int] = 3
    nv: ClassVar[int] = 3

    @property
    def directions(self) -> tuple[Array, Array]:
        """In-plane unit directions e1, e2 (3,)."""
        n = self.axis
        start = np.roll(np.eye(3)[np.argmax(np.abs(n))], 1)
        e1 = _unit(start - n * float(n @ start), "planar")
        return e1, np.asarray(cross(n, e1))

    @property
    def S(self) -> Array:
        e1, e2 = self.directions
        zero = np.zeros(3)
        return np.column_stack(
            [
                np.concatenate([self.axis, zero]),
                np.concatenate([zero, e1]),
                np.concatenate([zero, e2]),
            ]
        )

    def transform(self, q: ScalarArray) -> Transform:
        e1, e2 = self.directions
        E = rotation_about(self.axis, np.cos(q[0]), np.sin(q[0]))
        return Transform(E, e1 * q[1] + e2 * q[2])

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        e1, e2 = self.directions
        return self._rotation_pattern(), (e1 != 0) | (e2 != 0)

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        return uniform(rng, lower, upper, np.array([np.pi, 1.0, 1.0]))

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        turn = v[0] * dt
        half = 0.5 * turn
        chord = np.sinc(half / np.pi) * dt  # |chord of the arc| / |velocity|
        c, s = np.cos(q[0] + half), np.sin(q[0] + half)
        dx, dy = chord * (c * v[1] - s * v[2]), chord * (s * v[1] + c * v[2])
        return np.array([q[0] + turn, q[1] + dx, q[2] + dy])
