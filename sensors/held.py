"""Constraints of dynamics (loops, contacts) as exact statements of a layout.

    NAME/motion     held components of the acceleration of ``frame`` against ``other`` are zero
    NAME/free       no wrench along the components that are not held
    NAME/reaction   ``other`` feels the opposite wrench

The wrench acts on a contact of the constraint's name, with a second one, NAME/other, on what
holds it, if that has a place: further unknowns beside the external wrenches of the two bodies.
So an estimate has it as ``external_wrench["NAME"]``, on ``frame``, in the axes of ``frame``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from dynsys.errors import LayoutError, ModelError, nearest_name
from dynsys.model.constraints import (
    MOTIONS,
    WRENCHES,
    Axes,
    Constraint,
    FrameConstraint,
    JointConstraint,
    checked_constraints,
)
from dynsys.model.contacts import Contact, is_contact
from dynsys.model.spatial import Transform, rpy_of
from dynsys.model.tree import KinematicTree
from sensors.constraints import AXES_OF, ActionReaction, LoopClosure
from sensors.external import ExternalWrench
from sensors.mounting import offset
from sensors.parameters import (
    FrameName,
    JointName,
    MotionComponents,
    Name,
    Number,
    Parameter,
    Values,
    Vector3,
    choice,
    of,
    sensor_name,
)
from sensors.sensor import AbstractSensor
from sensors.yaml_input import Item

if TYPE_CHECKING:
    from sensors.layout import Layout

__all__ = ["closes", "constraints_schema", "held_by", "is_far_end", "read_constraints"]

MOTION, FAR_END = "motion", "/other"
AXES_OF_LOOPS = {dynamics: loop for loop, dynamics in AXES_OF.items()}


def held_by(
    layout: Layout, constraints: Sequence[Constraint]
) -> tuple[KinematicTree, list[AbstractSensor]]:
    """The layout's robot with contacts of the constraints, and the statements about them.

    Raises
    ------
    LayoutError
        naming the constraint that an estimate cannot have, and the way out.
    """
    robot, statements = layout.robot, list[AbstractSensor]()
    try:
        for held in checked_constraints(robot, constraints):
            if sensor_name(held.name, MOTION) in layout.names:
                continue  # held already
            if isinstance(held, JointConstraint):
                raise LayoutError(_about_joints(held))
            other = f"{held.name}{FAR_END}" if held.is_placed else ""
            robot = robot.with_contacts(_contacts(held, other))
            statements += _statements(held, other)
    except ModelError as error:
        raise LayoutError(str(error)) from None
    return robot, statements


def is_far_end(robot: KinematicTree, i: int) -> bool:
    """Tell whether body i is the second contact of a constraint, with the opposite wrench."""
    name = robot.body_names[i]
    first = name.removesuffix(FAR_END)
    if first == name or first not in robot.body_names or not is_contact(robot, i):
        return False
    return is_contact(robot, robot.body_index(first))


def closes(held: LoopClosure) -> bool:
    """Tell whether a loop says where its frames meet: not if made of what is held anywhere."""
    return held.frame_a != -1 or held.name != sensor_name(str(held.frame_b), MOTION)


def _about_joints(held: JointConstraint) -> str:
    tied = f"joint {held.joint!r}" + (f" to {held.leader!r}" if held.leader else " to a place")
    way_out = (
        "load the robot with mimic='couple' (mimic: couple), which makes them one freedom"
        if held.leader
        else "lock it (lock: in a problem file)"
    )
    return (
        f"constraint {held.name!r} ties {tied}: what its force gives to a torque no sensor can"
        f" tell from the drive; {way_out}, or leave the constraint out"
    )


def _holder(held: FrameConstraint) -> str | int:
    return -1 if held.other is None else held.other


def _contact(name: str, frame: str | int, placement: Transform | None) -> Contact:
    at = placement or Transform.identity()
    return Contact(name, frame, tuple(map(float, at.r)), rpy_of(np.asarray(at.E)))


def _contacts(held: FrameConstraint, other: str) -> list[Contact]:
    found = [_contact(held.name, held.frame, held.placement)]
    if other:
        found.append(_contact(other, _holder(held), held.other_placement))
    return found


def _statements(held: FrameConstraint, other: str) -> list[AbstractSensor]:
    name = held.name
    axes = "world" if not other and held.axes == "other" else held.axes
    free = [WRENCHES[k] for k in range(len(MOTIONS)) if k not in held.held]
    found: list[AbstractSensor] = [
        LoopClosure(
            sensor_name(name, MOTION), other or -1, name, held.components, AXES_OF_LOOPS[axes]
        )
    ]
    if free:
        told_in = other if axes == "other" else axes
        label = sensor_name(name, "free")
        found.append(ExternalWrench(label, name, free, value=0.0, axes=told_in))
    if other:
        found.append(ActionReaction(sensor_name(name, "reaction"), name, other))
    return found


# ---- in files ------------------------------------------------------------------------------
#
# constraints: file          # those of the robot's file, or
# constraints:
#   - {name: sole, frame: l_foot, components: [z], axes: world, xyz: [0, 0, -0.03]}
#   - {name: pin, frame: coupler, other: rocker, components: [x, y, z], other_xyz: [0, 0, 0.6]}
#   - {name: fingers, joint: finger_2, leader: finger_1, coefficients: [0, 1]}

_PLACES = ("xyz", "rpy"), ("other_xyz", "other_rpy")
_OF_FRAMES: Mapping[str, Parameter] = {
    "name": of(Name),
    "frame": of(FrameName),
    "other": of(FrameName),
    "components": of(MotionComponents),
    "axes": choice(*get_args(Axes)),
    **dict.fromkeys([key for pair in _PLACES for key in pair], of(Vector3)),
}
_OF_JOINTS: Mapping[str, Parameter] = {
    "name": of(Name),
    "joint": of(JointName),
    "leader": of(JointName),
    "coefficients": of(Values),
    "start": of(Number),
}


def read_constraints(item: Item, robot: KinematicTree) -> tuple[Constraint, ...]:
    """Constraints as a file has them, checked against the robot.

    Raises
    ------
    LayoutError
        naming file, line and what is wrong.
    """
    if item.value == "file":
        return robot.constraints
    found: list[Constraint] = []
    for entry in item.listed("constraints (file, or each of them)"):
        given = entry.mapping("a constraint")
        known = _OF_JOINTS if "joint" in given else _OF_FRAMES
        for needed in ("name", "joint" if "joint" in given else "frame"):
            if needed not in given:
                raise entry.error(f"a constraint needs {needed!r}; add it")
        arguments: dict[str, Any] = {}
        for key, value in given.items():
            if key not in known:
                hint = nearest_name(key, tuple(known))
                raise value.error(
                    f"unknown key {key!r} of a constraint; use {', '.join(known)}{hint}"
                )
            try:
                arguments[key] = known[key].check(value.plain())
                known[key].check_names(arguments[key], robot)
            except (TypeError, ValueError) as error:
                raise value.error(f"{key}: {error}") from None
        try:
            found.append(_constraint(arguments))
            checked_constraints(robot, found)
        except ModelError as error:
            raise entry.error(str(error)) from None
    return tuple(found)


def _constraint(given: dict[str, Any]) -> Constraint:
    if "joint" in given:
        if isinstance(given.get("coefficients"), float):
            given["coefficients"] = (given["coefficients"],)
        return JointConstraint(**given)
    for key, (xyz, rpy) in zip(("placement", "other_placement"), _PLACES, strict=True):
        place = given.pop(xyz, None), given.pop(rpy, None)
        if place != (None, None):
            zero = (0.0, 0.0, 0.0)
            given[key] = offset(*(zero if part is None else part for part in place))
    return FrameConstraint(**given)


def constraints_schema(robot: KinematicTree | None = None) -> dict[str, Any]:
    """JSON schema of the section ``constraints`` of a problem file."""
    each = [
        {
            "type": "object",
            "properties": {key: kind.schema_for(robot) for key, kind in known.items()},
            "required": ["name", owner],
            "additionalProperties": False,
        }
        for owner, known in (("frame", _OF_FRAMES), ("joint", _OF_JOINTS))
    ]
    return {"anyOf": [{"const": "file"}, {"type": "array", "items": {"anyOf": each}}]}
