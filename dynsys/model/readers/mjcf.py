"""MJCF reader: a MuJoCo model to a KinematicTree, through the optional ``mujoco`` package.

MuJoCo's own compiler resolves defaults, includes, meshes and inertias; the compiled model is
then read. A joint's q, range and velocity mean what they mean in MuJoCo (``ref`` included),
except that quaternions are x y z w and free joints move in body coordinates
(:class:`dynsys.interop.MujocoMap` converts). A body with several joints becomes a chain whose
inner bodies are massless and called ``body/joint``. A body's frame sits at the anchor of its
last joint; where that is not MuJoCo's body origin, the frame ``body/origin`` is.

Files of unknown origin: the main file and everything it includes is read by ``xml_input``
first (no document types, bounded size and nesting); included files must lie below the folder of
the main file, or one that the caller names; assets must be regular files of bounded size;
elements that MuJoCo's compiler multiplies (replicate, composite, flexcomp) and images it makes
must stay within bounds. MuJoCo itself opens no network connection.

Meshes and images that are absent are stood in for, where no inertia depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.distribution import install
from dynsys.errors import ModelError
from dynsys.model.constraints import MOTIONS, JointConstraint
from dynsys.model.joints import AbstractJoint, Free, Prismatic, Revolute, Spherical
from dynsys.model.readers.assembly import Assembly, ReadOptions, followers_of, listing
from dynsys.model.readers.xml_input import Node, PathLike, read_xml
from dynsys.model.spatial import (
    Inertia,
    Transform,
    compose,
    quaternion_to_rotation,
    without_rounding,
)
from dynsys.model.tree import Body, Coupling, Frame, KinematicTree
from dynsys.types import Array, BoolArray

__all__ = [
    "AT_JOINT",
    "BALL",
    "EQUALITY_JOINT",
    "EQUALITY_TENDON",
    "FREE",
    "HINGE",
    "SLIDE",
    "body_name",
    "compiled_model",
    "has_any",
    "is_off",
    "joint_names",
    "mjcf_from_node",
    "transform_of",
]


def mjcf_from_node(root: Node, options: ReadOptions) -> tuple[KinematicTree, list[str]]:
    """Return the tree of the file behind ``root`` and the warnings it deserves."""
    model, notes = compiled_model(root, options.max_bytes, options.include_folder)
    name = bytes(model.names).split(b"\0", 1)[0].decode(errors="replace")
    reader = ModelReader(model, Assembly(name or Path(root.file).stem, root.file))
    reader.assembly.notes.extend(notes)
    reader.read_bodies(options.floating_base)
    reader.read_equalities(options)
    reader.note_unread()
    gravity = options.gravity
    if gravity is None:
        gravity = np.zeros(3) if is_off(model, "GRAVITY") else np.array(model.opt.gravity)
    tree = reader.assembly.finish(gravity, options.inertia, options.friction)
    return tree, reader.assembly.notes


# ---- what a file of unknown origin may refer to, and how much it may expand to -----------

MAX_INCLUDED = 100
MAX_EXPANDED = 50_000
"""Most elements after MuJoCo's compiler has multiplied them."""
MAX_PIXELS = 10_000_000
"""Most pixels of a texture or points of a height field."""
_MULTIPLIED = ("replicate", "composite", "flexcomp")
_AREAS = (("texture", "width", "height"), ("hfield", "nrow", "ncol"))


@final
@dataclass(frozen=True, eq=False)
class _Include:
    """Where included files are looked up: ``main`` first, then beside the including file.

    They must lie below ``bound``.
    """

    main: Path
    bound: Path

    def target(self, node: Node) -> Path:
        """File that a node includes: the one that MuJoCo opens."""
        name = node.attributes["file"]
        beside = Path(node.file).resolve().parent
        try:
            places = [(folder / name).resolve() for folder in (self.main, beside)]
            target = next((place for place in places if place.exists()), places[0])
        except (OSError, ValueError, RuntimeError) as error:
            raise node.error(f"{name!r} cannot be read: {error}") from None
        if not target.is_relative_to(self.bound):
            raise node.error(
                f"{name!r} lies outside the folder {self.bound}; refused: move it below, or"
                " load with include_folder=... if you trust what lies there"
            )
        return target


