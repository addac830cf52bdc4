"""What ``dynsys demo`` writes on the terminal, step by step."""

from __future__ import annotations

from pathlib import Path

from problems.command.demo_steps import AGREEMENT, DemoResult
from problems.terminal import number, show_line, show_prose, show_table
from problems.verdict.words import describe

__all__ = ["tell"]

SHOWN = 8
"""Joints whose torques are listed."""


def tell(step: str, result: DemoResult) -> None:
    """Write what a step found."""
    {
        "robot": _robot,
        "verdict": _verdict,
        "plan": _plan,
        "estimate": _estimate,
        "dynamics": _dynamics,
        "report": _report,
    }[step](result)


def _title(number_: int, text: str) -> None:
    show_line()
    show_line(f"{number_}. {text}")


def _robot(result: DemoResult) -> None:
    show_prose(
        f"{result.robot} on a floating base: {result.n_bodies} bodies, {result.nv} freedoms,"
        f" {result.total_mass:.4g} kg, {result.sensors} sensors with {result.readings} readings"
    )
    show_prose(
        "force/torque sensors in ankles and wrists, inertial units in pelvis and chest, joint"
        " torques, encoders"
    )


def _verdict(result: DemoResult) -> None:
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


def _plan(result: DemoResult) -> None:
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


def _estimate(result: DemoResult) -> None:
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
    "problem",
    "size",
    "twin",
    "difference",
    "residual",
    "operations",
    "solve [us]",
    "LU [us]",
    "Pinocchio [us]",
    "difference to it",
)
LEGEND = (
    "size: unknowns of D; twin: the recursive algorithm; difference: largest over the states,"
    " relative; residual: backward error; operations: executed per solve, compiled kernel;"
    " solve: one call from Python with it; LU: assemble D(q) d + b = 0 and factorise (SuperLU)."
)
PINOCCHIO = " Pinocchio: one call of its rnea or aba from Python."


def _dynamics(result: DemoResult) -> None:
    _title(4, f"Is it right, is it fast? (dynamics at {result.states} random states)")
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


def _report(result: DemoResult) -> None:
    _title(5, "All of it on one page, with pictures")
    size = Path(result.report).stat().st_size / 1000
    show_prose(f"   wrote {result.report} ({size:.0f} kB, loads nothing): open it in a browser")
    show_line()
    show_prose(
        f"done in {sum(result.seconds.values()):.0f} s; next: dynsys check catalogue:nao,"
        " dynsys report catalogue:nao, dynsys studio"
    )
