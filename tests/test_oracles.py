"""The oracles agree with each other: derivatives, energies and balances, before they judge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dynsys import KinematicTree
from tests import oracles, strategies


@pytest.mark.slow
@given(strategies.trees(max_bodies=4, coupled=True), st.data())
def test_jacobian_is_the_derivative_of_the_pose(
    robot: KinematicTree, data: st.DataObject
) -> None:
    q, _, _ = data.draw(strategies.motions(robot))
    body = data.draw(st.integers(0, robot.n_bodies - 1))
    expected = oracles.jacobian_by_differences(robot, q, body)
    assert_allclose(oracles.jacobian(robot, q, body), expected, atol=1e-7)


@pytest.mark.slow
@given(strategies.states(max_bodies=5))
def test_kinetic_energy_is_the_quadratic_form_of_the_inertia(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    H = oracles.mass_matrix(robot, q)
    assert_allclose(oracles.kinetic_energy(robot, q, qd), 0.5 * qd @ H @ qd, rtol=1e-10)


@pytest.mark.slow
@given(strategies.states(max_bodies=4))
def test_power_of_the_torques_is_the_rate_of_energy(state: strategies.State) -> None:
    robot, q, qd, qdd, _ = state
    torque = oracles.inverse_dynamics(robot, q, qd, qdd)
    rate = oracles.power_by_differences(robot, q, qd, qdd, 1e-4)
    scale = 1.0 + np.abs(torque) @ np.abs(qd) + oracles.kinetic_energy(robot, q, qd)
    assert abs(torque @ qd - rate) < 1e-6 * scale


@pytest.mark.slow
@given(strategies.trees(max_bodies=5), st.data())
def test_external_wrench_enters_by_the_jacobian(
    robot: KinematicTree, data: st.DataObject
) -> None:
    q, qd, qdd = data.draw(strategies.motions(robot))
    f_ext = np.random.default_rng(data.draw(strategies.seeds)).normal(size=(robot.n_bodies, 6))
    with_wrench = oracles.inverse_dynamics(robot, q, qd, qdd, f_ext)
    without = oracles.inverse_dynamics(robot, q, qd, qdd)
    pushed = sum(oracles.jacobian(robot, q, i).T @ f_ext[i] for i in range(robot.n_bodies))
    assert_allclose(with_wrench, without - pushed, atol=1e-9)
    back = oracles.forward_dynamics(robot, q, qd, with_wrench, f_ext)
    assert_allclose(back, qdd, atol=1e-6)
