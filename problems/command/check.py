"""``dynsys check``: what a layout determines, before any data."""

from __future__ import annotations

import argparse

from problems import terminal
from problems.command.arguments import (
    add_flags,
    add_names,
    add_numbers,
    add_problem,
    positive,
    whole,
)
from problems.estimation.sensitivity import TorqueSensitivity
from problems.problem_file import load_problem

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys check catalogue:nao           what two feet on load cells leave unseen
  dynsys check problem.yaml --quick    without the search for bad postures
  dynsys check catalogue:nao_slippery --without l_sole_slips
  dynsys check problem.yaml --json | jq .repairs"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    add_numbers(
        parser,
        ("samples", positive, 24, "random postures to judge at"),
        ("seed", whole, 0, "of the postures"),
    )
    off = "statements and sensors that do not hold, such as those of a foot that is lifted"
    add_names(parser, "--without", off)
    add_flags(parser, quick="do not search for postures where the rank drops")


def run(args: argparse.Namespace) -> int:
    """Show the verdict; 1 if something is not determined."""
    problem = load_problem(args.problem)
    verdict = problem.estimation.verdict(
        samples=args.samples,
        seed=args.seed,
        search=not args.quick,
        active=dict.fromkeys(args.without, False),
    )
    made_of: tuple[TorqueSensitivity, ...] = ()
    if problem.estimation.layout.has_encoder_noise and verdict.is_well_posed:
        made_of = problem.estimation.sensitivity(seed=args.seed)
    if args.json:
        noise = {"sensitivity": [part.to_json() for part in made_of]} if made_of else {}
        terminal.show_json(verdict.to_json() | {"notes": list(problem.notes)} | noise)
    else:
        for line in str(verdict).splitlines():
            to_copy = line.lstrip().startswith("- {")
            (terminal.show_line if to_copy else terminal.show_prose)(line)
        for note in problem.notes:
            terminal.show_prose(f"note: {note}")
        if made_of:
            _show(made_of)
    return 0 if verdict.is_well_posed else 1


def _show(made_of: tuple[TorqueSensitivity, ...]) -> None:
    """A line for each torque: its deviation, and what noise it comes from."""
    terminal.show_line("")
    terminal.show_prose(
        "Standard deviations of the torques at random motions, and the parts of their variance"
        " that the noise of sensors, positions and velocities makes:"
    )
    rows = [(part.joint, f"{part.std:.3g}", part.words) for part in made_of]
    terminal.show_table(("torque", "std", "made of"), rows)
