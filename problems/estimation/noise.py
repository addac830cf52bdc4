"""Standard deviations of sensors from the residuals of a log (variance components).

    sigma_s^2  <-  sigma_s^2  (sum of squared residuals of s) / (redundancy of s)

over all samples, residuals in standard deviations. The redundancy, sum of 1 - h_kk with h the
projection on what the unknowns can explain, is what the numerator is on average if deviations
are right. At the fixed point every sensor's residuals are as large as they claim to be. It is
the iteration of Foerstner (1979); rows of a sensor that share a unit share a factor. Sensors
that nothing checks keep what they state.

Per sample the laws and exact statements are solved once, A u = b is left of the noisy readings;
the rounds only weigh its rows anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, final

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from dynsys.errors import StateError
from dynsys.recursive.inputs import state_rows
from dynsys.system.equations import Kinematics
from dynsys.system.response import read_blocks
from dynsys.types import Array, ArrayLike, IntArray
from problems.correlation import integrated_correlation
from problems.estimation.estimation import Estimation
from problems.inputs import ascending_times
from problems.measured.measured_system import Active, Readings
from sensors.layout import Layout

__all__ = ["NoiseEstimate", "SensorNoise", "estimate_noise"]

MOST_SAMPLES = 300
"""Samples, evenly chosen, on which deviations are found."""
CONTIGUOUS = 400
"""Samples in a row on which correlation in time is found."""
ROUNDS, SETTLED = 60, 1e-3
"""Most rounds, and the relative change of a deviation that ends them."""
CHECKED = 1e-3
"""Redundancy per sample and row below which nothing checks a sensor."""
LARGEST_STEP = 10.0
"""A deviation changes by this factor a round at most."""
UNSEEN = 1e-9
"""Singular values below this part of the largest, columns of unit length, are zero."""


@final
@dataclass(frozen=True)
class SensorNoise:
    """One sensor's rows of one unit.

    Attributes
    ----------
    sensor, unit, rows : its name, the unit, and the labels of the rows.
    stated, found : standard deviation, root mean square over the rows.
    found_std : how well it is known: that of independent samples, found / sqrt(2 redundancy).
    redundancy : part of each row that the other sensors check, 0 to 1; 0 leaves ``found`` as
        stated.
    correlation_time : s after which residuals forget themselves; NaN where no time was given.
    """

    sensor: str
    unit: str
    rows: tuple[str, ...]
    stated: float
    found: float
    found_std: float
    redundancy: float
    correlation_time: float

    @property
    def factor(self) -> float:
        """How many times larger than stated."""
        return self.found / self.stated


@final
@dataclass(frozen=True, eq=False)
class NoiseEstimate:
    """What a log says of the noise of each sensor, and the layout that says the same.

    Attributes
    ----------
    sensors : by sensor and unit, in the order of the layout.
    layout : the layout with the deviations that were found.
    chi_square : per degree of freedom, before and after, mean over the samples.
    """

    sensors: tuple[SensorNoise, ...]
    layout: Layout
    chi_square: tuple[float, float]


def estimate_noise(
    problem: Estimation,
    q: ArrayLike,
    qd: ArrayLike,
    y: Readings,
    time: ArrayLike | None = None,
    *,
    active: Active | None = None,
) -> NoiseEstimate:
    """Deviations of all noisy sensors from a log.

    Parameters
    ----------
    problem : the estimation; its deviations are where the search starts. Noise of different
        sensors is taken as independent while the search lasts.
    q, qd, y : log (N, nq), (N, nv), readings as for ``solve_batch``; NaN: missing.
    time : (N,) s, for the correlation in time.
    active : as for ``solve_batch``.

    Raises
    ------
    StateError
        if the log has no sample.
    """
    positions, speeds = state_rows(problem.robot, (("q", q), ("qd", qd)))
    if not len(positions):
        raise StateError("the log has no sample")
    readings = problem.measured.pack(y, active, len(positions))

    def samples(at: IntArray) -> list[_Samples]:
        each = [_left_over(problem, positions[k], speeds[k], readings[k]) for k in at]
        return _alike(each)

    groups = _groups(problem)
    at = np.unique(np.linspace(0, len(positions) - 1, MOST_SAMPLES).astype(np.intp))
    chosen, noise = samples(at), _own_noise(problem)
    factors, share, agreement = np.ones(len(groups)), np.zeros(len(groups)), []
    for _ in range(ROUNDS):
        sums = _sums(noise, groups, factors, chosen)
        agreement.append(sums.agreement)
        share = sums.redundancy / (len(at) * np.array([len(g.rows) for g in groups]))
        checked = share > CHECKED
        step = np.ones(len(groups))
        step[checked] = np.sqrt(sums.squares[checked] / sums.redundancy[checked])
        factors = factors * np.clip(step, 1 / LARGEST_STEP, LARGEST_STEP)
        if np.abs(step - 1.0).max(initial=0.0) < SETTLED:
            break
    memory = np.full(len(groups), np.nan)
    if time is not None and len(positions) > 3:
        start = max((len(positions) - CONTIGUOUS) // 2, 0)
        stretch = np.arange(start, min(start + CONTIGUOUS, len(positions)))
        period = float(np.median(np.diff(ascending_times(time, len(positions))[stretch])))
        memory = period * _correlations(noise, groups, factors, samples(stretch))
    labels, variance = np.array(problem.layout.labels), problem.measured.variance
    stated = [float(np.sqrt(variance[g.rows].mean())) for g in groups]
    found = tuple(
        SensorNoise(
            g.sensor,
            g.unit,
            tuple(labels[g.rows].tolist()),
            std,
            std * float(factor),
            std * float(factor) / np.sqrt(2.0 * total) if part > CHECKED else 0.0,
            float(part) if part > CHECKED else 0.0,
            float(t),
        )
        for g, std, factor, part, total, t in zip(
            groups, stated, factors, share, sums.redundancy, memory, strict=True
        )
    )
    scaled = _scaled(problem.layout, groups, factors)
    return NoiseEstimate(found, scaled, (agreement[0], agreement[-1]))


# ---- what laws and exact statements leave of a sample ----------------------------------------


class _Samples(NamedTuple):
    """A u = b of the noisy rows ``at`` that are present: (m,), (n, m, u), (n, m)."""

    at: IntArray
    A: Array
    b: Array


def _alike(samples: list[_Samples]) -> list[_Samples]:
    """Samples with the same rows and unknowns, put together in their order."""
    found: dict[tuple[bytes, int], list[_Samples]] = {}
    for one in samples:
        found.setdefault((one.at.tobytes(), one.A.shape[2]), []).append(one)
    return [
        _Samples(
            same[0].at,
            np.concatenate([one.A for one in same]),
            np.concatenate([one.b for one in same]),
        )
        for same in found.values()
    ]


def _left_over(problem: Estimation, q: Array, qd: Array, rows: Array) -> _Samples:
    """Solve the exact rows of B z = c for as many z as they fix."""
    measured = problem.measured
    kinematics = Kinematics.at(problem.robot, q, qd)
    B = read_blocks(measured.readings, kinematics, measured.response.at(kinematics))
    c = rows - B[:, -1]
    B, present = B[:, :-1], np.isfinite(rows)
    exact = present & (measured.variance == 0)
    at = np.flatnonzero(present & ~exact)
    scale = np.linalg.norm(B, axis=0)
    scale[scale == 0] = 1.0
    z, free = _solved(B[exact] / scale, c[exact])
    part = B[at] / scale
    return _Samples(at, (part @ free)[None], (c[at] - part @ z)[None])


def _solved(E: Array, c: Array) -> tuple[Array, Array]:
    """Least solution of E z = c, and a basis of what it leaves open."""
    if not len(E):
        return np.zeros(E.shape[1]), np.eye(E.shape[1])
    size = np.linalg.norm(E, axis=1)
    kept = size > UNSEEN
    U, s, Vt = np.linalg.svd(E[kept] / size[kept][:, None], full_matrices=True)
    rank = int((s > UNSEEN * max(s[0], 1e-300)).sum()) if len(s) else 0
    z = Vt[:rank].T @ ((U[:, :rank].T @ (c[kept] / size[kept])) / s[:rank])
    return z, Vt[rank:].T


# ---- rounds ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows of one sensor with one unit."""

    sensor: str
    unit: str
    rows: IntArray


