"""Samples that are correlated in time: what N of them are worth, and what that makes of a fit.

N samples count as N / T independent ones for their mean. T, in samples, is told in two ways:

    integrated      T = 1 + 2 sum over k of rho_k, up to where the correlation first vanishes
    autoregression  r_t = a_1 r_(t-1) + ... + a_k r_(t-k) + e_t,   T = s(0) / variance,
                    s(f) = var e / |1 - sum a_j e^(-2 pi i f j)|^2

The first supposes nothing and is the better one for values that are held or averaged (of 2000
samples held five times each, 7 % scatter beside 36 %); the second is a model, the better one
for what decays smoothly (AR(1) with 0.9: 10 % beside 22 %), and gives the whole spectrum, which
fits need.

Residuals of a robot are smooth: friction and flexibility that no parameter describes last for a
second, a hundred samples. Counted as independent they would make every deviation ten times too
small. Least squares  H x = sum w A_t b_t  then has the covariance

    H^-1 (sum over t, t'  w^2 A_t c(t - t') A_t'^T) H^-1,

c the autocovariance of the model; the sum is one product in the frequency domain. Order by the
Bayesian criterion, coefficients by Levinson's recursion (Durbin 1960).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from dynsys.types import Array

__all__ = ["LEAST_SAMPLES", "Autoregression", "autocovariance", "integrated_correlation"]

VANISHED = 0.05
"""Autocorrelation below this is scatter."""
LARGEST_ORDER = 40
SPECTRUM = 4096
"""Frequencies at which a model's own correlation is computed."""
LEAST_SAMPLES = 25
"""Samples for each coefficient that may be fitted."""


def autocovariance(columns: Array, lags: int = LARGEST_ORDER) -> Array:
    """Sum over t and columns of  x_t x_(t+k)  (lags + 1,) for columns x (N, p)."""
    size = next_fast_len(len(columns) + lags + 1, real=True)
    power = (np.abs(rfft(columns, size, axis=0)) ** 2).sum(axis=1)
    return np.asarray(irfft(power, size)[: lags + 1])


def integrated_correlation(x: Array) -> float:
    """T = 1 + 2 sum over k of rho_k, samples; rho of x (N,), up to where it first vanishes.

    Independent samples have T = 1. The variance of their mean is T / N times their own.

    >>> import numpy as np
    >>> white = np.random.default_rng(0).normal(size=10_000)
    >>> held = np.repeat(white, 5)      # each one five times
    >>> round(integrated_correlation(white)), round(integrated_correlation(held))
    (1, 5)
    """
    centred = x - x.mean()
    if len(x) < 2 or not centred.any():
        return 1.0
    correlation = autocovariance(centred[:, None], len(x) - 1)
    below = np.flatnonzero(correlation < VANISHED * correlation[0])
    last = int(below[0]) if len(below) else len(x)
    return float(1.0 + 2.0 * correlation[1:last].sum() / correlation[0])


@final
@dataclass(frozen=True, eq=False)
class Autoregression:
    """Model of one series: ``variance`` of it, ``coefficients`` (order,), ``innovation``.

    Examples
    --------
    >>> noise, series = np.random.default_rng(0).normal(size=4000), np.zeros(4000)
    >>> for t in range(1, 4000):
    ...     series[t] = 0.9 * series[t - 1] + noise[t]
    >>> model = Autoregression.of(series)
    >>> bool(abs(model.coefficients[0] - 0.9) < 0.05), bool(12 < model.correlation_time < 28)
    (True, True)
    """

    variance: float
    coefficients: Array
    innovation: float

    @staticmethod
    def of(series: Array, more: Array | float = 0.0) -> Autoregression:
        """Model of a series (N,) of mean zero; NaN, a missing value, is left out.

        Lags are counted in values that are there: so ask :meth:`scores` of their rows alone.
        ``more`` (LARGEST_ORDER + 1,) is added to its autocovariance.
        """
        there = series[np.isfinite(series)]
        count = len(there)
        found = autocovariance(there[:, None]) / max(count, 1)
        most = min(LARGEST_ORDER, count // LEAST_SAMPLES)
        covariance = (found + more)[: most + 1]
        best = coefficients = np.zeros(0)
        innovation = variance = float(covariance[0])
        if variance <= 0:
            return Autoregression(0.0, best, 0.0)
        least, lowest = innovation, count * np.log(innovation)
        for order in range(1, most + 1):
            ahead = (
                covariance[order] - coefficients @ covariance[order - 1 : 0 : -1][: order - 1]
            )
            reflection = ahead / innovation
            if not abs(reflection) < 1:
                break
            coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
            innovation *= 1 - reflection**2
            criterion = count * np.log(innovation) + order * np.log(count)
            if criterion < lowest:
                best, least, lowest = coefficients, innovation, criterion
        return Autoregression(variance, best, float(least))

    def spectrum(self, size: int) -> Array:
        """Power s(f) at the ``size // 2 + 1`` frequencies of a real transform of that size."""
        response = rfft(np.concatenate([[1.0], -self.coefficients]), size)
        return np.asarray(self.innovation / np.abs(response) ** 2)

    @property
    def correlation_time(self) -> float:
        """Samples that count as one for a constant: s(0) / variance; at least 1."""
        if self.variance <= 0:
            return 1.0
        gain = 1.0 - float(self.coefficients.sum())
        return max(1.0, self.innovation / gain**2 / self.variance)

    @property
    def variance_time(self) -> float:
        """Samples that count as one for a variance: sum of rho_k^2 over all lags, Gaussian."""
        if self.variance <= 0:
            return 1.0
        covariance = irfft(self.spectrum(SPECTRUM), SPECTRUM)
        return float((covariance**2).sum() / covariance[0] ** 2)

    def scores(self, A: Array) -> Array:
        """Sum over t, t' of  A_t c(t - t') A_t'^T  (p, p) for rows A (N, p)."""
        if not len(self.coefficients):
            return np.asarray(self.innovation * (A.T @ A))
        size = next_fast_len(max(2 * len(A), 1), real=True)
        transformed = rfft(A, size, axis=0)
        weight = self.spectrum(size) / size
        weight[1 : (size + 1) // 2] *= 2.0  # of both signs of the frequency
        transformed *= np.sqrt(weight)[:, None]
        X = np.concatenate([transformed.real, transformed.imag])
        return np.asarray(X.T @ X)
