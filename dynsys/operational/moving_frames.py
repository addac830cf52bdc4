"""How frames of a robot move: poses, twists and what they accelerate at qdd = 0.

Acceleration bias of a frame, in its own coordinates and without gravity: angular wd and the
classical acceleration a of its origin, from the recursion of inverse dynamics
(:func:`dynsys.recursive.rnea.body_motions`), so that a program that needs both has it once:

    a point r of body i:   a_i + U_i r,  U = [wd]x + [w]x [w]x

Scalars of any kind; the robot may be one with other link frames
(:mod:`dynsys.program.frames`).
"""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.spatial import Transform, cross
from dynsys.model.tree import KinematicTree
from dynsys.program.frames import Reframed
from dynsys.recursive.kinematics import poses, transforms, velocities
from dynsys.recursive.rnea import BodyMotion, body_motions
from dynsys.types import ScalarArray

__all__ = ["MovingFrames", "Twist"]

Twist = tuple[ScalarArray, ScalarArray]
"""Angular and linear part (3,)."""


@final
class MovingFrames:
    """Frames of ``robot`` at q and qd, found on an equivalent mechanism if one is given."""

    def __init__(
        self,
        robot: KinematicTree,
        q: ScalarArray,
        qd: ScalarArray,
        mechanism: Reframed | None = None,
    ) -> None:
        self.robot = robot
        self._mechanism = mechanism
        self._on = robot if mechanism is None else mechanism
        self._qd = qd
        self.X_up = transforms(self._on, q)

    @cached_property
    def _poses(self) -> list[Transform]:
        return poses(self._on, self.X_up)

    @cached_property
    def _velocities(self) -> list[ScalarArray]:
        return velocities(self._on, self.X_up, self._qd)

    @cached_property
    def _motions(self) -> list[BodyMotion]:
        return body_motions(self._on, self.X_up, self._qd, None)

    def _place(self, body: str | int) -> tuple[int, Transform]:
        """Number of the body that carries a frame, and the constant transform to it."""
        frame = self.robot.frame(body)
        if self._mechanism is None or frame.body < 0:
            return frame.body, frame.transform
        back = self._mechanism.to_new[frame.body].inverse()
        return self._mechanism.place[frame.body], back.then(frame.transform)

    @cached_property
    def body_poses(self) -> list[Transform]:
        """Transform base -> body of the robot's bodies, in their own frames."""
        return [self.pose(i) for i in range(self.robot.n_bodies)]

    def pose(self, body: str | int) -> Transform:
        """Transform base -> body or frame."""
        i, way = self._place(body)
        return way if i < 0 else self._poses[i].then(way)

    def twist(self, body: str | int) -> Twist:
        """Angular velocity and velocity of the origin, own coordinates."""
        i, way = self._place(body)
        if i < 0:
            return np.zeros(3), np.zeros(3)
        v = way.motion(self._velocities[i])
        return v[:3], v[3:]

    def bias(self, body: str | int) -> Twist:
        """Angular and classical linear acceleration at qdd = 0, own coordinates."""
        i, way = self._place(body)
        if i < 0:
            return np.zeros(3), np.zeros(3)
        moved = self._motions[i]
        fall = self._poses[i].E @ self.robot.gravity  # body_motions lets the base rise instead
        return way.E @ moved.wd, way.E @ (moved.a + fall + moved.U @ way.r)

    def turning(self, axes: str | int) -> tuple[ScalarArray, ScalarArray]:
        """E (3, 3), base to these axes, and their angular velocity (3,) in themselves."""
        if axes == "world":
            return np.eye(3), np.zeros(3)
        return self.pose(axes).E, self.twist(axes)[0]

    def turned(self, own: str | int, axes: str, velocity: Twist, bias: Twist) -> Twist:
        """Rates of a velocity's components in other axes, from those in frame ``own``.

        Every part u (3,) of the velocity, with rate ud in space, both in coordinates of
        ``own``: T ud - w_A x T u for the axes A, which turn at w_A.
        """
        if axes == "own":
            w, _ = self.twist(own)
            return bias[0] - cross(w, velocity[0]), bias[1] - cross(w, velocity[1])
        E, w = self.turning(axes)
        T = E @ self.pose(own).E.T
        parts = [
            T @ rate - cross(w, T @ part) for part, rate in zip(velocity, bias, strict=True)
        ]
        return parts[0], parts[1]
