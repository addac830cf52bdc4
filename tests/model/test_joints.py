"""Every joint: transform, motion subspace, worst-case pattern and integration agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynsys import KinematicTree, ModelError
from dynsys.model import joints as kinds
from dynsys.model.joints import JOINT_TYPES, AbstractJoint
from dynsys.model.tree import Body
from tests import oracles, strategies
from tests.strategies import ALL_KINDS, seeds

AXIS_KINDS = (kinds.Revolute, kinds.Prismatic, kinds.Helical, kinds.Cylindrical, kinds.Planar)


def alone(joint: AbstractJoint) -> KinematicTree:
    """Return a robot of one body on this joint."""
    return KinematicTree("alone", [Body("body", -1, joint)])


def some_positions(joint: AbstractJoint, seed: int, count: int = 8) -> list[np.ndarray]:
    robot, rng = alone(joint), np.random.default_rng(seed)
    special = [strategies.quarter_turns(robot, rng) for _ in range(count)]
    return [robot.neutral(), *special, *(robot.random_configuration(rng) for _ in range(count))]


@pytest.mark.slow
@given(strategies.joints(), seeds)
def test_transform_is_the_inverse_of_the_childs_pose(joint: AbstractJoint, seed: int) -> None:
    for q in some_positions(joint, seed, 3):
        expected = oracles.motion_matrix(oracles.joint_pose(joint, q))
        assert_allclose(joint.transform(q).matrix(), expected, atol=1e-12)


@given(strategies.joints())
def test_neutral_position_makes_the_frames_coincide(joint: AbstractJoint) -> None:
    assert joint.neutral().shape == (joint.nq,)
    assert_allclose(joint.transform(joint.neutral()).matrix(), np.eye(6), atol=1e-15)


@pytest.mark.slow
@given(strategies.joints(), seeds)
def test_motion_subspace_is_the_rate_of_the_transform(joint: AbstractJoint, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for q in some_positions(joint, seed, 2):
        v, step = rng.normal(size=joint.nv), 1e-5
        here = oracles.joint_pose(joint, q)
        ahead = oracles.joint_pose(joint, joint.integrate(q, v, step))
        behind = oracles.joint_pose(joint, joint.integrate(q, v, -step))
        rate = oracles.velocity_between(behind, ahead, 2 * step)
        middle = oracles.velocity_between(here, ahead, step) - oracles.velocity_between(
            here, behind, step
        )
        assert_allclose(0.5 * middle, joint.S @ v, atol=1e-8)
        assert_allclose(rate, joint.S @ v, atol=1e-4)


@given(strategies.joints())
def test_motion_subspace_has_full_rank(joint: AbstractJoint) -> None:
    assert joint.S.shape == (6, joint.nv)
    assert np.linalg.matrix_rank(joint.S) == joint.nv


@given(strategies.joints(), seeds)
def test_pattern_covers_the_transform_everywhere(joint: AbstractJoint, seed: int) -> None:
    E_pattern, r_pattern = joint.pattern()
    for q in some_positions(joint, seed):
        X = joint.transform(q)
        assert not (np.asarray(X.E) != 0)[~E_pattern].any()
        assert not (np.asarray(X.r) != 0)[~r_pattern].any()


@given(strategies.joints(), seeds)
def test_pattern_is_attained(joint: AbstractJoint, seed: int) -> None:
    E_pattern, r_pattern = joint.pattern()
    E_seen, r_seen = np.zeros((3, 3), dtype=bool), np.zeros(3, dtype=bool)
    for q in some_positions(joint, seed):
        X = joint.transform(q)
        E_seen |= np.abs(np.asarray(X.E)) > 1e-12
        r_seen |= np.abs(np.asarray(X.r)) > 1e-12
    np.testing.assert_array_equal(E_seen, E_pattern)
    np.testing.assert_array_equal(r_seen, r_pattern)


@given(strategies.joints(), seeds, st.floats(-2.0, 2.0), st.floats(-2.0, 2.0))
def test_moving_twice_is_moving_once(
    joint: AbstractJoint, seed: int, first: float, second: float
) -> None:
    rng = np.random.default_rng(seed)
    q, v = alone(joint).random_configuration(rng), rng.normal(size=joint.nv)
    twice = joint.integrate(joint.integrate(q, v, first), v, second)
    once = joint.integrate(q, v, first + second)
    assert_allclose(joint.transform(twice).matrix(), joint.transform(once).matrix(), atol=1e-11)
    assert_allclose(joint.integrate(q, v, 0.0), q, atol=1e-15)


@pytest.mark.slow
@given(strategies.joints(("spherical", "free")), seeds)
def test_integration_keeps_quaternions_of_unit_length(joint: AbstractJoint, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = alone(joint).random_configuration(rng)
    for _ in range(50):
        q = joint.integrate(q, rng.normal(scale=5.0, size=joint.nv), 0.1)
    assert abs(np.linalg.norm(q[-4:]) - 1.0) < 1e-14


def test_free_body_moving_in_a_circle_returns() -> None:
    joint = kinds.Free()
    v = np.array([0.0, 0.0, 1.0, 2.0, 0.0, 0.0])  # turning left while going ahead
    half = joint.integrate(joint.neutral(), v, np.pi)
    assert_allclose(half[:3], [0.0, 4.0, 0.0], atol=1e-14)
    full = joint.integrate(joint.neutral(), v, 2 * np.pi)
    assert_allclose(full[:3], np.zeros(3), atol=1e-14)


@pytest.mark.parametrize("angle", [1e-9, 0.999e-3, 1.001e-3, 1.0])
def test_free_joint_integrates_small_and_large_turns_alike(angle: float) -> None:
    joint, rng = kinds.Free(), np.random.default_rng(3)
    v = rng.normal(size=6)
    v[:3] *= angle / np.linalg.norm(v[:3])
    q = joint.neutral()
    for _ in range(64):
        q = joint.integrate(q, v, 1 / 64)
    assert_allclose(joint.integrate(joint.neutral(), v, 1.0), q, atol=1e-13)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_random_positions_stay_within_the_limits(kind: str) -> None:
    joint = JOINT_TYPES[kind]()
    rng = np.random.default_rng(0)
    lower, upper = np.full(joint.nq, -0.25), np.full(joint.nq, 0.5)
    free = 4 if kind in ("spherical", "free") else 0  # a quaternion has no limits
    for _ in range(20):
        q = joint.random(rng, lower, upper)[: joint.nq - free]
        assert ((q >= -0.25) & (q <= 0.5)).all()


@pytest.mark.parametrize("kind", ["prismatic", "cylindrical", "planar", "free"])
def test_unlimited_distances_are_drawn_within_one_metre(kind: str) -> None:
    joint = JOINT_TYPES[kind]()
    where = {"prismatic": slice(0, 1), "free": slice(0, 3)}.get(kind, slice(1, None))
    rng, inf = np.random.default_rng(0), np.full(joint.nq, np.inf)
    draws = np.array([joint.random(rng, -inf, inf)[where] for _ in range(200)])
    assert 0.8 < np.abs(draws).max() <= 1.0


@pytest.mark.parametrize("joint", AXIS_KINDS)
@pytest.mark.parametrize("axis", [[0.0, 0.0, 0.0], [np.nan, 0.0, 1.0], [1.0, 0.0]])
def test_axis_that_is_no_direction_is_refused(
    joint: type[AbstractJoint], axis: list[float]
) -> None:
    with pytest.raises(ModelError, match=f"{joint.kind} joint: axis .* is not a direction"):
        joint(np.array(axis))  # type: ignore[call-arg]


@pytest.mark.parametrize("joint", AXIS_KINDS)
def test_axis_is_normalised_and_rounding_removed(joint: type[AbstractJoint]) -> None:
    made = joint(np.array([0.0, 3.0, 1e-17]))  # type: ignore[call-arg]
    np.testing.assert_array_equal(made.axis, [0.0, 1.0, 0.0])  # type: ignore[attr-defined]


def test_planar_directions_follow_the_normal() -> None:
    for k in range(3):
        e1, e2 = kinds.Planar(np.eye(3)[k]).directions
        np.testing.assert_array_equal(e1, np.eye(3)[(k + 1) % 3])
        np.testing.assert_array_equal(e2, np.eye(3)[(k + 2) % 3])


def test_sizes_are_those_of_the_design() -> None:
    sizes = {kind: (joint.nq, joint.nv) for kind, joint in JOINT_TYPES.items()}
    assert sizes == {
        "revolute": (1, 1),
        "prismatic": (1, 1),
        "helical": (1, 1),
        "cylindrical": (2, 2),
        "planar": (3, 3),
        "spherical": (4, 3),
        "free": (7, 6),
        "fixed": (0, 0),
    }


def test_helical_without_pitch_is_revolute() -> None:
    q = np.array([0.7])
    expected = kinds.Revolute().transform(q).matrix()
    assert_allclose(kinds.Helical(pitch=0.0).transform(q).matrix(), expected)


def test_spherical_velocity_is_in_the_child() -> None:
    joint = kinds.Spherical()
    turned = joint.integrate(joint.neutral(), np.array([np.pi / 2, 0.0, 0.0]), 1.0)
    both = joint.integrate(turned, np.array([0.0, np.pi / 2, 0.0]), 1.0)
    # the child's y axis now is the parent's z: a turn about it takes the child's z from -y to x
    assert_allclose(np.asarray(joint.transform(both).E)[2], [1.0, 0.0, 0.0], atol=1e-15)
