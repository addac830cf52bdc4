"""What the command line writes: tables, notes and JSON on stdout, errors on stderr.

rich draws the tables and bars. It is imported when something is drawn: commands start quickly,
and ``dynsys doctor`` can say that it is missing.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "number",
    "progress",
    "progress_bar",
    "show_json",
    "show_line",
    "show_prose",
    "show_table",
]

T = TypeVar("T")

WIDTH_WHEN_PIPED = 160
"""Columns of a table that goes to a file or a pipe, unless COLUMNS is set."""


def _console(*, error: bool = False) -> Console:
    """Console that leaves a reader who has seen enough to the caller (rich would exit 1)."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    stream = sys.stderr if error else sys.stdout
    free = not stream.isatty() and "COLUMNS" not in os.environ
    return Plain(
        file=stream, highlight=False, markup=False, width=WIDTH_WHEN_PIPED if free else None
    )


def number(value: float | None, digits: int = 4) -> str:
    """Return ``value`` to some digits; a dash for none or infinite."""
    if value is None or not abs(value) < float("inf"):
        return "-"
    return f"{value:.{digits}g}"


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    droppable: Sequence[str] = (),
) -> None:
    """Write a table; columns named in ``right`` hold numbers and are set flush right.

    Where the terminal is too narrow, columns of ``droppable`` are left out in that order, and
    a line says so; only then are cells folded.
    """
    console = _console()
    unbounded = console.options.update(width=10_000)
    body = [dict(zip(columns, row, strict=True)) for row in rows]
    for count in range(len(droppable) + 1):
        dropped = droppable[:count]
        table = _table([c for c in columns if c not in dropped], body, right)
        if console.measure(table, options=unbounded).maximum <= console.width:
            break
    console.print(table)
    if dropped:
        names = ", ".join(dropped)
        show_prose(f"(no room for {names}: widen the terminal or use --json)")


def _table(columns: Sequence[str], body: list[dict[str, str]], right: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        justify: Any = "right" if column in right else "left"
        table.add_column(Text(column), justify=justify, overflow="fold")
    for row in body:
        table.add_row(*(Text(row[column]) for column in columns))
    return table


def show_line(text: str = "", *, error: bool = False) -> None:
    """Write one line of prose, to stderr where stdout is for records; it is not broken."""
    from rich.text import Text

    _console(error=error).print(Text(text), soft_wrap=True)


def show_prose(text: str) -> None:
    """Write a line for reading: broken at the terminal's width, continued below its words."""
    console = _console()
    start = len(text) - len(text.lstrip(" -"))
    lines = textwrap.wrap(
        text,
        console.width,
        subsequent_indent=" " * (start or 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [""]:
        show_line(line)


def show_json(value: object) -> None:
    """Write ``value`` as JSON, indented. Not-a-number is an error, never written."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], Callable[[int], None]]]:
    """Show a bar on stderr (on a terminal only) while the block runs.

    Yields a function of (done, total) that returns what is told of each further advance.
    """
    from rich.progress import Progress

    console = _console(error=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:

        def start(done: int, total: int) -> Callable[[int], None]:
            task = bar.add_task(what, total=total, completed=done)
            return lambda more: bar.advance(task, more)

        yield start


def progress(items: Sequence[T], what: str) -> Iterable[T]:
    """Yield the items while a bar on stderr shows how far it is (on a terminal only)."""
    from rich.progress import track

    console = _console(error=True)
    return track(items, what, console=console, transient=True, disable=not console.is_terminal)
