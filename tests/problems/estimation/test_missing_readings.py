"""Readings that are missing: as a sensor left out, and what is still determined."""

from __future__ import annotations

import numpy as np
import pytest

import sensors
from problems import Estimation
from sensors import Layout
from tests.problems.estimation.estimation_cases import (
    FEET,
    moving,
    noisy,
    readings,
    relative,
    standing,
    truth,
    values,
)
from tests.problems.estimation.estimation_layouts import BACKENDS, generous, on_force_sensors


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_reading_is_a_sensor_left_out(humanoid, backend) -> None:
    layout = generous(humanoid)
    problem = Estimation(humanoid, layout, backend=backend)
    state = moving(problem, *standing(humanoid, 2, FEET))
    y = layout.unpack(noisy(problem, readings(problem, state), 2))
    gone = ("head", "l_plate", "l_knee/torque")
    rest = Layout(humanoid, [s for s in layout.sensors if s.name not in gone])
    expected = Estimation(humanoid, rest, backend="dense").solve(
        state.q, state.qd, {name: y[name] for name in rest.names}
    )
    holes = y | {name: np.full_like(y[name], np.nan) for name in gone}
    by_nan = problem.solve(state.q, state.qd, holes)
    by_switch = problem.solve(state.q, state.qd, y, active=dict.fromkeys(gone, False))
    for e in (by_nan, by_switch):
        assert e.method == backend
        assert relative(values(problem, e), values(problem, expected)) < 1e-9
        assert e.chi_square == pytest.approx(expected.chi_square, rel=1e-8)
        assert e.degrees_of_freedom == expected.degrees_of_freedom
        assert np.isnan(e.residual["head"]).all()
    expected_std = expected.std.torque.array
    np.testing.assert_allclose(by_nan.std.torque.array, expected_std, rtol=1e-8)


def test_one_analysis_serves_all_missing_readings(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    state = moving(problem, *standing(humanoid, 2, FEET))
    y = readings(problem, state)
    problem.solve(state.q, state.qd, y)
    factors = problem._reference._factors
    problem.solve(state.q, state.qd, y, active={"l_plate": False})
    assert problem._reference._factors is factors


def test_what_too_few_readings_determine_is_exact(humanoid) -> None:
    """Without the right foot's sensor its wrench is open, and all that depends on it."""
    layout = on_force_sensors(humanoid)
    problem = Estimation(humanoid, layout)
    state = truth(problem, 3, FEET)
    y = layout.unpack(readings(problem, state))
    y["r_ft"] = np.full(6, np.nan)
    e = problem.solve(state.q, state.qd, y)
    found = values(problem, e)
    known = ~np.isnan(found)
    assert np.abs(found - state.d)[known].max() < 1e-10 * np.abs(state.d).max()
    assert e.determined.torque["l_knee"] and not e.determined.torque["r_knee"]
    assert np.isnan(e.torque["r_knee"]) and np.isnan(e.std.torque["r_knee"])
    assert e.determined.acceleration.array.all()
    assert not e.determined["external_wrench"]["r_foot"].any()


def test_parts_of_a_wrench_are_determined_in_the_frame_that_measures_them(humanoid) -> None:
    problem = Estimation(humanoid, sensors.catalogue.load("nao", humanoid))
    state = moving(problem, *standing(humanoid, 5, FEET))
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert e.determined.external_wrench["l_sole"].tolist() == [True, True] + [False] * 3 + [
        True
    ]
    frame = humanoid.frame("l_sole")
    columns = problem.system.unknowns.block("external_wrench", frame.body).columns
    true = np.linalg.inv(frame.transform.matrix()).T @ state.d[columns]
    np.testing.assert_allclose(
        e.external_wrench["l_sole"][[0, 1, 5]], true[[0, 1, 5]], rtol=1e-9
    )
