"""How a robot looks: the ``<visual>`` shapes of its file as triangles in body coordinates.

The equations of motion know nothing of it. Meshes are read by trimesh, an extra
(``pip install 'dynsys-robotics[meshes]'``): STL, OBJ, PLY, glTF and, with pycollada, DAE. Those
of MJCF files come as MuJoCo has compiled them. Files are found beside the robot's file; of
``package://NAME/...`` the folder NAME is looked for around it and in ROS_PACKAGE_PATH. What is
absent, too large or broken is left out and named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynsys.distribution import install
from dynsys.errors import DynsysError, ModelError
from dynsys.model.body import Frame
from dynsys.model.readers.assembly import Assembly
from dynsys.model.readers.mjcf import (
    FREE,
    GEOM_NAME,
    ModelReader,
    compiled_model,
    transform_of,
)
from dynsys.model.readers.urdf import origin_of
from dynsys.model.readers.xml_input import (
    MAX_BYTES,
    Node,
    PathLike,
    read_bounded,
    read_xml,
)
from dynsys.model.spatial import Transform, compose
from dynsys.model.tree import KinematicTree
from dynsys.types import Array

__all__ = ["Visual", "Visuals", "names_meshes", "read_visuals", "simplified"]

FORMATS = ("stl", "obj", "ply", "dae", "glb", "gltf")
MESH_BYTES = 64 * 2**20
"""Largest mesh file that is opened."""
SCHEMES = ("package://", "model://")
LAST_SHOWN = 2
"""Last group of geoms that MuJoCo's viewer shows by itself."""
MANY = 8
"""Times as many triangles as wanted from which a shape is made coarse first, which is quick."""
FINEST = 200
"""Cells along a shape's longest side to begin with."""
LIKENESS = 1e-5
"""Corners closer than this, m, are one."""

Triangles: TypeAlias = NDArray[np.int64]


class Visual(NamedTuple):
    """Triangles that belong to one body.

    Attributes
    ----------
    body : number of the body, -1 for the base.
    points : (n, 3) corners in body coordinates, m.
    triangles : (m, 3) numbers of corners.
    is_mesh : True if they come from a file of their own, not from a box, ball or cylinder.
    """

    body: int
    points: Array
    triangles: Triangles
    is_mesh: bool


class Visuals(NamedTuple):
    """All there is to see of a robot, and why some of it is missing."""

    shapes: tuple[Visual, ...]
    notes: tuple[str, ...]


def names_meshes(path: PathLike) -> bool:
    """Tell whether a robot file names meshes to be looked at; none is opened."""
    if not os.fspath(path).endswith((".urdf", ".xml", ".xacro")):
        return False
    return any(node.tag == "mesh" for node in read_xml(path).walk())


def read_visuals(path: PathLike, robot: KinematicTree) -> Visuals:
    """Return what the file of ``robot`` shows of it, in the coordinates of its bodies.

    Parameters
    ----------
    path : the URDF or MJCF file.
    robot : as it was read from it; joints may be locked.

    Raises
    ------
    ModelError
        the file cannot be read, or trimesh is missing.
    """
    trimesh = _trimesh()
    root = read_xml(path)
    notes: dict[str, str] = {}
    read = _from_mjcf if root.tag == "mujoco" else _from_urdf
    found: dict[tuple[int, bool], list[tuple[Array, Triangles]]] = {}
    for frame, here, is_mesh, mesh in read(root, robot, trimesh, notes):
        place = compose(frame.transform, here)
        points = np.asarray(mesh.vertices, dtype=np.float64)
        if not len(mesh.faces) or not np.isfinite(points).all():
            continue
        points = points @ np.asarray(place.E, dtype=np.float64) + np.asarray(place.r)
        found.setdefault((frame.body, is_mesh), []).append((points, np.asarray(mesh.faces)))
    shapes = [Visual(body, *_joined(parts), mesh) for (body, mesh), parts in found.items()]
    words = tuple(f"{file}: {reason}" for file, reason in notes.items())
    return Visuals(tuple(sorted(shapes, key=lambda shape: shape.body)), words)


