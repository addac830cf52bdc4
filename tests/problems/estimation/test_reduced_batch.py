"""Batches with readings missing, contacts that come and go, things left open: as one by one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import StateError
from dynsys.types import Array
from problems import ContradictionError, Estimation, Prior
from problems.estimation.consistency import of_readings
from problems.estimation.estimate import deviations, values
from problems.estimation.reduced_batch import ReducedAnswers
from problems.measured.measured_system import QUANTITIES
from problems.measured.reduced import rank_of
from problems.problem_file import load_problem
from tests.problems.estimation.estimation_cases import (
    FEET,
    generous,
    moving,
    noisy,
    on_force_sensors,
    readings,
    standing,
)


def log(problem: Estimation, n: int, missing: float, seed: int = 0) -> tuple[Array, ...]:
    """States q, qd and readings of a standing humanoid; constants are always there."""
    states = [moving(problem, *standing(problem.robot, seed + k, FEET)) for k in range(n)]
    y = np.array([noisy(problem, readings(problem, s), k) for k, s in enumerate(states)])
    given = np.isnan(problem.layout.constants)
    gone = np.random.default_rng(seed).uniform(size=y.shape) < missing
    y = np.where(gone & given, np.nan, np.where(given, y, problem.layout.constants))
    return np.array([s.q for s in states]), np.array([s.qd for s in states]), y


def assert_answers(
    problem: Estimation, found: ReducedAnswers, states: tuple[Array, ...]
) -> None:
    """Flags equal, numbers as close as rounding allows, at every state that is answered."""
    slow = Estimation(problem.robot, problem.layout, problem.prior, backend="dense")
    unknowns = problem.measured.laws.unknowns
    for k in np.flatnonzero(found.answered).tolist():
        posterior = slow.posterior(*(x[k] for x in states))
        assert found.degrees_of_freedom[k] == posterior.degrees_of_freedom
        assert found.chi_square[k] == pytest.approx(posterior.chi_square, rel=1e-7, abs=1e-7)
        for kind in QUANTITIES:
            columns = unknowns.columns(kind)
            blocks = [columns] if columns.ndim == 1 else list(columns)
            for name, of in ((kind, values), (f"std_{kind}", deviations)):
                if name not in found.arrays:
                    continue
                expected = [of(posterior, np.eye(len(c)), c) for c in blocks]
                scale = np.nanmax(np.abs(found.arrays[name]))
                np.testing.assert_allclose(
                    found.arrays[name][k], np.concatenate(expected), rtol=0, atol=1e-8 * scale
                )
        if found.residuals is not None:
            state = [x[k] for x in states]
            residuals = slow.checks(*state).residuals
            (expected,) = of_readings(problem.measured, residuals, state[2][None])
            np.testing.assert_allclose(found.residuals[k], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layout", [generous, on_force_sensors])
@pytest.mark.parametrize("missing", [0.0, 0.05, 0.4])
def test_answers_are_those_of_the_estimator(humanoid, layout, missing) -> None:
    problem = Estimation(humanoid, layout(humanoid))
    q, qd, y = log(problem, 12, missing)
    rows = problem.measured.pack(y, None, 12)
    found = problem.reduced.solve(q, qd, rows, QUANTITIES, QUANTITIES, residuals=True)
    assert found.answered.mean() > 0.8
    assert_answers(problem, found, (q, qd, rows))


def test_contacts_come_and_go(humanoid) -> None:
    plates = [sensors.ExternalWrench(f"{foot} lifted", foot, value=0.0) for foot in FEET]
    problem = Estimation(humanoid, generous(humanoid, *plates))
    q, qd, y = log(problem, 12, 0.05)
    up = np.arange(12) % 4
    active = {"l_foot lifted": up == 1, "r_foot lifted": up == 2}
    rows = problem.measured.pack(y, active, 12)
    found = problem.reduced.solve(q, qd, rows, ("torque", "external_wrench"), ("torque",))
    assert found.answered.mean() > 0.7
    assert_answers(problem, found, (q, qd, rows))
    wrench = found.arrays["external_wrench"].reshape(12, -1, 6)
    foot = wrench[:, humanoid.body_index("l_foot")]
    assert (foot[up == 1] == 0).all() and (foot[up == 0] != 0).any()


def test_more_sets_of_contacts_than_are_kept_apart(humanoid) -> None:
    problem = Estimation(humanoid, on_force_sensors(humanoid))
    q, qd, y = log(problem, 20, 0.0)
    constant = np.flatnonzero(~np.isnan(problem.layout.constants))
    rows = problem.measured.pack(y, None, 20)
    for k in range(20):
        rows[k, constant[7 * k]] = np.nan
    found = problem.reduced.solve(q, qd, rows, ("torque",), ("torque",))
    assert found.answered.mean() > 0.7 and np.isnan(found.arrays["torque"]).any()
    assert_answers(problem, found, (q, qd, rows))


def test_beliefs_are_rows_like_others(humanoid) -> None:
    prior = Prior({"external_wrench": 50.0, "net_wrench": 1e3, "qdd": 5.0}, {"qdd": 0.1})
    problem = Estimation(humanoid, on_force_sensors(humanoid), prior)
    q, qd, y = log(problem, 6, 0.3)
    rows = problem.measured.pack(y, None, 6)
    found = problem.reduced.solve(q, qd, rows, ("torque",), ("torque",), residuals=True)
    assert found.answered.all() and np.isfinite(found.arrays["std_torque"]).all()
    assert_answers(problem, found, (q, qd, rows))


def test_a_batch_of_a_singular_layout_is_machine_code() -> None:
    problem = load_problem("catalogue:nao").estimation
    rng = np.random.default_rng(0)
    q = np.array([problem.robot.random_configuration(k) for k in range(260)])
    qd = 0.1 * rng.normal(size=(260, problem.robot.nv))
    given = np.isnan(problem.layout.constants)
    y = np.where(given, rng.normal(size=(260, len(given))), problem.layout.constants)
    e = problem.solve_batch(q, qd, y, uncertainty="torque", outputs=("torque", "chi_square"))
    assert list(e.method).count("reduced") >= 258
    alone = Estimation(problem.robot, problem.layout, backend="dense")
    for k in (0, 100, 259):
        one = alone.solve(q[k], qd[k], y[k])
        np.testing.assert_array_equal(e.determined.torque.array[k], one.determined.torque.array)
        np.testing.assert_allclose(e.torque.array[k], one.torque.array, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(
            e.std.torque.array[k], one.std.torque.array, rtol=1e-8, atol=1e-9
        )
        chi_square = np.ravel(e.chi_square)[k]
        np.testing.assert_allclose(chi_square, one.chi_square, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(e.qdd.array[k], one.qdd.array, rtol=1e-7, atol=1e-9)
        for name, residual in one.residual.items():
            np.testing.assert_allclose(e.residual[name][k], residual, rtol=1e-5, atol=1e-6)
        assert not one.determined.torque.array.all()
    again = pickle.loads(pickle.dumps(e))
    np.testing.assert_array_equal(again.torque.array, e.torque.array)


def arm() -> Estimation:
    robot = dynsys.synthetic.chain(3)
    torques = sensors.all_joint_torques(robot, std=0.1)
    known = sensors.JointAcceleration("first", robot.joint_names[0], std=0.0)
    again = sensors.JointAcceleration("again", robot.joint_names[0], std=0.0)
    free = sensors.zero_external_wrench_except(robot)
    layout = sensors.Layout(robot, [*torques, known, again, *free])
    return Estimation(robot, layout)


def test_contradictions_name_their_state() -> None:
    problem = arm()
    rng = np.random.default_rng(0)
    q, qd = rng.normal(size=(2, 300, 3))
    y = np.zeros((300, problem.layout.size))
    y[:, :3], y[:, 3:5] = rng.normal(size=(300, 3)), rng.normal(size=(300, 1))
    y[::2, 0] = np.nan
    e = problem.solve_batch(q, qd, y, outputs=("torque",))
    assert set(e.method) == {"reduced"} and np.isfinite(e.torque.array).all()
    y[17, 4] += 1e-3
    with pytest.raises(
        ContradictionError, match=r"state 17: .*first\.acceleration, again\.acceleration"
    ):
        problem.solve_batch(q, qd, y, outputs=("torque",))


def test_positions_that_are_none_are_said_to_be(humanoid) -> None:
    problem = Estimation(humanoid, on_force_sensors(humanoid))
    q, qd, y = log(problem, 4, 0.2)
    q, qd, y = (np.tile(x, (65, 1)) for x in (q, qd, y))
    q[130, humanoid.quaternion_slices[0]] *= 1.5
    with pytest.raises(StateError, match="state 130"):
        problem.solve_batch(q, qd, y, outputs=("torque",))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_what_is_open_does_not_depend_on_units(scale: float) -> None:
    rank = rank_of(np.array([[1.0, 0.0]]))
    size = np.ones((1, 2))
    assert not rank.is_open(scale * np.array([[1.0, 1e-10]]), scale * size)[0]
    assert rank.is_open(scale * np.array([[1.0, 1e-6]]), scale * size)[0]
