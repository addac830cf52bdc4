"""Pictures of sparse matrices: runs of entries as SVG paths, one per quantity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from problems.report.markup import count, text
from problems.report.matrix_part import QUANTITY_WORDS, Labels, Matrix

__all__ = [
    "bars",
    "matrix",
    "matrix_legend",
]

PIXELS = 460.0
"""About the side of a picture on the screen: entries are made no thinner than one of these."""


def matrix(content: Matrix, number: int) -> str:
    """SVG picture, a line that names the entry pointed at, and the names it needs (JSON)."""
    rows, columns = content.shape
    thick = max(1.0, max(rows, columns) / PIXELS)
    entries = sum(n for kind, n in content.counts.items() if kind != "fill")
    fill = content.counts.get("fill", 0)
    words = (
        f"{content.title}: {rows} rows, {columns} columns, {entries} entries"
        f"{f', {fill} of fill' if fill else ''}"
    )
    paths = [
        f'<path class="q-{kind}" data-kind="{kind}" d="{_runs(*content.entries[kind])}"/>'
        for kind in ("fill", *(k for k in QUANTITY_WORDS if k != "fill"))
        if kind in content.entries
    ]
    names = json.dumps(_names(content), separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<div class="matrix" id="matrix-{number}"><h4>{text(content.title)}</h4>'
        f'<p class="size">{count(rows)} &times; {count(columns)}, {count(entries)} entries'
        f"{f', {count(fill)} of fill' if fill else ''}</p>"
        f'<svg viewBox="0 0 {columns} {rows}" tabindex="0" role="img"'
        f' aria-label="{text(words)}. Arrow keys move from entry to entry.">'
        f'<rect class="paper" width="{columns}" height="{rows}"/>'
        f'<g class="entries" transform="translate(0 .5)" stroke-width="{thick:.2f}"'
        f' stroke-linecap="{"square" if thick > 1 else "butt"}">{"".join(paths)}</g>'
        f'<path class="cross" d=""/></svg>'
        f'<p class="readout" aria-live="polite">Point at an entry to read its names.</p>'
        f'<script type="application/json">{names}</script></div>'
    )


def _runs(rows: list[int], columns: list[int]) -> str:
    """Path of horizontal runs of neighbours: ``Mcolumn rowhlength`` each."""
    r, c = np.array(rows), np.array(columns)
    order = np.lexsort((c, r))
    r, c = r[order], c[order]
    first = np.flatnonzero(np.r_[True, (np.diff(r) != 0) | (np.diff(c) != 1)])
    lengths = np.diff(np.r_[first, len(r)])
    return "".join(
        f"M{column} {row}h{length}"
        for column, row, length in zip(
            c[first].tolist(), r[first].tolist(), lengths.tolist(), strict=True
        )
    )


def _names(content: Matrix) -> dict[str, object]:
    return {
        "rows": content.row_labels,
        "columns": "same" if _same(content) else content.col_labels,
        "rowOrder": _order(content.row_order),
        "columnOrder": "same" if _same(content) else _order(content.col_order),
        "words": [content.row_word, content.col_word],
        "kinds": {k: QUANTITY_WORDS[k] for k in content.entries},
    }


def _same(content: Matrix) -> bool:
    labels: tuple[Labels, Labels] = content.row_labels, content.col_labels
    return labels[0] is labels[1] and content.row_order == content.col_order


def _order(order: list[int]) -> list[int] | None:
    return None if order == list(range(len(order))) else order


def matrix_legend(*contents: Matrix | None) -> str:
    """Buttons that show one class of entries alone."""
    counts: dict[str, int] = {}
    for content in contents:
        for kind, n in (content.counts if content else {}).items():
            counts[kind] = counts.get(kind, 0) + n
    buttons = "".join(
        f'<li><button type="button" aria-pressed="false" data-kind="{kind}">'
        f'<span class="swatch b-{kind}"></span>{text(words)}</button></li>'
        for kind, words in QUANTITY_WORDS.items()
        if kind in counts
    )
    return f'<ul class="legend kinds" aria-label="show one kind of entry">{buttons}</ul>'


# ----------------------------------------------------------------------
# Bars on a scale of powers of ten.


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
