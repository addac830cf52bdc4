"""How a sensor is mounted and how late it is, from a log: turn, offset, delay, with deviations.

    m(t) = E(phi) yhat(t - delay) + offset + noise

yhat is what the other sensors say the sensor reads (:mod:`.predict`), by rows of three that
turn together (accelerations, angular velocities, forces, moments). A closed solution (Kabsch)
on a grid of delays starts least squares, rows weighed by the covariance of their difference,

    cov(m - E yhat) = C + E P E^T,     C of the sensor, P of the predictions, mean over the log

and these the search for the root of

    sum over t of  J_0^T r_1 + J_1^T r_0,      r_k = m - E(phi) yhat_k(t - delay) - offset

yhat_0 and yhat_1 are splines through every second prediction, J_k the slopes of r_k, by rates
over OVER. The predictions are noisy, and noise has slopes as motion has: least squares take
them for what the sensor feels, prefer delays at which a spline is smooth, and are the surer the
less the robot moves. Noise of different samples does not agree with itself, so that in products
of both halves motion alone is left (instrumental variables). That there is motion is asked
of the sensor itself: slopes of its readings must agree with those of the predictions, by more
than noise of both would; else the log is refused. Residuals of a log are correlated in time, so
that N samples are worth N / T of them, T the integrated autocorrelation: deviations are those
of that many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from dynsys.errors import LayoutError, StateError
from dynsys.types import Array, ArrayLike
from problems.correlation import integrated_correlation
from problems.estimation.estimation import Estimation
from problems.estimation.predict import Predictor, measured_rows
from problems.inputs import ascending_times
from problems.measured.measured_system import Readings
from sensors.layout import Layout
from sensors.mounting import offset as placed
from sensors.mounting import rpy_of
from sensors.sensor import AbstractSensor

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

__all__ = ["Alignment", "align_sensor"]

TRIPLES = tuple(f"{v}x {v}y {v}z".split() for v in ("a", "w", "wd", "f", "t"))
"""Labels of rows that turn together."""
LONGEST_DELAY = 0.2
"""Delays that are searched, forwards and backwards, s."""
LEAST_SAMPLES = 50
ROUNDS, SETTLED = 20, 1e-3
"""Most steps from least squares to the root, and the step in deviations that ends them."""
FAR = 4.0
"""Slopes of readings and predictions must agree so many times better than noise would."""
OVER = 0.1
"""Time over which rates are taken, s: noise of single samples has little share in them."""
WEIGHED = 16
"""Samples at which the noise of the predictions is asked for."""
NO_NOISE = 1e-8
"""Part of the noise below which a combination of rows has none to weigh it by."""
UNSEEN = 1e-10
"""Information below this part, columns of unit length, is rounding."""


@final
@dataclass(frozen=True, eq=False)
class Alignment:
    """What a log says of one sensor.

    Attributes
    ----------
    sensor : the sensor as the layout has it.
    turn : rotation vector (3,), rad, of the true frame in the frame of the layout.
    offset : (rows,) to subtract from the readings.
    delay : s; readings are that much later than the motion.
    turn_std, offset_std, delay_std : their standard deviations; zero for what was held.
    rms_before, rms_after : (rows,) of reading minus prediction.
    aligned : the sensor with the mounting that was found.
    """

    sensor: AbstractSensor
    turn: Array
    turn_std: Array
    offset: Array
    offset_std: Array
    delay: float
    delay_std: float
    rms_before: Array
    rms_after: Array
    aligned: AbstractSensor

    def layout(self, layout: Layout) -> Layout:
        """The layout with the sensor as it was found to be mounted."""
        found = [self.aligned if s.name == self.sensor.name else s for s in layout]
        return layout.with_sensors(found)

    def __str__(self) -> str:
        angle, error = (
            float(np.rad2deg(np.linalg.norm(x))) for x in (self.turn, self.turn_std)
        )
        late, late_error = 1e3 * self.delay, 1e3 * self.delay_std
        parts = []  # what was held is not named
        if angle or error:
            parts.append(f"turned by {angle:.2f} +- {error:.2f} deg")
        if late or late_error:
            parts.append(f"late by {late:.1f} +- {late_error:.1f} ms")
        if self.offset.any() or self.offset_std.any():
            offsets = zip(self.offset, self.offset_std, strict=True)
            parts.append(f"offset {', '.join(f'{o:.3g} +- {s:.1g}' for o, s in offsets)}")
        return f"{self.sensor.name}: {', '.join(parts) or 'as the layout says'}"


def align_sensor(
    problem: Estimation,
    sensor: str,
    time: ArrayLike,
    q: ArrayLike,
    qd: ArrayLike,
    y: Readings,
    *,
    turn: bool = True,
    offset: bool = True,
    delay: bool = True,
) -> Alignment:
    """Mounting, offset and delay of one sensor against all the others.

    Parameters
    ----------
    problem : the estimation that the log was taken with.
    sensor : name of the sensor.
    time, q, qd, y : log (N,), (N, nq), (N, nv), readings as for ``solve_batch``.
    turn, offset, delay : False holds what the layout says.

    Raises
    ------
    LayoutError
        if the others do not determine its readings, or it has no rows that turn together.
    StateError
        if the log is too short, or the robot moves too little to tell what is asked for.
    """
    predictor = Predictor(problem, sensor)
    times = ascending_times(time)
    if len(times) < LEAST_SAMPLES:
        raise StateError(f"alignment needs {LEAST_SAMPLES} samples at least, got {len(times)}")
    expected = predictor.at(q, qd, y).value
    read = measured_rows(problem, sensor, y, len(times))
    place = problem.layout.slice(sensor)
    triples = _triples([label.rpartition(".")[2] for label in problem.layout.labels[place]])
    if turn and (not triples or not hasattr(predictor.target, "rpy")):
        raise LayoutError(
            f"{predictor.target} has no three axes that turn together; say turn=False"
        )
    some = np.linspace(0, len(times) - 1, WEIGHED).astype(np.intp)
    rows = problem.measured.pack(y, None, len(times))[some, : problem.layout.size]
    noise = (
        problem.measured.covariance[place, place].toarray(),
        predictor.covariance(np.asarray(q)[some], np.asarray(qd)[some], rows),
    )
    fit = _Fit(times, expected, read, noise, triples if turn else [], offset, delay)
    try:
        (phi, late, offsets), (phi_std, late_std, offsets_std), left = fit.solved()
    except StateError as error:
        raise StateError(f"{predictor.target}: {error}") from None
    aligned = predictor.target
    if turn:
        target: Any = aligned
        old = placed((0.0, 0.0, 0.0), target.rpy)
        E = Rotation.from_rotvec(-phi).as_matrix() @ np.asarray(old.E, dtype=np.float64)
        aligned = replace(target, rpy=rpy_of(E))
    return Alignment(
        sensor=predictor.target,
        turn=phi,
        turn_std=phi_std,
        offset=offsets,
        offset_std=offsets_std,
        delay=late,
        delay_std=late_std,
        rms_before=_rms(read - expected),
        rms_after=left,
        aligned=aligned,
    )


def _triples(labels: Sequence[str]) -> list[list[int]]:
    """Rows that are the three components of one vector."""
    whole = [axes for axes in TRIPLES if set(axes) <= set(labels)]
    return [[labels.index(axis) for axis in axes] for axes in whole]


def _rms(x: Array) -> Array:
    return np.asarray(np.sqrt(np.nanmean(x**2, axis=0)))


_Parts: TypeAlias = tuple[Array, float, Array]
"""Turn (3,), delay and offsets (rows,)."""


@final
class _Fit:
    """Least squares over (phi, delay, offsets), those that are open."""

    def __init__(
        self, time: Array, expected: Array, read: Array, noise: tuple[Array, Array],
        triples: list[list[int]], offset: bool, delay: bool,
    ) -> None:  # fmt: skip
        self._time, self._read, self._noise, self._triples = time, read, noise, triples
        self._weigh(np.zeros(3))
        known = np.isfinite(expected).all(axis=1)
        if known.sum() < LEAST_SAMPLES:
            raise StateError(
                f"alignment needs {LEAST_SAMPLES} samples at which the others tell what the"
                f" sensor reads, got {int(known.sum())}"
            )
        self._expected, *self._halves = (
            _spline(time[known][part], expected[known][part])
            for part in (slice(None), slice(0, None, 2), slice(1, None, 2))
        )
        self._n_offsets = read.shape[1] if offset else 0
        self._has_delay = delay
        # a delayed prediction must not be asked for beyond the log
        margin = LONGEST_DELAY if delay else 0.0
        inside = (time >= time[0] + margin) & (time <= time[-1] - margin)
        self._used = inside & known & np.isfinite(read).all(axis=1)
        if self._used.sum() < LEAST_SAMPLES:
            raise StateError(
                f"alignment needs {LEAST_SAMPLES} samples with all readings of the sensor, got"
                f" {int(self._used.sum())}"
            )
        self._own = _spline(time[self._used], read[self._used])

    def _weigh(self, phi: Array) -> None:
        """Deviations (rows,) and rows of unit noise (rows, rows) of what is compared."""
        own, predicted = self._noise
        E = self._turned(np.eye(len(own)), phi).T
        covariance = own + E @ predicted @ E.T
        std = np.sqrt(covariance.diagonal())
        self._std = np.where(std > 0, std, 1.0)
        values, axes = np.linalg.eigh(covariance / np.outer(self._std, self._std))
        values = np.where(values > NO_NOISE * max(values[-1], NO_NOISE), values, 1.0)
        self._unit = (axes / np.sqrt(values)).T / self._std

    def _parts(self, x: Array) -> _Parts:
        phi, delay, offset = np.zeros(3), 0.0, np.zeros(self._read.shape[1])
        at = 0
        if self._triples:
            phi, at = x[:3], 3
        if self._has_delay:
            delay, at = float(x[at]), at + 1
        if self._n_offsets:
            offset = x[at:]
        return phi, delay, offset

    def _residual(self, x: Array, spline: CubicSpline | None = None) -> Array:
        """(rows, samples) of unit noise, of all predictions or of a spline of some."""
        return np.ascontiguousarray(self._unit @ self._missed(x, spline).T)

    def _missed(self, x: Array, spline: CubicSpline | None = None) -> Array:
        """Reading minus prediction (samples, rows)."""
        phi, _, offset = self._parts(x)
        expected = self._turned((spline or self._expected)(self._at(x)), phi)
        return np.asarray(self._read[self._used] - expected - offset)

    def _at(self, x: Array) -> Array:
        """Times (samples,) at which the sensor felt what it reads."""
        late = self._time[self._used] - self._parts(x)[1]
        return np.asarray(np.clip(late, self._time[0], self._time[-1]))

    def _slopes(self, x: Array, expected: Array, rate: Array) -> Array:
        """Slopes (unknowns, rows, samples) of the residual, by what is expected, and its rate.

        Both (samples, rows), in the axes of the layout.
        """
        phi, h = self._parts(x)[0], 1e-5
        moved: list[Array] = []
        if self._triples:
            for step in h * np.eye(3):
                ends = (self._turned(expected, phi + end) for end in (step, -step))
                moved.append(np.subtract(*ends) / (-2 * h))
        if self._has_delay:
            moved.append(self._turned(rate, phi))
        each = np.eye(len(self._std))[: self._n_offsets]
        moved += [np.broadcast_to(-e, expected.shape) for e in each]
        return np.array([self._unit @ column.T for column in moved])

    def _flat(self, x: Array) -> Array:
        return self._residual(x).ravel()

    def _turned(self, expected: Array, phi: Array) -> Array:
        out = expected.copy()
        for rows in self._triples:
            out[:, rows] = Rotation.from_rotvec(-phi).apply(expected[:, rows])
        return out

    def _start(self) -> Array:
        """Kabsch at each delay of a grid; the one that leaves least."""
        period = float(np.median(np.diff(self._time)))
        delays = [0.0]
        if self._has_delay:
            count = int(np.ceil(LONGEST_DELAY / period))
            delays = [k * LONGEST_DELAY / count for k in range(-count, count + 1)]
        starts = []
        for delay in delays:
            expected = self._expected(self._time[self._used] - delay)
            read = self._read[self._used]
            mean = (expected.mean(axis=0), read.mean(axis=0)) if self._n_offsets else (0.0, 0.0)
            a, b = (expected - mean[0]) / self._std, (read - mean[1]) / self._std
            parts: list[Array] = []
            phi = np.zeros(3)
            if self._triples:
                pairs = [(a[:, rows], b[:, rows]) for rows in self._triples]
                turned, _ = Rotation.align_vectors(
                    np.vstack([y for _, y in pairs]), np.vstack([x for x, _ in pairs])
                )
                phi = -turned.as_rotvec()
                parts.append(phi)
            if self._has_delay:
                parts.append(np.array([delay]))
            if self._n_offsets:
                parts.append((read - self._turned(expected, phi)).mean(axis=0))
            starts.append(np.concatenate(parts) if parts else np.zeros(0))
        return min(starts, key=lambda x: float((self._residual(x) ** 2).sum()))

    def solved(self) -> tuple[_Parts, _Parts, Array]:
        """What is found, its deviations, and the rms (rows,) that is left."""
        x = self._start()
        std: Array = np.zeros(len(x))
        if len(x):
            self._weigh(self._parts(x)[0])
            x = np.asarray(least_squares(self._flat, x, x_scale="jac").x)
            self._check_told(x)
            for _ in range(ROUNDS):
                step, std = self._step(x)
                x = x + step
                if (np.abs(step) <= SETTLED * std).all():
                    break
        return self._parts(x), self._parts(std), _rms(self._missed(x))

    def _step(self, x: Array) -> tuple[Array, Array]:
        """Step to the root of the module, and deviations of what is found there."""
        at = self._at(x)
        J, K = (self._slopes(x, spline(at), spline(at, 1)) for spline in self._halves)
        U, V = (self._slopes(x, spline(at), _rate(spline, at)) for spline in self._halves)
        r, s = (self._residual(x, spline) for spline in self._halves)
        information = np.einsum("irt,jrt->ij", U, K) + np.einsum("irt,jrt->ij", V, J)
        scores = (U * s + V * r).sum(axis=1)
        times = np.sqrt([integrated_correlation(score) for score in scores])
        scatter = scores @ scores.T * np.outer(times, times)
        inverse = np.linalg.inv(information)
        variance = (inverse @ scatter @ inverse.T).diagonal()
        return -inverse @ scores.sum(axis=1), np.sqrt(np.maximum(variance, 0.0))

    def _check_told(self, x: Array) -> None:
        """StateError names what noise could have told as well as the motion."""
        phi, _, offset = self._parts(x)
        at, now = self._at(x), self._time[self._used]
        own = self._own(now) - offset, _rate(self._own, now)
        J = self._slopes(x, self._expected(at), _rate(self._expected, at))
        K = self._slopes(x, *(self._turned(y, -phi) for y in own))
        size = np.sqrt((J**2 + K**2).sum(axis=(1, 2)))
        size = np.where(size > 0, size, 1.0)
        both = np.einsum("irt,jrt->ij", J, K) / np.outer(size, size)
        vectors = np.linalg.eigh(both + both.T)[1]
        first, second = (np.tensordot(vectors.T / size, slopes, 1) for slopes in (J, K))
        agreement = (first * second).sum(axis=1)
        worth = np.mean([integrated_correlation(row) for row in self._residual(x)])
        missed = (first * (second - first)).sum(axis=1)
        noise = np.sqrt(worth * (missed**2).sum(axis=1))
        untold = np.flatnonzero(agreement.sum(axis=1) <= np.maximum(FAR * noise, UNSEEN))
        if not len(untold):
            return
        turn, delay, offset = self._parts((vectors[:, untold] ** 2).sum(axis=1))
        shares = {"turn": turn.sum(), "delay": delay, "offset": offset.sum()}
        mixed = [name for name, share in shares.items() if share > 0.1]
        raise StateError(
            f"the robot moves too little in this log to tell its {' and '.join(mixed)}; give a"
            f" log of more motion, or say {' or '.join(f'{name}=False' for name in mixed)}"
        )


def _spline(time: Array, values: Array) -> CubicSpline:
    """Cubic spline (rows,) through samples; StateError where float64 does not hold it."""
    from scipy.interpolate import CubicSpline  # slow to import

    try:
        with np.errstate(all="ignore"):
            return CubicSpline(time, values)
    except ValueError:
        raise StateError("times or readings overflow float64; check their units") from None


def _rate(spline: CubicSpline, at: Array) -> Array:
    """Mean rate (samples, rows) of a spline over OVER about some times, within its own."""
    first, last = spline.x[[0, -1]]
    ends = (spline(np.clip(at + end, first, last)) for end in (OVER / 2, -OVER / 2))
    return np.asarray(np.subtract(*ends) / OVER)