def check_referenced_files(
    root: Node, max_bytes: int, include_folder: PathLike | None = None
) -> None:
    """Raise ModelError if the file includes, refers to or expands to something unsafe."""
    folder = Path(root.file).resolve().parent
    bound = folder if include_folder is None else Path(include_folder).resolve()
    include = _Include(folder, bound)
    included: dict[Path, Node] = {Path(root.file).resolve(): root}
    nodes = list(_with_included(root, include, max_bytes, included))
    _expanded(root, include, included, {})
    folders = {Path()}
    for node in nodes:
        _check_area(node)
        if node.tag == "compiler":
            for key in ("meshdir", "texturedir", "assetdir"):
                folders.add(Path(node.attributes.get(key, "")))
    for node in nodes:
        for key, name in node.attributes.items():
            if node.tag == "include" or not key.startswith("file"):
                continue
            for sub in folders:
                for asset in (folder / sub / name, folder / sub / Path(name).name):
                    _check_asset(node, asset, max_bytes)


def _check_asset(node: Node, asset: Path, max_bytes: int) -> None:
    try:
        if not asset.exists() or asset.is_dir():
            return
        if not asset.is_file():
            raise node.error(f"{asset} is not a regular file; refused")
        if asset.stat().st_size > max_bytes:
            raise node.error(f"{asset} is larger than {max_bytes} bytes; raise max_bytes")
    except (OSError, ValueError) as error:
        raise node.error(f"{asset} cannot be read: {error}") from None


def _check_area(node: Node) -> None:
    for key, value in node.attributes.items() if node.tag == "size" else ():
        if key != "memory" and _product(value) > MAX_PIXELS:
            raise node.error(f"{key}={value} is more than {MAX_PIXELS}; refused")
    for tag, *sides in _AREAS:
        points = " ".join(node.attributes.get(side, "1") for side in sides)
        if node.tag == tag and _product(points) > MAX_PIXELS:
            raise node.error(f"<{tag}> of more than {MAX_PIXELS} points; refused")


def _product(words: str) -> float:
    """Product of the numbers above one in a text; infinite where they are no numbers."""
    product = 1.0
    for word in words.split():
        try:
            product *= max(float(word), 1.0)
        except ValueError:
            return math.inf
    return product


def _expanded(
    node: Node, include: _Include, included: Mapping[Path, Node], sizes: dict[Path, float]
) -> float:
    """Elements that a node becomes: those below it, times its count, with what it includes.

    ``sizes`` are those of included files, each found once however often it is included.
    """
    size = 1.0
    if node.tag == "include" and "file" in node.attributes:
        target = include.target(node)
        if target in included and target not in sizes:
            sizes[target] = 0.0  # within itself: MuJoCo refuses that
            sizes[target] = _expanded(included[target], include, included, sizes)
        size += sizes.get(target, 0.0)
    size += sum(_expanded(child, include, included, sizes) for child in node.children)
    if node.tag in _MULTIPLIED:
        size *= _product(node.attributes.get("count", "1"))
    if size > MAX_EXPANDED and node.tag in (*_MULTIPLIED, "mujoco"):
        raise node.error(f"expands to more than {MAX_EXPANDED} elements; refused")
    return size


def _with_included(
    root: Node, include: _Include, max_bytes: int, included: dict[Path, Node]
) -> Iterator[Node]:
    for node in root.walk():
        yield node
        if node.tag not in ("include", "model") or "file" not in node.attributes:
            continue
        target = include.target(node)
        if len(included) > MAX_INCLUDED:
            raise node.error(f"more than {MAX_INCLUDED} included files; refused")
        if target not in included:
            included[target] = read_xml(target, max_bytes)
            yield from _with_included(included[target], include, max_bytes, included)


# ---- bodies, frames and couplings of a compiled model ----------------------------------------

