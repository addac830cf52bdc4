"""Reference of the public names, made of their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from docs.docstrings import entries, markdown, read, sections

__all__ = ["api_pages"]

PACKAGES = ("dynsys", "sensors", "problems")
INDEX = """\
# Public names

What `import dynsys, sensors, problems` gives. Everything else is inside and may change.

| package | what it holds |
|---|---|
"""


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield (path, Markdown): an index and a page per package."""
    rows = []
    for name in PACKAGES:
        package = importlib.import_module(name)
        rows.append(f"| [`{name}`]({name}.md) | {markdown(read(package).summary)} |")
        yield f"api/{name}.md", _page(package)
    toc = "\n".join(PACKAGES)
    yield (
        "api/index.md",
        INDEX + "\n".join(rows) + f"\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n",
    )


def _page(package: ModuleType) -> str:
    parts = [f"# {package.__name__}", markdown(read(package).summary)]
    for name in sorted(package.__all__, key=str.lower):
        parts += _entry(f"{package.__name__}.{name}", getattr(package, name))
    return "\n\n".join(parts) + "\n"


def _entry(name: str, thing: Any, level: int = 2) -> Iterator[str]:
    """Heading, signature, what it does, a table of its parameters, what else is written."""
    yield f"{'#' * level} {name}"
    if inspect.ismodule(thing):
        yield markdown(read(thing).summary)
        for own in getattr(thing, "__all__", ()):
            yield from _entry(f"{name}.{own}", getattr(thing, own), level + 1)
        return
    call = _signature(thing)
    if call:
        yield f"```python\n{name.rpartition('.')[2] if level > 2 else name}{call}\n```"
    parts = sections(thing)
    yield from _prose(parts.pop("", ""))
    yield from _parameters(thing, entries(parts.pop("Parameters", "")))
    for title, text in parts.items():
        yield from _section(title, text)
    if inspect.isclass(thing):
        yield from _members(name, thing, level)


EQUATION = re.compile(r"^( |\w+(_\w+)?(\([^)]*\))? += )|\s{3,}\[[A-Z]+\]", re.MULTILINE)
"""What a paragraph has that is not prose: its lines stay as they are."""


def _prose(text: str) -> Iterator[str]:
    for paragraph in filter(str.strip, text.split("\n\n")):
        is_prose = not EQUATION.search(paragraph)
        yield (
            markdown(" ".join(paragraph.split()))
            if is_prose
            else f"```text\n{paragraph.rstrip()}\n```"
        )


def _section(title: str, text: str) -> Iterator[str]:
    """Attributes and exceptions as tables, examples as code, all else as text."""
    yield f"**{title}**"
    if title == "Examples":
        yield f"```pycon\n{text}\n```"
        return
    rows = entries(text)
    if title in ("Attributes", "Raises", "Warns") and rows:
        yield _table(("name", "meaning"), [(f"`{key}`", _cell(x)) for key, x in rows.items()])
    else:
        yield from _prose(text)


def _parameters(thing: Any, told: dict[str, str]) -> Iterator[str]:
    """Every parameter of the signature: its type, its default, what is written of it."""
    try:
        given = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        given = ()
    inherited: dict[str, str] = {}
    for base in getattr(thing, "__mro__", ())[1:]:
        inherited = entries(sections(base).get("Parameters", "")) | inherited
    rows = []
    for parameter in given:
        name, stars = parameter.name, {2: "*", 4: "**"}.get(parameter.kind.value, "")
        if name in ("self", "cls") or name.startswith("_"):
            continue
        default = "" if stars else _default(parameter.default)
        meaning = told.pop(name, told.pop(stars + name, inherited.get(name, "")))
        rows.append((f"`{stars}{name}`", _type(parameter), default, _cell(meaning)))
    rows += [(f"`{name}`", "", "", _cell(meaning)) for name, meaning in told.items()]
    titles = ("parameter", "type", "default", "meaning")
    shown = slice(4 if any(row[3] for row in rows) else 3)
    if rows:
        yield _table(titles[shown], [row[shown] for row in rows])


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    text = repr(value)
    return f"`{text}`" if len(text) < 30 and "<" not in text else "…"


def _type(parameter: inspect.Parameter) -> str:
    if parameter.annotation is inspect.Parameter.empty:
        return ""
    text = inspect.formatannotation(parameter.annotation).strip("\"'")
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text).replace("|", "\\|")
    return f"`{text}`"


def _cell(text: str) -> str:
    return markdown(" ".join(text.split()))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _members(name: str, cls: type, level: int) -> Iterator[str]:
    """Values of a class in a table, then each of its methods."""
    values, methods = [], []
    for own, member in sorted(vars(cls).items()):
        function = getattr(member, "func", getattr(member, "fget", member))
        function = getattr(function, "__func__", function)
        if own.startswith("_") or not inspect.isfunction(function):
            continue
        if function is member or isinstance(member, (staticmethod, classmethod)):
            methods.append((own, function))
        else:
            values.append((f"`{own}`", _cell(read(function).summary)))
    bases = [base.__name__ for base in cls.__mro__[1:] if base.__module__.startswith(PACKAGES)]
    if bases:
        yield f"With the members of {', '.join(f'`{base}`' for base in bases)}."
    if values:
        yield _table(("value", "meaning"), values)
    for own, function in methods:
        yield from _entry(f"{name.rpartition('.')[2]}.{own}", function, level + 1)


def _signature(thing: Any) -> str:
    """Names and defaults of a call; types are in the table."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]
    shown = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    text = re.sub(r"<[^>]*>", "...", str(shown))
    returned = signature.return_annotation
    if returned not in (inspect.Signature.empty, None, "None"):
        ends = inspect.formatannotation(returned).strip("\"'")
        text += " -> " + re.sub(r"\b(?:\w+\.)+(?=\w)", "", ends)
    if len(text) < 90:
        return text
    inside, _, after = text.rpartition(")")
    one_by_one = re.sub(r", (?=\*|\w+=|\w+,|\w+$)", ",\n    ", inside[1:])
    return f"(\n    {one_by_one},\n){after}"
