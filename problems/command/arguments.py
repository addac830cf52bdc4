"""What several commands share: arguments, lists of names, work on many samples with a bar."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynsys.errors import RefusedError
from problems import terminal
from problems.log_jobs import Finished, Job, run_job
from problems.web import is_loopback

__all__ = [
    "KINDS",
    "add_flags",
    "add_host",
    "add_names",
    "add_numbers",
    "add_plan",
    "add_problem",
    "add_robot",
    "add_running",
    "add_web",
    "check_outputs",
    "has_display",
    "port",
    "positive",
    "robot_options",
    "robot_words",
    "seconds",
    "web_host",
    "whole",
    "with_bar",
]

KINDS = (
    "id, fd (default), hybrid:JOINT,... (+constraints for those of the robot's file),"
    " published:NAME or a layout file"
)
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


def add_robot(parser: argparse.ArgumentParser, floating_base: str = "free root link") -> None:
    """Declare how the robot is read; ``floating_base`` says what that does here."""
    add_flags(
        parser,
        floating_base=floating_base,
        friction="damping and friction of the robot file are part of the equations",
    )
    parser.add_argument(
        "--lock",
        metavar="JOINT=VALUE",
        action="append",
        type=joint_at,
        default=[],
        help="weld a joint at a position (rad, m); may be repeated",
    )


def robot_options(args: argparse.Namespace) -> dict[str, Any]:
    """Friction and locked joints of :func:`add_robot`, as ``read_robot`` takes them.

    Empty where nothing was asked for.
    """
    friction = {"friction": "file"} if args.friction else {}
    return friction | ({"lock": dict(args.lock)} if args.lock else {})


def robot_words(args: argparse.Namespace) -> list[str]:
    """The options of :func:`add_robot` that were given, as they were written."""
    words = ["--floating-base"] if args.floating_base else []
    words += ["--friction"] if args.friction else []
    return words + [f"--lock={joint}={value!r}" for joint, value in args.lock]


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


def add_web(parser: argparse.ArgumentParser, default: int) -> None:
    """Declare where a page, or what it talks to, is served."""
    add_host(parser)
    parser.add_argument(
        "--port", type=port, default=default, help=f"0: any free one (default {default})"
    )


def add_host(parser: argparse.ArgumentParser) -> None:
    """Declare the address to listen on; checked by :func:`web_host`."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (127.0.0.1: this machine alone)",
    )
    add_flags(parser, allow_network="let --host be an address that other machines reach")


def web_host(args: argparse.Namespace) -> str:
    """Return the address to listen on; RefusedError if others reach it, not meant to."""
    if not is_loopback(args.host) and not args.allow_network:
        raise RefusedError(
            f"{args.host} can be reached from other machines, which could then see estimates"
            " and send anything: add --allow-network if that is meant, or leave --host out"
        )
    return str(args.host)


WRITTEN = ("output", "pdf", "picture")
"""Arguments that name a file to write; whatever else names a file is read."""


def check_outputs(args: argparse.Namespace) -> None:
    """Raise RefusedError if an output is a file that the same command line reads."""
    given = vars(args)
    read = [x for key, value in given.items() if key not in WRITTEN for x in _words(value)]
    for key in WRITTEN:
        for output in _words(given.get(key)):
            if any(_is_same_file(output, x) for x in read):
                raise RefusedError(
                    f"{output}: the output would replace what it is made from; rename it"
                )


def _words(value: object) -> list[str]:
    """Texts and paths of an argument that is one, or a list of them."""
    values = value if isinstance(value, list) else [value]
    return [str(x) for x in values if isinstance(x, (str, Path))]


def _is_same_file(one: str, other: str) -> bool:
    """Whether both are there and one file, whatever they are called."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def has_display() -> bool:
    """Tell whether a browser would open a window, and not take over the terminal."""
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(shown) or sys.platform in ("darwin", "win32")


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


def port(text: str) -> int:
    """Return the number of a port; 0 is any free one."""
    if not (text.isascii() and text.isdecimal()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port, 0 to 65535, got {text!r}")
    return int(text)


def joint_at(text: str) -> tuple[str, float]:
    """Return the name of a joint and a finite number from JOINT=VALUE."""
    joint, _, value = text.rpartition("=")
    try:
        at = float(value)
    except ValueError:
        at = math.nan
    if not joint or not math.isfinite(at):
        raise argparse.ArgumentTypeError(f"must be JOINT=VALUE, got {text!r}")
    return joint, at


def _at_least(text: str, smallest: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < smallest:
        raise argparse.ArgumentTypeError(f"must be a whole number >= {smallest}, got {text!r}")
    return int(text)


def names_in(text: str) -> list[str]:
    """Names of a list with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]
