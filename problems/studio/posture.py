"""q as sliders, and back: quaternions become roll, pitch and yaw."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np

from dynsys.errors import StateError
from dynsys.model.joints import AbstractJoint, Free, Spherical
from dynsys.model.spatial import quaternion_to_rotation
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from problems.labels import own_joints
from sensors.mounting import rpy_of

__all__ = ["Slider", "first_posture", "from_sliders", "sliders_of", "to_sliders"]

TURN, SLIDE = np.pi, 1.0
"""Reach of sliders of joints without limits, rad and m."""
BENT, MOST_BENT = 0.35, 0.45
"""How far the first posture is on the way from neutral to a random one; at most, rad or m."""


class Slider(NamedTuple):
    """One number of the posture: the joint it belongs to, label, limits, unit."""

    joint: str
    label: str
    lower: float
    upper: float
    unit: str


def _own_joints(robot: KinematicTree) -> list[tuple[str, slice, AbstractJoint]]:
    """Name, place in q and joint of all joints with positions of their own."""
    places = robot.q_slices()
    return [(robot.joint_names[i], places[i], robot.joints[i]) for i in own_joints(robot)]


def sliders_of(robot: KinematicTree) -> list[Slider]:
    """Sliders of all joints with positions of their own, in the order of q."""
    found: list[Slider] = []
    lower, upper = robot.position_limits
    for name, where, joint in _own_joints(robot):
        if isinstance(joint, (Spherical, Free)):
            slides = ("x", "y", "z") if isinstance(joint, Free) else ()
            found += [Slider(name, f"{name} {axis}", -SLIDE, SLIDE, "m") for axis in slides]
            turns = ("roll", "pitch", "yaw")
            found += [Slider(name, f"{name} {axis}", -TURN, TURN, "rad") for axis in turns]
            continue
        single = joint.nq == 1
        for k in range(joint.nq):
            turning = bool(joint.S[:3, k].any())
            reach, unit = (TURN, "rad") if turning else (SLIDE, "m")
            least, most = float(lower[where][k]), float(upper[where][k])
            least = least if np.isfinite(least) else -reach
            most = most if np.isfinite(most) else reach
            found.append(Slider(name, name if single else f"{name} [{k}]", least, most, unit))
    return found


def to_sliders(robot: KinematicTree, q: Array) -> list[float]:
    """Value of every slider at q."""
    values: list[float] = []
    for _, where, joint in _own_joints(robot):
        part = q[where]
        if isinstance(joint, (Spherical, Free)):
            values += [float(x) for x in part[:-4]]
            values += rpy_of(np.asarray(quaternion_to_rotation(part[-4:]), dtype=np.float64))
        else:
            values += [float(x) for x in part]
    return values


def from_sliders(robot: KinematicTree, values: list[float]) -> Array:
    """Return the q (nq,) of slider values."""
    if len(values) != len(sliders_of(robot)):
        raise StateError(f"a posture has {len(sliders_of(robot))} sliders, got {len(values)}")
    q, rest = robot.neutral(), iter(values)
    for _, where, joint in _own_joints(robot):
        if isinstance(joint, (Spherical, Free)):
            slides = list(islice(rest, joint.nq - 4))
            q[where] = [*slides, *_quaternion(list(islice(rest, 3)))]
        else:
            q[where] = list(islice(rest, joint.nq))
    return q


def _quaternion(rpy: list[float]) -> Array:
    """Quaternion (x, y, z, w) of fixed-axis roll, pitch, yaw."""
    (sr, cr), (sp, cp), (sy, cy) = ((np.sin(a / 2), np.cos(a / 2)) for a in rpy)
    return np.array(
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ]
    )


def first_posture(robot: KinematicTree) -> Array:
    """Posture between neutral and random: at neutral ones ranks are often lower than usual."""
    values = np.array(to_sliders(robot, robot.neutral()))
    random = np.array(to_sliders(robot, robot.random_configuration(4)))
    free = [
        isinstance(robot.joints[robot.joint_index(s.joint)], Free) for s in sliders_of(robot)
    ]
    step = np.clip(BENT * (random - values), -MOST_BENT, MOST_BENT)
    bent = np.where(free, values, values + step)
    limits = [(s.lower, s.upper) for s in sliders_of(robot)]
    lower, upper = np.array(limits).T if limits else (np.zeros(0), np.zeros(0))
    return from_sliders(robot, np.clip(bent, lower, upper).tolist())
