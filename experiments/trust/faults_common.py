"""What fault injections share: their outcome, processes to kill, a disk that can be full."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, final

__all__ = [
    "Outcome",
    "Skipped",
    "forks",
    "killed_at_work",
    "own_cache",
    "small_disk",
    "undisturbed",
    "with_wrong",
]

LIMIT = 300.0
"""Seconds within which a process begins, says the next word, or ends."""
ATTEMPTS = 50
"""Processes that may be over before they are killed, until one is not."""
_READ_ONLY, _REMOUNT = 1, 32  # MS_RDONLY, MS_REMOUNT


class Skipped(Exception):
    """The fault cannot be injected on this machine; the message says why."""


@final
@dataclass(frozen=True)
class Outcome:
    """A fault ``injected`` so many times, ``survived`` so many, and what that means."""

    fault: str
    injected: int
    survived: int
    meaning: str
    skipped: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return self.injected == self.survived


def with_wrong(meaning: str, wrong: Collection[str]) -> str:
    """What survival means, and what went wrong, each once."""
    return meaning if not wrong else f"{meaning}; WRONG: {'; '.join(sorted(set(wrong))[:6])}"


def forks() -> ForkServerContext:
    """Processes that are forked from one which has imported the packages and has no threads.

    Locks that a thread holds where a process is forked are held for ever in the child.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.trust.faults_processes"])
    return context


@contextlib.contextmanager
def _started(
    target: Callable[..., None], arguments: tuple[Any, ...]
) -> Iterator[tuple[Any, Connection]]:
    """A process that has just begun with ``target``, and where it will say that it is done.

    The time until it is killed is time of the work, not of imports. It ends with the block.
    """
    context = forks()
    here, there = context.Pipe()
    given = (there, os.environ.get("DYNSYS_CACHE"), target, arguments)
    process = context.Process(target=_begin, args=given)
    process.start()
    there.close()
    try:
        with here:
            _heard(here)
            yield process, here
    finally:
        process.kill()
        process.join(LIMIT)


def _heard(pipe: Connection) -> bytes:
    """What the process at the other end says within the limit."""
    if not pipe.poll(LIMIT):
        raise RuntimeError(f"a process said nothing for {LIMIT:.0f} s")
    return pipe.recv_bytes()


def _begin(
    pipe: Connection, cache: str | None, target: Callable[..., None], arguments: Any
) -> None:
    if cache is not None:
        os.environ["DYNSYS_CACHE"] = cache
    pipe.send_bytes(b"ready")
    target(*arguments)
    pipe.send_bytes(b"done")


def _is_done(pipe: Connection) -> bool:
    """Whether the process at the other end has said that it is done; False if it died."""
    try:
        return _heard(pipe) == b"done"
    except EOFError:
        return False


def killed_at_work(
    target: Callable[..., None], fresh: Callable[[], tuple[Any, ...]], delay: float
) -> tuple[Any, ...]:
    """Run ``target(*fresh())`` in a process and kill -9 it after ``delay`` s; its arguments.

    A process whose work was over by then was not hit: another begins, to be killed sooner.

    Raises
    ------
    RuntimeError
        where the work fails by itself, or is over however soon it is killed.
    """
    for _ in range(ATTEMPTS):
        arguments = fresh()
        with _started(target, arguments) as (process, pipe):
            process.join(delay)
            process.kill()
            process.join(LIMIT)
            if not _is_done(pipe):
                if process.exitcode == -signal.SIGKILL:
                    return arguments
                raise RuntimeError(f"{target.__name__}: exit code {process.exitcode}, unkilled")
        delay *= 0.9
    raise RuntimeError(f"{target.__name__}: over before any of {ATTEMPTS} kills")


def undisturbed(target: Callable[..., None], arguments: tuple[Any, ...]) -> float:
    """Run ``target`` in a process to its end; seconds."""
    with _started(target, arguments) as (process, pipe):
        begin = time.perf_counter()
        done = _is_done(pipe)
        seconds = time.perf_counter() - begin
        process.join(LIMIT)
    if not done:
        raise RuntimeError(f"{target.__name__}: exit code {process.exitcode}, unkilled")
    return seconds


@contextlib.contextmanager
def own_cache(folder: Path) -> Iterator[Path]:
    """Let kernels be cached in ``folder``, here and in processes started meanwhile."""
    before = os.environ.get("DYNSYS_CACHE")
    os.environ["DYNSYS_CACHE"] = str(folder)
    try:
        yield folder
    finally:
        del os.environ["DYNSYS_CACHE"]
        if before is not None:
            os.environ["DYNSYS_CACHE"] = before


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Callable[[], None]]:
    """Mount a disk of ``size`` at ``folder``; yields what makes it read-only.

    Raises
    ------
    Skipped
        where mounting is not allowed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    folder.mkdir(parents=True, exist_ok=True)
    place = os.fsencode(folder)
    if libc.mount(b"none", place, b"tmpfs", 0, f"size={size},mode=700".encode()):
        raise Skipped(f"mounting a small disk: {os.strerror(ctypes.get_errno())}")

    def make_read_only() -> None:
        if libc.mount(b"none", place, b"tmpfs", _READ_ONLY | _REMOUNT, None):
            raise Skipped(f"remounting read-only: {os.strerror(ctypes.get_errno())}")

    try:
        yield make_read_only
    finally:
        for _ in range(50):
            if not libc.umount(place):
                break
            time.sleep(0.1)
        else:
            libc.umount2(place, 2)  # MNT_DETACH
