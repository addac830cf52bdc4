"""Robots written as URDF: read back with the same dynamics, by us and by Pinocchio."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from numpy.testing import assert_allclose

import dynsys
import sensors
from dynsys import KinematicTree, ModelError, ModelWarning, forward_kinematics
from dynsys.model.body import Frame
from dynsys.model.joints import Cylindrical, Planar
from dynsys.model.spatial import Inertia, Transform, rotation_from_rpy, rpy_of
from dynsys.recursive import rnea
from dynsys.types import Array
from problems.measured.simulated_readings import TrueReadings
from sensors import Layout
from tests import strategies
from tests.robots import robot_path

KINDS = ("revolute", "prismatic", "planar", "spherical", "free", "fixed")
SIDE = Transform(
    rotation_from_rpy(np.array([0.3, np.pi / 2, -0.7])), np.array([0.2, 0.0, -0.1])
)


def written(robot: KinematicTree, path: Path, **options: Any) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot.to_urdf(path)
        options = {"mimic": "couple", "friction": "file", "gravity": robot.gravity} | options
        return dynsys.load(path, inertia="any", **options)


def by_name(source: KinematicTree, target: KinematicTree, v: Array, place: str) -> Array:
    """Entries of q or qd of one robot in the order of the other."""
    out = np.zeros(target.nq if place == "q_slice" else target.nv)
    for name, body in zip(target.joint_names, target.bodies, strict=True):
        if body.coupling is None:
            out[getattr(target, place)(name)] = v[getattr(source, place)(name)]
    return out


def assert_same(robot: KinematicTree, again: KinematicTree, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(3):
        q, qd, qdd = robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))
        moved = by_name(robot, again, q, "q_slice")
        rates = [by_name(robot, again, v, "v_slice") for v in (qd, qdd)]
        torque = by_name(robot, again, rnea(robot, q, qd, qdd), "v_slice")
        assert_allclose(rnea(again, moved, *rates), torque, rtol=1e-10, atol=1e-10)
        for name in robot.frames:
            one, other = (
                forward_kinematics(robot, q, name),
                forward_kinematics(again, moved, name),
            )
            assert_allclose(other.E, one.E, atol=1e-12)
            assert_allclose(other.r, one.r, atol=1e-12)


@given(strategies.trees(max_bodies=6, joint_types=KINDS, coupled=True), strategies.seeds)
@settings(max_examples=40, phases=[Phase.explicit, Phase.generate], deadline=None)
def test_trees_survive(tree: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bodies = []
    for body in tree.bodies:
        values = {
            key: float(rng.uniform(0.1, 2.0)) if rng.random() < 0.5 else None
            for key in ("armature", "damping", "friction", "friction_minus", "offset")
        }
        if body.joint.nq == 1:
            low = float(rng.uniform(-2.0, 0.0))
            values |= {"lower": low, "upper": 1.0} if rng.random() < 0.5 else {}
            values |= {"effort_limit": 7.0} if rng.random() < 0.5 else {}
        bodies.append(replace(body, **values) if body.joint.nv else body)
    marks = {"on <base>": Frame(-1, SIDE)}
    marks |= {f"mark {i}": Frame(i, SIDE) for i in range(tree.n_bodies)}
    robot = KinematicTree(tree.name, bodies, marks, tree.gravity).with_friction()
    with TemporaryDirectory() as folder:
        again = written(robot, Path(folder, "r.urdf"))
    assert_same(robot, again, seed)
    for key in ("effort_limit", "velocity_limit"):
        expected = by_name(robot, again, getattr(robot, key), "v_slice")
        assert_allclose(getattr(again, key), expected)
    for one, other in zip(robot.position_limits, again.position_limits, strict=True):
        assert_allclose(other, by_name(robot, again, one, "q_slice"))


@pytest.mark.parametrize(
    "name",
    [
        "panda_description/urdf/panda.urdf",
        "ur_description/urdf/ur10_robot.urdf",
        "talos_data/robots/talos_reduced.urdf",
        "icub_description/robots/icub_reduced.urdf",
    ],
)
def test_robots_survive_and_pinocchio_reads_them(name: str, tmp_path: Path) -> None:
    pin = pytest.importorskip("pinocchio")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = dynsys.load(robot_path(name))
    again = written(robot, tmp_path / "r.urdf", friction="ignore", mimic="independent")
    assert again.joint_names == robot.joint_names
    assert_same(robot, again)
    assert {*robot.welds} == {*again.welds}
    for key, weld in robot.welds.items():
        other = again.welds[key]
        assert (weld.body, weld.children) == (other.body, other.children)
        assert_allclose(weld.inertia.matrix(), other.inertia.matrix(), atol=1e-10)
        assert_allclose(weld.parent_transform.r, other.parent_transform.r, atol=1e-12)
    model = pin.buildModelFromUrdf(str(tmp_path / "r.urdf"))
    original = pin.buildModelFromUrdf(str(robot_path(name)))
    rng = np.random.default_rng(1)
    for _ in range(3):
        q = pin.randomConfiguration(original)
        v, a = rng.normal(size=(2, original.nv))
        expected = pin.rnea(original, original.createData(), q, v, a)
        assert_allclose(pin.rnea(model, model.createData(), q, v, a), expected, atol=1e-9)


def test_sensors_in_welds_feel_the_same(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = dynsys.load(robot_path("panda_description/urdf/panda.urdf"))
    robot = robot.with_locked({"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.01})
    robot = robot.with_parameters({"panda_link7.mass": 3.0, "panda_joint3.coulomb_minus": 0.7})
    again = written(robot, tmp_path / "r.urdf")
    assert again.parameters["panda_joint3.coulomb_minus"] == 0.7
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 7))
    for joint in ("panda_hand_joint", "panda_finger_joint1"):
        readings = [
            TrueReadings(Layout(r, [sensors.ForceTorque("ft", joint)])).reference(
                q, qd, qdd, np.zeros((7, 6))
            )[1]
            for r in (robot, again)
        ]
        assert np.abs(readings[0]).max() > 0.01
        assert_allclose(readings[1], readings[0], atol=1e-10)


def test_a_body_lighter_than_its_parts_keeps_its_dynamics(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = dynsys.load(robot_path("panda_description/urdf/panda.urdf"))
    light = dict.fromkeys((f"panda_link7.m{x}" for x in "xyz"), 0.0) | {"panda_link7.mass": 0.1}
    robot = robot.with_parameters(light)
    with pytest.warns(ModelWarning, match="'panda_link7' is less than that of the links"):
        robot.to_urdf(tmp_path / "r.urdf")
    options = {"mimic": "independent", "friction": "ignore"}
    assert_same(robot, written(robot, tmp_path / "r.urdf", **options))


def test_what_urdf_cannot_hold_is_named(tmp_path: Path) -> None:
    chain = dynsys.synthetic.chain(2)
    screw = KinematicTree("s", [replace(chain.bodies[0], joint=Cylindrical())])
    with pytest.raises(ModelError, match="URDF has no cylindrical joint like 'link_1'"):
        screw.to_urdf(tmp_path / "r.urdf")
    plane = KinematicTree(
        "p", [replace(chain.bodies[0], joint=Planar(), damping=[1.0, 2.0, 2.0])]
    )
    with pytest.raises(ModelError, match=re.escape("one damping per joint, not [1.0, 2.0]")):
        plane.to_urdf(tmp_path / "r.urdf")
    with pytest.warns(ModelWarning, match="does not hold its gravity"):
        chain.with_gravity((0.0, 0.0, 0.0)).to_urdf(tmp_path / "r.urdf")
    with pytest.warns(ModelWarning, match="does not hold its smoothing"):
        chain.with_friction(smoothing=0.2).to_urdf(tmp_path / "r.urdf")
    with pytest.raises(ModelError, match="cannot be written"):
        chain.to_urdf(tmp_path / "nowhere" / "r.urdf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain.to_urdf(tmp_path / "r.urdf")


@pytest.mark.parametrize("pitch", [0.0, 1.0, np.pi / 2, np.pi / 2 - 1e-9, -np.pi / 2 + 1e-12])
def test_angles_of_a_rotation(pitch: float) -> None:
    for roll, yaw in np.random.default_rng(0).uniform(-3, 3, size=(20, 2)):
        E = rotation_from_rpy(np.array([roll, pitch, yaw]))
        assert_allclose(rotation_from_rpy(np.array(rpy_of(E))), E, atol=4e-16 * 2)


def test_masses_and_marks_of_the_base_are_no_part_of_it(tmp_path: Path) -> None:
    """A weld to the base keeps its inertia for sensors beneath; the base itself has none."""
    robot = dynsys.synthetic.chain(1)
    bare = KinematicTree(
        "bare", [replace(robot.bodies[0], inertia=Inertia.zero(), armature=1.0)]
    )
    assert_same(bare, written(bare, tmp_path / "r.urdf"))
