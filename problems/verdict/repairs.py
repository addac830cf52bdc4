"""The smallest additions to a layout that leave nothing unseen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import numpy as np
import yaml

from dynsys.errors import LayoutError
from dynsys.model.contacts import is_contact
from dynsys.system.equations import EquationBlock
from dynsys.system.response import read_blocks
from dynsys.system.size import reading_sizes
from dynsys.types import Array
from problems.labels import and_more
from problems.measured.measured_system import MeasuredSystem
from problems.measured.reduced import in_parts
from problems.verdict.posture import PostureRank
from sensors.external import ExternalWrench, FiveAxisPlate, LoadCellPlate, PureForce
from sensors.files import sensor_record
from sensors.force_torque import ForceTorque
from sensors.groups import (
    all_joint_accelerations,
    all_joint_torques,
    zero_external_wrench_except,
)
from sensors.inertial import Imu
from sensors.joint import JointAcceleration, JointTorque
from sensors.parameters import AXES, sensor_name
from sensors.sensor import AbstractSensor, SensorRows

__all__ = [
    "FEET",
    "SEEN",
    "Group",
    "Repair",
    "candidate_sensors",
    "point_feet",
    "repairs",
    "usual_groups",
]

SEEN = 1e-6
"""Part of its natural size at which a direction counts as seen."""

FEW = 4
"""Single sensors that are offered beside lines that add many."""

CONTACTS = (ExternalWrench, LoadCellPlate, FiveAxisPlate)
"""Sensors and statements of what touches a body."""

FEET = re.compile(r"foot|sole|toe|hoof", re.I)
MANY_FEET = 3
"""From so many on, feet are points: nobody walks on four flat ones."""


@final
@dataclass(frozen=True)
class Group:
    """Sensors or statements that one line of a layout file adds.

    ``python`` is what makes them, with ``robot`` and ``sensors`` at hand.
    """

    words: str
    yaml: str
    python: str
    sensors: tuple[AbstractSensor, ...]


@final
@dataclass(frozen=True)
class Repair:
    """Sensors that together make a layout well posed.

    ``strength``: how clearly they see what nobody saw, smallest singular value between 0 and 1.
    ``groups``: the lines that add them, where these are fewer than the sensors.
    """

    sensors: tuple[AbstractSensor, ...]
    rows: int
    strength: float
    groups: tuple[Group, ...] = ()

    @property
    def words(self) -> str:
        """What to measure or to know."""
        if self.groups:
            return "; ".join(group.words for group in self.groups)
        heads: dict[str, list[str]] = {}
        for sensor in self.sensors:
            head, name = _phrase(sensor)
            heads.setdefault(head, []).append(repr(name))
        return " and ".join(
            f"{head}{'s' if len(names) > 1 and head.endswith('joint') else ''}"
            f" {and_more(names, 4)}"
            for head, names in heads.items()
        )

    @property
    def yaml(self) -> str:
        """Lines for the section ``sensors`` of a layout file."""
        if self.groups:
            return "".join(f"- {group.yaml}\n" for group in self.groups)
        return "".join(f"- {_record(sensor_record(sensor))}\n" for sensor in self.sensors)

    @property
    def python(self) -> str:
        """Constructors, separated by commas."""
        if self.groups:
            return ", ".join(group.python for group in self.groups)
        return ", ".join(map(_constructor, self.sensors))

    def __str__(self) -> str:
        return self.words


def _record(record: object) -> str:
    """One line of YAML."""
    text: str = yaml.safe_dump(record, sort_keys=False, default_flow_style=True, width=10**6)
    return text.strip()


def _constructor(sensor: AbstractSensor) -> str:
    record = sensor_record(sensor)
    record.pop("kind")
    name = record.pop("name")
    given = "".join(f", {key}={value!r}" for key, value in record.items())
    return f"sensors.{type(sensor).__name__}({name!r}{given})"


def _phrase(sensor: AbstractSensor) -> tuple[str, object]:
    """What to do, and where."""
    if isinstance(sensor, JointTorque):
        if sensor.value is not None:
            return "say that there is no drive at joint", sensor.joint
        return "measure the torque of joint", sensor.joint
    if isinstance(sensor, JointAcceleration):
        return "measure the acceleration of joint", sensor.joint
    if isinstance(sensor, ForceTorque):
        return "put a force/torque sensor at joint", sensor.at
    if isinstance(sensor, Imu):
        return "put an inertial unit (with angular acceleration) on", sensor.frame
    assert isinstance(sensor, ExternalWrench)
    whole = len(tuple(sensor.components)) == 6
    part = (
        "external wrench" if whole else f"{', '.join(sensor.components)} of the external wrench"
    )
    return f"measure or know the {part} on", sensor.frame


# ---- what a layout may have forgotten, a line each -------------------------------------------


def usual_groups(measured: MeasuredSystem) -> list[Group]:
    """Lines that most layouts have and this one lacks: statements first, then sensors."""
    robot, layout = measured.layout.written_on, measured.layout
    own = [
        (name, body.joint.nv)
        for name, body in zip(robot.joint_names, robot.bodies, strict=True)
        if body.coupling is None and body.joint.nv
    ]
    found = []
    driven = {s.joint for s in layout.sensors if isinstance(s, JointTorque)}
    for name in (name for name, nv in own if nv == 6 and name not in driven):
        still = JointTorque(sensor_name(name, "torque"), name, value=0.0)
        words = f"say that the floating base ({name!r}) has no drive"
        found.append(Group(words, _record(sensor_record(still)), _constructor(still), (still,)))
    points = point_feet(_open_feet(measured))
    if points:
        names = and_more([repr(point.frame) for point in points], 4)
        found.append(
            Group(
                f"say that the feet {names} are points, which feel a force and no moment",
                "\n- ".join(_record(sensor_record(point)) for point in points),
                ", ".join(map(_constructor, points)),
                points,
            )
        )
    touching = [
        s
        for s in layout.sensors
        if isinstance(s, CONTACTS) and (s.frame in robot.frames or not isinstance(s.frame, str))
    ]
    frames = list(
        dict.fromkeys(
            s.frame if isinstance(s.frame, str) else robot.body_names[s.frame] for s in touching
        )
    )
    untouched = tuple(zero_external_wrench_except(robot, frames))
    if untouched and not any(s.constant(1) is not None for s in touching):
        but = f" but {and_more(list(map(repr, frames)), 4)}" if frames else ""
        found.append(
            Group(
                f"say that nothing touches the robot{but} (zero_external_wrench_except; name"
                " every frame that may be touched)",
                f"zero_external_wrench_except: {_record(frames)}",
                f"*sensors.zero_external_wrench_except(robot, {frames!r})",
                untouched,
            )
        )
    moved = {s.joint for s in layout.sensors if isinstance(s, JointAcceleration)}
    base = [name for name, nv in own if nv == 6]
    for name, what, has, make, more in (
        ("all_joint_accelerations", "acceleration", moved, all_joint_accelerations, False),
        ("all_joint_torques", "torque", driven, all_joint_torques, True),
    ):
        without = [joint for joint, _ in own if joint in has or (more and joint in base)]
        options: dict[str, Any] = {"exclude": without} if without else {}
        options |= {} if more or not base else {"free": False}
        sensors = tuple(make(robot, **options))
        if len(sensors) > 1 and len(sensors) >= len(without):
            other = "other " if has else ""
            given = "".join(f", {key}={value!r}" for key, value in options.items())
            found.append(
                Group(
                    f"measure the {what} of every {other}joint ({name})",
                    f"{name}: {_record(options)}",
                    f"*sensors.{name}(robot{given})",
                    sensors,
                )
            )
    return found


def point_feet(frames: Sequence[str]) -> tuple[PureForce, ...]:
    """Point contacts at those frames that are feet, if they are many."""
    feet = [name for name in frames if FEET.search(name)]
    if len(feet) < MANY_FEET:
        return ()
    return tuple(PureForce(sensor_name(name, "point"), name) for name in feet)


def _open_feet(measured: MeasuredSystem) -> list[str]:
    """A foot's frame of every body of whose external wrench the layout says nothing."""
    robot, unknowns = measured.layout.written_on, measured.whole.unknowns
    terms = [term for s in measured.layout.sensors for term in s.on(unknowns).terms]
    told = {term.unknown.body for term in terms if term.unknown.kind == "external_wrench"}
    feet: dict[int, str] = {}
    for name in sorted(robot.frames, key=len):
        body = robot.frames[name].body
        if body >= 0 and body not in told and FEET.search(name):
            feet.setdefault(body, name)
    return [feet[body] for body in sorted(feet)]


