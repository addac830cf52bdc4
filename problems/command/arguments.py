"""What several commands share: arguments, lists of names, work on many samples with a bar."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

from problems import terminal
from problems.log_jobs import Finished, Job, run_job

__all__ = [
    "KINDS",
    "add_flags",
    "add_names",
    "add_numbers",
    "add_plan",
    "add_problem",
    "add_running",
    "positive",
    "seconds",
    "whole",
    "with_bar",
]

KINDS = "id, fd (default), hybrid:JOINT,..., published:NAME or a layout file"
"""Problems of a robot, in the words of the help."""


# ---- arguments ------------------------------------------------------------------------------


def add_numbers(
    parser: argparse.ArgumentParser, *rows: tuple[str, Callable[[str], float], float, str]
) -> None:
    """Declare options that take a number: name, type, default, and what it is."""
    for name, kind, value, text in rows:
        parser.add_argument(
            f"--{name}", type=kind, default=value, help=f"{text} (default {value:g})"
        )


def add_flags(parser: argparse.ArgumentParser, **rows: str) -> None:
    """Declare options without a value: name, and what it does."""
    for name, text in rows.items():
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=text)


def add_names(
    parser: argparse.ArgumentParser, option: str, text: str, default: str = ""
) -> None:
    """Declare an option that takes a list of names with commas between them."""
    parser.add_argument(
        option, metavar="NAME[,NAME...]", type=names_in, default=default, help=text
    )


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Declare the problem."""
    parser.add_argument(
        "problem", metavar="PROBLEM", help="a problem file (.yaml) or catalogue:NAME"
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Declare the plan to execute."""
    parser.add_argument(
        "--plan",
        metavar="FILE",
        default="",
        help="execute this plan, as 'dynsys plan -o' writes it (default: the problem's, if it"
        " names one)",
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Declare how the work is done."""
    add_numbers(parser, ("workers", positive, 1, "processes"))
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS|local",
        help="run on a Dask cluster; local starts one with --workers workers",
    )
    add_numbers(parser, ("chunk", positive, 8192, "samples at a time"))
    add_flags(parser, fresh="do not go on where an interrupted run stopped")


def with_bar(job: Job, what: str, args: argparse.Namespace) -> Finished:
    """Do a job as the arguments of :func:`add_running` say, and show how far it is."""
    with terminal.progress_bar(what) as progress:
        return run_job(
            job,
            workers=args.workers,
            scheduler=args.scheduler,
            fresh=args.fresh,
            progress=progress,
        )


# ---- values, checked where they are read: ``type=`` of argparse ------------------------------


def whole(text: str) -> int:
    """Return a whole number >= 0: a seed."""
    return _at_least(text, 0)


def positive(text: str) -> int:
    """Return a whole number >= 1: a count of states, seeds or processes."""
    return _at_least(text, 1)


def seconds(text: str) -> float:
    """Return a finite time >= 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds >= 0, got {text!r}")
    return value


def _at_least(text: str, smallest: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < smallest:
        raise argparse.ArgumentTypeError(f"must be a whole number >= {smallest}, got {text!r}")
    return int(text)


def names_in(text: str) -> list[str]:
    """Names of a list with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]
