"""Docstrings in pieces: summary, equations, notes, parameters, and roles as Markdown."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any, final

__all__ = ["Docstring", "entries", "markdown", "read", "sections"]

CITATION = re.compile(r"\s{2,}(\[[A-Z]+\].*)$")


@final
@dataclass(frozen=True)
class Docstring:
    """What a docstring says: the rest is everything behind the summary, as it stands."""

    summary: str
    equations: tuple[str, ...]
    citations: tuple[str, ...]
    notes: tuple[str, ...]
    parameters: dict[str, str]
    rest: str


def read(thing: Any) -> Docstring:
    """Docstring of a class, function or module."""
    text = inspect.getdoc(thing) or ""
    parts = sections(thing)
    body = parts[""]
    paragraphs = [p for p in body.split("\n\n") if p.strip()]
    summary = " ".join(paragraphs[0].split()) if paragraphs else ""
    equations, citations, notes = [], [], []
    for paragraph in paragraphs[1:]:
        if paragraph.lstrip().startswith("y = "):
            for line in _joined(paragraph):
                if found := CITATION.search(line):
                    citations.append(found[1])
                equations.append(CITATION.sub("", line))
        else:
            notes.append(" ".join(paragraph.split()))
    rest = "\n\n".join(text.split("\n\n")[1:])
    return Docstring(
        summary,
        tuple(equations),
        tuple(citations),
        tuple(notes),
        entries(parts.get("Parameters", "")),
        rest,
    )


SECTION = re.compile(r"^([A-Z]\w+)\n-{3,}\n", re.MULTILINE)


def sections(thing: Any) -> dict[str, str]:
    """Sections of a docstring by title, as they stand; "" is what comes before the first."""
    pieces = SECTION.split(inspect.getdoc(thing) or "")
    titles = ["", *pieces[1::2]]
    return {title: text.strip("\n") for title, text in zip(titles, pieces[::2], strict=True)}


def entries(section: str) -> dict[str, str]:
    """Names and meanings of a section: ``name : meaning``, or a name and indented lines."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        start = re.match(r"^(\*{0,2}\w[\w.\[\]]*(?:, \*{0,2}\w[\w.\[\]]*)*)(?: : (.*))?$", line)
        if start:
            names = start[1].split(", ")
            found |= dict.fromkeys(names, start[2] or "")
        elif line.startswith(" ") and names:
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return found


def _joined(paragraph: str) -> list[str]:
    """Equations of a paragraph; one that goes on with an indented line has two lines."""
    lines: list[str] = []
    for line in paragraph.splitlines():
        if line.startswith(" ") and lines:
            lines[-1] += "\n" + line.strip()
        else:
            lines.append(line.rstrip())
    return lines


def markdown(text: str) -> str:
    """Text of a docstring as Markdown: code in backquotes, nothing else of it special."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"``\1``", text)
    pieces = re.split(r"(``.*?``)", text)
    for k in range(0, len(pieces), 2):
        pieces[k] = re.sub(r"([\\*_\[\]<>$|#^])", r"\\\1", pieces[k])
    return "".join(p if k % 2 == 0 else f"`{p[2:-2]}`" for k, p in enumerate(pieces))
