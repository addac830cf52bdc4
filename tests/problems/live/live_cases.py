"""A small problem, its log, and sessions of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from problems.estimation.outputs import parse_outputs
from problems.live.decode import SampleDecoder
from problems.live.estimator import LiveEstimator
from problems.live.session import AlarmWatch, LiveSession
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile, load_problem

OUTPUTS = ("torque", "std.torque", "external_wrench", "acceleration", "chi_square", "p_value")


def new_session(
    problem: ProblemFile, outputs: Sequence[str] = OUTPUTS, deadline: float = 60.0
) -> LiveSession:
    estimator = LiveEstimator(problem.planned, parse_outputs(problem.estimation, outputs))
    estimator.prepare()
    return LiveSession(SampleDecoder(problem), estimator, AlarmWatch(), deadline)


def sample_of(problem: ProblemFile, samples: Samples, k: int) -> dict[str, Any]:
    """A sample of a log as it would come from a robot."""
    layout = problem.sensors
    given = {
        "time": float(samples.time[k]),
        "q": samples.q[k].tolist(),
        "qd": samples.qd[k].tolist(),
    }
    for name in layout.names:
        if layout[name].constant(1) is None:
            given[name] = samples.y[k, layout.slice(name)].tolist()
    return given


def answered(session: LiveSession, given: object) -> dict[str, Any]:
    """Last record of a sample."""
    line = given if isinstance(given, (str, bytes)) else json.dumps(given)
    found: dict[str, Any] = json.loads(session.answer(line, 0.0)[-1])
    return found


def loaded(path: Path, log: Path) -> tuple[ProblemFile, Samples]:
    problem = load_problem(path)
    samples = problem.samples(log)
    assert np.isfinite(samples.y).all()
    return problem, samples
