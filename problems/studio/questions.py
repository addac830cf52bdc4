"""Questions that a session has put to the background, and the answers so far."""

from __future__ import annotations

from threading import RLock
from typing import Any, TypeAlias, final

from problems.problem_file import ProblemFile
from problems.studio import files
from problems.studio.background import AbstractBackground, Job
from sensors.layout import Layout

__all__ = ["Questions"]

Facts: TypeAlias = dict[str, Any]
NEVER: Facts = {"state": "none"}


@final
class Questions:
    """Answers about one layout; those about an older one are dropped when they come.

    Parameters
    ----------
    name : of the session: key of its jobs.
    background : does the jobs.
    lock : of the session; answers come from another thread.
    """

    def __init__(self, name: str, background: AbstractBackground, lock: RLock) -> None:
        self._name, self._background, self._lock = name, background, lock
        self._answers: dict[str, Facts] = {}
        self._problem: ProblemFile
        self._content: Facts

    def begin(self, problem: ProblemFile, layout: Layout) -> None:
        """Turn to another layout: ask for its cost and verdict."""
        self.give_up()
        self._problem, self._content = problem, files.layout_content(layout)
        self._answers = {"suggest": NEVER, "compile": NEVER}
        for task in ("cost", "verdict"):
            self.ask(task)

    def give_up(self) -> None:
        """Let go of what takes long."""
        for task in ("compile", "suggest"):
            self._background.cancel(f"{self._name}/{task}")

    def ask(self, task: str, **options: Any) -> None:
        """Ask for something about the layout."""
        answers, pending = self._answers, {"state": "pending"}
        answers[task] = pending
        prior = self._problem.prior
        job = Job(
            task=task,
            robot=files.robot_spec(self._problem),
            floating=self._problem.floating,
            layout=self._content,
            prior=None if prior is None else (dict(prior.std), dict(prior.mean)),
            options=tuple(options.items()),
        )

        def done(facts: Facts) -> None:
            with self._lock:
                if self._answers is answers and answers[task] is pending:
                    state = "failed" if "failed" in facts else "done"
                    answers[task] = {"state": state, **facts}

        self._background.submit(f"{self._name}/{task}", job, done)

    def answer(self, task: str) -> Facts:
        """What is known of a task: its ``state`` (none, pending, done, failed) and facts."""
        return self._answers[task]

    @property
    def answers(self) -> dict[str, Facts]:
        """What is known of every task."""
        return dict(self._answers)
