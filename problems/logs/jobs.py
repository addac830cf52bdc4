"""Long work on logs, chunk by chunk: solve one, simulate one.

A job is a few words and numbers that travel to any worker; the worker reads problem and log
itself (on a cluster: from a file system all share). What a chunk holds depends on the job
alone, so that it does not matter who computes it: all ways give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.types import Array
from problems.estimation import Estimation
from problems.logs.open import open_log
from problems.logs.outputs import Output, parse_outputs, rows_of, uncertain
from problems.logs.samples import SampleReader
from problems.logs.source import LogError
from problems.logs.write import Group
from problems.problem_file import ProblemFile, load_problem
from problems.simulate import Simulation
from problems.trajectory import Trajectory

__all__ = ["CHUNK", "SimulateJob", "SolveJob", "forget"]

CHUNK = 8192
"""Samples of a chunk."""

BLOCK = 256
"""Samples handed to the estimator at a time: one it must pivot for slows no more than these."""

TIME = Group("time", ("time",))


# ---- solving a log ----------------------------------------------------------------


@final
@dataclass(frozen=True)
class SolveJob:
    """Estimate every sample of a log.

    Parameters
    ----------
    problem : problem file or ``catalogue:NAME``.
    log, output : files.
    outputs : in place of those the problem names.
    allow_missing : sensors without data in the log are left out.
    """

    problem: str
    log: str
    output: str
    outputs: tuple[str, ...] = ()
    chunk: int = CHUNK
    allow_missing: bool = False

    @property
    def _spool(self) -> Path:
        return Path(self.output + ".partial")

    def describe(self) -> Mapping[str, Any]:
        problem, outputs, reader = _opened(self)
        return {
            "version": _version(),
            "layout": problem.sensors.fingerprint(),
            "prior": repr(problem.prior),
            "outputs": [output.group.name for output in outputs],
            "differentiation": repr(reader.method),
            "topics": dict(problem.topics),
            "allow_missing": self.allow_missing,
            "chunk": self.chunk,
            "log": _identity(Path(self.log)),
        }

    def reader(self) -> SampleReader:
        """What reads the log, and knows what had to be made."""
        return _opened(self)[2]

    def n_samples(self) -> int:
        return self.reader().log.n_samples

    def groups(self) -> list[Group]:
        return [TIME, *(output.group for output in _opened(self)[1])]

    def work(self, k: int) -> Array:
        problem, outputs, reader = _opened(self)
        start = k * self.chunk
        samples = reader.read(start, min(start + self.chunk, reader.log.n_samples))
        usable = np.isfinite(samples.q).all(axis=1) & np.isfinite(samples.qd).all(axis=1)
        width = sum(len(output.group.columns) for output in outputs)
        rows = np.full((len(samples.q), 1 + width), np.nan)
        rows[:, 0] = samples.time
        whole = ~np.isnan(samples.y).any(axis=1)
        for some in (usable & whole, usable & ~whole):  # the compiled estimator takes the first
            at = np.flatnonzero(some)
            for block in np.array_split(at, max(len(at) // BLOCK, 1)) if len(at) else ():
                estimate = problem.estimation.solve_batch(
                    samples.q[block],
                    samples.qd[block],
                    samples.y[block],
                    uncertainty=uncertain(outputs) or None,
                )
                rows[block, 1:] = rows_of(outputs, estimate)
        return rows


@lru_cache(maxsize=1)
def _opened(job: SolveJob) -> tuple[ProblemFile, list[Output], SampleReader]:
    """Problem, outputs and log of a job: opened once per process."""
    problem = load_problem(job.problem)
    outputs = parse_outputs(problem.estimation, job.outputs or problem.outputs)
    log = open_log(job.log, topics=problem.topics, spool=job._spool)
    _warm_up(problem.estimation)
    return (
        problem,
        outputs,
        SampleReader(problem.sensors, log, problem.differentiation, job.allow_missing),
    )


def _warm_up(estimation: Estimation) -> None:
    """Solve one and the same state first: orders of elimination are then alike everywhere.

    A solver keeps the order it finds for the first matrix it meets; another first matrix, in
    another process, would round differently.
    """
    robot, layout = estimation.robot, estimation.layout
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    with suppress(DynsysError):
        estimation.solve(robot.random_configuration(0), np.zeros(robot.nv), y)


# ---- simulating one ---------------------------------------------------------------


@final
@dataclass(frozen=True)
class SimulateJob:
    """Make a log along a random motion, or along the positions of another log.

    Parameters
    ----------
    problem : problem file or ``catalogue:NAME``.
    output : file.
    duration : seconds, for random motions.
    trajectory : log whose ``time`` and ``q`` are followed; empty for a random motion.
    truth : True adds the true torques, accelerations and wrenches.
    others : as in :class:`problems.simulate.Simulation`.
    """

    problem: str
    output: str
    duration: float = 10.0
    rate: float = 1000.0
    seed: int = 0
    trajectory: str = ""
    pace: float = 1.0
    contact_force: float = 20.0
    position_std: float = 0.0
    velocity_std: float = 0.0
    missing: float = 0.0
    truth: bool = False
    chunk: int = CHUNK

    def simulation(self) -> Simulation:
        """The simulation itself."""
        return _simulation(self)

    def describe(self) -> Mapping[str, Any]:
        trajectory = _identity(Path(self.trajectory)) if self.trajectory else ""
        settings = {k: v for k, v in vars(self).items() if k not in ("problem", "output")}
        layout = self.simulation().layout.fingerprint()
        return settings | {"version": _version(), "layout": layout, "trajectory": trajectory}

    def n_samples(self) -> int:
        return self.simulation().n_samples

    def groups(self) -> list[Group]:
        return self.simulation().groups(truth=self.truth)

    def work(self, k: int) -> Array:
        simulation = self.simulation()
        start = k * self.chunk
        stop = min(start + self.chunk, simulation.n_samples)
        return simulation.rows(start, stop, truth=self.truth)


@lru_cache(maxsize=1)
def _simulation(job: SimulateJob) -> Simulation:
    problem = load_problem(job.problem)
    if job.trajectory:
        with open_log(job.trajectory, topics=problem.topics) as log:
            trajectory = Trajectory.from_log(problem.tree, log)
    else:
        trajectory = Trajectory.random(problem.tree, job.duration, seed=job.seed, pace=job.pace)
    return Simulation(
        problem.sensors,
        trajectory,
        job.rate,
        job.seed,
        job.contact_force,
        job.position_std,
        job.velocity_std,
        job.missing,
    )


def forget() -> None:
    """Let go of what this process has opened."""
    _opened.cache_clear()
    _simulation.cache_clear()


def _identity(path: Path) -> list[Any]:
    """Path, sizes and times of change of a log's files."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    try:
        stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error}") from None
    digest = hashlib.sha256(json.dumps(stats).encode()).hexdigest()
    return [os.fspath(path.resolve()), digest]


def _version() -> str:
    try:
        return metadata.version("dynsys")
    except metadata.PackageNotFoundError:
        return ""
