"""``dynsys simulate``: a noisy synthetic log."""

from __future__ import annotations

import argparse
from dataclasses import fields

from problems import terminal
from problems.command import arguments as shared
from problems.command.arguments import add_flags, add_numbers, whole
from problems.log_jobs import SimulateJob

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys simulate catalogue:nao_slippery -o log.npz --truth
  dynsys simulate problem.yaml -o log.parquet --duration 3600 --workers 8"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    shared.add_problem(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help=".npz, .csv, .parquet or .mcap"
    )
    parser.add_argument(
        "--trajectory",
        default="",
        metavar="LOG",
        help="follow this log, or a simulation's record",
    )
    touch = "reach of random forces on bodies that may be touched, N"
    add_numbers(
        parser,
        ("duration", float, 10.0, "seconds of random motion"),
        ("rate", float, 1000.0, "samples per second"),
        ("pace", float, 1.0, "seconds per control point of a random motion"),
        ("contact-force", float, 20.0, touch),
        ("position-std", float, 0.0, "noise of the logged positions"),
        ("velocity-std", float, 0.0, "noise of the logged velocities"),
        ("missing", float, 0.0, "part of the readings that are lost"),
        ("seed", whole, 0, "of motion and noise"),
    )
    add_flags(parser, truth="add true torques, accelerations and wrenches")
    shared.add_running(parser)


def run(args: argparse.Namespace) -> int:
    """Write the log and say what it holds."""
    named = [field.name for field in fields(SimulateJob) if hasattr(args, field.name)]
    settings = {name: getattr(args, name) for name in named}
    job = SimulateJob(**settings)
    groups = [group.name for group in job.groups()]
    done = shared.with_bar(job, "simulating", args)
    if args.json:
        terminal.show_json(
            {
                "output": args.output,
                "samples": done.n_samples,
                "seconds": round(done.seconds, 3),
                "arrays": groups,
            }
        )
    else:
        terminal.show_line(
            f"{args.output}: {done.n_samples} samples of {len(groups)} arrays in"
            f" {done.seconds:.1f} s"
        )
    return 0
