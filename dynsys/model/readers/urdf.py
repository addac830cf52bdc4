"""URDF reader: a robot description file to a KinematicTree. No mesh is ever opened.

Reads links (inertial), joints (revolute, continuous, prismatic, planar, floating, fixed),
limits, dynamics (damping, friction; armature where a file gives it) and mimic. The XML layer
and the reason for it are in :mod:`dynsys.model.readers.xml_input`.

Fixed joints are folded: the child's inertia goes to the body that carries it, and its frame
stays in ``robot.frames`` under the link's name and, where no link has that name, under the
fixed joint's. Links welded to a fixed base sit on body -1 and their inertia is dropped. A
joint without <limit> is unlimited; a link without <inertial> is massless.
Joints are numbered depth first, children in the order of their joints' names, as Pinocchio
and urdfdom number them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError, nearest_name
from dynsys.model.joints import AbstractJoint, Free, Planar, Prismatic, Revolute
from dynsys.model.readers.assembly import Assembly, MimicPolicy, ReadOptions, compose, listing
from dynsys.model.readers.xml_input import Node
from dynsys.model.spatial import Inertia, Transform, rotation_from_rpy
from dynsys.model.tree import STANDARD_GRAVITY, Body, Coupling, Frame, KinematicTree

__all__ = ["urdf_from_node"]

ROOT_JOINT = "root"


def urdf_from_node(root: Node, options: ReadOptions) -> tuple[KinematicTree, list[str]]:
    """Return the tree of a parsed ``<robot>`` and the warnings it deserves."""
    links, joints = read_links(root), read_joints(root)
    base = _root_link(root, links, joints)
    name = root.attributes.get("name", "").strip() or Path(root.file).stem
    assembly = Assembly(name, root.file)
    _note_unread(root, assembly)
    _assemble(assembly, base, links, joints, options.floating_base)
    _follow(assembly, joints, options.mimic)
    gravity = STANDARD_GRAVITY if options.gravity is None else options.gravity
    tree = assembly.finish(gravity, options.inertia)
    return tree, assembly.notes


# ---- topology --------------------------------------------------------------------------------


def _root_link(root: Node, links: dict[str, Inertia], joints: dict[str, Joint]) -> str:
    carried: dict[str, str] = {}
    for joint in joints.values():
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                hint = nearest_name(link, tuple(links))
                raise joint.node.error(f"its {role} link {link!r} does not exist{hint}")
        if joint.child in carried:
            raise joint.node.error(
                f"link {joint.child!r} is already the child of joint {carried[joint.child]!r}:"
                " a loop; cut it by removing one of the joints"
            )
        carried[joint.child] = joint.name
    roots = [link for link in links if link not in carried]
    if not roots:
        raise root.error("every link is the child of a joint: a loop; cut one of its joints")
    if len(roots) > 1:
        raise root.error(
            f"{len(roots)} root links ({listing(roots)}); join them by joints into one tree"
        )
    return roots[0]


def _assemble(
    assembly: Assembly,
    base: str,
    links: dict[str, Inertia],
    joints: dict[str, Joint],
    floating_base: bool,
) -> None:
    """Add bodies and frames depth first, children in the order of their joints' names."""
    carried_by: dict[str, list[Joint]] = {}
    for name in sorted(joints, reverse=True):
        carried_by.setdefault(joints[name].parent, []).append(joints[name])

    place: dict[str, Frame] = {base: Frame(-1, Transform.identity())}
    if floating_base:
        root = Body(base, -1, Free(), inertia=links[base], joint_name=ROOT_JOINT)
        place[base] = Frame(assembly.add(root), Transform.identity())
    else:
        assembly.weld(-1, base, Transform.identity(), links[base])
    waiting = list(carried_by.get(base, ()))
    while waiting:
        joint = waiting.pop()
        parent = place[joint.parent]
        placement = compose(parent.transform, joint.placement)
        if joint.is_fixed:
            place[joint.child] = assembly.fold(
                joint.child, joint.name, joint.parent, parent, placement, links[joint.child]
            )
            if joint.name not in links:
                assembly.frames[joint.name] = place[joint.child]
        else:
            body = joint_body(joint, parent.body, placement, links[joint.child])
            place[joint.child] = Frame(assembly.add(body), Transform.identity())
            assembly.hang(place[joint.child].body, joint.parent)
        waiting.extend(carried_by.get(joint.child, ()))
    lost = [link for link in links if link not in place]
    if lost:
        raise ModelError(
            f"{assembly.source}: links {listing(lost)} form a loop that the root link"
            f" {base!r} does not reach; cut one of their joints"
        )


