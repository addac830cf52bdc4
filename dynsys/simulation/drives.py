"""Position drives (PD) at the joints of a robot, stable at any gain.

    torque = kp (target - q) - kd qd        at the end of the step

With q and qd of the end of the step the drive is implicit; to first order it adds
kd dt + kp dt^2 to the inertia of its own freedom and nothing to any other: an armature, which
every algorithm here takes. Free joints are not driven.
"""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.loops.packed import PackedJoints
from dynsys.model.joints import Helical, Prismatic, Revolute, Spherical
from dynsys.model.tree import KinematicTree
from dynsys.types import Array

__all__ = ["Drives"]


@final
class Drives:
    """Equal gains ``kp`` (Nm/rad), ``kd`` (Nms/rad) at all one-freedom and spherical joints."""

    def __init__(self, robot: KinematicTree, kp: float, kd: float) -> None:
        if not (kp >= 0 and kd >= 0):
            raise ModelError(f"gains must be >= 0, got kp = {kp!r}, kd = {kd!r}")
        self.kp, self.kd = float(kp), float(kd)
        joints = PackedJoints.of(robot)
        screw = [isinstance(joint, (Revolute, Prismatic, Helical)) for joint in robot.joints]
        ball = [isinstance(joint, Spherical) for joint in robot.joints]
        self._screw_q, self._screw_v = joints.q0[screw], joints.v0[screw]
        self._ball_q = joints.q0[ball][:, None] + np.arange(4)
        self._ball_v = joints.v0[ball][:, None] + np.arange(3)
        self.driven = np.zeros(robot.nv, dtype=bool)
        self.driven[self._screw_v] = True
        self.driven[self._ball_v] = True

    def inertia(self, dt: float) -> Array:
        """What the drives add to the inertia of each freedom (nv,) over a step dt."""
        return np.where(self.driven, self.kd * dt + self.kp * dt * dt, 0.0)

    def torque(self, q: Array, qd: Array, target: Array, dt: float) -> Array:
        """Torque (nv,) at the start of a step; the rest is :meth:`inertia` times qdd."""
        damping = np.where(self.driven, self.kd + self.kp * dt, 0.0)
        return np.asarray(self.kp * self.error(q, target) - damping * qd)

    def error(self, q: Array, target: Array) -> Array:
        """Velocity (nv,) that takes the driven joints from q to target in unit time."""
        out = np.zeros(len(self.driven))
        out[self._screw_v] = target[self._screw_q] - q[self._screw_q]
        a, b = q[self._ball_q], target[self._ball_q]
        xyz = a[:, 3:] * b[:, :3] - b[:, 3:] * a[:, :3] - np.cross(a[:, :3], b[:, :3])
        w = np.sum(a * b, axis=1)
        size = np.linalg.norm(xyz, axis=1)
        angle = 2 * np.arctan2(size, np.abs(w)) * np.where(w < 0, -1.0, 1.0)
        out[self._ball_v] = xyz * (angle / np.maximum(size, 1e-300))[:, None]
        return out
