"""``dynsys export``: dynamics or an estimator as dependency-free C99 for a controller."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from dynsys.errors import LayoutError
from problems import terminal
from problems.command.arguments import add_flags, add_names
from problems.planning import read_request
from problems.problem_file import load_problem

__all__ = ["EXAMPLES", "SUMMARY", "add_arguments", "run"]

SUMMARY = "Write a problem as dependency-free C99 for a controller."
EXAMPLES = """\
  dynsys export arm.urdf --problem id -o controller/dynamics
  dynsys export example:humanoid --floating-base --outputs qdd,joint_wrench -o c
  dynsys export catalogue:nao_slippery --outputs torque,std.torque -o c"""

LAYOUTS = (".yaml", ".yml")
STD = "std."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    whose = "a problem file (.yaml) or catalogue:NAME, whose estimator is written"
    parser.add_argument(
        "what", metavar="ROBOT|PROBLEM", help=f"a robot, as for 'dynsys info'; or {whose}"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", type=Path, help="where to write"
    )
    parser.add_argument(
        "--problem",
        default="fd",
        metavar="DYNAMICS",
        help="of a robot: id, fd (default) or hybrid:JOINT,...",
    )
    add_flags(parser, floating_base="free root link")
    parser.add_argument("--name", help="of the C function (default: the problem's)")
    add_names(
        parser,
        "--outputs",
        "what it computes: torque, qdd, acceleration, joint_wrench; of an estimator also"
        " external_wrench and std.NAME (default: torque, or what the dynamics ask for)",
    )
    add_flags(
        parser,
        wrenches="of a robot: external wrenches as an input",
        float32="single precision (default double)",
        overwrite="replace files that are there",
    )


def run(args: argparse.Namespace) -> int:
    """Write the files and say how to try them."""
    if args.what.endswith(LAYOUTS) or args.what.startswith("catalogue:"):
        robot, problem, files = _estimator(args)
    else:
        robot, problem, files = _dynamics(args)
    if args.json:
        paths = [str(path) for path in files]
        terminal.show_json({"robot": robot, "problem": problem, "files": paths})
        return 0
    terminal.show_line(f"{robot}, {problem}, as C99:")
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


def _dynamics(args: argparse.Namespace) -> tuple[str, str, Sequence[Path]]:
    request = read_request(args.what, args.problem, args.floating_base)
    if request.dynamics is None:
        raise LayoutError(
            f"{args.problem}: of a robot, C is written of id, fd and hybrid:JOINT,...; give a"
            " problem file for an estimator"
        )
    files = request.dynamics.export_c(
        args.output,
        name=args.name,
        outputs=args.outputs or None,
        wrenches=args.wrenches,
        dtype="float32" if args.float32 else "float64",
        overwrite=args.overwrite,
    )
    return request.robot.name, request.name, files


def _estimator(args: argparse.Namespace) -> tuple[str, str, Sequence[Path]]:
    if args.wrenches or args.problem != "fd" or args.floating_base:
        raise LayoutError(
            f"{args.what}: a problem file says what is known itself; leave out --problem,"
            " --floating-base and --wrenches"
        )
    problem = load_problem(args.what)
    files = problem.estimation.export_c(
        args.output,
        name=args.name or "estimation",
        outputs=[name for name in args.outputs if not name.startswith(STD)] or ["torque"],
        uncertainty=[name.removeprefix(STD) for name in args.outputs if name.startswith(STD)],
        dtype="float32" if args.float32 else "float64",
        overwrite=args.overwrite,
    )
    return problem.tree.name, f"estimation from {len(problem.sensors.sensors)} sensors", files
