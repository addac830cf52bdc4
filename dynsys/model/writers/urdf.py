"""URDF writer: a KinematicTree to a file that ``load`` reads back with the same dynamics.

Bodies become links, welds and further frames links on fixed joints, each with its own share of
the body's inertia. Numbers are written with all their digits: what comes back differs by the
rounding of a few transforms. Joints that follow others become <mimic>, friction, armature and
offset <dynamics> (``friction_minus`` and ``offset`` are attributes of dynsys, which others pass
over). Loading takes ``mimic="couple"`` and ``friction="file"`` to make them count. Joints are
numbered by their names, as for every URDF file.

URDF has no screws and cylinders, no gravity, and one value of friction per joint: what it
cannot hold is an error or, where the dynamics do not depend on it, a warning.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np

from dynsys.errors import ModelError, ModelWarning
from dynsys.model.body import Body, inertia_defect
from dynsys.model.contacts import link_of
from dynsys.model.joints import Fixed, Free, Planar, Prismatic, Revolute, Spherical
from dynsys.model.parameters import SMOOTHING, inertia_of, inertial_values
from dynsys.model.spatial import Inertia, Transform, rpy_of
from dynsys.resumable import written
from dynsys.types import Array

if TYPE_CHECKING:
    from dynsys.model.body import Shape
    from dynsys.model.readers.xml_input import PathLike
    from dynsys.model.tree import KinematicTree

__all__ = ["urdf_text", "write_urdf"]

NONE = np.finfo(np.float64).max
"""Limit that is none: other readers do not know infinity."""
ROUNDING = 1e-12
"""What differences of inertias leave of parts that are equal."""
_TYPES = {
    Revolute: "revolute",
    Prismatic: "prismatic",
    Planar: "planar",
    Free: "floating",
    Spherical: "spherical",
    Fixed: "fixed",
}


def write_urdf(robot: KinematicTree, path: PathLike) -> Path:
    """Write a robot to a URDF file, complete or not at all; return its path. See the module.

    Raises
    ------
    ModelError
        naming the joint that URDF cannot hold, or the file that cannot be written.

    Warns
    -----
    ModelWarning
        if gravity, or the speed below which dry friction fades, is not what files stand for.
    """
    text, target = urdf_text(robot), Path(path)
    with written(target, ModelError) as part:
        part.write_text(text, encoding="utf-8")
    return target


def urdf_text(robot: KinematicTree) -> str:
    """Return the content of the file of :func:`write_urdf`."""
    _note_lost(robot)
    root = ET.Element("robot", name=robot.name)
    parts = _Parts(robot)
    links = {name: ET.SubElement(root, "link", name=name) for name in parts.inertias}
    for name, inertia in parts.inertias.items():
        _add_inertial(links[name], inertia)
    for shape in robot.shapes:
        _add_shape(links[parts._body(shape.body)], shape)
    for i, body in enumerate(robot.bodies):
        node = _joint(root, robot.joint_names[i], _type(robot, i), *parts.holder(i), body.name)
        _add_motion(node, robot, i)
    for name, (joint, parent, transform) in parts.fixed.items():
        _joint(root, joint, "fixed", parent, transform, name)
    ET.indent(root, " ")
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ET.tostring(root, encoding='unicode')}\n"


def _note_lost(robot: KinematicTree) -> None:
    lost = []
    if not np.array_equal(robot.gravity, (0.0, 0.0, -9.81)):
        lost.append(f"gravity {robot.gravity.tolist()}: load with gravity=...")
    if robot.smoothing not in (None, SMOOTHING):
        lost.append(f"smoothing {robot.smoothing}: use robot.with_friction(smoothing=...)")
    if strange := sorted({s.kind for s in robot.shapes if not s.size}):
        lost.append(f"collision shapes that are files or unknown ({', '.join(strange)})")
    for what in lost:
        warnings.warn(
            f"robot {robot.name!r}: URDF does not hold its {what}", ModelWarning, stacklevel=4
        )


# ---- links: bodies, what is welded to them, frames -------------------------------------------


class _Parts:
    """Links by name with their inertia, and the fixed joints between them."""

    def __init__(self, robot: KinematicTree) -> None:
        self.robot = robot
        self.welds = {w.link: w for name, w in robot.welds.items() if name == w.joint}
        self.base = self._base()
        own = self._shares()
        self.inertias: dict[str, Inertia | None] = {self.base: None}
        self.inertias |= {body.name: own[body.name] for body in robot.bodies}
        self.fixed: dict[str, tuple[str, str, Transform]] = {}
        for link, weld in self.welds.items():
            parent, up = self._link(weld.parent, weld.body)
            self.fixed[link] = (weld.joint, parent, up.inverse().then(weld.transform))
            self.inertias[link] = own[link]
        taken = {*robot.joint_names, *(weld.joint for weld in self.welds.values())}
        for name, frame in robot.frames.items():
            if name in self.inertias or name in taken:
                continue
            joint = _free_name(f"{name}_fixed", taken)
            taken.add(joint)
            holder, up = self._link(link_of(robot, name) or "", frame.body)
            self.fixed[name] = (joint, holder, up.inverse().then(frame.transform))
            self.inertias[name] = None

    def _base(self) -> str:
        """The link that stands: the frame at the base's origin, or a name that is free."""
        for name, frame in self.robot.frames.items():
            at_origin = (
                np.array_equal(frame.transform.E, np.eye(3)) and not frame.transform.r.any()
            )
            if frame.body < 0 and at_origin and name not in self.welds:
                return name
        return _free_name("base", {*self.robot.frames, *self.welds})

    def _body(self, body: int) -> str:
        return self.base if body < 0 else self.robot.body_names[body]

    def _link(self, link: str, body: int) -> tuple[str, Transform]:
        """A link of a body, or the body itself, and the transform body -> link."""
        if link in self.welds:
            return link, self.welds[link].transform
        return self._body(body), Transform.identity()

    def holder(self, i: int) -> tuple[str, Transform]:
        """Link that joint i sits on, and the transform from it to the joint."""
        body, found = self.robot.bodies[i], ""
        for link, weld in self.welds.items():  # parents before children
            found = link if i in weld.children else found
        parent, up = self._link(found, body.parent)
        return parent, up.inverse().then(body.placement)

    def _shares(self) -> dict[str, Inertia]:
        """What of a body's inertia is its link's, and what is that of the links welded to it.

        A weld knows the inertia of all that is beyond it. Where a share is no inertia any more
        (the body's was changed below that of its parts), the body's link has all of it.
        """
        robot, names = self.robot, self.robot.body_names
        ten = {link: inertial_values(weld.inertia) for link, weld in self.welds.items()}
        scale = {link: np.abs(values) for link, values in ten.items()}
        for body in robot.bodies:
            ten[body.name] = inertial_values(body.inertia)
            scale[body.name] = np.abs(ten[body.name])
        share = {name: values.copy() for name, values in ten.items()}
        for link, weld in self.welds.items():
            parent, _ = self._link(weld.parent, weld.body)
            if parent in share:
                share[parent] -= ten[link]
        found: dict[str, Inertia] = {}
        for name, values in share.items():
            size = scale[name].max(initial=0.0)
            try:
                found[name] = inertia_of(
                    np.where(np.abs(values) <= ROUNDING * size, 0.0, values)
                )
            except ModelError:
                found[name] = Inertia(-1.0, np.zeros(3), np.zeros((3, 3)))  # no inertia
        for i, body in enumerate(robot.bodies):
            parts = [link for link, weld in self.welds.items() if weld.body == i]
            bad = [n for n in (names[i], *parts) if _is_bad(found[n], robot.physical)]
            if bad and parts:
                found[names[i]] = body.inertia
                found |= {link: Inertia.zero() for link in parts}
                warnings.warn(
                    f"robot {robot.name!r}: the inertia of body {names[i]!r} is less than that"
                    f" of the links welded to it, {', '.join(parts)}; they are written without"
                    " mass, and force sensors between them will not feel it",
                    ModelWarning,
                    stacklevel=5,
                )
        return {
            name: inertia.seen_from(self.welds[name].transform.inverse())
            if name in self.welds
            else inertia
            for name, inertia in found.items()
        }


