"""Long work on logs, chunk by chunk: solve one, simulate one; here, in processes, on a cluster.

A job is a few words and numbers that travel to any worker; the worker reads problem and log
itself (on a cluster: from a file system all share). What a chunk holds depends on the job
alone, so that it does not matter who computes it: all ways give the same bytes.

``OUT.partial/`` holds ``job.json`` (what the work is) and one ``.npy`` file per chunk that is
done, each put there whole. A run with the same job goes on where the last one stopped; any
other job starts afresh. The output appears, whole, when all chunks are there; then the folder
goes. How work is handed out and survives lost workers is :mod:`dynsys.resumable`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.distribution import version
from dynsys.errors import KernelBuildError, LogError, SchedulerError, WorkersLost
from dynsys.resumable import replacing, run_open
from dynsys.types import Array
from problems.estimation.compiled import COMPILED_FROM, EstimatorOutputs
from problems.estimation.estimation import Estimation
from problems.logs.files import Group, check_output, write_log
from problems.logs.outputs import Output, needed, parse_outputs, rows_of, uncertain
from problems.logs.samples import SampleReader
from problems.logs.simulate import Simulation, Trajectory
from problems.problem_file import ProblemFile, load_problem

__all__ = [
    "CHUNK",
    "ChunkStore",
    "Done",
    "Finished",
    "Job",
    "SimulateJob",
    "SolveJob",
    "forget",
    "run_chunks",
    "run_job",
]

CHUNK = 8192
"""Samples of a chunk."""

BLOCK = 512
"""Samples handed to the estimator at a time: few enough to stay near the processor."""

MOSTLY = 0.5
"""Part of the first samples that must be complete for the layout's estimator to be worth it."""

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
    plan : file of the plan that is executed, in place of the one the problem names.
    """

    problem: str
    log: str
    output: str
    outputs: tuple[str, ...] = ()
    chunk: int = CHUNK
    allow_missing: bool = False
    plan: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.problem, self.log, self.plan) if self.plan else (self.problem, self.log)

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
            "plan": _identity(problem.plan_path) if problem.plan else "",
            "outputs": [output.group.name for output in opened.outputs],
            "differentiation": repr(opened.reader.method),
            "topics": dict(problem.topics),
            "columns": repr(problem.columns),
            "allow_missing": self.allow_missing,
            "chunk": self.chunk,
            "log": _identity(Path(self.log)),
        }

    def reader(self) -> SampleReader:
        """What reads the log, and knows what had to be made."""
        return _opened(self).reader

    def way(self) -> str:
        """By what most samples are solved, in words."""
        return _opened(self).way

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
        for block in np.array_split(places, -(-len(places) // BLOCK)) if len(places) else ():
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
    way: str


@lru_cache(maxsize=1)
def _opened(job: SolveJob) -> _Opened:
    """What a job needs, opened once per process."""
    problem = load_problem(job.problem).with_plan(job.plan)
    outputs = parse_outputs(problem.estimation, job.outputs or problem.outputs)
    log = problem.open_log(job.log, job._spool)
    reader = SampleReader(problem.sensors, log, problem.differentiation, job.allow_missing)
    estimation, way = _solver(problem.planned, outputs, reader)
    estimation.settle(log.n_samples)
    return _Opened(problem, outputs, reader, estimation, way)


def _solver(
    estimation: Estimation, outputs: list[Output], reader: SampleReader
) -> tuple[Estimation, str]:
    """Machine code for logs worth it, if the layout has it; else what solves batches anyway.

    With the way that most samples take, in words.

    Samples with readings missing do not need the estimator of the layout: where most are such,
    it is not compiled. A matter of the log alone, whoever works on whichever part of it.
    """
    n_samples = reader.log.n_samples
    if n_samples < COMPILED_FROM:
        return estimation, "the general path, one by one"
    first = reader.read(0, min(n_samples, BLOCK))
    if np.isfinite(first.y).all(axis=1).mean() < MOSTLY:
        return estimation, "the reduced system: most have readings missing"
    compiled = replace(estimation, backend="llvm")
    with suppress(KernelBuildError):
        wanted = EstimatorOutputs.of_estimate(needed(outputs), uncertain(outputs))
        compiled.compile(outputs=wanted.outputs, uncertainty=wanted.uncertainty)
        return compiled, "the estimator of the layout"
    return estimation, "the reduced system: the layout has no estimator for these outputs"


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
        with problem.open_log(job.trajectory) as log:
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


# ---- running a job -----------------------------------------------------------------

Work = Callable[[int], Array]
"""Rows of a chunk by its number."""
Done = Callable[[int], None]
"""Told how many chunks more are done."""


@final
@dataclass(frozen=True)
class Finished:
    """What a run did.

    ``resumed`` of the ``n_samples`` were there from an interrupted run; ``missing_rows`` have a
    value that is missing or not determined.
    """

    n_samples: int
    resumed: int
    seconds: float
    missing_rows: int


def run_job(
    job: Job,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    fresh: bool = False,
    progress: Callable[[int, int], Done] | None = None,
) -> Finished:
    """Do a job and write its output, complete or not at all.

    Parameters
    ----------
    workers : processes, or workers of a local Dask cluster.
    scheduler : address of a Dask scheduler, ``local`` for one of our own, None for no Dask.
    fresh : True starts anew even if an interrupted run has left chunks.
    progress : told the number of chunks done and in all, returns what is told of each more.

    Raises
    ------
    LogError
        what is wrong with log or output; finished chunks stay for the next run.
    """
    begin = perf_counter()
    check_output(job.output, job.inputs)
    forget()
    if job.chunk < 1:
        raise LogError(f"a chunk must hold at least one sample, got {job.chunk}")
    n_samples, groups = job.n_samples(), job.groups()
    if n_samples < 1:
        raise LogError(f"{job.output}: there are no samples to work on")
    width = sum(len(group.columns) for group in groups)
    store = ChunkStore(Path(job.output), n_samples, job.chunk, width)
    kept = store.prepare(job.describe(), fresh=fresh)
    done: Done = progress(kept, store.n_chunks) if progress else (lambda _: None)
    run_chunks(store, job.work, done, workers=workers, scheduler=scheduler)
    write_log(job.output, groups, store, store.folder)
    missing = sum(int(np.isnan(rows).any(axis=1).sum()) for rows in store)
    forget()
    store.remove()
    return Finished(
        n_samples, min(kept * job.chunk, n_samples), perf_counter() - begin, missing
    )


def run_chunks(
    store: ChunkStore,
    work: Work,
    done: Done,
    *,
    workers: int = 1,
    scheduler: str | None = None,
) -> None:
    """Do the chunks that are missing; ``work`` must pickle where others do it.

    Processes of this machine put their chunks into the store themselves; those of a cluster
    return them, for the store need not be on a disk they see.
    """
    compute: Callable[[int], Array | None] = partial(_put, store, work)
    if scheduler is None:
        workers = min(workers, max(len(store.missing()), 1))
    else:
        compute = work

    def finished(k: int, rows: Array | None) -> None:
        if rows is not None:
            store.put(k, rows)
        done(1)

    try:
        run_open(store.missing, compute, finished, workers=workers, scheduler=scheduler)
    except SchedulerError as error:
        raise LogError(str(error)) from None
    except WorkersLost as error:
        if scheduler is None:
            raise LogError(
                "a worker process died (out of memory?); what is done is kept: run the same"
                " command again, perhaps with fewer workers or a smaller chunk"
            ) from None
        raise LogError(
            f"the Dask cluster was lost ({error}); what is done is kept: run again"
        ) from None


def _put(store: ChunkStore, work: Work, k: int) -> None:
    store.put(k, work(k))


@final
@dataclass(frozen=True)
class ChunkStore:
    """Finished chunks of a job on disk.

    Parameters
    ----------
    output : file the chunks will become.
    n_samples, size : of the whole, and of a chunk (the last may be shorter).
    width : numbers per sample.
    """

    output: Path
    n_samples: int
    size: int
    width: int

    @property
    def folder(self) -> Path:
        """Folder of the unfinished work."""
        return self.output.with_name(self.output.name + ".partial")

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_samples // self.size)

    def _file(self, k: int) -> Path:
        return self.folder / f"{k:08d}.npy"

    def prepare(self, job: Mapping[str, Any], *, fresh: bool = False) -> int:
        """Keep what the same job has left behind, else start afresh; number of chunks kept."""
        text = json.dumps(dict(job), sort_keys=True)
        note = self.folder / "job.json"
        try:
            same = not fresh and note.read_text(encoding="utf-8") == text
        except OSError:
            same = False
        if not same:
            self.remove()
            try:
                self.folder.mkdir(parents=True)
            except OSError as error:
                raise LogError(f"{self.folder}: cannot be made: {error}") from None
            with self._writing(note) as part:
                part.write_text(text, encoding="utf-8")
        return self.n_chunks - len(self.missing())

    def missing(self) -> list[int]:
        """Chunks that are not done."""
        return [k for k in range(self.n_chunks) if not self._file(k).is_file()]

    def put(self, k: int, rows: Array) -> None:
        """Keep a finished chunk."""
        size = min(self.size, self.n_samples - k * self.size)
        if rows.shape != (size, self.width):
            raise LogError(f"chunk {k} has shape {rows.shape}")
        # as np.save does, but through Python's own stream: a full disk is then named as such
        whole, form = np.ascontiguousarray(rows), np.lib.format
        with self._writing(self._file(k)) as part, part.open("wb") as stream:
            form.write_array_header_1_0(stream, form.header_data_from_array_1_0(whole))
            stream.write(whole.data)

    @contextmanager
    def _writing(self, path: Path) -> Iterator[Path]:
        try:
            with replacing(path) as part:
                yield part
        except OSError as error:
            raise LogError(
                f"{self.folder}: cannot be written: {error}; what is done is kept, run again"
            ) from None

    def __iter__(self) -> Iterator[Array]:
        """All chunks in order, as memory maps."""
        for k in range(self.n_chunks):
            yield np.load(self._file(k), mmap_mode="r")

    def remove(self) -> None:
        """Forget the unfinished work."""
        shutil.rmtree(self.folder, ignore_errors=True)
