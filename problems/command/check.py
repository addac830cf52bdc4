"""``dynsys check``: what a layout determines, before any data."""

from __future__ import annotations

import argparse

from problems.command.arguments import add_problem, positive, whole

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument(
        "--samples", type=positive, default=24, help="random postures to judge at (default 24)"
    )
    parser.add_argument("--seed", type=whole, default=0, help="of the postures (default 0)")
    parser.add_argument(
        "--quick", action="store_true", help="do not search for postures where the rank drops"
    )


def run(args: argparse.Namespace) -> int:
    """Show the verdict; 1 if something is not determined."""
    from problems import terminal
    from problems.problem_file import load_problem

    problem = load_problem(args.problem)
    verdict = problem.estimation.verdict(
        samples=args.samples, seed=args.seed, search=not args.quick
    )
    if args.json:
        terminal.show_json(verdict.to_json() | {"notes": list(problem.notes)})
    else:
        for line in str(verdict).splitlines():
            to_copy = line.lstrip().startswith("- {")
            (terminal.show_line if to_copy else terminal.show_prose)(line)
        for note in problem.notes:
            terminal.show_prose(f"note: {note}")
    return 0 if verdict.is_well_posed else 1
