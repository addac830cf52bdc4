"""Sensors found in a URDF file: <sensor> elements, also those in <gazebo reference="...">.

A file may describe one device in two ways, once for URDF and once for Gazebo: such twins are
read once, for two readings of one device would halve its noise. Twins have one name and one
carrier, or one place and one kind. Two elements of one way are two devices, unless an element
repeats the name, place and readings of another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, final

import numpy as np

from dynsys.errors import LayoutError, ModelError, nearest_name
from dynsys.model.readers.assembly import emit, listing
from dynsys.model.readers.xml_input import MAX_BYTES, Node, PathLike, read_xml
from dynsys.model.tree import KinematicTree
from sensors.external import LoadCellPlate
from sensors.force_torque import ForceTorque
from sensors.inertial import Accelerometer, AngularAccelerometer, Gyroscope, Imu
from sensors.mounting import offset, rpy_of
from sensors.parameters import sensor_name
from sensors.sensor import AbstractSensor

__all__ = ["from_urdf", "grouped"]

ON_LINK: dict[str, type[Accelerometer | AngularAccelerometer | Gyroscope | Imu | LoadCellPlate]]
ON_LINK = {
    "accelerometer": Accelerometer,
    "gyroscope": Gyroscope,
    "imu": Imu,
    "three_axis_angular_accelerometer": AngularAccelerometer,
    "three_axis_force_torque_contact": LoadCellPlate,
}


_Read = Accelerometer | AngularAccelerometer | Gyroscope | Imu | LoadCellPlate | ForceTorque
READINGS: Mapping[type[AbstractSensor], frozenset[str]] = {
    Accelerometer: frozenset({"acceleration"}),
    Gyroscope: frozenset({"velocity"}),
    Imu: frozenset({"acceleration", "velocity"}),
    AngularAccelerometer: frozenset({"angular acceleration"}),
    LoadCellPlate: frozenset({"plate"}),
    ForceTorque: frozenset({"wrench"}),
}
"""What each kind reads: an imu is an accelerometer and a gyroscope."""

SAME = 1e-6
"""Difference of two poses, m or of a rotation matrix, that the digits of files explain."""


def from_urdf(
    path: PathLike, robot: KinematicTree, *, max_bytes: int = MAX_BYTES
) -> list[AbstractSensor]:
    """Sensors of a URDF file, on a robot loaded from it.

    Reads accelerometer, gyroscope, imu, three_axis_angular_accelerometer,
    three_axis_force_torque_contact (on links) and force_torque (at joints, fixed ones
    included); pose, frame, measure_direction and Gazebo's <stddev> count. A device that the
    file describes twice, for URDF and for Gazebo, is returned once.

    Warns
    -----
    ModelWarning
        naming the sensors that are not supported, sit where the robot has no part or are
        described twice; one warning per kind.
    """
    root = read_xml(path, max_bytes)
    if root.tag != "robot":
        raise LayoutError(f"{os.fspath(path)}: a URDF file starts with <robot>")
    devices = _Devices()
    for node, reference in _sensor_nodes(root):
        name = node.attributes.get("name", "?")
        try:
            reader = _Reader(node, reference, robot)
            sensor = reader.read()
            sensor.validate(robot)
        except (LayoutError, ModelError) as reason:
            text = str(reason).rsplit(": ", 1)[-1] if isinstance(reason, ModelError) else reason
            devices.note(f"{text}; left out", name, node.line)
            continue
        if reader.unread_noise(sensor):
            devices.note("its <stddev> is not read; give std", name, node.line)
        devices.add(sensor, reference is not None, node.line)
    emit(grouped(root.file, devices.notes), stacklevel=2)
    return [device.sensor for device in devices.found]


def grouped(file: str, notes: Mapping[str, list[tuple[str, int]]]) -> list[str]:
    """One line per reason, from the sensors (name, line; 0: none) that it holds for."""
    lines = []
    for reason, found in notes.items():
        line = f", line {found[0][1]}" if found[0][1] else ""
        several = "sensors" if len(found) > 1 else "sensor"
        lines.append(
            f"{file}{line}: {several} {listing([repr(n) for n, _ in found])}: {reason}"
        )
    return lines


def _sensor_nodes(root: Node) -> Iterator[tuple[Node, str | None]]:
    """<sensor> elements, URDF's own first, with the reference of their <gazebo>."""
    for node in root.all("sensor"):
        yield node, None
    for gazebo in root.all("gazebo"):
        for node in gazebo.all("sensor"):
            yield node, gazebo.attributes.get("reference", "")


@final
@dataclass(eq=False)
class _Device:
    """A sensor, the name that the file gives it, and who it was described for."""

    sensor: _Read
    name: str
    in_gazebo: bool
    has_twin: bool = False


