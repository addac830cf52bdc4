"""``dynsys detect``: a log with a push in, a table of contacts out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.problems.command.command_line import run, run_json
from tests.problems.detection.test_contacts import arm, log

PROBLEM = """\
robot: synthetic:chain:7
layout:
  sensors:
    - all_joint_torques: {std: 0.05}
    - all_joint_accelerations: {std: 0.05}
"""
STATEMENT = "    - zero_external_wrench_except: []\n"
FORCE = np.array([12.0, -19.0, 14.0])
LATE = 1.7e9
"""The first sample of a bag has the time of its day."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Problem, log of free motion, log with a push on link 6 from 2.0 to 2.3 s."""
    problem, free, pushed = tmp_path / "arm.yaml", tmp_path / "a.npz", tmp_path / "b.npz"
    problem.write_text(PROBLEM + STATEMENT)
    robot = arm()
    push = np.concatenate([np.cross(0.6 * robot.bodies[6].placement.r, FORCE), FORCE])
    for path, content in ((free, log(robot, 30.0, 1)), (pushed, log(robot, 8.0, 2, push, 5))):
        time, q, qd, y = content
        np.savez(path, time=time + LATE, q=q, qd=qd, **y)
    return problem, free, pushed


def test_a_push_is_told_with_its_link_and_force(
    files: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, free, pushed = files
    out, table = tmp_path / "found.json", tmp_path / "found.csv"
    words = ["detect", problem, pushed, "--free", free, "--false-alarms-per-hour", 60]
    status, told = run_json(capsys, *words, "-o", out)
    assert status == 0 and told == json.loads(out.read_text())
    assert told["false_alarms_expected"] == pytest.approx(60 * 7.99 / 3600, rel=1e-3)
    assert told["first_sample"] == LATE
    (contact,) = [c for c in told["contacts"] if c["start"] < 2.3 and c["end"] > 2.0]
    assert contact["start"] == pytest.approx(2.0, abs=0.02)
    assert contact["link"] == "link_6"
    assert abs(contact["force"] - np.linalg.norm(FORCE)) < 4 * contact["force_std"] < 30
    assert abs(contact["fx"] - FORCE[0]) < 4 * contact["fx_std"]
    assert 0 < contact["along_std"] < 0.1
    status, text, _ = run(capsys, *words, "-o", table)
    assert status == 0 and "60 false alarms per hour" in text and "link_6" in text
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(told["contacts"])
    assert float(rows[0]["force"]) == pytest.approx(told["contacts"][0]["force"])


def test_free_motion_may_be_a_part_of_the_log(
    files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    problem, free, pushed = files
    status, told = run_json(capsys, "detect", problem, pushed, "--free-seconds", 2.5, 60)
    assert status == 0 and [c["link"] for c in told["contacts"]] == ["link_6"]
    own = told["threshold"]
    status, told = run_json(capsys, "detect", problem, pushed, "--free", free)
    assert told["threshold"] != own and told["extrapolation"] == pytest.approx(120, rel=0.01)
    status, quiet = run_json(capsys, "detect", problem, free, "--free", free)
    assert status == 0 and len(quiet["contacts"]) <= 1


def test_what_is_wrong_is_said(
    files: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, free, pushed = files

    def error(*words: object) -> str:
        status, _, err = run(capsys, "detect", *words)
        assert status == 2
        return err

    again = ("--free", free)
    assert "contacts are written as .csv or .json" in error(
        problem, pushed, *again, "-o", tmp_path / "found.npz"
    )
    assert "has 7.99 s, counted from its first" in error(
        problem, pushed, "--free-seconds", 10, 20
    )
    assert "0 <= FROM < TO, got 5 2" in error(problem, pushed, "--free-seconds", 5, 2)
    assert "60 samples of free motion at least" in error(
        problem, pushed, "--free-seconds", 0, 0.2
    )
    problem.write_text(PROBLEM)
    assert "add zero_external_wrench_except" in error(problem, pushed, *again)
    with pytest.raises(SystemExit) as stopped:
        run(capsys, "detect", problem, pushed)
    assert stopped.value.code == 2 and "--free" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(capsys, "detect", problem, pushed, *again, "--false-alarms-per-hour", 0)
    assert "must be a number > 0, got '0'" in capsys.readouterr().err
