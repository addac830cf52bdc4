"""Joints welded at a position: the same robot with fewer freedoms."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from numpy.testing import assert_allclose

import dynsys
import sensors
from dynsys import KinematicTree, ModelError, forward_kinematics
from dynsys.model.body import Body, Frame
from dynsys.model.joints import Free
from dynsys.model.spatial import Transform, rotation_from_rpy
from dynsys.model.synthetic import cloud_inertia
from dynsys.recursive import rnea
from experiments.constrained.robots import four_bar
from problems import ForwardDynamics
from problems.measured.simulated_readings import TrueReadings
from sensors import Layout
from tests import strategies
from tests.robots import robot_path

PANDA = "panda_description/urdf/panda.urdf"
SIDE = Transform(rotation_from_rpy(np.array([0.3, 0.1, -0.7])), np.array([0.2, 0.0, -0.1]))


@given(strategies.trees(max_bodies=6, coupled=True), strategies.seeds)
@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
def test_a_locked_robot_moves_like_one_whose_joints_stand(
    tree: KinematicTree, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    marks = {f"mark_{i}": Frame(i, SIDE) for i in range(tree.n_bodies)}
    robot = KinematicTree(tree.name, tree.bodies, marks, tree.gravity)
    leaders = [i for i, body in enumerate(robot.bodies) if body.coupling is None]
    count = rng.integers(0, len(leaders), endpoint=True)
    chosen = [int(i) for i in rng.choice(leaders, count, replace=False)]
    q, qd, qdd = robot.random_configuration(rng), *rng.normal(size=(2, robot.nv))
    stands, in_q = np.zeros(robot.nv, dtype=bool), np.zeros(robot.nq, dtype=bool)
    for i in chosen:
        stands[robot.v_slices()[i]], in_q[robot.q_slices()[i]] = True, True
    assume(not stands.all())
    qd[stands] = qdd[stands] = 0.0
    fixed = robot.with_locked({robot.joint_names[i]: q[robot.q_slices()[i]] for i in chosen})
    assert fixed.nv == (~stands).sum()
    torque = rnea(robot, q, qd, qdd)
    found = rnea(fixed, q[~in_q], qd[~stands], qdd[~stands])
    assert_allclose(found, torque[~stands], rtol=1e-9, atol=1e-9)
    for name in (*robot.body_names, *marks):
        expected, pose = (
            forward_kinematics(robot, q, name),
            forward_kinematics(fixed, q[~in_q], name),
        )
        assert_allclose(pose.E, expected.E, atol=1e-12)
        assert_allclose(pose.r, expected.r, atol=1e-12)
    # a sensor in a joint feels the same before and after
    for i in chosen:
        joint = robot.joint_names[i]
        before, after = (
            TrueReadings(Layout(r, [sensors.ForceTorque("ft", joint)])) for r in (robot, fixed)
        )
        nothing = np.zeros((robot.n_bodies, 6))
        y = before.reference(q, qd, qdd, nothing)[1]
        if fixed.welds[joint].body < 0:
            continue
        ours_y = after.reference(
            q[~in_q], qd[~stands], qdd[~stands], nothing[: fixed.n_bodies]
        )[1]
        assert_allclose(ours_y, y, rtol=1e-8, atol=1e-8)


def panda(**options: object) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dynsys.load(robot_path(PANDA), **options)  # type: ignore[arg-type]


def test_the_fingers_of_a_panda_against_pinocchio() -> None:
    pin = pytest.importorskip("pinocchio")
    lock = {"panda_finger_joint1": 0.02, "panda_finger_joint2": 0.01}
    robot = panda(lock=lock)
    whole = pin.buildModelFromUrdf(str(robot_path(PANDA)))
    q = pin.neutral(whole)
    ids = [whole.getJointId(name) for name in lock]
    for i, value in zip(ids, lock.values(), strict=True):
        q[whole.joints[i].idx_q] = value
    model = pin.buildReducedModel(whole, ids, q)
    assert [*robot.joint_names] == [*model.names][1:]
    rng, data = np.random.default_rng(0), model.createData()
    for _ in range(5):
        q, v, a = rng.normal(size=(3, 7))
        assert_allclose(rnea(robot, q, v, a), pin.rnea(model, data, q, v, a), atol=1e-11)
    finger = robot.welds["panda_finger_joint1"]
    assert finger.link == "panda_leftfinger"
    assert robot.body_names[finger.body] == "panda_link7"
    hand = robot.welds["panda_hand_joint"]
    both = panda().bodies
    fingers = sum(b.inertia.mass for b in both if b.name.endswith("finger"))
    assert_allclose(hand.inertia.mass, panda().welds["panda_hand_joint"].inertia.mass + fingers)
    assert hand.children == ()


GRIPPER = """<robot name="g"><link name="base"/>{links}
<joint name="arm" type="revolute"><parent link="base"/><child link="l0"/></joint>
<joint name="left" type="prismatic"><parent link="l0"/><child link="l1"/></joint>
<joint name="right" type="prismatic"><parent link="l0"/><child link="l2"/>
<mimic joint="left" multiplier="-2" offset="0.1"/></joint>
<joint name="tip" type="revolute"><parent link="l2"/><child link="l3"/>
<mimic joint="right"/></joint></robot>"""
LINK = """<link name="{}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>"""


