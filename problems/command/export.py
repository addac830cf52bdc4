"""``dynsys export``: dynamics or an estimator as dependency-free C99 for a controller."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynsys.errors import LayoutError
from dynsys.model.tree import KinematicTree
from dynsys.plan.plan import Plan
from problems import terminal
from problems.command.arguments import (
    KINDS,
    add_flags,
    add_names,
    add_plan,
    add_robot,
    robot_options,
    robot_words,
)
from problems.estimation.estimation import Estimation
from problems.labels import base_words
from problems.planning import FILES, read_request, split_outputs
from problems.problem_file import load_problem

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys export arm.urdf --problem id -o controller/dynamics
  dynsys export example:humanoid --floating-base --outputs qdd,joint_wrench -o c
  dynsys export catalogue:nao_slippery --outputs torque,std.torque -o c
  dynsys export catalogue:nao_slippery --switchable l_sole_slips -o c
  dynsys export catalogue:panda --plan panda.plan.json -o c"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    whose = "a problem file (.yaml) or catalogue:NAME, whose estimator is written"
    parser.add_argument(
        "what", metavar="ROBOT|PROBLEM", help=f"a robot, as for 'dynsys info'; or {whose}"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", type=Path, help="where to write"
    )
    parser.add_argument("--problem", default="fd", metavar="KIND", help=f"of a robot: {KINDS}")
    add_robot(parser)
    add_plan(parser)
    parser.add_argument("--name", help="of the C function (default: the problem's)")
    add_names(
        parser,
        "--outputs",
        "what it computes: torque, qdd, acceleration, joint_wrench; of an estimator also"
        " external_wrench, one part such as torque.JOINT or external_wrench.FRAME, and"
        " std.NAME (default: torque, or what the dynamics ask for)",
    )
    add_names(
        parser,
        "--switchable",
        "of an estimator: sensors and statements that come and go; their rows of a further"
        " input, weight, say whether they count (1) or not (0)",
    )
    add_flags(
        parser,
        wrenches="of a robot: external wrenches as an input",
        float32="single precision (default double)",
        overwrite="replace files that are there",
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and say how to try them."""
    if args.what.endswith(FILES) or args.what.startswith("catalogue:"):
        robot, problem, files = _of_file(args)
    else:
        robot, problem, files = _of_robot(args)
    if args.json:
        paths = [str(path) for path in files]
        told = {"robot": robot.name, "base": base_words(robot), "problem": problem}
        terminal.show_json({**told, "files": paths})
        return 0
    terminal.show_line(f"{robot.name}, {base_words(robot)}, {problem}, as C99:")
    terminal.show_table(
        ("file", "size [kB]"),
        [(path.name, f"{path.stat().st_size / 1000:.1f}") for path in files],
        right=("size [kB]",),
    )
    name = next(path.stem for path in files if path.suffix == ".h")
    terminal.show_line()
    terminal.show_line("to try it:")
    terminal.show_line(f"    cd {args.output}")
    terminal.show_line(f"    cc -O2 {name}.c {name}_selftest.c -lm -o selftest && ./selftest")
    return 0


def _of_robot(args: argparse.Namespace) -> tuple[KinematicTree, str, Sequence[Path]]:
    request = read_request(args.what, args.problem, args.floating_base, **robot_options(args))
    plan = Plan.load(args.plan) if args.plan else None
    if request.estimation is not None:
        estimation = replace(request.estimation, executes=plan)
        return request.robot, request.name, _estimator(estimation, args)
    if args.switchable:
        raise LayoutError("--switchable names sensors of an estimator; dynamics have none")
    assert request.dynamics is not None
    files = request.dynamics.export_c(
        args.output, plan, outputs=args.outputs or None, wrenches=args.wrenches, **_common(args)
    )
    return request.robot, request.name, files


def _of_file(args: argparse.Namespace) -> tuple[KinematicTree, str, Sequence[Path]]:
    if args.problem != "fd" or robot_words(args):
        raise LayoutError(
            f"{args.what}: a problem file says what is known and how its robot is read itself;"
            " leave out --problem, --floating-base, --friction and --lock"
        )
    problem = load_problem(args.what).with_plan(args.plan)
    what = f"estimation from {len(problem.sensors.sensors)} sensors"
    return problem.tree, what, _estimator(problem.planned, args)


def _estimator(estimation: Estimation, args: argparse.Namespace) -> Sequence[Path]:
    if args.wrenches:
        raise LayoutError("an estimator takes external wrenches as readings: no --wrenches")
    values, stds = split_outputs(args.outputs)
    asked = {"outputs": values, "uncertainty": stds, "switchable": args.switchable}
    return estimation.export_c(args.output, **asked, **_common(args))


def _common(args: argparse.Namespace) -> dict[str, Any]:
    named = {"name": args.name} if args.name else {}
    dtype = "float32" if args.float32 else "float64"
    return {**named, "dtype": dtype, "overwrite": args.overwrite}
