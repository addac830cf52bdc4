"""Joint sensors, mimic and loop constraints, and rows written by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dynsys import KinematicTree, LayoutError, synthetic
from dynsys.model.spatial import Transform
from dynsys.model.tree import Body, Coupling
from dynsys.system.unknowns import UnknownLayout
from sensors import (
    JointAcceleration,
    JointTorque,
    LinearMeasurement,
    LoopClosure,
    MimicConstraint,
    MotorAcceleration,
    MotorTorque,
    RigidContact,
)
from tests.sensors.truth import SIDE, TOLERANCE, XYZ, Motion, with_frames


@pytest.fixture(params=range(3))
def motion(request: pytest.FixtureRequest) -> Motion:
    tree = synthetic.random_tree(8, request.param)
    return Motion.random(with_frames(tree, tool=5, sole=2, wall=-1), request.param)


def test_torque_and_acceleration_of_every_joint(motion: Motion) -> None:
    robot = motion.robot
    for name in robot.joint_names:
        v = robot.v_slice(name)
        if v.stop == v.start:
            continue
        torque = motion.reading(JointTorque("s", name))
        np.testing.assert_allclose(torque, motion.torque[v], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(motion.reading(JointAcceleration("s", name)), motion.qdd[v])
        last = v.stop - v.start - 1
        one = motion.reading(JointTorque("s", name, last))
        np.testing.assert_allclose(one, torque[[last]])


def test_motor_side(motion: Motion) -> None:
    robot = motion.robot
    i = next(i for i, joint in enumerate(robot.joints) if joint.nv == 1)
    name, k = robot.joint_names[i], robot.v_slices()[i].start
    sensor = MotorTorque(
        "s", name, -100.0, viscous=0.3, coulomb=2.0, smoothing=0.05, rotor_inertia=1e-4
    )
    qd, qdd, tau = motion.qd[k], motion.qdd[k], motion.torque[k]
    dry = 2.0 * qd / np.sqrt(qd**2 + 0.05**2)
    expected = (tau + 0.3 * qd + dry) / -100.0 + 1e-4 * -100.0 * qdd
    np.testing.assert_allclose(motion.reading(sensor), [expected], rtol=1e-9)
    np.testing.assert_allclose(
        motion.reading(MotorAcceleration("s", name, -100.0)), [-100.0 * qdd]
    )
    with pytest.raises(LayoutError, match="gear_ratio"):
        motion.reading(MotorTorque("s", name, 0.0))


def coupled_chain() -> KinematicTree:
    tree = synthetic.chain(4)
    bodies = list(tree.bodies)
    old = bodies[3]
    bodies[3] = Body(
        old.name,
        old.parent,
        old.joint,
        old.placement,
        old.inertia,
        old.joint_name,
        coupling=Coupling(1, -0.5, 0.1),
    )
    return KinematicTree("coupled", bodies)


def test_sensors_of_a_coupled_joint_are_its_own() -> None:
    """Acceleration ratio * qdd, and the torque of the joint itself, not its leader's."""
    robot = coupled_chain()
    motion = Motion.random(robot, 0)
    follower, leader = robot.joint_names[3], robot.joint_names[1]
    qdd = motion.qdd[robot.v_slice(leader)]
    np.testing.assert_allclose(motion.reading(JointAcceleration("s", follower)), -0.5 * qdd)
    unknowns = UnknownLayout(robot)
    f = motion.d[unknowns.block("joint_wrench", 3).columns]
    expected = robot.joints[3].S.T @ f
    np.testing.assert_allclose(motion.reading(JointTorque("s", follower)), expected)
    with pytest.raises(LayoutError, match="as one"):
        MimicConstraint("m", follower, leader).blocks(unknowns)


def test_mimic_constraint() -> None:
    robot = synthetic.chain(4)
    motion = Motion.random(robot, 1)
    a, b = robot.joint_names[0], robot.joint_names[2]
    reading = motion.reading(MimicConstraint("m", a, b, 0.4))
    np.testing.assert_allclose(reading, [motion.qdd[0] - 0.4 * motion.qdd[2]])


@pytest.mark.parametrize(
    "pair", [("tool", "sole"), ("sole", "tool"), ("wall", "tool"), ("tool", "wall")]
)
def test_loop_closure_is_the_second_rate_of_a_relative_pose(
    motion: Motion, pair: tuple[str, str]
) -> None:
    a, b = pair

    def relative(q: np.ndarray) -> Transform:
        return motion.pose(q, a).inverse().then(motion.pose(q, b))

    position = motion.second_rate(lambda q: relative(q).r)
    _, turning = motion.turning(lambda q: relative(q).E)
    reading = motion.reading(LoopClosure("s", a, b))
    np.testing.assert_allclose(
        reading, np.concatenate([turning, position]), atol=TOLERANCE * 20
    )
    part = motion.reading(LoopClosure("s", a, b, ["y", "rz"]))
    np.testing.assert_allclose(part, reading[[4, 2]])


