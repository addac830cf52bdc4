"""Small pieces of HTML and SVG: escaped text, numbers, tables, figures, symbols of sensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = [
    "count",
    "figure",
    "legend",
    "number",
    "plural",
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


def symbol(family: str, x: float, y: float, title: str) -> str:
    """Return the symbol of a sensor at a point of an SVG picture, named on hovering."""
    return (
        f'<g transform="translate({x:.1f} {y:.1f})"><title>{text(title)}</title>'
        f"{SHAPES[family]}</g>"
    )


def legend(items: Iterable[tuple[str, str]]) -> str:
    """Return a legend of (HTML of the mark, words)."""
    listed = "".join(f"<li>{mark} {text(words)}</li>" for mark, words in items)
    return f'<ul class="legend">{listed}</ul>'


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