def _groups(problem: Estimation) -> list[_Group]:
    """Noisy rows with data, by sensor and unit."""
    layout, variance = problem.layout, problem.measured.variance
    found = []
    for sensor in layout:
        rows = np.arange(layout.size)[layout.slice(sensor.name)]
        if sensor.constant(1) is not None or not (variance[rows] > 0).all():
            continue
        for unit, members in groupby(rows.tolist(), lambda k: layout.units[k]):
            found.append(_Group(sensor.name, unit, np.array(list(members))))
    return found


def _scale(size: int, groups: list[_Group], factors: Array) -> Array:
    scale = np.ones(size)
    for group, factor in zip(groups, factors, strict=True):
        scale[group.rows] = factor
    return scale


def _own_noise(problem: Estimation) -> Array:
    """Covariance of all readings, each sensor by itself."""
    more = problem.measured.variance[problem.layout.size :]
    return np.asarray(block_diag(*problem.layout.covariances, np.diag(more)))


def _whitened(noise: Array, scale: Array, samples: _Samples) -> tuple[Array, Array, IntArray]:
    """Projection (n, m) of each row on what unknowns explain, residual (n, m), rank (n,)."""
    C = (noise * np.outer(scale, scale))[np.ix_(samples.at, samples.at)]
    white = solve_triangular(np.linalg.cholesky(C), np.eye(len(C)), lower=True)
    A, b = white @ samples.A, samples.b @ white.T
    length = np.linalg.norm(A, axis=1, keepdims=True)
    U, s, _ = np.linalg.svd(A / np.where(length > 0, length, 1.0), full_matrices=False)
    seen = s > UNSEEN * s.max(axis=1, initial=1e-300, keepdims=True)
    U = U * seen[:, None, :]
    explained = np.einsum("nmk,nk->nm", U, np.einsum("nmk,nm->nk", U, b))
    return (U**2).sum(axis=2), b - explained, seen.sum(axis=1)


