"""Motion from noisy encoders: a Kalman smoother with a stated model, its constants found.

    (x, x', x''):  d x'' = s dw,  white jerk of density s^2     reading = x + r n,  n ~ N(0, 1)

Every column of a log is such a process of its own. Forwards the filter, backwards the adjoint
recursion of Bryson and Frazier, without any inverse: the result is mean and standard deviation
of x, x' and x'' given *all* samples, at the samples' true times, across gaps (NaN) too. Where r
and s are not given they are those of maximum likelihood. In units of the sampling period h and
of r one number is left to search,

    rho = s^2 h^5 / r^2,        bandwidth about rho^(1/6) / (2 pi h) Hz

and r^2 follows in closed form as the mean of the squared innovations. Cost: about a microsecond
a sample and column, some thirty times that for the search.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from scipy.optimize import minimize_scalar

from dynsys.errors import LogError
from dynsys.jit import Loop
from dynsys.types import Array
from problems.logs.differentiate import AbstractDifferentiation, sampling_period

__all__ = ["SmoothedMotion", "Smoother", "smooth_motion"]

DIFFUSE = 1e5
"""Variance of the first state around its local fit, in units of r^2 and the sampling period."""
FORGOTTEN = 56.0
"""Bandwidths after which a sample has lost its influence: exp(-28) = 1e-12."""
SEARCHED = (-18.0, 6.0)
"""Decades of rho that are searched."""
LEAST = 8


@final
@dataclass(frozen=True)
class Smoother(AbstractDifferentiation):
    """White jerk seen through white noise; see the module.

    Parameters
    ----------
    position_std : r, standard deviation of a position reading, in its own unit; None: found.
    jerk : s, (unit of the position)/s^3 times sqrt(s); None: found. Both or none of them.
    readings : see :class:`AbstractDifferentiation`; each reading then has constants of its own.
    constants : (columns, 2) r and rho of each column of a log, as :meth:`tuned` finds them.
    """

    method: ClassVar[str] = "smoother"
    position_std: float | None = None
    jerk: float | None = None
    readings: bool = False
    constants: tuple[tuple[float, float], ...] = ()
    smooth: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        given = (self.position_std, self.jerk)
        if (given[0] is None) != (given[1] is None):
            raise LogError(
                "differentiation: a smoother takes position_std and jerk, or finds both;"
                " give the other one too"
            )
        if any(value is not None and not 0 < value < np.inf for value in given):
            raise LogError(
                f"differentiation: position_std and jerk must be positive, got {given[0]:g} and"
                f" {given[1]:g}"
            )

    def __str__(self) -> str:
        how = "noise levels by maximum likelihood"
        if self.position_std is not None:
            how = f"position_std {self.position_std:g}, jerk {self.jerk:g}"
        return f"a Kalman smoother of white jerk ({how})"

    def tuned(self, time: Array, x: Array) -> Smoother:
        h = sampling_period(time)
        if self.position_std is not None and self.jerk is not None:
            ratio = self.jerk**2 * h**5 / self.position_std**2
            found = [(self.position_std, ratio)] * x.shape[1]
        else:
            found = [_likeliest(time / h, x[:, k]) for k in range(x.shape[1])]
        return replace(self, constants=tuple(found))

    def reach(self, period: float) -> int:
        slowest = min((ratio for _, ratio in self.constants), default=1.0)
        return int(np.ceil(FORGOTTEN / slowest ** (1 / 6))) + LEAST

    def fit(
        self, time: Array, x: Array, wanted: slice, at_start: bool, at_end: bool, period: float
    ) -> Array:
        return self.smoothed(time, x, period)[0][:, wanted]

    def smoothed(self, time: Array, x: Array, period: float) -> tuple[Array, Array]:
        """Mean and standard deviation (3, N, c) of x (N, c), of its rate and of its rate's.

        NaN for a column with too few samples to say anything; deviations are NaN where a
        column never moves, which says nothing of its noise.
        """
        per_unit = np.array([1.0, 1.0 / period, 1.0 / period**2])
        mean, std = np.full((2, 3, *x.shape), np.nan)
        for k, (r, ratio) in enumerate(self.constants):
            if np.isfinite(x[:, k]).sum() < LEAST:
                continue
            run = _run(time / period, x[:, k], ratio)
            state, variance = _smooth(time / period, *run)
            mean[:, :, k] = state.T * per_unit[:, None]
            std[:, :, k] = r * np.sqrt(np.maximum(variance, 0.0)).T * per_unit[:, None]
        return mean, std


class SmoothedMotion(NamedTuple):
    """q, qd, qdd (N, c) and their standard deviations (N, c)."""

    q: Array
    qd: Array
    qdd: Array
    q_std: Array
    qd_std: Array
    qdd_std: Array


def smooth_motion(time: Array, q: Array, method: Smoother | None = None) -> SmoothedMotion:
    """Motion of joints of one freedom each from their positions q (N, c) at times (N,).

    >>> import numpy as np
    >>> t = np.arange(0, 2, 0.01)
    >>> noisy = np.sin(3 * t) + np.random.default_rng(0).normal(scale=1e-3, size=len(t))
    >>> m = smooth_motion(t, noisy[:, None])
    >>> bool(np.abs(m.qd[:, 0] - 3 * np.cos(3 * t)).max() < 5 * m.qd_std.max())
    True
    """
    tuned = (method or Smoother()).tuned(time, q)
    mean, std = tuned.smoothed(time, q, sampling_period(time))
    return SmoothedMotion(*mean, *std)


# ---- constants by maximum likelihood ---------------------------------------------------------


def _likeliest(time: Array, x: Array) -> tuple[float, float]:
    """r and rho of a column x (N,) at times in sampling periods."""
    seen = x[np.isfinite(x)]
    if len(seen) < LEAST or np.ptp(seen) == 0:
        return float("nan"), 1.0

    def badness(decades: float) -> float:
        """Twice the negative log-likelihood, r concentrated out; less a constant."""
        *_, sums = _run(time, x, 10.0**decades)
        log_variances, squares, count = sums
        return float(count * np.log(squares / count) + log_variances)

    grid = np.linspace(*SEARCHED, 13)
    start = int(np.argmin([badness(decades) for decades in grid]))
    low, high = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
    best = minimize_scalar(
        badness, bounds=(low, high), method="bounded", options={"xatol": 0.01}
    )
    ratio = 10.0 ** float(best.x)
    *_, (_, squares, count) = _run(time, x, ratio)
    return float(np.sqrt(squares / count)), ratio


# ---- filter and smoother ---------------------------------------------------------------------


def _run(time: Array, x: Array, ratio: float) -> tuple[Array, Array, Array, Array]:
    """Filtered means, covariances, updates of every sample, and the sums of the likelihood."""
    first = np.flatnonzero(np.isfinite(x))[:LEAST]
    # the first state: a parabola through the first readings
    local = np.polynomial.polynomial.polyfit(time[first] - time[0], x[first], 2)
    start = local * np.array([1.0, 1.0, 2.0])
    n = len(time)
    mean, covariance = np.empty((n, 3)), np.empty((n, 3, 3))
    updates, sums = np.zeros((n, 5)), np.zeros(3)
    _filter(time, x, ratio, start, mean, covariance, updates, sums)
    return mean, covariance, updates, sums


@Loop
def _filter(
    time: Array,
    x: Array,
    ratio: float,
    start: Array,
    mean: Array,
    covariance: Array,
    updates: Array,
    sums: Array,
) -> None:
    """Kalman filter in units of r: x, P after each sample; innovation, 1/S and gain of it.

    ``sums``: log S, innovation^2 / S and their number, without the first readings, which only
    tell where the motion starts.
    """
    m, P, F = start.copy(), np.zeros((3, 3)), np.zeros((3, 3))
    Q, A = np.zeros((3, 3)), np.zeros((3, 3))
    for i in range(3):
        P[i, i] = DIFFUSE
    seen = 0
    for k in range(len(time)):
        if k > 0:
            _step(time[k] - time[k - 1], ratio, F, Q)
            # m <- F m,  P <- F P F^T + Q
            a, b, c = m[0], m[1], m[2]
            m[0], m[1] = a + F[0, 1] * b + F[0, 2] * c, b + F[1, 2] * c
            _congruence(F, P, A)
            for i in range(3):
                for j in range(3):
                    P[i, j] = A[i, j] + Q[i, j]
        if not np.isnan(x[k]):
            S = P[0, 0] + 1.0
            v = x[k] - m[0]
            updates[k, 0], updates[k, 1] = v, 1.0 / S
            for i in range(3):
                updates[k, 2 + i] = P[i, 0] / S
            # Joseph's form: P <- (1 - K H) P (1 - K H)^T + K K^T
            for i in range(3):
                for j in range(3):
                    F[i, j] = (1.0 if i == j else 0.0) - (updates[k, 2 + i] if j == 0 else 0.0)
            _congruence(F, P, A)
            for i in range(3):
                m[i] += updates[k, 2 + i] * v
                for j in range(3):
                    P[i, j] = A[i, j] + updates[k, 2 + i] * updates[k, 2 + j]
            seen += 1
            if seen > 3:
                sums[0] += np.log(S)
                sums[1] += v * v / S
                sums[2] += 1.0
        for i in range(3):
            mean[k, i] = m[i]
            for j in range(3):
                covariance[k, i, j] = P[i, j]


@Loop
def _step(dt: float, ratio: float, F: Array, Q: Array) -> None:
    """F = exp of the chain over dt, Q = ratio times the covariance that white jerk adds."""
    for i in range(3):
        for j in range(3):
            F[i, j] = 1.0 if i == j else 0.0
    F[0, 1] = F[1, 2] = dt
    F[0, 2] = 0.5 * dt * dt
    d2, d3 = dt * dt, dt * dt * dt
    Q[0, 0], Q[1, 1], Q[2, 2] = ratio * d3 * d2 / 20.0, ratio * d3 / 3.0, ratio * dt
    Q[0, 1] = Q[1, 0] = ratio * d2 * d2 / 8.0
    Q[0, 2] = Q[2, 0] = ratio * d3 / 6.0
    Q[1, 2] = Q[2, 1] = ratio * d2 / 2.0


@Loop
def _congruence(F: Array, P: Array, out: Array) -> None:
    """out = F P F^T (3, 3)."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for k in range(3):
                for l in range(3):
                    total += F[i, k] * P[k, l] * F[j, l]
            out[i, j] = total


