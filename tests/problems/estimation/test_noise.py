"""Standard deviations of sensors from a log whose noise is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sensors
from dynsys.model import synthetic
from problems import Estimation, estimate_noise
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
STATED = {"acceleration": 1.0, "torque": 1.0, "acc": 0.05, "gyro": 0.5, "tip": 0.2}


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
