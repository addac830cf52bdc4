"""What several commands share: arguments, lists of names, work on many samples with a bar."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from problems.argument_types import positive

if TYPE_CHECKING:
    from problems.logs.run import Finished, Job

__all__ = ["add_problem", "add_running", "names_in", "run_with_bar"]


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Declare the problem."""
    parser.add_argument(
        "problem", metavar="PROBLEM", help="a problem file (.yaml) or catalogue:NAME"
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Declare how the work is done."""
    parser.add_argument("--workers", type=positive, default=1, help="processes (default 1)")
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS|local",
        help="run on a Dask cluster; local starts one with --workers workers",
    )
    parser.add_argument(
        "--chunk", type=positive, default=8192, help="samples at a time (default 8192)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="do not go on where an interrupted run stopped"
    )


def names_in(text: str) -> list[str]:
    """Names of a list with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def run_with_bar(job: Job, what: str, args: argparse.Namespace) -> Finished:
    """Do a job as the arguments of :func:`add_running` say, and show how far it is."""
    from problems import terminal
    from problems.logs.run import run_job

    with terminal.progress_bar(what) as progress:
        return run_job(
            job,
            workers=args.workers,
            scheduler=args.scheduler,
            fresh=args.fresh,
            progress=progress,
        )
