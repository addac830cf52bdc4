"""``dynsys calibrate``: what a log says of the sensors themselves."""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from problems import terminal
from problems.command.arguments import add_flags, add_names, add_problem
from problems.estimation.alignment import Alignment, align_sensor
from problems.estimation.calibration import Calibration, calibrate_offsets
from problems.estimation.estimation import Estimation
from problems.estimation.noise import NoiseEstimate, SensorNoise, estimate_noise
from problems.logs.samples import Samples
from problems.problem_file import load_problem

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
  dynsys calibrate problem.yaml log.npz         noise of every sensor
  dynsys calibrate problem.yaml log.npz --offsets
  dynsys calibrate problem.yaml log.npz --align chest_imu -o layout.yaml"""

MOST_OFFSET_SAMPLES = 500
FAR = 1.2
"""Chi-square per degree of freedom this far from one, either way, is told."""
NO_NOISE = 10.0
"""A deviation so many times the stated one is no noise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_problem(parser)
    parser.add_argument("log", metavar="LOG", help="a log, as for 'dynsys solve'")
    add_names(parser, "--align", "sensors whose turn, offset and delay are looked for")
    add_flags(parser, offsets="constant offsets of all noisy sensors together")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the layout with what was found: deviations, mountings (.yaml, .json)",
    )


def run(args: argparse.Namespace) -> int:
    """Show what was found, and write the layout."""
    problem = load_problem(args.problem)
    estimation = problem.estimation
    samples = problem.samples(args.log, allow_missing=True).with_motion()
    aligned = []
    for name in args.align:
        found = align_sensor(
            estimation, name, samples.time, samples.q, samples.qd, samples.y,
            turn=hasattr(estimation.layout[name], "rpy"),
        )  # fmt: skip
        aligned.append(found)
        layout = found.layout(estimation.layout)
        estimation = Estimation(problem.tree, layout, problem.prior)
    offsets = _offsets(estimation, samples) if args.offsets else None
    noise = estimate_noise(estimation, samples.q, samples.qd, samples.y, samples.time)
    if args.output:
        noise.layout.save(args.output)
    if args.json:
        told = _told(noise, offsets, aligned, args.output)
        terminal.show_json(told | {"doubts": _doubts(noise)})
    else:
        _show(noise, offsets, aligned, args.output)
    return 0


def _doubts(noise: NoiseEstimate) -> list[str]:
    """What is more than noise, in words."""
    suspect = "a fault, a unit or a wrong model? 'dynsys solve' says whom to suspect"
    found = [
        f"{one.sensor}: {one.factor:.3g} times its stated deviation in {one.unit} is no noise:"
        f" {suspect}"
        for one in noise.sensors
        if one.known and one.factor > NO_NOISE
    ]
    if noise.chi_square[1] > NO_NOISE**2:
        found.append(f"the readings contradict each other as no noise does: {suspect}")
    return found


def _found(one: SensorNoise) -> str:
    if one.known:
        return f"{one.found:.3g} +- {one.found_std:.1g}"
    return "kept, hardly checked" if one.redundancy else "kept, unchecked"


def _offsets(estimation: Estimation, samples: Samples) -> Calibration:
    at = np.unique(np.linspace(0, len(samples.q) - 1, MOST_OFFSET_SAMPLES).astype(np.intp))
    return calibrate_offsets(estimation, samples.q[at], samples.qd[at], samples.y[at])


def _told(
    noise: NoiseEstimate,
    offsets: Calibration | None,
    aligned: list[Alignment],
    output: str | None,
) -> dict[str, Any]:
    def number(x: float) -> float | None:
        return float(x) if math.isfinite(x) else None

    told: dict[str, Any] = {
        "noise": [
            {
                "sensor": one.sensor,
                "unit": one.unit,
                "stated": one.stated,
                "found": one.found,
                "found_std": number(one.found_std),
                "known": one.known,
                "together": list(one.together),
                "redundancy": one.redundancy,
                "correlation_time": number(one.correlation_time),
            }
            for one in noise.sensors
        ],
        "chi_square_per_degree_of_freedom": [number(x) for x in noise.chi_square],
        "aligned": [
            {
                "sensor": a.sensor.name,
                "turn": a.turn.tolist(),
                "turn_std": a.turn_std.tolist(),
                "offset": a.offset.tolist(),
                "offset_std": a.offset_std.tolist(),
                "delay": a.delay,
                "delay_std": a.delay_std,
                "rms_before": a.rms_before.tolist(),
                "rms_after": a.rms_after.tolist(),
            }
            for a in aligned
        ],
        "output": output,
    }
    if offsets is not None:
        told["offsets"] = {
            name: {
                "offset": [number(x) for x in values],
                "std": [number(x) for x in offsets.std[name]],
            }
            for name, values in offsets.offset.items()
        }
        told["unobservable_offsets"] = list(offsets.unobservable)
    return told


def _show(
    noise: NoiseEstimate,
    offsets: Calibration | None,
    aligned: list[Alignment],
    output: str | None,
) -> None:
    for found in aligned:
        terminal.show_line(str(found))
        before, after = (
            float(np.sqrt((x**2).mean())) for x in (found.rms_before, found.rms_after)
        )
        terminal.show_line(
            f"  reading minus prediction: rms {before:.4g} before, {after:.4g} after"
        )
    if offsets is not None:
        terminal.show_line(str(offsets))
    terminal.show_table(
        ("sensor", "unit", "std stated", "std found", "times", "checked", "memory [s]"),
        [
            (
                one.sensor,
                one.unit,
                f"{one.stated:.3g}",
                _found(one),
                f"{one.factor:.2f}" if one.known else "",
                f"{100 * one.redundancy:.0f} %" if one.redundancy else "",
                terminal.number(one.correlation_time, 2),
            )
            for one in noise.sensors
        ],
        right=("std stated", "std found", "times", "checked", "memory [s]"),
    )
    before, after = noise.chi_square
    if not math.isnan(before):
        terminal.show_line(
            f"chi-square per degree of freedom: {before:.3g} with the deviations stated,"
            f" {after:.3g} with those found"
        )
    kept = [one.sensor for one in noise.sensors if not one.known]
    doubts = _doubts(noise)
    for line in doubts:
        terminal.show_line(line)
    if kept and not doubts and not math.isnan(after) and not 1 / FAR < after < FAR:
        size = "small" if after > 1 else "large"
        terminal.show_line(
            f"some of the values kept seem too {size}; the log does not say which"
        )
    pairs = {(one.sensor, *one.together) for one in noise.sensors if one.together}
    for names in sorted({tuple(sorted(names)) for names in pairs}):
        terminal.show_line(
            f"{' and '.join(names)} cannot be told apart: one factor for all, their stated"
            " ratio is kept; +- holds if it is right"
        )
    if output:
        terminal.show_line(f"{output}: the layout with what was found")
