"""Campaigns: many independent tasks whose results are files; interrupted ones go on.

One folder holds a campaign: ``KEY.json`` per finished task, written by whoever computed it and
moved into place as a whole; ``KEY.lock`` is locked by the process that computes the task, and
the lock dies with it. So a killed worker or coordinator loses the task in flight and no other,
and no task is computed twice, also if two coordinators share the folder. Workers on other
machines must see the folder under the same path. The work itself is that of
:mod:`dynsys.resumable`.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, final

from dynsys.errors import CampaignError, WorkersLost
from dynsys.resumable import locked, replacing, run_open, seal

__all__ = ["Campaign", "CampaignTask", "Outcome", "Summary"]

Json: TypeAlias = Mapping[str, Any]
Function: TypeAlias = Callable[[Json], Json]

PATIENCE = 3
"""Times in a row that workers may die without any task being finished."""
POLL = 0.2
"""Seconds between looks at a task that another process computes."""


@final
@dataclass(frozen=True)
class CampaignTask:
    """What to compute: JSON data; ``key`` names its file."""

    payload: Json

    @property
    def key(self) -> str:
        """Name made from the payload: readable words, then a digest that tells them apart."""
        text = json.dumps(self.payload, sort_keys=True, allow_nan=False)
        words = [str(self.payload[k]) for k in sorted(self.payload)]
        plain = "_".join("".join(c if c.isalnum() else "-" for c in word) for word in words)
        return f"{plain[:80]}_{sha256(text.encode()).hexdigest()[:12]}"


@final
@dataclass(frozen=True)
class Outcome:
    """A finished task: ``result``, or the ``error`` that the function raised."""

    task: CampaignTask
    result: Json | None
    error: str | None
    seconds: float
    process: int


@final
@dataclass(frozen=True)
class Summary:
    """How a run of a campaign ended: tasks finished before it, by it, and still open."""

    before: int
    computed: int
    open: int
    failed: int
    interrupted: bool


@final
@dataclass(frozen=True, eq=False)
class Campaign:
    """Tasks, and the folder that keeps their results.

    Raises
    ------
    CampaignError
        if two tasks are the same.
    """

    folder: Path
    tasks: tuple[CampaignTask, ...]

    def __post_init__(self) -> None:
        keys = [task.key for task in self.tasks]
        if len(set(keys)) < len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise CampaignError(f"the campaign has task {twice!r} twice; leave one out")

    def run(
        self,
        function: Function,
        *,
        workers: int = 1,
        scheduler: str | None = None,
        progress: Callable[[Outcome], None] | None = None,
    ) -> Summary:
        """Compute what is open; Ctrl-C returns with what is finished.

        ``function`` is importable, takes the payload of a task and returns JSON data. An
        exception it raises is the outcome of its task and does not stop the others.

        Raises
        ------
        CampaignError
            if the folder holds results of other tasks, or workers keep dying.
        """
        before, interrupted = 0, False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            before = len(self.outcomes())
            run_open(
                self.open_tasks,
                partial(_compute, function, self.folder.resolve()),
                lambda _, outcome: progress(outcome) if progress else None,
                workers=workers,
                scheduler=scheduler,
                patience=PATIENCE,
            )
        except KeyboardInterrupt:
            interrupted = True
        except WorkersLost:
            keys = ", ".join(task.key for task in self.open_tasks()[:workers])
            raise CampaignError(
                f"workers died {PATIENCE} times without finishing a task; look at {keys}"
                " (memory?); what is finished is kept"
            ) from None
        except OSError as error:
            raise CampaignError(
                f"folder {str(self.folder)!r} cannot be used: {error}; what is finished is kept"
            ) from None
        found = self.outcomes()
        for outcome in found:  # whoever still waits for one of these locks finds the result
            (self.folder / f"{outcome.task.key}.lock").unlink(missing_ok=True)
        failed = sum(outcome.error is not None for outcome in found)
        still_open = len(self.tasks) - len(found)
        return Summary(before, len(found) - before, still_open, failed, interrupted)

    def outcomes(self) -> list[Outcome]:
        """Finished tasks, in the order of the campaign."""
        found = (_read(self.folder, task) for task in self.tasks)
        return [outcome for outcome in found if outcome is not None]

    def open_tasks(self) -> list[CampaignTask]:
        """Tasks without a result."""
        return [task for task in self.tasks if _read(self.folder, task) is None]


# ---- one task, in whichever process ---------------------------------------------------------


def _compute(function: Function, folder: Path, task: CampaignTask) -> Outcome:
    """Compute one task and write its file, unless another process does: then wait for it."""
    while True:
        with locked(folder / f"{task.key}.lock") as mine:
            found = _read(folder, task)
            if found is not None:
                return found
            if mine:
                with _finishing_first():
                    outcome = _computed(function, task)
                    _write(folder, outcome)
                return outcome
        time.sleep(POLL)


@contextmanager
def _finishing_first() -> Iterator[None]:
    """Let a SIGTERM wait: a pool that lost one worker ends the others, whose tasks count."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if asked:
            os.kill(os.getpid(), signal.SIGTERM)


def _computed(function: Function, task: CampaignTask) -> Outcome:
    start = time.perf_counter()
    result: Json | None = None
    error: str | None = None
    try:
        result = function(task.payload)
        json.dumps(result, allow_nan=False)
    except Exception as problem:
        result, error = None, f"{type(problem).__name__}: {problem}"
    return Outcome(task, result, error, time.perf_counter() - start, os.getpid())


# ---- its file -------------------------------------------------------------------------------

FIELDS = ("result", "error", "seconds", "process")


def _write(folder: Path, outcome: Outcome) -> None:
    document: dict[str, Any] = {"payload": dict(outcome.task.payload)}
    document |= {field: getattr(outcome, field) for field in FIELDS}
    path = folder / f"{outcome.task.key}.json"
    document["sha256"] = _seal(document)
    with replacing(path) as part:
        text = json.dumps(document, allow_nan=False, indent=1)
        part.write_text(text + "\n", encoding="utf-8")


def _seal(document: Json) -> str:
    """Seal of a document as it is once it has been written and read."""
    plain = json.loads(json.dumps(document))
    return seal(json.dumps(plain, sort_keys=True).encode()).hex()


def _read(folder: Path, task: CampaignTask) -> Outcome | None:
    """Outcome of a task, None if it is open, or its file damaged or without a seal.

    Raises
    ------
    CampaignError
        if the file is of another task.
    """
    path = folder / f"{task.key}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(document, dict) or not {"payload", *FIELDS} <= set(document):
        return None
    if document.pop("sha256", "") != _seal(document):
        return None
    if document["payload"] != json.loads(json.dumps(dict(task.payload))):
        raise CampaignError(f"{str(path)!r} is the result of another task; use another folder")
    return Outcome(task, *(document[field] for field in FIELDS))
