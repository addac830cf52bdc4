"""The robot as rounded solids: every body is the convex hull of a few balls.

An inner body spans its joints; a leaf (hand, foot, head) is the rounded slab with the mass and
inertia it has. Meshes are not needed, and masses can be seen. Where the robot's file has meshes
and they can be read, the page draws those in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from problems.visuals import Visual, simplified

__all__ = ["Ball", "body_balls", "body_meshes", "pose_numbers", "robot_size", "scene"]

Ball: TypeAlias = tuple[float, float, float, float]
"""Centre, in body coordinates, and radius, m."""

DENSITY = 1000.0
"""kg/m^3 that turns masses into thicknesses."""
THINNEST, THICKEST = 0.007, 0.045
"""Limits of radii, parts of the robot's size."""
LEAF = 0.12
"""Largest half length of a leaf, part of the robot's size."""


def robot_size(robot: KinematicTree) -> float:
    """Length of the longest way from the root along the bodies, at least a centimetre."""
    reach = np.zeros(robot.n_bodies)
    for i, body in enumerate(robot.bodies):
        before = reach[body.parent] if body.parent >= 0 else 0.0
        own = np.linalg.norm(body.placement.r) if body.parent >= 0 else 0.0
        reach[i] = before + float(own)
    tips = [
        reach[i] + np.linalg.norm(body.inertia.com)
        for i, body in enumerate(robot.bodies)
        if not robot.children[i]
    ]
    return max(float(max(tips)), 0.01)


def body_balls(robot: KinematicTree, size: float) -> list[list[Ball]]:
    """Balls of every body; a body is drawn as their convex hull."""
    radius = [_radius(robot, i, size) for i in range(robot.n_bodies)]
    found: list[list[Ball]] = []
    for i, body in enumerate(robot.bodies):
        joints = robot.children[i]
        balls = [_ball(np.zeros(3), radius[i])]
        for j in joints:
            balls.append(_ball(robot.bodies[j].placement.r, 0.5 * (radius[i] + radius[j])))
        if not joints:
            balls += _slab(body.inertia, size)
        found.append(balls)
    return found


def _ball(centre: Array, radius: float) -> Ball:
    x, y, z = (round(float(c), 5) for c in centre)
    return x, y, z, round(radius, 5)


def _radius(robot: KinematicTree, i: int, size: float) -> float:
    """Radius of a rod of the body's mass between its joints; of a ball if they coincide."""
    mass = robot.bodies[i].inertia.mass
    length = max(
        (float(np.linalg.norm(robot.bodies[j].placement.r)) for j in robot.children[i]),
        default=2.0 * float(np.linalg.norm(robot.bodies[i].inertia.com)),
    )
    ball = (3.0 * mass / (4.0 * np.pi * DENSITY)) ** (1 / 3)
    rod = np.sqrt(mass / (np.pi * DENSITY * length)) if length > ball else ball
    return float(np.clip(min(rod, ball), THINNEST * size, THICKEST * size))


def _slab(inertia: Inertia, size: float) -> list[Ball]:
    """Rounded slab of the same second moments, its two longer sides kept."""
    if inertia.mass <= 0:
        return []
    second = np.trace(inertia.about_com) / 2 * np.eye(3) - inertia.about_com
    moments, axes = np.linalg.eigh(second)
    half = np.sqrt(3.0 * np.maximum(moments, 0.0) / inertia.mass)
    half = np.minimum(half, LEAF * size)
    thickness = float(np.clip(half[0], THINNEST * size, THICKEST * size))
    wide = max(half[1] - thickness, 0.0) * axes[:, 1]
    long = max(half[2] - thickness, 0.0) * axes[:, 2]
    return [
        _ball(inertia.com + a * wide + b * long, thickness) for a in (-1, 1) for b in (-1, 1)
    ]


# ---- for the page ----------------------------------------------------------------------------


def scene(robot: KinematicTree) -> dict[str, Any]:
    """What does not change while a robot is shown."""
    size = robot_size(robot)
    balls = body_balls(robot, size)
    bodies = []
    for i, body in enumerate(robot.bodies):
        turning = body.joint.S[:3, 0] if body.joint.nv == 1 else np.zeros(3)
        bodies.append(
            {
                "name": body.name,
                "joint": robot.joint_names[i],
                "joint_kind": body.joint.kind,
                "parent": int(robot.parent[i]),
                "mass": round(body.inertia.mass, 4),
                "freedoms": body.joint.nv if body.coupling is None else 0,
                "axis": [round(float(x), 6) for x in turning],
                "balls": balls[i],
            }
        )
    return {
        "name": robot.name,
        "size": size,
        "bodies": bodies,
        "frames": {name: f.body for name, f in robot.frames.items() if f.body >= 0},
        "welds": {name: weld.body for name, weld in robot.welds.items() if weld.body >= 0},
        "base": _base(robot, balls),
        "grain": GRAIN,
        "gravity": [float(x) for x in robot.gravity],
    }


def _base(robot: KinematicTree, balls: list[list[Ball]]) -> list[Ball]:
    """Pedestal of a robot that does not float: from the base to the first joints."""
    held = [i for i, b in enumerate(robot.bodies) if b.parent < 0 and b.joint.kind != "free"]
    if not held:
        return []
    tops = [_ball(robot.bodies[i].placement.r, balls[i][0][3]) for i in held]
    return [_ball(np.zeros(3), max(ball[3] for ball in tops)), *tops]


MOST_TRIANGLES = 40_000
FEWEST = 40
"""Triangles of all meshes together, and of a body's at least."""
GRAIN = 1e-5
"""What one counts in the coordinates of meshes on the page, m."""


def body_meshes(robot: KinematicTree, visuals: Sequence[Visual]) -> list[dict[str, Any]]:
    """Shapes of the robot's file, one for each body that has some; none without a mesh.

    Larger ones get more triangles, by the square root of what they had.
    """
    if not any(visual.is_mesh for visual in visuals):
        return []
    weight = {id(v): float(len(v.triangles)) ** 0.5 for v in visuals}
    share = MOST_TRIANGLES / sum(weight.values())
    found: list[dict[str, Any]] = []
    for visual in visuals:
        few = simplified(visual, max(FEWEST, int(share * weight[id(visual)])))
        points = np.round(few.points / GRAIN).astype(int)
        found.append(
            {
                "body": visual.body,
                "points": points.ravel().tolist(),
                "triangles": few.triangles.ravel().tolist(),
            }
        )
    return found


def pose_numbers(pose: Transform) -> list[float]:
    """Rotation body -> base, row by row, then the origin: 12 numbers."""
    turn = np.asarray(pose.E, dtype=np.float64).T
    return [round(float(x), 6) for x in (*turn.ravel(), *np.asarray(pose.r))]
