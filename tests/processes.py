"""Processes that tests start: each has a limit of time, and none outlives its test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

LIMIT = 300.0
"""Seconds for whatever a test waits for, on a busy machine; less than a test may take."""


@contextmanager
def started(
    command: Sequence[str | Path], *, seconds: float = LIMIT, **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, killed where the test fails and after so many seconds: reading ends then."""
    with subprocess.Popen(command, **options) as child:
        limit = Timer(seconds, child.kill)
        limit.start()
        try:
            yield child
            child.wait(LIMIT)
        finally:
            limit.cancel()
            child.kill()


@contextmanager
def dynsys_started(*words: object, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command line in a process of its own, its output and errors to be read.

    Nothing asks Python to write at once: what a reader waits for must have been flushed.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYTHONUNBUFFERED", None)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "problems.command.main", *map(str, words)]
    with started(command, **pipes | {"env": environment} | options) as child:
        yield child


def in_background() -> None:
    """Called in a child before it begins: Ctrl-C is off, as in a script's background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def told_by(child: subprocess.Popen[bytes]) -> Any:
    """The first JSON object that a process writes, over lines that end with its brace."""
    text = b""
    while not text.endswith(b"}\n"):
        line = child.stdout.readline()
        assert line, "it ended before it said anything"
        text += line
    return json.loads(text)
