"""Small pieces of HTML and SVG: escaped text, numbers, tables, figures, bars, symbols."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = [
    "bars",
    "count",
    "figure",
    "legend",
    "listed",
    "number",
    "picture",
    "plain",
    "plural",
    "script_data",
    "symbol",
    "symbol_legend",
    "table",
    "text",
]

SHAPES = {
    "inertial": '<path class="symbol inertial" d="M0-5 5 4h-10z"/>',
    "force": '<path class="symbol force" d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>',
    "external": '<path class="symbol external" d="M-5-4.5h10v4L0 5-5-.5z"/>',
    "torque": '<rect class="symbol torque" x="-4.2" y="-4.2" width="8.4" height="8.4"/>',
    "encoder": '<circle class="symbol encoder" r="3.8"/>',
    "other": '<path class="symbol other" d="M-4-4 4 4M4-4-4 4M0-5.5v11"/>',
}
"""A shape of its own for each family of sensors, drawn about the origin."""


def text(value: object) -> str:
    """Text with the characters of markup escaped."""
    return escape(str(value), quote=True)


def script_data(value: object) -> str:
    r"""Element with JSON for scripts, in which no text can end or open an element.

    Examples
    --------
    >>> print(script_data(["</script>", "<!--"]))
    <script type="application/json">["\u003c/script\u003e","\u003c!--"]</script>
    """
    data = json.dumps(value, separators=(",", ":"))
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json">{data}</script>'


def number(value: float | None, digits: int = 3, unit: str = "") -> str:
    """Return a number for reading, with its unit; a dash for none.

    Examples
    --------
    >>> number(0.12345), number(None), number(2.0, unit="N m"), number(139.7, 2)
    ('0.123', '-', '2 N m', '140')
    """
    if value is None or not abs(value) < float("inf"):
        return "-"
    shown = f"{value:.{digits}g}"
    if 1000 <= abs(value) < 1e9:
        shown = count(round(value))
    elif "e+" in shown and abs(value) < 1000:
        shown = str(round(float(shown)))
    return f"{shown} {unit}" if unit else shown


def count(value: int | None) -> str:
    """Return a whole number with thin spaces between thousands; a dash for none.

    Examples
    --------
    >>> count(None), count(12)
    ('-', '12')
    """
    return "-" if value is None else f"{value:,}".replace(",", "\N{THIN SPACE}")


def plural(value: int, what: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> plural(1, "reading"), plural(3, "reading")
    ('1 reading', '3 readings')
    """
    return f"{count(value)} {what}{'' if value == 1 else 's'}"


def plain(value: Any, digits: int = 6) -> Any:
    """Dataclasses, arrays and mappings as dictionaries and lists; what is not finite as None.

    Numbers are rounded to some digits.

    Examples
    --------
    >>> plain({"x": np.array([1.23456789, np.nan]), "n": np.int64(3)})
    {'x': [1.23457, None], 'n': 3}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), digits) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, digits) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), digits)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return float(f"{number:.{digits}g}") if math.isfinite(number) else None
    if isinstance(value, np.integer):
        return int(value)
    return value


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: int = 1,
    caption: str = "",
    marked: Iterable[int] = (),
) -> str:
    """Return a table; the first ``left`` columns are words. Cells are HTML already."""
    head = "".join(
        f'<th scope="col"{"" if k < left else " class=num"}>{text(c)}</th>'
        for k, c in enumerate(columns)
    )
    marks, body = set(marked), []
    for r, row in enumerate(rows):
        cells = "".join(
            f'<th scope="row">{cell}</th>' if k == 0 else
            f'<td{"" if k < left else " class=num"}>{cell}</td>'
            for k, cell in enumerate(row)
        )  # fmt: skip
        body.append(f"<tr{' class=marked' if r in marks else ''}>{cells}</tr>")
    title = f"<caption>{caption}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def figure(content: str, caption: str, kind: str = "") -> str:
    """Return a figure with its caption (HTML)."""
    return f'<figure class="{kind}">{content}<figcaption>{caption}</figcaption></figure>'


def listed(lines: Iterable[str]) -> str:
    """Return a list (HTML); nothing for none."""
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def picture(
    kind: str, width: float, height: float, parts: Iterable[str], label: str, least: float
) -> str:
    """Return an SVG picture that scrolls on screens narrower than ``least``."""
    return (
        f'<div class="scroll"><svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' style="min-width:{least:.0f}px;max-width:{width:.0f}px" role="img"'
        f' aria-label="{text(label)}">{"".join(parts)}</svg></div>'
    )


def symbol(family: str, x: float, y: float, title: str) -> str:
    """Return the symbol of a sensor at a point of an SVG picture, named on hovering."""
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><title>{text(title)}</title>'
        f"{SHAPES[family]}</g>"
    )


def legend(items: Iterable[tuple[str, str]]) -> str:
    """Return a legend of (HTML of the mark, words)."""
    marks = "".join(f"<li>{mark} {text(words)}</li>" for mark, words in items)
    return f'<ul class="legend">{marks}</ul>'


def symbol_legend(families: Iterable[tuple[str, str]]) -> str:
    """Return a legend of sensors' symbols."""
    return legend(
        (
            '<svg class="mark" viewBox="-7 -7 14 14" aria-hidden="true">'
            f"{SHAPES[family]}</svg>",
            w,
        )
        for family, w in families
    )


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
            f"{f'{value:g}' if value < 1 else count(round(value))}</text>"
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
    return picture("bars", width, height, parts, label, least=560)