@final
@dataclass(eq=False)
class _Devices:
    """Sensors found so far, each device once; ``notes`` are (name, line) by reason."""

    found: list[_Device] = field(default_factory=list)
    notes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def note(self, reason: str, name: str, line: int) -> None:
        self.notes.setdefault(reason, []).append((name, line))

    def add(self, sensor: _Read, in_gazebo: bool, line: int) -> None:
        """Add a sensor, or what it says about a device that is there already."""
        twins = self._twins(sensor, in_gazebo)
        if not all(_at_one_place(twin.sensor, sensor) for twin in twins):
            reason = "described for Gazebo at another pose; URDF's own is used"
            self.note(reason, sensor.name, line)
            return
        overlap = [twin for twin in twins if _readings(twin.sensor) & _readings(sensor)]
        if not overlap:
            self._keep(sensor, in_gazebo, line)
            return
        self.note("described twice; read once", sensor.name, line)
        read = frozenset().union(*(_readings(twin.sensor) for twin in overlap))
        if not read >= _readings(sensor):  # an accelerometer of URDF is an imu in Gazebo
            overlap[0].sensor = sensor
        for twin in overlap:
            twin.has_twin = True
            if twin.sensor.std is None:
                twin.sensor = replace(twin.sensor, std=_noise_for(twin.sensor, sensor))

    def _twins(self, sensor: _Read, in_gazebo: bool) -> list[_Device]:
        """Find the sensors that are the same device."""
        named = [
            device
            for device in self.found
            if device.name == sensor.name
            and _carrier(device.sensor) == _carrier(sensor)
            and (device.in_gazebo != in_gazebo or _at_one_place(device.sensor, sensor))
        ]
        unnamed = (
            device
            for device in self.found
            if in_gazebo
            and not (device.in_gazebo or device.has_twin)
            and type(device.sensor) is type(sensor)
            and _at_one_place(device.sensor, sensor)
        )
        return named or list(islice(unnamed, 1))

    def _keep(self, sensor: _Read, in_gazebo: bool, line: int) -> None:
        others = [device.sensor for device in self.found]
        for other in others:
            if _at_one_place(other, sensor) and _readings(other) & _readings(sensor):
                reason = f"reads the same as {other.name!r} at the same place; both are kept"
                self.note(f"{reason}, drop one if they are one device", sensor.name, line)
                break
        taken = {other.name for other in others}
        name, count = sensor.name, 1
        while name in taken:
            name = f"{sensor.name}/{sensor.kind}{count if count > 1 else ''}"
            count += 1
        self.found.append(_Device(replace(sensor, name=name), sensor.name, in_gazebo))


def _readings(sensor: AbstractSensor) -> frozenset[str]:
    return READINGS[type(sensor)]


def _noise_for(sensor: _Read, twin: _Read) -> Any:
    """Return what the deviation of its twin says about a sensor."""
    if isinstance(twin.std, tuple) and isinstance(twin, Imu):
        if isinstance(sensor, Accelerometer):
            return twin.std[:3]
        if isinstance(sensor, Gyroscope):
            return twin.std[3:]
    return twin.std


def _carrier(sensor: _Read) -> str | int:
    return sensor.at if isinstance(sensor, ForceTorque) else sensor.frame


def _at_one_place(a: _Read, b: _Read) -> bool:
    """Tell whether two sensors have one carrier and one pose, and count forces one way."""
    if _carrier(a) != _carrier(b):
        return False
    if isinstance(a, ForceTorque) and isinstance(b, ForceTorque) and a.measures != b.measures:
        return False
    first, second = offset(a.xyz, a.rpy), offset(b.xyz, b.rpy)
    return bool(
        np.abs(first.r - second.r).max() <= SAME and np.abs(first.E - second.E).max() <= SAME
    )


