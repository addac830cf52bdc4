"""The elements of a URDF file that matter here: <link> with <inertial>, and <joint>."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.model.checks import nearest_name
from dynsys.model.joints import AbstractJoint, Free, Planar, Prismatic, Revolute
from dynsys.model.spatial import Inertia, Transform, rotation_from_rpy
from dynsys.model.tree import Body
from dynsys.model.xml_input import Node

__all__ = ["Joint", "Mimic", "is_xacro", "joint_body", "read_joints", "read_links"]

MOVING_TYPES = ("revolute", "continuous", "prismatic", "planar", "floating")


@final
@dataclass(frozen=True, eq=False)
class Mimic:
    """Rule of a <mimic>: position = ratio * (position of joint ``leader``) + offset."""

    leader: str
    ratio: float
    offset: float


@final
@dataclass(frozen=True, eq=False)
class Joint:
    """One <joint>: ``placement`` goes from the parent link to the joint's frame."""

    node: Node
    name: str
    type: str
    parent: str
    child: str
    placement: Transform
    mimic: Mimic | None

    @property
    def is_fixed(self) -> bool:
        return self.type == "fixed"


def read_links(root: Node) -> dict[str, Inertia]:
    """Inertia of every link, in link coordinates, by name."""
    links: dict[str, Inertia] = {}
    for node in root.all("link"):
        name = node.attribute("name")
        if name in links:
            raise node.error("link name is used twice; rename one of them")
        links[name] = _inertia(node.optional("inertial"))
    if not links:
        hint = "; expand the xacro file that instantiates it" if is_xacro(root) else ""
        raise root.error(f"the robot has no link{hint}")
    return links


def is_xacro(root: Node) -> bool:
    """Tell whether the file comes from, or still is, a xacro file."""
    return "xmlns:xacro" in root.attributes or any(
        node.tag.startswith("xacro:") for node in root.children
    )


def _inertia(inertial: Node | None) -> Inertia:
    if inertial is None:
        return Inertia.zero()
    mass = inertial.required("mass")
    if mass.number("value") < 0:
        raise mass.error(f"negative mass {mass.number('value'):g} kg; correct it")
    moments = inertial.required("inertia")
    xx, yy, zz, xy, xz, yz = (
        moments.number(key, 0.0 if key in ("ixy", "ixz", "iyz") else None)
        for key in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    )
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertia(mass.number("value"), np.zeros(3), about).seen_from(_origin(inertial))


def _origin(node: Node) -> Transform:
    origin = node.optional("origin")
    if origin is None:
        return Transform.identity()
    zero = (0.0, 0.0, 0.0)
    E = rotation_from_rpy(origin.numbers("rpy", zero))
    return Transform(E, origin.numbers("xyz", zero))


def read_joints(root: Node) -> dict[str, Joint]:
    """Joints by name, their links not yet checked."""
    joints: dict[str, Joint] = {}
    for node in root.all("joint"):
        name, kind = node.attribute("name"), node.attribute("type")
        if name in joints:
            raise node.error("joint name is used twice; rename one of them")
        known = (*MOVING_TYPES, "fixed")
        if kind not in known:
            hint = nearest_name(kind, known)
            raise node.error(f"unknown joint type {kind!r}; use {', '.join(known)}{hint}")
        parent = node.required("parent").attribute("link")
        child = node.required("child").attribute("link")
        joints[name] = Joint(node, name, kind, parent, child, _origin(node), _mimic(node))
    return joints


def _mimic(joint: Node) -> Mimic | None:
    node = joint.optional("mimic")
    if node is None:
        return None
    return Mimic(
        node.attribute("joint"), node.number("multiplier", 1.0), node.number("offset", 0.0)
    )


def _joint_model(joint: Joint) -> AbstractJoint:
    axis_node = joint.node.optional("axis")
    axis = np.array([1.0, 0.0, 0.0])
    if axis_node is not None:
        axis = axis_node.numbers("xyz", (1.0, 0.0, 0.0))
        if not axis.any() and joint.type != "floating":
            raise axis_node.error(f"the axis of joint {joint.name!r} has no direction")
    if joint.type == "floating":
        return Free()
    if joint.type == "planar":
        return Planar(axis)
    return Prismatic(axis) if joint.type == "prismatic" else Revolute(axis)


def joint_body(joint: Joint, parent: int, placement: Transform, inertia: Inertia) -> Body:
    """Return the body a moving joint carries, with its limits and joint dynamics."""
    limits = joint.node.optional("limit")
    dynamics = joint.node.optional("dynamics")
    lower = upper = effort = velocity = damping = friction = armature = None
    if limits is not None and joint.type not in ("planar", "floating"):
        effort = limits.number("effort", np.inf, infinite=True)
        velocity = limits.number("velocity", np.inf, infinite=True)
        if joint.type != "continuous":
            lower = limits.number("lower", 0.0, infinite=True)
            upper = limits.number("upper", 0.0, infinite=True)
            if lower > upper:
                raise limits.error(
                    f"joint {joint.name!r}: lower limit {lower:g} above upper {upper:g}"
                )
    if dynamics is not None:
        damping, friction, armature = (
            dynamics.number(key, 0.0) for key in ("damping", "friction", "armature")
        )
    return Body(
        name=joint.child,
        parent=parent,
        joint=_joint_model(joint),
        placement=placement,
        inertia=inertia,
        joint_name=joint.name,
        armature=armature,
        damping=damping,
        friction=friction,
        effort_limit=effort,
        velocity_limit=velocity,
        lower=lower,
        upper=upper,
    )