def _joined(parts: list[tuple[Array, Triangles]]) -> tuple[Array, Triangles]:
    """One list of corners and triangles; corners at one place are one."""
    first = np.cumsum([0, *(len(points) for points, _ in parts)])
    corners = np.concatenate([points for points, _ in parts])
    faces = np.concatenate([f + k for (_, f), k in zip(parts, first, strict=False)])
    return _taken_together(corners, faces, LIKENESS)


def simplified(visual: Visual, most: int) -> Visual:
    """Return the shape with at most ``most`` triangles.

    By quadric error decimation; what that leaves, because the shape is in many pieces, by
    taking the corners of a cell together, the cells growing until it is enough.
    """
    from fast_simplification import simplify

    points, faces = visual.points, visual.triangles
    reach = float(np.ptp(points, axis=0).max(initial=0.0))
    if len(faces) > MANY * most:
        points, faces = _taken_together(points, faces, reach / FINEST)
    if len(faces) > most:
        part = 1.0 - most / len(faces)
        near, left = simplify(points.astype(np.float32), faces, part, agg=5)
        points, faces = near.astype(np.float64), left.astype(np.int64)
    cells = FINEST / 2
    while len(faces) > most and cells > 1:
        points, faces = _taken_together(points, faces, reach / cells)
        cells *= 0.8
    return visual._replace(points=points, triangles=faces)


