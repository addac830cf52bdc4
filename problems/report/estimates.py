"""Estimates of a report: torques and external wrenches along a log, and their uncertainty.

:func:`solve_log` estimates and judges all samples of a log, :func:`log_part` makes series of
them that are drawn one by one: line, band of two standard deviations, truth, and the error
within its band. A line goes through the least and the largest value of every pixel, so that
nothing is too short to be seen.
:func:`uncertainty_part` gives the standard deviations by name, along the log or at random
postures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from dynsys.errors import LogError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.estimation import Estimation
from problems.labels import WRENCH, entry_names, own_joints
from problems.logs.differentiate import Differentiation
from problems.logs.files import open_log
from problems.logs.judge import Judgement, judge_log
from problems.logs.samples import SampleReader, Samples
from problems.logs.source import AbstractLog, source_of
from problems.measured.measured_system import Quantity
from problems.report.markup import (
    count,
    figure,
    legend,
    number,
    plain,
    script_data,
    table,
    text,
)
from problems.report.robot import JointDeviation, RobotPart, skeletons, tree
from problems.report.subject import Subject

__all__ = [
    "UNCERTAIN",
    "LogPart",
    "SolvedLog",
    "UncertaintyPart",
    "around_zero",
    "estimates_section",
    "log_part",
    "solve_log",
    "ticks",
    "uncertainty_part",
    "uncertainty_section",
]

UNCERTAIN: tuple[Quantity, ...] = ("torque", "external_wrench")
"""Quantities whose standard deviations a report shows."""


# ---- a log, solved -----------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class SolvedLog:
    """A log estimated: everything of all samples, deviations at some of them.

    Attributes
    ----------
    samples, at : those with deviations, evenly chosen, and their numbers among all.
    values, stds : torque (N, nv), external_wrench (N, n_bodies, 6) there.
    truth : of all samples, where the log has it.
    time : (M,) of all samples.
    extremes : least and largest values within every pixel, by quantity.
    peaks : largest external force (N) of every body and its time.
    chi_square, degrees_of_freedom : means over all samples.
    judgement : what all samples say of the model.
    """

    reader: SampleReader
    samples: Samples
    at: IntArray
    values: dict[str, Array]
    stds: dict[str, Array]
    truth: dict[str, Array]
    time: Array
    extremes: dict[str, Extremes]
    peaks: list[tuple[float, float]]
    chi_square: float
    degrees_of_freedom: float
    judgement: Judgement


MOST_SAMPLES, PIXELS, BLOCK = 2000, 200, 2048
"""Samples whose deviations are computed; columns of a picture; samples solved at a time."""


def solve_log(subject: Subject, path: str | Path) -> SolvedLog:
    """Estimate and judge all samples of a log that have positions.

    Raises
    ------
    LogError
        if the log cannot be read or has no sample with a position.
    """
    estimation = subject.estimation
    assert estimation is not None
    file = subject.file
    method = Differentiation() if file is None else file.differentiation
    with open_log(path) if file is None else file.open_log(path) as log:
        reader = SampleReader(estimation.layout, log, method, allow_missing=True)
        every = reader.read(0, log.n_samples)
        usable = np.isfinite(every.q).all(axis=1) & np.isfinite(every.qd).all(axis=1)
        used = np.flatnonzero(usable)
        if not len(used):
            raise LogError(f"{log.path}: no sample has all positions and velocities")
        samples = Samples(every.time[used], every.q[used], every.qd[used], every.y[used])
        whole = _Whole(estimation.robot, len(used))
        for block in np.array_split(np.arange(len(used)), -(-len(used) // BLOCK)):
            whole.take(estimation, samples, block)
        p = np.full(log.n_samples, np.nan)
        p[used] = whole.p
        judgement = judge_log(estimation, reader, p)
        at = np.linspace(0, len(used) - 1, min(len(used), MOST_SAMPLES)).round().astype(np.intp)
        some = Samples(*(x[at] for x in (samples.time, samples.q, samples.qd, samples.y)))
        values, stds = _estimates(estimation, some.q, some.qd, some.y)
        truth = _truth(estimation, log, used)
    return SolvedLog(
        reader, some, at, values, stds, truth, samples.time, whole.extremes, whole.peaks,
        float(np.nanmean(whole.chi_square)), float(np.mean(whole.dof)), judgement,
    )  # fmt: skip


@final
class Extremes:
    """Least and largest of N values (N, size) within each of so many pixels, taken in blocks.

    ``low``, ``high`` (pixels, size) are values, ``low_at``, ``high_at`` their samples; infinite
    where a pixel has none. ``first`` and ``last`` are the values at either end.
    """

    def __init__(self, n: int, size: int) -> None:
        self.n, self.pixels = n, min(n, PIXELS)
        self.low, self.high = np.full((2, self.pixels, size), np.inf)
        self.high *= -1.0
        self.low_at, self.high_at = np.zeros((2, self.pixels, size), dtype=np.intp)
        self.first, self.last = np.full((2, size), np.nan)

    def take(self, values: Array, start: int) -> None:
        """Take the values (k, size) of samples from ``start`` on."""
        here = np.arange(start, start + len(values))
        cuts = np.flatnonzero(np.diff(here * self.pixels // self.n)) + 1
        for part in np.split(np.arange(len(values)), cuts):
            pixel, some = int(here[part[0]] * self.pixels // self.n), values[part]
            for best, at, sign in (
                (self.low, self.low_at, 1.0),
                (self.high, self.high_at, -1.0),
            ):
                known = np.where(np.isnan(some), np.inf, sign * some)
                found, places = known.min(axis=0), known.argmin(axis=0)
                beyond = found < sign * best[pixel]
                best[pixel] = np.where(beyond, sign * found, best[pixel])
                at[pixel] = np.where(beyond, here[part[0]] + places, at[pixel])
        if start == 0:
            self.first = values[0]
        if start + len(values) == self.n:
            self.last = values[-1]

    def series(self, k: int) -> tuple[IntArray, Array]:
        """Samples of number k that are drawn, in order, and their values; NaN in gaps."""
        known = np.isfinite(self.low[:, k])
        gaps = -(-np.flatnonzero(~known) * self.n // self.pixels)
        at = [[0, self.n - 1], self.low_at[known, k], self.high_at[known, k], gaps]
        ends = [self.first[k], self.last[k]]
        values = [ends, self.low[known, k], self.high[known, k], np.full(len(gaps), np.nan)]
        where, first = np.unique(np.concatenate(at), return_index=True)
        return where, np.concatenate(values)[first]


@final
class _Whole:
    """What is kept of all samples."""

    def __init__(self, robot: KinematicTree, n: int) -> None:
        self.extremes = {
            "torque": Extremes(n, robot.nv),
            "external_wrench": Extremes(n, 6 * robot.n_bodies),
        }
        self.peaks = [(0.0, 0.0)] * robot.n_bodies
        self.p, self.chi_square, self.dof = np.full((3, n), np.nan)

    def take(self, estimation: Estimation, samples: Samples, block: IntArray) -> None:
        """Estimate a block of samples and keep its extremes."""
        inputs = samples.q[block], samples.qd[block], samples.y[block]
        wanted = ("torque", "external_wrench", "p_value")
        e = estimation.solve_batch(*inputs, outputs=wanted)
        torque, wrench = e.torque.array, e.external_wrench.array
        self.extremes["torque"].take(torque, int(block[0]))
        self.extremes["external_wrench"].take(wrench.reshape(len(block), -1), int(block[0]))
        force = np.nan_to_num(np.linalg.norm(wrench[:, :, 3:], axis=2))
        for i, k in enumerate(force.argmax(axis=0).tolist()):
            if force[k, i] > self.peaks[i][0]:
                self.peaks[i] = float(force[k, i]), float(samples.time[block[k]])
        self.chi_square[block], self.dof[block] = e.chi_square, e.degrees_of_freedom
        self.p[block] = np.where(self.dof[block] > 0, e.p_value, np.nan)


def _estimates(
    estimation: Estimation, q: Array, qd: Array, y: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Torques (N, nv) and external wrenches (N, n_bodies, 6), and their deviations."""
    e = estimation.solve_batch(q, qd, y, uncertainty=UNCERTAIN)
    return (
        {"torque": e.torque.array, "external_wrench": e.external_wrench.array},
        {"torque": e.std.torque.array, "external_wrench": e.std.external_wrench.array},
    )


