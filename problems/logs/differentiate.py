"""Velocities and accelerations from sampled positions: local polynomials by least squares.

    x(t_i + s) ~ c_0 + c_1 s + ... + c_p s^p  over the ``window`` samples around t_i
    x' = c_1,  x'' = 2 c_2,  smoothed x = c_0

The method of Savitzky and Golay with the samples' true times, so that jitter does not matter.
The window is centred on the sample; with ``causal`` it ends there (what a filter on the robot
could compute; noisier, but without delay). At the ends of the log the first or last whole
window serves all of its samples. A missing value (NaN) makes the windows that hold it missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array, IntArray

__all__ = ["Differentiation", "local_fit"]

BLOCK = 1024


@final
@dataclass(frozen=True)
class Differentiation:
    """How missing velocities and accelerations are made.

    Parameters
    ----------
    window : number of samples of a fit.
    order : degree of the polynomial.
    causal : True uses no sample after the one asked for.
    smooth : True also replaces positions by their fit.
    """

    window: int = 21
    order: int = 3
    causal: bool = False
    smooth: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.order < self.window:
            raise LogError(
                f"differentiation: order {self.order} must be at least 2 and below the window,"
                f" {self.window} samples"
            )

    def __str__(self) -> str:
        side = "the last" if self.causal else "the"
        around = "" if self.causal else " around each"
        return (
            f"local polynomials of degree {self.order} over {side} {self.window}"
            f" samples{around} (Savitzky-Golay, true times)"
        )


def local_fit(
    method: Differentiation,
    time: Array,
    x: Array,
    wanted: slice,
    at_start: bool,
    at_end: bool,
) -> tuple[Array, Array, Array]:
    """Value, first and second derivative (n, c) of x (N, c) at the samples ``wanted``.

    Parameters
    ----------
    time, x : a stretch of a log, with a window more than ``wanted`` on either side unless the
        log itself begins (``at_start``) or ends (``at_end``) there.

    Raises
    ------
    LogError
        if the log is shorter than a window.
    """
    w = method.window
    if len(time) < w:
        raise LogError(
            f"differentiation needs {w} samples, the log has {len(time)}; lower the window"
        )
    samples = np.arange(wanted.start, wanted.stop)
    starts = samples - (w - 1 if method.causal else w // 2)
    low = 0 if at_start else starts.min(initial=0)
    high = len(time) - w if at_end else starts.max(initial=0)
    starts = np.clip(starts, low, high)
    out = np.empty((3, len(samples), x.shape[1]))
    for k in range(0, len(samples), BLOCK):
        part = slice(k, k + BLOCK)
        out[:, part] = _fit(method.order, time, x, samples[part], starts[part], w)
    return out[0], out[1], out[2]


def _fit(
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
