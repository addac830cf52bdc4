"""The robot of a report: its tree, where its bodies are, where its sensors sit."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from sensors import AbstractSensor, Layout
from sensors.placement import Mount

__all__ = ["FAMILIES", "BodyPart", "RobotPart", "SensorPart", "robot_part"]

FAMILIES = {
    "inertial": "inertial unit, accelerometer or gyroscope",
    "force": "force/torque sensor in the structure",
    "external": "external wrench: plate, load cells, known force",
    "torque": "joint torque",
    "encoder": "joint acceleration (encoder)",
    "other": "other measurement",
}
"""Kinds of symbols, in words."""

_FAMILY = {
    "imu": "inertial",
    "accelerometer": "inertial",
    "gyroscope": "inertial",
    "angular_accelerometer": "inertial",
    "force_torque": "force",
    "external_wrench": "external",
    "load_cell_plate": "external",
    "five_axis_plate": "external",
    "pure_force": "external",
    "force_along_direction": "external",
    "joint_torque": "torque",
    "motor_torque": "torque",
    "joint_acceleration": "encoder",
    "motor_acceleration": "encoder",
}


@final
@dataclass(frozen=True)
class BodyPart:
    """One body: its place in the tree; its origin and centre of mass (m, base coordinates)."""

    name: str
    parent: int
    joint: str
    joint_kind: str
    freedoms: int
    mass: float
    depth: int
    position: tuple[float, float, float]
    centre: tuple[float, float, float]


@final
@dataclass(frozen=True)
class SensorPart:
    """One sensor: body -1 where it belongs to the robot as a whole; position in m."""

    name: str
    kind: str
    family: str
    body: int
    position: tuple[float, float, float] | None
    readings: int
    noise: str


@final
@dataclass(frozen=True)
class RobotPart:
    """Tree, masses, sensors; ``statements`` are exact knowledge, in words."""

    name: str
    n_bodies: int
    nq: int
    nv: int
    mass: float
    gravity: tuple[float, float, float]
    posture: str
    bodies: list[BodyPart]
    sensors: list[SensorPart]
    statements: list[str]


def robot_part(
    robot: KinematicTree, layout: Layout | None, q: Array | None = None, posture: str = ""
) -> RobotPart:
    """Describe a robot at a posture; by default the neutral one, within the joint limits."""
    if q is None:
        lower, upper = robot.position_limits
        q, posture = np.clip(robot.neutral(), lower, upper), "neutral posture"
    kin = Kinematics.at(robot, q, np.zeros(robot.nv))
    depth: list[int] = []
    bodies = []
    for i, body in enumerate(robot.bodies):
        depth.append(0 if body.parent < 0 else depth[body.parent] + 1)
        freedoms = body.joint.nv if body.coupling is None else 0
        kind = body.joint.kind if body.coupling is None else f"{body.joint.kind}, coupled"
        bodies.append(
            BodyPart(
                body.name, body.parent, robot.joint_names[i], kind, freedoms,
                float(body.inertia.mass), depth[-1], _point(kin.poses[i].r),
                _point(kin.poses[i].point(body.inertia.com)),
            )
        )  # fmt: skip
    measuring = [s for s in layout or () if s.constant(1) is None]
    return RobotPart(
        robot.name, robot.n_bodies, robot.nq, robot.nv, robot.total_mass,
        _point(robot.gravity), posture, bodies,
        [_sensor(layout, sensor, kin) for sensor in measuring if layout is not None],
        [] if layout is None else _statements(layout),
    )  # fmt: skip


def _point(r: Any) -> tuple[float, float, float]:
    x, y, z = np.asarray(r, dtype=np.float64).tolist()
    return x, y, z


def _sensor(layout: Layout, sensor: AbstractSensor, kin: Kinematics) -> SensorPart:
    robot, place = layout.robot, layout.slice(sensor.name)
    std = np.sqrt(layout.covariance().diagonal()[place])
    body, position = _place(robot, sensor, kin)
    return SensorPart(
        sensor.name, sensor.kind, _FAMILY.get(sensor.kind, "other"), body, position,
        layout.sizes[sensor.name], _noise(std, layout.units[place]),
    )  # fmt: skip


def _noise(std: Array, units: tuple[str, ...]) -> str:
    """Standard deviations by unit, each once: ``0.1 N m, 1 N``."""
    parts: dict[str, None] = {}
    for value, unit in zip(std.tolist(), units, strict=True):
        parts[f"{value:.3g} {unit}" if value else "exact"] = None
    return ", ".join(parts)


def _place(
    robot: KinematicTree, sensor: AbstractSensor, kin: Kinematics
) -> tuple[int, tuple[float, float, float] | None]:
    """Body and point (base coordinates) of a sensor; -1 and None: the robot as a whole."""
    frame = getattr(sensor, "frame", None)
    joint = getattr(sensor, "joint", getattr(sensor, "at", None))
    xyz = getattr(sensor, "xyz", (0.0, 0.0, 0.0))
    if frame is None and joint in robot.joint_names:
        frame = robot.joint_index(str(joint))
    elif frame is None and joint is not None:
        frame = robot.frame(str(joint)).body if joint not in robot.frames else str(joint)
    if frame is None:
        return -1, None
    try:
        mount = Mount.of(robot, frame, xyz)
    except ModelError:
        return -1, None
    return mount.body, _point(mount.pose(kin).r)


def _statements(layout: Layout) -> list[str]:
    """Exact knowledge of a layout, one line per kind."""
    kinds = Counter(s.kind for s in layout if s.constant(1) is not None)
    words = {
        "external_wrench": "no external wrench, or a known one, on {} {bodies}",
        "joint_torque": "known torque of {} {joints} (a free base has none)",
        "joint_acceleration": "known acceleration of {} {joints}",
        "rigid_contact": "{} rigid {contacts}",
    }
    found = []
    for kind, count in kinds.items():
        text = words.get(kind, "{} statement(s) of kind " + kind)
        for plural in ("bodies", "joints", "contacts"):
            one = "body" if plural == "bodies" else plural[:-1]
            text = text.replace(f"{{{plural}}}", one if count == 1 else plural)
        found.append(text.format(count))
    return found