def _truth(estimation: Estimation, log: AbstractLog, at: IntArray) -> dict[str, Array]:
    """True torques and wrenches by name, where the log has them."""
    robot = estimation.robot
    wanted = {"torque": ("truth.torque", entry_names(robot)["torque"])}
    for body in robot.body_names:
        wanted[body] = f"truth.external_wrench.{body}", list(WRENCH)
    found = {}
    for key, (whole, parts) in wanted.items():
        source = source_of(log.widths, whole, [f"{whole}.{part}" for part in parts])
        if source is not None:
            content = log.read(source.names, 0, log.n_samples)
            found[key] = np.hstack([content[n] for n in source.names])[at]
    return found


ROUNDING = 1e-6
"""Square root of a variance that is zero but for rounding, beside others of its kind."""


def exact_below(std: Array) -> float:
    """Deviation below which a quantity is exact up to rounding, beside all of its kind."""
    return ROUNDING * float(np.nanmax(std, initial=0.0))


# ---- what is shown of it -----------------------------------------------------------------


BAND = 2.0
"""Half-width of a band in standard deviations."""


@final
@dataclass(frozen=True, eq=False)
class Series:
    """One number over ``time`` (s): estimate, standard deviation, truth where the log has it.

    The arrays are over the samples drawn: the least and the largest of every pixel. ``rmse``
    and ``inside`` (part of the samples within the band) are over those with deviations.
    """

    quantity: str
    name: str
    unit: str
    time: Array
    value: Array
    std: Array
    truth: Array | None
    rmse: float | None = None
    inside: float | None = None

    @property
    def reach(self) -> float:
        """Range of the estimates that are not far less certain than the others."""
        known = self.value[np.isfinite(self.value) & _sure(self.std)]
        return float(np.ptp(known)) if len(known) else 0.0


