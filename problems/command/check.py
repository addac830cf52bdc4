"""``dynsys check``: what a layout determines, before any data."""

from __future__ import annotations

import argparse

from problems import terminal
from problems.command.arguments import add_flags, add_numbers, add_problem, positive, whole
from problems.problem_file import load_problem

__all__ = ["EXAMPLES", "SUMMARY", "add_arguments", "run"]

SUMMARY = "Say what a layout determines; exit 1 if not all."
EXAMPLES = """\
  dynsys check catalogue:nao           what two feet on load cells leave unseen
  dynsys check problem.yaml --quick    without the search for bad postures
  dynsys check problem.yaml --json | jq .repairs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    add_numbers(
        parser,
        ("samples", positive, 24, "random postures to judge at"),
        ("seed", whole, 0, "of the postures"),
    )
    add_flags(parser, quick="do not search for postures where the rank drops")


def run(args: argparse.Namespace) -> int:
    """Show the verdict; 1 if something is not determined."""
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