class _Sums(NamedTuple):
    squares: Array
    redundancy: Array
    agreement: float


def _sums(noise: Array, groups: list[_Group], factors: Array, samples: list[_Samples]) -> _Sums:
    """Squared residuals and redundancy of each group; chi-square per degree of freedom."""
    scale = _scale(len(noise), groups, factors)
    squares, redundancy = np.zeros((2, len(noise)))
    agreement: list[Array] = [np.zeros(0)]
    for some in samples:
        explained, residual, rank = _whitened(noise, scale, some)
        squares[some.at] += (residual**2).sum(axis=0)
        redundancy[some.at] += (1.0 - explained).sum(axis=0)
        freedom = len(some.at) - rank
        chi_square = (residual**2).sum(axis=1)
        agreement.append(chi_square[freedom > 0] / freedom[freedom > 0])
    every = np.concatenate(agreement)
    return _Sums(
        np.array([squares[g.rows].sum() for g in groups]),
        np.array([redundancy[g.rows].sum() for g in groups]),
        float(every.mean()) if len(every) else float("nan"),
    )


def _correlations(
    noise: Array, groups: list[_Group], factors: Array, samples: list[_Samples]
) -> Array:
    """Integrated correlation, in samples, of each group's residuals in a row."""
    scale = _scale(len(noise), groups, factors)
    found: Array = np.full(len(groups), np.nan)
    if not samples:
        return found
    most = max(samples, key=lambda some: len(some.b))  # rows missing now and then: left out
    residual = _whitened(noise, scale, most)[1]
    for k, group in enumerate(groups):
        rows = residual[:, np.isin(most.at, group.rows)].T
        times = [integrated_correlation(row) for row in rows if len(row) > 3]
        found[k] = np.mean(times) if times else np.nan
    return found


def _scaled(layout: Layout, groups: list[_Group], factors: Array) -> Layout:
    """The layout with every group's deviations times its factor."""
    scale = _scale(layout.size, groups, factors)
    sensors = []
    for sensor, own in zip(layout, layout.covariances, strict=True):
        s = scale[layout.slice(sensor.name)]
        if (s == 1.0).all():
            sensors.append(sensor)
        elif np.count_nonzero(own) == np.count_nonzero(np.diag(own)):
            std = _short(np.sqrt(np.diag(own)) * s)
            sensors.append(replace(sensor, std=std, covariance=None))
        else:
            covariance = tuple(map(tuple, (own * np.outer(s, s)).tolist()))
            sensors.append(replace(sensor, std=None, covariance=covariance))
    correlations = [
        (a, b, C * np.outer(scale[layout.slice(a)], scale[layout.slice(b)]))
        for a, b, C in layout.correlations
    ]
    return layout.with_sensors(sensors, correlations)


def _short(std: Array) -> float | tuple[float, ...]:
    """One number where all are the same, rounded to what deviations of deviations deserve."""
    rounded = tuple(float(f"{x:.4g}") for x in std.tolist())
    return rounded[0] if len(set(rounded)) == 1 else rounded