@final
@dataclass(frozen=True, eq=False)
class LogPart:
    """A log solved: the series, largest forces (body, N, s), how well all readings agree."""

    log: str
    samples: int
    solved: int
    duration: float
    made: list[str]
    without_data: list[str]
    torques: list[Series]
    wrenches: list[Series]
    peaks: list[tuple[str, float, float]]
    chi_square: float | None
    degrees_of_freedom: float | None
    judgement: Judgement


def log_part(subject: Subject, solved: SolvedLog) -> LogPart:
    """Series of a solved log, thinned to what can be seen."""
    estimation = subject.estimation
    assert estimation is not None
    reader, robot = solved.reader, estimation.robot
    wrenches = _wrenches(robot, solved)
    touched = {one.name.rsplit(" ", 1)[0] for one in wrenches}
    peaks = [(b, *peak) for b, peak in zip(robot.body_names, solved.peaks, strict=True)]
    is_checked = solved.judgement.checked > 0
    return LogPart(
        log=reader.log.path.name,
        samples=reader.log.n_samples,
        solved=len(solved.time),
        duration=float(solved.time[-1] - solved.time[0]),
        made=list(reader.derived),
        without_data=list(reader.not_measured),
        torques=_torques(robot, solved),
        wrenches=wrenches,
        peaks=sorted((x for x in peaks if x[0] in touched), key=lambda x: -x[1])[:3],
        chi_square=solved.chi_square if is_checked else None,
        degrees_of_freedom=solved.degrees_of_freedom if is_checked else None,
        judgement=solved.judgement,
    )


def _torques(robot: KinematicTree, solved: SolvedLog) -> list[Series]:
    """Torques but those known exactly, as of a free base."""
    turns = np.zeros(robot.nv, dtype=np.bool_)
    for i in own_joints(robot):
        turns[robot.v_slices()[i]] = robot.joints[i].S[:3].any(axis=0)
    exact, truth, found = exact_below(solved.stds["torque"]), solved.truth.get("torque"), []
    for k, name in enumerate(entry_names(robot)["torque"]):
        std = solved.stds["torque"][:, k]
        if np.nanmax(std, initial=0.0) > exact or np.isnan(std).all():
            label = ("torque", name, "N m" if turns[k] else "N")
            known = None if truth is None else truth[:, k]
            found.append(_series(label, solved, "torque", k, known))
    return found