def _taken_together(points: Array, faces: Triangles, cell: float) -> tuple[Array, Triangles]:
    """Shape whose corners within one cubic cell are one, at the middle of them."""
    _, number, count = np.unique(
        np.floor(points / cell).astype(np.int64),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    number = number.ravel()
    middle = np.zeros((len(count), 3))
    np.add.at(middle, number, points)
    faces = number[faces].astype(np.int64)
    whole = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    _, first = np.unique(np.sort(faces[whole], axis=1), axis=0, return_index=True)
    return middle / count[:, None], faces[whole][first]


def _trimesh() -> Any:
    try:
        import trimesh
    except ImportError:
        raise ModelError(f"meshes need the package trimesh; run: {install('meshes')}") from None
    return trimesh


# ---- URDF ------------------------------------------------------------------------------------

Seen: TypeAlias = Iterator[tuple[Frame, Transform, bool, Any]]


def _from_urdf(root: Node, robot: KinematicTree, trimesh: Any, notes: dict[str, str]) -> Seen:
    """Shapes of every ``<visual>``, at their pose in the frame of their link."""
    for link in root.all("link"):
        name = link.attributes.get("name", "")
        for node in link.all("visual"):
            try:
                frame, here = robot.frame(name), origin_of(node)
                for shape in node.required("geometry").children:
                    mesh = _shape(shape, trimesh, Path(root.file), notes)
                    if mesh is not None:
                        yield frame, here, shape.tag == "mesh", mesh
            except ModelError as error:
                notes.setdefault(name, str(error))


def _shape(shape: Node, trimesh: Any, robot_file: Path, notes: dict[str, str]) -> Any:
    if shape.tag == "box":
        return _primitive(trimesh, "box", 0.5 * shape.numbers("size", (0.0, 0.0, 0.0)))
    if shape.tag == "sphere":
        return _primitive(trimesh, "sphere", np.array([shape.number("radius")]))
    if shape.tag in ("cylinder", "capsule"):
        size = np.array([shape.number("radius"), 0.5 * shape.number("length")])
        return _primitive(trimesh, shape.tag, size)
    if shape.tag != "mesh":
        return None
    named = shape.attribute("filename")
    try:
        mesh = _load(_found(named, robot_file), trimesh)
    except DynsysError as error:
        notes.setdefault(named, str(error))
        return None
    return mesh.apply_scale(shape.numbers("scale", (1.0, 1.0, 1.0)))


def _primitive(trimesh: Any, kind: str, size: Array) -> Any:
    """Mesh of a simple shape, its size as in :class:`~dynsys.model.body.Shape`; or None."""
    make = trimesh.creation
    if kind == "box":
        return make.box(2 * size)
    if kind in ("sphere", "ellipsoid"):
        return make.icosphere(subdivisions=2).apply_scale(size if kind != "sphere" else size[0])
    if kind == "cylinder":
        return make.cylinder(size[0], 2 * size[1], sections=24)
    if kind == "capsule":
        return make.capsule(2 * size[1], size[0], count=(16, 24))
    return None


def _found(named: str, robot_file: Path) -> Path:
    """File that a URDF names, looked for around it."""
    name = named.removeprefix("file://")
    around = [robot_file.resolve().parent, *robot_file.resolve().parents]
    if named.startswith(SCHEMES):
        package, _, inside = named.partition("://")[2].partition("/")
        listed = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        places = [folder / package / inside for folder in around]
        parts = (package, *inside.split("/"))
        for folder in around:  # a robot that was taken out of its package is still one folder
            places += [
                folder.joinpath(*parts[k + 1 :])
                for k, part in enumerate(parts[:-1])
                if part == folder.name
            ]
        places += [Path(folder, package, inside) for folder in listed if folder]
    else:
        places = [around[0] / name]  # an absolute name stays one
    for place in places:
        if place.is_file():
            return place
    raise ModelError(
        "no such file near the robot's; put the folder of its package above it, or name the"
        " folder's folder in ROS_PACKAGE_PATH"
    )


def _load(path: Path, trimesh: Any) -> Any:
    """Mesh of a file: all of its parts as one."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ModelError(f"a mesh must be one of {', '.join(FORMATS)}")
    words = "not a regular file", "too large a mesh to look at"
    content = read_bounded(path, MESH_BYTES, ModelError, irregular=words[0], large=words[1])
    if kind == "dae" and (b"<!DOCTYPE" in content or b"<!ENTITY" in content):
        raise ModelError("document type declarations are refused")
    try:
        return trimesh.load(BytesIO(content), file_type=kind, force="mesh", process=False)
    except Exception as error:  # whatever a broken file does to a reader
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ModelError(f"cannot be read as {kind}: {reason}") from None


# ---- MJCF ------------------------------------------------------------------------------------


def _from_mjcf(root: Node, robot: KinematicTree, trimesh: Any, notes: dict[str, str]) -> Seen:
    """Geoms that MuJoCo's viewer shows (groups 0 to 2), as its compiler leaves them."""
    model, _ = compiled_model(root, MAX_BYTES)
    reader = ModelReader(model, Assembly(robot.name, root.file))
    has_root = robot.n_bodies > 0 and robot.joints[0].kind == "free"
    reader.read_bodies(floating_base=has_root and FREE not in model.jnt_type)
    names = [body.name for body in reader.assembly.bodies]
    for g in range(model.ngeom):
        kind = GEOM_NAME.get(int(model.geom_type[g]), "other")
        place = reader.place[int(model.geom_bodyid[g])]
        is_scenery = place.body < 0 and kind != "mesh"
        if model.geom_group[g] > LAST_SHOWN or is_scenery:
            continue
        if kind == "mesh":
            k = int(model.geom_dataid[g])
            first, corner = int(model.mesh_faceadr[k]), int(model.mesh_vertadr[k])
            points = model.mesh_vert[corner : corner + int(model.mesh_vertnum[k])]
            faces = model.mesh_face[first : first + int(model.mesh_facenum[k])]
            mesh = trimesh.Trimesh(points, faces, process=False)
        else:
            mesh = _primitive(trimesh, kind, np.array(model.geom_size[g]))
        if mesh is None:
            continue
        # bodies keep their names where joints are locked, but not their numbers
        at = robot.frame(names[place.body]) if place.body >= 0 else Frame(-1, _NOWHERE)
        here = transform_of(model.geom_pos[g], model.geom_quat[g])
        yield at, compose(place.transform, here), kind == "mesh", mesh


_NOWHERE = Transform.identity()
