"""Run a job chunk by chunk: here, in processes, or on a Dask cluster, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, final

import numpy as np

from dynsys.types import Array
from problems.logs.chunks import ChunkStore, Done, run_chunks, run_on_dask
from problems.logs.jobs import forget
from problems.logs.source import LogError, missing_library
from problems.logs.write import Group, check_output, write_log

__all__ = ["Finished", "Job", "local_cluster", "run_job"]

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