def _wrenches(robot: KinematicTree, solved: SolvedLog) -> list[Series]:
    """Components of external wrenches that are determined, but not stated exactly."""
    found, stds = [], solved.stds["external_wrench"]
    for i, body in enumerate(robot.body_names):
        truth = solved.truth.get(body)
        for k, axis in enumerate(WRENCH):
            if np.nanmax(stds[:, i, k], initial=0.0) > exact_below(stds):
                label = ("external wrench", f"{body} {axis}", "N m" if axis[0] == "t" else "N")
                known = None if truth is None else truth[:, k]
                found.append(_series(label, solved, "external_wrench", 6 * i + k, known))
    return found


def _series(
    label: tuple[str, str, str], solved: SolvedLog, kind: str, k: int, truth: Array | None
) -> Series:
    """Number k of a quantity: what is drawn of it, and its agreement with the truth."""
    shown, drawn = solved.extremes[kind].series(k)
    nearest = np.abs(np.searchsorted(solved.at, shown)).clip(0, len(solved.at) - 1)
    value, std = (
        x[kind].reshape(len(solved.at), -1)[:, k] for x in (solved.values, solved.stds)
    )
    found = Series(*label, solved.time[shown], drawn, std[nearest], None)
    if truth is None:
        return found
    error = np.abs(value - truth[solved.at])
    known = np.isfinite(error)
    rmse = float(np.sqrt(np.mean(error[known] ** 2))) if known.any() else None
    inside = float(np.mean(error[known] <= BAND * std[known])) if known.any() else None
    return replace(found, truth=truth[shown], rmse=rmse, inside=inside)


FIRST = 9
"""Series that are shown without asking."""


def estimates_section(log: LogPart) -> str:
    """Estimates along the log."""
    has_truth = any(s.truth is not None for s in (*log.torques, *log.wrenches))
    line = '<svg class="mark wide" viewBox="0 0 26 14" aria-hidden="true">{}</svg>'
    marks = [
        (line.format('<path class="estimate" d="M0 7H26"/>'), "estimate"),
        (line.format('<path class="band" d="M0 1H26V13H0z"/>'), "± 2 standard deviations"),
    ]
    if has_truth:
        marks.append((line.format('<path class="truth" d="M0 7H26"/>'), "truth"))
        marks.append((line.format('<path class="error" d="M0 7H26"/>'), "estimate minus truth"))
    first, rest = _chosen(log)
    caption = (
        "Torques and components of external wrenches that move most, body coordinates; below"
        " each, where the truth is known, the error within ± 2 standard deviations."
        " Samples far less certain than the others are cut off."
        f" Of all {count(log.solved)} samples the least and the largest within every"
        " pixel are drawn."
    )
    parts = [_log_words(log), legend(marks), figure(_grid(first), caption)]
    for title, some in rest:
        if some:
            parts.append(
                f"<details><summary>{title} ({len(some)})</summary>{_grid(some)}</details>"
            )
    return "".join(parts)


def _chosen(log: LogPart) -> tuple[list[Series], list[tuple[str, list[Series]]]]:
    """Series that move most, and all the others by kind."""
    n_wrenches = min(3, len(log.wrenches))
    torques = sorted(log.torques, key=lambda s: -s.reach)[: FIRST - n_wrenches]
    wrenches = sorted(log.wrenches, key=lambda s: -s.reach)[:n_wrenches]
    rest = [
        ("The other torques", [s for s in log.torques if s not in torques]),
        ("The other external wrenches", [s for s in log.wrenches if s not in wrenches]),
    ]
    return [*torques, *wrenches], rest


