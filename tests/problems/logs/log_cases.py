"""A problem of many kinds of joints, and logs of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from problems.log_jobs import SimulateJob, SolveJob, run_job
from problems.problem_file import ProblemFile

PROBLEM = {
    "robot": "synthetic:random_tree:5:seed=2:joint_types=free,spherical,planar,revolute",
    "layout": {
        "sensors": [
            {"all_joint_accelerations": {"std": 0.1}},
            {"kind": "imu", "name": "imu", "frame": "body_1", "std": [0.1, 0.01]},
            {"kind": "force_torque", "name": "ft", "at": "body_2", "std": [0.1, 1.0]},
            "zero_external_wrench_except",
        ]
    },
    "outputs": ["torque", "std.torque", "acceleration.body_3", "chi_square", "residual.imu"],
}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_problem(path: Path) -> Path:
    """The problem with the names of its robot's bodies and joints."""
    robot = ProblemFile(str(PROBLEM["robot"]), {"sensors": []}).tree
    text = yaml.safe_dump(PROBLEM).replace("body_1", robot.body_names[1])
    text = text.replace("body_2", robot.joint_names[2]).replace("body_3", robot.body_names[3])
    path.write_text(text)
    return path


def simulated(problem: Path, name: str = "log.npz", **options: Any) -> Path:
    """A log of 100 samples beside the problem."""
    path = problem.parent / name
    run_job(SimulateJob(str(problem), str(path), duration=0.5, rate=200, chunk=37, **options))
    return path


def solving(problem: Path, output: str, **options: Any) -> SolveJob:
    """The job that solves log.npz beside the problem."""
    folder = problem.parent
    return SolveJob(str(problem), str(folder / "log.npz"), str(folder / output), **options)
