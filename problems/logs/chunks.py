"""Work in chunks that survives interruption: done chunks are kept beside the output.

``OUT.partial/`` holds ``job.json`` (what the work is) and one ``.npy`` file per chunk that is
done, each put there whole. A run with the same job goes on where the last one stopped; any
other job starts afresh. The output appears, whole, when all chunks are there; then the folder
goes.
"""

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
from typing import Any, Protocol, final

import numpy as np

from dynsys.types import Array
from problems.logs.source import LogError

__all__ = ["ChunkStore", "Done", "run_chunks", "run_on_dask"]

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
