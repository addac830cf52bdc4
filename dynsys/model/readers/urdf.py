"""URDF reader: a robot description file to a KinematicTree. No mesh is ever opened.

Reads links (inertial), joints (revolute, continuous, prismatic, planar, floating, fixed; also
Bullet's spherical and Drake's ball), limits, dynamics (damping, friction; armature where a file
gives it) and mimic. The XML layer and the reason for it are in
:mod:`dynsys.model.readers.xml_input`.

Fixed joints are folded: the child's inertia goes to the body that carries it, and its frame
stays in ``robot.frames`` under the link's name and, where no link has that name, under the
fixed joint's. Links welded to a fixed base sit on body -1 and their inertia is dropped. A
joint without <limit>, or whose lower limit is not below the upper one, is unlimited; a link
without <inertial> is massless.
Joints are numbered depth first, children in the order of their joints' names, as Pinocchio
and urdfdom number them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError, nearest_name
from dynsys.model.constraints import MOTIONS
from dynsys.model.joints import AbstractJoint, Free, Planar, Prismatic, Revolute, Spherical
from dynsys.model.readers.assembly import Assembly, ReadOptions, followers_of, listing
from dynsys.model.readers.xml_input import Node
from dynsys.model.spatial import (
    Inertia,
    Transform,
    compose,
    quaternion_to_rotation,
    rotation_from_rpy,
    without_rounding,
)
from dynsys.model.tree import STANDARD_GRAVITY, Body, Coupling, Frame, KinematicTree
from dynsys.types import Array

__all__ = ["origin_of", "urdf_from_node"]

ROOT_JOINT = "root"


def urdf_from_node(root: Node, options: ReadOptions) -> tuple[KinematicTree, list[str]]:
    """Return the tree of a parsed ``<robot>`` and the warnings it deserves."""
    check_expanded(root)
    name = root.attributes.get("name", "").strip() or Path(root.file).stem
    assembly = Assembly(name, root.file)
    links, joints = read_links(root, assembly), read_joints(root)
    base = _root_link(root, links, joints)
    _note_unread(root, assembly)
    place = _assemble(assembly, base, links, joints, options.floating_base)
    _read_shapes(root, assembly, place)
    _close_loops(root, assembly, place)
    _follow(assembly, joints, options)
    gravity = STANDARD_GRAVITY if options.gravity is None else options.gravity
    tree = assembly.finish(gravity, options.inertia, options.friction)
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
) -> dict[str, Frame]:
    """Add bodies and frames depth first, children in the order of their joints' names.

    Returns where every link is.
    """
    carried_by: dict[str, list[Joint]] = {}
    for name in sorted(joints, reverse=True):
        carried_by.setdefault(joints[name].parent, []).append(joints[name])

    place: dict[str, Frame] = {base: Frame(-1, Transform.identity())}
    if floating_base and not _floats(base, carried_by):
        if ROOT_JOINT in joints:
            raise joints[ROOT_JOINT].node.error(
                "floating_base=True adds a joint of that name; rename this one"
            )
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
            body = joint_body(joint, parent.body, placement, links[joint.child], assembly)
            place[joint.child] = Frame(assembly.add(body), Transform.identity())
            assembly.hang(place[joint.child].body, joint.parent)
        waiting.extend(carried_by.get(joint.child, ()))
    lost = [link for link in links if link not in place]
    if lost:
        raise ModelError(
            f"{assembly.source}: links {listing(lost)} form a loop that the root link"
            f" {base!r} does not reach; cut one of their joints"
        )
    return place


def _read_shapes(root: Node, assembly: Assembly, place: dict[str, Frame]) -> None:
    """Primitive shapes of <collision>, and the names of others; what is odd is left out."""
    for link in root.all("link"):
        name = link.attribute("name")
        for node in link.all("collision"):
            try:
                geometry = node.required("geometry")
                here, called = origin_of(node), node.attributes.get("name", "")
                for shape in geometry.children:
                    size: tuple[float, ...] = ()
                    if shape.tag == "box":
                        size = tuple(0.5 * shape.numbers("size", (0.0, 0.0, 0.0)))
                    elif shape.tag == "sphere":
                        size = (shape.number("radius"),)
                    elif shape.tag in ("cylinder", "capsule"):
                        size = (shape.number("radius"), 0.5 * shape.number("length"))
                    assembly.touch(name, called, shape.tag, place[name], here, *size)
            except ModelError:
                what = "collision shapes that cannot be understood are left out, of links"
                assembly.doubt(what, name)


# ---- loops: <loop_joint> of Isaac Sim and older Drakes, <drake:ball_constraint> --------------

HELD: dict[str, tuple[str, ...]] = {
    "fixed": MOTIONS,
    "revolute": ("rx", "ry", "x", "y", "z"),
    "continuous": ("rx", "ry", "x", "y", "z"),
    "prismatic": ("rx", "ry", "rz", "x", "y"),
    "planar": ("rx", "ry", "z"),
    "spherical": ("x", "y", "z"),
    "ball": ("x", "y", "z"),
}
"""What a joint that closes a loop holds, its axis or normal along z."""
LOOPS = ("loop_joint", "drake:loop_joint")
BALL = "drake:ball_constraint"


def _close_loops(root: Node, assembly: Assembly, place: dict[str, Frame]) -> None:
    """Constraints of the joints that close loops."""

    def frame(node: Node, link: str, at: Transform) -> Frame:
        if link not in place:
            hint = nearest_name(link, tuple(place))
            raise node.error(f"link {link!r} does not exist{hint}")
        return Frame(place[link].body, compose(place[link].transform, at), link)

    for node in (child for child in root.children if child.tag in LOOPS):
        name, kind = node.attribute("name"), node.attribute("type")
        ends = [child for child in node.children if child.tag in ("link1", "link2")]
        if kind not in HELD or len(ends) != 2:
            raise node.error(
                f"a joint that closes a loop is one of {', '.join(HELD)} between <link1> and"
                f" <link2>, each with link, xyz and rpy; got type {kind!r}, {len(ends)} links"
            )
        axis = node.optional("axis")
        x = 1.0, 0.0, 0.0
        along = np.array(x) if axis is None else axis.numbers("xyz", x)
        turned = Transform(_along_z(node, along), np.zeros(3))
        own, other = (
            frame(end, end.attribute("link"), compose(_pose(end), turned)) for end in ends
        )
        assembly.hold(name, own, other, HELD[kind])
    for k, node in enumerate(root.all(BALL)):
        zero = 0.0, 0.0, 0.0
        bodies = [node.required(f"{BALL}_body_{x}").attribute("name") for x in "AB"]
        points = [node.required(f"{BALL}_{p}").numbers("value", zero) for p in ("p_AP", "p_BQ")]
        own, other = (
            frame(node, link, Transform(np.eye(3), at))
            for link, at in zip(bodies, points, strict=True)
        )
        assembly.hold(f"ball constraint {k}", own, other, HELD["ball"])


def _along_z(node: Node, axis: Array) -> Array:
    """Rotation E (3, 3) of a frame whose z lies along an axis."""
    if not axis.any():
        raise node.error("the axis has no direction")
    z = axis / np.linalg.norm(axis)
    x = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = x - z * float(z @ x)
    x = x / np.linalg.norm(x)
    return without_rounding(np.array([x, np.cross(z, x), z]))


def _floats(base: str, carried_by: dict[str, list[Joint]]) -> bool:
    """Tell whether all that moves on the root link, or on what is welded to it, floats."""
    found: list[Joint] = []
    waiting = [base]
    while waiting:
        joints = carried_by.get(waiting.pop(), ())
        waiting.extend(joint.child for joint in joints if joint.is_fixed)
        found.extend(joint for joint in joints if not joint.is_fixed)
    return bool(found) and all(joint.type == "floating" for joint in found)


# ---- what needs a word -----------------------------------------------------------------------


def _follow(assembly: Assembly, joints: dict[str, Joint], options: ReadOptions) -> None:
    number = {body.joint_name: i for i, body in enumerate(assembly.bodies)}
    followers = {
        number[joint.name]: joint.mimic
        for joint in joints.values()
        if joint.mimic is not None and not joint.is_fixed
    }
    if options.mimic == "independent":
        name = {i: assembly.bodies[i].joint_name for i in followers}
        held = followers_of(options.lock, {name[i]: rule[0] for i, rule in followers.items()})
        if free := [name[i] for i in sorted(followers) if name[i] not in held]:
            assembly.note(
                f"mimic joints {listing(free)} are read as independent joints; load with"
                " mimic='couple' (mimic: couple in a problem file) to make them follow"
            )
        followers = {i: rule for i, rule in followers.items() if name[i] in held}
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
    left = [node.tag for node in root.children if node.tag.startswith("xacro:")]
    if left:
        assembly.note(f"the definitions {listing(sorted(set(left)))} of xacro are not read")
    read = (*JOINTS, *LOOPS)
    strange = [n.tag for n in root.children if n.tag.endswith("joint") and n.tag not in read]
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
    for part, node in _of_gazebo(root):
        value = node.text.lower()
        if value in GRAVITY_OFF.get(node.tag, ()):
            assembly.doubt("gravity acts on all links, though <gazebo> has it off, of", part)
        if node.tag in GAZEBO_FORCES and not is_zero(value):
            assembly.doubt(f"<{node.tag}> of <gazebo> is no part of the model, of", part)


GRAVITY_OFF = {"turnGravityOff": ("true", "1"), "gravity": ("false", "0")}
GAZEBO_FORCES = ("springStiffness", "dampingFactor")
"""Elements of <gazebo> that change the forces on a robot."""


def _of_gazebo(root: Node) -> Iterator[tuple[str, Node]]:
    """Elements for Gazebo, each with the link or joint that it is about."""
    for gazebo in root.all("gazebo"):
        for node in gazebo.children:
            yield gazebo.attributes.get("reference", "?"), node


def is_zero(text: str) -> bool:
    """Tell whether a text is the number 0."""
    try:
        return float(text) == 0
    except ValueError:
        return False


# ---- what xacro left behind ------------------------------------------------------------------

XACRO_DEFINITIONS = ("xacro:arg", "xacro:macro", "xacro:property")
"""Elements that add nothing to a robot by themselves."""

UNREAD = ("visual", "collision", "material", *XACRO_DEFINITIONS)


def check_expanded(root: Node) -> None:
    """Raise ModelError at the first element of the robot that xacro has yet to expand."""
    parts = [node for node in root.children if node.tag in ("link", *JOINTS)]
    calls = [node for node in root.children if node.tag.startswith("xacro:")]
    for node in calls:
        if node.tag not in XACRO_DEFINITIONS:
            raise _unexpanded(node, f"the file still holds xacro macros (<{node.tag}>)")
    for part in parts:
        waiting = [part]
        while waiting:
            node = waiting.pop()
            if node.tag.startswith("xacro:"):
                raise _unexpanded(part, f"it still holds a xacro macro (<{node.tag}>)")
            for key, value in node.attributes.items():
                if "${" in value or "$(" in value:
                    raise _unexpanded(node, f"{key}={value!r} is an expression of xacro")
            waiting.extend(child for child in node.children if child.tag not in UNREAD)


def _unexpanded(node: Node, reason: str) -> ModelError:
    return node.error(f"{reason}; expand the file first: xacro {node.file} > robot.urdf")


# ---- elements: <link> with <inertial>, and <joint> -----------------------------------------

JOINTS = ("joint", "drake:joint")
MOVING_TYPES = ("revolute", "continuous", "prismatic", "planar", "floating")
BALL_TYPES = ("spherical", "ball")
LARGEST = np.finfo(np.float64).max


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


def read_links(root: Node, assembly: Assembly) -> dict[str, Inertia]:
    """Inertia of every link, in link coordinates, by name."""
    links: dict[str, Inertia] = {}
    for node in root.all("link"):
        name = node.attribute("name")
        if name in links:
            raise node.error("link name is used twice; rename one of them")
        inertial = node.optional("inertial")
        links[name] = Inertia.zero() if inertial is None else _inertia(inertial, name, assembly)
    if not links:
        hint = "; expand the xacro file that instantiates it" if is_xacro(root) else ""
        raise root.error(f"the robot has no link{hint}")
    return links


def is_xacro(root: Node) -> bool:
    """Tell whether the file comes from, or still is, a xacro file."""
    return "xmlns:xacro" in root.attributes or any(
        node.tag.startswith("xacro:") for node in root.children
    )


def _inertia(inertial: Node, link: str, assembly: Assembly) -> Inertia:
    mass = inertial.required("mass")
    if mass.number("value") < 0:
        raise mass.error(f"negative mass {mass.number('value'):g} kg; correct it")
    moments = inertial.required("inertia")
    missing = [key for key in ("ixy", "ixz", "iyz") if key not in moments.attributes]
    if missing:
        assembly.doubt("products of inertia that are not given are read as 0, of links", link)
    xx, yy, zz = (moments.number(key) for key in ("ixx", "iyy", "izz"))
    xy, xz, yz = (moments.number(key, 0.0) for key in ("ixy", "ixz", "iyz"))
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return Inertia(mass.number("value"), np.zeros(3), about).seen_from(origin_of(inertial))


def origin_of(node: Node) -> Transform:
    """Pose that the <origin> of an element gives; none is the identity."""
    origin = node.optional("origin")
    return Transform.identity() if origin is None else _pose(origin)


def _pose(origin: Node) -> Transform:
    """Pose that attributes xyz and rpy (or quat_xyzw) give."""
    zero = (0.0, 0.0, 0.0)
    position = origin.numbers("xyz", zero)
    if "quat_xyzw" not in origin.attributes:
        return Transform(rotation_from_rpy(origin.numbers("rpy", zero)), position)
    quaternion = origin.numbers("quat_xyzw", (0.0, 0.0, 0.0, 1.0))  # URDF 1.1
    norm = float(np.linalg.norm(quaternion))
    if "rpy" in origin.attributes or norm == 0:
        raise origin.error("give rpy or quat_xyzw, not both, and a quaternion that is not zero")
    E = np.asarray(quaternion_to_rotation(quaternion / norm), dtype=np.float64)
    return Transform(without_rounding(E), position)


def read_joints(root: Node) -> dict[str, Joint]:
    """Joints by name, their links not yet checked."""
    joints: dict[str, Joint] = {}
    for node in (child for child in root.children if child.tag in JOINTS):
        name, kind = node.attribute("name"), node.attribute("type")
        if name in joints:
            raise node.error("joint name is used twice; rename one of them")
        known = (*MOVING_TYPES, "fixed", *BALL_TYPES)
        if kind not in known:
            hint = nearest_name(kind, known)
            raise node.error(f"unknown joint type {kind!r}; use {', '.join(known)}{hint}")
        parent = node.required("parent").attribute("link")
        child = node.required("child").attribute("link")
        joints[name] = Joint(node, name, kind, parent, child, origin_of(node), _mimic(node))
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
        if not axis.any() and joint.type not in ("floating", *BALL_TYPES):
            raise axis_node.error(f"the axis of joint {joint.name!r} has no direction")
    if joint.type == "floating":
        return Free()
    if joint.type in BALL_TYPES:
        return Spherical()
    if joint.type == "planar":
        return Planar(axis)
    return Prismatic(axis) if joint.type == "prismatic" else Revolute(axis)


def _limit(limits: Node, key: str, default: float) -> float:
    """A limit; the largest number of float64, as some write, is none."""
    value = limits.number(key, default, infinite=True)
    return float(np.copysign(np.inf, value)) if abs(value) == LARGEST else value


def joint_body(
    joint: Joint, parent: int, placement: Transform, inertia: Inertia, assembly: Assembly
) -> Body:
    """Return the body a moving joint carries, with its limits and joint dynamics.

    Limits are no part of the dynamics: those that make no sense are doubted, and not used.
    """
    limits = joint.node.optional("limit")
    dynamics = joint.node.optional("dynamics")
    stated: dict[str, Any] = {}
    if limits is not None and joint.type not in ("planar", "floating", *BALL_TYPES):
        for key in ("effort", "velocity"):
            most = _limit(limits, key, np.inf)
            if most < 0 or (key == "velocity" and most == 0):  # without effort it is passive
                what = "negative" if most < 0 else "zero"
                assembly.doubt(f"a {what} {key} limit is read as none, of joints", joint.name)
                most = np.inf
            stated[f"{key}_limit"] = most
        if joint.type != "continuous":
            lower, upper = (_limit(limits, k, 0.0) for k in ("lower", "upper"))
            if lower < upper:
                stated |= {"lower": lower, "upper": upper}
            elif lower == upper:
                what = "limits that leave no room (lower = upper; 0 where not given) are"
                assembly.doubt(f"{what} read as none (lock=... welds), of joints", joint.name)
            else:
                what = "a lower limit above the upper one is read as none, of joints"
                assembly.doubt(what, joint.name)
    if dynamics is not None:
        for key in ("damping", "friction", "armature"):
            stated[key] = dynamics.number(key, 0.0)
        for key in ("friction_minus", "offset"):  # ours, as robot.to_urdf writes them
            if key in dynamics.attributes:
                stated[key] = dynamics.number(key)
        known = ("damping", "friction", "armature", "friction_minus", "offset")
        given = {k for k, text in dynamics.attributes.items() if not is_zero(text)}
        if unread := sorted(given.difference(known)):
            what = f"{', '.join(unread)} of <dynamics> is no part of the model, of joints"
            assembly.doubt(what, joint.name)
    model = _joint_model(joint)
    return Body(joint.child, parent, model, placement, inertia, joint.name, **stated)
