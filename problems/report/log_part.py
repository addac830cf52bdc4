"""Estimates along a log, of a report: torques and external wrenches with their bands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array, IntArray
from problems.estimation.estimation import Estimation
from problems.labels import WRENCH
from problems.logs.differentiate import Differentiation
from problems.logs.open import open_log
from problems.logs.samples import SampleReader, Samples
from problems.logs.source import AbstractLog, own_joints, source_of
from problems.report.subject import Subject
from problems.report.timing_part import UNCERTAIN

__all__ = ["LogPart", "Series", "SolvedLog", "exact_below", "log_part", "solve_log"]

MOST_SAMPLES, MOST_INCOMPLETE, MOST_POINTS, CHECKED = 4000, 200, 200, 64
BAND = 2.0
"""Half-width of a band in standard deviations."""
ROUNDING = 1e-6
"""Square root of a variance that is zero but for rounding, beside others of its kind."""


@final
@dataclass(frozen=True, eq=False)
class Series:
    """One number over time: estimate, standard deviation, and truth where the log has it.

    ``rmse`` and ``inside`` (part of the samples within the band) are over all samples solved,
    the arrays over those drawn.
    """

    quantity: str
    name: str
    unit: str
    value: Array
    std: Array
    truth: Array | None = None
    rmse: float | None = None
    inside: float | None = None

    @property
    def reach(self) -> float:
        """Range of nine tenths of the estimates."""
        known = self.value[np.isfinite(self.value)]
        return float(np.ptp(np.percentile(known, [5, 95]))) if len(known) else 0.0


@final
@dataclass(frozen=True, eq=False)
class LogPart:
    """A log solved: ``time`` (s) of the samples drawn, the series, how well readings agree."""

    log: str
    samples: int
    solved: int
    duration: float
    made: list[str]
    without_data: list[str]
    time: Array
    torques: list[Series]
    wrenches: list[Series]
    chi_square: float | None
    degrees_of_freedom: float | None
    suspicious: float | None


@final
@dataclass(frozen=True, eq=False)
class SolvedLog:
    """Samples of a log with torque (N, nv), wrench (N, n_bodies, 6), both deviations, truth."""

    reader: SampleReader
    samples: Samples
    values: dict[str, Array]
    stds: dict[str, Array]
    truth: dict[str, Array]


def solve_log(subject: Subject, path: str | Path, *, allow_missing: bool = True) -> SolvedLog:
    """Estimate samples of a log, evenly chosen where there are too many.

    Raises
    ------
    LogError
        if the log cannot be read or has no sample with a position.
    """
    estimation = subject.estimation
    assert estimation is not None
    file = subject.file
    method = Differentiation() if file is None else file.differentiation
    with open_log(path, topics={} if file is None else file.topics) as log:
        reader = SampleReader(estimation.layout, log, method, allow_missing)
        samples, at = _choose(reader, log)
        values, stds = _estimates(estimation, samples)
        truth = _truth(estimation, log, at)
    return SolvedLog(reader, samples, values, stds, truth)


def _choose(reader: SampleReader, log: AbstractLog) -> tuple[Samples, IntArray]:
    """Usable samples, at most so many, and their numbers."""
    every = reader.read(0, log.n_samples)
    usable = np.isfinite(every.q).all(axis=1) & np.isfinite(every.qd).all(axis=1)
    at = np.flatnonzero(usable)
    if not len(at):
        raise LogError(f"{log.path}: no sample has all positions and velocities")
    complete = not np.isnan(every.y[at]).any()
    most = MOST_SAMPLES if complete else MOST_INCOMPLETE
    if len(at) > most:
        at = at[np.linspace(0, len(at) - 1, most).round().astype(np.intp)]
    chosen = Samples(every.time[at], every.q[at], every.qd[at], every.y[at])
    return chosen, at


def _estimates(
    estimation: Estimation, samples: Samples
) -> tuple[dict[str, Array], dict[str, Array]]:
    e = estimation.solve_batch(samples.q, samples.qd, samples.y, uncertainty=UNCERTAIN)
    return (
        {"torque": e.torque.array, "external_wrench": e.external_wrench.array},
        {"torque": e.std.torque.array, "external_wrench": e.std.external_wrench.array},
    )


def _truth(estimation: Estimation, log: AbstractLog, at: IntArray) -> dict[str, Array]:
    """True torques and wrenches by name, where the log has them."""
    robot, found = estimation.robot, {}
    names = [f"truth.torque.{name}" for name in _freedoms(estimation)]
    source = source_of(log.widths, "truth.torque", names)
    if source is not None:
        content = log.read(source.names, 0, log.n_samples)
        found["torque"] = np.hstack([content[n] for n in source.names])[at]
    for body in robot.body_names:
        whole = f"truth.external_wrench.{body}"
        source = source_of(log.widths, whole, [f"{whole}.{axis}" for axis in WRENCH])
        if source is not None:
            content = log.read(source.names, 0, log.n_samples)
            found[body] = np.hstack([content[n] for n in source.names])[at]
    return found


def _freedoms(estimation: Estimation) -> list[str]:
    """Name of each number of a torque (nv,)."""
    robot, names = estimation.robot, []
    for i in own_joints(robot):
        size = robot.joints[i].nv
        joint = robot.joint_names[i]
        names += [joint] if size == 1 else [f"{joint}[{k}]" for k in range(size)]
    return names


def exact_below(std: Array) -> float:
    """Deviation below which a quantity is exact up to rounding, beside all of its kind."""
    return ROUNDING * float(np.nanmax(std, initial=0.0))


# ---- what is shown -------------------------------------------------------------------


def log_part(subject: Subject, solved: SolvedLog) -> LogPart:
    """Series of a solved log, thinned to what can be seen."""
    estimation = subject.estimation
    assert estimation is not None
    samples, reader = solved.samples, solved.reader
    n = len(samples.time)
    shown = np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(np.intp)
    checked = np.linspace(0, n - 1, min(n, CHECKED)).round().astype(np.intp)
    e = estimation.solve_batch(samples.q[checked], samples.qd[checked], samples.y[checked])
    dof = np.asarray(e.degrees_of_freedom)
    agrees = bool((dof > 0).any())
    return LogPart(
        log=reader.log.path.name,
        samples=reader.log.n_samples,
        solved=n,
        duration=float(samples.time[-1] - samples.time[0]),
        made=list(reader.derived),
        without_data=list(reader.not_measured),
        time=samples.time[shown],
        torques=_torques(estimation, solved, shown),
        wrenches=_wrenches(estimation, solved, shown),
        chi_square=float(np.mean(e.chi_square)) if agrees else None,
        degrees_of_freedom=float(np.mean(dof)) if agrees else None,
        suspicious=float(np.mean(np.asarray(e.p_value) < 0.01)) if agrees else None,
    )


def _torques(estimation: Estimation, solved: SolvedLog, shown: IntArray) -> list[Series]:
    robot, series = estimation.robot, []
    names, truth = _freedoms(estimation), solved.truth.get("torque")
    units = {}
    for i in own_joints(robot):
        v, joint = robot.v_slices()[i], robot.joints[i]
        for k, column in enumerate(joint.S.T):
            units[v.start + k] = "N m" if np.any(column[:3]) else "N"
    exact = exact_below(solved.stds["torque"])
    for k, name in enumerate(names):
        value, std = solved.values["torque"][:, k], solved.stds["torque"][:, k]
        if np.isfinite(std).any() and not np.nanmax(std, initial=0.0) > exact:
            continue  # known exactly: a free base
        known = None if truth is None else truth[:, k]
        series.append(_series("torque", name, units[k], value, std, known, shown))
    return series


def _wrenches(estimation: Estimation, solved: SolvedLog, shown: IntArray) -> list[Series]:
    series, exact = [], exact_below(solved.stds["external_wrench"])
    for i, body in enumerate(estimation.robot.body_names):
        truth = solved.truth.get(body)
        for k, axis in enumerate(WRENCH):
            value = solved.values["external_wrench"][:, i, k]
            std = solved.stds["external_wrench"][:, i, k]
            if not np.nanmax(std, initial=0.0) > exact:
                continue  # stated exactly, or not determined
            unit = "N m" if axis.startswith("t") else "N"
            known = None if truth is None else truth[:, k]
            name = f"{body} {axis}"
            series.append(_series("external wrench", name, unit, value, std, known, shown))
    return series


def _series(
    quantity: str, name: str, unit: str, value: Array, std: Array, truth: Array | None,
    shown: IntArray,
) -> Series:  # fmt: skip
    if truth is None:
        return Series(quantity, name, unit, value[shown], std[shown])
    error = np.abs(value - truth)
    known = np.isfinite(error)
    rmse = float(np.sqrt(np.mean(error[known] ** 2))) if known.any() else None
    inside = float(np.mean(error[known] <= BAND * std[known])) if known.any() else None
    return Series(
        quantity, name, unit, value[shown], std[shown], truth[shown], rmse, inside
    )  # fmt: skip
