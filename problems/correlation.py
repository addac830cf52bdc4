"""How much N samples that are correlated in time are worth: N / T of them, T from here."""

from __future__ import annotations

import numpy as np

from dynsys.types import Array

__all__ = ["integrated_correlation"]

VANISHED = 0.05
"""Autocorrelation below this is scatter."""


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
    spectrum = np.fft.rfft(centred, 2 * len(x))
    correlation = np.fft.irfft(np.abs(spectrum) ** 2)[: len(x)]
    below = np.flatnonzero(correlation < VANISHED * correlation[0])
    last = int(below[0]) if len(below) else len(x)
    return float(1.0 + 2.0 * correlation[1:last].sum() / correlation[0])
