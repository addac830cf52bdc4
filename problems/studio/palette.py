"""Kinds of sensors the page offers, where they may sit, and sensors made from messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.errors import LayoutError
from dynsys.model.tree import KinematicTree
from sensors.files import is_required, sensor_record
from sensors.layout import Layout
from sensors.mounting import Mount
from sensors.parameters import sensor_name
from sensors.sensor import AbstractSensor, sensor_kinds

__all__ = [
    "Kind",
    "SensorFacts",
    "adopted",
    "make_sensor",
    "move_sensor",
    "offered_kinds",
    "place_sensor",
    "sensor_facts",
    "with_std",
    "with_usual_noise",
]

Place: TypeAlias = Literal["frame", "joint", "at"]
PLACES: tuple[Place, ...] = ("joint", "at", "frame")

NO_CONTACT = "no_contact"
"""Word of the page for an external wrench that is known to be zero."""

_USUAL: Mapping[str, Any] = {
    "joint_torque": 0.1,
    "joint_acceleration": 0.5,
    "force_torque": (0.05, 0.5),
    "imu": (0.05, 0.01),
    "accelerometer": 0.05,
    "gyroscope": 0.01,
    "angular_accelerometer": 0.5,
    "external_wrench": (0.05, 0.5),
    "load_cell_plate": (0.05, 1.0),
    "five_axis_plate": (0.05, 1.0),
}
"""Deviations to start with, per unit; any other kind starts with its own default."""

_TITLES: Mapping[str, str] = {
    "imu": "inertial unit (IMU)",
    "force_torque": "force/torque sensor",
    "external_wrench": "contact wrench, measured",
    "load_cell_plate": "sole on load cells",
    "five_axis_plate": "five-axis plate",
    "pure_force": "point contact (no moment)",
    "rigid_contact": "rigid contact (does not move)",
}
ZERO = (0.0, 0.0, 0.0)
_FIRST = ("joint_torque", "force_torque", "imu", "joint_acceleration", NO_CONTACT)


class Kind(NamedTuple):
    """A kind of sensor that one click can add.

    Parameters
    ----------
    word : name in messages.
    title : name on the page.
    place : parameter that says where it sits.
    about : first line of its description.
    """

    word: str
    title: str
    place: Place
    about: str


def offered_kinds() -> list[Kind]:
    """Every kind that needs nothing but a name and one place, the usual ones first."""
    found = []
    for word, sensor in sensor_kinds().items():
        needed = [f.name for f in fields(sensor) if is_required(f) and f.name != "name"]
        if word == sensor.kind and len(needed) == 1 and needed[0] in PLACES:
            about = (sensor.__doc__ or "").strip().splitlines()[0]
            title = _TITLES.get(word, word.replace("_", " "))
            found.append(Kind(word, title, needed[0], about))
    nothing = "Nothing touches this body: its external wrench is zero, exactly."
    found.append(Kind(NO_CONTACT, "nothing touches it", "frame", nothing))
    order = {word: k for k, word in enumerate(_FIRST)}
    return sorted(found, key=lambda kind: order.get(kind.word, len(order)))


def _kind(word: str) -> Kind:
    for kind in offered_kinds():
        if kind.word == word:
            return kind
    raise LayoutError(f"no kind of sensor {word!r} can be added by a click")


def make_sensor(layout: Layout, word: str, place: str) -> AbstractSensor:
    """Return a new sensor at a body, frame or joint, whichever its kind sits on.

    Raises
    ------
    LayoutError
        if there is no such kind, or no such place, with the nearest name there is.
    """
    kind = _kind(word)
    short = word.removeprefix("joint_")
    name = _free_name(layout.names, sensor_name(place, short))
    given: dict[str, Any] = {kind.place: place}
    if word == NO_CONTACT:
        word, given["value"] = "external_wrench", 0.0
    elif word in _USUAL:
        given["std"] = _USUAL[word]
    sensor = sensor_kinds()[word](name, **given)
    sensor.validate(layout.robot)
    return sensor


def _free_name(taken: Collection[str], wanted: str) -> str:
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted}_{count}", count + 1
    return name


def _place_of(sensor: AbstractSensor) -> Place | None:
    """Parameter that says where a sensor sits, None if it is not one place."""
    for place in PLACES:
        if hasattr(sensor, place) and not hasattr(sensor, "leader"):
            return place
    return None


def move_sensor(layout: Layout, name: str, body: str) -> AbstractSensor:
    """Return the sensor moved to another body, or to the joint that carries that body.

    It keeps its name: logs know it by that. Its pose within the body becomes zero.
    """
    sensor, robot = layout[name], layout.robot
    place = _place_of(sensor)
    if place is None:
        raise LayoutError(f"{sensor} ties two places together; remove it and add another")
    number = robot.body_index(body)
    if number < 0:
        raise LayoutError(f"{sensor} cannot sit on the fixed base")
    target = body if place == "frame" else robot.joint_names[number]
    moved: dict[str, Any] = {place: target, **dict.fromkeys(_poses(sensor), ZERO)}
    return replace(sensor, **moved)


def _poses(sensor: AbstractSensor) -> tuple[str, ...]:
    """Which of position and angles within its frame a sensor has."""
    return tuple(pose for pose in ("xyz", "rpy") if hasattr(sensor, pose))


def place_sensor(
    layout: Layout, name: str, xyz: Sequence[float], rpy: Sequence[float]
) -> AbstractSensor:
    """Return the sensor elsewhere in its frame; LayoutError if it has no such pose."""
    sensor = layout[name]
    wanted: dict[str, Any] = {"xyz": tuple(xyz), "rpy": tuple(rpy)}
    if not _poses(sensor):
        raise LayoutError(f"{sensor} sits on a joint; it has no place within a link")
    if "rpy" not in _poses(sensor) and any(rpy):
        raise LayoutError(f"{sensor} is about a point; it has no angles")
    return replace(sensor, **{pose: wanted[pose] for pose in _poses(sensor)})


def with_std(layout: Layout, name: str, std: list[float]) -> AbstractSensor:
    """Return the sensor with another standard deviation, one number or several."""
    value: Any = std[0] if len(std) == 1 else tuple(std)
    return replace(layout[name], std=value, covariance=None)


def adopted(layout: Layout, suggested: Sequence[AbstractSensor]) -> list[AbstractSensor]:
    """Suggested sensors with usual noise, named as those that a click adds."""
    found: list[AbstractSensor] = []
    for sensor in suggested:
        taken = {*layout.names, *(other.name for other in found)}
        name = _free_name(taken, sensor.name.replace("/added_", "/"))
        found.append(replace(with_usual_noise(sensor), name=name))
    return found


def with_usual_noise(sensor: AbstractSensor) -> AbstractSensor:
    """Return the sensor with its kind's usual deviation, if it states none."""
    stated = sensor.std is not None or sensor.covariance is not None
    if stated or sensor.kind not in _USUAL or sensor.constant(1) is not None:
        return sensor
    usual: Any = _USUAL[sensor.kind]
    components = getattr(sensor, "components", None)
    if components is not None and isinstance(usual, tuple):
        moments = [str(c).startswith("t") for c in components]
        usual = tuple(usual[0] if moment else usual[1] for moment in moments)
    if getattr(sensor, "angular", False):
        usual = (*usual, _USUAL["angular_accelerometer"])
    return replace(sensor, std=usual)


