"""Layout files: YAML in and out, checked against the robot, errors with file and line.

about: {description: ..., source: ...}     # optional, any text
contacts: [l_toe, {name: l_heel, frame: l_foot, xyz: [-0.05, 0, -0.03]}]   # optional: places
                                           # with a wrench of their own, frames to the sensors
sensors:
  - {kind: imu, name: chest_imu, frame: chest, std: [0.05, 0.01]}
  - all_joint_accelerations: {std: 0.2}
  - zero_external_wrench_except: [l_sole, r_sole]
correlations:
  - {between: [chest_imu, head_imu], covariance: [[...], ...]}
position_std: 0.0005                       # optional: noise of q and qd, one number for all
velocity_std: {l_knee: 0.02, r_knee: 0.02} # joints with encoders, or numbers by joint
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, NamedTuple

from dynsys.errors import LayoutError, ModelError, nearest_name
from dynsys.model.contacts import Contact
from dynsys.model.readers.xml_input import PathLike
from dynsys.model.tree import KinematicTree
from dynsys.resumable import written
from dynsys.types import Array
from sensors.correlations import Correlation
from sensors.encoders import encoder_deviations
from sensors.groups import (
    all_joint_accelerations,
    all_joint_torques,
    zero_external_wrench_except,
)
from sensors.parameters import FrameName, Name, Parameter, Vector3, of, parameters, plain
from sensors.sensor import AbstractSensor, sensor_kinds
from sensors.yaml_input import Item, write_yaml

__all__ = [
    "CONTACT",
    "ENCODERS",
    "GROUP",
    "SECTIONS",
    "SHORTHANDS",
    "file_content",
    "is_required",
    "read_entries",
    "save_content",
    "sensor_record",
    "touched_frames",
]

ENCODERS = ("position_std", "velocity_std")
SECTIONS = ("about", "contacts", "sensors", "correlations", *ENCODERS)
GROUP = zero_external_wrench_except.__name__
SHORTHANDS: Mapping[str, tuple[Callable[..., Sequence[AbstractSensor]], tuple[str, ...]]] = {
    "all_joint_accelerations": (all_joint_accelerations, ("exclude", "std", "free")),
    "all_joint_torques": (all_joint_torques, ("exclude", "std")),
    GROUP: (zero_external_wrench_except, ("touched", "std")),
}
"""Functions that make many sensors at once, with their options: a plain list is the first."""
CONTACT: Mapping[str, Parameter] = {
    key: of(kind)
    for key, kind in (("name", Name), ("frame", FrameName), ("xyz", Vector3), ("rpy", Vector3))
}
"""What a contact of a layout file is made of."""


# ---- reading ---------------------------------------------------------------------------------


class LayoutEntries(NamedTuple):
    """What a layout file says: the arguments of :class:`sensors.Layout`.

    ``robot`` has the contacts of the file; ``where`` gives the place of a sensor in the file,
    for messages; ``touched`` are the frames that ``zero_external_wrench_except`` names.
    """

    robot: KinematicTree
    sensors: list[AbstractSensor]
    correlations: list[Correlation]
    about: dict[str, Any]
    encoders: dict[str, Any]
    where: Callable[[str], str]
    touched: list[str]


def read_entries(root: Item, robot: KinematicTree) -> LayoutEntries:
    """Read the content of a layout file, wherever that was written."""
    sections = root.mapping("a layout")
    _check_keys(sections, SECTIONS, "section")
    if "sensors" not in sections:
        raise root.error("the section 'sensors' is missing; add it")
    robot = _touched(sections.get("contacts"), robot)
    sensors: list[AbstractSensor] = []
    lines: dict[str, Item] = {}
    touched: list[str] = []
    for item in sections["sensors"].listed("sensors"):
        found = _read_entry(item, robot)
        touched += touched_frames(item.plain())
        for sensor in found:
            if sensor.name in lines:
                first = lines[sensor.name].line
                raise item.error(
                    f"two sensors are called {sensor.name!r}, the other one in line {first};"
                    " rename one"
                )
            lines[sensor.name] = item
            sensors.append(sensor)
    correlations = _read_correlations(sections.get("correlations"), lines)
    about = sections["about"].mapping("about") if "about" in sections else {}

    def where(name: str) -> str:
        return f"{lines[name].file}, line {lines[name].line}: " if name in lines else ""

    texts = {key: item.plain() for key, item in about.items()}
    encoders = {}
    for name in ENCODERS:
        if name in sections:
            encoders[name] = sections[name].plain()
            try:
                encoder_deviations(robot, encoders[name], name)
            except LayoutError as error:
                raise sections[name].error(str(error)) from None
    return LayoutEntries(robot, sensors, correlations, texts, encoders, where, touched)


def touched_frames(entry: object) -> list[str]:
    """Frames that an entry of the section ``sensors`` says may be touched."""
    given = entry.get(GROUP) if isinstance(entry, Mapping) else None
    frames = given.get("touched") if isinstance(given, Mapping) else given
    return [frames] if isinstance(frames, str) else list(frames or ())


def _check_keys(given: Mapping[str, Item], known: Sequence[str], what: str) -> None:
    for key, item in given.items():
        if key not in known:
            hint = nearest_name(key, known)
            raise item.error(f"unknown {what} {key!r}; use {', '.join(known)}{hint}")


def _touched(section: Item | None, robot: KinematicTree) -> KinematicTree:
    """The robot with the contacts of a file."""
    for item in [] if section is None else section.listed("contacts"):
        given = {"name": item} if isinstance(item.value, str) else item.mapping("a contact")
        _check_keys(given, tuple(CONTACT), "key of a contact")
        if "name" not in given:
            raise item.error("a contact needs 'name'; add it")
        arguments: dict[str, Any] = {}
        for key, value in given.items():
            try:
                arguments[key] = CONTACT[key].check(value.plain())
            except (TypeError, ValueError) as error:
                raise value.error(f"{key} {error}") from None
        try:
            robot = robot.with_contacts([Contact(**arguments)])
        except ModelError as error:
            raise item.error(str(error)) from None
    return robot


def _read_entry(item: Item, robot: KinematicTree) -> Sequence[AbstractSensor]:
    if isinstance(item.value, str):
        return _read_shorthand(item, item.value, None, robot)
    entry = item.mapping("a sensor")
    if "kind" in entry:
        return [_read_sensor(item, entry, robot)]
    if len(entry) == 1:
        word, options = next(iter(entry.items()))
        return _read_shorthand(item, word, options, robot)
    raise item.error("the sensor has no kind; add kind: " + ", ".join(sensor_kinds()))


def _read_shorthand(
    item: Item, word: str, options: Item | None, robot: KinematicTree
) -> Sequence[AbstractSensor]:
    if word not in SHORTHANDS:
        hint = nearest_name(word, tuple(SHORTHANDS))
        raise item.error(
            f"{word!r} is no shorthand ({', '.join(SHORTHANDS)}); a sensor needs kind and"
            f" name{hint}"
        )
    given: dict[str, Any] = {}
    make, known = SHORTHANDS[word]
    if options is not None and isinstance(options.value, list):
        given = {known[0]: options.plain()}
    elif options is not None and options.value is not None:
        mapping = options.mapping(word)
        _check_keys(mapping, known, f"option of {word}")
        given = {key: value.plain() for key, value in mapping.items()}
    try:
        return make(robot, **given)
    except (LayoutError, TypeError) as error:
        raise (options or item).error(f"{word}: {error}") from None


def _read_sensor(item: Item, entry: dict[str, Item], robot: KinematicTree) -> AbstractSensor:
    kind = entry["kind"]
    known = sensor_kinds()
    if not isinstance(kind.value, str) or kind.value not in known:
        hint = nearest_name(str(kind.value), tuple(known))
        raise kind.error(
            f"unknown kind of sensor {kind.plain()!r}{hint}; use {', '.join(known)}"
        )
    sensor = known[kind.value]
    allowed = parameters(sensor)
    given = {key: value for key, value in entry.items() if key != "kind"}
    _check_keys(given, tuple(allowed), f"parameter of {kind.value}")
    for field in fields(sensor):
        if is_required(field) and field.name not in given:
            raise item.error(f"{kind.value} needs {field.name!r}; add it")
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        try:
            arguments[key] = allowed[key].check(value.plain())
        except (TypeError, ValueError) as error:
            raise value.error(f"{key} {error}") from None
        try:
            allowed[key].check_names(arguments[key], robot)
        except ValueError as error:
            raise value.error(f"{key}: {error}") from None
    try:
        return sensor(**arguments)
    except LayoutError as error:
        raise item.error(str(error)) from None


def is_required(field: Field[Any]) -> bool:
    """Tell whether a field has no default."""
    return field.default is MISSING and field.default_factory is MISSING


def _read_correlations(section: Item | None, sensors: Mapping[str, Item]) -> list[Correlation]:
    found: list[Correlation] = []
    for item in [] if section is None else section.listed("correlations"):
        entry = item.mapping("a correlation")
        _check_keys(entry, ("between", "covariance"), "key of a correlation")
        if len(entry) < 2:
            raise item.error("a correlation needs 'between' and 'covariance'; add it")
        names = entry["between"].plain()
        if not (isinstance(names, list) and len(names) == 2):
            raise entry["between"].error("between must name two sensors")
        for name in names:
            if not isinstance(name, str) or name not in sensors:
                hint = nearest_name(str(name), tuple(sensors))
                raise entry["between"].error(f"no sensor is called {name!r}{hint}")
        found.append((names[0], names[1], entry["covariance"].plain()))
    return found


# ---- writing ---------------------------------------------------------------------------------


def sensor_record(sensor: AbstractSensor) -> dict[str, Any]:
    """Return a sensor as a layout file writes it: kind, name, what differs from defaults."""
    record: dict[str, Any] = {"kind": sensor.kind}
    for field in fields(sensor):
        value = getattr(sensor, field.name)
        if field.name in parameters(type(sensor)) and (
            is_required(field) or value != field.default
        ):
            record[field.name] = plain(value)
    return record


def _contact_record(contact: Contact) -> Any:
    """A contact as a layout file writes it: the name of a frame, or what differs from it."""
    record: dict[str, Any] = {"name": contact.name}
    for field in fields(contact)[1:]:
        value = getattr(contact, field.name)
        if value != field.default:
            record[field.name] = plain(value)
    return record if len(record) > 1 else contact.name


def file_content(
    about: Mapping[str, Any],
    contacts: Sequence[Contact],
    sensors: Sequence[AbstractSensor],
    correlations: Sequence[tuple[str, str, Array]],
    encoders: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Content of a layout file."""
    content: dict[str, Any] = {}
    if about:
        content["about"] = dict(about)
    if contacts:
        content["contacts"] = [_contact_record(contact) for contact in contacts]
    content["sensors"] = [sensor_record(sensor) for sensor in sensors]
    if correlations:
        content["correlations"] = [
            {"between": [first, second], "covariance": matrix.tolist()}
            for first, second, matrix in correlations
        ]
    return content | {name: dict(noise) for name, noise in encoders.items() if noise}


def save_content(path: PathLike, content: Mapping[str, Any]) -> None:
    """Write a layout file: complete or not at all. LayoutError says why it cannot be."""
    target = Path(path)
    text = write_yaml(content)
    if target.suffix == ".json":
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with written(target, LayoutError) as part:
        part.write_text(text, encoding="utf-8")
