"""What takes longer than a glance, in another process, so that the page stays quick.

The tasks are the verdict over many postures, the cost of a solve and of compiling it,
suggestions, compiling, the search for a cheaper order, and the meshes of the robot. Each takes
and returns what can be sent to another process. A job that waits is replaced by a newer one of
the same key; one that runs is finished and its owner judges whether the answer is still
wanted, or it is stopped, or given up and its process replaced. What may take minutes has a
process of its own: the verdict does not wait for a search.
"""

from __future__ import annotations

import math
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Condition, RLock, Thread
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from scipy.sparse.linalg import splu

from dynsys.errors import DynsysError, KernelBuildError
from dynsys.model.tree import KinematicTree
from dynsys.plan.plan import Plan
from dynsys.plan.search.search import Progress, Search
from dynsys.system.equations import Kinematics
from problems.estimation.estimation import Estimation
from problems.measured.prior import Prior
from problems.placement.placement import place_sensors
from problems.problem_file import ProblemFile
from problems.studio import files
from problems.studio.shapes import body_meshes
from problems.verdict.words import describe
from problems.visuals import names_meshes, read_visuals
from sensors.files import sensor_record
from sensors.layout import Layout

__all__ = [
    "TASKS",
    "AbstractBackground",
    "BackgroundAnswers",
    "Done",
    "Job",
    "Lanes",
    "ProcessBackground",
    "Tell",
    "job_of",
    "run_task",
]

Facts: TypeAlias = dict[str, Any]
Done: TypeAlias = Callable[[dict[str, Any]], None]
Tell: TypeAlias = Callable[[dict[str, Any]], None]
"""Tells how far a task is; raises KeyboardInterrupt if it shall end with what it has."""
NICE = 2
"""How far the background steps behind the page."""
POLL = 0.05
"""Seconds between looks at a running job."""
END = "end"
"""Word to a running job: end with what there is."""
REPEATS = 5
"""Solves of which the quickest is told."""


class Job(NamedTuple):
    """A task and the problem it is about.

    Parameters
    ----------
    task : a word of :data:`TASKS`.
    robot : as in a problem file; files with absolute paths.
    floating : True if the root link moves freely.
    layout : content of a layout file.
    prior : std and mean of a prior, or None.
    options : further arguments of the task.
    reading : ``friction``, ``lock`` and ``mimic`` of the problem: how the robot is read.
    """

    task: str
    robot: str
    floating: bool
    layout: Facts
    prior: tuple[Facts, Facts] | None = None
    options: tuple[tuple[str, Any], ...] = ()
    reading: tuple[Any, ...] = ("ignore", (), "independent")


class AbstractBackground(ABC):
    """Does jobs in the order they come; tells their owners."""

    @abstractmethod
    def submit(self, key: str, job: Job, done: Done, told: Tell | None = None) -> None:
        """Do a job; ``done`` gets its facts or ``{"failed": words}``, ``told`` its progress."""

    @abstractmethod
    def cancel(self, key: str) -> None:
        """Give a job up, waiting or running."""

    @abstractmethod
    def stop(self, key: str) -> None:
        """Let a running job end with what it has; one that waits is given up."""

    @abstractmethod
    def close(self) -> None:
        """Give all jobs up."""


# ---- answers about one layout --------------------------------------------------------------


NEVER: Facts = {"state": "none"}
ON_DEMAND = ("suggest", "compile", "search")
"""Tasks that are asked for by a button; the others, by every change of sensors."""


