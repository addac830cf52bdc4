"""Bars on a scale of powers of ten."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from problems.report.markup import count, text

__all__ = ["bars"]


def power(value: float) -> str:
    """Return a power of ten for reading: 0.1, 1, 10 ... 1 000 000."""
    return f"{value:g}" if value < 1 else count(round(value))


def bars(rows: Sequence[tuple[str, float | None, str]], label: str, unit: str) -> str:
    """Horizontal bars (name, value, text beside it) on a scale of powers of ten."""
    known = [value for _, value, _ in rows if value]
    if not known:
        return ""
    left = 6.6 * max(len(name) for name, _, _ in rows) + 16.0
    width, row = max(720.0, left + 420.0), 22.0
    low = 10.0 ** np.floor(np.log10(min(known)) - 0.02)
    high = 10.0 ** np.ceil(np.log10(max(known)))
    room = width - left - 110.0
    height = row * len(rows) + 34.0

    def x(value: float) -> float:
        return left + room * float(np.log10(value / low) / max(np.log10(high / low), 1e-9))

    parts = []
    powers = [10.0**k for k in range(round(np.log10(low)), round(np.log10(high)) + 1)]
    for value in powers:
        parts.append(
            f'<path class="gridline" d="M{x(value):.1f} 0V{height - 32:.1f}"/>'
            f'<text class="tick mid" x="{x(value):.1f}" y="{height - 18:.1f}">'
            f"{power(value)}</text>"
        )
    parts += [
        f'<path class="gridline minor" d="M{x(k * a):.1f} 0V{height - 32:.1f}"/>'
        for a, _ in pairwise(powers) for k in (2, 5)
    ]  # fmt: skip
    for k, (name, given, words) in enumerate(rows):
        value, y = given or 0.0, row * k + 4.0
        parts.append(
            f'<text class="end" x="{left - 8:.1f}" y="{y + 12:.1f}">{text(name)}</text>'
        )
        if value:
            parts.append(
                f'<rect class="bar" x="{left:.1f}" y="{y:.1f}" width="{x(value) - left:.1f}"'
                f' height="15"/>'
            )
        beside = x(value) + 6 if value else left + 4
        parts.append(f'<text x="{beside:.1f}" y="{y + 12:.1f}">{text(words)}</text>')
    parts.append(
        f'<text class="tick mid" x="{left + room / 2:.0f}" y="{height - 3:.1f}">{unit}</text>'
    )
    return (
        f'<div class="scroll"><svg class="bars" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' style="min-width:560px;max-width:{width:.0f}px" role="img"'
        f' aria-label="{text(label)}">{"".join(parts)}</svg></div>'
    )
