"""``dynsys identify``: parameters of a robot from a log, or what a log could tell."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from dynsys.errors import LayoutError, LogError
from dynsys.resumable import written
from problems import terminal
from problems.command.arguments import add_flags, add_names, add_problem, seconds, whole
from problems.identification.excitation import Excitation, design
from problems.identification.fit import Fit, Payload, Validation
from problems.identification.identification import Identification
from problems.identification.least_squares import LeastSquares
from problems.identification.seen import Seen
from problems.identification.weighted import Log
from problems.problem_file import ProblemFile, load_problem

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys identify arm.yaml            what the sensors can see
  dynsys identify arm.yaml log.db3 -o identified.urdf
  dynsys identify arm.yaml log.db3 --hold-out 0.5
  dynsys identify arm.yaml log.db3 --validate other.db3
  dynsys identify arm.yaml loaded.db3 --without empty.db3 --payload hand
  dynsys identify arm.yaml --design 20 -o motion.npz"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument(
        "log",
        metavar="LOG",
        nargs="?",
        default="",
        help="as for solve; none: what could be seen",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        default="",
        help=".urdf: the robot found; .json: values and deviations; with --design .npz",
    )
    parser.add_argument(
        "--validate", metavar="LOG2", default="", help="try the fit on this log"
    )
    parser.add_argument(
        "--hold-out", metavar="PART", type=_part, default=0.0, help="try it on the last part"
    )
    parser.add_argument(
        "--design", metavar="SECONDS", type=seconds, default=0.0, help="find a motion so long"
    )
    parser.add_argument("--seed", type=whole, default=0, help="of the design (default 0)")
    parser.add_argument(
        "--without", metavar="LOG0", default="", help="a log of the same robot without payload"
    )
    parser.add_argument(
        "--payload", metavar="BODY", default="", help="what carries the payload"
    )
    words = {
        "inertia": "bodies whose inertia is sought",
        "friction": "joints whose friction, rotor and offset are sought",
        "asymmetric": "joints whose dry friction differs with the direction",
        "sensor-offset": "sensors with a constant error",
        "sensor-gain": "sensors with an unknown factor, such as N m/A",
        "contacts": "bodies that touch something unknown",
    }
    for name, text in words.items():
        add_names(parser, f"--{name}", f"{text}; none: -" if name in _ALL else text)
    add_flags(
        parser,
        not_physical="allow inertias that no body has",
        plain="squares of all residuals, also of those far off",
        allow_missing="let sensors go that the log lacks",
    )


_ALL = ("inertia", "friction")


def run(args: argparse.Namespace) -> int:
    """Read, fit, and say what was found."""
    problem = load_problem(args.problem)
    identification = _identification(problem, args)
    if args.design:
        return _design(identification, args)
    if not args.log:
        return _verdict(identification.verdict(), args)
    log = _read(problem, args.log, args)
    held = round(len(log) * (1 - args.hold_out))
    fitted, rest = log.part(slice(0, held)), log.part(slice(held, None))
    seen = identification.verdict(fitted.q, fitted.qd, fitted.qdd)
    fit = _fit(identification, fitted, args)
    trials: dict[str, Validation] = {"the log itself": _tried(fit, fitted)}
    if len(rest):
        trials[f"held out, the last {len(rest)} samples"] = _tried(fit, rest)
    if args.validate:
        trials[args.validate] = _tried(fit, _read(problem, args.validate, args))
    payload, fits = None, {"the log itself": fit}
    if args.without or args.payload:
        if not (args.without and args.payload):
            raise LayoutError("a payload takes both --without LOG0 and --payload BODY")
        empty = _fit(identification, _read(problem, args.without, args), args)
        payload, fits[args.without] = fit.payload(empty, args.payload), empty
    if args.output:
        _write(fit, Path(args.output))
    if args.json:
        terminal.show_json(_told(fits, seen, trials, payload))
    else:
        _show_contradictions(fits)
        _show(fit, seen, trials, payload, args)
    return 1 if any(f.least_squares.words for f in fits.values()) or not seen.rank else 0


def _identification(problem: ProblemFile, args: argparse.Namespace) -> Identification:
    def chosen(names: list[str]) -> bool | list[str]:
        return [] if names == ["-"] else names or True

    friction = chosen(args.friction)
    return Identification(
        problem.tree,
        problem.sensors,
        inertia=chosen(args.inertia),
        friction=friction,
        rotor=friction,
        offset=friction,
        asymmetric=list(args.asymmetric),
        sensor_offset=list(args.sensor_offset),
        sensor_gain=list(args.sensor_gain),
        contacts=list(args.contacts),
    )


def _read(problem: ProblemFile, path: str, args: argparse.Namespace) -> Log:
    """Motion and readings of a whole log, accelerations made where it has none."""
    samples = problem.samples(path, allow_missing=args.allow_missing, accelerations=True)
    assert samples.qdd is not None
    if not np.isfinite(samples.qdd).all():
        raise LogError(f"{path}: some accelerations are not numbers; is the log too short?")
    return Log(samples.q, samples.qd, samples.qdd, samples.y)


def _fit(identification: Identification, log: Log, args: argparse.Namespace) -> Fit:
    options: dict[str, Any] = {"huber": None} if args.plain else {}
    return identification.fit(
        log.q, log.qd, log.qdd, log.y, physical=not args.not_physical, **options
    )


def _tried(fit: Fit, log: Log) -> Validation:
    return fit.validate(log.q, log.qd, log.qdd, log.y)


def _part(text: str) -> float:
    """Return a part of a log, 0 <= part < 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"must be a part from 0 to 1, got {text!r}")
    return value