# ---- what needs a word -----------------------------------------------------------------------


def _follow(assembly: Assembly, joints: dict[str, Joint], mimic: MimicPolicy) -> None:
    number = {body.joint_name: i for i, body in enumerate(assembly.bodies)}
    followers = {
        number[joint.name]: joint.mimic
        for joint in joints.values()
        if joint.mimic is not None and not joint.is_fixed
    }
    if mimic == "independent":
        if followers:
            names = [assembly.bodies[i].joint_name for i in sorted(followers)]
            assembly.note(
                f"mimic joints {listing(names)} are read as independent joints;"
                " load with mimic='couple' to make them follow their leaders"
            )
        return
    couplings: dict[int, Coupling] = {}
    for i, (leader, ratio, offset) in followers.items():
        if leader not in number:
            kind = "is fixed" if leader in joints else "does not exist"
            raise joints[assembly.bodies[i].joint_name].node.error(
                f"it mimics joint {leader!r}, which {kind}; name a moving joint, or load"
                " with mimic='independent'"
            )
        couplings[i] = Coupling(number[leader], ratio, offset)
    assembly.couple(couplings)


def _note_unread(root: Node, assembly: Assembly) -> None:
    if is_xacro(root) and any(node.tag.startswith("xacro:") for node in root.children):
        raise root.error("the file still holds xacro macros; expand it with xacro first")
    strange = [n.tag for n in root.children if n.tag.endswith("joint") and n.tag != "joint"]
    if strange:
        assembly.note(f"elements {listing(sorted(set(strange)))} are not read")
    rotors = [
        actuated.attributes.get("name", "?")
        for transmission in root.all("transmission")
        for actuated in transmission.all("joint")
        if any("rotor_inertia" in node.tag.lower() for node in transmission.walk())
    ]
    if rotors:
        assembly.note(
            f"rotor inertias in the transmissions of joints {listing(rotors)} are not read;"
            " add them with robot.with_armature"
        )


# ---- elements: <link> with <inertial>, and <joint> -----------------------------------------

MOVING_TYPES = ("revolute", "continuous", "prismatic", "planar", "floating")


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
    mimic: tuple[str, float, float] | None  # leader, ratio, offset

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


def _mimic(joint: Node) -> tuple[str, float, float] | None:
    """Rule (leader, ratio, offset) of a <mimic>: position = ratio * (leader's) + offset."""
    node = joint.optional("mimic")
    if node is None:
        return None
    return node.attribute("joint"), node.number("multiplier", 1.0), node.number("offset", 0.0)


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
    stated: dict[str, Any] = {}
    if limits is not None and joint.type not in ("planar", "floating"):
        for key in ("effort", "velocity"):
            stated[f"{key}_limit"] = limits.number(key, np.inf, infinite=True)
        if joint.type != "continuous":
            lower, upper = (limits.number(k, 0.0, infinite=True) for k in ("lower", "upper"))
            if lower > upper:
                raise limits.error(
                    f"joint {joint.name!r}: lower limit {lower:g} above upper {upper:g}"
                )
            stated |= {"lower": lower, "upper": upper}
    if dynamics is not None:
        for key in ("damping", "friction", "armature"):
            stated[key] = dynamics.number(key, 0.0)
    model = _joint_model(joint)
    return Body(joint.child, parent, model, placement, inertia, joint.name, **stated)
