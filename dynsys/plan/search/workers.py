"""Who runs the tasks of a search or a campaign: this process, its children, a Dask cluster.

All three are executors in the sense of ``concurrent.futures``. Tasks are pure functions of
their arguments, so that it does not matter who runs them, nor that one is run again.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dynsys.distribution import install
from dynsys.errors import SchedulerError

__all__ = ["Serial", "executor"]


class Serial(Executor):
    """Runs every task at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return its finished future; interrupts are not kept in it."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def executor(workers: int = 1, scheduler: str | None = None) -> Iterator[Executor]:
    """Executor of ``workers`` processes, or of the Dask cluster at ``scheduler``.

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
    if scheduler is not None:
        yield from _on_cluster(workers, scheduler)
    elif workers == 1:
        yield Serial()
    else:
        # spawned, not forked: a fork would copy locks of threads that run here
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, context, initializer=_leave_interrupts_to_parent)
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _leave_interrupts_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_cluster(workers: int, scheduler: str) -> Iterator[Executor]:
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise SchedulerError(
            f"--scheduler {scheduler} needs Dask's distributed, which is not installed:"
            f" {install('dask')}"
        ) from None
    if scheduler == "local":
        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client.get_executor(pure=False)
        return
    try:
        client = distributed.Client(scheduler, timeout=10)
    except (OSError, ValueError) as error:
        raise SchedulerError(f"no Dask scheduler answers at {scheduler!r}: {error}") from None
    with client:
        yield client.get_executor(pure=False)
