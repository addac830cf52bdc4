"""Run a job chunk by chunk: here, in processes, or on a Dask cluster, with the same result.

``OUT.partial/`` holds ``job.json`` (what the work is) and one ``.npy`` file per chunk that is
done, each put there whole. A run with the same job goes on where the last one stopped; any
other job starts afresh. The output appears, whole, when all chunks are there; then the folder
goes. How work is handed out and survives lost workers is :mod:`dynsys.resumable`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, final

import numpy as np

from dynsys.errors import LogError, SchedulerError, WorkersLost
from dynsys.resumable import replacing, run_open
from dynsys.types import Array
from problems.logs.files import check_output, write_log
from problems.logs.jobs import Job, forget

__all__ = ["ChunkStore", "Done", "Finished", "run_chunks", "run_job"]

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