FREE, BALL, SLIDE, HINGE = range(4)  # mujoco.mjtJoint
CONNECT, WELD, EQUALITY_JOINT, EQUALITY_TENDON = range(4)  # mujoco.mjtEq
SITE = 6  # mujoco.mjtObj.mjOBJ_SITE
AT_JOINT = (0, 1)  # mujoco.mjtTrn: mjTRN_JOINT, mjTRN_JOINTINPARENT
GEOM_NAME = {0: "plane", 1: "hfield", 2: "sphere", 3: "capsule", 4: "ellipsoid"}  # mjtGeom
GEOM_NAME |= {5: "cylinder", 6: "box", 7: "mesh"}
GEOM_SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3}
KIND_NAME = {FREE: "free", BALL: "ball", SLIDE: "slide", HINGE: "hinge"}


def compiled_model(
    root: Node, max_bytes: int, include_folder: PathLike | None = None
) -> tuple[Any, list[str]]:
    """``mujoco.MjModel`` of the file behind ``root``, once checked, and notes for the user."""
    try:
        import mujoco
    except ImportError as error:
        raise ModelError(
            f"{root.file}: reading MJCF needs the mujoco package ({error});"
            f" run: {install('mujoco')}"
        ) from None
    check_referenced_files(root, max_bytes, include_folder)
    refused = (ValueError, RuntimeError, MemoryError, mujoco.FatalError)
    try:
        return mujoco.MjModel.from_xml_path(root.file), []
    except refused as error:
        reason = ModelError(f"{root.file}: MuJoCo cannot compile it: {error}")
    try:
        spec = mujoco.MjSpec.from_file(root.file)
        absent = _stand_in(spec, root.file)
        if absent:
            return spec.compile(), [
                f"{root.file}: files {listing(absent)} are absent; no inertia depends on them"
            ]
    except (AttributeError, *refused):  # before MuJoCo 3.2, or broken in other ways too
        pass
    raise reason from None


def _stand_in(spec: Any, file: str) -> list[str]:
    """Put small shapes in the place of absent meshes and images; return their names.

    ModelError where a body's inertia would come from an absent mesh.
    """
    from mujoco import mjtBuiltin, mjtTexture

    def is_absent(name: str, folder: str) -> bool:
        given = Path(name)  # absolute, and without the folder, where an included file names it
        places = [Path(folder, given), Path(folder, given.name)]
        places.append(given.parent / folder / given.name)
        return bool(name) and not any((Path(file).parent / p).is_file() for p in places)

    meshes = {m.name: m for m in spec.meshes if is_absent(m.file, spec.meshdir)}
    for geom in spec.geoms:
        if geom.meshname in meshes and _gives_inertia(geom, spec):
            raise ModelError(
                f"{file}: mesh {meshes[geom.meshname].file!r} is absent, and the inertia of"
                f" body {geom.parent.name!r} comes from it; add the file, or an <inertial>"
            )
    absent = [mesh.file for mesh in meshes.values()]
    for mesh in meshes.values():
        mesh.file, mesh.uservert, mesh.userface = "", _TETRAHEDRON, _TETRAHEDRON_FACES
    for field in spec.hfields:
        if is_absent(field.file, spec.meshdir):
            absent.append(field.file)
            field.file, field.nrow, field.ncol, field.userdata = "", 2, 2, [0.0, 0.0, 0.0, 1.0]
    for image in spec.textures:
        gone = [n for n in (image.file, *image.cubefiles) if is_absent(n, spec.texturedir)]
        if gone:
            absent.extend(gone)
            image.file, image.cubefiles = "", [""] * 6
            image.builtin, image.width = mjtBuiltin.mjBUILTIN_FLAT, 1
            image.height = 1 if image.type == mjtTexture.mjTEXTURE_2D else 6
    for skin in list(spec.skins):
        if is_absent(skin.file, spec.meshdir):
            absent.append(skin.file)
            spec.delete(skin)
    return absent


_TETRAHEDRON = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
_TETRAHEDRON_FACES = [0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3]


def _gives_inertia(geom: Any, spec: Any) -> bool:
    """Tell whether MuJoCo would find the inertia of a geom's body from the geom's shape."""
    from mujoco import mjtInertiaFromGeom

    rule, (first, last) = spec.compiler.inertiafromgeom, spec.compiler.inertiagrouprange
    if rule == mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE or geom.parent.name == "world":
        return False
    stated = geom.parent.explicitinertial and rule != mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    weightless = geom.mass == 0 or (not geom.mass > 0 and geom.density == 0)
    return not stated and not weightless and bool(first <= geom.group <= last)


