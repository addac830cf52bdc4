"""``dynsys solve``: estimates for every sample of a log."""

from __future__ import annotations

import argparse
from typing import Any

from problems.argument_types import positive

__all__ = ["add_arguments", "add_running", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "problem", metavar="PROBLEM", help="a problem file (.yaml) or catalogue:NAME"
    )
    parser.add_argument(
        "log", metavar="LOG", help=".npz, .csv, .parquet, .mcap, or the folder of a ROS 2 bag"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help=".npz, .csv, .parquet or .mcap; appears when complete",
    )
    parser.add_argument(
        "--outputs",
        metavar="NAME[,NAME...]",
        default="",
        help="in place of the problem's: torque, std.torque, external_wrench.BODY ...",
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="let sensors go that the log lacks"
    )
    add_running(parser)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Declare how the work is done."""
    parser.add_argument("--workers", type=positive, default=1, help="processes (default 1)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS|local",
        help="run on a Dask cluster; local starts one with --workers workers",
    )
    parser.add_argument(
        "--chunk", type=int, default=8192, help="samples at a time (default 8192)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="do not go on where an interrupted run stopped"
    )


def run(args: argparse.Namespace) -> int:
    """Solve the log and say what was done."""
    from problems import terminal
    from problems.logs.jobs import SolveJob
    from problems.logs.run import run_job

    outputs = tuple(name.strip() for name in args.outputs.split(",") if name.strip())
    job = SolveJob(args.problem, args.log, args.output, outputs, args.chunk, args.allow_missing)
    reader = job.reader()
    made, method, left_out = reader.derived, str(reader.method), reader.not_measured
    with terminal.progress_bar("solving") as progress:
        done = run_job(
            job,
            workers=args.workers,
            scheduler=args.scheduler,
            fresh=args.fresh,
            progress=progress,
        )
    told: dict[str, Any] = {
        "output": args.output,
        "samples": done.n_samples,
        "resumed_samples": done.resumed,
        "seconds": round(done.seconds, 3),
        "samples_with_missing_values": done.missing_rows,
        "differentiated": list(made),
        "differentiation": method if made else None,
        "sensors_without_data": list(left_out),
    }
    if args.json:
        terminal.show_json(told)
        return 0
    rate = (done.n_samples - done.resumed) / done.seconds
    terminal.show_line(
        f"{args.output}: {done.n_samples} samples in {done.seconds:.1f} s ({rate:.0f} per s)"
    )
    if done.resumed:
        terminal.show_line(f"{done.resumed} of them from an interrupted run")
    if made:
        terminal.show_line(f"{len(made)} velocities or accelerations made by {method}")
    if left_out:
        terminal.show_line(f"sensors without data: {', '.join(left_out)}")
    if done.missing_rows:
        terminal.show_line(
            f"{done.missing_rows} samples have values that are missing or not determined;"
            " 'dynsys check' says what the layout determines"
        )
    return 0
