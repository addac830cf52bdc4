"""Meshes of robot files, where they sit and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dynsys
from dynsys import KinematicTree, ModelError
from dynsys.types import Array
from problems import visuals
from problems.visuals import Visual, names_meshes, read_visuals, simplified
from tests.robots import robot_path

trimesh = pytest.importorskip("trimesh", reason="trimesh is not installed")

ARM = """<robot name="arm">
  <link name="world_link"><visual><geometry><box size="1 1 1"/></geometry></visual></link>
  <link name="upper"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
    ixz="0" iyz="0"/></inertial></link>
  <link name="lower"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0"
    ixz="0" iyz="0"/></inertial></link>
  <link name="tool"><visual><origin xyz="0 0 0.5" rpy="0 0 1.5707963267948966"/>
    <geometry><mesh filename="{mesh}" scale="2 1 1"/></geometry></visual></link>
  <joint name="a" type="revolute"><parent link="world_link"/><child link="upper"/>
    <origin xyz="0 0 1"/><axis xyz="0 0 1"/><limit effort="1" velocity="1"/></joint>
  <joint name="b" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="1 0 0"/><axis xyz="0 1 0"/><limit effort="1" velocity="1"/></joint>
  <joint name="c" type="fixed"><parent link="lower"/><child link="tool"/>
    <origin xyz="0 0 3"/></joint>
</robot>"""


def arm(folder: Path, mesh: str = "package://bits/part.stl") -> Path:
    (folder / "bits").mkdir()
    trimesh.creation.box((1.0, 1.0, 1.0)).export(folder / "bits" / "part.stl")
    path = folder / "bits" / "arm.urdf"
    path.write_text(ARM.format(mesh=mesh))
    return path


def in_base(robot: KinematicTree, q: Array, visual: Visual) -> Array:
    if visual.body < 0:
        return visual.points
    pose = dynsys.forward_kinematics(robot, q, robot.body_names[visual.body])
    return visual.points @ np.asarray(pose.E) + np.asarray(pose.r)


def test_a_mesh_sits_where_the_file_says_and_stays_there_when_joints_are_locked(
    tmp_path: Path,
) -> None:
    path = arm(tmp_path)
    assert names_meshes(path)
    for lock in ({}, {"b": 0.0}, {"a": 0.0}):
        robot = dynsys.load(path, lock=lock)
        base, part = read_visuals(path, robot).shapes
        assert base.body == -1 and not base.is_mesh and part.is_mesh
        ends = in_base(robot, robot.neutral(), part)
        # joint a at z = 1, b at x = 1, tool 3 above it, visual 0.5 above that, turned
        np.testing.assert_allclose(ends.min(axis=0), [0.5, -1.0, 4.0], atol=1e-9)
        np.testing.assert_allclose(ends.max(axis=0), [1.5, 1.0, 5.0], atol=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "panda_description/urdf/panda.urdf",
        "talos_data/robots/talos_reduced.urdf",
        "icub_description/robots/icub.urdf",
    ],
)
def test_real_robots_look_as_pinocchio_places_them(name: str) -> None:
    pinocchio = pytest.importorskip("pinocchio")
    path = robot_path(name)
    robot = dynsys.load(path)
    found = read_visuals(path, robot)
    assert not found.notes and sum(shape.is_mesh for shape in found.shapes) > 5
    q = robot.random_configuration(0)
    model = pinocchio.buildModelFromUrdf(str(path))
    folders = [str(folder) for folder in path.parents]
    shapes = pinocchio.buildGeomFromUrdf(model, str(path), pinocchio.VISUAL, folders)
    data, placed = model.createData(), shapes.createData()
    there = np.zeros(model.nq)
    for i in range(1, model.njoints):
        joint, own = model.joints[i], q[robot.q_slice(model.names[i])]
        value = own if joint.nq == len(own) else [np.cos(own[0]), np.sin(own[0])]
        there[joint.idx_q : joint.idx_q + joint.nq] = value
    pinocchio.updateGeometryPlacements(model, data, shapes, placed, there)
    points = np.concatenate([in_base(robot, q, s) for s in found.shapes if s.is_mesh])
    theirs = []
    for k, shape in enumerate(shapes.geometryObjects):
        if not Path(shape.meshPath).is_file():
            continue
        mesh = trimesh.load(shape.meshPath, force="mesh", process=False)
        corners = np.asarray(mesh.vertices) * shape.meshScale
        theirs.append(corners @ placed.oMg[k].rotation.T + placed.oMg[k].translation)
    expected = np.concatenate(theirs)
    np.testing.assert_allclose(points.min(axis=0), expected.min(axis=0), atol=1e-4)
    np.testing.assert_allclose(points.max(axis=0), expected.max(axis=0), atol=1e-4)
    np.testing.assert_allclose(points.mean(axis=0), expected.mean(axis=0), atol=0.05)


MJCF = """<mujoco><asset><mesh name="m" vertex="0 0 0  1 0 0  0 2 0  0 0 3"/></asset>
<worldbody><geom type="plane" size="1 1 1"/>
 <body name="one" pos="0 0 1"><joint name="a" axis="0 1 0" pos="0.1 0.2 0.3"/>
  <geom type="mesh" mesh="m" pos="0.5 0 0" euler="30 40 50"/>
  <body name="two" pos="1 0 0"><joint name="b" axis="0 0 1"/>
   <geom type="capsule" size="0.1 0.4" pos="0 0.3 0"/><geom type="box" size="1 1 1" group="3"/>
