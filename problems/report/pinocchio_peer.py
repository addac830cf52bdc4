"""The same robot as a Pinocchio model, built from the tree, for numbers beside ours."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from dynsys.interop import PinocchioMap
from dynsys.model.joints import Free, Helical, Prismatic, Revolute, Spherical
from dynsys.model.tree import Body, KinematicTree

__all__ = ["pinocchio_model"]


def pinocchio_model(robot: KinematicTree) -> tuple[Any, Any, PinocchioMap] | None:
    """Module, model and map of vectors; None where not installed or a joint has no twin."""
    try:
        pin = import_module("pinocchio")
    except ImportError:
        return None
    model = pin.Model()
    model.gravity.linear = np.asarray(robot.gravity)
    numbers: list[int] = []
    for name, body in zip(robot.joint_names, robot.bodies, strict=True):
        joint = _joint(pin, body)
        if joint is None:
            return None
        parent = 0 if body.parent < 0 else numbers[body.parent]
        number = model.addJoint(parent, joint, _placement(pin, body), name)
        numbers.append(number)
        inertia = body.inertia
        model.appendBodyToJoint(
            number,
            pin.Inertia(
                float(inertia.mass), np.array(inertia.com), np.array(inertia.about_com)
            ),
            pin.SE3.Identity(),
        )
        if body.armature is not None:
            first = model.joints[number].idx_v
            model.armature[first : first + body.joint.nv] = np.asarray(body.armature)
    return pin, model, PinocchioMap(robot, model)


def _placement(pin: Any, body: Body) -> Any:
    E, r = np.asarray(body.placement.E), np.asarray(body.placement.r)
    return pin.SE3(np.array(E.T, dtype=np.float64), np.array(r, dtype=np.float64))


def _joint(pin: Any, body: Body) -> Any:
    """Joint of the same kind and axis; None if there is none."""
    joint = body.joint
    if body.coupling is not None:
        return None
    if isinstance(joint, Free):
        return pin.JointModelFreeFlyer()
    if isinstance(joint, Spherical):
        return pin.JointModelSpherical()
    if isinstance(joint, Helical):
        return pin.JointModelHelicalUnaligned(np.array(joint.axis), joint.pitch)
    if not isinstance(joint, (Revolute, Prismatic)):
        return None
    kind, axis = joint.kind, np.array(joint.axis)
    letters = {(1.0, 0.0, 0.0): "X", (0.0, 1.0, 0.0): "Y", (0.0, 0.0, 1.0): "Z"}
    letter = letters.get((float(axis[0]), float(axis[1]), float(axis[2])))
    short = "R" if kind == "revolute" else "P"
    if letter is not None:
        return getattr(pin, f"JointModel{short}{letter}")()
    return getattr(pin, f"JointModel{kind.capitalize()}Unaligned")(axis)
