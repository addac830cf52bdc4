"""``dynsys report``: one self-contained HTML page on a problem, also as PDF."""

from __future__ import annotations

import argparse
from pathlib import Path

from dynsys.errors import LogError
from problems import terminal
from problems.command.arguments import KINDS, add_flags, add_robot, robot_options, robot_words
from problems.report import Report, Subject, build_report, read_subject, write_page, write_pdf

__all__ = ["EXAMPLES", "add_arguments", "build_with_bar", "run"]

EXAMPLES = """\
  dynsys report catalogue:nao -o report.html
  dynsys report problem.yaml log.npz -o report.html"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "what", metavar="PROBLEM",
        help="a problem file (.yaml), catalogue:NAME, or a robot as for 'dynsys info'",
    )  # fmt: skip
    parser.add_argument(
        "log", metavar="LOG", nargs="?",
        help="estimate along this log, as for 'dynsys solve'",
    )  # fmt: skip
    parser.add_argument("--log", metavar="LOG", dest="log_option", help="the same")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("report.html"),
        help="page to write (default report.html)",
    )  # fmt: skip
    parser.add_argument(
        "--pdf", metavar="FILE", type=Path, help="also print it (needs Chromium)"
    )
    kinds = f"of a robot: {KINDS}"
    parser.add_argument("--problem", default="fd", metavar="KIND", help=kinds)
    add_robot(parser)
    add_flags(parser, no_time="do not compile and measure")


def run(args: argparse.Namespace) -> int:
    """Write the page and say what it says first."""
    options = robot_options(args)
    subject = read_subject(args.what, args.problem, args.floating_base, **options)
    report = build_with_bar(subject, _command(args), log=_log(args), timed=not args.no_time)
    written = [write_page(report, args.output)]
    if args.pdf is not None:
        written.append(write_pdf(args.output, args.pdf))
    if args.json:
        files = [str(path) for path in written]
        terminal.show_json(report.to_json() | {"files": files})
    else:
        for path in written:
            size = path.stat().st_size / 1000
            terminal.show_line(f"wrote {path} ({size:.0f} kB): {report.title}")
        if report.verdict is not None:
            terminal.show_line(str(report.verdict).splitlines()[0])
        if report.log is not None:
            for line in report.log.judgement.lines:
                terminal.show_line(line)
    return 0


def build_with_bar(
    subject: Subject,
    command: list[str],
    *,
    log: str | Path | None = None,
    timed: bool = True,
) -> Report:
    """Collect the report while a bar shows how far it is."""
    with terminal.progress_bar("making the report") as start:
        advance = start(0, 4)

        def step(_: str, done: int, total: int) -> None:
            if done:
                advance(4 * done // total - 4 * (done - 1) // total)

        return build_report(subject, log=log, command=command, timed=timed, steps=step)


def _log(args: argparse.Namespace) -> str | None:
    """The log, however it was named; LogError if two were."""
    if args.log and args.log_option:
        raise LogError(f"{args.log} and --log {args.log_option}: a report is on one log")
    log: str | None = args.log or args.log_option
    return log


def _command(args: argparse.Namespace) -> list[str]:
    """Words that make the same page again."""
    words = ["dynsys", "report", args.what, *([_log(args)] if _log(args) else [])]
    if args.problem != "fd":
        words += ["--problem", args.problem]
    words += [*robot_words(args), *(["--no-time"] if args.no_time else [])]
    return [*words, "-o", str(args.output)]
