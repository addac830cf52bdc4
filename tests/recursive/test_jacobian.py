"""The body Jacobian against dense columns, differences of poses and velocities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from dynsys import ModelError, StateError, synthetic
from dynsys.recursive import jacobian
from dynsys.recursive.jacobian import jacobian_scalars
from dynsys.recursive.kinematics import transforms, velocities
from tests import oracles, strategies
from tests.recursive import scalars
from tests.recursive.test_kinematics import pose_matrix, with_frames


@pytest.mark.slow
@given(strategies.states())
def test_columns_are_the_oracles_and_the_differences(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    v = velocities(robot, transforms(robot, q), qd)
    for body in range(robot.n_bodies):
        J = jacobian(robot, q, body)
        assert_allclose(J, oracles.jacobian(robot, q, body), atol=1e-11)
        assert_allclose(J @ qd, v[body], atol=1e-11 * (1 + np.abs(v[body]).max()))
    body = robot.n_bodies - 1
    expected = oracles.jacobian_by_differences(robot, q, body)
    assert_allclose(jacobian(robot, q, body), expected, atol=1e-7)


@pytest.mark.slow
@given(strategies.states(), strategies.seeds)
def test_jacobian_of_a_frame_is_in_its_coordinates(state: strategies.State, seed: int) -> None:
    robot, q, _, _, _ = state
    robot = with_frames(robot, seed)
    for body in range(robot.n_bodies):
        X = oracles.motion_matrix(pose_matrix(robot.frame(f"on_{body}").transform))
        expected = X @ oracles.jacobian(robot, q, body)
        assert_allclose(jacobian(robot, q, f"on_{body}"), expected, atol=1e-11)
    assert not jacobian(robot, q, "on_-1").any()


@given(strategies.states(max_bodies=5))
def test_scalars_of_any_kind(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    body = robot.n_bodies - 1
    expected = oracles.jacobian(robot, q, body)
    fine = jacobian_scalars(robot, q.astype(np.longdouble), body)
    assert fine.dtype == np.longdouble
    assert_allclose(fine.astype(float), expected, atol=1e-11)
    found = jacobian_scalars(
        robot, scalars.duals(q, scalars.position_rates(robot, q, qd)), body
    )
    assert_allclose(scalars.values(found), expected, atol=1e-11)

    def along(t: float) -> np.ndarray:
        return oracles.jacobian(robot, robot.integrate(q, qd, t), body)

    rate = oracles.central_difference(along, 1e-3)
    assert_allclose(scalars.rates(found), rate, atol=1e-6 * (1 + np.abs(rate).max(initial=0)))


def test_unknown_bodies_and_wrong_positions_are_named() -> None:
    robot = synthetic.chain(3)
    with pytest.raises(ModelError, match="did you mean 'link_3'"):
        jacobian(robot, np.zeros(3), "link3")
    with pytest.raises(ModelError, match=r"bodies 0\.\.2"):
        jacobian(robot, np.zeros(3), 3)
    with pytest.raises(StateError, match=r"shape \(3,\)"):
        jacobian(robot, np.zeros(4), 0)
