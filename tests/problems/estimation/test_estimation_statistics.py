"""Estimates against statistics: scatter, residuals, chi-square, suspects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import dynsys
import sensors
from problems import Estimation
from problems.estimation.outputs import parse_outputs
from problems.live.estimator import LiveEstimator
from tests.problems.estimation.estimation_cases import (
    FEET,
    generous,
    moving,
    noisy,
    readings,
    small,
    standing,
    truth,
)


@pytest.mark.slow
def test_scatter_of_noisy_solves_is_the_stated_uncertainty() -> None:
    problem, n = small(), 3000
    state = truth(problem, 0, ["link_3"])
    y = readings(problem, state)
    rng = np.random.default_rng(1)
    factor = np.linalg.cholesky(problem.layout.covariance().toarray() + 1e-300 * np.eye(len(y)))
    torques, wrenches, chi_squares = np.empty((n, 3)), np.empty((n, 6)), np.empty(n)
    for k in range(n):
        e = problem.solve(state.q, state.qd, y + factor @ rng.normal(size=len(y)))
        torques[k], wrenches[k] = e.torque.array, e.external_wrench["link_3"]
        chi_squares[k] = e.chi_square
    for found, std, kind in (
        (torques, e.std.torque.array, "torque"),
        (wrenches, e.std.external_wrench["link_3"], "external_wrench"),
    ):
        columns = problem.system.unknowns.columns(kind)
        mean = state.d[columns if kind == "torque" else columns[2]]
        assert np.abs(found.std(axis=0) / std - 1).max() < 4.5 / np.sqrt(2 * n)
        assert np.abs((found.mean(axis=0) - mean) / std).max() < 4.5 / np.sqrt(n)
    assert e.degrees_of_freedom == 6
    assert kstest(chi_squares, chi2(6).cdf).pvalue > 1e-3


@pytest.mark.slow
def test_residuals_are_unit_normal() -> None:
    problem = small()
    state = truth(problem, 0, ["link_3"])
    y = readings(problem, state)
    found = np.array(
        [
            np.concatenate(
                list(problem.solve(state.q, state.qd, noisy(problem, y, k)).residual.values())
            )
            for k in range(400)
        ]
    )
    checked = problem.layout.std > 0
    assert np.abs(found[:, checked].std(axis=0) - 1).max() < 5 / np.sqrt(800)
    assert (found[:, ~checked] == 0).all()


@pytest.mark.finding("Y-3")
def test_statements_made_twice_are_no_degrees_of_freedom() -> None:
    """Machine code, for one state and for many, counts as the dense system does."""
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(
        robot,
        [
            *sensors.zero_external_wrench_except(robot, []),
            sensors.ExternalWrench("again", "link_2", value=0.0, std=0.0),
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.1),
        ],
    )
    problem = Estimation(robot, layout)
    state = truth(problem, 0)
    y = readings(problem, state)
    y[problem.layout.slice("link_1/torque")] += 0.5
    slow = Estimation(robot, layout, backend="dense").solve(state.q, state.qd, y)
    assert slow.degrees_of_freedom == 2 and slow.p_value < 0.01
    many = problem.solve_batch(*(np.tile(x, (256, 1)) for x in (state.q, state.qd, y)))
    assert many.method == "llvm" and set(np.ravel(many.degrees_of_freedom)) == {2}
    np.testing.assert_allclose(many.p_value, slow.p_value, rtol=1e-6)
    live = LiveEstimator(problem, parse_outputs(problem, ["p_value"]))
    live.prepare()
    live.solve(state.q, state.qd, y)
    assert live.method == "llvm" and live.degrees_of_freedom == 2
    assert live.p_value == pytest.approx(slow.p_value, rel=1e-6)


def test_the_sensor_that_disagrees_is_named(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend="superlu")
    state = moving(problem, *standing(humanoid, 7, FEET))
    y = noisy(problem, readings(problem, state), 7)
    good = problem.solve(state.q, state.qd, y)
    assert good.p_value > 0.01 and good.suspects == []
    y[problem.layout.slice("l_knee/torque")] += 8.0
    bad = problem.solve(state.q, state.qd, y)
    assert bad.p_value < 1e-6
    assert bad.suspects[0].sensor == "l_knee/torque"
    assert abs(bad.residual["l_knee/torque"][0]) > 5
    # what a suspect explains is what the chi-square loses without it
    y[problem.layout.slice("l_knee/torque")] = np.nan
    without = problem.solve(state.q, state.qd, y)
    assert bad.chi_square - without.chi_square == pytest.approx(
        bad.suspects[0].explains, rel=1e-6
    )