</body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("lock", [{}, {"b": 0.4}])
def test_geoms_of_mjcf_sit_where_mujoco_puts_them(
    tmp_path: Path, lock: dict[str, float]
) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "arm.xml"
    path.write_text(MJCF)
    robot = dynsys.load(path, lock=lock)
    q = np.array([0.7]) if lock else np.array([0.7, 0.4])
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    data.qpos[:] = [0.7, 0.4]
    mujoco.mj_forward(model, data)
    shapes = {
        shape.is_mesh: in_base(robot, q, shape) for shape in read_visuals(path, robot).shapes
    }
    assert set(shapes) == {True, False}  # neither the floor nor what only collides
    corners = model.mesh_vert @ data.geom_xmat[1].reshape(3, 3).T + data.geom_xpos[1]
    for ours, theirs in (
        (shapes[True], corners),
        (shapes[False].mean(axis=0), data.geom_xpos[2]),
    ):
        np.testing.assert_allclose(np.sort(ours, axis=0), np.sort(theirs, axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.stl", None, "no such file"),
        ("part.exe", b"x", "must be one of"),
        ("part.dae", b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]><x/>', "refused"),
        ("part.dae", b"<x/>", "cannot be read as dae"),
        ("big.stl", b"x" * 3000, "larger than 2048 bytes"),
    ],
)
def test_what_cannot_be_read_is_left_out_and_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes | None,
    words: str,
) -> None:
    monkeypatch.setattr(visuals, "MESH_BYTES", 2048)
    path = arm(tmp_path, f"package://bits/{name}")
    if content is not None:
        (path.parent / name).write_bytes(content)
    found = read_visuals(path, dynsys.load(path))
    assert [shape.is_mesh for shape in found.shapes] == [False]
    (note,) = found.notes
    assert note.startswith(f"package://bits/{name}") and words in note


def test_the_missing_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = arm(tmp_path)
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(ModelError, match=r"dynsys-robotics\[meshes\]"):
        read_visuals(path, dynsys.load(path))


@pytest.mark.parametrize("pieces", [1, 400])
def test_simplified_shapes_are_few_and_where_they_were(pieces: int) -> None:
    """One ball, and a ball of loose triangles, which decimation leaves alone."""
    ball = trimesh.creation.icosphere(subdivisions=5, radius=2.0)
    points, faces = np.asarray(ball.vertices), np.asarray(ball.faces)
    if pieces > 1:
        points, faces = points[faces].reshape(-1, 3), np.arange(3 * len(faces)).reshape(-1, 3)
    few = simplified(Visual(0, points, faces, True), 500)
    assert 100 < len(few.triangles) <= 500
    assert len(np.unique(few.triangles)) == len(few.points)
    distance = np.linalg.norm(few.points, axis=1)
    assert distance.min() > 1.7 and distance.max() < 2.05


def test_meshes_of_a_robot_that_was_taken_out_of_its_package(tmp_path: Path) -> None:
    """As one copies a robot's folder: the rest of its package is not there."""
    folder = tmp_path / "dog" / "urdf"
    folder.mkdir(parents=True)
    path = arm(folder, "package://data/robots/dog/urdf/bits/part.stl")
    found = read_visuals(path, dynsys.load(path))
    assert not found.notes and any(shape.is_mesh for shape in found.shapes)