def _is_bad(inertia: Inertia, physical: bool) -> bool:
    defect = inertia_defect(inertia)
    return defect is not None and (physical or defect.kind == "fatal")


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _add_inertial(link: ET.Element, inertia: Inertia | None) -> None:
    if inertia is None or not inertia.matrix().any():
        return
    node = ET.SubElement(link, "inertial")
    ET.SubElement(node, "origin", xyz=_numbers(inertia.com), rpy="0 0 0")
    ET.SubElement(node, "mass", value=_number(inertia.mass))
    I = (inertia.about_com + inertia.about_com.T) / 2
    places = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2)}
    moments = {key: _number(I[at]) for key, at in (places | {"izz": (2, 2)}).items()}
    ET.SubElement(node, "inertia", moments)


def _add_shape(link: ET.Element, shape: Shape) -> None:
    """A <collision> of a primitive shape; others are files that a robot does not hold."""
    sizes = [_number(x) for x in 2 * np.array(shape.size)]
    radius = {"radius": _number(shape.size[0])} if shape.size else {}
    given = {
        "sphere": radius,
        "box": {"size": " ".join(sizes)},
        "cylinder": radius | {"length": sizes[-1] if sizes else ""},
        "capsule": radius | {"length": sizes[-1] if sizes else ""},
    }
    if shape.kind not in given:
        return
    node = ET.SubElement(link, "collision", name=shape.name)
    E, r = shape.transform.E, shape.transform.r
    ET.SubElement(node, "origin", xyz=_numbers(r), rpy=_numbers(rpy_of(E)))
    ET.SubElement(ET.SubElement(node, "geometry"), shape.kind, given[shape.kind])