@final
class BackgroundAnswers:
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
        self.plan: Plan | None = None

    def begin(self, problem: ProblemFile, layout: Layout) -> None:
        """Turn to another layout: ask for its cost and verdict."""
        self.give_up()
        self._problem, self._content = problem, layout.content()
        self._answers = dict.fromkeys(ON_DEMAND, NEVER)
        self.plan = None
        for task in ("cost", "verdict", "price"):
            self.ask(task)

    def give_up(self) -> None:
        """Let go of what takes long."""
        for task in ON_DEMAND:
            self._background.cancel(f"{self._name}/{task}")

    def stop(self, task: str) -> None:
        """Let a task end with what it has."""
        self._background.stop(f"{self._name}/{task}")

    def ask(self, task: str, **options: Any) -> None:
        """Ask for something about the layout."""
        answers, latest = self._answers, [{"state": "pending"}]
        answers[task] = latest[0]

        def put(facts: Facts) -> None:
            """Take facts in place of the latest ones, unless another question came since."""
            with self._lock:
                if self._answers is answers and answers[task] is latest[0]:
                    if "plan" in facts:
                        self.plan = facts.pop("plan")
                        if answers["compile"]["state"] == "done":  # of the order before
                            answers["compile"] = NEVER
                    answers[task] = latest[0] = facts

        def done(facts: Facts) -> None:
            put({"state": "failed" if "failed" in facts else "done", **facts})

        job = job_of(self._problem, self._content, task, **options)
        key = f"{self._name}/{task}"
        self._background.submit(
            key, job, done, lambda facts: put({"state": "pending", **facts})
        )

    def answer(self, task: str) -> Facts:
        """What is known of a task: its ``state`` (none, pending, done, failed) and facts."""
        return self._answers[task]

    @property
    def answers(self) -> dict[str, Facts]:
        """What is known of every task."""
        return dict(self._answers)


def job_of(problem: ProblemFile, content: Facts, task: str, **options: Any) -> Job:
    """Return a task about a problem with the layout of this content."""
    prior, locked = problem.prior, problem.lock.items()
    lock = tuple((joint, tuple(np.ravel(at).tolist())) for joint, at in locked)
    return Job(
        task=task,
        robot=files.robot_spec(problem),
        floating=problem.floating,
        layout=content,
        prior=None if prior is None else (dict(prior.std), dict(prior.mean)),
        options=tuple(options.items()),
        reading=(problem.friction, lock, problem.mimic),
    )


# ---- the other process ---------------------------------------------------------------------


