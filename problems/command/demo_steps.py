"""``dynsys demo``: from sensors to torques on a humanoid, in five steps and one report.

1. the robot and what its sensors determine, before any data
2. a plan: the order in which its linear system is eliminated, searched for
3. torques and wrenches along a bundled log, with their uncertainty, against the truth
4. inverse, forward and hybrid dynamics against RNEA, ABA and, where installed, Pinocchio
5. one self-contained HTML page with all of it
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from dynsys.plan.search.search import Progress, Search
from problems.command.demo_dynamics import AGREEMENT, DemoRow, compare_dynamics
from problems.command.demo_log import FEET, PUSHED, bundled, demo_problem
from problems.estimation.estimation import Estimation
from problems.planning import PlanRequest
from problems.problem_file import ProblemFile
from problems.report import Subject, build_report, estimation_subject, write_page
from problems.report.estimates import LogPart, SolvedLog, log_part, solve_log
from problems.terminal import progress_bar
from problems.verdict.verdict import Verdict
from sensors import Layout, catalogue, zero_external_wrench_except

__all__ = ["AGREEMENT", "DemoPlan", "DemoResult", "DemoRow", "Push", "run"]

LOG = "humanoid_log.npz"
EVALUATIONS = 300
INSIDE = 0.9
"""Part of the true torques within two standard deviations that counts as agreement."""


@final
@dataclass(frozen=True)
class DemoPlan:
    """Order found for the sensors that just suffice: operations before and after the search."""

    unknowns: int
    entries: int
    constructive: int
    found: int
    evaluations: int
    pivots_by_sampling: int


@final
@dataclass(frozen=True)
class Push:
    """Force on the hand when it is largest: time (s), truth, estimate, its deviation (N)."""

    body: str
    time: float
    truth: float
    estimate: float
    std: float


@final
@dataclass(frozen=True, eq=False)
class DemoResult:
    """All that the demo found; parts are None until their step is done."""

    robot: str
    n_bodies: int
    nv: int
    total_mass: float
    sensors: int
    readings: int
    states: int
    seed: int
    verdict: Verdict | None = None
    poorer: Verdict | None = None
    plan: DemoPlan | None = None
    log: LogPart | None = None
    push: Push | None = None
    rows: list[DemoRow] = field(default_factory=list)
    report: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def inside(self) -> float:
        """Part of the true torques within two standard deviations of their estimates."""
        shares = [s.inside or 0.0 for s in self.log.torques] if self.log else []
        return float(np.mean(shares)) if shares else 0.0

    @property
    def agrees(self) -> bool:
        """True if dynamics is that of its recursive twins and the torques hold the truth."""
        return all(row.agrees for row in self.rows) and self.inside > INSIDE

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values; of the log, what it comes to."""
        return {
            "robot": self.robot,
            "n_bodies": self.n_bodies,
            "nv": self.nv,
            "total_mass": self.total_mass,
            "sensors": self.sensors,
            "readings": self.readings,
            "states": self.states,
            "seed": self.seed,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "poorer": None if self.poorer is None else self.poorer.to_json(),
            "plan": None if self.plan is None else asdict(self.plan),
            "torques": [
                {"joint": s.name, "unit": s.unit, "rmse": s.rmse, "inside": s.inside}
                for s in (self.log.torques if self.log else ())
            ],
            "inside": self.inside,
            "push": None if self.push is None else asdict(self.push),
            "rows": [asdict(row) for row in self.rows],
            "report": self.report,
            "seconds": self.seconds,
            "agrees": self.agrees,
        }


Tell: TypeAlias = Callable[[str, DemoResult], None]


def run(
    *,
    states: int = 20,
    seed: int = 0,
    output: str | Path = "dynsys_demo.html",
    tell: Tell = lambda step, result: None,
) -> DemoResult:
    """Do all steps; ``tell`` is called with the name of each and what is known after it.

    Parameters
    ----------
    states, seed : random states at which dynamics is compared.
    output : the report's file; a folder gets ``dynsys_demo.html``.

    Raises
    ------
    ReportError
        if the report cannot be written.
    """
    problem = demo_problem()
    estimation = problem.estimation
    subject = estimation_subject("dynsys demo", estimation, problem)
    target = Path(output) / "dynsys_demo.html" if Path(output).is_dir() else Path(output)
    steps: tuple[tuple[str, Callable[[DemoResult], DemoResult]], ...] = (
        ("robot", lambda r: r),
        ("verdict", lambda r: _verdicts(r, estimation)),
        ("plan", lambda r: replace(r, plan=_plan(problem))),
        ("estimate", lambda r: _estimate(r, subject)),
        ("dynamics", lambda r: replace(r, rows=compare_dynamics(problem.tree, states, seed))),
        ("report", lambda r: replace(r, report=os.fspath(_report(subject, target)))),
    )
    result = _nothing(problem, states, seed)
    for name, step in steps:
        start = time.perf_counter()
        result = step(result)
        spent = round(time.perf_counter() - start, 2)
        result = replace(result, seconds=result.seconds | {name: spent})
        tell(name, result)
    return result


