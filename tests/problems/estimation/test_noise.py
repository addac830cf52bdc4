"""Standard deviations of sensors from a log whose noise is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sensors
from dynsys import StateError, synthetic
from experiments.trust.consistency.cases import case_of
from problems import ContradictionError, Estimation, estimate_noise
from problems.estimation import noise
from problems.estimation.posterior import PosteriorSolver
from sensors import Layout
from tests.problems.estimation.estimation_cases import readings, truth


def layout(stds: dict[str, float]) -> Layout:
    robot = synthetic.chain(3)
    return Layout(
        robot,
        [
            *(
                replace(s, std=stds["acceleration"])
                for s in sensors.all_joint_accelerations(robot, std=1.0)
            ),
            *(
                replace(s, std=stds["torque"])
                for s in sensors.all_joint_torques(robot, std=1.0)
            ),
            *sensors.zero_external_wrench_except(robot),
            sensors.Imu("imu", "link_3", xyz=(0.1, 0.2, 0), std=[stds["acc"], stds["gyro"]]),
            sensors.Accelerometer("tip", "link_3", xyz=(0.3, 0, 0.1), std=stds["tip"]),
        ],
    )


TRUE = {"acceleration": 0.2, "torque": 0.1, "acc": 0.3, "gyro": 0.02, "tip": 0.05}
STATED = {"acceleration": 0.2, "torque": 1.0, "acc": 0.05, "gyro": 0.5, "tip": 0.2}


def test_deviations_are_found_from_residuals() -> None:
    exact, n = Estimation(synthetic.chain(3), layout(TRUE)), 300
    rng, std = np.random.default_rng(0), np.sqrt(exact.measured.variance)
    states = [truth(exact, k, []) for k in range(n)]
    y = np.array([readings(exact, state) for state in states]) + std * rng.normal(
        size=(n, len(std))
    )
    q, qd = [s.q for s in states], [s.qd for s in states]
    found = estimate_noise(
        Estimation(synthetic.chain(3), layout(STATED)), q, qd, y, np.arange(n) * 0.01
    )
    by = {(one.sensor, one.unit): one for one in found.sensors}
    assert by["imu", "m/s^2"].found == pytest.approx(0.3, rel=0.2)
    assert by["imu", "rad/s"].found == pytest.approx(0.02, rel=0.1)
    assert by["tip", "m/s^2"].found == pytest.approx(0.05, rel=0.3)
    for joint in ("link_1", "link_2", "link_3"):
        assert by[f"{joint}/torque", "N m"].found == pytest.approx(0.1, rel=0.35)
    assert by["imu", "rad/s"].redundancy == pytest.approx(1.0)
    assert found.chi_square[1] == pytest.approx(1.0, abs=0.1) and found.chi_square[0] > 1.5
    assert by["imu", "m/s^2"].correlation_time == pytest.approx(0.01, rel=0.3)
    assert found.layout["tip"].std == pytest.approx(by["tip", "m/s^2"].found, rel=1e-3)
    assert by["tip", "m/s^2"].factor == pytest.approx(0.25, rel=0.3)


def test_what_nothing_checks_keeps_what_it_states() -> None:
    robot = synthetic.chain(2)
    square = Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.7),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    states = np.zeros((2, 5, 2))
    found = estimate_noise(Estimation(robot, square), *states, np.zeros((5, square.size)))
    assert [one.found for one in found.sensors] == [0.7, 0.7]
    assert [one.redundancy for one in found.sensors] == [0.0, 0.0]
    assert not any(one.known for one in found.sensors)


def arm(stds: dict[str, float]) -> Layout:
    """A touched hand behind a wrist sensor: only the torques are checked well."""
    robot = synthetic.chain(4)
    wrist = robot.joint_names[3]
    return Layout(
        robot,
        [
            sensors.ForceTorque("force", wrist, components=["fx", "fy", "fz"], std=stds["f"]),
            sensors.ForceTorque("moment", wrist, components=["tx", "ty", "tz"], std=stds["m"]),
            *sensors.all_joint_accelerations(robot, std=stds["acceleration"]),
            *sensors.all_joint_torques(robot, std=stds["torque"]),
            *sensors.zero_external_wrench_except(robot, ["link_4"]),
        ],
    )


@pytest.mark.parametrize("memory", [0.0, 0.7])
@pytest.mark.finding("X-1")
def test_deviations_are_within_what_is_said_of_them(memory: float) -> None:
    """Many logs; wrist sensors are checked by 1 %, accelerations stated 100 times too large."""
    true = {"f": 0.2, "m": 0.02, "acceleration": 0.01, "torque": 0.3}
    exact = Estimation(synthetic.chain(4), arm(true))
    problem = Estimation(synthetic.chain(4), arm(true | {"acceleration": 1.0, "torque": 0.2}))
    n, rng = 300, np.random.default_rng(1)
    std = np.sqrt(exact.measured.variance)
    states = [truth(exact, k, ["link_4"]) for k in range(n)]
    own, groups = noise._own_noise(problem), noise._groups(problem)
    solver = PosteriorSolver(problem.measured, "dense")
    each = [noise._left_over(solver, s.q, s.qd, readings(exact, s)) for s in states]
    kept, apart = [], []
    for _ in range(25):
        e = rng.normal(size=(n, len(std)))
        for k in range(1, n):
            e[k] = memory * e[k - 1] + np.sqrt(1 - memory**2) * e[k]
        log = [
            one._replace(z=one.z + (one.N[0].T @ (std * e[k])[one.at])[None])
            for k, one in enumerate(each)
        ]
        found = noise._found(noise._Log(own, groups, noise._alike(log), n))
        known = np.isfinite(found.std)
        kept.append(~known)
        apart += (np.log(found.factors[6:] / 1.5) / found.std[6:])[known[6:]].tolist()
        assert (found.factors[~known] == 1.0).all()
    assert np.array(kept)[:, :6].all()
    assert len(apart) > 80 and 0.9 < np.mean(np.abs(apart) < 2)


def test_estimates_are_as_honest_after_as_before() -> None:
    true = {"f": 0.2, "m": 0.02, "acceleration": 0.01, "torque": 0.3}
    exact = Estimation(synthetic.chain(4), arm(true))
    problem = Estimation(synthetic.chain(4), arm(true | {"acceleration": 1.0}))
    n, rng, std = 200, np.random.default_rng(2), np.sqrt(exact.measured.variance)
    states = [truth(exact, k, ["link_4"]) for k in range(n)]
    y = np.array([readings(exact, s) for s in states]) + std * rng.normal(size=(n, len(std)))
    q, qd = (np.array([getattr(s, x) for s in states]) for x in ("q", "qd"))
    found = estimate_noise(problem, q, qd, y)
    columns = exact.system.unknowns.columns("external_wrench")
    forces = np.array([s.d[columns] for s in states]).reshape(n, -1, 6)[:, 3]

    def inside(est: Estimation) -> float:
        e = est.solve_batch(q, qd, y)
        off = np.abs(e.external_wrench["link_4"] - forces)
        return float((off < 2 * e.std.external_wrench["link_4"]).mean())

    after = inside(Estimation(synthetic.chain(4), found.layout))
    assert inside(problem) > 0.93 and after > 0.93
    assert found.layout["force"].std == 0.2 and found.layout["moment"].std == 0.02


@pytest.mark.finding("X-2")
def test_two_that_only_check_each_other_keep_their_ratio() -> None:
    robot = synthetic.chain(2)
    two = Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            sensors.JointTorque("second", robot.joint_names[0], std=0.1),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    problem, rng = Estimation(robot, two), np.random.default_rng(0)
    states = [truth(problem, k, []) for k in range(300)]
    y = np.array([readings(problem, s) for s in states])
    y[:, [0, 2]] += 0.3 * rng.normal(size=(300, 2))
    found = estimate_noise(problem, [s.q for s in states], [s.qd for s in states], y)
    first, alone, second = found.sensors
    assert first.found == second.found == pytest.approx(0.3, abs=3 * first.found_std)
    assert first.together == ("second",) and second.together == (first.sensor,)
    assert not alone.known and alone.found == 0.1


@pytest.mark.parametrize("task", [("aligned", 25), ("any rank", 2), ("any rank", 132)])
def test_rounding_takes_no_degrees_of_freedom(task) -> None:
    """What noisy rows see of an unknown by rounding alone explains nothing of them."""
    case = case_of(task)
    e = replace(case.estimation, backend="dense").solve(case.q, case.qd, case.y)
    found = estimate_noise(case.estimation, [case.q], [case.qd], case.y[None])
    assert found.chi_square[0] == pytest.approx(e.chi_square / e.degrees_of_freedom, rel=1e-6)


@pytest.mark.finding("Y-23")
def test_samples_that_are_none_are_named() -> None:
    problem = Estimation((made := layout(TRUE)).robot, made)
    q, qd = np.zeros((5, 3)), np.zeros((5, 3))
    y = np.array([readings(problem, truth(problem, k)) for k in range(5)])
    q[3, 0] = np.nan
    with pytest.raises(StateError, match="state 3"):
        estimate_noise(problem, q, qd, y)
    q[3, 0], y[2, made.slice("link_2/no_contact")] = 0.0, 1.0
    twice = made.with_sensors([*made, sensors.ExternalWrench("again", "link_2", value=0.0)])
    problem = Estimation(made.robot, twice)
    y = np.hstack([y, np.zeros((5, 6))])
    with pytest.raises(ContradictionError, match=r"sample 2: .*again"):
        estimate_noise(problem, q, qd, y)
