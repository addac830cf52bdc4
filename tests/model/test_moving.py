"""Integrate, difference and rates: inverses of each other, one state and rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynsys import KinematicTree, StateError
from dynsys.model.joints import JOINT_TYPES
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body
from dynsys.types import Array
from tests import oracles, strategies

SOLID = Inertia(1.0, np.zeros(3), np.eye(3))
EVERY_JOINT = KinematicTree(
    "every joint",
    [
        Body(kind, k - 1, joint(), Transform.identity(), SOLID)
        for k, (kind, joint) in enumerate(JOINT_TYPES.items())
    ],
)


def same_poses(robot: KinematicTree, a: Array, b: Array, tolerance: float = 1e-12) -> None:
    for A, B in zip(oracles.body_poses(robot, a), oracles.body_poses(robot, b), strict=True):
        assert_allclose(A, B, atol=tolerance * (1 + np.abs(B).max()))


@given(strategies.trees(max_bodies=4), strategies.seeds, st.sampled_from([1e-9, 1e-3, 1.0]))
def test_difference_undoes_integrate(robot: KinematicTree, seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    q, v = robot.random_configuration(rng), rng.uniform(-1, 1, robot.nv) * size
    found = robot.difference(q, robot.integrate(q, v, 1.0))
    assert_allclose(found, v, atol=4e-15 * (1 + np.abs(q).max()))


@given(strategies.trees(max_bodies=4), strategies.seeds)
def test_integrate_ends_where_difference_says(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    start, end = robot.random_configuration(rng), robot.random_configuration(rng)
    for where in robot.quaternion_slices:  # the other sign is the same pose
        end[where] *= rng.choice([-1.0, 1.0])
    v = robot.difference(start, end)
    same_poses(robot, robot.integrate(start, v, 1.0), end, 1e-11)
    assert_allclose(robot.difference(start, start), 0.0, atol=1e-15)
    half = robot.integrate(start, v, 0.5)
    assert_allclose(robot.difference(half, end), v / 2, atol=1e-11 * (1 + np.abs(v).max()))


def test_half_turns_and_whole_turns() -> None:
    robot = EVERY_JOINT
    kinds = {joint.kind: k for k, joint in enumerate(robot.joints)}
    q = robot.neutral()
    turn = np.zeros(robot.nv)
    turn[robot.v_slices()[kinds["free"]].start] = np.pi
    turn[robot.v_slices()[kinds["spherical"]].start + 1] = np.pi
    turn[robot.v_slices()[kinds["planar"]].start] = np.pi
    found = robot.difference(q, robot.integrate(q, turn, 1.0))
    assert_allclose(np.abs(found), turn, atol=1e-15)
    angle = robot.q_slices()[kinds["revolute"]].start
    far = q.copy()
    far[angle] += 6 * np.pi  # a hinge counts its turns
    assert_allclose(robot.difference(q, far)[robot.v_slices()[kinds["revolute"]]], 6 * np.pi)
    far = q.copy()
    far[robot.q_slices()[kinds["planar"]].start] += 6 * np.pi  # a pose in the plane does not
    assert_allclose(robot.difference(q, far), 0.0, atol=1e-14)


@given(strategies.trees(max_bodies=4), strategies.seeds)
def test_rates_are_the_tangent(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, v = robot.random_configuration(rng), rng.normal(size=robot.nv)
    T = robot.tangent(q)
    rate = robot.position_rate(q, v)
    assert_allclose(rate, T @ v, atol=1e-14)
    numeric = oracles.central_difference(lambda t: robot.integrate(q, v, t), 1e-3)
    assert_allclose(rate, numeric, atol=1e-9)
    assert_allclose(robot.velocity_from_rate(q, rate), v, atol=1e-14)
    any_rate = rng.normal(size=robot.nq)
    nearest = np.linalg.lstsq(T, any_rate, rcond=None)[0]
    assert_allclose(robot.velocity_from_rate(q, any_rate), nearest, atol=1e-13)


def test_rows_are_states_one_by_one() -> None:
    robot, rng = EVERY_JOINT, np.random.default_rng(2)
    q = np.array([robot.random_configuration(rng) for _ in range(4)])
    v = rng.normal(size=(4, robot.nv))
    rate = rng.normal(size=(4, robot.nq))
    for k in range(4):
        for found, one in (
            (robot.integrate(q, v, 0.3), robot.integrate(q[k], v[k], 0.3)),
            (robot.difference(q, q[::-1]), robot.difference(q[k], q[3 - k])),
            (robot.position_rate(q, v), robot.position_rate(q[k], v[k])),
            (robot.velocity_from_rate(q, rate), robot.velocity_from_rate(q[k], rate[k])),
        ):
            assert_allclose(found[k], one, atol=1e-15)
    assert robot.difference(q[:0], q[:0]).shape == (0, robot.nv)


def test_what_is_wrong_is_named() -> None:
    robot, rng = EVERY_JOINT, np.random.default_rng(2)
    q = np.array([robot.random_configuration(rng) for _ in range(4)])
    v = np.zeros((4, robot.nv))
    long = q.copy()
    long[2, robot.quaternion_slices[0]] *= 1.1
    with pytest.raises(StateError, match=r"state 2: q1: the quaternion of joint"):
        robot.difference(q, long)
    with pytest.raises(StateError, match=r"q0 of robot .* must have shape"):
        robot.difference(q[0, :-1], q[0])
    bad = v.copy()
    bad[3, 0] = np.nan
    with pytest.raises(StateError, match=r"state 3: v\[0\] .* is nan"):
        robot.integrate(q, bad, 0.1)
    with pytest.raises(StateError, match="q is a batch of states, v is not"):
        robot.position_rate(q, v[0])
    with pytest.raises(StateError, match="v has 3 states, but q has 4"):
        robot.position_rate(q, v[:3])
    with pytest.raises(StateError, match=r"rate of a batch must have shape \(N, "):
        robot.velocity_from_rate(q, v[:, :-1])
    with pytest.raises(StateError, match="not numeric"):
        robot.difference("q", q[0])
