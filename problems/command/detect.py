"""``dynsys detect``: contacts in a log, at a stated rate of false alarms."""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from dynsys.errors import LogError
from dynsys.resumable import written
from problems import terminal
from problems.command.arguments import add_flags, add_problem
from problems.detection.contacts import Contact, ContactDetector
from problems.labels import WRENCH
from problems.logs.samples import Samples
from problems.problem_file import load_problem

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys detect arm.yaml log.npz --free free.npz
  dynsys detect arm.yaml log.npz --free-seconds 0 20 -o contacts.csv
  dynsys detect arm.yaml log.db3 --free free.db3 --false-alarms-per-hour 10"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument("log", metavar="LOG", help="a log, as for 'dynsys solve'")
    free = parser.add_mutually_exclusive_group(required=True)
    free.add_argument(
        "--free", metavar="LOG", default="", help="a log of free motion: learn the alarm there"
    )
    free.add_argument(
        "--free-seconds",
        metavar=("FROM", "TO"),
        nargs=2,
        type=float,
        help="free motion in LOG itself, s after its first sample",
    )
    parser.add_argument(
        "--false-alarms-per-hour",
        metavar="RATE",
        type=_rate,
        default=1.0,
        help="alarms per hour of free motion (default 1)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default="",
        help=".csv or .json: the contacts, times in s after the first sample",
    )
    add_flags(parser, allow_missing="let sensors go that the log lacks")


def run(args: argparse.Namespace) -> int:
    """Learn the alarm, go through the log, and say what was found."""
    output = Path(args.output)
    if args.output and output.suffix not in (".csv", ".json"):
        raise LogError(f"{output}: contacts are written as .csv or .json")
    problem = load_problem(args.problem)

    def read(path: str) -> Samples:
        found = problem.samples(path, allow_missing=args.allow_missing).with_motion()
        if not len(found.time):
            raise LogError(f"{path}: no sample has all positions and velocities")
        return found

    log = read(args.log)
    start = float(log.time[0])
    free = read(args.free) if args.free else _between(log, args.log, *args.free_seconds)
    detector = ContactDetector.calibrated(
        problem.estimation, free.time, free.q, free.qd, free.y, args.false_alarms_per_hour
    )
    found = detector.events(log.time, log.q, log.qd, log.y)
    contacts = [_told(contact, start) for contact in found]
    seconds = float(log.time[-1]) - start
    expected = args.false_alarms_per_hour * seconds / 3600.0
    alarm = detector.alarm
    told = {
        "first_sample": start,
        "seconds": seconds,
        "false_alarms_per_hour": alarm.per_hour,
        "false_alarms_expected": expected,
        "threshold": alarm.threshold,
        "extrapolation": alarm.extrapolation,
        "contacts": contacts,
    }
    if args.output:
        _write(output, told, contacts)
    if args.json:
        terminal.show_json(told)
        return 0
    terminal.show_prose(f"chi-square {alarm}")
    _show(found, start)
    terminal.show_prose(
        f"contacts found in {seconds:.4g} s: {len(found)}; false alarms expected among them:"
        f" {expected:.2g}"
    )
    if args.output:
        terminal.show_line(f"{args.output}: written")
    return 0


def _rate(text: str) -> float:
    """Return a rate of alarms, finite and positive."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number > 0, got {text!r}")
    return value


def _between(log: Samples, path: str, first: float, last: float) -> Samples:
    """Samples of a log from ``first`` to ``last`` s after its first one."""
    since = log.time - log.time[0]
    if not 0 <= first < last:
        raise LogError(f"--free-seconds FROM TO: 0 <= FROM < TO, got {first:g} {last:g}")
    at = np.asarray((since >= first) & (since <= last))
    if not at.any():
        raise LogError(
            f"--free-seconds {first:g} {last:g}: no sample; {path} has {since[-1]:.4g} s,"
            " counted from its first sample"
        )
    return log.part(at)


# ---- what is said ----------------------------------------------------------------------------


def _told(contact: Contact, start: float) -> dict[str, Any]:
    """A contact as plain values, times from the log's first sample; None for not known."""

    def known(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    told: dict[str, Any] = {
        "start": contact.start - start,
        "end": contact.end - start,
        "peak": contact.peak - start,
        "link": contact.link,
        "tied": list(contact.tied),
        "among": list(contact.among),
        "probability": known(contact.probability),
        "force": known(contact.force),
        "force_std": known(contact.force_std),
        "along": known(contact.along),
        "along_std": known(contact.along_std),
    }
    for name, value, std in zip(WRENCH, contact.wrench, contact.wrench_std, strict=True):
        told |= {name: known(value), f"{name}_std": known(std)}
    return told


def _write(path: Path, told: dict[str, Any], contacts: list[dict[str, Any]]) -> None:
    with (
        written(path, LogError) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        if path.suffix == ".json":
            file.write(json.dumps(told, indent=2, allow_nan=False) + "\n")
            return
        columns = ["start", "end", "peak", "link", "tied", "among", "probability", "force"]
        columns += [
            "force_std",
            "along",
            "along_std",
            *(x for k in WRENCH for x in (k, f"{k}_std")),
        ]
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for row in contacts:
            writer.writerow(row | {k: " ".join(row[k]) for k in ("tied", "among")})


def _show(found: list[Contact], start: float) -> None:
    def with_std(value: float, std: float, unit: float = 1.0) -> str:
        return f"{unit * value:.3g} +- {unit * std:.2g}" if math.isfinite(value) else "-"

    terminal.show_table(
        ("start [s]", "end [s]", "link", "probability", "force [N]", "along it [cm]"),
        [
            (
                f"{c.start - start:.3f}",
                f"{c.end - start:.3f}",
                c.where,
                f"{100 * c.probability:.0f} %" if math.isfinite(c.probability) else "-",
                with_std(c.force, c.force_std),
                with_std(c.along, c.along_std, 100.0),
            )
            for c in found
        ],
        right=("start [s]", "end [s]", "probability", "force [N]", "along it [cm]"),
    )