def _smooth(
    time: Array, mean: Array, covariance: Array, updates: Array, sums: Array
) -> tuple[Array, Array]:
    """Mean and variance (N, 3) given all samples, in units of r^2."""
    state, variance = np.empty_like(mean), np.empty_like(mean)
    _backward(time, mean, covariance, updates, state, variance)
    return state, variance


@Loop
def _backward(
    time: Array, mean: Array, covariance: Array, updates: Array, state: Array, variance: Array
) -> None:
    """Bryson and Frazier: with the adjoint (l, L) of all later samples

    x_smoothed = x - P l,    P_smoothed = P - P L P.
    """
    l, L, F = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))
    step, A = np.zeros((3, 3)), np.zeros((3, 3))
    for back in range(len(time)):
        k = len(time) - 1 - back
        P = covariance[k]
        for i in range(3):
            shift = 0.0
            loss = 0.0
            for j in range(3):
                shift += P[i, j] * l[j]
                for m in range(3):
                    loss += P[i, j] * L[j, m] * P[m, i]
            state[k, i] = mean[k, i] - shift
            variance[k, i] = P[i, i] - loss
        # over the sample: l <- C^T l - H^T v / S,  L <- C^T L C + H^T H / S,  C = 1 - K H
        if updates[k, 1] != 0.0:
            for i in range(3):
                for j in range(3):
                    F[j, i] = (1.0 if i == j else 0.0) - (updates[k, 2 + i] if j == 0 else 0.0)
            _congruence(F, L, A)
            l0 = l[0] - updates[k, 2] * l[0] - updates[k, 3] * l[1] - updates[k, 4] * l[2]
            l[0] = l0 - updates[k, 0] * updates[k, 1]
            for i in range(3):
                for j in range(3):
                    L[i, j] = A[i, j]
            L[0, 0] += updates[k, 1]
        # over the step before it: l <- F^T l,  L <- F^T L F
        if k > 0:
            _step(time[k] - time[k - 1], 0.0, step, A)
            for i in range(3):
                for j in range(3):
                    F[i, j] = step[j, i]
            _congruence(F, L, A)
            a, b, c = l[0], l[1], l[2]
            l[1], l[2] = b + F[1, 0] * a, c + F[2, 0] * a + F[2, 1] * b
            for i in range(3):
                for j in range(3):
                    L[i, j] = A[i, j]
