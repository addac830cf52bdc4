"""Long work on logs, chunk by chunk: solve one, simulate one; here, in processes, on a cluster.

A job is a few words and numbers that travel to any worker; the worker reads problem and log
itself (on a cluster: from a file system all share). What a chunk holds depends on the job
alone, so that it does not matter who computes it: all ways give the same bytes.

``OUT.partial/IDENTITY/`` holds one file per chunk that is done: its rows, then their seal. The
identity is a digest of all that the output depends on: the bytes of the log, robot, layout,
prior, plan, and every setting. A run of the same job goes on where the last one stopped; what
another job has left is removed, and a chunk that is damaged, or was written late by a worker of
another job, does not bear the seal and is computed again. One run at a time has the folder. The
output appears, whole, when all chunks are there; then the folder goes. Files, seals, locks and
lost workers: :mod:`dynsys.resumable`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, TypeAlias, final

import numpy as np

from dynsys.distribution import version
from dynsys.errors import (
    ContradictionError,
    DynsysError,
    KernelBuildError,
    LogError,
    SchedulerError,
    StateError,
    WorkersLost,
)
from dynsys.kernel.build import best_backend
from dynsys.plan.fingerprint import canonical_bytes
from dynsys.resumable import content_digest, locked, replacing, run_open, seal
from dynsys.types import Array, IntArray
from problems.estimation.compiled import COMPILED_FROM, EstimatorOutputs, check_cost
from problems.estimation.estimation import Estimation
from problems.estimation.outputs import Output, judged, parse_outputs, rows_of, uncertain
from problems.labels import Group
from problems.logs.files import check_output, log_digest, write_log
from problems.logs.judge import Judgement, judge_log
from problems.logs.samples import SampleReader, Samples
from problems.logs.simulate import Recorded, Simulation, Trajectory
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
    spool : folder for unpacked messages of a bag, which workers share; a temporary one if "".
    meant : identity of the problem, which whoever reads it must find the same; any if "".
    """

    problem: str
    log: str
    output: str
    outputs: tuple[str, ...] = ()
    chunk: int = CHUNK
    allow_missing: bool = False
    plan: str = ""
    spool: str = ""
    meant: str = ""

    notes: ClassVar[int] = 2
    """Numbers of a sample after its outputs: p-value, and whether it could not be solved."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.problem, self.log, self.plan) if self.plan else (self.problem, self.log)

    @property
    def log_read(self) -> str:
        return self.log

    def describe(self) -> Mapping[str, Any]:
        """All that a chunk depends on, but for the bytes of the log."""
        problem, outputs = _problem(self)
        if problem.planned.executes is not None:
            check_cost(problem.planned, problem.planned.executes)
        return {
            "version": version(""),
            "layout": problem.sensors.fingerprint(),
            "prior": problem.prior,
            "plan": content_digest(problem.plan_path) if problem.plan else "",
            "outputs": [output.group.name for output in outputs],
            "differentiation": problem.differentiation,
            "topics": problem.topics,
            "columns": problem.columns,
            "allow_missing": self.allow_missing,
            "chunk": self.chunk,
            "kind of log": Path(self.log).suffix,
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
        return [TIME, *(output.group for output in _problem(self)[1])]

    def work(self, k: int) -> Array:
        """Rows of a chunk: time, outputs, p-value, 1 for a sample that could not be solved."""
        opened = _opened(self)
        first = k * self.chunk
        last = min(first + self.chunk, opened.reader.log.n_samples)
        samples = opened.reader.read(first, last)
        usable = np.isfinite(samples.q).all(axis=1) & np.isfinite(samples.qd).all(axis=1)
        width = sum(len(output.group.columns) for output in opened.outputs)
        rows = np.full((len(samples.q), 1 + width + self.notes), np.nan)
        rows[:, 0], rows[:, -1] = samples.time, 0.0
        places = np.flatnonzero(usable)
        for block in np.array_split(places, -(-len(places) // BLOCK)) if len(places) else ():
            self._solve(opened, first, samples, block, rows)
        return rows

    def _solve(
        self, opened: _Opened, first: int, samples: Samples, block: IntArray, rows: Array
    ) -> None:
        """Rows of some samples; where these cannot be solved, those of either half, and so on.

        One sample that overflows is missing and noted; any other error names it and is raised.
        """
        try:
            found = opened.rows(samples, block)
        except DynsysError as error:
            if len(block) > 1:
                for half in np.array_split(block, 2):
                    self._solve(opened, first, samples, half, rows)
                return
            if not isinstance(error, StateError) or isinstance(error, ContradictionError):
                (k,) = block.tolist()
                raise type(error)(self._named(first + k, samples.time[k], error)) from None
            found = np.full((1, rows.shape[1] - 2), np.inf)
        bad = np.isinf(found)
        rows[block, 1:-1] = np.where(bad, np.nan, found)
        rows[block, -1] = bad.any(axis=1)

    def why(self, k: int) -> str:
        """Say why sample k could not be solved."""
        opened = _opened(self)
        samples = opened.reader.read(k, k + 1)
        error: Exception | str = "an output overflows float64; check the units of the log"
        try:
            opened.rows(samples, np.array([0]))
        except DynsysError as found:
            error = found
        return self._named(k, samples.time[0], error)

    def _named(self, k: int, time: float, error: Exception | str) -> str:
        return f"{self.log}, sample {k} ({time:.6g} s): {_STATE.sub('', str(error))}"


_STATE = re.compile(r"^state \d+: ")
"""How a batch names the state that an error is of: a number that says nothing of the log."""


@final
@dataclass(frozen=True, eq=False)
class _Opened:
    """Problem, outputs and log of a job, and what solves it."""

    problem: ProblemFile
    outputs: list[Output]
    reader: SampleReader
    estimation: Estimation
    way: str

    def rows(self, samples: Samples, block: IntArray) -> Array:
        """All outputs (len(block), columns) of some samples, then their p-values."""
        estimate = self.estimation.solve_batch(
            samples.q[block],
            samples.qd[block],
            samples.y[block],
            uncertainty=uncertain(self.outputs) or None,
            outputs=judged(self.outputs),
        )
        checked = np.asarray(estimate.degrees_of_freedom) > 0
        p = np.where(checked, estimate.p_value, np.nan)
        return np.column_stack([rows_of(self.outputs, estimate), p])


@lru_cache(maxsize=1)
def _problem(job: SolveJob) -> tuple[ProblemFile, list[Output]]:
    """Problem and outputs of a job, read once per process."""
    problem = load_problem(job.problem).with_plan(job.plan)
    return problem, parse_outputs(problem.estimation, job.outputs or problem.outputs)


@lru_cache(maxsize=1)
def _opened(job: SolveJob) -> _Opened:
    """What a job needs, opened once per process."""
    problem, outputs = _problem(job)
    _check_meant(job)
    log = problem.open_log(job.log, job.spool or None)
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
    usual = "the reduced system"
    first = reader.read(0, min(n_samples, BLOCK))
    if np.isfinite(first.y).all(axis=1).mean() < MOSTLY:
        return estimation, f"{usual}: most have readings missing"
    compiled = replace(estimation, backend=best_backend())
    with suppress(KernelBuildError):
        wanted = EstimatorOutputs.of_estimate(judged(outputs), uncertain(outputs))
        compiled.compile(outputs=wanted.outputs, uncertainty=wanted.uncertainty)
        return compiled, "the estimator of the layout"
    return estimation, f"{usual}: the layout has no estimator for these outputs"


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
    trajectory : log whose ``time`` and ``q`` are followed, or a record of
        ``dynsys.simulation``, whose accelerations and wrenches are taken too; empty for a
        random motion.
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
    spool: str = ""
    meant: str = ""

    notes: ClassVar[int] = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.problem, self.trajectory) if self.trajectory else (self.problem,)

    @property
    def log_read(self) -> str:
        return self.trajectory

    def simulation(self) -> Simulation:
        """The simulation itself."""
        return _simulation(self)

    def describe(self) -> Mapping[str, Any]:
        """All that a chunk depends on, but for the bytes of the log that is followed."""
        problem = load_problem(self.problem)
        apart = ("problem", "output", "trajectory", "spool", "meant")
        return {k: v for k, v in vars(self).items() if k not in apart} | {
            "version": version(""),
            "layout": problem.sensors.fingerprint(),
            "topics": problem.topics,
            "columns": problem.columns,
            "kind of log": Path(self.trajectory).suffix,
        }

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
    trajectory: Trajectory | Recorded | None
    _check_meant(job)
    if job.trajectory:
        trajectory = Recorded.read(problem.tree, job.trajectory)
        if trajectory is None:
            with problem.open_log(job.trajectory, job.spool or None) as log:
                trajectory = Trajectory.from_log(problem.tree, log)
    else:
        motion = Trajectory.random(problem.tree, job.duration, seed=job.seed, pace=job.pace)
        trajectory = motion.closed(problem.sensors.loops)
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
    for opened in (_problem, _opened, _simulation):
        opened.cache_clear()


def _meaning(job: Job) -> str:
    """Identity of all that a chunk depends on, but for the bytes of a log."""
    return seal(canonical_bytes(job.describe())).hex()


def _check_meant(job: Job) -> None:
    if job.meant not in ("", _meaning(job)):
        raise LogError(f"{job.problem}: has changed since this run began; run it again")


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
    value that is missing or not determined. ``failed`` of these could not be solved, the first
    for the reason ``why``. Of a job that solves: its ``way``, what its reader made by which
    ``method``, did without, and left ``unused``, and the ``judgement`` of its log.
    """

    n_samples: int
    resumed: int
    seconds: float
    missing_rows: int
    failed: int = 0
    why: str = ""
    way: str = ""
    method: str = ""
    derived: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    judgement: Judgement | None = None


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
        what is wrong with log or output, or that another run works on the output; finished
        chunks stay for the next run.
    """
    begin = perf_counter()
    check_output(job.output, job.inputs)
    if job.chunk < 1:
        raise LogError(f"a chunk must hold at least one sample, got {job.chunk}")
    forget()
    folder = Path(job.output + ".partial")
    try:
        with locked(folder / LOCK) as alone:
            if not alone:
                raise LogError(
                    f"{job.output}: another run is writing it; wait until that is done, or give"
                    " this one another output"
                )
            try:
                done = _run(job, folder, workers, scheduler, fresh, progress)
            finally:
                forget()
                _remove_if_empty(folder)
    except OSError as error:
        raise LogError(
            f"{folder}: cannot be used: {error}; what is done is kept, run again"
        ) from None
    return replace(done, seconds=perf_counter() - begin)


LOCK = "lock"


def _remove_if_empty(folder: Path) -> None:
    """Remove a folder that holds nothing but our lock: the lock last, for others wait for it.

    Whoever makes a new lock before the folder is gone keeps the folder.
    """
    with suppress(OSError):
        if all(path.name == LOCK for path in folder.iterdir()):
            (folder / LOCK).unlink()
            folder.rmdir()


def _run(
    job: Job,
    folder: Path,
    workers: int,
    scheduler: str | None,
    fresh: bool,
    progress: Callable[[int, int], Done] | None,
) -> Finished:
    """Do a job in its folder, which nobody else works in."""
    log = Path(job.log_read) if job.log_read else None
    meaning, stamp = _meaning(job), _stamp(log)
    identity = seal(meaning.encode(), b"" if log is None else log_digest(log).encode())
    own = folder / identity.hex()[:16]
    for other in folder.iterdir():
        if other.name != LOCK and (fresh or other != own):
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    own.mkdir(exist_ok=True)
    job = replace(job, spool=str(own / "spool"), meant=meaning)
    n_samples, groups = job.n_samples(), job.groups()
    if n_samples < 1:
        shutil.rmtree(own)
        raise LogError(f"{job.output}: there are no samples to work on")
    width = sum(len(group.columns) for group in groups)
    store = ChunkStore(own, identity, n_samples, job.chunk, width + job.notes)
    left = store.missing()
    kept = store.n_chunks - len(left)
    done: Done = progress(kept, store.n_chunks) if progress else (lambda _: None)
    run_chunks(store, job.work, done, workers=workers, scheduler=scheduler, left=left)
    if _stamp(log) != stamp:
        shutil.rmtree(own)
        raise LogError(f"{log}: has changed while it was read; run again")
    finished = _summary(job, store, min(kept * job.chunk, n_samples))
    write_log(job.output, groups, replace(store, shown=width), own)
    shutil.rmtree(own)
    return finished


def _stamp(log: Path | None) -> list[tuple[int, ...]]:
    """What tells that the files of a log change while they are read."""
    files = [] if log is None else sorted(log.rglob("*")) if log.is_dir() else [log]
    stats = [file.stat() for file in files if file.is_file()]
    return [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in stats]


def _summary(job: Job, store: ChunkStore, resumed: int) -> Finished:
    shown = None if isinstance(job, SimulateJob) else -job.notes
    missing = sum(int(np.isnan(rows[:, :shown]).any(axis=1).sum()) for rows in store)
    finished = Finished(store.n_samples, resumed, 0.0, missing)
    if isinstance(job, SimulateJob):
        return finished
    bad = [k * job.chunk + np.flatnonzero(rows[:, -1]) for k, rows in enumerate(store)]
    failed = np.concatenate(bad).tolist()
    why = job.why(failed[0]) if failed else ""
    if len(failed) == store.n_samples:
        raise LogError(f"no sample can be solved: {why}")
    opened = _opened(job)
    reader, p = opened.reader, np.concatenate([rows[:, -2] for rows in store])
    return replace(
        finished,
        judgement=judge_log(opened.estimation, reader, p),
        failed=len(failed),
        why=why,
        way=job.way(),
        method=str(reader.method),
        derived=reader.derived,
        not_measured=reader.not_measured,
        unused=reader.unused,
    )


def run_chunks(
    store: ChunkStore,
    work: Work,
    done: Done,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    left: list[int] | None = None,
) -> None:
    """Do the chunks that are missing (``left``, if known), until all are there and whole.

    ``work`` must pickle where others do it. Processes of this machine put their chunks into the
    store themselves; those of a cluster return them, for the store need not be on a disk they
    see.
    """
    compute: Callable[[int], Array | None] = partial(_put, store, work)
    known = [store.missing() if left is None else left]
    if scheduler is None:
        workers = min(workers, max(len(known[0]), 1))
    else:
        compute = work

    def finished(k: int, rows: Array | None) -> None:
        if rows is not None:
            store.put(k, rows)
        done(1)

    def missing() -> list[int]:
        return known.pop() if known else store.missing()

    try:
        run_open(missing, compute, finished, workers=workers, scheduler=scheduler)
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
    """Finished chunks of a job on disk, a file each: rows of float64, then their seal.

    Parameters
    ----------
    folder : where they are.
    identity : of the job; goes into the seals.
    n_samples, size : of the whole, and of a chunk (the last may be shorter).
    width : numbers per sample.
    shown : so many of these, the first, are given back; all if None.
    """

    folder: Path
    identity: bytes
    n_samples: int
    size: int
    width: int
    shown: int | None = None

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_samples // self.size)

    def _file(self, k: int) -> Path:
        return self.folder / f"{k:08d}.chunk"

    def _seal(self, k: int, rows: Array) -> bytes:
        return seal(self.identity, str(k).encode(), rows.data.cast("B"))

    def _rows(self, k: int) -> tuple[Array, bytes] | None:
        """Rows of a chunk, a memory map, and the seal they bear; None if it has no such size.

        No file, a short one and an empty one have none.
        """
        size = min(self.size, self.n_samples - k * self.size)
        try:
            content = np.memmap(self._file(k), dtype=np.uint8, mode="r")
        except (OSError, ValueError):
            return None
        end = size * self.width * 8
        if len(content) != end + SEAL:
            return None
        return content[:end].view("<f8").reshape(size, self.width), content[end:].tobytes()

    def missing(self) -> list[int]:
        """Chunks that are not there, or not as they were put there by this job."""
        found = ((k, self._rows(k)) for k in range(self.n_chunks))
        return [k for k, x in found if x is None or self._seal(k, x[0]) != x[1]]

    def put(self, k: int, rows: Array) -> None:
        """Keep a finished chunk."""
        size = min(self.size, self.n_samples - k * self.size)
        if rows.shape != (size, self.width):
            raise LogError(f"chunk {k} has shape {rows.shape}")
        whole = np.ascontiguousarray(rows, dtype="<f8")
        try:
            with replacing(self._file(k)) as part, part.open("wb") as stream:
                stream.write(whole.data)
                stream.write(self._seal(k, whole))
        except OSError as error:
            raise LogError(
                f"{self.folder}: cannot be written: {error}; what is done is kept, run again"
            ) from None

    def __iter__(self) -> Iterator[Array]:
        """All chunks in order, as memory maps."""
        for k in range(self.n_chunks):
            found = self._rows(k)
            if found is None:
                raise LogError(f"{self._file(k)}: has gone or is damaged; run again")
            yield found[0][:, : self.shown]


SEAL = 32
"""Bytes of a seal."""
