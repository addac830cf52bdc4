"""``dynsys simulate``: a noisy synthetic log."""

from __future__ import annotations

import argparse

from problems.command.arguments import add_problem, add_running, run_with_bar, whole

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help=".npz, .csv, .parquet or .mcap"
    )
    parser.add_argument(
        "--trajectory", default="", metavar="LOG", help="follow time and q of this log"
    )
    for name, value, text in (
        ("duration", 10.0, "seconds of random motion"),
        ("rate", 1000.0, "samples per second"),
        ("pace", 1.0, "seconds per control point of a random motion"),
        ("contact-force", 20.0, "reach of random forces on bodies that may be touched, N"),
        ("position-std", 0.0, "noise of the logged positions"),
        ("velocity-std", 0.0, "noise of the logged velocities"),
        ("missing", 0.0, "part of the readings that are lost"),
    ):
        parser.add_argument(
            f"--{name}", type=float, default=value, help=f"{text} (default {value:g})"
        )
    parser.add_argument("--seed", type=whole, default=0, help="of motion and noise (default 0)")
    parser.add_argument(
        "--truth", action="store_true", help="add true torques, accelerations and wrenches"
    )
    add_running(parser)


def run(args: argparse.Namespace) -> int:
    """Write the log and say what it holds."""
    from problems import terminal
    from problems.logs.jobs import SimulateJob

    job = SimulateJob(
        problem=args.problem,
        output=args.output,
        duration=args.duration,
        rate=args.rate,
        seed=args.seed,
        trajectory=args.trajectory,
        pace=args.pace,
        contact_force=args.contact_force,
        position_std=args.position_std,
        velocity_std=args.velocity_std,
        missing=args.missing,
        truth=args.truth,
        chunk=args.chunk,
    )
    groups = [group.name for group in job.groups()]
    done = run_with_bar(job, "simulating", args)
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
