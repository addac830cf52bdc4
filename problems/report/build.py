"""Collect what a report shows: one step per section, sections that do not apply left out.

Every report says where it comes from: versions, fingerprints, date, the command that makes it
again.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, final

from dynsys.distribution import DISTRIBUTION
from dynsys.errors import DynsysError, ReportError
from dynsys.plan.fingerprint import fingerprint_problem, fingerprint_robot
from problems.report.estimates import (
    LogPart,
    SolvedLog,
    UncertaintyPart,
    log_part,
    solve_log,
    uncertainty_part,
)
from problems.report.markup import plain
from problems.report.orders import OrdersPart, PlanPart, orders_part, plan_part
from problems.report.robot import RobotPart, robot_part
from problems.report.subject import Subject
from problems.report.timing import TimingPart, timing_part
from problems.verdict.verdict import Verdict

__all__ = ["Provenance", "Report", "build_report", "installed_versions", "processor_name"]

PACKAGES = (DISTRIBUTION, "numpy", "scipy", "llvmlite", "scikit-sparse", "pin")


@final
@dataclass(frozen=True)
class Provenance:
    """Date (UTC), versions by package, machine, fingerprints (SHA-256), command."""

    date: str
    versions: dict[str, str]
    machine: str
    fingerprints: dict[str, str]
    command: str


@final
@dataclass(frozen=True, eq=False)
class Report:
    """Everything a page is made of; None where a section does not apply.

    ``notes`` say what could not be shown, and why.
    """

    spec: str
    question: str
    unknowns: int
    equations: int
    entries: int
    provenance: Provenance
    robot: RobotPart
    plan: PlanPart | None
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    uncertainty: UncertaintyPart | None = None
    log: LogPart | None = None
    orders: OrdersPart | None = None
    timings: TimingPart | None = None

    @property
    def title(self) -> str:
        """Robot and question."""
        return f"{self.robot.name}: {self.question}"

    def to_json(self) -> dict[str, Any]:
        """Return the content as plain JSON values."""
        found: dict[str, Any] = plain(replace(self, verdict=None))
        found["verdict"] = None if self.verdict is None else self.verdict.to_json()
        if self.log is not None:
            found["log"]["judgement"] = plain(self.log.judgement.to_json())
        return found


def build_report(
    subject: Subject,
    *,
    log: str | Path | None = None,
    command: Sequence[str] = ("dynsys", "report"),
    timed: bool = True,
    steps: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Report:
    """Collect a report.

    Parameters
    ----------
    subject : the problem; see :func:`problems.report.read_subject`.
    log : readings to estimate along, for problems with sensors.
    command : what makes the report again, word by word.
    timed : False leaves the timings out.
    steps : told the name of each step before it begins, how many are done, and of how many.

    Raises
    ------
    ReportError
        for a log without sensors to read it by.
    LogError
        if the log cannot be read.
    """
    if log is not None and subject.estimation is None:
        raise ReportError(
            f"{subject.spec}: {subject.question} has no sensors, so a log cannot be estimated;"
            " name a problem file or catalogue:NAME, or leave the log out"
        )
    rows, columns = subject.system.shape
    found = Report(
        subject.spec, subject.question, columns, rows, subject.system.nnz,
        provenance(subject, command), robot_part(subject.robot, subject.layout), None,
    )  # fmt: skip
    made: list[tuple[str, Callable[[Report], Report]]] = []
    if (estimation := subject.estimation) is not None:
        made.append(("verdict", lambda r: replace(r, verdict=estimation.verdict())))
        made.append(("estimates and uncertainty", lambda r: _estimates(r, subject, log)))
    elif (dynamics := subject.dynamics) is not None:
        made.append(("plan", lambda r: replace(r, plan=plan_part(dynamics))))
    made.append(("orders of elimination", lambda r: replace(r, orders=orders_part(subject))))
    if timed:
        made.append(("timings", lambda r: replace(r, timings=timing_part(subject))))
    for done, (name, step) in enumerate(made):
        steps(name, done, len(made))
        found = step(found)
    steps("done", len(made), len(made))
    return found


def _estimates(report: Report, subject: Subject, path: str | Path | None) -> Report:
    estimation = subject.estimation
    assert estimation is not None
    solved: SolvedLog | None = None
    if path is not None:
        solved = solve_log(subject, path)
        q = solved.samples.q[len(solved.samples.q) // 2]
        at = f"posture in the middle of {Path(path).name}"
        robot = robot_part(subject.robot, subject.layout, q, at)
        report = replace(report, robot=robot, log=log_part(subject, solved))
    try:
        return replace(report, uncertainty=uncertainty_part(estimation, solved))
    except DynsysError as error:
        return replace(report, notes=(*report.notes, f"no uncertainty: {error}"))


def provenance(subject: Subject, command: Sequence[str]) -> Provenance:
    """State of this moment and machine."""
    prints = {
        "robot": fingerprint_robot(subject.robot).digest,
        "problem": fingerprint_problem(subject.question, subject.system).digest,
    }
    if subject.layout is not None:
        prints["layout"] = subject.layout.fingerprint()
    return Provenance(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={"python": platform.python_version()} | installed_versions(PACKAGES),
        machine=f"{platform.system()} {platform.machine()}, {processor_name()}",
        fingerprints=prints,
        command=shlex.join(command),
    )


def installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def processor_name() -> str:
    """Name of the processor as its maker calls it, where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = (line.split(":", 1)[1].strip() for line in file if "model name" in line)
            return next(names, platform.processor() or "unknown processor")
    except OSError:
        return platform.processor() or "unknown processor"
