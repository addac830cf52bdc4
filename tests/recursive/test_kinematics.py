"""Poses, velocities and external wrenches against homogeneous matrices and differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from dynsys import KinematicTree, ModelError, StateError, forward_kinematics, synthetic
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import random_rotation
from dynsys.model.tree import Frame
from dynsys.recursive.kinematics import external_wrenches, poses, transforms, velocities
from tests import oracles, strategies


def with_frames(robot: KinematicTree, seed: int) -> KinematicTree:
    """Return the robot with a frame askew on every body and one on the base."""
    rng = np.random.default_rng(seed)
    frames = {
        f"on_{body}": Frame(body, Transform(random_rotation(rng), rng.uniform(-0.5, 0.5, 3)))
        for body in range(-1, robot.n_bodies)
    }
    return KinematicTree(robot.name, robot.bodies, frames, robot.gravity)


def pose_matrix(X: Transform) -> np.ndarray:
    """Homogeneous matrix (4, 4) of the frame a transform base -> frame stands for."""
    return oracles.pose(np.asarray(X.E, float).T, np.asarray(X.r, float))


@given(strategies.states(), strategies.seeds)
def test_poses_are_products_of_homogeneous_matrices(state: strategies.State, seed: int) -> None:
    robot, q, _, _, _ = state
    robot = with_frames(robot, seed)
    expected = oracles.body_poses(robot, q)
    for found, T in zip(poses(robot, transforms(robot, q)), expected, strict=True):
        assert_allclose(pose_matrix(found), T, atol=1e-12)
    for body in range(-1, robot.n_bodies):
        T = expected[body] if body >= 0 else np.eye(4)
        assert_allclose(pose_matrix(forward_kinematics(robot, q, body)), T, atol=1e-12)
        name = f"on_{body}"
        T = T @ pose_matrix(robot.frame(name).transform)
        assert_allclose(pose_matrix(forward_kinematics(robot, q, name)), T, atol=1e-12)


@given(strategies.states())
def test_velocities_are_rates_of_poses(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    here = poses(robot, transforms(robot, q))
    step = 1e-6
    ahead, behind = (
        poses(robot, transforms(robot, robot.integrate(q, qd, dt))) for dt in (step, -step)
    )
    for i, v in enumerate(velocities(robot, transforms(robot, q), qd)):
        T, later, earlier = (pose_matrix(X[i]) for X in (here, ahead, behind))
        rate = oracles.velocity_between(T, later, step)
        rate = 0.5 * (rate - oracles.velocity_between(T, earlier, step))
        assert_allclose(v, rate, atol=1e-7 * (1 + np.abs(v).max()))


@pytest.mark.slow
@given(strategies.states(), strategies.seeds)
def test_named_wrenches_do_the_work_of_their_frames(state: strategies.State, seed: int) -> None:
    robot, q, qd, _, _ = state
    robot = with_frames(robot, seed)
    rng = np.random.default_rng(seed)
    names = [f"on_{i}" for i in range(-1, robot.n_bodies)] + list(robot.body_names)
    given_wrenches = {name: rng.normal(size=6) for name in names}
    found = external_wrenches(robot, given_wrenches)
    assert found is not None
    v = velocities(robot, transforms(robot, q), qd)
    power = sum(float(f @ v_i) for f, v_i in zip(found, v, strict=True))
    expected = 0.0
    for name, f in given_wrenches.items():
        frame = robot.frame(name)
        if frame.body >= 0:
            X = oracles.motion_matrix(pose_matrix(frame.transform))
            expected += float(f @ (X @ (oracles.jacobian(robot, q, frame.body) @ qd)))
    assert_allclose(power, expected, atol=1e-9 * (1 + np.abs(qd).sum()))


def test_wrenches_as_an_array_are_taken_body_by_body() -> None:
    robot = synthetic.chain(3)
    f_ext = np.arange(18.0).reshape(3, 6)
    assert_allclose(external_wrenches(robot, f_ext), f_ext)
    assert external_wrenches(robot, None) is None


def test_wrong_wrenches_are_refused_by_name() -> None:
    robot = synthetic.chain(3)
    for wrong, message in (
        (np.zeros((2, 6)), r"shape \(3, 6\)"),
        ({"link_1": np.zeros(5)}, r"f_ext\['link_1'\].*\(6,\)"),
        ({"link_1": "push"}, "not numeric"),
        (np.full((3, 6), np.nan), "'link_1' is not finite"),
        ({"link_2": np.full(6, np.nan)}, "'link_2' is not finite"),
    ):
        with pytest.raises(StateError, match=message):
            external_wrenches(robot, wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="did you mean 'link_1'"):
        external_wrenches(robot, {"link1": np.zeros(6)})
    with pytest.raises(ModelError, match="did you mean 'link_2'"):
        forward_kinematics(robot, np.zeros(3), "link2")
    with pytest.raises(StateError, match=r"shape \(3,\)"):
        forward_kinematics(robot, np.zeros(2), "link_2")