def _log_words(log: LogPart) -> str:
    words = [
        f"Log {text(log.log)}: {count(log.samples)} samples over {number(log.duration)} s,"
        f" {count(log.solved)} of them estimated."
    ]
    said = text(log.judgement.words)
    words.append(f"{said[:1].upper()}{said[1:]}.")
    if log.chi_square is not None and log.degrees_of_freedom:
        words.append(
            f"Chi-square is {number(log.chi_square)} on average where"
            f" {number(log.degrees_of_freedom)} is expected."
        )
    if log.peaks:
        peaks = ", ".join(f"{number(f)} N on {text(b)} at {t:.4g} s" for b, f, t in log.peaks)
        words.append(f"Largest external forces: {peaks}.")
    torques = [s for s in log.torques if s.inside is not None]
    if torques:
        inside = sum(s.inside or 0.0 for s in torques) / len(torques)
        words.append(
            f"Of the true torques {100 * inside:.1f}% lie within ± 2 standard deviations of"
            " their estimate (95.4% expected of Gaussian noise)."
        )
    if log.made:
        words.append(f"{count(len(log.made))} velocities or accelerations were differentiated.")
    if log.without_data:
        words.append(f"Without data: {text(', '.join(log.without_data))}.")
    lines = [text(f"{line[:1].upper()}{line[1:]}") for line in log.judgement.doubts]
    lines += [f"The readings disagree, {text(str(event))}" for event in log.judgement.events]
    listed = "".join(f"<li>{line}</li>" for line in lines)
    return f"<p>{' '.join(words)}</p>" + (f"<ul>{listed}</ul>" if lines else "")


# ---- pictures of series ------------------------------------------------------------------


WIDTH, HEIGHT, STRIP, LEFT, TOP, BOTTOM, RIGHT = 300.0, 150.0, 58.0, 44.0, 8.0, 22.0, 8.0
FAR = 8.0
"""Samples this many times less certain than usual are drawn cut off."""


def _grid(chosen: Sequence[Series]) -> str:
    """Pictures of some series side by side."""
    return f'<div class="grid">{"".join(map(_picture, chosen))}</div>'


def _picture(one: Series) -> str:
    time, sure = one.time, _sure(one.std)
    band = [(one.value + side * BAND * one.std)[sure] for side in (-1, 1)]
    low, high = _range([*band, one.truth])
    frame = _Frame(time, TOP, HEIGHT - BOTTOM, low, high)
    parts = [frame.axes(4, times=one.truth is None)]
    parts += frame.band(one.value - BAND * one.std, one.value + BAND * one.std)
    parts += frame.line(one.value, "estimate")
    agreement, height = "", HEIGHT
    if one.truth is not None:
        parts += frame.line(one.truth, "truth")
        parts += _error(time, one.value - one.truth, one.std, sure)
        height += STRIP
        if one.rmse is not None and one.inside is not None:
            rms = number(one.rmse, 2, one.unit)
            agreement = f"error {rms} rms, {100 * one.inside:.0f}% within the band"
    label = f"{one.quantity} {one.name} over time, {one.unit}. {agreement}"
    data = plain({"t": time, "v": one.value, "s": one.std, "x": one.truth, "u": one.unit}, 4)
    return (
        f'<div class="series"><h4>{text(one.name)} <span class="unit">[{text(one.unit)}]</span>'
        f'</h4><svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img"'
        f' aria-label="{text(label)}">'
        f'{"".join(parts)}<path class="cross" d=""/></svg>'
        f'<p class="readout">{text(agreement)}</p>'
        f"{script_data(data)}</div>"
    )


def _sure(std: Array) -> BoolArray:
    """Samples that decide the scale: those whose deviation is not far beyond the usual."""
    known = std[np.isfinite(std)]
    return np.asarray(std <= FAR * np.median(known)) if len(known) else np.isfinite(std)


def _error(time: Array, error: Array, std: Array, sure: BoolArray) -> list[str]:
    """Strip below: estimate minus truth within its band."""
    low, high = _range([error[sure], BAND * std[sure], -BAND * std[sure]])
    frame = _Frame(time, HEIGHT - BOTTOM + 10.0, HEIGHT + STRIP - BOTTOM, low, high)
    return [
        frame.axes(0, times=True),
        *frame.band(-BAND * std, BAND * std),
        *frame.line(error, "error"),
    ]


