"""Fast estimates of single samples are those of ``Estimation.solve``."""

from __future__ import annotations

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import DynsysError
from problems import Estimation
from problems.command.demo_log import bundled
from problems.estimation.outputs import parse_outputs, rows_of, uncertain
from problems.live.estimator import LiveEstimator
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile, load_problem
from tests.problems.live.live_cases import OUTPUTS

Live = tuple[ProblemFile, Samples]


def estimator(problem: ProblemFile, *names: str) -> LiveEstimator:
    found = LiveEstimator(problem.estimation, parse_outputs(problem.estimation, names))
    found.prepare()
    return found


@pytest.mark.parametrize(("missing", "method"), [(0, "llvm"), (2, "reduced")])
def test_each_way_gives_what_solve_gives(live: Live, missing: int, method: str) -> None:
    problem, samples = live
    names = (*OUTPUTS, "joint_wrench", "qdd", "degrees_of_freedom", "std.external_wrench")
    fast = estimator(problem, *names)
    for k in range(5):
        y = samples.y[k].copy()
        y[:missing] = np.nan
        fast.solve(samples.q[k], samples.qd[k], y)
        assert fast.method == method
        e = problem.estimation.solve(
            samples.q[k], samples.qd[k], y, uncertainty=uncertain(fast.outputs)
        )
        np.testing.assert_allclose(fast.row, rows_of(fast.outputs, e)[0], rtol=1e-7, atol=1e-8)
        assert fast.p_value == pytest.approx(float(e.p_value), rel=1e-7)
        assert fast.degrees_of_freedom == e.degrees_of_freedom


@pytest.fixture(scope="module")
def humanoid() -> ProblemFile:
    return load_problem(bundled("humanoid.yaml"))


@pytest.mark.parametrize(("missing", "method"), [(0, "llvm"), (2, "reduced")])
def test_deviations_at_a_frame_are_the_kernels(
    humanoid: ProblemFile, missing: int, method: str
) -> None:
    names = ("external_wrench.l_sole", "joint_wrench.l_foot", "acceleration.chest_imu")
    fast = estimator(humanoid, *(f"std.{name}" for name in names), "torque")
    assert not fast.slow
    samples = humanoid.samples(bundled("humanoid_log.npz"))
    for k in (3, 250):
        y = samples.y[k].copy()
        y[:missing] = np.nan
        fast.solve(samples.q[k], samples.qd[k], y)
        assert fast.method == method
        e = humanoid.estimation.solve(samples.q[k], samples.qd[k], y)
        np.testing.assert_allclose(fast.row, rows_of(fast.outputs, e)[0], rtol=1e-6, atol=1e-9)
        assert (fast.row[:18] > 0).all()


def test_values_at_a_frame_are_moved(humanoid: ProblemFile) -> None:
    problem = humanoid
    outputs = parse_outputs(
        problem.estimation, ("external_wrench.l_sole", "acceleration.chest_imu")
    )
    samples = problem.samples(bundled("humanoid_log.npz"))
    e = problem.estimation.solve(samples.q[7], samples.qd[7], samples.y[7])
    for output in outputs:
        assert output.rows is not None
        of_bodies = getattr(e, output.needs).array.ravel()
        np.testing.assert_allclose(
            output.rows @ of_bodies, output.take(e)[0], rtol=1e-12, atol=1e-12
        )
        assert np.abs(of_bodies).max() > 0


def test_residuals_take_the_general_path(live: Live) -> None:
    problem, samples = live
    slow = estimator(problem, "residual.imu", "torque")
    assert slow.slow == ("residual.imu",)
    slow.solve(samples.q[0], samples.qd[0], samples.y[0])
    e = problem.estimation.solve(samples.q[0], samples.qd[0], samples.y[0])
    assert slow.method == "general"
    np.testing.assert_allclose(slow.row[:6], e.residual["imu"], rtol=1e-7, atol=1e-9)


def test_what_is_open_is_nan_and_everything_missing_is_an_answer(live: Live) -> None:
    problem, samples = live
    fast = estimator(problem, "torque")
    y = problem.sensors.constants.copy()
    try:
        fast.solve(samples.q[0], samples.qd[0], y)
    except DynsysError:
        return
    assert np.isnan(fast.row).any()
    assert fast.p_value == 1 and fast.degrees_of_freedom == 0


@pytest.mark.parametrize("way", ["llvm", "reduced", "general"])
@pytest.mark.finding("C-21")
def test_p_values_mean_the_same_where_nothing_checks_a_sample(way: str) -> None:
    """One in e.p_value and in solved logs, NaN here."""
    robot = dynsys.synthetic.chain(3)
    kept = [
        *sensors.all_joint_torques(robot, std=0.1),
        *sensors.zero_external_wrench_except(robot),
    ]
    more = [sensors.JointAcceleration("more", "link_2", std=0.1)] if way == "reduced" else []
    problem = Estimation(robot, sensors.Layout(robot, [*kept, *more]))
    wanted = ["torque", "p_value", *(["residual"] if way == "general" else [])]
    fast = LiveEstimator(problem, parse_outputs(problem, wanted))
    fast.prepare()
    q, y = robot.random_configuration(0), np.nan_to_num(problem.layout.constants)
    for sensor in more:
        y[problem.layout.slice(sensor.name)] = np.nan
    fast.solve(q, np.zeros(3), y)
    e = problem.solve(q, np.zeros(3), y)
    assert fast.method == way and fast.degrees_of_freedom == 0 == e.degrees_of_freedom
    assert fast.p_value == 1 == e.p_value
    assert fast.row[3] == 1 == problem.solve_batch([q], [np.zeros(3)], [y]).p_value[0]
