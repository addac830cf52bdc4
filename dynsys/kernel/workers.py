"""Workers: threads that wait for a share of a batch, so that none need be started for it.

A worker sleeps in Python until it is woken, then watches its line of the board in machine code
(team.py) for a while after each batch: the next one, if it comes soon, finds it awake. Waking
takes some 30 us, a third of the batch of a small robot.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import StateError
from dynsys.kernel.llvm.target import LoadedCode
from dynsys.kernel.llvm.team import ASLEEP, LINE, WAKING

__all__ = ["Workers", "check_threads", "processors"]

_Bell: TypeAlias = "SimpleQueue[bool]"
"""True wakes a worker, False ends it."""


@final
class Workers:
    """Threads that help with the batches of one kernel; they end with this object.

    There are never more than other processors: a thread that waits for one helps nobody.
    """

    def __init__(self, code: LoadedCode) -> None:
        self._code = code
        self._most = processors() - 1
        self._crew = _Crew(self._most)

    def awake(self, helpers: int) -> NDArray[np.int64]:
        """Board (helpers, 8) of workers that watch it, or soon will; of fewer if need be."""
        helpers = max(0, min(helpers, self._most))
        crew = self._crew
        if helpers:
            if crew.process != os.getpid():  # a forked child has no threads
                crew = self._crew = _Crew(self._most)
            for k in range(helpers):
                if crew.states[k] == ASLEEP:
                    self._wake(crew, k)
        return crew.board[:helpers]

    def _wake(self, crew: _Crew, k: int) -> None:
        with crew.lock:
            while len(crew.bells) <= k:
                if not self._start(crew):
                    return
            if crew.states[k] == ASLEEP:
                crew.states[k] = WAKING
                crew.bells[k].put(True)

    def _start(self, crew: _Crew) -> bool:
        """Start one more; False where the system allows no more threads."""
        bell: _Bell = SimpleQueue()
        line = crew.board[len(crew.bells)]
        try:
            Thread(target=_work, args=(bell, line, self._code), daemon=True).start()
        except RuntimeError:
            return False
        weakref.finalize(self, bell.put, False)
        crew.bells.append(bell)
        return True


class _Crew:
    """The workers of one process: their board, and a bell for each that was started."""

    def __init__(self, most: int) -> None:
        self.board = np.zeros((most, LINE), np.int64)
        self.states = self.board[:, 0]
        self.bells: list[_Bell] = []
        self.lock = Lock()
        self.process = os.getpid()


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


def _work(bell: _Bell, line: NDArray[np.int64], code: LoadedCode) -> None:
    """Serve whenever woken; ``line`` and ``code`` live as long as this thread."""
    serve = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.serve)
    while bell.get():
        serve(line.ctypes.data)
