"""Long work that survives being killed: tasks whose results are files.

    open tasks  ->  executor (this process, others, a Dask cluster)  ->  one file per result

A task is open as long as its file is not there. A file appears whole, by renaming
(:func:`replacing`), so a killed process loses the tasks it was computing and no other, and a
second run of the same work goes on with what is open (:func:`run_open`). Tasks are pure
functions of their arguments: it does not matter who computes one, nor that one is computed
again. What the files hold, and what becomes of them in the end, is left to the caller:
:mod:`dynsys.plan.search.campaign` keeps them, :mod:`problems.log_jobs` joins them into a log.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
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
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from dynsys.distribution import install
from dynsys.errors import SchedulerError, WorkersLost

__all__ = ["Serial", "executor", "local_cluster", "replacing", "run_open"]

Task = TypeVar("Task")
Result = TypeVar("Result")

IN_FLIGHT = 2
"""Tasks handed out per worker: one being worked on, one waiting."""
KEEPING, KEPT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), 1 << 25
"""Settings of the C library's allocator, and bytes up to which freed memory is kept."""


# ---- files that are whole or absent ---------------------------------------------------------


@contextmanager
def replacing(path: Path, scratch: Path | None = None) -> Iterator[Path]:
    """Give a place to write to; what is there becomes ``path`` when the block ends well.

    ``scratch`` : folder of the unfinished file, on the same disk; None for that of ``path``.
    """
    part = (scratch or path.parent) / f"{path.name}.{os.getpid()}.part"
    try:
        yield part
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


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
        pool = ProcessPoolExecutor(workers, context, initializer=_leave_interrupts_to_parent)
        pool.at_once = IN_FLIGHT * workers
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
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
    """
    losses = 0
    while left := open_tasks():
        finished = 0
        try:
            with (
                executor(workers, scheduler) as pool,
                closing(_each_done(pool, compute, left)) as results,
            ):
                for task, result in results:
                    finished += 1
                    done(task, result)
        except WorkersLost:
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