def _by_groups(postures: Sequence[PostureRank]) -> Repair | None:
    """The fewest lines of :func:`usual_groups` that leave nothing unseen at all states."""
    groups = usual_groups(postures[0].measured)
    unknowns = postures[0].measured.whole.unknowns
    seen = []
    for group in groups:
        each = [[_seen(s.on(unknowns), posture) for s in group.sensors] for posture in postures]
        seen.append([np.vstack(parts) for parts in each])
    for count in range(1, len(groups) + 1):
        for chosen in combinations(range(len(groups)), count):
            views = [np.vstack([seen[k][n] for k in chosen]) for n in range(len(postures))]
            strength = min(map(_strength, views))
            if strength > SEEN:
                lines = tuple(groups[k] for k in chosen)
                sensors = tuple(sensor for group in lines for sensor in group.sensors)
                return Repair(sensors, len(views[0]), strength, lines)
    return None


def candidate_sensors(
    measured: MeasuredSystem,
) -> Iterator[tuple[AbstractSensor, SensorRows]]:
    """Sensors that could be added, with their equations.

    Every joint's torque, acceleration and wrench, every body's contact and inertial unit, but
    for names that are taken, sensors that do not fit the robot, those on frames that its file
    may not name, and those within a body of which it is not known on which side of them it is
    touched.
    """
    unknowns = measured.whole.unknowns
    for sensor in _usual_sensors(measured):
        if sensor.name in measured.layout.names:
            continue
        try:
            settled = measured.layout.settled(sensor)
            settled.validate(measured.layout.written_on)
            rows = settled.on(unknowns)
        except LayoutError:
            continue
        yield settled, rows


