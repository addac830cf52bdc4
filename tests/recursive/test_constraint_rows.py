"""Rows of constraints against poses of bodies and their differences in time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynsys import (
    FrameConstraint,
    JointConstraint,
    KinematicTree,
    ModelError,
    forward_kinematics,
    synthetic,
)
from dynsys.model.body import Body
from dynsys.model.constraints import Axes, Constraint, checked_constraints
from dynsys.model.joints import Free
from dynsys.model.spatial import Inertia, Transform, rotation_from_rpy
from dynsys.recursive.constraint_rows import closest_configuration, dense_rows
from dynsys.types import Array
from tests import oracles, strategies

AXES: tuple[Axes, ...] = ("frame", "other", "world")
STEP = 1e-5


def placement(seed: int) -> Transform:
    rng = np.random.default_rng(seed)
    return Transform(rotation_from_rpy(rng.normal(size=3)), rng.normal(size=3))


def pose_matrix(X: Transform) -> Array:
    return oracles.pose(np.asarray(X.E).T, np.asarray(X.r))


def velocity_by_differences(
    robot: KinematicTree, held: FrameConstraint, q: Array, qd: Array
) -> Array:
    """Rows (6,) from homogeneous matrices only: the pose of F in G, turned into the axes."""
    own, other = held.ends(robot)

    def poses(t: float) -> tuple[Array, Array]:
        bodies = oracles.body_poses(robot, robot.integrate(q, qd, t))
        F = bodies[own.body] @ pose_matrix(own.transform)
        above = np.eye(4) if other.body < 0 else bodies[other.body]
        return F, above @ pose_matrix(other.transform)

    def relative(t: float) -> Array:
        F, G = poses(t)
        return np.asarray(np.linalg.inv(G) @ F)

    ahead, back = (
        oracles.velocity_between(relative(0.0), relative(t), t) for t in (STEP, -STEP)
    )
    V, (F, G) = (ahead + back) / 2, poses(0.0)
    turn = {"frame": np.eye(3), "other": (np.linalg.inv(G) @ F)[:3, :3], "world": F[:3, :3]}
    return np.concatenate([turn[held.axes] @ V[:3], turn[held.axes] @ V[3:]])


@settings(max_examples=40)
@given(robot=strategies.trees(coupled=True), data=st.data(), seed=strategies.seeds)
def test_velocity_drift_and_error_of_frames(
    robot: KinematicTree, data: st.DataObject, seed: int
) -> None:
    bodies = st.integers(0, robot.n_bodies - 1)
    frame, other = data.draw(bodies), data.draw(st.one_of(st.none(), bodies))
    held = FrameConstraint(
        "held",
        frame,
        None if other == frame else other,
        axes=data.draw(st.sampled_from(AXES)),
        placement=placement(seed),
        other_placement=placement(seed + 1),
    )
    rng = np.random.default_rng(seed)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    rows = dense_rows(robot, [held], q, qd)
    scale = 1.0 + np.abs(rows.velocity).max() ** 2
    by_pose = velocity_by_differences(robot, held, q, qd)
    np.testing.assert_allclose(rows.velocity, by_pose, atol=1e-7 * scale)
    np.testing.assert_allclose(rows.J @ qd, rows.velocity, atol=1e-12 * scale)

    def velocity(t: float) -> Array:
        return dense_rows(robot, [held], robot.integrate(q, qd, t), qd).velocity

    rate = oracles.central_difference(velocity, STEP)
    np.testing.assert_allclose(rows.drift, rate, atol=1e-6 * scale)
    if held.axes == "other":  # there the velocity is the rate of the position itself

        def error(t: float) -> Array:
            return dense_rows(robot, [held], robot.integrate(q, qd, t), qd).error

        moved = oracles.central_difference(error, STEP)
        np.testing.assert_allclose(rows.velocity[3:], moved[3:], atol=1e-6 * scale)


def test_joint_that_follows_a_polynomial() -> None:
    robot = synthetic.chain(4)
    held = JointConstraint("gear", "link_3", "link_1", (0.1, 0.5, -0.2, 0.3), start=0.2)
    rng = np.random.default_rng(0)
    q, qd = rng.normal(size=(2, 4))
    rows = dense_rows(robot, [held], q, qd)
    x = q[0] - 0.2
    assert rows.error == pytest.approx(q[2] - (0.1 + 0.5 * x - 0.2 * x**2 + 0.3 * x**3))

    def part(name: str, t: float) -> Array:
        return np.asarray(getattr(dense_rows(robot, [held], q + t * qd, qd), name))

    for value, of in ((rows.velocity, "error"), (rows.drift, "velocity")):
        rate = oracles.central_difference(lambda t, of=of: part(of, t), STEP)  # type: ignore[misc]
        np.testing.assert_allclose(value, rate, atol=1e-8)


def test_a_joint_that_stands() -> None:
    robot = synthetic.chain(2)
    rows = dense_rows(
        robot, [JointConstraint("stop", "link_2", None, (0.4,))], np.ones(2), np.ones(2)
    )
    assert rows.error.item() == pytest.approx(0.6)
    np.testing.assert_array_equal(rows.J, [[0, 1]])


def test_configurations_that_close_loops() -> None:
    robot = synthetic.chain(7, generic=True)
    there = forward_kinematics(robot, np.full(7, 0.5), "link_7")
    tip = FrameConstraint("tip", "link_7", other_placement=there)
    q, error = closest_configuration(robot, [tip], np.full(7, 0.2))
    assert error < 1e-12
    np.testing.assert_allclose(forward_kinematics(robot, q, "link_7").r, there.r, atol=1e-12)
    np.testing.assert_allclose(forward_kinematics(robot, q, "link_7").E, there.E, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FrameConstraint("c", "link_1", components=("x", "q")), "directions are rx"),
        (lambda: FrameConstraint("c", "link_1", components=()), "at least one"),
        (lambda: FrameConstraint("c", "link_1", components=("x", "x")), "once"),
        (lambda: FrameConstraint("c", "link_1", axes="body"), "'frame', 'other' or 'world'"),
        (lambda: FrameConstraint("c", "link_9"), "no body or frame 'link_9'"),
        (lambda: FrameConstraint("c", -1), "never moves"),
        (lambda: FrameConstraint("c", "link_1", "link_1"), "same body"),
        (lambda: JointConstraint("c", "link_1", "link_1"), "leads itself"),
        (lambda: JointConstraint("c", "link_1", "link_2", ("a",)), "finite numbers"),
        (lambda: JointConstraint("c", "link_1", "link_2", ()), "finite numbers"),
        (lambda: "link_1", "is a str"),
    ],
)
def test_constraints_that_make_no_sense(make: object, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        checked_constraints(synthetic.chain(3), [make()])  # type: ignore[operator]


def test_names_are_their_own() -> None:
    twice: list[Constraint] = [FrameConstraint("c", "link_1"), JointConstraint("c", "link_2")]
    with pytest.raises(ModelError, match="two constraints are called 'c'"):
        checked_constraints(synthetic.chain(3), twice)


def test_constraints_outlive_locked_joints() -> None:
    gear = JointConstraint("gear", "link_3", "link_1", (0.0, 2.0))
    robot = synthetic.chain(4).with_constraints([gear, FrameConstraint("tip", "link_4")])
    locked = robot.with_locked({"link_1": 0.5, "link_2": 0.1})
    stands, tip = checked_constraints(locked, locked.constraints)
    assert isinstance(stands, JointConstraint) and stands.leader is None
    assert stands.coefficients == (1.0,) and tip.name == "tip"
    with pytest.raises(ModelError, match="lock that one"):
        robot.with_locked({"link_3": 0.0})


# ---- hinges, and half a turn -----------------------------------------------------------------


def box() -> KinematicTree:
    inertia = Inertia(1.0, np.zeros(3), np.diag([1.0, 1.25, 1.5]))
    return KinematicTree("box", [Body("box", -1, Free(), inertia=inertia)])


def turned(axis: int, angle: float) -> Array:
    """The box, turned about an axis."""
    robot = box()
    q = robot.neutral().copy()
    q[robot.quaternion_slices[0]] = [*(np.sin(angle / 2) * np.eye(3)[axis]), np.cos(angle / 2)]
    return q


@pytest.mark.parametrize("axes", ["frame", "other"])
@pytest.mark.parametrize("free", [0, 1, 2])
@pytest.mark.parametrize("angle", [0.0, 1.0, 3.0, np.pi])
@pytest.mark.finding("U-3")
def test_errors_of_a_hinge_change_as_it_moves(axes: Axes, free: int, angle: float) -> None:
    """At any angle of the hinge: at half a turn the sine of the whole rotation is blind."""
    robot = box()
    held = [name for k, name in enumerate(("rx", "ry", "rz")) if k != free]
    hinge = FrameConstraint(
        "hinge", "box", components=held, axes=axes, other_placement=Transform.identity()
    )
    q, v, h = turned(free, angle), np.random.default_rng(free).normal(size=6), 1e-6
    still = np.zeros(6)
    rows = dense_rows(robot, [hinge], q, v)
    np.testing.assert_allclose(rows.error, 0.0, atol=1e-15)
    ends = [dense_rows(robot, [hinge], robot.integrate(q, v, t), still).error for t in (h, -h)]
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), rows.velocity, atol=1e-8)


def test_errors_of_a_frame_turn_with_the_axes() -> None:
    """Held whole: in axes of the world as in its own, turned."""
    robot = box()
    q = robot.random_configuration(3)
    one, other = (
        dense_rows(
            robot,
            [FrameConstraint("held", "box", axes=axes, other_placement=Transform.identity())],
            q,
            np.zeros(6),
        ).error
        for axes in ("frame", "world")
    )
    E = forward_kinematics(robot, q, "box").E  # of world coordinates to those of the box
    np.testing.assert_allclose(other, np.concatenate([E.T @ one[:3], E.T @ one[3:]]))


@pytest.mark.parametrize("components", [("rx", "ry", "rz"), ("rx", "ry")])
@pytest.mark.finding("U-4")
def test_half_a_turn_is_not_closed(components: tuple[str, ...]) -> None:
    """The sine of half a turn is zero: frames upside down counted as closed."""
    robot, held = (
        box(),
        FrameConstraint(
            "held", "box", components=components, other_placement=Transform.identity()
        ),
    )
    assert closest_configuration(robot, [held], turned(0, np.pi))[1] > 1.0
    found, error = closest_configuration(robot, [held], turned(0, 3.0))
    assert error < 1e-10
    np.testing.assert_allclose(np.abs(found[robot.quaternion_slices[0]][3]), 1.0)
