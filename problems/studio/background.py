"""Other processes for what takes longer than a glance, so that the page stays quick.

A job that waits is replaced when a newer one of the same key comes; one that runs is finished
and its owner judges whether the answer is still wanted, or it is given up and its process
replaced.
"""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Condition, Thread
from typing import Any, TypeAlias, final

from problems.studio.tasks import Job, run_task

__all__ = ["AbstractBackground", "ProcessBackground"]

Done: TypeAlias = Callable[[dict[str, Any]], None]
NICE = 2
"""How far the background steps behind the page."""
POLL = 0.05
"""Seconds between looks at a running job."""


class AbstractBackground(ABC):
    """Does jobs in the order they come; tells their owners."""

    @abstractmethod
    def submit(self, key: str, job: Job, done: Done) -> None:
        """Do a job; ``done`` gets its facts, or ``{"failed": words}``."""

    @abstractmethod
    def cancel(self, key: str) -> None:
        """Give a job up, waiting or running."""

    @abstractmethod
    def close(self) -> None:
        """Give all jobs up."""


@final
class ProcessBackground(AbstractBackground):
    """One process, started with the first job and used again."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Job, Done]] = {}
        self._running = ""
        self._given_up = False
        self._closed = False
        self._changed = Condition()
        self._process: Any = None
        self._pipe: Connection
        self._thread = Thread(target=self._work, name="studio-background", daemon=True)
        self._thread.start()

    def submit(self, key: str, job: Job, done: Done) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._waiting[key] = job, done
            self._changed.notify()

    def cancel(self, key: str) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._given_up |= self._running == key

    def close(self) -> None:
        with self._changed:
            self._closed = self._given_up = True
            self._waiting.clear()
            self._changed.notify()
        self._thread.join(timeout=5)
        self._stop()

    # ---- thread that owns the process ----------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                key = next(iter(self._waiting))
                job, done = self._waiting.pop(key)
                self._running, self._given_up = key, False
            answer = self._ask(job)
            with self._changed:
                self._running = ""
            if answer is not None:
                done(answer)

    def _ask(self, job: Job) -> dict[str, Any] | None:
        """Facts of a job; None if it was given up."""
        try:
            if self._process is None:
                self._start()
            self._pipe.send(job)
            while not self._pipe.poll(POLL):
                if self._given_up:
                    self._stop()
                    return None
            answer: dict[str, Any] = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            self._stop()
            return {"failed": "the background process ended; change something to try again"}

    def _start(self) -> None:
        context = get_context("spawn")
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=serve, args=(far_end,), daemon=True)
        self._process.start()
        far_end.close()

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.join(timeout=5)
            self._pipe.close()


def serve(pipe: Connection) -> None:
    """Do jobs that come through a pipe until it closes: the other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server says when to stop
    with suppress(OSError, AttributeError):
        os.nice(NICE)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(_answer(pipe.recv()))


def _answer(job: Job) -> dict[str, Any]:
    try:
        return run_task(job)
    except Exception as error:  # a defect must not take the page down: it is shown there
        return {"failed": f"{type(error).__name__}: {error}"}
