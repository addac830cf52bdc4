"""Long work that survives being killed: tasks whose results are files.

    open tasks  ->  executor (this process, others, a Dask cluster)  ->  one file per result

A task is open as long as its file is not there, whole and its own. A file appears by renaming,
when it is on the disk (:func:`replacing`), and carries a seal (:func:`seal`): the digest of its
bytes and of all that they were computed from. So a killed process loses the tasks it was
computing and no other, a second run of the same work goes on with what is open
(:func:`run_open`), and what is damaged, or was left behind by other work, is computed again.
What goes into a seal is content (:func:`content_digest`), never names, sizes or times. Where
two processes must not do the same work, one holds a lock (:func:`locked`); where they need
not, one waits for the other (:func:`in_turn`).

Tasks are pure functions of their arguments: it does not matter who computes one, nor that one
is computed again. What the files hold, and what becomes of them in the end, is left to the
caller: :mod:`dynsys.plan.search.campaign` keeps them, :mod:`problems.log_jobs` joins them into
a log.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import Any, TypeVar

from dynsys.distribution import install
from dynsys.errors import DynsysError, SchedulerError, WorkersLost

__all__ = [
    "Serial",
    "content_digest",
    "executor",
    "in_turn",
    "local_cluster",
    "locked",
    "replacing",
    "run_open",
    "seal",
    "written",
]

Task = TypeVar("Task")
Result = TypeVar("Result")

IN_FLIGHT = 2
"""Tasks handed out per worker: one being worked on, one waiting."""
POLL, PATIENCE = 0.02, 120.0
"""Seconds between looks at a lock, and until :func:`in_turn` does without it."""
KEEPING, KEPT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), 1 << 25
"""Settings of the C library's allocator, and bytes up to which freed memory is kept."""


# ---- files that are whole or absent ---------------------------------------------------------


@contextmanager
def replacing(path: Path, scratch: Path | None = None) -> Iterator[Path]:
    """Give a place to write to; what is there becomes ``path`` when the block ends well.

    It is on the disk before it has the name, also where the machine loses its power. Every
    writer has a place of its own: of several, also threads of one process, the last one counts.

    ``scratch`` : folder of the unfinished file, on the same disk; None for that of ``path``.
    """
    own = f"{path.name}.{os.getpid()}-{token_hex(4)}.part"
    part = (scratch or path.parent) / own
    try:
        yield part
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
        with suppress(OSError):  # some systems know no such thing of folders
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def written(path: Path, refused: type[DynsysError]) -> Iterator[Path]:
    """:func:`replacing` for a file that a user has named: ``refused`` says why it is not to be.

    What was there before stays then.
    """
    try:
        with replacing(path) as part:
            yield part
    except OSError as error:
        raise refused(f"{path}: cannot be written: {error}") from None


def seal(*parts: bytes | memoryview) -> bytes:
    """SHA-256 (32 bytes) of what a result was computed from, and of the result itself."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def content_digest(path: Path) -> str:
    """SHA-256 (hex) of the bytes of a file, or of all files in a folder and their names."""
    digest = hashlib.sha256()
    if not path.is_dir():
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        name = file.relative_to(path).as_posix().encode()
        digest.update(seal(name, bytes.fromhex(content_digest(file))))
    return digest.hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """True while this process holds the lock; it is given back however the process ends.

    Whoever holds it may remove the file, and its folder.
    """
    try:
        import fcntl
    except ImportError:  # no such locks here: one process per folder
        yield True
        return
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            try:
                file = opened.enter_context(path.open("a"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    continue  # who held it has removed it meanwhile
            except FileNotFoundError:
                continue
            except BlockingIOError:
                file = None
            try:
                yield file is not None
            finally:
                if file is not None:  # children forked meanwhile hold the file open, too
                    fcntl.flock(file, fcntl.LOCK_UN)
            return


@contextmanager
def in_turn(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Wait while another process or thread holds the lock, then hold it; the file goes after.

    For work that several may do at once without harm, but need not: so they do where there are
    no locks, where the folder cannot be written, and when ``patience`` seconds have passed.
    """
    end, is_ours = time.monotonic() + patience, False
    with ExitStack() as held:
        with suppress(OSError):
            while not (is_ours := held.enter_context(locked(path))):
                held.close()
                if time.monotonic() > end:
                    break
                time.sleep(POLL)
        try:
            yield
        finally:
            if is_ours:
                with suppress(OSError):
                    path.unlink()


# ---- who works ------------------------------------------------------------------------------


