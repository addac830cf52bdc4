"""The smallest additions to a layout that leave nothing unseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import yaml

from dynsys.errors import LayoutError
from dynsys.system.equations import EquationBlock
from dynsys.system.response import read_blocks
from dynsys.system.size import reading_sizes
from dynsys.types import Array
from problems.measured.measured_system import MeasuredSystem
from problems.measured.reduced import in_parts
from problems.verdict.posture import PostureRank
from sensors.external import ExternalWrench, FiveAxisPlate, LoadCellPlate
from sensors.files import sensor_record
from sensors.force_torque import ForceTorque
from sensors.inertial import Imu
from sensors.joint import JointAcceleration, JointTorque
from sensors.parameters import AXES, sensor_name
from sensors.sensor import AbstractSensor, SensorRows

__all__ = ["SEEN", "Repair", "candidate_sensors", "repairs"]

SEEN = 1e-6
"""Part of its natural size at which a direction counts as seen."""


@final
@dataclass(frozen=True)
class Repair:
    """Sensors that together make a layout well posed.

    ``strength``: how clearly they see what nobody saw, smallest singular value between 0 and 1.
    """

    sensors: tuple[AbstractSensor, ...]
    rows: int
    strength: float

    @property
    def words(self) -> str:
        """What to measure or to know."""
        texts = [_words(sensor) for sensor in self.sensors[:6]]
        left = len(self.sensors) - len(texts)
        return " and ".join(texts) + (f" and {left} more" if left else "")

    @property
    def yaml(self) -> str:
        """Lines for the section ``sensors`` of a layout file."""
        records = [sensor_record(sensor) for sensor in self.sensors]
        lines = [
            yaml.safe_dump(record, sort_keys=False, default_flow_style=True, width=1000)
            for record in records
        ]
        return "".join(f"- {line}" for line in lines)

    @property
    def python(self) -> str:
        """Constructors, separated by commas."""
        texts = []
        for sensor in self.sensors:
            record = sensor_record(sensor)
            record.pop("kind")
            name = record.pop("name")
            given = "".join(f", {key}={value!r}" for key, value in record.items())
            texts.append(f"sensors.{type(sensor).__name__}({name!r}{given})")
        return ", ".join(texts)

    def __str__(self) -> str:
        return self.words


def _words(sensor: AbstractSensor) -> str:
    if isinstance(sensor, JointTorque):
        return f"measure the torque of joint {sensor.joint!r}"
    if isinstance(sensor, JointAcceleration):
        return f"measure the acceleration of joint {sensor.joint!r}"
    if isinstance(sensor, ForceTorque):
        return f"put a force/torque sensor at joint {sensor.at!r}"
    if isinstance(sensor, Imu):
        return f"put an inertial unit (with angular acceleration) on {sensor.frame!r}"
    assert isinstance(sensor, ExternalWrench)
    whole = len(tuple(sensor.components)) == 6
    part = (
        "external wrench" if whole else f"{', '.join(sensor.components)} of the external wrench"
    )
    return f"measure or know the {part} on {sensor.frame!r}"


def candidate_sensors(
    measured: MeasuredSystem,
) -> Iterator[tuple[AbstractSensor, SensorRows]]:
    """Sensors that could be added, with their equations.

    Every joint's torque, acceleration and wrench, every body's contact and inertial unit, but
    for names that are taken and sensors that do not fit the robot.
    """
    unknowns = measured.whole.unknowns
    for sensor in _usual_sensors(measured):
        if sensor.name in measured.layout.names:
            continue
        try:
            rows = sensor.on(unknowns)
        except LayoutError:
            continue
        yield sensor, rows


def _usual_sensors(measured: MeasuredSystem) -> Iterator[AbstractSensor]:
    robot = measured.robot
    for name, body in zip(robot.joint_names, robot.bodies, strict=True):
        if body.joint.nv and body.coupling is None:
            yield JointTorque(sensor_name(name, "added_torque"), name)
            yield JointAcceleration(sensor_name(name, "added_acceleration"), name)
    frames = _contact_frames(measured)
    for i in range(robot.n_bodies):
        for axis in AXES:
            label = sensor_name(frames[i], f"added_{axis}")
            yield ExternalWrench(label, frames[i], components=(axis,))
    for i, name in enumerate(robot.body_names):
        yield ExternalWrench(sensor_name(frames[i], "added_wrench"), frames[i])
        yield Imu(sensor_name(name, "added_imu"), name, angular=True)
    for name in (*robot.joint_names, *(n for n, w in robot.welds.items() if n == w.joint)):
        yield ForceTorque(sensor_name(name, "added_ft"), name)


def _contact_frames(measured: MeasuredSystem) -> list[str]:
    """Frame that the layout already uses for the contact of each body, else the body's own."""
    frames = list(measured.robot.body_names)
    for sensor in measured.layout.sensors:
        if isinstance(sensor, LoadCellPlate | FiveAxisPlate) and isinstance(sensor.frame, str):
            body = measured.robot.frame(sensor.frame).body
            if body >= 0:
                frames[body] = sensor.frame
    return frames


