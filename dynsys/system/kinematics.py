"""Everything the coefficients of D and b depend on: q and qd, turned into transforms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import poses, transforms, velocities
from dynsys.types import Array, ScalarArray

__all__ = ["Kinematics"]


@final
@dataclass(frozen=True, eq=False)
class Kinematics:
    """Transforms and velocities of all bodies at one state, scalars of any kind.

    ``transforms[i]`` goes parent -> body i and ``X_up[i]`` (6, 6) is its matrix;
    ``velocity[i]`` (6,) is the spatial velocity in body coordinates ([NORI] eq. 2).
    """

    robot: KinematicTree
    qd: ScalarArray
    transforms: tuple[Transform, ...]
    X_up: tuple[ScalarArray, ...]
    velocity: tuple[ScalarArray, ...]

    @staticmethod
    def at(robot: KinematicTree, q: ScalarArray, qd: ScalarArray) -> Kinematics:
        """Return the kinematics at position q (nq,) and velocity qd (nv,)."""
        X = tuple(transforms(robot, q))
        matrices = tuple(transform.matrix() for transform in X)
        return Kinematics(robot, qd, X, matrices, tuple(velocities(robot, X, qd)))

    @cached_property
    def poses(self) -> tuple[Transform, ...]:
        """Transform base -> body of every body."""
        return tuple(poses(self.robot, self.transforms))

    @cached_property
    def centre_of_mass(self) -> ScalarArray:
        """Centre of mass (3,) of all bodies, base coordinates."""
        moment: ScalarArray = np.zeros(3)
        for pose, body in zip(self.poses, self.robot.bodies, strict=True):
            moment = moment + body.inertia.mass * pose.point(body.inertia.com)
        return moment / self.robot.total_mass

    @property
    def base_acceleration(self) -> Array:
        """a_0 = -g (6,): gravity as an acceleration of the base ([NORI] section IV-A)."""
        return np.concatenate([np.zeros(3), -self.robot.gravity])
