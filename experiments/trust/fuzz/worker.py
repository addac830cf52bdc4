"""A process that runs cases within limits of time and memory and says which lines they hit."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, final

from dynsys.errors import DynsysError

__all__ = ["MEMORY_LIMIT", "SECONDS_LIMIT", "Outcome", "Worker"]

SECONDS_LIMIT = 5.0
"""No input may take longer."""
MEMORY_LIMIT = 512 * 2**20
"""No input may take more bytes beyond what the process had."""
HIDDEN_LIMIT = MEMORY_LIMIT // 8
"""Largest growth of an input that the peak of an earlier one may hide."""
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = tuple(str(ROOT / name) + os.sep for name in ("dynsys", "sensors", "problems"))


@final
@dataclass(frozen=True)
class Outcome:
    """What a case did: ``read``, ``refused`` (an error of ours), or a failure.

    Failures are ``exception`` (of somebody else), ``hang``, ``memory`` and ``crash``; ``where``
    tells failures of different cause apart.
    """

    kind: str
    where: str = ""
    message: str = ""
    lines: frozenset[tuple[str, int]] = frozenset()

    @property
    def is_failure(self) -> bool:
        """Whether something is to be repaired."""
        return self.kind not in ("read", "refused")


@final
class Worker:
    """Runs ``check(path)`` in a process of its own, started anew where that is needed.

    That is after a hang, after a crash, and after an input so large that the growth of later
    ones would stay below its peak.
    """

    def __init__(self, check: Callable[[Path], None], *, coverage: bool = True) -> None:
        self._check, self._coverage = check, coverage
        self._process: Any = None
        self._pipe: Any = None

    def run(self, path: Path) -> Outcome:
        """Outcome of one case."""
        if self._process is None:
            context = multiprocessing.get_context("fork")
            self._pipe, other = context.Pipe()
            self._process = context.Process(
                target=_serve,
                args=(self._pipe, other, self._check, self._coverage),
                daemon=True,
            )
            self._process.start()
            other.close()
        self._pipe.send(path)
        # Tracing lines makes everything slower; the limit itself is judged by the process.
        if not self._pipe.poll((6 if self._coverage else 3) * SECONDS_LIMIT):
            self.stop()
            return Outcome("hang", f"no answer to {path.name}")
        try:
            outcome, last = self._pipe.recv()
            assert isinstance(outcome, Outcome)
            if last:
                self.stop()
            return outcome
        except EOFError:
            self._process.join(SECONDS_LIMIT)
            code = self._process.exitcode
            self.stop()
            return Outcome("crash", f"exit code {code}", f"the process ended with {code}")

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join(SECONDS_LIMIT)
            self._pipe.close()
            self._process = None


def _serve(
    far_end: Connection, pipe: Connection, check: Callable[[Path], None], coverage: bool
) -> None:
    far_end.close()  # of the process that asks: when that ends, however it ends, so does this
    warnings.simplefilter("ignore")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    folder = tempfile.mkdtemp(prefix="dynsys-fuzz-")
    os.chdir(folder)
    limit = _statm(0) + 4 * MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        while True:
            outcome = _run(check, pipe.recv(), coverage)
            pipe.send((outcome, _peak() - _resident() > HIDDEN_LIMIT))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        shutil.rmtree(folder, ignore_errors=True)


def _run(check: Callable[[Path], None], path: Path, coverage: bool) -> Outcome:
    lines: set[tuple[str, int]] = set()

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, event: str, _: object) -> Any:
        return on_line if frame.f_code.co_filename.startswith(PACKAGES) else None

    before, begin = _resident(), time.process_time()
    kind, where, message = "read", "", ""
    if coverage:
        sys.settrace(on_call)
    try:
        check(path)
    except DynsysError as error:
        kind, message = "refused", str(error)
    except MemoryError:
        kind, where = "memory", _origin()
    except BaseException as error:
        kind, where = "exception", f"{type(error).__name__} {_origin()}"
        message = str(error)[:300]
    finally:
        sys.settrace(None)
    # Where the peak is still an earlier input's, grown is too large, by HIDDEN_LIMIT at most.
    seconds, grown = time.process_time() - begin, _peak() - before
    if seconds > SECONDS_LIMIT * (3 if coverage else 1):
        kind, message = "hang", f"{seconds:.1f} s; {message[:200]}"
    elif grown > MEMORY_LIMIT:
        kind, message = "memory", f"{grown >> 20} MB; {message[:200]}"
    return Outcome(kind, where, message[:300], frozenset(lines))


def _peak() -> int:
    """Most bytes of memory that the process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _resident() -> int:
    """Bytes of memory that the process has now."""
    return _statm(1)


def _statm(field: int) -> int:
    pages = Path("/proc/self/statm").read_text().split()[field]
    return int(pages) * resource.getpagesize()


def _origin() -> str:
    """Last line of ours that an exception came through."""
    own = [
        f for f in traceback.extract_tb(sys.exc_info()[2]) if f.filename.startswith(PACKAGES)
    ]
    if not own:
        return "outside"
    return f"{Path(own[-1].filename).relative_to(ROOT)}:{own[-1].lineno}"
