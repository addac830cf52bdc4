"""Reference of the public names, made of their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from docs.docstrings import markdown, read

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


def _entry(name: str, thing: Any) -> Iterator[str]:
    doc = read(thing)
    yield f"## {name}"
    if not inspect.ismodule(thing):
        yield f"```text\n{name}{_signature(thing)}\n```"
    if doc.summary:
        yield markdown(doc.summary)
    if inspect.ismodule(thing):
        yield _names(thing)
        return
    if doc.rest.strip():
        yield f"```text\n{doc.rest.rstrip()}\n```"
    if inspect.isclass(thing):
        members = list(_members(thing))
        if members:
            yield "| member | |\n|---|---|\n" + "\n".join(members)


def _names(module: ModuleType) -> str:
    lines = ["| name | |", "|---|---|"]
    for name in getattr(module, "__all__", ()):
        lines.append(f"| `{name}` | {markdown(read(getattr(module, name)).summary)} |")
    return "\n".join(lines)


def _members(cls: type) -> Iterator[str]:
    for name, member in sorted(vars(cls).items()):
        function = getattr(member, "func", getattr(member, "fget", member))
        function = getattr(function, "__func__", function)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        summary = markdown(read(function).summary)
        is_value = function is not member and not isinstance(
            member, (staticmethod, classmethod)
        )
        call = "" if is_value else "()"
        yield f"| `{name}{call}` | {summary} |"


def _signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    return (
        text.replace("'", "")
        if len(text) < 90
        else text.replace("'", "").replace(", ", ",\n    ").replace("(", "(\n    ", 1)
    )
