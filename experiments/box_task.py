"""Two hands put a box on the floor under operational-space control ([CK] figures 5 and 6).

    torque = J^T F + N^T (posture) + C          F = Lambda (wanted - Jdot qd)

Lambda, Jbar and N come from the recursion of [CK]. The box adds its weight and inertia to the
last links, half to each hand. Hands follow a cubic spline downwards; a posture torque that
moves no hand keeps the rest near where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

import dynsys
from dynsys.model.spatial import Inertia, Transform, cross
from dynsys.model.tree import KinematicTree
from dynsys.operational import OperationalSpace
from dynsys.types import Array

__all__ = ["BoxMotion", "put_box_down"]

BOX = 2.0
"""Mass of the box, kg."""
DROP = 0.25
"""Way down, m."""
KP, KD = 400.0, 40.0


@final
@dataclass(frozen=True, eq=False)
class BoxMotion:
    """Time (T,), height of the box, wanted and reached (T,), hands' error (T,), way of q (T,).

    ``coupling`` is the largest acceleration of a hand by the posture torque, m/s^2.
    """

    time: Array
    wanted: Array
    height: Array
    error: Array
    posture: Array
    coupling: float


def with_box(robot: KinematicTree, hands: tuple[str, str]) -> KinematicTree:
    """Return the robot with half of a box rigidly at each hand: the augmented object."""
    bodies = list(robot.bodies)
    for hand in hands:
        frame = robot.frame(hand)
        body, half = bodies[frame.body], BOX / 2
        old, at = body.inertia, frame.transform.r
        mass = old.mass + half
        com = (old.mass * old.com + half * at) / mass
        moment = old.about_com + half * 0.01 * np.eye(3)
        for part, where in ((old.mass, old.com), (half, at)):
            d = where - com
            moment = moment + part * (float(d @ d) * np.eye(3) - np.outer(d, d))
        bodies[frame.body] = replace(body, inertia=Inertia(mass, com, moment))
    return KinematicTree(robot.name, bodies, robot.frames)


def put_box_down(
    robot: KinematicTree, hands: tuple[str, str], duration: float, dt: float
) -> BoxMotion:
    """Simulate the task with two hands that have taken the box."""
    robot = with_box(robot, hands)
    space = OperationalSpace(robot, hands, "chang_khatib")
    q = 0.4 * np.sin(1.7 * np.arange(robot.nq)) + 0.3
    qd, rest, records, coupling = np.zeros(robot.nv), q.copy(), [], 0.0
    start = [dynsys.forward_kinematics(robot, q, hand) for hand in hands]
    for step in range(round(duration / dt)):
        down = _spline(step * dt, 0.8 * duration)
        poses = [dynsys.forward_kinematics(robot, q, hand) for hand in hands]
        x = space.at(q)
        v = (x.J @ qd).reshape(2, 6)
        wanted = [
            _hand_acceleration(pose, first, hand, down)
            for pose, first, hand in zip(poses, start, v, strict=True)
        ]
        ahead = space.at(robot.integrate(q, qd, 1e-6)).J
        drift = (ahead - x.J) @ qd / 1e-6  # Jdot qd, by differences along the motion
        posture = x.N.T @ (4.0 * (rest - q) - 4.0 * qd)
        force = x.Lambda @ (np.concatenate(wanted) - drift)
        torque = x.J.T @ force + posture + dynsys.rnea(robot, q, qd, np.zeros(robot.nv))
        moved = np.linalg.solve(dynsys.crba(robot, q), posture)
        coupling = max(coupling, float(np.abs(x.J @ moved).max()))
        qd = qd + dt * dynsys.aba(robot, q, qd, torque)
        q = robot.integrate(q, qd, dt)
        heights = [pose.r[2] - first.r[2] for pose, first in zip(poses, start, strict=True)]
        error = max(abs(height - down[0]) for height in heights)
        records.append((step * dt, down[0], np.mean(heights), error, np.abs(q - rest).max()))
    time, wanted_height, height, errors, way = np.array(records).T
    return BoxMotion(time, wanted_height, height, errors, way, coupling)


def _spline(time: float, duration: float) -> Array:
    """Height, its rate and acceleration (3,) of a cubic spline from 0 to -DROP, at rest."""
    s = min(1.0, time / duration)
    moving = float(s < 1)
    return -DROP * np.array(
        [s * s * (3 - 2 * s), 6 * s * (1 - s) / duration, moving * (6 - 12 * s) / duration**2]
    )


def _hand_acceleration(
    pose: Transform, start: Transform, velocity: Array, down: Array
) -> Array:
    """Wanted spatial acceleration (6,) of a hand, its own frame: track, keep orientation."""
    z = pose.E[:, 2]
    turn = pose.E @ start.E.T  # start -> now
    tilt = 0.5 * np.array(
        [turn[1, 2] - turn[2, 1], turn[2, 0] - turn[0, 2], turn[0, 1] - turn[1, 0]]
    )
    offset = pose.E @ (start.r - pose.r) + z * down[0]
    rate = velocity[3:] - z * down[1]
    linear = z * down[2] + KP * offset - KD * rate
    angular = -KP * tilt - KD * velocity[:3]
    # a spatial acceleration lacks omega x v of the classical one
    return np.concatenate([angular, linear - np.asarray(cross(velocity[:3], velocity[3:]))])