@final
@dataclass(frozen=True, eq=False)
class _Reader:
    node: Node
    reference: str | None
    robot: KinematicTree

    def read(self) -> _Read:
        kind = self.node.attributes.get("type", "").removeprefix("gazebo:")
        name = sensor_name(self.node.attribute("name"))
        if kind == "force_torque":
            return self._force_torque(name)
        if kind not in ON_LINK:
            raise LayoutError(f"type {kind or 'not given'!r} is not supported")
        link = self._place("link")
        if link not in self.robot.frames:
            hint = nearest_name(link, tuple(self.robot.frames))
            raise LayoutError(f"the robot has no link {link!r}{hint}")
        xyz, rpy = self._pose()
        std = self._noise(IMU_NOISE) if kind == "imu" else None
        return ON_LINK[kind](name, link, xyz=xyz, rpy=rpy, std=std)

    def _noise(self, rows: tuple[tuple[str, ...], ...]) -> tuple[float, ...] | None:
        """<stddev> of each row, by the elements that lead to it; None unless all have one."""
        found = []
        for path in rows:
            node: Node | None = self.node
            for tag in (*path, "noise", "stddev"):
                node = None if node is None else node.optional(tag)
            found.append(_positive("" if node is None else node.text))
        return tuple(found) if all(found) else self._old_noise(rows)

    def _old_noise(self, rows: tuple[tuple[str, ...], ...]) -> tuple[float, ...] | None:
        """<imu><noise><accel> and <rate>, as Gazebo wrote them once."""
        imu = self.node.optional("imu")
        noise = None if imu is None else imu.optional("noise")
        if noise is None or rows is not IMU_NOISE:
            return None
        parts = [noise.optional(tag) for tag in ("accel", "rate")]
        nodes = [None if part is None else part.optional("stddev") for part in parts]
        accel, rate = (_positive("" if node is None else node.text) for node in nodes)
        return (accel,) * 3 + (rate,) * 3 if accel and rate else None

    def unread_noise(self, sensor: AbstractSensor) -> bool:
        """Tell whether the element states a deviation that the sensor did not get."""
        stated = any(_positive(n.text) for n in self.node.walk() if n.tag == "stddev")
        return stated and sensor.std is None

    def _place(self, what: str) -> str:
        parent = self.node.optional("parent")
        named = None if parent is None else parent.attributes.get(what)
        if named is None and self.reference is None:
            raise LayoutError(f"it does not say which {what} it is on")
        return named or str(self.reference)  # Gazebo's may not say: then there is no such part

    def _pose(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Position and roll, pitch, yaw, from <origin xyz rpy> or <pose>x y z r p y</pose>."""
        origin, pose = self.node.optional("origin"), self.node.optional("pose")
        if origin is not None:
            zero = (0.0, 0.0, 0.0)
            xyz, rpy = origin.numbers("xyz", zero), origin.numbers("rpy", zero)
            return tuple(xyz.tolist()), tuple(rpy.tolist())
        stated = {} if pose is None else pose.attributes
        if (
            stated.get("relative_to")
            or stated.get("rotation_format", "euler_rpy") != "euler_rpy"
        ):
            raise LayoutError("its <pose> must be relative to the link, with roll, pitch, yaw")
        try:
            numbers = [float(word) for word in (pose.text.split() if pose else ())] or [0.0] * 6
        except ValueError:
            numbers = []
        if len(numbers) != 6 or not np.isfinite(numbers).all():
            raise LayoutError("its <pose> must hold six numbers")
        if stated.get("degrees") in ("true", "1"):
            numbers[3:] = np.deg2rad(numbers[3:]).tolist()
        return tuple(numbers[:3]), tuple(numbers[3:])

    def _option(self, tag: str, default: str) -> str:
        options = self.node.optional("force_torque")
        node = None if options is None else options.optional(tag)
        return default if node is None or not node.text else node.text

    def _force_torque(self, name: str) -> ForceTorque:
        joint = self._place("joint")
        if joint not in self.robot.joint_names and joint not in self.robot.welds:
            known = (*self.robot.joint_names, *self.robot.welds)
            hint = nearest_name(joint, known)
            raise LayoutError(f"the robot has no joint {joint!r}{hint}")
        frame = self._option("frame", "child")
        direction = self._option("measure_direction", "child_to_parent")
        if direction not in ("child_to_parent", "parent_to_child"):
            raise LayoutError(f"unknown measure_direction {direction!r}")
        xyz: tuple[float, ...] = (0.0, 0.0, 0.0)
        rpy: tuple[float, ...] = (0.0, 0.0, 0.0)
        if frame == "sensor":
            xyz, rpy = self._pose()
        elif frame == "parent":
            rpy = self._parent_axes(joint)
        elif frame != "child":
            raise LayoutError(f"unknown frame {frame!r}")
        measures = "on_parent" if direction == "child_to_parent" else "on_child"
        std = self._noise(WRENCH_NOISE)
        return ForceTorque(name, joint, xyz=xyz, rpy=rpy, measures=measures, std=std)

    def _parent_axes(self, joint: str) -> tuple[float, ...]:
        """Roll, pitch, yaw of the parent link's axes in the child link of a fixed joint."""
        if joint in self.robot.joint_names:
            raise LayoutError("its frame is that of the parent of a moving joint")
        weld = self.robot.welds[joint]
        return rpy_of(np.asarray(weld.parent_transform.E @ weld.transform.E.T))


def _rows_of(tag: str, *groups: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((tag, group, axis) for group in groups for axis in "xyz")


IMU_NOISE = _rows_of("imu", "linear_acceleration", "angular_velocity")
WRENCH_NOISE = _rows_of("force_torque", "torque", "force")
"""Elements of Gazebo that hold the <noise> of each row."""


def _positive(text: str) -> float:
    """Value of a positive number, else 0."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 < value < np.inf else 0.0
