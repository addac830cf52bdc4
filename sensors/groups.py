"""Shorthands: many sensors of one kind at once."""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.errors import LayoutError, nearest_name
from dynsys.model.tree import KinematicTree
from sensors.external import ExternalWrench
from sensors.joint import JointAcceleration, JointTorque

__all__ = [
    "all_joint_accelerations",
    "all_joint_torques",
    "zero_external_wrench_except",
]


def _own_joints(robot: KinematicTree, excluded: Sequence[str]) -> list[str]:
    """Joints with freedoms of their own that are not excluded."""
    for name in excluded:
        if name not in robot.joint_names:
            hint = nearest_name(name, robot.joint_names)
            raise LayoutError(f"robot {robot.name!r} has no joint {name!r}{hint}")
    return [
        name
        for name, body in zip(robot.joint_names, robot.bodies, strict=True)
        if body.joint.nv and body.coupling is None and name not in excluded
    ]


def all_joint_accelerations(
    robot: KinematicTree,
    *,
    std: float | Sequence[float] | None = None,
    exclude: Sequence[str] = (),
) -> list[JointAcceleration]:
    """One sensor ``JOINT/acceleration`` per joint, the floating base's "root" included."""
    names = _own_joints(robot, exclude)
    return [JointAcceleration(f"{name}/acceleration", name, std=std) for name in names]


def all_joint_torques(
    robot: KinematicTree,
    *,
    std: float | Sequence[float] | None = None,
    exclude: Sequence[str] = (),
) -> list[JointTorque]:
    """One sensor ``JOINT/torque`` per joint.

    A free joint (the floating base) has no drive: its torque is stated to be zero, exactly.
    """
    free = {
        n for n, joint in zip(robot.joint_names, robot.joints, strict=True) if joint.nv == 6
    }
    return [
        JointTorque(f"{name}/torque", name, value=0.0)
        if name in free
        else JointTorque(f"{name}/torque", name, std=std)
        for name in _own_joints(robot, exclude)
    ]


def zero_external_wrench_except(
    robot: KinematicTree,
    touched: Sequence[str] = (),
    *,
    std: float | Sequence[float] | None = None,
) -> list[ExternalWrench]:
    """One sensor ``BODY/no_contact`` per body that holds none of the frames ``touched``."""
    for name in touched:
        if name not in robot.frames:
            hint = nearest_name(name, tuple(robot.frames))
            raise LayoutError(f"robot {robot.name!r} has no body or frame {name!r}{hint}")
    bodies = {robot.frame(name).body for name in touched}
    return [
        ExternalWrench(f"{name}/no_contact", name, value=0.0, std=std)
        for i, name in enumerate(robot.body_names)
        if i not in bodies
    ]
