"""Conversion to and from Pinocchio and MuJoCo: round trips, power, dynamics."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynsys import KinematicTree, ModelError, ModelWarning, StateError, load
from dynsys.interop import MujocoMap, PinocchioMap, from_pinocchio
from dynsys.recursive import rnea
from tests.model.test_mjcf import MODEL
from tests.robots import ROBOTS, robot_path

pin = pytest.importorskip("pinocchio")


def quiet(path: Path, **options: Any) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return load(path, **options)


def quiet_from_pinocchio(model: Any) -> KinematicTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return from_pinocchio(model)


def states(robot: KinematicTree, count: int = 5) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    return q, *rng.normal(size=(3, count, robot.nv))


def assert_same_dynamics(robot: KinematicTree, model: Any) -> None:
    convert = PinocchioMap(robot, model)
    data = model.createData()
    for q, v, a, _ in zip(*states(robot, 3), strict=True):
        theirs = pin.rnea(
            model, data, convert.q_to_pin(q), convert.v_to_pin(v), convert.v_to_pin(a)
        )
        expected = convert.tau_from_pin(theirs)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(rnea(robot, q, v, a), expected, rtol=0, atol=1e-12 * scale)


def assert_round_trips(robot: KinematicTree, convert: PinocchioMap) -> None:
    q, v, _, tau = states(robot)
    back = convert.q_from_pin(convert.q_to_pin(q))
    np.testing.assert_allclose(back, q, atol=1e-14)
    np.testing.assert_array_equal(convert.v_from_pin(convert.v_to_pin(v)), v)
    np.testing.assert_array_equal(convert.tau_from_pin(convert.tau_to_pin(tau)), tau)
    np.testing.assert_array_equal(convert.q_to_pin(q)[0], convert.q_to_pin(q[0]))
    power = np.sum(convert.v_to_pin(v) * convert.tau_to_pin(tau), axis=-1)
    np.testing.assert_allclose(power, np.sum(v * tau, axis=-1), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "floating_base"), ROBOTS)
def test_real_robots_agree_with_pinocchio(file: str, floating_base: bool) -> None:
    base = [pin.JointModelFreeFlyer()] if floating_base else []
    model = pin.buildModelFromUrdf(str(robot_path(file)), *base)
    read = quiet(robot_path(file), floating_base=floating_base)
    for robot in (read, quiet_from_pinocchio(model)):
        assert_round_trips(robot, PinocchioMap(robot, model))
        assert_same_dynamics(robot, model)


def every_joint() -> Any:
    model = pin.Model()
    model.name = "every"
    axis = np.array([0.6, 0.0, 0.8])
    joints = {
        "free": pin.JointModelFreeFlyer(),
        "planar": pin.JointModelPlanar(),
        "ball": pin.JointModelSpherical(),
        "rx": pin.JointModelRX(),
        "ru": pin.JointModelRevoluteUnaligned(axis),
        "rub": pin.JointModelRUBY(),
        "pz": pin.JointModelPZ(),
        "pu": pin.JointModelPrismaticUnaligned(axis),
        "hx": pin.JointModelHX(0.3),
        "hu": pin.JointModelHelicalUnaligned(axis, -0.2),
    }
    parent = 0
    for i, (name, joint) in enumerate(joints.items()):
        pin.seed(i)
        parent = model.addJoint(parent, joint, pin.SE3.Random(), name)
        model.appendBodyToJoint(parent, pin.Inertia.Random(), pin.SE3.Identity())
        model.addBodyFrame(f"{name}_body", parent, pin.SE3.Identity(), 0)
    model.addFrame(pin.Frame("tool", parent, 0, pin.SE3.Random(), pin.FrameType.OP_FRAME))
    model.armature = np.linspace(0.1, 0.5, model.nv)
    model.lowerPositionLimit = np.full(model.nq, -1.0)
    model.upperPositionLimit = np.full(model.nq, 1.0)
    return model


def test_every_joint_type_of_pinocchio() -> None:
    model = every_joint()
    robot = quiet_from_pinocchio(model)
    assert robot.joint_names == tuple(model.names)[1:]
    assert robot.body_names[0] == "free_body"
    assert robot.frame("tool").body == robot.n_bodies - 1
    assert_round_trips(robot, PinocchioMap(robot, model))
    assert_same_dynamics(robot, model)


@pytest.mark.parametrize(
    "joint",
    [
        pin.JointModelComposite(pin.JointModelRX()),
        pin.JointModelTranslation(),
        pin.JointModelSphericalZYX(),
        pin.JointModelUniversal(np.array([1.0, 0, 0]), np.array([0, 1.0, 0])),
    ],
    ids=lambda joint: joint.shortname(),
)
def test_joints_without_counterpart_are_named(joint: Any) -> None:
    model = pin.Model()
    model.addJoint(0, joint, pin.SE3.Identity(), "odd")
    with pytest.raises(ModelError, match=r"'odd': Pinocchio's .* has no counterpart"):
        from_pinocchio(model)


def test_joints_without_limits_have_none() -> None:
    """Pinocchio writes the largest float64 for no limit."""
    model = pin.Model()
    for k, joint in enumerate((pin.JointModelRX(), pin.JointModelPZ()), start=1):
        model.addJoint(0, joint, pin.SE3.Identity(), f"joint_{k}")
        model.appendBodyToJoint(k, pin.Inertia.Identity(), pin.SE3.Identity())
    robot = from_pinocchio(model)
    lower, upper = robot.position_limits
    assert np.isneginf(lower).all() and np.isposinf(upper).all()
    assert np.isposinf(robot.effort_limit).all() and np.isposinf(robot.velocity_limit).all()
    assert np.abs(robot.random_configuration(0)).max() < 4


def test_coupled_joints_on_both_sides() -> None:
    path = robot_path("panda_description/urdf/panda.urdf")
    model = pin.buildModelFromUrdf(str(path), mimic=True)
    for robot in (quiet(path, mimic="couple"), quiet_from_pinocchio(model)):
        assert robot.nv == model.nv == 8
        assert_same_dynamics(robot, model)
        assert_round_trips(robot, PinocchioMap(robot, model))


def test_negative_ratios_other_joint_types_and_an_unbounded_skew_axis() -> None:
    inertial = (
        '<inertial><mass value="1"/><origin xyz="0.1 0.2 0.3"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    joints = (
        ("revolute", "0 1 0", ""),
        ("revolute", "0.6 0 0.8", '<mimic joint="j0" multiplier="-2.5" offset="0.3"/>'),
        ("prismatic", "0 0 1", '<mimic joint="j0" multiplier="-0.5" offset="0.1"/>'),
        ("continuous", "0.6 0 0.8", ""),
    )
    text = '<link name="l0"/>'
    for i, (kind, axis, mimic) in enumerate(joints):
        text += (
            f'<link name="l{i + 1}">{inertial}</link><joint name="j{i}" type="{kind}">'
            f'<parent link="l{i}"/><child link="l{i + 1}"/><origin xyz="1 0 0"/>'
            f'<axis xyz="{axis}"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
            f"{mimic}</joint>"
        )
    model = pin.buildModelFromXML(f'<robot name="r">{text}</robot>', mimic=True)
    robot = from_pinocchio(model)
    assert (robot.nv, model.nv, model.nq) == (2, 2, 3)
    assert_same_dynamics(robot, model)
    assert_round_trips(robot, PinocchioMap(robot, model))


def test_coupled_joints_on_our_side_only() -> None:
    path = robot_path("talos_data/robots/talos_full_v2.urdf")
    robot = quiet(path, mimic="couple", floating_base=True)
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    assert robot.nv == model.nv - 12
    assert_same_dynamics(robot, model)
    assert_round_trips(robot, PinocchioMap(robot, model))


def test_joints_that_differ_are_named(tmp_path: Path) -> None:
    text = (
        '<robot name="r"><link name="base"/><link name="a"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="{name}" type="{kind}"><parent link="base"/><child link="a"/>'
        '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>'
        "</joint></robot>"
    )

    def both(ours: dict[str, str], theirs: dict[str, str]) -> tuple[KinematicTree, Any]:
        path = tmp_path / "r.urdf"
        path.write_text(text.format(**ours))
        return quiet(path), pin.buildModelFromXML(text.format(**theirs))

    hinge = {"name": "j", "kind": "revolute"}
    for other, reason in (
        ({"name": "k", "kind": "revolute"}, "joint 'j' is not in the Pinocchio model"),
        ({"name": "j", "kind": "planar"}, "'j' is revolute here but JointModelPlanar"),
        ({"name": "j", "kind": "prismatic"}, "'j': its revolute axis differs"),
    ):
        with pytest.raises(ModelError, match=reason):
            PinocchioMap(*both(hinge, other))
    planar = {"name": "j", "kind": "planar"}
    with pytest.raises(ModelError, match="reads every planar joint as normal to z"):
        PinocchioMap(*both(planar, planar))
    robot, model = both(hinge, hinge)
    model.addJoint(1, pin.JointModelRX(), pin.SE3.Identity(), "more")
    with pytest.raises(ModelError, match="no joint 'more'"):
        PinocchioMap(robot, model)


def test_wrong_lengths_are_named() -> None:
    model = every_joint()
    convert = PinocchioMap(quiet_from_pinocchio(model), model)
    with pytest.raises(StateError, match=r"q must have shape"):
        convert.q_to_pin(np.zeros(3))
    with pytest.raises(StateError, match="Pinocchio's v must have shape"):
        convert.v_from_pin(np.zeros((2, 3)))
    with pytest.raises(StateError, match="tau is not numeric"):
        convert.tau_to_pin("x")


def test_mujoco_round_trips_and_power(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "m.xml"
    path.write_text(MODEL.format(glued="false"))
    model = mujoco.MjModel.from_xml_path(str(path))
    for mimic in ("independent", "couple"):
        robot = quiet(path, mimic=mimic)
        convert = MujocoMap(robot, model)
        q, v, a, tau = states(robot)
        qvel, qfrc = convert.v_to_mujoco(q, v), convert.tau_to_mujoco(q, tau)
        np.testing.assert_allclose(convert.q_from_mujoco(convert.q_to_mujoco(q)), q, atol=1e-14)
        np.testing.assert_allclose(convert.v_from_mujoco(q, qvel), v, atol=1e-14)
        np.testing.assert_allclose(convert.tau_from_mujoco(q, qfrc), tau, atol=1e-14)
        qacc = convert.a_to_mujoco(q, v, a)
        np.testing.assert_allclose(convert.a_from_mujoco(q, v, qacc), a, atol=1e-13)
        np.testing.assert_allclose(np.sum(qvel * qfrc, -1), np.sum(v * tau, -1), rtol=1e-12)
        np.testing.assert_array_equal(qvel[0], convert.v_to_mujoco(q[0], v[0]))


def test_mujoco_velocity_is_the_rate_of_its_position(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "m.xml"
    path.write_text(MODEL.format(glued="false"))
    model = mujoco.MjModel.from_xml_path(str(path))
    robot = quiet(path)
    convert = MujocoMap(robot, model)
    (q, *_), (v, *_), *_ = states(robot, 1)
    step = 1e-6
    difference = np.zeros(model.nv)
    before, after = (
        convert.q_to_mujoco(robot.integrate(q, v, dt)) for dt in (-step / 2, step / 2)
    )
    mujoco.mj_differentiatePos(model, difference, step, before, after)
    np.testing.assert_allclose(convert.v_to_mujoco(q, v), difference, atol=1e-8)


def test_the_only_free_joint_of_mujoco_is_our_root(tmp_path: Path) -> None:
    """Whatever it is called there: ours, added to a URDF, has the name root."""
    mujoco = pytest.importorskip("mujoco")
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    text = """<mujoco><worldbody><body name="a"><freejoint name="{}"/>{}
        <body name="b"><joint name="j"/>{}</body></body></worldbody></mujoco>"""
    path = tmp_path / "m.xml"
    path.write_text(text.format("root", inertial, inertial))
    model = mujoco.MjModel.from_xml_string(text.format("floats", inertial, inertial))
    robot = quiet(path)
    assert robot.joint_names[0] == "root"
    v = np.arange(1.0, 8.0)
    q = robot.neutral()
    np.testing.assert_allclose(MujocoMap(robot, model).v_to_mujoco(q, v)[6:], v[6:])


def test_mujoco_joints_that_differ_are_named(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    body = '<body name="b"><joint name="j" type="{}"/><geom size="0.1" pos="0.2 0 0"/></body>'
    text = f"<mujoco><worldbody>{body}</worldbody></mujoco>"
    path = tmp_path / "m.xml"
    path.write_text(text.format("hinge"))
    with pytest.raises(ModelError, match="'j' is revolute here but of type 2"):
        MujocoMap(quiet(path), mujoco.MjModel.from_xml_string(text.format("slide")))
