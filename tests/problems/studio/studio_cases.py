"""A background that works when told to, and sessions on small robots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from problems.problem_file import ProblemFile
from problems.studio.background import AbstractBackground, Done, Job, Tell, run_task
from problems.studio.files import Folder
from problems.studio.server import parse_message
from problems.studio.session import Session

CHAIN = "synthetic:chain:3"
UNTOUCHED: dict[str, Any] = {"sensors": ["zero_external_wrench_except"]}


class Patient(AbstractBackground):
    """Keeps jobs until :meth:`work`."""

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[Job, Done, Tell | None]] = {}
        self.stopped: list[str] = []

    def submit(self, key: str, job: Job, done: Done, told: Tell | None = None) -> None:
        self.waiting[key] = job, done, told

    def cancel(self, key: str) -> None:
        self.waiting.pop(key, None)

    def stop(self, key: str) -> None:
        self.stopped.append(key)

    def close(self) -> None:
        self.waiting.clear()

    def work(self) -> None:
        jobs, self.waiting = list(self.waiting.values()), {}
        for job, done, told in jobs:
            done(run_task(job, told or (lambda facts: None)))


def session_on(
    folder: Path, robot: str = CHAIN, layout: dict[str, Any] | str | None = None, **more: Any
) -> Session:
    problem = ProblemFile(robot, UNTOUCHED if layout is None else layout, **more)
    return Session("s", problem, Folder(folder), Patient())


def torques(view: dict[str, Any]) -> dict[str, float | None]:
    return {t["joint"]: t["std"] for t in view["glance"]["torques"]}


def act(session: Session, action: str, **fields: Any) -> dict[str, Any]:
    """Send an action as the page would: through the checks of messages."""
    import json

    _, action, checked = parse_message(json.dumps({"action": action, **fields}).encode())
    return session.act(action, checked)


def work(session: Session) -> dict[str, Any]:
    """Let the background finish; the view after that."""
    background = session.background
    assert isinstance(background, Patient)
    background.work()
    return act(session, "look")