@final
class ProcessBackground(AbstractBackground):
    """One process, started with the first job and used again."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Job, Done, Tell | None]] = {}
        self._running = ""
        self._given_up = self._stopped = False
        self._closed = False
        self._changed = Condition()
        self._process: Any = None
        self._pipe: Connection
        self._thread = Thread(target=self._work, name="studio-background", daemon=True)
        self._thread.start()

    def submit(self, key: str, job: Job, done: Done, told: Tell | None = None) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._waiting[key] = job, done, told
            self._changed.notify()

    def stop(self, key: str) -> None:
        with self._changed:
            self._waiting.pop(key, None)
            self._stopped = self._stopped or self._running == key

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
                job, done, told = self._waiting.pop(key)
                self._running, self._given_up, self._stopped = key, False, False
            answer = self._ask(job, told)
            with self._changed:
                self._running = ""
            if answer is not None:
                done(answer)

    def _ask(self, job: Job, told: Tell | None) -> dict[str, Any] | None:
        """Facts of a job; None if it was given up."""
        try:
            if self._process is None:
                self._start()
            self._pipe.send(job)
            while True:
                if self._given_up:
                    self._stop()
                    return None
                if self._stopped:
                    self._pipe.send(END)
                    self._stopped = False
                if not self._pipe.poll(POLL):
                    continue
                is_answer, facts = self._pipe.recv()
                if is_answer:
                    return dict(facts)
                if told is not None:
                    told(facts)
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

    def tell(facts: Facts) -> None:
        pipe.send((False, facts))
        if pipe.poll() and pipe.recv() == END:
            raise KeyboardInterrupt

    with suppress(EOFError, OSError):
        while True:
            job = pipe.recv()
            if job == END:  # it came after the answer
                continue
            try:
                answer = run_task(job, tell)
            except (
                Exception
            ) as error:  # a defect must not take the page down: it is shown there
                answer = {"failed": f"{type(error).__name__}: {error}"}
            pipe.send((True, answer))


@final
class Lanes(AbstractBackground):
    """Two backgrounds: what may take long does not hold up the rest.

    Parameters
    ----------
    quick, slow : for tasks that come with every change; for those of a button, and meshes.
    """

    def __init__(self, quick: AbstractBackground, slow: AbstractBackground) -> None:
        self._lanes = quick, slow

    def submit(self, key: str, job: Job, done: Done, told: Tell | None = None) -> None:
        self._lanes[job.task in (*ON_DEMAND, "looks")].submit(key, job, done, told)

    def cancel(self, key: str) -> None:
        for lane in self._lanes:
            lane.cancel(key)

    def stop(self, key: str) -> None:
        for lane in self._lanes:
            lane.stop(key)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


# ---- tasks ---------------------------------------------------------------------------------

OUTPUTS = ("torque", "external_wrench")
"""What a compiled solve is asked for."""
FIRST_SECONDS, SECONDS_EACH = 0.35, 75e-6
"""Compiling on a core of 2023: to begin with, and per operation (panda 4,800 operations 0.7 s,
humanoid 20,000 1.6 s, icub 46,000 3.6 s)."""
CALL_MICROSECONDS, MICROSECONDS_EACH = 0.8, 0.14e-3
"""The same of one compiled solve (panda 1.5, icub 7.2)."""


@lru_cache(maxsize=2)
def _robot(spec: str, floating: bool, reading: tuple[Any, ...]) -> ProblemFile:
    friction, lock, mimic = reading
    return ProblemFile(spec, {}, floating, friction=friction, lock=dict(lock), mimic=mimic)


def _estimation(job: Job) -> Estimation:
    robot = _robot(job.robot, job.floating, job.reading)
    problem = replace(robot, layout=job.layout)
    problem.__dict__["_named"] = robot._named  # read once
    prior = None if job.prior is None else Prior(*job.prior)
    return Estimation(problem.tree, problem.sensors, prior)


def _ignore(facts: Facts) -> None:
    """Tell nobody."""


def run_task(job: Job, tell: Tell = _ignore) -> Facts:
    """Do a job; a search tells how far it is."""
    if job.task == "looks":
        return _looks(job.robot, _robot(job.robot, job.floating, job.reading).tree)
    more = {"tell": tell} if job.task == "search" else {}
    return TASKS[job.task](_estimation(job), **dict(job.options), **more)


def _verdict(problem: Estimation) -> Facts:
    """Verdict as ``dynsys check`` gives it, with the records of the repairs."""
    verdict = problem.verdict()
    return {
        "status": verdict.status,
        "well_posed": verdict.is_well_posed,
        "text": str(verdict),
        "unseen": describe(verdict.directions),
        "repairs": [
            {"words": r.words, "sensors": [sensor_record(s) for s in r.sensors]}
            for r in verdict.repairs
        ],
        "rank_drops": [
            {"where": drop.where, "lost": drop.lost, "q": drop.q.tolist()}
            for drop in verdict.rank_drops
        ],
        "condition": verdict.condition[1],
        "samples": verdict.samples,
    }


def _suggest(problem: Estimation, goal: str, budget: float) -> Facts:
    """Sensors to add within a budget of rows."""
    robot, layout, place = problem.robot, problem.layout, partial(place_sensors, states=1)
    before = place(robot, layout, goal=goal, budget=0.0, evaluations=0)
    found = place(robot, layout, goal=goal, budget=budget, evaluations=50)
    return {
        "goal": goal,
        "budget": budget,
        "sensors": [sensor_record(c.sensor) for c in found.chosen],
        "cost": found.cost,
        "open_before": before.open_goals,
        "open_after": found.open_goals,
        "std_before": before.std if math.isfinite(before.std) else None,
        "std_after": found.std if math.isfinite(found.std) else None,
    }


def _state(problem: Estimation) -> tuple[Any, Any, Any]:
    robot = problem.robot
    y = np.nan_to_num(problem.layout.constants)
    return robot.random_configuration(0), np.zeros(robot.nv), y


def _best_microseconds(call: Callable[[], object], repeats: int) -> float:
    call()
    found = []
    for _ in range(repeats):
        begin = perf_counter()
        call()
        found.append(perf_counter() - begin)
    return 1e6 * min(found)


def _cost(problem: Estimation) -> Facts:
    """Operations and time of one solve by the library path, without compiled code."""
    q, qd, y = _state(problem)
    rows = problem.measured.pack(y, None, None)
    found = problem.posterior(q, qd, rows)
    time = _best_microseconds(lambda: problem.posterior(q, qd, rows), REPEATS)
    return {
        "method": found.method,
        "operations": _operations(problem, found.method),
        "microseconds": time,
        "unknowns": problem.system.shape[1],
        "readings": len(rows),
    }


def _operations(problem: Estimation, method: str) -> int:
    """Operations of factorising and solving once; dense: of its largest factorisation."""
    measured = problem.measured
    present = np.ones(len(measured.variance), dtype=bool)
    if method == "dense":
        stated = measured.statements(present)
        return 2 * int(stated.others.sum()) * len(stated.left) ** 2
    kinematics = Kinematics.at(problem.robot, *_state(problem)[:2])
    (D, _), (Y, _) = measured.at(kinematics)
    factors = splu(measured.saddle().at(D.data, Y.data, present).matrix)
    below = np.diff(factors.L.tocsc().indptr) - 1
    right = np.diff(factors.U.tocsr().indptr) - 1
    elimination = int((below * (1 + 2 * right)).sum())
    return elimination + 2 * int(factors.L.nnz + factors.U.nnz)


def _price(problem: Estimation) -> Facts:
    """What compiling would cost, before it begins; refused where it cannot be done."""
    try:
        operations = problem.plan(outputs=OUTPUTS).operations.total
    except KernelBuildError as error:
        return {"refused": str(error)}
    return {
        "operations": operations,
        "seconds": FIRST_SECONDS + SECONDS_EACH * operations,
        "microseconds": CALL_MICROSECONDS + MICROSECONDS_EACH * operations,
    }


def _compile(problem: Estimation, plan: Plan | None = None) -> Facts:
    """Operations and time of one solve by machine code for this robot and layout."""
    q, qd, y = _state(problem)
    try:
        executed = problem.plan(outputs=OUTPUTS) if plan is None else plan
        begin = perf_counter()
        kernel = problem.compile(plan, outputs=OUTPUTS)
        seconds = perf_counter() - begin
    except KernelBuildError as error:
        return {"refused": str(error)}
    return {
        "operations": executed.operations.total,
        "microseconds": _best_microseconds(lambda: kernel.one(q, qd, y), 200),
        "seconds": seconds,
        "searched": plan is not None,
    }


def _search(problem: Estimation, seconds: float, tell: Tell) -> Facts:
    """Look for a cheaper order of elimination; the best so far when it is stopped."""

    def progress(now: Progress) -> None:
        tell(
            {
                "seconds": now.seconds,
                "wanted": seconds,
                "tried": now.evaluations,
                "before": now.start.total,
                "operations": now.best.total,
            }
        )

    begin = perf_counter()
    try:
        plan = problem.plan(outputs=OUTPUTS, search=Search(seconds=seconds, progress=progress))
    except KernelBuildError as error:
        return {"refused": str(error)}
    return {
        "before": int(plan.options["constructive"]),
        "operations": plan.operations.total,
        "seconds": perf_counter() - begin,
        "plan": plan,
    }


def _looks(file: str, robot: KinematicTree) -> Facts:
    """Meshes of the robot's file, few enough triangles to be drawn at once."""
    if file.startswith(files.NAMED) or not names_meshes(file):
        return {"shapes": []}
    try:
        found = read_visuals(file, robot)
    except DynsysError as error:
        return {"missing": str(error)}
    return {"shapes": body_meshes(robot, found.shapes), "notes": list(found.notes)}


TASKS: Mapping[str, Callable[..., Facts]] = MappingProxyType(
    {
        "cost": _cost,
        "verdict": _verdict,
        "price": _price,
        "suggest": _suggest,
        "compile": _compile,
        "search": _search,
    }
)
"""Tasks about an estimation, by name."""