class Serial(Executor):
    """Runs every task at once, in this process."""

    at_once = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return its finished future; interrupts are not kept in it."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def executor(workers: int = 1, scheduler: str | None = None) -> Iterator[Any]:
    """Executor of ``workers`` processes, or of the Dask cluster at ``scheduler``.

    A ``concurrent.futures.Executor``; its ``at_once`` is the number of tasks to hand out before
    waiting for results.

    Parameters
    ----------
    workers : 1 runs tasks in this process.
    scheduler : address such as ``tcp://host:8786``, or ``local`` for a cluster of ``workers``
        processes on this machine; None for no cluster.

    Raises
    ------
    SchedulerError
        if Dask is missing or does not answer.
    """
    if workers < 1:
        raise ValueError(f"workers must be 1 or more, got {workers}")
    pool: Any = Serial()
    if scheduler is not None:
        with _client(workers, scheduler) as client:
            pool = client.get_executor(pure=False)
            pool.at_once = IN_FLIGHT * max(len(client.scheduler_info()["workers"]), 1)
            yield pool
    elif workers == 1:
        yield pool
    else:
        # spawned, not forked: a fork would copy locks of threads that run here
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, context, initializer=_live_with_parent)
        pool.at_once = IN_FLIGHT * workers
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _live_with_parent() -> None:
    """Leave interrupts to the process that started this one, and end however that ends.

    A worker would wait for a killed one's next task for ever: it holds both ends of the pipe
    that tasks come through.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=follow, daemon=True).start()


@contextmanager
def _client(workers: int, scheduler: str) -> Iterator[Any]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise SchedulerError(
            f"--scheduler {scheduler} needs Dask's distributed, which is not installed:"
            f" {install('dask')}"
        ) from None
    if scheduler == "local":
        with local_cluster(workers) as cluster, distributed.Client(cluster) as client:
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise SchedulerError(f"no Dask scheduler answers at {scheduler!r}: {error}") from None
    with client:
        yield client


def local_cluster(workers: int) -> Any:
    """Dask cluster on this machine, of one thread per worker.

    Its workers keep freed memory for the next task: Dask's own setting gives every array back
    to the system at once, and asking for it again costs more than solving.
    """
    config: Any = import_module("dask.config")
    distributed: Any = import_module("distributed")
    with config.set({f"distributed.nanny.pre-spawn-environ.{k}": KEPT for k in KEEPING}):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=None,
            # it serves pages without the dashboard, too: at 8787 where no port is given
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=50,
        )


# ---- the work -------------------------------------------------------------------------------


def run_open(
    open_tasks: Callable[[], Sequence[Task]],
    compute: Callable[[Task], Result],
    done: Callable[[Task, Result], None],
    *,
    workers: int = 1,
    scheduler: str | None = None,
    patience: int = 1,
) -> None:
    """Compute every open task, until none is open.

    Parameters
    ----------
    open_tasks : the tasks without a result; asked again after workers were lost.
    compute : run where the executor says; must then pickle, like the tasks.
    done : told of every task and its result, here, as they come.
    patience : times in a row that workers may be lost without any task being finished.

    Raises
    ------
    WorkersLost
        if workers die that often. Whatever ``compute`` and ``done`` raise ends the work, too.
    OSError
        if what was written for some tasks cannot be read back, twice.
    """
    losses = damaged = 0
    while left := open_tasks():
        finished = 0
        if damaged > 1:
            raise OSError(f"{len(left)} results are damaged as soon as they are written")
        damaged += 1
        try:
            with (
                executor(workers, scheduler) as pool,
                closing(_each_done(pool, compute, left)) as results,
            ):
                for task, result in results:
                    finished += 1
                    done(task, result)
        except WorkersLost:
            damaged = 0
            losses = 1 if finished else losses + 1
            if losses >= patience:
                raise


def _each_done(
    pool: Any, compute: Callable[[Task], Result], tasks: Iterable[Task]
) -> Generator[tuple[Task, Result]]:
    """Tasks with their results as they come; few are handed out at a time."""
    waiting = iter(tasks)
    running: dict[Future[Result], Task] = {}
    try:
        while True:
            for task in waiting:
                running[pool.submit(compute, task)] = task
                if len(running) >= pool.at_once:
                    break
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except (BrokenProcessPool, CancelledError) as error:
        raise WorkersLost(str(error)) from None
    except Exception as error:  # by its name, for Dask may not be installed
        if type(error).__name__ in ("KilledWorker", "CommClosedError"):
            raise WorkersLost(str(error)) from None
        raise
    finally:
        for future in running:
            future.cancel()
