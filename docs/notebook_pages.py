"""A page per notebook: a Python file of cells, ``# %%`` code, ``# %% [markdown]`` text.

The form (percent format) is that of VS Code, Spyder and Jupytext: readable as a file, run by
Python itself, opened as a notebook by those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = ["FOLDER", "Cell", "cells", "notebook_pages"]

FOLDER = Path(__file__).parent / "notebooks"


class Cell(NamedTuple):
    """Part of a notebook: Markdown, its comment signs taken off, or Python."""

    kind: Literal["markdown", "python"]
    body: str


def cells(text: str) -> list[Cell]:
    r"""Cells of a notebook.

    Raises
    ------
    ValueError
        if something stands before the first cell, or code in a cell of text.

    Examples
    --------
    >>> cells("# %% [markdown]\n# Two.\n\n# %%\n1 + 1\n")
    [Cell(kind='markdown', body='Two.\n'), Cell(kind='python', body='1 + 1\n')]
    """
    before, *parts = re.split(r"^# %%(| \[markdown\])\n", text, flags=re.M)
    if before:
        raise ValueError(f"stands before the first cell: {before!r}")
    found = []
    for mark, part in zip(parts[::2], parts[1::2], strict=True):
        body = part.strip("\n") + "\n"
        if mark:
            if code := [line for line in body.splitlines() if not re.match(r"#( |$)", line)]:
                raise ValueError(f"a line of text does not begin with '# ': {code[0]!r}")
            found.append(Cell("markdown", re.sub(r"^# ?", "", body, flags=re.M)))
        else:
            found.append(Cell("python", body))
    return found


def notebook_pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown) of every notebook, in order."""
    for path in sorted(FOLDER.glob("*.py")):
        found = cells(path.read_text(encoding="utf-8"))
        parts = [
            cell.body if cell.kind == "markdown" else f"```python\n{cell.body}```\n"
            for cell in found
        ]
        yield f"notebooks/{path.stem}.md", "\n".join(parts)