@final
@dataclass(frozen=True, eq=False)
class _Frame:
    """Part of a picture with axes: heights ``top`` and ``bottom``, values ``low``, ``high``."""

    time: Array
    top: float
    bottom: float
    low: float
    high: float

    @property
    def x(self) -> Array:
        """Where the samples are."""
        span = max(float(np.ptp(self.time)), 1e-9)
        return np.asarray(LEFT + (WIDTH - LEFT - RIGHT) * (self.time - self.time[0]) / span)

    def y(self, values: Array) -> Array:
        """Where values are; those beyond the scale at its edge."""
        share = np.clip((self.high - values) / (self.high - self.low), 0.0, 1.0)
        return np.asarray(self.top + (self.bottom - self.top) * share)

    def line(self, values: Array, kind: str) -> list[str]:
        """Paths of the stretches without gaps."""
        x, y = self.x, self.y(values)
        return [f'<path class="{kind}" d="{_points(x[p], y[p])}"/>' for p in _pieces(values)]

    def band(self, lower: Array, upper: Array) -> list[str]:
        """Outlines between two lines."""
        x, below, above = self.x, self.y(lower), self.y(upper)
        return [
            f'<path class="band" d="{_points(x[p], above[p])}L'
            f'{_points(x[p][::-1], below[p][::-1])[1:]}z"/>'
            for p in _pieces(lower + upper)
        ]

    def axes(self, wanted: int, *, times: bool) -> str:
        """Lines and numbers, about ``wanted`` or zero and one on either side of it; times."""
        right, parts = WIDTH - RIGHT, []
        for value in ticks(self.low, self.high, wanted) if wanted else around_zero(self.high):
            y = float(self.y(np.array(value)))
            parts.append(
                f'<path class="gridline" d="M{LEFT} {y:.1f}H{right}"/>'
                f'<text class="tick end" x="{LEFT - 5}" y="{y + 3.5:.1f}">{value:g}</text>'
            )
        parts.append(f'<path class="axis" d="M{LEFT} {self.top}V{self.bottom}H{right}"/>')
        first, last = float(self.time[0]), float(self.time[-1])
        for value in ticks(first, last, 4) if times else ():
            x = LEFT + (right - LEFT) * (value - first) / max(last - first, 1e-9)
            at = f'x="{x:.1f}" y="{self.bottom + 14:.1f}"'
            parts.append(f'<text class="tick mid" {at}>{value:g} s</text>')
        return "".join(parts)


def _range(values: Sequence[Array | None]) -> tuple[float, float]:
    """Range of all finite values, with some room."""
    everything = np.concatenate([v for v in values if v is not None])
    everything = everything[np.isfinite(everything)]
    if not len(everything):
        return -1.0, 1.0
    low, high = float(everything.min()), float(everything.max())
    room = 0.06 * (high - low) or 1.0
    return low - room, high + room


