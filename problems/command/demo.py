"""``dynsys demo``: from sensors to torques on a humanoid, in five steps and one report.

1. the robot and what its sensors determine, before any data
2. a plan: the order in which its linear system is eliminated, searched for
3. torques and wrenches along a bundled log, with their uncertainty, against the truth
4. inverse, forward and hybrid dynamics against RNEA, ABA and, where installed, Pinocchio
5. one self-contained HTML page with all of it

:func:`tour` does the steps, :func:`tell` writes on the terminal what each has found.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from dynsys.model.tree import KinematicTree
from dynsys.plan.search.search import Progress, Search
from dynsys.recursive import aba, rnea
from dynsys.types import Array
from problems.command.arguments import add_numbers, positive, whole
from problems.command.demo_log import FEET, PUSHED, bundled, demo_problem
from problems.command.report import build_with_bar
from problems.dynamics import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.estimation.estimation import Estimation
from problems.problem_file import ProblemFile
from problems.report import Subject, estimation_subject, write_page
from problems.report.estimates import LogPart, SolvedLog, log_part, solve_log
from problems.report.timing import from_peer, pinocchio_model
from problems.terminal import (
    number,
    progress,
    progress_bar,
    show_json,
    show_line,
    show_prose,
    show_table,
)
from problems.verdict.verdict import Verdict
from problems.verdict.words import describe
from sensors import Layout, catalogue, zero_external_wrench_except

__all__ = ["EXAMPLES", "DemoResult", "DemoRow", "add_arguments", "run", "tour"]

EXAMPLES = """\
  dynsys demo
  dynsys demo --json"""

LOG = "humanoid_log.npz"
EVALUATIONS, REPEATS = 60, 100
INSIDE = 0.9
"""Part of the true torques within two standard deviations that counts as agreement."""
AGREEMENT = 1e-9
"""Largest relative difference that counts as the same answer."""
SHOWN = 8
"""Joints whose torques are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_numbers(
        parser,
        ("states", positive, 20, "random states"),
        ("seed", whole, 0, "of the random states"),
    )
    parser.add_argument(
        "--output",
        "-o",
        default="dynsys_demo.html",
        metavar="FILE",
        help="report to write, or its folder (default dynsys_demo.html here)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the tour; 1 if the answers disagree with their peers."""
    telling: dict[str, Any] = {} if args.json else {"tell": tell}
    result = tour(states=args.states, seed=args.seed, output=args.output, **telling)
    if args.json:
        show_json(result.to_json())
    return 0 if result.agrees else 1


# ---- what is found --------------------------------------------------------------------------


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
@dataclass(frozen=True)
class DemoRow:
    """One problem: size of its system, agreement with its twins, time per state; None: none."""

    problem: str
    twin: str
    """The recursive algorithm it is compared with."""
    unknowns: int
    nonzeros: int
    """Size of D."""
    difference: float
    residual: float
    """Largest over the states: from the twin, relative; and backward error."""
    operations: int
    microseconds: float
    sparse_lu_microseconds: float
    pinocchio_microseconds: float | None = None
    pinocchio_difference: float | None = None

    @property
    def agrees(self) -> bool:
        """True if the answer is that of the recursive twin, and Pinocchio's."""
        found = (self.difference, self.residual, self.pinocchio_difference or 0.0)
        return all(x < AGREEMENT for x in found)  # false for NaN, too


@final
@dataclass(frozen=True, eq=False)
class DemoResult:
    """All that the demo found; parts are None until their step is done.

    ``facts`` : name and size of the robot, numbers of sensors and readings, states and seed.
    """

    facts: dict[str, Any]
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
        return self.facts | {
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


# ---- the steps ------------------------------------------------------------------------------

Tell: TypeAlias = Callable[[str, DemoResult], None]


def tour(
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
        ("dynamics", lambda r: replace(r, rows=_compare_dynamics(problem.tree, states, seed))),
        ("report", lambda r: replace(r, report=os.fspath(_report(subject, target)))),
    )
    robot, layout = problem.tree, problem.sensors
    measuring = [s for s in layout if s.constant(1) is None]
    result = DemoResult(
        {
            "robot": robot.name,
            "n_bodies": robot.n_bodies,
            "nv": robot.nv,
            "total_mass": robot.total_mass,
            "sensors": len(measuring),
            "readings": sum(layout.sizes[s.name] for s in measuring),
            "states": states,
            "seed": seed,
        }
    )
    for name, step in steps:
        start = time.perf_counter()
        result = step(result)
        spent = round(time.perf_counter() - start, 2)
        result = replace(result, seconds=result.seconds | {name: spent})
        tell(name, result)
    return result


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
    return Layout(robot, [*kept, *zero_external_wrench_except(robot, FEET)], quiet=True)


def _plan(problem: ProblemFile) -> DemoPlan:
    """Search an order for the sensors that just suffice, behind a bar."""
    estimation = Estimation(problem.tree, just_enough(problem))
    system = estimation.system
    latest: list[Progress] = []
    with progress_bar("searching an order of elimination") as start:
        advance = start(0, EVALUATIONS)

        def progress(now: Progress) -> None:
            advance(now.evaluations - (latest[0].evaluations if latest else 0))
            latest[:] = [now]

        plan = estimation.plan(search=Search(evaluations=EVALUATIONS, progress=progress))
    return DemoPlan(
        unknowns=system.shape[1],
        entries=system.nnz,
        constructive=int(plan.options["constructive"]),
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
    command = ["dynsys", "demo", "--output", target.name]
    return write_page(build_with_bar(subject, command, log=bundled(LOG)), target)


# ---- dynamics through D, against its recursive twins ----------------------------------------

Dynamics: TypeAlias = InverseDynamics | ForwardDynamics | HybridDynamics
Mask: TypeAlias = NDArray[np.bool_]


def _compare_dynamics(robot: KinematicTree, states: int, seed: int) -> list[DemoRow]:
    """Solve inverse, forward and hybrid dynamics at random states, and ask the others.

    ``told`` are the coordinates whose acceleration is given, the others feel their torque: in
    hybrid dynamics those of the legs.
    """
    rng = np.random.default_rng(seed)
    sample = []
    for _ in range(states):
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=(2, robot.nv))
        sample.append(_State(q, qd, qdd, rnea(robot, q, qd, qdd)))
    legs = [n for n in robot.joint_names if any(w in n for w in ("hip", "knee", "ankle"))]
    in_legs = np.zeros(robot.nv, dtype=bool)
    for name in legs:
        in_legs[robot.v_slice(name)] = True
    everywhere = np.ones(robot.nv, dtype=bool)
    peers = _pinocchio(robot, sample)
    cases: tuple[tuple[str, str, Callable[..., Dynamics], Mask], ...] = (
        ("inverse", "rnea", lambda **k: InverseDynamics(robot, **k), everywhere),
        ("forward", "aba", lambda **k: ForwardDynamics(robot, **k), ~everywhere),
        ("hybrid", "rnea + aba", lambda **k: HybridDynamics(robot, legs, **k), in_legs),
    )
    return [_measure(*case, sample, peers.get(case[0])) for case in cases]


class _State(NamedTuple):
    """A random state with accelerations and the torques that cause them."""

    q: Array
    qd: Array
    qdd: Array
    torque: Array


def _measure(
    name: str,
    twin: str,
    make: Callable[..., Dynamics],
    told: Mask,
    sample: list[_State],
    peer: tuple[float, list[Array]] | None,
) -> DemoRow:
    problem, by_lu = make(), make(backend="reference")
    robot = problem.robot
    # what is unknown, and of which coordinates: the torque where the acceleration is told
    unknown = {"torque": told, "qdd": ~told}
    parts = {key: where for key, where in unknown.items() if where.any()}

    def solve(state: _State, given: Array) -> Any:
        solution = problem.solve(state.q, state.qd, given)
        for key in parts:
            getattr(solution, key)
        return solution

    difference = residual = 0.0
    seconds, lu_seconds = [], []
    peer_difference = None if peer is None else 0.0
    for k, s in enumerate(progress(sample, f"{name} dynamics")):
        given = np.where(told, s.qdd, s.torque)
        if k == 0:  # planned and compiled once, before the clock starts
            solve(s, given)
            by_lu.solve(s.q, s.qd, given)
        solution = solve(s, given)
        twins = {
            "torque": rnea(robot, s.q, s.qd, s.qdd),
            "qdd": aba(robot, s.q, s.qd, s.torque),
        }
        for key, where in parts.items():
            one = _relative_difference(getattr(solution, key)[where], twins[key][where])
            difference = float(np.maximum(difference, one))  # keeps NaN
        if peer is not None and peer_difference is not None:
            (key,) = parts
            one = _relative_difference(getattr(solution, key), peer[1][k])
            peer_difference = float(np.maximum(peer_difference, one))
        seconds.append(_seconds(partial(solve, s, given), REPEATS))
        lu_seconds.append(_seconds(partial(by_lu.solve, s.q, s.qd, given), 1))
        residual = float(np.maximum(residual, solution.residual))
    system = problem.system
    return DemoRow(
        problem=name,
        twin=twin,
        unknowns=system.shape[1],
        nonzeros=system.nnz,
        difference=difference,
        residual=residual,
        operations=problem.plan().operations.total,
        microseconds=1e6 * median(seconds),
        sparse_lu_microseconds=1e6 * median(lu_seconds),
        pinocchio_microseconds=None if peer is None else peer[0],
        pinocchio_difference=peer_difference,
    )


def _relative_difference(x: Array, reference: Array) -> float:
    return float(np.abs(x - reference).max() / np.abs(reference).max())


def _seconds(solve: Callable[[], object], repeats: int) -> float:
    """Seconds per call when the same state is solved again and again, as a controller does."""
    start = time.perf_counter()
    for _ in range(repeats):
        solve()
    return (time.perf_counter() - start) / repeats


def _pinocchio(
    robot: KinematicTree, sample: list[_State]
) -> dict[str, tuple[float, list[Array]]]:
    """Microseconds per call and answers of Pinocchio's RNEA and ABA; empty without it."""
    return from_peer(lambda: _asked(robot, sample), lambda reason: {})


def _asked(robot: KinematicTree, sample: list[_State]) -> dict[str, tuple[float, list[Array]]]:
    found = pinocchio_model(robot)
    if found is None:
        return {}
    pin, model, to = found
    data: Any = model.createData()
    states = [(to.q_to_pin(s.q), to.v_to_pin(s.qd)) for s in sample]

    def ask(algorithm: Any, given: list[Array]) -> tuple[float, list[Any]]:
        inputs = [(*state, third) for state, third in zip(states, given, strict=True)]
        results = [np.array(algorithm(model, data, *one)) for one in inputs]
        spent = [_seconds(partial(algorithm, model, data, *x), REPEATS) for x in inputs]
        return 1e6 * median(spent), results

    inverse, torques = ask(pin.rnea, [to.v_to_pin(s.qdd) for s in sample])
    forward, accelerations = ask(pin.aba, [to.tau_to_pin(s.torque) for s in sample])
    return {
        "inverse": (inverse, [to.tau_from_pin(x) for x in torques]),
        "forward": (forward, [to.v_from_pin(x) for x in accelerations]),
    }


# ---- on the terminal ------------------------------------------------------------------------


def tell(step: str, result: DemoResult) -> None:
    """Write what a step found."""
    {
        "robot": _tell_robot,
        "verdict": _tell_verdict,
        "plan": _tell_plan,
        "estimate": _tell_estimate,
        "dynamics": _tell_dynamics,
        "report": _tell_report,
    }[step](result)


def _title(step: int, text: str) -> None:
    show_line()
    show_line(f"{step}. {text}")


def _tell_robot(result: DemoResult) -> None:
    show_prose(
        "{robot} on a floating base: {n_bodies} bodies, {nv} freedoms, {total_mass:.4g} kg,"
        " {sensors} sensors with {readings} readings".format(**result.facts)
    )
    show_prose(
        "force/torque sensors in ankles and wrists, inertial units in pelvis and chest, joint"
        " torques, encoders"
    )


def _tell_verdict(result: DemoResult) -> None:
    good, poor = result.verdict, result.poorer
    assert good is not None and poor is not None
    _title(1, "What do these sensors determine? (before any data)")
    for line in str(good).splitlines():
        show_prose(f"   {line}")
    show_prose("   the same robot with load cells under its feet and one inertial unit only:")
    show_prose(f"   {str(poor).splitlines()[0]}")
    for line in describe(poor.directions, 1):
        show_prose(f"   - {line}")
    if poor.repairs:
        show_prose(f"   repair: {poor.repairs[0].words}")


def _tell_plan(result: DemoResult) -> None:
    plan = result.plan
    assert plan is not None
    _title(2, "In which order is the linear system solved? (offline, once)")
    show_prose(
        f"   encoders and ankle sensors alone: {plan.unknowns} unknowns, as many equations,"
        f" {plan.entries} entries"
    )
    better = f"one of {plan.found}" if plan.found < plan.constructive else "none better"
    show_prose(
        f"   best constructive order: {plan.constructive} operations per solve; a search over"
        f" {plan.evaluations} others finds {better}"
    )
    show_prose(
        f"   {plan.pivots_by_sampling} pivots depend on the posture: checked at run time"
    )


def _tell_estimate(result: DemoResult) -> None:
    log, push = result.log, result.push
    assert log is not None and push is not None
    _title(3, "Which torques act? (bundled log: two knee bends, a push on the right hand)")
    columns = ("joint", "largest [N m]", "deviation [N m]", "error rms [N m]", "in 2 std [%]")
    chosen = sorted(log.torques, key=lambda s: -float(abs(s.value).max()))[:SHOWN]
    rows = [
        (
            s.name,
            f"{max(s.value, key=abs):.1f}",
            f"{s.std.mean():.2f}",
            number(s.rmse, 2),
            f"{100 * (s.inside or 0.0):.0f}",
        )
        for s in chosen
    ]
    show_table(columns, rows, right=columns[1:])
    show_prose(
        f"   {log.solved} samples, {len(log.torques)} joints: {100 * result.inside:.1f}% of the"
        " true torques within 2 standard deviations (95.4% expected)"
    )
    show_prose(
        f"   push on {push.body} at {push.time:.2f} s: {push.estimate:.1f} +- {push.std:.1f} N,"
        f" truth {push.truth:.1f} N"
    )
    if log.chi_square is not None and log.degrees_of_freedom is not None:
        show_prose(
            f"   do the sensors agree? chi-square {log.chi_square:.1f} where"
            f" {log.degrees_of_freedom:.0f} is expected"
        )


COLUMNS = (
    "problem", "size", "twin", "difference", "residual", "operations", "solve [us]", "LU [us]",
    "Pinocchio [us]", "difference to it",
)  # fmt: skip
LEGEND = (
    "size: unknowns of D; twin: the recursive algorithm; difference: largest over the states,"
    " relative; residual: backward error; operations: executed per solve, compiled kernel;"
    " solve: one call from Python with it; LU: assemble D(q) d + b = 0 and factorise (SuperLU)."
)
PINOCCHIO = " Pinocchio: one call of its rnea or aba from Python."


def _tell_dynamics(result: DemoResult) -> None:
    _title(4, f"Is it right, is it fast? (dynamics at {result.facts['states']} random states)")
    rows = [
        (
            row.problem,
            str(row.unknowns),
            row.twin,
            f"{row.difference:.1e}",
            f"{row.residual:.1e}",
            str(row.operations),
            f"{row.microseconds:.2f}",
            f"{row.sparse_lu_microseconds:.0f}",
            number(row.pinocchio_microseconds, 3),
            number(row.pinocchio_difference, 2),
        )
        for row in result.rows
    ]
    beside = any(row.pinocchio_microseconds is not None for row in result.rows)
    columns = COLUMNS if beside else COLUMNS[:-2]
    right = [c for c in columns if c not in ("problem", "twin")]
    shown = [row[: len(columns)] for row in rows]
    show_table(columns, shown, right=right, droppable=("residual", "size", "difference to it"))
    show_prose(f"   {LEGEND + PINOCCHIO if beside else LEGEND}")
    agree = all(row.agrees for row in result.rows)
    words = "same answers" if agree else "THE ANSWERS DIFFER"
    show_prose(f"   {words} (limit {AGREEMENT:g})")


def _tell_report(result: DemoResult) -> None:
    _title(5, "All of it on one page, with pictures")
    size = Path(result.report).stat().st_size / 1000
    show_prose(f"   wrote {result.report} ({size:.0f} kB, loads nothing): open it in a browser")
    show_line()
    show_prose(
        f"done in {sum(result.seconds.values()):.0f} s; next: dynsys check catalogue:nao,"
        " dynsys report catalogue:nao, dynsys studio; your own robot: dynsys init ROBOT.urdf"
    )