def joint_names(model: Any) -> list[str]:
    """Names of a MuJoCo model's joints; unnamed ones are named after their body."""
    names = [model.joint(j).name for j in range(model.njnt)]
    used = set(names)
    for j in range(model.njnt):
        if names[j]:
            continue
        body, kind = int(model.jnt_bodyid[j]), int(model.jnt_type[j])
        k = j - int(model.body_jntadr[body])
        name = "root" if kind == FREE else f"{body_name(model, body)}/{KIND_NAME[kind]}{k}"
        names[j] = name if name not in used else f"{body_name(model, body)}/joint{j}"
        used.add(names[j])
    return names


def body_name(model: Any, body: int) -> str:
    """Name of a MuJoCo model's body; an unnamed one is named after its number."""
    from mujoco import mj_name2id, mjtObj

    name: str = model.body(body).name
    if not name:
        name = f"body{body}"
        while mj_name2id(model, mjtObj.mjOBJ_BODY, name) >= 0:  # another one is called so
            name += "_"
    return name


def transform_of(position: Array, quaternion_wxyz: Array) -> Transform:
    """Transform to a frame that MuJoCo places by position and quaternion."""
    w, x, y, z = (float(value) for value in quaternion_wxyz)
    E = np.asarray(quaternion_to_rotation(np.array([x, y, z, w])), dtype=np.float64)
    return Transform(without_rounding(E), np.array(position, dtype=np.float64))


def _is_one_place(a: Frame, b: Frame) -> bool:
    poses = (a.transform.E, b.transform.E), (a.transform.r, b.transform.r)
    return a.body == b.body and all(np.allclose(x, y, rtol=0, atol=1e-9) for x, y in poses)


def _shift(r: Array) -> Transform:
    return Transform(np.eye(3), r)