def repairs(postures: Sequence[PostureRank], limit: int = 12) -> tuple[Repair, ...]:
    """Single sensors that suffice, fewest rows first; else one small set of several.

    A candidate suffices if it sees every unseen direction at all of the given states.
    """
    views = list(_views(postures))
    nullity = postures[0].rank.nullity
    found = []
    for sensor, seen in views:
        strengths = [_strength(M) for M in seen]
        if min(strengths) > SEEN:
            found.append(Repair((sensor,), len(seen[0]), min(strengths)))
    if found:
        return tuple(sorted(found, key=lambda repair: (repair.rows, -repair.strength))[:limit])
    several = _several(views, nullity)
    return (several,) if several is not None else ()


def _views(
    postures: Sequence[PostureRank],
) -> Iterator[tuple[AbstractSensor, list[Array]]]:
    """Candidates with what they see (rows, nullity) of the unseen directions, rows scaled."""
    for sensor, rows in candidate_sensors(postures[0].measured):
        if not rows.terms:  # a gyroscope sees no unknown
            continue
        seen = []
        for posture in postures:
            block = EquationBlock("", "", rows.body, rows.size, rows.terms)
            reach = posture.reach[:, None]
            size = reading_sizes([block], posture.kinematics, reach)[:, 0]
            M = read_blocks([block], posture.kinematics, posture.unseen)
            seen.append(in_parts(M, size))
        if any(np.abs(M).max(initial=0.0) > SEEN for M in seen):
            yield sensor, seen


def _strength(M: Array) -> float:
    """Smallest singular value if all columns are seen, else zero."""
    if M.shape[0] < M.shape[1]:
        return 0.0
    return float(np.linalg.svd(M, compute_uv=False)[-1])


def _several(views: list[tuple[AbstractSensor, list[Array]]], nullity: int) -> Repair | None:
    """Sensors chosen one after the other, each for most directions per row, at one state."""
    left = [(sensor, seen[0]) for sensor, seen in views]
    chosen: list[AbstractSensor] = []
    rows, strength = 0, 1.0
    basis = np.eye(nullity)
    while basis.shape[1] and left:
        gains = [np.linalg.svd(M @ basis, compute_uv=False) > SEEN for _, M in left]
        score = [
            (gain.sum(), gain.sum() / len(M)) for gain, (_, M) in zip(gains, left, strict=True)
        ]
        k = max(range(len(left)), key=score.__getitem__)
        sensor, M = left.pop(k)
        if not score[k][0]:
            return None
        _, singular, Vt = np.linalg.svd(M @ basis, full_matrices=True)
        rank = int((singular > SEEN).sum())
        strength = min(strength, float(singular[rank - 1]))
        basis = basis @ Vt[rank:].T
        chosen.append(sensor)
        rows += len(M)
    return Repair(tuple(chosen), rows, strength) if not basis.shape[1] else None