@pytest.mark.parametrize("mimic", ["independent", "couple"])
def test_followers_of_a_locked_joint_stand_too(mimic: str, tmp_path: Path) -> None:
    path = tmp_path / "g.urdf"
    path.write_text(GRIPPER.format(links="".join(LINK.format(f"l{k}") for k in range(4))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left to be read as independent
        robot = dynsys.load(path, mimic=mimic, lock={"left": 0.3})  # type: ignore[arg-type]
    assert robot.joint_names == ("arm",)
    assert_allclose(robot.frame("l2").transform.r, [-2 * 0.3 + 0.1, 0.0, 0.0])
    angle = -2 * 0.3 + 0.1
    assert_allclose(robot.frame("tip").transform.E[1, 2], np.sin(angle), atol=1e-12)
    assert robot.bodies[0].inertia.mass == 4.0
    if mimic == "independent":
        apart = dynsys.load(path, lock={"left": 0.3, "right": 0.0})
        assert apart.joint_names == ("arm",)
        assert_allclose(apart.frame("l2").transform.r, np.zeros(3))
        assert_allclose(apart.frame("tip").transform.E, np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("lock", "message"),
    [
        ({"lef": 0.0}, "has no joint 'lef'; did you mean 'left'?"),
        ({"right": 0.0}, "joint 'right' follows 'left' and cannot be locked by itself"),
        ({"left": [1.0, 2.0]}, "joint 'left' is locked at .*; give a number"),
        ({"left": "open"}, "joint 'left' is locked at 'open'; give a number"),
        ({"left": np.nan}, "joint 'left'"),
        ({"arm": 0.0, "left": 0.0}, "no moving body"),
    ],
)
def test_what_cannot_be_locked_is_named(
    lock: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "g.urdf"
    path.write_text(GRIPPER.format(links="".join(LINK.format(f"l{k}") for k in range(4))))
    with pytest.raises(ModelError, match=message):
        dynsys.load(path, mimic="couple", lock=lock)  # type: ignore[arg-type]


@pytest.mark.finding("B-9")
def test_a_loop_that_is_locked_as_a_whole_holds_nothing_more() -> None:
    """Its ends are parts of one body; a loop of which a joint still moves goes on to hold."""
    case = four_bar()
    robot = case.robot.with_constraints(case.constraints)
    bodies = [Body("trunk", -1, Free(), inertia=cloud_inertia(np.random.default_rng(0)))]
    bodies += [replace(body, parent=body.parent + 1) for body in robot.bodies]
    frames = {name: replace(one, body=one.body + 1) for name, one in robot.frames.items()}
    flying = KinematicTree("flying", bodies, frames, constraints=robot.constraints)
    still = dict.fromkeys(robot.joint_names, 0.0)
    locked = flying.with_locked(still)
    assert not locked.constraints
    zero = np.zeros(6)
    found = ForwardDynamics(locked, constraints="file").solve(locked.neutral(), zero, zero)
    assert_allclose(found.qdd[3:], locked.gravity, atol=1e-9)
    assert len(flying.with_locked({robot.joint_names[0]: 0.0}).constraints) == len(
        robot.constraints
    )
