"""``dynsys solve``: estimates for every sample of a log."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from problems import terminal
from problems.command.arguments import (
    add_flags,
    add_names,
    add_plan,
    add_problem,
    add_running,
    with_bar,
)
from problems.log_jobs import Finished, SolveJob

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys solve problem.yaml log.mcap -o torques.parquet
  dynsys solve catalogue:nao_slippery log.npz -o out.npz --outputs torque
  dynsys solve problem.yaml log.parquet -o out.parquet --workers 8
  dynsys solve problem.yaml log.npz -o out.npz --plan problem.plan.json
  dynsys solve problem.yaml log.npz -o out.npz --outputs suspects --strict"""


SHOWN = 8
"""Names of a log that are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    kinds = ".npz, .csv, .parquet, .mat, .mcap, .db3, or the folder of a ROS 2 bag"
    parser.add_argument("log", metavar="LOG", help=kinds)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help=".npz, .csv, .parquet, .mcap or .rrd (rerun); appears when complete",
    )
    own = "in place of the problem's: torque, std.torque, external_wrench.FRAME ..."
    add_names(parser, "--outputs", own)
    add_plan(parser)
    add_flags(
        parser,
        allow_missing="let sensors go that the log lacks",
        strict="exit with status 1 if the log contradicts the model or is doubtful in itself",
    )
    add_running(parser)


def run(args: argparse.Namespace) -> int:
    """Solve the log and say what was done."""
    outputs = tuple(args.outputs)
    job = SolveJob(
        args.problem,
        args.log,
        args.output,
        outputs,
        args.chunk,
        args.allow_missing,
        args.plan,
    )
    done = with_bar(job, "solving", args)
    told: dict[str, Any] = {
        "output": args.output,
        "samples": done.n_samples,
        "resumed_samples": done.resumed,
        "seconds": round(done.seconds, 3),
        "by": done.way,
        "samples_with_missing_values": done.missing_rows,
        "samples_not_solved": done.failed,
        "why_not": done.why or None,
        "differentiated": list(done.derived),
        "differentiation": done.method if done.derived else None,
        "sensors_without_data": list(done.not_measured),
        "not_used": list(done.unused),
    }
    judgement = done.judgement
    assert judgement is not None
    told["agreement"] = judgement.to_json()
    if args.json:
        terminal.show_json(told)
    else:
        _show(args.output, done, told)
        for line in judgement.lines:
            terminal.show_line(line)
    return int(args.strict and not judgement.agrees)


def _made(words: Sequence[str]) -> str:
    """What was differentiated: ``7 accelerations``, ``2 velocities ('a', 'b') and ...``."""
    parts = []
    for one, many in (("velocity", "velocities"), ("acceleration", "accelerations")):
        joints = [x.removeprefix(f"{one} of joint ") for x in words if x.startswith(one)]
        if joints:
            shown = ", ".join(joints[:3]) + (" ..." if len(joints) > 3 else "")
            parts.append(f"{len(joints)} {one if len(joints) == 1 else many} ({shown})")
    return " and ".join(parts)


def _show(output: str, done: Finished, told: dict[str, Any]) -> None:
    made, left_out = told["differentiated"], told["sensors_without_data"]
    rate = (done.n_samples - done.resumed) / done.seconds
    terminal.show_line(
        f"{output}: {done.n_samples} samples in {done.seconds:.1f} s ({rate:.0f} per s), by"
        f" {told['by']}"
    )
    if done.resumed:
        terminal.show_line(f"{done.resumed} of them from an interrupted run")
    if made:
        terminal.show_line(f"{_made(made)} made by {told['differentiation']}")
    if left_out:
        terminal.show_line(f"sensors without data: {', '.join(left_out)}")
    if done.unused:
        more = f" and {len(done.unused) - SHOWN} more" if len(done.unused) > SHOWN else ""
        listed = f"{', '.join(done.unused[:SHOWN])}{more}"
        terminal.show_line(f"of the log, no sensor and no joint reads {listed}")
    if done.missing_rows:
        terminal.show_line(
            f"{done.missing_rows} samples have values that are missing or not determined;"
            " 'dynsys check' says what the layout determines"
        )
    if done.failed:
        terminal.show_line(
            f"{done.failed} of them could not be solved and are left empty; {done.why}"
        )
