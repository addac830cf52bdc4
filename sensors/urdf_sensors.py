"""Sensors found in a URDF file: <sensor> elements, also those in <gazebo reference="...">."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.readers.assembly import emit
from dynsys.model.readers.xml_input import MAX_BYTES, Node, PathLike, read_xml
from dynsys.model.tree import KinematicTree
from sensors.external import LoadCellPlate
from sensors.force_torque import ForceTorque
from sensors.inertial import Accelerometer, AngularAccelerometer, Gyroscope, Imu
from sensors.mounting import rpy_of
from sensors.sensor import AbstractSensor

__all__ = ["from_urdf"]

ON_LINK: dict[str, type[Accelerometer | AngularAccelerometer | Gyroscope | Imu | LoadCellPlate]]
ON_LINK = {
    "accelerometer": Accelerometer,
    "gyroscope": Gyroscope,
    "imu": Imu,
    "three_axis_angular_accelerometer": AngularAccelerometer,
    "three_axis_force_torque_contact": LoadCellPlate,
}


def from_urdf(
    path: PathLike, robot: KinematicTree, *, max_bytes: int = MAX_BYTES
) -> list[AbstractSensor]:
    """Sensors of a URDF file, on a robot loaded from it.

    Reads accelerometer, gyroscope, imu, three_axis_angular_accelerometer,
    three_axis_force_torque_contact (on links) and force_torque (at joints, fixed ones
    included); pose, frame and measure_direction count. A sensor that the file describes twice
    is returned once.

    Warns
    -----
    ModelWarning
        naming each sensor that is not supported or sits where the robot has no part.
    """
    root = read_xml(path, max_bytes)
    if root.tag != "robot":
        raise LayoutError(f"{os.fspath(path)}: a URDF file starts with <robot>")
    found: list[AbstractSensor] = []
    notes: list[str] = []
    for node, reference in _sensor_nodes(root):
        try:
            sensor = _Reader(node, reference, robot).read()
            sensor.validate(robot)
        except LayoutError as reason:
            name = node.attributes.get("name", "?")
            notes.append(f"{node.file}, line {node.line}: sensor {name!r}: {reason}; left out")
            continue
        twin = next((s for s in found if replace(s, name=sensor.name) == sensor), None)
        if twin is None:
            taken = {other.name for other in found}
            if sensor.name in taken:
                sensor = replace(sensor, name=f"{sensor.name}/{sensor.kind}")
            found.append(sensor)
        else:
            notes.append(
                f"{node.file}: sensor {sensor.name!r} is {twin.name!r} again; left out"
            )
    emit(notes, stacklevel=2)
    return found


def _sensor_nodes(root: Node) -> Iterator[tuple[Node, str | None]]:
    """<sensor> elements, URDF's own first, with the reference of their <gazebo>."""
    for node in root.all("sensor"):
        yield node, None
    for gazebo in root.all("gazebo"):
        for node in gazebo.all("sensor"):
            yield node, gazebo.attributes.get("reference")


@final
@dataclass(frozen=True, eq=False)
class _Reader:
    node: Node
    reference: str | None
    robot: KinematicTree

    def read(self) -> AbstractSensor:
        kind = self.node.attributes.get("type", "").removeprefix("gazebo:")
        name = self.node.attribute("name").replace("(", "[").replace(")", "]")
        if kind == "force_torque":
            return self._force_torque(name)
        if kind not in ON_LINK:
            raise LayoutError(f"type {kind or 'not given'!r} is not supported")
        link = self._place("link")
        if link not in self.robot.frames:
            hint = nearest_name(link, tuple(self.robot.frames))
            raise LayoutError(f"the robot has no link {link!r}{hint}")
        xyz, rpy = self._pose()
        return ON_LINK[kind](name, link, xyz=xyz, rpy=rpy)

    def _place(self, what: str) -> str:
        parent = self.node.optional("parent")
        named = None if parent is None else parent.attributes.get(what)
        if named is None and self.reference is None:
            raise LayoutError(f"it does not say which {what} it is on")
        return named or str(self.reference)

    def _pose(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Position and roll, pitch, yaw, from <origin xyz rpy> or <pose>x y z r p y</pose>."""
        origin, pose = self.node.optional("origin"), self.node.optional("pose")
        if origin is not None:
            zero = (0.0, 0.0, 0.0)
            xyz, rpy = origin.numbers("xyz", zero), origin.numbers("rpy", zero)
            return tuple(xyz.tolist()), tuple(rpy.tolist())
        try:
            numbers = [float(word) for word in (pose.text.split() if pose else ())] or [0.0] * 6
        except ValueError:
            numbers = []
        if len(numbers) != 6 or not np.isfinite(numbers).all():
            raise LayoutError("its <pose> must hold six numbers")
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
        return ForceTorque(name, joint, xyz=xyz, rpy=rpy, measures=measures)

    def _parent_axes(self, joint: str) -> tuple[float, ...]:
        """Roll, pitch, yaw of the parent link's axes in the child link of a fixed joint."""
        if joint in self.robot.joint_names:
            raise LayoutError("its frame is that of the parent of a moving joint")
        weld = self.robot.welds[joint]
        return rpy_of(np.asarray(weld.parent_transform.E @ weld.transform.E.T))