@pytest.mark.parametrize("pair", [("tool", "sole"), ("wall", "tool"), ("tool", "wall")])
def test_loop_closure_along_other_axes(motion: Motion, pair: tuple[str, str]) -> None:
    """The rate, in the chosen axes, of the velocity of B's origin against A."""
    a, b = pair

    def place(t: float) -> np.ndarray:
        return motion.pose(motion.at(t), a).inverse().then(motion.pose(motion.at(t), b)).r

    def rate(of: Callable[[float], np.ndarray], t: float) -> np.ndarray:
        h = 2e-3
        return (of(t - 2 * h) - 8 * of(t - h) + 8 * of(t + h) - of(t + 2 * h)) / (12 * h)

    for axes, turn in (
        ("b", lambda q: motion.pose(q, b).E @ motion.pose(q, a).E.T),
        ("world", lambda q: motion.pose(q, a).E.T),
    ):
        expected = rate(lambda t, turn=turn: turn(motion.at(t)) @ rate(place, t), 0.0)
        reading = motion.reading(LoopClosure("s", a, b, ["x", "y", "z"], axes))
        np.testing.assert_allclose(reading, expected, atol=TOLERANCE * 20)


@pytest.mark.parametrize("components", [["z"], ["x", "rz", "y"]])
def test_rigid_contact_along_axes_of_the_world(motion: Motion, components: list[str]) -> None:
    sensor = RigidContact("s", "tool", XYZ, components=components, axes="world")
    own = motion.reading(RigidContact("s", "tool", XYZ))
    E = motion.pose(motion.q, "tool").E
    turned = dict(
        zip(("rx", "ry", "rz", "x", "y", "z"), np.r_[E.T @ own[:3], E.T @ own[3:]], strict=True)
    )
    np.testing.assert_allclose(
        motion.reading(sensor), [turned[name] for name in components], atol=1e-10
    )
    some = RigidContact("s", "tool", XYZ, components=["z", "rx"])
    np.testing.assert_allclose(motion.reading(some), own[[5, 0]])
    with pytest.raises(LayoutError, match="has no rotation"):
        motion.reading(RigidContact("s", "tool", XYZ, "point", components=["rx"]))


def test_constraints_on_one_body_or_the_base_are_refused(motion: Motion) -> None:
    unknowns = UnknownLayout(motion.robot)
    with pytest.raises(LayoutError, match="same body"):
        LoopClosure("s", "tool", 5).blocks(unknowns)
    with pytest.raises(LayoutError, match="never accelerates"):
        RigidContact("s", "wall").blocks(unknowns)


def test_rows_written_by_hand(motion: Motion) -> None:
    robot, unknowns = motion.robot, UnknownLayout(motion.robot)
    i = next(i for i, joint in enumerate(robot.joints) if joint.nv == 1)
    joint = robot.joint_names[i]
    C = np.arange(12.0).reshape(2, 6)
    sensor = LinearMeasurement(
        "s",
        {
            "torque": {joint: [[2.0], [3.0]]},
            "external_wrench": {"tool": C},
            "acceleration": {robot.body_names[1]: C},
        },
        bias=[1.0, 2.0],
    )
    wrench = SIDE.inverse().matrix().T @ motion.wrenches[5]
    acceleration = motion.d[unknowns.block("acceleration", 1).columns]
    tau = motion.torque[robot.v_slices()[i]][0]
    expected = np.array([2.0, 3.0]) * tau + C @ wrench + C @ acceleration + [1.0, 2.0]
    np.testing.assert_allclose(motion.reading(sensor), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("coefficients", "message"),
    [
        ({}, "must map"),
        ({"torqe": {"a": [1.0]}}, "did you mean 'torque'"),
        ({"torque": {"a": [[1.0], [1.0, 2.0]]}}, "equal length"),
        ({"torque": {"a": "x"}}, "must be a list"),
        ({"torque": {"a": [[1.0]], "b": [[1.0], [2.0]]}}, "same number of rows"),
    ],
)
def test_bad_coefficients(coefficients: dict[str, object], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        LinearMeasurement("s", coefficients)  # type: ignore[arg-type]


def test_coefficients_must_fit_the_robot(motion: Motion) -> None:
    unknowns = UnknownLayout(motion.robot)
    for coefficients, message in (
        ({"torque": {"nobody": [1.0]}}, "no joint"),
        ({"acceleration": {"wall": [1.0] * 6}}, "fixed base"),
        ({"acceleration": {"tool": [1.0] * 5}}, "not 6"),
        ({"net_wrench": {"tool": [1.0] * 6}}, "net_wrench=True"),
    ):
        with pytest.raises(LayoutError, match=message):
            LinearMeasurement("s", coefficients).blocks(unknowns)