# ---- joints ----------------------------------------------------------------------------------


def _type(robot: KinematicTree, i: int) -> str:
    body = robot.bodies[i]
    kind = _TYPES.get(type(body.joint))
    if kind is None:
        raise ModelError(
            f"robot {robot.name!r}: URDF has no {body.joint.kind} joint like"
            f" {robot.joint_names[i]!r}; build it of a revolute and a prismatic one"
        )
    unlimited = np.isinf([_one(body, "lower", -np.inf), _one(body, "upper", np.inf)]).all()
    return "continuous" if kind == "revolute" and unlimited else kind


def _joint(
    root: ET.Element, name: str, kind: str, parent: str, transform: Transform, child: str
) -> ET.Element:
    node = ET.SubElement(root, "joint", name=name, type=kind)
    E, r = np.asarray(transform.E, dtype=np.float64), np.asarray(transform.r)
    ET.SubElement(node, "origin", xyz=_numbers(r), rpy=_numbers(rpy_of(E)))
    ET.SubElement(node, "parent", link=parent)
    ET.SubElement(node, "child", link=child)
    return node


def _add_motion(node: ET.Element, robot: KinematicTree, i: int) -> None:
    """Axis, limits, friction and leader of joint i."""
    body, kind = robot.bodies[i], node.attrib["type"]
    if isinstance(body.joint, (Revolute, Prismatic, Planar)):
        ET.SubElement(node, "axis", xyz=_numbers(body.joint.axis))
    if kind in ("revolute", "continuous", "prismatic"):
        limits = {"effort": _one(body, "effort_limit", np.inf)}
        limits["velocity"] = _one(body, "velocity_limit", np.inf)
        if kind != "continuous":
            limits |= {k: _one(body, k, s * np.inf) for k, s in (("lower", -1), ("upper", 1))}
        if kind != "continuous" or np.isfinite([*limits.values()]).any():
            ET.SubElement(node, "limit", {k: _number(x) for k, x in limits.items()})
    dynamics = {}
    for key in ("damping", "friction", "armature", "friction_minus", "offset"):
        values = np.unique(
            np.asarray(getattr(body, key) if getattr(body, key) is not None else [])
        )
        if len(values) > 1:
            raise ModelError(
                f"robot {robot.name!r}, joint {robot.joint_names[i]!r}: URDF holds one {key}"
                f" per joint, not {values.tolist()}"
            )
        if len(values) and (values[0] or key == "friction_minus"):
            dynamics[key] = _number(values[0])
    if dynamics:
        ET.SubElement(node, "dynamics", dynamics)
    if body.coupling is not None:
        rule = {"joint": robot.joint_names[body.coupling.leader]}
        rule |= {"multiplier": _number(body.coupling.ratio)}
        ET.SubElement(node, "mimic", rule | {"offset": _number(body.coupling.offset)})


def _one(body: Body, key: str, default: float) -> float:
    """What a body states of a joint of one freedom; the default elsewhere."""
    value: Any = getattr(body, key)
    return default if value is None or body.joint.nq != 1 else float(np.ravel(value)[0])


def _number(x: float) -> str:
    return repr(float(np.clip(x, -NONE, NONE)))


def _numbers(values: Array | tuple[float, ...]) -> str:
    return " ".join(_number(x) for x in np.asarray(values, dtype=np.float64))
