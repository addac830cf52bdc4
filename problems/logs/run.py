"""Run a job chunk by chunk: here, in processes, or on a Dask cluster, with the same result."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array
from problems.logs.jobs import forget
from problems.logs.source import missing_library
from problems.logs.write import Group, check_output, write_log

__all__ = [
    "ChunkStore",
    "Done",
    "Finished",
    "Job",
    "local_cluster",
    "run_chunks",
    "run_job",
    "run_on_dask",
]

KEEPING, KEPT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), 1 << 25
"""Settings of the C library's allocator, and bytes up to which freed memory is kept."""


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


class Job(Protocol):
    """Work that is done chunk by chunk."""

    @property
    def output(self) -> str:
        """File to write."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Files that are read."""
        ...

    @property
    def chunk(self) -> int:
        """Samples of a chunk."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Everything the result depends on."""
        ...

    def n_samples(self) -> int:
        """Number of samples of the result."""
        ...

    def groups(self) -> list[Group]:
        """Columns of the result."""
        ...

    def work(self, k: int) -> Array:
        """Rows of chunk k."""
        ...


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
    store = _store(job, fresh)
    kept = store.n_chunks - len(store.missing())
    done: Done = progress(kept, store.n_chunks) if progress else (lambda _: None)
    if scheduler is None:
        run_chunks(store, job.work, workers, done)
    else:
        with _client(scheduler, workers) as (client, count):
            run_on_dask(store, job.work, client, 2 * count, done)
    write_log(job.output, job.groups(), store, store.folder)
    missing = sum(int(np.isnan(rows).any(axis=1).sum()) for rows in store)
    forget()
    store.remove()
    resumed = min(kept * job.chunk, store.n_samples)
    return Finished(store.n_samples, resumed, perf_counter() - begin, missing)


def _store(job: Job, fresh: bool) -> ChunkStore:
    if job.chunk < 1:
        raise LogError(f"a chunk must hold at least one sample, got {job.chunk}")
    n = job.n_samples()
    if n < 1:
        raise LogError(f"{job.output}: there are no samples to work on")
    width = sum(len(group.columns) for group in job.groups())
    store = ChunkStore(Path(job.output), n, job.chunk, width)
    store.prepare(job.describe(), fresh=fresh)
    return store


def local_cluster(workers: int) -> Any:
    """Dask cluster on this machine, of one thread per worker.

    Its workers keep freed memory for the next chunk: Dask's own setting gives every array back
    to the system at once, and asking for it again costs more than solving.
    """
    config: Any = import_module("dask.config")
    distributed: Any = import_module("distributed")
    with config.set({f"distributed.nanny.pre-spawn-environ.{k}": KEPT for k in KEEPING}):
        return distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        )


@contextmanager
def _client(scheduler: str, workers: int) -> Iterator[tuple[Any, int]]:
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise missing_library(Path(scheduler), "distributed", "dask") from None
    if scheduler == "local":
        with local_cluster(workers) as cluster, distributed.Client(cluster) as client:
            yield client, workers
        return
    try:
        client = distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise LogError(f"no Dask scheduler answers at {scheduler!r}: {error}") from None
    with client:
        yield client, max(len(client.scheduler_info()["workers"]), 1)


# ----------------------------------------------------------------------
# Work in chunks that survives interruption: done chunks are kept beside the output.
#
# ``OUT.partial/`` holds ``job.json`` (what the work is) and one ``.npy`` file per chunk that is
# done, each put there whole. A run with the same job goes on where the last one stopped; any
# other job starts afresh. The output appears, whole, when all chunks are there; then the folder
# goes.

Work = Callable[[int], Array]
Done = Callable[[int], None]
"""Told how many chunks more are done."""

