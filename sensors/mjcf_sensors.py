"""Sensors found in an MJCF file, read through MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import LayoutError
from dynsys.model.readers.assembly import emit
from dynsys.model.readers.mjcf import (
    AT_JOINT,
    EQUALITY_JOINT,
    EQUALITY_TENDON,
    body_name,
    compiled_model,
    has_any,
    is_off,
    joint_names,
    transform_of,
)
from dynsys.model.readers.xml_input import MAX_BYTES, PathLike, read_xml
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import ArrayLike
from sensors.force_torque import ForceTorque
from sensors.inertial import Accelerometer, Gyroscope
from sensors.joint import MotorTorque
from sensors.mounting import rpy_of
from sensors.parameters import sensor_name
from sensors.sensor import AbstractSensor
from sensors.urdf_sensors import grouped

__all__ = ["from_mjcf"]


def from_mjcf(
    path: PathLike,
    robot: KinematicTree,
    *,
    max_bytes: int = MAX_BYTES,
    include_folder: PathLike | None = None,
) -> list[AbstractSensor]:
    """Sensors of an MJCF file, on a robot loaded from it; needs the ``mujoco`` package.

    | MuJoCo            | here                                                        |
    |-------------------|-------------------------------------------------------------|
    | accelerometer     | Accelerometer                                               |
    | gyro              | Gyroscope                                                   |
    | force, torque     | ForceTorque, three components, between the body and parent  |
    | jointactuatorfrc  | MotorTorque of ratio 1 with the joint's damping and friction|

    ``noise`` becomes the standard deviation. An actuator force is left out where forces act on
    its joint that are neither the actuators' nor part of the model: springs, gravity
    compensation, fluids, tendons, equalities of joints, what drives those that follow it.
    ``max_bytes`` and ``include_folder`` as in ``dynsys.load``.

    Warns
    -----
    ModelWarning
        naming the sensors that are left out, and those whose readings MuJoCo clips, delays or
        holds, which no row of theirs says; one warning per kind.
    """
    root = read_xml(path, max_bytes)
    if root.tag != "mujoco":
        raise LayoutError(f"{root.file}: an MJCF file starts with <mujoco>")
    model, _ = compiled_model(root, max_bytes, include_folder)
    reader = _Reader(model, robot)
    found: list[AbstractSensor] = []
    notes: dict[str, list[tuple[str, int]]] = {}
    for s in range(model.nsensor):
        name = model.sensor(s).name or f"sensor{s}"
        try:
            sensor = reader.sensor(s, name)
            sensor.validate(robot)
            found.append(sensor)
        except LayoutError as error:
            notes.setdefault(f"{error}; left out", []).append((name, 0))
            continue
        for unread in reader.unread(s):
            notes.setdefault(unread, []).append((name, 0))
    emit(grouped(root.file, notes), stacklevel=2)
    return found


INERTIAL: dict[str, type[Accelerometer | Gyroscope]]
INERTIAL = {"accelerometer": Accelerometer, "gyro": Gyroscope}
WRENCH = {"force": ("fx", "fy", "fz"), "torque": ("tx", "ty", "tz")}


@final
@dataclass(frozen=True, eq=False)
class _Reader:
    model: Any
    robot: KinematicTree

    def sensor(self, s: int, name: str) -> AbstractSensor:
        """Return sensor s as one of ours; LayoutError if there is none like it."""
        from mujoco import mjtSensor

        kind = mjtSensor(int(self.model.sensor_type[s])).name.removeprefix("mjSENS_").lower()
        plain = sensor_name(name)
        if kind in INERTIAL:
            body, at = self._site(s)
            xyz, rpy, std = at.r.tolist(), rpy_of(at.E), self._std(s)
            return INERTIAL[kind](plain, self._frame(body), xyz=xyz, rpy=rpy, std=std)
        if kind in WRENCH:
            return self._wrench(s, plain, WRENCH[kind])
        if kind == "jointactfrc":
            return self._joint_force(s, plain)
        raise LayoutError(f"type {kind!r} is not supported")

    def unread(self, s: int) -> list[str]:
        """What MuJoCo does to the readings of sensor s and no row here holds."""
        kinds = (
            ("sensor_cutoff", "clipped at its cutoff; give those that reach it as missing"),
            ("sensor_delay", "delayed by MuJoCo; shift them in time"),
            ("sensor_interval", "held between the instants at which MuJoCo samples it"),
        )
        return [
            f"its readings are {what}" for key, what in kinds if has_any(self.model, key, at=s)
        ]

    def _std(self, s: int) -> float | None:
        noise = float(self.model.sensor_noise[s])
        return noise if noise > 0 else None

    def _site(self, s: int) -> tuple[str, Transform]:
        """Name of the site's MuJoCo body, and the transform from that body to the site."""
        site = int(self.model.sensor_objid[s])
        body = int(self.model.site_bodyid[site])
        name = "world" if body == 0 else body_name(self.model, body)
        return name, transform_of(self.model.site_pos[site], self.model.site_quat[site])

    def _frame(self, body: str) -> str:
        origin = f"{body}/origin"
        return origin if origin in self.robot.frames else body

    def _wrench(self, s: int, name: str, components: tuple[str, ...]) -> AbstractSensor:
        """Wrench between the site's body and its parent, in the site's coordinates."""
        body, at = self._site(s)
        origin = self.robot.frames.get(self._frame(body))
        weld = next((weld for weld in self.robot.welds.values() if weld.link == body), None)
        if origin is None or (origin.body < 0 and weld is None):
            raise LayoutError(f"it sits on {body!r}, which has no joint")
        joint, at = self.robot.joint_names[origin.body], origin.transform.then(at)
        if weld is not None:  # its frame is that of a joint where one is locked
            joint, at = weld.joint, weld.transform.inverse().then(at)
        return ForceTorque(
            name,
            joint,
            components=components,
            xyz=at.r.tolist(),
            rpy=rpy_of(np.asarray(at.E)),
            std=self._std(s),
        )

    def _joint_force(self, s: int, name: str) -> AbstractSensor:
        """MuJoCo reads what actuators give: ours is the sum of what they and friction give."""
        j = int(self.model.sensor_objid[s])
        joint = joint_names(self.model)[j]
        if joint not in self.robot.joint_names:
            raise LayoutError(f"its joint {joint!r} does not move in the robot")
        other = self._passive(j) or self._tied(j)
        if other:
            raise LayoutError(f"its joint feels {other} too, which its actuators do not give")
        body = self.robot.bodies[self.robot.joint_index(joint)]
        in_equations = self.robot.joint_friction is not None
        return MotorTorque(
            name,
            joint,
            gear_ratio=1.0,
            viscous=0.0 if in_equations else _first(body.damping),
            coulomb=0.0 if in_equations else _first(body.friction),
            std=self._std(s),
        )

    def _passive(self, j: int) -> str:
        """Name a force on joint j that neither an actuator nor a linear damper gives, or ''."""
        model = self.model
        if has_any(model, "jnt_stiffness", "jnt_stiffnesspoly", at=j):
            return "a spring"
        if model.dof_damping[model.jnt_dofadr[j]] < 0:
            return "negative damping"
        if has_any(model, "dof_dampingpoly", at=int(model.jnt_dofadr[j])):
            return "damping beyond linear"
        if has_any(model, "actuator_dampingpoly"):
            return "damping beyond linear"
        if model.opt.density or model.opt.viscosity:
            return "a fluid"
        lifted = [int(i) for i in np.flatnonzero(model.body_gravcomp)]
        if not model.jnt_actgravcomp[j] and any(self._carries(j, i) for i in lifted):
            return "gravity compensation"
        if has_any(model, "tendon_stiffness", "tendon_stiffnesspoly", "tendon_damping"):
            return "tendons"
        if has_any(model, "tendon_dampingpoly", "tendon_frictionloss", "tendon_armature"):
            return "tendons"
        return ""

    def _tied(self, j: int) -> str:
        """Name what comes to joint j from joints that are tied to it, or ''."""
        model, robot, names = self.model, self.robot, joint_names(self.model)
        number = robot.joint_index(names[j])
        coupled = [
            names.index(robot.joint_names[i])
            for i, body in enumerate(robot.bodies)
            if body.coupling is not None and body.coupling.leader == number
        ]
        if not is_off(model, "EQUALITY", "CONSTRAINT"):
            for e in np.flatnonzero(model.eq_active0).tolist():
                of_joints = model.eq_type[e] == EQUALITY_JOINT
                ends = [model.eq_obj1id[e], model.eq_obj2id[e]] if of_joints else []
                is_led = j in ends[1:] and ends[0] in coupled  # hands on to j, see below
                if (j in ends and not is_led) or model.eq_type[e] == EQUALITY_TENDON:
                    return f"the equality {model.equality(e).name or e!r}"
        for follower in coupled:
            if self._has_force(follower):
                return f"what drives or brakes {names[follower]!r}, which follows it,"
        return ""

    def _has_force(self, j: int) -> bool:
        """Tell whether anything acts on joint j that is not in the equations of motion."""
        model, robot = self.model, self.robot
        body = robot.bodies[robot.joint_index(joint_names(model)[j])]
        driven = ~np.isin(model.actuator_trntype, AT_JOINT) | (model.actuator_trnid[:, 0] == j)
        friction = () if robot.joint_friction is not None else (body.damping, body.friction)
        passive = self._passive(j) or model.jnt_actgravcomp[j] or any(map(_first, friction))
        return bool(driven.any() or passive)

    def _carries(self, j: int, body: int) -> bool:
        """Tell whether joint j moves a MuJoCo body."""
        while body > 0 and body != self.model.jnt_bodyid[j]:
            body = int(self.model.body_parentid[body])
        return body > 0


def _first(values: ArrayLike | None) -> float:
    """Return the first of the numbers that a joint states, or 0."""
    return 0.0 if values is None else float(np.ravel(values)[0])
