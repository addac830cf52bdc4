"""Every well-posed layout has a kernel: 300 random ones, the published sets, the textbook arm.

    python -m experiments.trust.layouts [--count 300] [--published 20] [--robots NAME ...]
                                        [--jobs 1] [--resume] [--json FILE]

Each layout (:mod:`experiments.trust.layouts_cases`) is judged by its verdict, compiled, and its
answers at random states are compared with those of the estimator. What is ill posed must be
refused in the words of the verdict; what is well posed and has no kernel is listed with the
reason. Exit status 1 if an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from dynsys.errors import KernelBuildError
from dynsys.system.equations import Kinematics
from experiments.trust.layouts_cases import (
    KINDS,
    Case,
    drawn_case,
    published_case,
    readings,
    robot_named,
    textbook_arm,
    weights,
)

__all__ = ["Outcome", "judged", "main"]

TREES = tuple(f"tree {k}" for k in range(12))
ROBOTS = (*TREES, "ur5", "panda", "solo12", "icub", "talos")
STATES = 4
RIGHT, RIGHT_DEVIATION = 1e-8, 1e-6
"""Relative error of answers, and of standard deviations, that counts as right."""


@final
@dataclass(frozen=True)
class Outcome:
    """What became of a layout.

    ``status``: compiled, refused (well posed, no kernel), ill posed, wrong. ``error`` is the
    largest relative error of an answer, ``unanswered`` the states that came out as NaN.
    """

    kind: str
    name: str
    status: str
    operations: int = 0
    error: float = 0.0
    unanswered: int = 0
    deviations: bool = False
    seconds: float = 0.0
    reason: str = ""


def judged(case: Case) -> Outcome:
    """Verdict, kernel and answers of a layout."""
    start = time.perf_counter()
    estimation = case.estimation
    facts: dict[str, Any] = {"kind": case.kind, "name": case.name}
    well_posed = estimation.verdict(samples=4, search=False).is_well_posed
    try:
        kernel: Any = estimation.compile(
            outputs=("torque",), uncertainty=case.uncertainty, switchable=case.switchable
        )
        found = _compared(case, kernel)
        facts |= {"operations": kernel.operations.total}
        wrong = found["error"] > 1.0 or not well_posed
        facts |= found | {"status": "wrong" if wrong else "compiled"}
    except KernelBuildError as error:
        facts |= {"status": "refused" if well_posed else "ill posed", "reason": str(error)}
    seconds = time.perf_counter() - start
    return Outcome(**facts, deviations=bool(case.uncertainty), seconds=seconds)


def _compared(case: Case, kernel: Any) -> dict[str, Any]:
    """Largest error beside the estimator, in units of what is allowed; states unanswered."""
    estimation = case.estimation
    robot, rng = estimation.robot, np.random.default_rng(0)
    slow = replace(estimation, backend="dense")
    worst, unanswered = 0.0, 0
    for _ in range(STATES):
        q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
        y = readings(case, Kinematics.at(robot, q, qd), rng)
        weight = weights(case, rng)
        inputs = [q, qd, y, weight] if case.switchable else [q, qd, y]
        got, finite = kernel.one(*inputs)
        unanswered += not finite
        if finite:
            present = np.where(weight > 0, y, np.nan)
            e = slow.solve(q, qd, present, uncertainty=case.uncertainty)
            worst = max(worst, _error(got[0], e.torque.array) / RIGHT)
            if case.uncertainty:
                worst = max(worst, _error(got[1], e.std.torque.array) / RIGHT_DEVIATION)
    return {"error": worst, "unanswered": unanswered}


def _error(got: Any, expected: Any) -> float:
    scale = max(float(np.abs(expected).max()), 1e-9)
    return float(np.abs(got - expected).max()) / scale


# ---- which layouts -------------------------------------------------------------------------


Task: TypeAlias = tuple[str, str, int]
"""Kind, robot, and seed or number of bodies."""


def drawn(count: int, robots: Sequence[str]) -> list[Task]:
    """Random layouts by robot; the largest robots have every sixteenth."""
    small = [name for name in robots if name not in ("icub", "talos")]
    large = [name for name in robots if name in ("icub", "talos")]
    found = []
    for k in range(count):
        of = large if large and (k % 16 == 15 or not small) else small
        robot = of[(k // 16 if of is large else k) % len(of)]
        found.append((KINDS[(k + k // len(KINDS)) % len(KINDS)], robot, k))
    return sorted(found, key=lambda task: robots.index(task[1]))


def fixed(published: int, robots: Sequence[str]) -> list[Task]:
    """What papers and textbooks have."""
    sets = ("sie", "sie_friction", "sie_friction_fy")
    found = [("published", name, n) for n in range(4, published + 1) for name in sets]
    arms = [name for name in ("ur5", "panda") if name in robots]
    return found + [("textbook arm", name, std) for name in arms for std in (0, 1)]


def judged_task(task: Task) -> Outcome:
    """The layout of a task, judged."""
    kind, name, number = task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "published":
            return judged(published_case(name, number))
        robot = robot_named(name)
        if kind == "textbook arm":
            return judged(textbook_arm(robot, uncertainty=bool(number)))
        return judged(drawn_case(kind, robot, number))


def _outcomes(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(judged_task, tasks)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(judged_task, tasks)


# ---- the table -----------------------------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> Table:
    """Counts by kind."""
    statuses = ("compiled", "refused", "ill posed", "wrong")
    shown = Table("kind", *statuses, "with deviations", "worst error", "operations")
    kinds = dict.fromkeys(one.kind for one in outcomes)
    for kind in kinds:
        some = [one for one in outcomes if one.kind == kind]
        count = Counter(one.status for one in some)
        compiled = [one for one in some if one.status == "compiled"]
        operations = sorted(one.operations for one in compiled)
        shown.add_row(
            kind,
            *(str(count[status]) for status in statuses),
            str(sum(one.deviations for one in compiled)),
            f"{RIGHT * max((one.error for one in compiled), default=0.0):.1e}",
            f"{operations[0]} .. {operations[-1]}" if operations else "",
        )
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--published", type=int, default=20)
    parser.add_argument("--robots", nargs="*", default=ROBOTS, choices=ROBOTS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="behind the lines of --json")
    options = parser.parse_args(arguments)
    tasks = fixed(options.published, options.robots) + drawn(options.count, options.robots)
    outcomes: list[Outcome] = []
    if options.json and options.resume and options.json.exists():
        lines = options.json.read_text(encoding="utf-8").splitlines()
        outcomes = [Outcome(**json.loads(line)) for line in lines]
    rest = tasks[len(outcomes) :]
    for outcome in track(_outcomes(rest, options.jobs), "layouts", total=len(rest)):
        outcomes.append(outcome)
        if options.json:
            lines = [json.dumps(asdict(one)) for one in outcomes]
            options.json.write_text("\n".join(lines) + "\n", encoding="utf-8")
    console = Console()
    console.print(table(outcomes))
    for one in outcomes:
        if one.status in ("refused", "wrong"):
            console.print(f"{one.kind}, {one.name}: {one.status} {one.reason} {one.error:.1e}")
    return int(any(one.status == "wrong" for one in outcomes))


if __name__ == "__main__":
    raise SystemExit(main())
