"""Shorthands: many sensors of one kind at once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dynsys.errors import LayoutError, LayoutWarning, nearest_name
from dynsys.model.tree import KinematicTree
from sensors.external import ExternalWrench
from sensors.joint import JointAcceleration, JointTorque
from sensors.parameters import sensor_name

__all__ = [
    "all_joint_accelerations",
    "all_joint_torques",
    "zero_external_wrench_except",
]


Deviations: TypeAlias = float | Sequence[float] | Mapping[str, float] | None
"""One standard deviation for all, one per row, or one per joint or body by name."""


def _deviation(
    std: Deviations, name: str, others: Sequence[str]
) -> float | Sequence[float] | None:
    """Standard deviation of the sensor at a joint or body; LayoutError if it is left out."""
    if not isinstance(std, Mapping):
        return std
    for given in std:
        if given not in others:
            hint = nearest_name(str(given), others)
            raise LayoutError(f"std names {given!r}, which has no sensor in this group{hint}")
    if name not in std:
        raise LayoutError(f"std is given by name, but not for {name!r}; add it, or exclude it")
    return std[name]


def _own_joints(robot: KinematicTree, excluded: str | Sequence[str]) -> list[str]:
    """Joints with freedoms of their own that are not excluded."""
    names = _names(excluded)
    for name in names:
        if name not in robot.joint_names:
            hint = nearest_name(name, robot.joint_names)
            raise LayoutError(f"robot {robot.name!r} has no joint {name!r}{hint}")
    return [
        name
        for name, body in zip(robot.joint_names, robot.bodies, strict=True)
        if body.joint.nv and body.coupling is None and name not in names
    ]


def _names(given: str | Sequence[str]) -> list[str]:
    """Return a list of names; one name stands for itself, not for its letters."""
    return [given] if isinstance(given, str) else list(given)


def _free_joints(robot: KinematicTree) -> set[str]:
    pairs = zip(robot.joint_names, robot.joints, strict=True)
    return {name for name, joint in pairs if joint.nv == 6}


def all_joint_accelerations(
    robot: KinematicTree,
    *,
    std: Deviations = None,
    exclude: str | Sequence[str] = (),
    free: bool | None = None,
) -> list[JointAcceleration]:
    """One sensor ``JOINT/acceleration`` per joint.

    A free joint (the floating base) has no encoder: ``free=False`` leaves its six accelerations
    out; ``free=True`` is for those who find them in some other way.

    Warns
    -----
    LayoutWarning
        if they are among the sensors though nobody said that they are measured.
    """
    names = _own_joints(robot, exclude)
    loose = [name for name in names if name in _free_joints(robot)]
    if free is None and loose:
        warnings.warn(
            f"all_joint_accelerations: the six accelerations of the free joint {loose[0]!r} are"
            " among them, which no encoder measures; say free: false to leave them out, or"
            " free: true if something else measures them",
            LayoutWarning,
            stacklevel=2,
        )
    names = [name for name in names if free is not False or name not in loose]
    return [
        JointAcceleration(
            sensor_name(name, "acceleration"), name, std=_deviation(std, name, names)
        )
        for name in names
    ]


def all_joint_torques(
    robot: KinematicTree,
    *,
    std: Deviations = None,
    exclude: str | Sequence[str] = (),
) -> list[JointTorque]:
    """One sensor ``JOINT/torque`` per joint.

    A free joint (the floating base) has no drive: its torque is stated to be zero, exactly.
    """
    free, names = _free_joints(robot), _own_joints(robot, exclude)
    driven = [name for name in names if name not in free]
    return [
        JointTorque(sensor_name(name, "torque"), name, value=0.0)
        if name in free
        else JointTorque(sensor_name(name, "torque"), name, std=_deviation(std, name, driven))
        for name in names
    ]


def zero_external_wrench_except(
    robot: KinematicTree,
    touched: str | Sequence[str] = (),
    *,
    std: Deviations = None,
) -> list[ExternalWrench]:
    """One sensor ``BODY/no_contact`` per body that holds none of the frames ``touched``.

    Name the link or frame that is touched, not its body as a whole, where a force/torque sensor
    sits in a fixed joint of the body: it feels what happens beyond it.
    """
    names = _names(touched)
    for name in names:
        if name not in robot.frames:
            hint = nearest_name(name, tuple(robot.frames))
            raise LayoutError(f"robot {robot.name!r} has no body or frame {name!r}{hint}")
    bodies = {robot.frame(name).body for name in names}
    free = [name for i, name in enumerate(robot.body_names) if i not in bodies]
    return [
        ExternalWrench(
            sensor_name(name, "no_contact"),
            name,
            value=0.0,
            std=_deviation(std, name, free),
            touched=tuple(names),
        )
        for name in free
    ]