def _pieces(values: Array) -> list[slice]:
    """Stretches without gaps."""
    known = np.r_[False, np.isfinite(values), False]
    edges = np.flatnonzero(np.diff(known.astype(int)))
    return [slice(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _points(x: Array, y: Array) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in pairs)


def around_zero(reach: float) -> list[float]:
    """Zero and a round value on either side within a reach.

    Examples
    --------
    >>> around_zero(0.46)
    [-0.2, 0.0, 0.2]
    """
    step = 10.0 ** float(np.floor(np.log10(max(reach, 1e-300))))
    round_value = max(k * step for k in (1, 2, 5) if k * step <= reach or k == 1)
    return [float(f"{value:.12g}") for value in (-round_value, 0.0, round_value)]


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round values within a range.

    Examples
    --------
    >>> ticks(-1.2, 9.0, 4)
    [0.0, 5.0]
    """
    if not high > low:
        return [low]
    step = 10.0 ** np.floor(np.log10((high - low) / wanted))
    step *= next((k for k in (1, 2, 5) if (high - low) / (step * k) <= wanted), 10)
    first = int(np.ceil(low / step - 1e-9))
    last = int(np.floor(high / step + 1e-9))
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


# ---- uncertainty -------------------------------------------------------------------------


POSTURES = 12


@final
@dataclass(frozen=True)
class WrenchDeviation:
    """Median deviations of an external wrench's six components, N m and N."""

    body: str
    components: dict[str, float | None]


@final
@dataclass(frozen=True)
class UncertaintyPart:
    """Deviations, and over which postures they were taken, in words."""

    over: str
    joints: list[JointDeviation]
    wrenches: list[WrenchDeviation]


def uncertainty_part(estimation: Estimation, solved: SolvedLog | None) -> UncertaintyPart:
    """Deviations along a solved log, or else at random postures at rest.

    They depend on the posture and the sensors, not on what the sensors read.
    """
    if solved is not None:
        stds, over = solved.stds, f"{len(solved.at)} samples of the log"
    else:
        where = "where loops are closed" if estimation.layout.loops else "within the limits"
        stds, over = _sampled(estimation), f"{POSTURES} random postures {where}"
    return UncertaintyPart(
        over,
        _joint_deviations(estimation, stds["torque"]),
        _wrench_deviations(estimation, stds["external_wrench"]),
    )


def _sampled(estimation: Estimation) -> dict[str, Array]:
    robot, layout = estimation.robot, estimation.layout
    q = np.array(layout.configurations(POSTURES, 0))
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    rest = np.zeros((POSTURES, robot.nv))
    return _estimates(estimation, q, rest, np.tile(y, (POSTURES, 1)))[1]


def _joint_deviations(estimation: Estimation, std: Array) -> list[JointDeviation]:
    robot, found = estimation.robot, []
    for i in own_joints(robot):
        if not robot.joints[i].nv:
            continue
        columns = std[:, robot.v_slices()[i]]
        unit = "N m" if np.any(robot.joints[i].S[:3]) else "N"
        largest = columns.max(axis=1)
        missing = float(np.isnan(largest).mean())
        name = robot.joint_names[i]
        if missing > 0.5:
            found.append(JointDeviation(name, i, unit, None, None, None, missing))
            continue
        largest = np.where(largest > exact_below(std), largest, 0.0 * largest)
        low, median, high = np.nanpercentile(largest, [10, 50, 90]).tolist()
        found.append(JointDeviation(name, i, unit, median, low, high, missing))
    return found


def _wrench_deviations(estimation: Estimation, std: Array) -> list[WrenchDeviation]:
    """Bodies whose external wrench is not stated exactly."""
    found = []
    for i, body in enumerate(estimation.robot.body_names):
        columns = std[:, i]
        known = np.isfinite(columns)
        if known.any() and columns[known].max() <= exact_below(std):
            continue
        medians = [
            None if np.isnan(c).mean() > 0.5 else float(np.nanmedian(c)) for c in columns.T
        ]
        found.append(WrenchDeviation(body, dict(zip(WRENCH, medians, strict=True))))
    return found


def uncertainty_section(robot: RobotPart, u: UncertaintyPart) -> str:
    """Deviations as bars on the tree and discs on the skeleton."""
    parts = [
        f"<p>Standard deviations of the joint torques over {text(u.over)}. They follow from the"
        " posture and the noise of the sensors alone, not from what the sensors read.</p>",
        figure(
            tree(robot, u.joints, "standard deviation of each joint's torque"),
            "Bars: median; whiskers: 10% to 90% of the postures. Open: not determined.", "tall",
        ),
        figure(
            skeletons(robot, u.joints), "The same on the robot: the area of a disc grows with"
            " the deviation. A cross: not determined.",
        ),
    ]  # fmt: skip
    if u.wrenches:
        axes = list(u.wrenches[0].components)
        columns = ("body", *(f"{a} [{'N m' if a[0] == 't' else 'N'}]" for a in axes))
        rows = [
            (
                text(w.body),
                *(
                    "not determined" if x is None else number(x, 2)
                    for x in w.components.values()
                ),
            )
            for w in u.wrenches
        ]
        caption = "External wrenches that may act: median standard deviation, body coordinates."
        parts.append(table(columns, rows, caption=caption))
    return "".join(parts)