# ---- for the page ----------------------------------------------------------------------------


def sensor_facts(layout: Layout, sensor: AbstractSensor) -> dict[str, Any]:
    """What the page shows of a sensor: where it sits, noise, number of rows."""
    robot = layout.robot
    body, point = _position(robot, sensor)
    where = layout.slice(sensor.name)
    place = _place_of(sensor)
    record = sensor_record(sensor)
    return {
        "name": sensor.name,
        "kind": sensor.kind,
        "body": body,
        "at": [round(float(x), 5) for x in point],
        "place": str(record.get(place, "")) if place else "",
        "movable": place is not None,
        "pose": {key: list(map(float, getattr(sensor, key))) for key in _poses(sensor)},
        "rows": where.stop - where.start,
        "std": [float(f"{x:.4g}") for x in _per_unit(layout, where)],
        "units": list(dict.fromkeys(layout.units[where])),
        "statement": sensor.constant(1) is not None,
    }


@final
class SensorFacts:
    """Facts of sensors, kept while a sensor stays as it is."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[AbstractSensor, dict[str, Any]]] = {}

    def of(self, layout: Layout) -> list[dict[str, Any]]:
        """Facts of all sensors of a layout."""
        known: dict[str, tuple[AbstractSensor, dict[str, Any]]] = {}
        for sensor in layout.sensors:
            kept = self._known.get(sensor.name)
            if kept is None or kept[0] is not sensor:
                kept = sensor, sensor_facts(layout, sensor)
            known[sensor.name] = kept
        self._known = known
        return [facts for _, facts in known.values()]


def _per_unit(layout: Layout, where: slice) -> list[float]:
    """Largest standard deviation of each unit among a sensor's rows."""
    found: dict[str, float] = {}
    for unit, std in zip(layout.units[where], layout.std[where].tolist(), strict=True):
        found[unit] = max(found.get(unit, 0.0), std)
    return list(found.values())


def _position(robot: KinematicTree, sensor: AbstractSensor) -> tuple[int, Any]:
    """Body (-1: the base) and point in its coordinates."""
    for key in ("frame", "frame_a"):
        if hasattr(sensor, key):
            mount = Mount.of(robot, getattr(sensor, key), getattr(sensor, "xyz", ZERO))
            return mount.body, mount.transform.r
    if hasattr(sensor, "joint"):
        return robot.joint_index(sensor.joint), np.zeros(3)
    at, point = str(getattr(sensor, "at", "")), np.asarray(getattr(sensor, "xyz", ZERO))
    if at in robot.welds:
        return robot.welds[at].body, robot.welds[at].transform.point(point)
    return (robot.joint_index(at), point) if at else (0, np.zeros(3))
