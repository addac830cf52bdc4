"""Rows of a batch shared among threads of the standard library, where that saves time.

A batch is cut into a few parts per thread. The caller takes parts until none is left, and so
does every thread of the pool that comes to help: one that wakes late does less instead of being
waited for. Waking a thread and taking the GIL again costs some 0.1 ms, so a batch is shared
only if its estimated time, rows times the seconds of a row, is several times that.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from time import perf_counter
from typing import TypeAlias, final

import numpy as np

from dynsys.errors import StateError

__all__ = ["SharedRows", "check_threads", "processors"]

WORTH_SHARING = 1e-3
"""Seconds; a batch that takes less is done by one thread."""
PARTS_PER_THREAD = 4

PartOfRows: TypeAlias = Callable[[int, int], bool | None]
"""Computes part k of n: whether all its numbers are finite, or None if it could not."""


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(threads: int) -> int:
    """Return a number of threads; StateError if it is none."""
    if not isinstance(threads, (int, np.integer)) or threads < 1:
        raise StateError(f"threads must be a whole number >= 1, got {threads!r}")
    return int(threads)


@final
class SharedRows:
    """Shares the batches of one kernel, and remembers how long a row takes.

    ``fewest`` is the smallest number of rows worth being a part.
    """

    def __init__(self, fewest: int) -> None:
        self._fewest = fewest
        self._row_seconds = float("inf")  # unknown as yet

    def run(self, work: PartOfRows, rows: int, threads: int) -> bool | None:
        """All parts of a batch: whether all numbers are finite; None if a part could not be."""
        threads = min(check_threads(threads), rows // self._fewest)
        if threads <= 1 or rows * self._row_seconds < WORTH_SHARING:
            return work(0, 1)
        threads = min(threads, processors())
        if threads <= 1:
            return work(0, 1)
        parts = min(PARTS_PER_THREAD * threads, rows // self._fewest)
        waiting = deque(range(parts))
        if self._row_seconds == float("inf"):
            results = self._timed(work, deque([waiting.popleft()]), rows, parts)
            if rows * self._row_seconds < WORTH_SHARING:
                threads = 1
        else:
            results = []
        helpers = _helpers(lambda: _take(work, waiting, parts), threads - 1)
        results += self._timed(work, waiting, rows, parts)
        for helper in helpers:
            if not helper.cancel():
                results += helper.result()
        return None if None in results else all(results)

    def _timed(
        self, work: PartOfRows, waiting: deque[int], rows: int, parts: int
    ) -> list[bool | None]:
        """Results of the parts that this thread does; the fastest row so far is remembered."""
        start = perf_counter()
        results = _take(work, waiting, parts)
        if results:
            seconds = (perf_counter() - start) * parts / (len(results) * rows)
            self._row_seconds = min(self._row_seconds, seconds)
        return results


def _take(work: PartOfRows, waiting: deque[int], parts: int) -> list[bool | None]:
    """Do parts until none is left."""
    results: list[bool | None] = []
    while True:
        try:
            part = waiting.popleft()
        except IndexError:
            return results
        results.append(work(part, parts))


def _helpers(
    task: Callable[[], list[bool | None]], count: int
) -> list[Future[list[bool | None]]]:
    """The task on threads of the pool; fewer where the system allows no more threads."""
    helpers = []
    try:
        for _ in range(count):
            helpers.append(_pool(os.getpid()).submit(task))
    except RuntimeError:  # no thread can be started, or the interpreter is about to end
        pass
    return helpers


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of a process: a forked child has none of its parent's."""
    return ThreadPoolExecutor(processors(), thread_name_prefix=f"dynsys-{process}")
