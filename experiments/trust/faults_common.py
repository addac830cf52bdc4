"""What fault injections share: their outcome, processes to kill, a disk that can be full."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

__all__ = [
    "Outcome",
    "Skipped",
    "killed_after",
    "own_cache",
    "small_disk",
    "undisturbed",
    "with_wrong",
]

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


def _started(target: Callable[..., None], arguments: tuple[Any, ...]) -> Any:
    """A process that has just begun with ``target``.

    It is forked from a server that has imported the packages: the time until it is killed is
    time of the work, not of imports.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.trust.faults_processes"])
    here, there = context.Pipe()
    given = (there, os.environ.get("DYNSYS_CACHE"), target, arguments)
    process = context.Process(target=_begin, args=given)
    process.start()
    there.close()
    here.recv_bytes()
    return process


def _begin(ready: Any, cache: str | None, target: Callable[..., None], arguments: Any) -> None:
    if cache is not None:
        os.environ["DYNSYS_CACHE"] = cache
    ready.send_bytes(b"ready")
    target(*arguments)


def killed_after(target: Callable[..., None], arguments: tuple[Any, ...], delay: float) -> bool:
    """Run ``target`` in a process, kill -9 it after ``delay`` s; whether it was at work."""
    process = _started(target, arguments)
    process.join(delay)
    alive = process.is_alive()
    process.kill()
    process.join()
    return bool(alive)


def undisturbed(target: Callable[..., None], arguments: tuple[Any, ...]) -> float:
    """Run ``target`` in a process to its end; seconds."""
    process = _started(target, arguments)
    begin = time.perf_counter()
    process.join()
    return time.perf_counter() - begin


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