def _write(fit: Fit, path: Path) -> None:
    """Write the robot, or the numbers."""
    if path.suffix == ".urdf":
        fit.robot.to_urdf(path)
    elif path.suffix == ".json":
        content = {"values": fit.values, "std": fit.std}
        with written(path, LogError) as part:
            part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    else:
        raise LayoutError(f"{path}: write a .urdf or a .json file")


# ---- what is said ----------------------------------------------------------------------------


def _told(
    fits: dict[str, Fit], seen: Seen, trials: dict[str, Validation], payload: Payload | None
) -> dict[str, Any]:
    fit = next(iter(fits.values()))
    std = fit.std
    model = dict(zip(fit.names, fit.sought.model.tolist(), strict=True))
    size = dict(zip(fit.names, fit.scale.tolist(), strict=True))
    labels = fit.sought.layout.labels
    return {
        "least_squares": {name: _beside(each.least_squares) for name, each in fits.items()},
        "samples": fit.n_samples,
        "rank": seen.rank,
        "parameters": {
            name: {"model": model[name], "value": x, "std": std[name], "size": size[name]}
            for name, x in fit.values.items()
        },
        "seen": list(seen.seen),
        "unseen": list(seen.unseen),
        "advice": list(seen.advice),
        "noise": dict(zip(labels, fit.noise.tolist(), strict=True)),
        "correlated_samples": dict(zip(labels, fit.correlation_time.tolist(), strict=True)),
        "trials": {
            name: {
                label: {
                    "model": _known(before),
                    "fit": _known(after),
                    "inside_band": _known(inside),
                }
                for label, before, after, inside in zip(
                    trial.labels,
                    trial.before.tolist(),
                    trial.after.tolist(),
                    trial.inside.tolist(),
                    strict=True,
                )
            }
            for name, trial in trials.items()
        },
        "doubts": {name: list(trial.doubts) for name, trial in trials.items()},
        "payload": None
        if payload is None
        else {
            "body": payload.body,
            "mass": payload.mass,
            "mass_std": payload.mass_std,
            "centre": payload.centre.tolist(),
            "centre_std": payload.centre_std.tolist(),
            "inertia": payload.inertia.tolist(),
        },
    }


def _beside(found: LeastSquares) -> dict[str, Any]:
    """What unconstrained least squares says of a fit."""
    figures = zip(found.labels, found.fit.tolist(), found.rms.tolist(), strict=True)
    return {
        "words": list(found.words),
        "readings": {
            label: {"fit": _known(fit), "least_squares": _known(rms)}
            for label, fit, rms in figures
        },
        "apart": [
            {
                "shares": dict(each.shares),
                "deviations": each.deviations,
                "fit": each.found,
                "least_squares": each.asked,
            }
            for each in found.apart
        ],
    }


def _show_contradictions(fits: dict[str, Fit]) -> None:
    """Say first where unconstrained least squares contradicts a fit."""
    for name, fit in fits.items():
        if not fit.least_squares.words:
            continue
        terminal.show_prose(
            f"{name}: this fit departs from its data. Unconstrained least squares on the same"
            " readings says otherwise:"
        )
        for words in fit.least_squares.words:
            terminal.show_prose(f"  - {words}")
        terminal.show_prose(
            "  The model's values or the constraints hold it off the data: put values nearer to"
            " these (a payload, say) into the robot's file and fit again; --not-physical lifts"
            " the constraints."
        )
        terminal.show_line()


