"""Workers: threads that wait for work, so that a batch need not start threads of its own."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import TypeAlias, final

__all__ = ["Workers"]

_Task: TypeAlias = tuple[Callable[[], bool | None], "SimpleQueue[bool | BaseException | None]"]


@final
class Workers:
    """Threads that run the same task as their caller; they end with this object."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._count = 0
        self._process = os.getpid()

    def run(self, task: Callable[[], bool | None], threads: int) -> bool | None:
        """Run ``task`` in so many threads, one the caller's: whether all say True, or None."""
        self._grow(threads - 1)
        results: SimpleQueue[bool | BaseException | None] = SimpleQueue()
        for _ in range(threads - 1):
            self._tasks.put((task, results))
        found: list[bool | BaseException | None] = []
        try:
            found.append(task())
        finally:
            found += [results.get() for _ in range(threads - 1)]
        for result in found:
            if isinstance(result, BaseException):
                raise result
        return None if None in found else all(found)

    def _grow(self, count: int) -> None:
        if self._process != os.getpid():  # a forked child has no threads
            self._tasks, self._count, self._process = SimpleQueue(), 0, os.getpid()
        while self._count < count:
            self._count += 1
            Thread(target=_work, args=(self._tasks,), daemon=True).start()
            weakref.finalize(self, self._tasks.put, None)


def _work(tasks: SimpleQueue[_Task | None]) -> None:
    while (item := tasks.get()) is not None:
        task, results = item
        del item
        try:
            results.put(task())
        except BaseException as error:
            results.put(error)
        del task, results
