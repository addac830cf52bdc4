"""Shared by the tests of problems: a file, an arm with its log and report, a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from problems import Estimation
from problems.logs.simulate import Trajectory
from problems.measured.simulated_readings import TrueReadings
from problems.report import Report, build_report, estimation_subject, write_page
from tests.problems.chromium import chromium
from tests.problems.logs.log_cases import write_problem


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, its console and network traffic logged."""
    with chromium() as found:
        yield found


@pytest.fixture
def problem_file(tmp_path: Path) -> Path:
    """The problem of :mod:`tests.problems.logs.log_cases` as a file."""
    return write_problem(tmp_path / "problem.yaml")


@pytest.fixture(scope="session")
def arm() -> Estimation:
    """Two-branch robot with a few sensors of several kinds."""
    robot = dynsys.synthetic.random_tree(5, seed=3, joint_types=("revolute", "prismatic"))
    body = robot.body_names
    layout = sensors.Layout(
        robot,
        [
            sensors.Imu("tip_<imu>", body[-1], std=0.1),
            sensors.ForceTorque("base_ft", robot.joint_names[0], std=[0.1, 1.0]),
            *sensors.all_joint_accelerations(robot, std=0.5),
            *sensors.all_joint_torques(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot, [body[-1]]),
        ],
    )
    return Estimation(robot, layout)


@pytest.fixture(scope="session")
def arm_log(arm: Estimation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short log with truth; written by inverse dynamics, without noise."""
    path = tmp_path_factory.mktemp("log") / "arm.npz"
    time = np.arange(60) / 50.0
    q, qd, qdd = Trajectory.random(arm.robot, 1.2, seed=1).at(time)
    f_ext = np.zeros((60, arm.robot.n_bodies, 6))
    f_ext[:, -1, 3] = 10.0 * np.sin(time)
    torque, y = TrueReadings(arm.layout).at(q, qd, qdd, f_ext)
    last = f"truth.external_wrench.{arm.robot.body_names[-1]}"
    content = {"time": time, "q": q, "qd": qd, "y": y, "truth.torque": torque}
    np.savez(path, **content, **{last: f_ext[:, -1]})  # type: ignore[arg-type]
    return path


@pytest.fixture(scope="session")
def report(arm: Estimation, arm_log: Path) -> Report:
    """Everything a report tells of the arm and its log."""
    subject = estimation_subject("arm.yaml", arm)
    return build_report(subject, log=arm_log, command=["dynsys", "report", "arm.yaml"])


@pytest.fixture(scope="session")
def report_page(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report as a file of HTML."""
    return write_page(report, tmp_path_factory.mktemp("page") / "arm.html")