def _known(x: float) -> float | None:
    """A number; None for that of a reading that the log lacks."""
    return x if math.isfinite(x) else None


def _show(
    fit: Fit,
    seen: Seen,
    trials: dict[str, Validation],
    payload: Payload | None,
    args: argparse.Namespace,
) -> None:
    number, std = terminal.number, fit.std
    rows = []
    for k, (name, value) in enumerate(fit.values.items()):
        told = 1 - (std[name] / fit.scale[k]) ** 2
        rows.append(
            (
                name,
                number(float(fit.sought.model[k])),
                number(value),
                number(std[name], 2),
                f"{100 * max(told, 0.0):.0f} %",
            )
        )
    columns = ("parameter", "model", "found", "std", "from data")
    terminal.show_table(columns, rows, right=columns[1:])
    size = fit.sought.size
    terminal.show_line(
        f"{fit.n_samples} samples see {seen.rank} combinations of {size} parameters; what they"
        " do not see stays at the model's value"
    )
    for words in seen.advice:
        terminal.show_prose(f"  {words}")
    for name, trial in trials.items():
        terminal.show_line()
        terminal.show_line(f"{name}: rms of reading minus prediction")
        body = zip(
            trial.labels, trial.units, trial.before, trial.after, trial.inside, strict=True
        )
        terminal.show_table(
            ("reading", "unit", "model", "fit", "in 95 % band"),
            [
                (lb, u, number(b), number(a), f"{100 * i:.0f} %" if math.isfinite(i) else "-")
                for lb, u, b, a, i in body
            ],
            right=("model", "fit", "in 95 % band"),
        )
        for words in trial.doubts:
            terminal.show_line(words)
    if payload is not None:
        centre = ", ".join(
            f"{c:.4g} +- {s:.2g}"
            for c, s in zip(payload.centre, payload.centre_std, strict=True)
        )
        terminal.show_line(
            f"payload on {payload.body}: {payload.mass:.4g} +- {payload.mass_std:.2g} kg at"
            f" ({centre}) m"
        )
    if args.output:
        terminal.show_line(f"{args.output}: written")


def _verdict(seen: Seen, args: argparse.Namespace) -> int:
    """Say what the layout could see."""
    told = {
        "rank": seen.rank,
        "parameters": seen.sought.size,
        "seen": list(seen.seen),
        "unseen": list(seen.unseen),
        "advice": list(seen.advice),
    }
    if args.json:
        terminal.show_json(told)
        return 0 if seen.rank else 1
    terminal.show_line(
        f"{seen.rank} combinations of {seen.sought.size} parameters can be seen:"
    )
    for words in seen.seen:
        terminal.show_prose(f"  - {words}")
    for words in (*seen.unseen, *seen.advice):
        terminal.show_prose(f"  {words}")
    return 0 if seen.rank else 1


def _design(identification: Identification, args: argparse.Namespace) -> int:
    """Find a motion, and show it beside random ones."""
    found = design(identification.sought, args.design, seed=args.seed)
    if args.output:
        _write_motion(found, args.output)
    told = {
        "seconds": args.design,
        "rate": found.rate,
        "worst": found.worst,
        "worst_parameter": found.worst_parameter,
        "random": list(found.random),
        "std": found.std,
    }
    if args.json:
        terminal.show_json(told)
        return 0
    terminal.show_line(
        f"a motion of {args.design:g} s below {found.highest:.3g} Hz within the limits of the"
        " joints"
    )
    best, median = min(found.random), float(np.median(found.random))
    terminal.show_line(
        f"worst deviation ({found.worst_parameter}): {found.worst:.3g} of its natural size;"
        f" {len(found.random)} random motions: best {best:.3g}, median {median:.3g}"
    )
    if args.output:
        terminal.show_line(f"{args.output}: written")
    return 0


def _write_motion(found: Excitation, path: str) -> None:
    target = Path(path)
    if target.suffix != ".npz":
        raise LayoutError(f"{path}: a motion is written as .npz")
    with written(target, LogError) as part, part.open("wb") as file:
        np.savez(file, time=found.time, q=found.q, qd=found.qd, qdd=found.qdd)
