"""What objects look like in a notebook: tables of HTML, no scripts, all text escaped.

Notebooks ask an object for ``_repr_html_``; robots, plans, verdicts and estimates answer with
what stands here, so that they look alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["facts", "folded", "lines", "table"]

_CELL = 'style="text-align:left;vertical-align:top"'


def facts(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A title, and what there is to say under it: name and value, row by row.

    >>> facts("robot 'arm'", [("freedoms", 7)])  # doctest: +ELLIPSIS
    '<b>robot &#x27;arm&#x27;</b><table>...freedoms...7...</table>'
    """
    cells = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<b>{escape(title)}</b><table>{cells}</table>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows of values under their names."""
    names = "".join(f"<th {_CELL}>{escape(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td {_CELL}>{escape(str(x))}</td>" for x in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{names}</tr>{body}</table>"


def lines(title: str, texts: Iterable[str]) -> str:
    """A title with a list under it; nothing if there is nothing to list."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"{escape(title)}<ul>{items}</ul>" if items else ""


def folded(title: str, content: str) -> str:
    """HTML that shows when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"
