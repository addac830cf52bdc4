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
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.distribution import version
from dynsys.errors import DynsysError, KernelBuildError, LogError
from dynsys.types import Array
from problems.estimation.compiled import EstimatorOutputs
from problems.estimation.estimation import COMPILED_FROM, Estimation
from problems.logs.files import Group, open_log
from problems.logs.outputs import Output, needed, parse_outputs, rows_of, uncertain
from problems.logs.samples import SampleReader
from problems.logs.simulate import Simulation, Trajectory
from problems.problem_file import ProblemFile, load_problem

__all__ = ["CHUNK", "Job", "SimulateJob", "SolveJob", "forget"]

CHUNK = 8192
"""Samples of a chunk."""

BLOCK = 512
"""Samples handed to the estimator at a time: few enough to stay near the processor."""

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
    def inputs(self) -> tuple[str, ...]:
        return self.problem, self.log

    @property
    def _spool(self) -> Path:
        return Path(self.output + ".partial")

    def describe(self) -> Mapping[str, Any]:
        opened = _opened(self)
        problem = opened.problem
        return {
            "version": version(""),
            "layout": problem.sensors.fingerprint(),
            "prior": repr(problem.prior),
            "outputs": [output.group.name for output in opened.outputs],
            "differentiation": repr(opened.reader.method),
            "topics": dict(problem.topics),
            "allow_missing": self.allow_missing,
            "chunk": self.chunk,
            "log": _identity(Path(self.log)),
        }

    def reader(self) -> SampleReader:
        """What reads the log, and knows what had to be made."""
        return _opened(self).reader

    def n_samples(self) -> int:
        return self.reader().log.n_samples

    def groups(self) -> list[Group]:
        return [TIME, *(output.group for output in _opened(self).outputs)]

    def work(self, k: int) -> Array:
        opened = _opened(self)
        first = k * self.chunk
        last = min(first + self.chunk, opened.reader.log.n_samples)
        samples = opened.reader.read(first, last)
        usable = np.isfinite(samples.q).all(axis=1) & np.isfinite(samples.qd).all(axis=1)
        width = sum(len(output.group.columns) for output in opened.outputs)
        rows = np.full((len(samples.q), 1 + width), np.nan)
        rows[:, 0] = samples.time
        places = np.flatnonzero(usable)
        for start in range(0, len(places), BLOCK):
            block = places[start : start + BLOCK]
            estimate = opened.estimation.solve_batch(
                samples.q[block],
                samples.qd[block],
                samples.y[block],
                uncertainty=uncertain(opened.outputs) or None,
                outputs=needed(opened.outputs),
            )
            rows[block, 1:] = rows_of(opened.outputs, estimate)
        return rows


@final
@dataclass(frozen=True, eq=False)
class _Opened:
    """Problem, outputs and log of a job, and what solves it."""

    problem: ProblemFile
    outputs: list[Output]
    reader: SampleReader
    estimation: Estimation


@lru_cache(maxsize=1)
def _opened(job: SolveJob) -> _Opened:
    """What a job needs, opened once per process."""
    problem = load_problem(job.problem)
    outputs = parse_outputs(problem.estimation, job.outputs or problem.outputs)
    log = open_log(job.log, topics=problem.topics, spool=job._spool)
    reader = SampleReader(problem.sensors, log, problem.differentiation, job.allow_missing)
    estimation = _solver(problem.estimation, outputs, log.n_samples)
    _warm_up(estimation)
    return _Opened(problem, outputs, reader, estimation)


def _solver(estimation: Estimation, outputs: list[Output], n_samples: int) -> Estimation:
    """Machine code for logs worth it, if the layout has it; else the reference path.

    A matter of the log alone, whoever works on whichever part of it.
    """
    if n_samples >= COMPILED_FROM and estimation.prior is None:
        compiled = replace(estimation, backend="llvm")
        with suppress(KernelBuildError):
            wanted = EstimatorOutputs.of_estimate(needed(outputs), uncertain(outputs))
            compiled.compile(outputs=wanted.outputs, uncertainty=wanted.uncertainty)
            return compiled
    return estimation


def _warm_up(estimation: Estimation) -> None:
    """Solve one and the same state first: orders of elimination are then alike everywhere.

    A solver keeps the order it finds for the first matrix it meets; another first matrix, in
    another process, would round differently.
    """
    robot, layout = estimation.robot, estimation.layout
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    with suppress(DynsysError):
        rows = estimation.measured.pack(y, None, None)
        estimation.posterior(robot.random_configuration(0), np.zeros(robot.nv), rows)


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
    others : as in :class:`problems.logs.simulate.Simulation`.
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

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.problem, self.trajectory) if self.trajectory else (self.problem,)

    def simulation(self) -> Simulation:
        """The simulation itself."""
        return _simulation(self)

    def describe(self) -> Mapping[str, Any]:
        trajectory = _identity(Path(self.trajectory)) if self.trajectory else ""
        settings = {k: v for k, v in vars(self).items() if k not in ("problem", "output")}
        layout = self.simulation().layout.fingerprint()
        return settings | {"version": version(""), "layout": layout, "trajectory": trajectory}

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


Job: TypeAlias = SolveJob | SimulateJob


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