def _usual_sensors(measured: MeasuredSystem) -> Iterator[AbstractSensor]:
    robot = measured.robot
    for name, body in zip(robot.joint_names, robot.bodies, strict=True):
        if body.joint.nv and body.coupling is None:
            if body.joint.nv == 6:  # no sensor there: a floating base has no drive
                yield JointTorque(sensor_name(name, "no_drive"), name, value=0.0)
            else:
                yield JointTorque(sensor_name(name, "added_torque"), name)
            yield JointAcceleration(sensor_name(name, "added_acceleration"), name)
    frames = _contact_frames(measured)
    for i in range(robot.n_bodies):
        for axis in AXES:
            label = sensor_name(frames[i], f"added_{axis}")
            yield ExternalWrench(label, frames[i], components=(axis,))
    joints = [n for n, w in robot.welds.items() if n == w.joint]
    for i, (name, joint) in enumerate(zip(robot.body_names, robot.joint_names, strict=True)):
        yield ExternalWrench(sensor_name(frames[i], "added_wrench"), frames[i])
        if not is_contact(robot, i):
            joints.append(joint)
            yield Imu(sensor_name(name, "added_imu"), name, angular=True)
    for name in joints:
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


def _ease(repair: Repair) -> tuple[int, bool, float]:
    """Fewest rows first; components of a contact's wrench, which few can measure, later."""
    outside = any(isinstance(sensor, ExternalWrench) for sensor in repair.sensors)
    return repair.rows, outside, -repair.strength


def repairs(postures: Sequence[PostureRank], limit: int = 12) -> tuple[Repair, ...]:
    """Single sensors that suffice, the easiest first; else lines of a layout; else several.

    A candidate suffices if it sees every unseen direction at all of the given states. Lines
    (:func:`usual_groups`) come before a set of single sensors that is longer than they are.
    """
    views = list(_views(postures))
    nullity = postures[0].rank.nullity
    found = []
    for sensor, seen in views:
        strengths = [_strength(M) for M in seen]
        if min(strengths) > SEEN:
            found.append(Repair((sensor,), len(seen[0]), min(strengths)))
    if found:
        return tuple(sorted(found, key=_ease)[:limit])
    lines, several = _by_groups(postures), _several(views, nullity)
    if lines is None or (several is not None and len(several.sensors) <= len(lines.groups)):
        return (several,) if several is not None else ()
    short = several is not None and len(several.sensors) <= FEW
    return (lines, several) if short and several is not None else (lines,)


def _views(
    postures: Sequence[PostureRank],
) -> Iterator[tuple[AbstractSensor, list[Array]]]:
    """Candidates with what they see (rows, nullity) of the unseen directions, rows scaled."""
    for sensor, rows in candidate_sensors(postures[0].measured):
        if not rows.terms:  # a gyroscope sees no unknown
            continue
        seen = [_seen(rows, posture) for posture in postures]
        if any(np.abs(M).max(initial=0.0) > SEEN for M in seen):
            yield sensor, seen


def _seen(rows: SensorRows, posture: PostureRank) -> Array:
    """What a sensor sees (rows, nullity) of the unseen directions, in parts of its size."""
    block = EquationBlock("", "", rows.body, rows.size, rows.terms)
    size = reading_sizes([block], posture.kinematics, posture.reach[:, None])[:, 0]
    return in_parts(read_blocks([block], posture.kinematics, posture.unseen), size)


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