def _nothing(problem: ProblemFile, states: int, seed: int) -> DemoResult:
    robot, layout = problem.tree, problem.sensors
    measuring = [s for s in layout if s.constant(1) is None]
    return DemoResult(
        robot=robot.name,
        n_bodies=robot.n_bodies,
        nv=robot.nv,
        total_mass=robot.total_mass,
        sensors=len(measuring),
        readings=sum(layout.sizes[s.name] for s in measuring),
        states=states,
        seed=seed,
    )


def _verdicts(result: DemoResult, estimation: Estimation) -> DemoResult:
    """Verdict on the sensors, and on load cells under the feet alone."""
    feet = catalogue.load("nao", estimation.robot)
    with progress_bar("judging the sensors") as start:
        advance = start(0, 2)
        poorer = Estimation(estimation.robot, feet).verdict(search=False)
        advance(1)
        return replace(result, verdict=estimation.verdict(), poorer=poorer)


def just_enough(problem: ProblemFile) -> Layout:
    """Return the encoders and ankle force/torque sensors: as many readings as needed."""
    robot = problem.tree
    kept = [
        sensor
        for sensor in problem.sensors
        if sensor.kind == "joint_acceleration"
        or sensor.name.endswith("ankle_ft")
        or sensor.name == "root/torque"
    ]
    return Layout(robot, [*kept, *zero_external_wrench_except(robot, FEET)])


def _plan(problem: ProblemFile) -> DemoPlan:
    """Search an order for the sensors that just suffice, behind a bar."""
    system = Estimation(problem.tree, just_enough(problem)).system
    request = PlanRequest("just enough sensors", system, ("torque",))
    latest: list[Progress] = []
    with progress_bar("searching an order of elimination") as start:
        advance = start(0, EVALUATIONS)

        def progress(now: Progress) -> None:
            advance(now.evaluations - (latest[0].evaluations if latest else 0))
            latest[:] = [now]

        plan = request.plan(Search(evaluations=EVALUATIONS, progress=progress))
    before = latest[0].start.total if latest else plan.operations.total
    return DemoPlan(
        unknowns=system.shape[1],
        entries=system.nnz,
        constructive=before,
        found=plan.operations.total,
        evaluations=latest[0].evaluations if latest else 0,
        pivots_by_sampling=len(plan.checked_pivots),
    )


def _estimate(result: DemoResult, subject: Subject) -> DemoResult:
    """Estimates along the bundled log, and the push on the hand."""
    with progress_bar("compiling the estimator, solving the log") as start:
        advance = start(0, 2)
        solved = solve_log(subject, bundled(LOG))
        advance(1)
        return replace(result, log=log_part(subject, solved), push=_push(subject, solved))


def _push(subject: Subject, solved: SolvedLog) -> Push:
    """Largest true force on the pushed hand, beside what the sensors say of it."""
    truth = solved.truth[PUSHED][:, 3:]
    k = int(np.argmax(np.linalg.norm(truth, axis=1)))
    body = subject.robot.body_index(PUSHED)
    force = solved.values["external_wrench"][k, body, 3:]
    std = solved.stds["external_wrench"][k, body, 3:]
    size = float(np.linalg.norm(force))
    return Push(
        body=PUSHED,
        time=float(solved.samples.time[k]),
        truth=float(np.linalg.norm(truth[k])),
        estimate=size,
        std=float(np.linalg.norm(force * std) / size),
    )


def _report(subject: Subject, target: Path) -> Path:
    with progress_bar("making the report") as start:
        advance = start(0, 4)

        def step(_: str, done: int, total: int) -> None:
            if done:
                advance(1)

        command = ["dynsys", "demo", "--output", target.name]
        report = build_report(subject, log=bundled(LOG), command=command, steps=step)
    return write_page(report, target)
