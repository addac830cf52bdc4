"""Joints that turn by a unit quaternion (x, y, z, w): spherical and free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.model.joint import AbstractJoint, uniform
from dynsys.model.spatial import Transform, quaternion_to_rotation, vector
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = ["Free", "Spherical", "left_jacobian", "quaternion_step", "random_quaternion"]


@final
@dataclass(frozen=True, eq=False)
class Spherical(AbstractJoint):
    """Ball joint: unit quaternion (x, y, z, w), angular velocity in child coordinates."""

    kind: ClassVar[str] = "spherical"
    nq: ClassVar[int] = 4
    nv: ClassVar[int] = 3

    @property
    def S(self) -> Array:
        return np.vstack([np.eye(3), np.zeros((3, 3))])

    def transform(self, q: ScalarArray) -> Transform:
        return Transform(quaternion_to_rotation(q), np.zeros(3))

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.ones((3, 3), dtype=bool), np.zeros(3, dtype=bool)

    def neutral(self) -> Array:
        return np.array([0.0, 0.0, 0.0, 1.0])

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        return random_quaternion(rng)

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        return quaternion_step(q, v * dt)


@final
@dataclass(frozen=True, eq=False)
class Free(AbstractJoint):
    """Six freedoms: q = (position in parent, quaternion), v = (angular, linear) in child."""

    kind: ClassVar[str] = "free"
    nq: ClassVar[int] = 7
    nv: ClassVar[int] = 6

    @property
    def S(self) -> Array:
        return np.eye(6)

    def transform(self, q: ScalarArray) -> Transform:
        return Transform(quaternion_to_rotation(q[3:]), vector(*q[:3]))

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.ones((3, 3), dtype=bool), np.ones(3, dtype=bool)

    def neutral(self) -> Array:
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        position = uniform(rng, lower[:3], upper[:3], 1.0)
        return np.concatenate([position, random_quaternion(rng)])

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        step, turn = v[3:] * dt, v[:3] * dt
        E = np.asarray(quaternion_to_rotation(q[3:]), dtype=np.float64)
        return np.concatenate(
            [q[:3] + E.T @ (left_jacobian(turn) @ step), quaternion_step(q[3:], turn)]
        )


def random_quaternion(rng: np.random.Generator) -> Array:
    """Uniformly distributed unit quaternion (4,)."""
    x = rng.normal(size=4)
    return x / np.linalg.norm(x)


def quaternion_step(quaternion: Array, turn: Array) -> Array:
    """Quaternion after a further rotation vector ``turn`` (3,) in body coordinates."""
    angle = float(np.linalg.norm(turn))
    xyz = 0.5 * np.sinc(0.5 * angle / np.pi) * turn
    w = np.cos(0.5 * angle)
    u, u0 = quaternion[:3], quaternion[3]
    product = np.concatenate([u0 * xyz + w * u + np.cross(u, xyz), [u0 * w - float(u @ xyz)]])
    return np.asarray(product / np.linalg.norm(product))


def left_jacobian(turn: Array) -> Array:
    """(3, 3) map from a constant body velocity to the displacement in the starting frame."""
    angle = float(np.linalg.norm(turn))
    x, y, z = turn
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    a2 = angle * angle
    if angle < 1e-3:  # series: what follows is below 1e-16
        along, square = 1 / 2 - a2 / 24, 1 / 6 - a2 / 120
    else:
        along, square = (1 - np.cos(angle)) / a2, (angle - np.sin(angle)) / (a2 * angle)
    return np.asarray(np.eye(3) + along * K + square * (K @ K))
