"""What is shown at each time: posture, torques and contact wrenches with their deviations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array
from problems.estimation.outputs import parse_outputs, rows_of, uncertain
from problems.problem_file import ProblemFile
from problems.studio.contacts import contact_frames, declared_frames
from sensors.external import ExternalWrench

__all__ = ["Playback", "solve_playback", "touched_frames"]

MOST = 1500
"""Samples that are shown: evenly chosen where a log has more."""


@final
@dataclass(frozen=True, eq=False)
class Playback:
    """Estimates along a log.

    Attributes
    ----------
    time, q : (N,), (N, nq) of the samples that are shown; time from the log's first sample.
    torque, torque_std : (N, nv); NaN where not determined.
    frames : where contact wrenches are estimated.
    force, force_std : (N, frames, 3) in the axes of the frame, N.
    p_value : (N,), NaN where nothing checks a sample.
    n_samples : of the log.
    """

    time: Array
    q: Array
    torque: Array
    torque_std: Array
    frames: tuple[str, ...]
    force: Array
    force_std: Array
    p_value: Array
    n_samples: int

    def at(self, time: float) -> int:
        """Number of the sample that is shown at a time."""
        return max(int(np.searchsorted(self.time, time, side="right")) - 1, 0)


def touched_frames(problem: ProblemFile) -> tuple[str, ...]:
    """Frames where the problem declares contacts, of bodies that no statement calls untouched.

    One for each body, as in studio (:mod:`problems.studio.contacts`).
    """
    robot, layout = problem.tree, problem.sensors
    untouched = {
        robot.frame(s.frame).body
        for s in layout
        if isinstance(s, ExternalWrench)
        and s.constant(1) is not None
        and len(s.components) == 6
    }
    frames = contact_frames(layout, declared_frames(problem))
    return tuple(name for i, name in enumerate(frames) if i not in untouched)


def solve_playback(problem: ProblemFile, log: str, frames: tuple[str, ...]) -> Playback:
    """Estimate the samples of a log that are to be shown.

    Raises
    ------
    LogError
        if no sample of the log has positions and velocities.
    """
    samples = problem.samples(log, allow_missing=True).with_motion()
    n = len(samples.time)
    if not n:
        raise LogError(f"{log}: no sample has all positions and velocities")
    shown = np.unique(np.linspace(0, n - 1, min(n, MOST)).astype(np.intp))
    wrenches = [f"external_wrench.{name}" for name in frames]
    names = ["torque", "std.torque", *wrenches, *(f"std.{name}" for name in wrenches)]
    outputs = parse_outputs(problem.estimation, names)
    e = problem.planned.solve_batch(
        samples.q[shown],
        samples.qd[shown],
        samples.y[shown],
        outputs=("torque", "external_wrench", "p_value"),
        uncertainty=uncertain(outputs),
    )
    rows, nv = rows_of(outputs, e), problem.tree.nv
    vectors = rows[:, 2 * nv :].reshape(len(shown), 2, len(frames), 6)[..., 3:]
    checked = np.asarray(e.degrees_of_freedom) > 0
    return Playback(
        samples.time[shown] - samples.time[0],
        samples.q[shown],
        rows[:, :nv],
        rows[:, nv : 2 * nv],
        frames,
        vectors[:, 0],
        vectors[:, 1],
        np.where(checked, e.p_value, np.nan),
        n,
    )
