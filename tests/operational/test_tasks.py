"""Kinds of tasks: their Jacobian, and Jdot qd against differences in extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from dynsys import (
    BodyMotion,
    CentreOfMass,
    KinematicTree,
    ModelError,
    Posture,
    RelativeMotion,
    synthetic,
)
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import random_rotation
from dynsys.model.tree import Frame
from dynsys.operational.moving_frames import MovingFrames
from dynsys.operational.tasks import AbstractTask, TaskSpace, as_levels
from dynsys.program.frames import reframe
from dynsys.recursive.kinematics import transforms
from dynsys.types import Array, ScalarArray
from tests import oracles, strategies
from tests.robots import CHAIN


def every_kind(a: str, b: str, c: str) -> dict[str, AbstractTask]:
    """Tasks of all kinds, in all axes, of the last two bodies or frames relative to c."""
    tasks: dict[str, AbstractTask] = {"com": CentreOfMass(), "posture": Posture()}
    for axes in ("own", "world", c):
        for part in ("pose", "position", "orientation"):
            tasks[f"body {part} {axes}"] = BodyMotion(a, axes=axes, coordinates=part)
            tasks[f"relative {part} {axes}"] = RelativeMotion(a, b, axes, part)
    tasks["relative in b"] = RelativeMotion(a, b, axes=b)
    tasks["relative to the base"] = RelativeMotion(a, -1, axes="world")
    tasks["base relative"] = RelativeMotion(-1, a)
    tasks["some"] = BodyMotion(b, coordinates=("linear z", "angular x"), axes="world")
    tasks["rows"] = BodyMotion(b, np.arange(12.0).reshape(2, 6), axes=c)
    tasks["com in a frame"] = CentreOfMass(axes=c, coordinates=("z", "x"))
    return tasks


def with_frame(robot: KinematicTree, body: int) -> KinematicTree:
    """Return the robot with a frame "tool" on a body, turned and moved."""
    rng = np.random.default_rng(3)
    tool = Frame(body, Transform(random_rotation(rng), rng.normal(size=3)))
    return KinematicTree(robot.name, robot.bodies, {"tool": tool}, robot.gravity)


@pytest.mark.slow
@settings(max_examples=25)
@given(strategies.states(max_bodies=5))
def test_bias_is_the_rate_of_the_jacobian(state: strategies.State) -> None:
    """Jdot qd = d/dt (J qd) along q(t), by differences of J in extended precision."""
    robot, q64, qd64, _, _ = state
    robot = with_frame(robot, robot.n_bodies - 1)
    names = robot.body_names
    tasks = every_kind("tool", names[len(names) // 2], names[0])
    space = TaskSpace(robot, list(tasks.values()))
    q, qd = q64.astype(np.longdouble), qd64.astype(np.longdouble)
    rate, h = robot.tangent(q) @ qd, np.longdouble(1e-4)

    def J(t: np.longdouble) -> ScalarArray:
        return space.jacobian_scalars(transforms(robot, q + t * rate))

    J_rate = (8 * (J(h) - J(-h)) - (J(2 * h) - J(-2 * h))) / (12 * h)
    found = space.bias(MovingFrames(robot, q, qd))
    assert found.dtype == np.longdouble
    for number, name in enumerate(tasks):
        rows = space.rows(number)
        size = 1 + np.abs(J_rate[rows]).max() * np.abs(qd).max()
        error = np.abs(found[rows] - J_rate[rows] @ qd).max()
        assert error < 1e-13 * size, name  # float64 would leave 1e-12
    if not robot.is_coupled:  # the same from other link frames
        again = space.bias(MovingFrames(robot, q, qd, reframe(robot)))
        assert_allclose(
            again.astype(float), found.astype(float), atol=1e-13 * (1 + np.abs(found).max())
        )


def test_jacobians_in_other_axes() -> None:
    robot = with_frame(synthetic.asimo(), 12)
    q = robot.random_configuration(1)
    poses = oracles.body_poses(robot, q)
    tool = robot.frame("tool")
    R_tool = poses[12][:3, :3] @ tool.transform.E.T
    J = tool.transform.matrix() @ oracles.jacobian(robot, q, 12)
    c = robot.body_names[20]

    def of(*tasks: AbstractTask) -> Array:
        space = TaskSpace(robot, tasks)
        return np.asarray(space.jacobian_scalars(transforms(robot, q)))

    def turned(R: Array) -> Array:
        return np.vstack([R @ J[:3], R @ J[3:]])

    assert_allclose(of(BodyMotion("tool")), J, atol=1e-12)
    assert_allclose(of(BodyMotion("tool", axes="world")), turned(R_tool), atol=1e-12)
    there = poses[20][:3, :3].T @ R_tool
    assert_allclose(of(BodyMotion("tool", axes=c)), turned(there), atol=1e-12)
    some = BodyMotion("tool", axes=c, coordinates=("linear y", "angular z"))
    assert_allclose(of(some), turned(there)[[4, 2]], atol=1e-12)
    assert_allclose(of(Posture()), np.eye(robot.nv), atol=1e-12)
    joint = robot.joint_names[7]
    assert_allclose(of(Posture(joint)), np.eye(robot.nv)[robot.v_slice(joint)], atol=1e-12)
    com = of(CentreOfMass())
    assert_allclose(of(CentreOfMass(c, ("y",))), (poses[20][:3, :3].T @ com)[1:2], atol=1e-12)


def test_what_is_no_task_is_said() -> None:
    robot = synthetic.chain(3)
    tip = robot.body_names[-1]
    for task in (
        BodyMotion(tip, coordinates="positions"),
        BodyMotion(tip, coordinates=("linear x", "linear x")),
        BodyMotion(tip, coordinates=()),
        RelativeMotion(tip, -1, coordinates=("x",)),
    ):
        with pytest.raises(ModelError, match=r"coordinates are 'pose', 'position'"):
            TaskSpace(robot, [task])
    with pytest.raises(ModelError, match="CentreOfMass has coordinates 'x', 'y', 'z'"):
        TaskSpace(robot, [CentreOfMass(coordinates=("w",))])
    with pytest.raises(ModelError, match="no body or frame 'elbow'"):
        TaskSpace(robot, [BodyMotion(tip, axes="elbow")]).jacobian_scalars(
            transforms(robot, np.zeros(3))
        )
    with pytest.raises(ModelError, match="no joint 'elbow'"):
        TaskSpace(robot, [Posture(["elbow"])])
    with pytest.raises(ModelError, match="each once"):
        TaskSpace(robot, [Posture([robot.joint_names[0]] * 2)])
    with pytest.raises(ModelError, match="give rows or coordinates, not both"):
        TaskSpace(robot, [BodyMotion(tip, np.eye(6), coordinates="position")])
    with pytest.raises(ModelError, match="levels of tasks are lists"):
        as_levels([[tip], tip])
    assert len(as_levels([[tip, 0], [CentreOfMass()]])) == 2
    assert len(as_levels([tip, 0])) == 1


def test_coordinates_of_one_unit_are_alike_within_a_task() -> None:
    """Three turns, three displacements, the centre of mass; every joint is of its own kind."""
    space = TaskSpace(CHAIN, [BodyMotion(CHAIN.body_names[1]), CentreOfMass(), Posture()])
    assert space.alike.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4]