@final
class ModelReader:
    """Walks a compiled model; ``place`` holds MuJoCo's body frames within our bodies."""

    def __init__(self, model: Any, assembly: Assembly) -> None:
        self.model = model
        self.assembly = assembly
        self.names = joint_names(model)
        self.place: list[Frame] = [Frame(-1, Transform.identity(), "world")]
        self.number: dict[int, int] = {}

    def read_bodies(self, floating_base: bool) -> None:
        """Add every body and, as frames, the world and every site."""
        base = self._floating_body() if floating_base else -1
        self.assembly.frames["world"] = self.place[0]
        for i in range(1, self.model.nbody):
            self._read_body(i, make_free=i == base)
        bodies = enumerate(self.assembly.bodies)
        own = {body.name: Frame(k, Transform.identity()) for k, body in bodies}
        taken = self.assembly.frames | own
        for s in range(self.model.nsite):
            name = self.model.site(s).name
            holder = self.place[int(self.model.site_bodyid[s])]
            here = transform_of(self.model.site_pos[s], self.model.site_quat[s])
            frame = Frame(holder.body, compose(holder.transform, here), holder.link)
            if name and name not in taken:
                self.assembly.frames[name] = frame
            elif name and not _is_one_place(taken[name], frame):
                what = "the frame of that name is the body's and not the site's, of"
                self.assembly.doubt(what, name)
        self._read_shapes()

    def _read_shapes(self) -> None:
        """Geoms that may touch others: MuJoCo's contype or conaffinity is not zero."""
        model = self.model
        for g in range(model.ngeom):
            if not (model.geom_contype[g] or model.geom_conaffinity[g]):
                continue
            kind = GEOM_NAME.get(int(model.geom_type[g]), "other")
            here = transform_of(model.geom_pos[g], model.geom_quat[g])
            body = int(model.geom_bodyid[g])
            size = model.geom_size[g][: GEOM_SIZES.get(kind, 0)]
            link = body_name(model, body) if body else "world"
            self.assembly.touch(
                link, model.geom(g).name, kind, self.place[body], here, *map(float, size)
            )

    def _floating_body(self) -> int:
        """Body below the world that a free joint shall carry; -1 where the robot floats."""
        model = self.model
        top = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
        moving = set(model.body_rootid[model.jnt_bodyid].tolist())
        welded = [i for i in top if i in moving and model.body_jntnum[i] == 0]
        if FREE in model.jnt_type and not welded:  # beside a welded one it may be an object
            return -1
        if len(top) == 1 and model.body_jntnum[top[0]] == 0:
            return top[0]
        raise ModelError(
            f"{self.assembly.source}: floating_base=True needs exactly one body below"
            " <worldbody>, free or welded to it; put <freejoint/> where you want it"
        )

    def _read_body(self, i: int, make_free: bool) -> None:
        model, name = self.model, body_name(self.model, i)
        parent = self.place[int(model.body_parentid[i])]
        here = compose(parent.transform, transform_of(model.body_pos[i], model.body_quat[i]))
        inertia = self._inertia(i)
        first, count = int(model.body_jntadr[i]), int(model.body_jntnum[i])
        if make_free:
            free = Body(name, -1, Free(), inertia=inertia, joint_name="root")
            self.place.append(Frame(self.assembly.add(free), Transform.identity(), name))
            return
        above = body_name(model, int(model.body_parentid[i]))
        if count == 0:
            weld = f"{name}/weld" if name in self.names else name  # a joint's name means that
            place = self.assembly.fold(name, weld, above, parent, here, inertia)
            self.place.append(place)
            return
        self._read_joints(name, range(first, first + count), parent.body, here, inertia)
        self.assembly.hang(self.number[first], above)

    def _read_joints(
        self, name: str, joints: range, carrier: int, here: Transform, inertia: Inertia
    ) -> None:
        """Add a body per joint; ``here`` is where the first one sits on its carrier."""
        anchor = np.zeros(3)
        for j in joints:
            last = j == joints[-1]
            next_anchor = np.array(self.model.jnt_pos[j])
            joint, placement = self._joint(j, here, next_anchor - anchor)
            anchor = np.zeros(3) if isinstance(joint, Free) else next_anchor
            own = inertia.seen_from(_shift(-anchor)) if last else Inertia.zero()
            label = name if last else f"{name}/{self.names[j]}"
            stated = self._stated(j, joint)
            body = Body(label, carrier, joint, placement, own, self.names[j], **stated)
            self.number[j] = carrier = self.assembly.add(body)
            here = Transform.identity()
        self.place.append(Frame(carrier, _shift(-anchor), name))
        if anchor.any():
            self.assembly.frames[f"{name}/origin"] = self.place[-1]

    def _joint(self, j: int, here: Transform, step: Array) -> tuple[AbstractJoint, Transform]:
        """Return joint j and its placement, such that q = qpos (``ref`` folded in)."""
        kind, axis = int(self.model.jnt_type[j]), np.array(self.model.jnt_axis[j])
        if kind == FREE:
            return Free(), Transform.identity()
        placement = compose(here, _shift(step))
        if kind == BALL:
            return Spherical(), placement
        joint: AbstractJoint = Revolute(axis) if kind == HINGE else Prismatic(axis)
        reference = float(self.model.qpos0[self.model.jnt_qposadr[j]])
        if reference != 0.0:
            placement = compose(placement, joint.transform(np.array([-reference])))
        return joint, placement

    def _stated(self, j: int, joint: AbstractJoint) -> dict[str, Any]:
        """Rotor inertia, friction and limits of joint j, as :class:`Body` calls them."""
        model = self.model
        start = int(model.jnt_dofadr[j])
        dofs = np.arange(start, start + joint.nv)
        if isinstance(joint, Free):
            dofs = dofs[[3, 4, 5, 0, 1, 2]]
        stated: dict[str, Any] = {
            "armature": model.dof_armature[dofs] + self._of_actuators("armature", j)
        }
        if not is_off(model, "DAMPER", "PASSIVE"):
            damping = model.dof_damping[dofs] + self._of_actuators("damping", j)
            if (damping < 0).any():
                what = "a negative damping is read as none, of joints"
                self.assembly.doubt(what, self.names[j])
            stated["damping"] = np.maximum(damping, 0.0)
        if not is_off(model, "FRICTIONLOSS", "CONSTRAINT"):
            stated["friction"] = model.dof_frictionloss[dofs]
        if model.jnt_limited[j] and joint.nq == 1:
            stated["lower"], stated["upper"] = model.jnt_range[j]
        if model.jnt_actfrclimited[j] and joint.nq == 1:
            stated["effort_limit"] = float(np.abs(model.jnt_actfrcrange[j]).max())
        return stated

    def _of_actuators(self, what: str, j: int) -> float:
        """Rotor inertia or damping that the actuators of a hinge or slide add: gear^2 times."""
        values = getattr(self.model, f"actuator_{what}", None)  # from MuJoCo 4 on
        if values is None or self.model.jnt_type[j] not in (HINGE, SLIDE):
            return 0.0
        drives = self._drives(j)
        return float(np.sum(values[drives] * self.model.actuator_gear[drives, 0] ** 2))

    def _drives(self, j: int) -> BoolArray:
        """Actuators (nu,) that act on joint j."""
        at_joint = np.isin(self.model.actuator_trntype, AT_JOINT)
        return np.asarray(at_joint & (self.model.actuator_trnid[:, 0] == j))

    def _inertia(self, i: int) -> Inertia:
        model = self.model
        principal = Inertia(
            float(model.body_mass[i]), np.zeros(3), np.diag(np.array(model.body_inertia[i]))
        )
        return principal.seen_from(transform_of(model.body_ipos[i], model.body_iquat[i]))

    def read_equalities(self, options: ReadOptions) -> None:
        """Couple joints as the file's equalities say; what is left are constraints."""
        model = self.model
        if is_off(model, "EQUALITY", "CONSTRAINT"):
            return
        leaders = {
            self.names[int(model.eq_obj1id[e])]: self.names[int(model.eq_obj2id[e])]
            for e in range(model.neq)
            if model.eq_type[e] == EQUALITY_JOINT and model.eq_obj2id[e] >= 0
        }
        held = followers_of(options.lock, leaders)
        couplings: dict[int, Coupling] = {}
        other: list[str] = []
        for e in range(model.neq):
            if not model.eq_active0[e]:
                continue
            name = model.equality(e).name or f"equality {e}"
            if model.eq_type[e] in (CONNECT, WELD):
                self._hold(e, name)
                continue
            if model.eq_type[e] != EQUALITY_JOINT:
                other.append(name)
                continue
            follower, leader = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
            constant, slope, *higher = (float(c) for c in model.eq_data[e][:5])
            couple = options.mimic == "couple" or self.names[follower] in held
            if couple and leader >= 0 and not any(higher):
                q_f, q_l = (
                    float(model.qpos0[model.jnt_qposadr[j]]) for j in (follower, leader)
                )
                couplings[self.number[follower]] = Coupling(
                    self.number[leader], slope, q_f + constant - slope * q_l
                )
            else:
                self._follow(e, name)
        self.assembly.couple(couplings)
        if other:
            self.assembly.note(
                f"equality constraints {listing(other)} are not enforced; write what they hold"
                " as constraints of the layout (mimic_constraint, loop_closure)"
            )

    def _hold(self, e: int, name: str) -> None:
        """Connect or weld: two points, or poses, that are one (eq_data of MuJoCo's model)."""
        model, data = self.model, np.array(self.model.eq_data[e], dtype=np.float64)
        ends = [int(model.eq_obj1id[e]), int(model.eq_obj2id[e])]
        if model.eq_objtype[e] == SITE:
            first, second = (
                (int(model.site_bodyid[s]), transform_of(model.site_pos[s], model.site_quat[s]))
                for s in ends
            )
        elif model.eq_type[e] == CONNECT:  # anchors on both bodies
            first, second = (ends[0], _shift(data[:3])), (ends[1], _shift(data[3:6]))
        else:  # the anchor is on the second body, where the first has its relative pose
            first = ends[0], transform_of(data[3:6], data[6:10])
            second = ends[1], _shift(data[:3])
        own, other = (
            replace(self.place[body], transform=compose(self.place[body].transform, at))
            for body, at in (first, second)
        )
        held = MOTIONS if model.eq_type[e] == WELD else MOTIONS[3:]
        self.assembly.hold(name, own, other, held)

    def _follow(self, e: int, name: str) -> None:
        """Joint equality as a polynomial that holds where a problem asks for it."""
        model = self.model
        follower, leader = int(model.eq_obj1id[e]), int(model.eq_obj2id[e])
        constant, *more = (float(c) for c in model.eq_data[e][:5])
        at = float(model.qpos0[model.jnt_qposadr[follower]]) + constant
        while more and more[-1] == 0:
            more.pop()
        names = self.names[follower], self.names[leader] if leader >= 0 else None
        start = float(model.qpos0[model.jnt_qposadr[leader]]) if leader >= 0 else 0.0
        curve = (at, *more) if leader >= 0 else (at,)
        self.assembly.constraints.append(JointConstraint(name, *names, curve, start))

    def note_unread(self) -> None:
        """Note what the file holds and a tree does not."""
        model = self.model
        limited = np.asarray(model.jnt_limited, dtype=bool)
        kinds = (
            (has_any(model, "jnt_stiffness", "jnt_stiffnesspoly"), "joint springs"),
            (np.any(model.body_gravcomp), "gravity compensation"),
            (model.opt.density or model.opt.viscosity, "fluid forces"),
            (np.any(np.asarray(model.body_mocapid) >= 0), "motion of mocap bodies"),
            (model.ntendon, "tendons"),
            (model.nflex, "flexible bodies"),
            (np.any(limited & (np.asarray(model.jnt_type) == BALL)), "limits of ball joints"),
            (has_any(model, "dof_dampingpoly", "actuator_dampingpoly"), "nonlinear dampers"),
            (self._elsewhere("armature"), "armature of actuators that drive no hinge or slide"),
            (self._elsewhere("damping"), "damping of actuators that drive no hinge or slide"),
        )
        found = [what for present, what in kinds if present]
        if found:
            named = listing(found, len(kinds))
            self.assembly.note(f"{named} are in the file but not part of the model")
        self._note_free_axes()

    def _elsewhere(self, what: str) -> bool:
        """Tell whether actuators have armature or damping that :meth:`_of_actuators` lacks."""
        stated = np.asarray(getattr(self.model, f"actuator_{what}", np.zeros(0))) != 0
        for j in range(self.model.njnt if stated.any() else 0):
            if self.model.jnt_type[j] in (HINGE, SLIDE):
                stated &= ~self._drives(j)
        return bool(stated.any())

    def _note_free_axes(self) -> None:
        """Name what acts on free joints along axes of the world, R those of the body in it.

        MuJoCo's tau, in axes of the body, is a (vdot + w x v) + R^T (f sign(R v)), ours
        a vdot + f sign(v). Damping is one number for all axes and the same in any of them.
        """
        model = self.model
        differences = (
            ("armature", "kg", "turns and travels", "(omega x v)"),
            ("frictionloss", "N", "is turned, by R", "(R^T sign(R v) - sign(v))"),
        )
        for what, unit, where, factor in differences:
            if what == "frictionloss" and is_off(model, "FRICTIONLOSS", "CONSTRAINT"):
                continue
            values = getattr(model, f"dof_{what}")
            loaded = [
                f"{self.names[j]} ({value:g} {unit})"
                for j in range(model.njnt)
                if model.jnt_type[j] == FREE
                and (value := float(values[model.jnt_dofadr[j]])) != 0
            ]
            if loaded:
                self.assembly.note(
                    f"{what} of free joints {listing(loaded)} acts along the axes of the body"
                    f" here, along those of the world in MuJoCo: where the body {where}, the"
                    f" forces differ by {what} * {factor}; write <freejoint/>, which takes no"
                    f' {what} from the default class, or {what}="0"'
                )


def is_off(model: Any, *flags: str) -> bool:
    """Tell whether the file switches off one of these; each MuJoCo lacks some of the flags."""
    from mujoco import mjtDisableBit  # there, now that a model is compiled

    bits = [int(getattr(mjtDisableBit, f"mjDSBL_{flag}", 0)) for flag in flags]
    return any(int(model.opt.disableflags) & bit for bit in bits)


def has_any(model: Any, *fields: str, at: int | None = None) -> bool:
    """Tell whether one of the fields, or its row ``at``, holds a nonzero.

    Older MuJoCos lack some of the fields.
    """
    found = [np.asarray(getattr(model, field)) for field in fields if hasattr(model, field)]
    return any(bool(np.any(values if at is None else values[at])) for values in found)
