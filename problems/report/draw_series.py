"""Small pictures of estimates over time: line, truth, error within its band."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.types import Array, BoolArray
from problems.report.log_part import BAND, LogPart, Series
from problems.report.markup import number, text
from problems.report.subject import plain

__all__ = ["series_grid"]

WIDTH, HEIGHT, STRIP, LEFT, TOP, BOTTOM, RIGHT = 300.0, 150.0, 58.0, 44.0, 8.0, 22.0, 8.0
FAR = 8.0
"""Samples this many times less certain than usual are drawn cut off."""


def series_grid(log: LogPart, chosen: Sequence[Series]) -> str:
    """Pictures of some series side by side."""
    return f'<div class="grid">{"".join(_series(log.time, one) for one in chosen)}</div>'


def _series(time: Array, one: Series) -> str:
    sure = _sure(one.std)
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
    data = json.dumps(
        plain({"t": time, "v": one.value, "s": one.std, "x": one.truth, "u": one.unit}, 4),
        separators=(",", ":"),
    )
    return (
        f'<div class="series"><h4>{text(one.name)} <span class="unit">[{text(one.unit)}]</span>'
        f'</h4><svg viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img"'
        f' aria-label="{text(label)}">'
        f'{"".join(parts)}<path class="cross" d=""/></svg>'
        f'<p class="readout">{text(agreement)}</p>'
        f'<script type="application/json">{data}</script></div>'
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