IN_FLIGHT = 2
"""Chunks handed out per worker: one being worked on, one waiting."""


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

    def span(self, k: int) -> tuple[int, int]:
        """First sample of chunk k, and the one after its last."""
        return k * self.size, min((k + 1) * self.size, self.n_samples)

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
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                self.folder.mkdir(parents=True)
            except OSError as error:
                raise LogError(f"{self.folder}: cannot be made: {error}") from None
            _replace(note, lambda part: part.write_text(text, encoding="utf-8"))
        return self.n_chunks - len(self.missing())

    def missing(self) -> list[int]:
        """Chunks that are not done."""
        return [k for k in range(self.n_chunks) if not self._file(k).is_file()]

    def put(self, k: int, rows: Array) -> None:
        """Keep a finished chunk."""
        start, stop = self.span(k)
        if rows.shape != (stop - start, self.width):
            raise LogError(f"chunk {k} has shape {rows.shape}")
        _replace(self._file(k), lambda part: _save(part, rows))

    def __iter__(self) -> Iterator[Array]:
        """All chunks in order, as memory maps."""
        for k in range(self.n_chunks):
            yield np.load(self._file(k), mmap_mode="r")

    def remove(self) -> None:
        """Forget the unfinished work."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _save(path: Path, rows: Array) -> None:
    """Write as np.save does, through Python's own stream: a full disk is then named as such."""
    whole = np.ascontiguousarray(rows)
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, np.lib.format.header_data_from_array_1_0(whole)
        )
        stream.write(whole.data)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        write(part)
        os.replace(part, path)
    except OSError as error:
        raise LogError(
            f"{path.parent}: cannot be written: {error}; what is done is kept, run again"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


# ---- who does the work ------------------------------------------------------------


def run_chunks(store: ChunkStore, work: Work, workers: int, done: Done) -> None:
    """Do what is missing, here or in ``workers`` processes; ``work`` must then pickle."""
    missing = store.missing()
    if workers <= 1 or len(missing) <= 1:
        for k in missing:
            store.put(k, work(k))
            done(1)
        return
    with ProcessPoolExecutor(min(workers, len(missing)), get_context("spawn")) as pool:
        try:
            _hand_out(store, pool, work, missing, IN_FLIGHT * workers, done)
        except BrokenProcessPool:
            raise LogError(
                "a worker process died (out of memory?); what is done is kept: run the same"
                " command again, perhaps with fewer workers or a smaller chunk"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _hand_out(
    store: ChunkStore,
    pool: ProcessPoolExecutor,
    work: Work,
    missing: list[int],
    at_once: int,
    done: Done,
) -> None:
    waiting = iter(missing)
    running: set[Future[None]] = set()
    while True:
        for k in waiting:
            running.add(pool.submit(_finish, store, work, k))
            if len(running) >= at_once:
                break
        if not running:
            return
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()
            done(1)


def _finish(store: ChunkStore, work: Work, k: int) -> None:
    """In a worker process: do a chunk and put it where it belongs."""
    store.put(k, work(k))


class DaskClient(Protocol):
    """What is used of ``distributed.Client``."""

    def submit(self, function: Work, *arguments: int, pure: bool) -> Any:
        """Start a task."""
        ...


def run_on_dask(
    store: ChunkStore, work: Work, client: DaskClient, at_once: int, done: Done
) -> None:
    """Do what is missing on a Dask cluster. Tasks of a worker that dies go to another."""
    distributed: Any = import_module("distributed")
    waiting = iter(store.missing())
    running: dict[str, int] = {}
    results = distributed.as_completed()

    def submit() -> None:
        k = next(waiting, None)
        if k is not None:
            future = client.submit(work, k, pure=False)
            running[future.key] = k
            results.add(future)

    with _named_loss():
        for _ in range(at_once):
            submit()
        for future in results:
            store.put(running.pop(future.key), future.result())
            future.release()
            done(1)
            submit()


@contextmanager
def _named_loss() -> Iterator[None]:
    """LogError where the cluster, not the work, has failed."""
    try:
        yield
    except Exception as error:
        lost = ("KilledWorker", "CommClosedError")
        if isinstance(error, CancelledError) or type(error).__name__ in lost:
            raise LogError(
                f"the Dask cluster was lost ({error}); what is done is kept: run again"
            ) from None
        raise
