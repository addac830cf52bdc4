"""Velocities and accelerations from sampled positions: what a method is, two classical ones.

Local polynomials (Savitzky and Golay) with the samples' true times, so that jitter does not
matter:

    x(t_i + s) ~ c_0 + c_1 s + ... + c_p s^p  over the samples within ``window`` seconds of t_i
    x' = c_1,  x'' = 2 c_2,  smoothed x = c_0

Zero phase (Butterworth): a low pass of ``cutoff`` Hz run forwards and backwards, so that
nothing is delayed; derivatives are differences of what it leaves. Windows are seconds and
cut-offs Hz: the same file means the same at every sampling rate. The third method, which finds
its own constants and says how far off it may be, is :mod:`problems.logs.smoother`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self, final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array, IntArray

__all__ = ["AbstractDifferentiation", "Butterworth", "Differentiation", "sampling_period"]

BLOCK = 1024
SETTLED = 12.0
"""Periods of the cut-off after which a zero-phase filter of order 4 has forgotten: 1e-12."""
LONGEST = 2.0
"""Longest window of a polynomial, s: whoever writes more means samples."""
GAP = 5.0
"""A pause of so many usual steps, if longer than the window, is not differentiated across."""
HALVED = 1.26
"""Window of cubic polynomials, in periods of what they halve; zero phase halves its cut-off."""
EVEN = 0.05
"""Largest jitter, in sampling periods, at which a filter in samples still means seconds."""


class AbstractDifferentiation(ABC):
    """How velocities and accelerations that a log does not hold are made of its positions.

    Attributes
    ----------
    method : the word of problem files for it.
    smooth : True also replaces what was logged by what the method makes of it.
    readings : True passes the readings of all sensors through the same filter.
    """

    method: ClassVar[str]
    smooth: bool
    readings: bool

    def tuned(self, time: Array, x: Array) -> Self:
        """The method with all constants that it takes from the samples x (N, c) themselves."""
        return self

    @abstractmethod
    def reach(self, period: float) -> int:
        """Samples on either side that a value depends on, ``period`` seconds apart."""

    @abstractmethod
    def fit(
        self, time: Array, x: Array, wanted: slice, at_start: bool, at_end: bool, period: float
    ) -> Array:
        """Value, first and second derivative (3, n, c) of x (N, c) at the samples ``wanted``.

        Parameters
        ----------
        time, x : a stretch of a log, with :meth:`reach` samples more than ``wanted`` on either
            side unless the log itself begins (``at_start``) or ends (``at_end``) there.
        period : median time between samples of the whole log, s.

        Raises
        ------
        LogError
            if the samples are too few, or not of the kind that the method needs.
        """


def sampling_period(time: Array) -> float:
    """Median time (s) between samples; LogError unless there are two."""
    if len(time) < 2:
        raise LogError(f"differentiation needs samples at two times, the log has {len(time)}")
    return float(np.median(np.diff(time)))


# ---- local polynomials -----------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Differentiation(AbstractDifferentiation):
    """Local polynomials by least squares (Savitzky and Golay), at the samples' true times.

    The window is centred on the sample; with ``causal`` it ends there (what a filter on the
    robot could compute; noisier, but without delay). At the ends of the log, and of a pause in
    it, the first or last whole window serves all of its samples; between pauses that leave no
    whole window nothing is made (NaN). A missing value (NaN) makes the windows that hold it
    missing.

    Parameters
    ----------
    window : length of a fit, seconds; at least two samples more than ``order`` are taken.
    order : degree of the polynomial.
    causal : True uses no sample after the one asked for.
    smooth, readings : see :class:`AbstractDifferentiation`.
    """

    method: ClassVar[str] = "polynomial"
    window: float = 0.1
    order: int = 3
    causal: bool = False
    smooth: bool = False
    readings: bool = False

    def __post_init__(self) -> None:
        if self.order < 2:
            raise LogError(f"differentiation: order {self.order} must be at least 2")
        if not 0 < self.window <= LONGEST:
            raise LogError(
                f"differentiation: window {self.window:g} is no length of a fit; it is in"
                f" seconds, above 0 and at most {LONGEST:g}"
            )

    def __str__(self) -> str:
        side = "the last" if self.causal else "the"
        around = "" if self.causal else " around each"
        return (
            f"local polynomials of degree {self.order} over {side} {self.window:g} s{around}"
            " (Savitzky-Golay, true times)"
        )

    def samples(self, period: float) -> int:
        """Samples of a fit: odd, unless causal."""
        count = max(round(self.window / period) + 1, self.order + 2)
        return count if self.causal else count + 1 - count % 2

    def pause(self, period: float) -> float:
        """Longest time between samples, s, across which a fit reaches."""
        return max(self.window, GAP * period)

    def reach(self, period: float) -> int:
        return self.samples(period)

    def fit(
        self, time: Array, x: Array, wanted: slice, at_start: bool, at_end: bool, period: float
    ) -> Array:
        w = self.samples(period)
        if at_start and at_end:  # a log shorter than the window is one window
            w = min(w, len(time))
        if w < self.order + 2 or len(time) < w:
            raise LogError(
                f"differentiation by polynomials of degree {self.order} needs"
                f" {self.order + 2} samples, the log has {len(time)}"
            )
        samples = np.arange(wanted.start, wanted.stop)
        cuts = np.flatnonzero(np.diff(time) > self.pause(period)) + 1
        run = np.searchsorted(cuts, samples, side="right")  # of samples without a pause
        low, high = np.append(0, cuts)[run], np.append(cuts, len(time))[run] - w
        starts = np.clip(samples - (w - 1 if self.causal else w // 2), low, high)
        out = np.full((3, len(samples), x.shape[1]), np.nan)
        whole = np.flatnonzero(low <= high)
        for k in range(0, len(whole), BLOCK):
            part = whole[k : k + BLOCK]
            out[:, part] = _polynomials(self.order, time, x, samples[part], starts[part], w)
        return out


def _polynomials(
    order: int, time: Array, x: Array, samples: IntArray, starts: IntArray, w: int
) -> Array:
    """Value and two derivatives (3, n, c): rows of the pseudo-inverse times the window."""
    members = starts[:, None] + np.arange(w)
    offset = time[members] - time[samples][:, None]
    scale = np.abs(offset).max(axis=1)
    V = (offset / scale[:, None])[:, :, None] ** np.arange(order + 1)
    Q, R = np.linalg.qr(V)
    wanted = np.broadcast_to(np.eye(order + 1)[:, :3], (len(samples), order + 1, 3))
    weights = Q @ np.linalg.solve(np.swapaxes(R, 1, 2), wanted)  # columns of V^+^T
    fitted = np.swapaxes(weights, 1, 2) @ x[members]
    factors = np.stack([np.ones_like(scale), 1.0 / scale, 2.0 / scale**2])
    return np.asarray(np.swapaxes(fitted, 0, 1) * factors[:, :, None])


# ---- zero phase ------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Butterworth(AbstractDifferentiation):
    """A low pass run forwards and backwards; derivatives are central differences, filtered too.

    Parameters
    ----------
    cutoff : frequency of half the power in each direction, Hz.
    order : order of the filter in each direction.
    readings : see :class:`AbstractDifferentiation`. Positions are always replaced.
    """

    method: ClassVar[str] = "butterworth"
    cutoff: float = 10.0
    order: int = 4
    readings: bool = False
    smooth: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not (0 < self.cutoff < np.inf and 1 <= self.order <= 10):
            raise LogError(
                f"differentiation: a low pass of {self.cutoff:g} Hz and order {self.order} is"
                " none; give a positive cutoff and an order from 1 to 10"
            )

    def __str__(self) -> str:
        return f"a zero-phase low pass of {self.cutoff:g} Hz (Butterworth, order {self.order})"

    def reach(self, period: float) -> int:
        return int(np.ceil(SETTLED * max(1.0, self.order / 4) / (self.cutoff * period))) + 3

    def fit(
        self, time: Array, x: Array, wanted: slice, at_start: bool, at_end: bool, period: float
    ) -> Array:
        steps, passed = np.diff(time), ", readings: true" if self.readings else ""
        if len(steps) and np.abs(steps - period).max() > EVEN * period:
            k = int(np.abs(steps - period).argmax())
            raise LogError(
                f"a zero-phase filter needs even samples: {period:.4g} s apart as a rule, but"
                f" {steps[k]:.4g} s after {time[k]:.6g} s; polynomials take true times, and"
                f" halve {self.cutoff:g} Hz alike: differentiate:"
                f" {{window: {min(HALVED / self.cutoff, LONGEST):.3g}, smooth: true{passed}}}"
            )
        if 2 * self.cutoff * period >= 1:
            raise LogError(
                f"differentiation: a cutoff of {self.cutoff:g} Hz is not below half the"
                f" sampling rate, {0.5 / period:.4g} Hz; lower it"
            )
        from scipy.signal import butter, sosfiltfilt  # slow to import

        low_pass = butter(self.order, self.cutoff, fs=1.0 / period, output="sos")
        if len(time) <= 3 * (2 * len(low_pass) + 1):
            raise LogError(
                f"a zero-phase filter of order {self.order} needs more than the {len(time)}"
                " samples of the log; use the method polynomial"
            )
        if np.isnan(x).any():
            k = int(np.argwhere(np.isnan(x))[0, 0])
            raise LogError(
                "a zero-phase filter needs every sample; a value is missing at"
                f" {time[k]:.6g} s; differentiate: {{method: smoother{passed}}} bridges gaps"
            )
        beyond = min(self.reach(period), len(time) - 1)  # what begins there has settled here
        value = sosfiltfilt(low_pass, x, axis=0, padlen=beyond)
        first = np.gradient(value, period, axis=0)
        slopes = np.gradient(first, period, axis=0)
        second = sosfiltfilt(low_pass, slopes, axis=0, padlen=beyond)
        return np.stack([value, first, second])[:, wanted]
