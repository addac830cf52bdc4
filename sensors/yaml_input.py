"""Reading YAML of unknown origin, every value with its line: no tags, no aliases, no surprises.

Aliases are refused (a few nested ones expand without bound), as are repeated keys, deep nesting
and large files. Numbers may be written the way everybody writes them: ``1e-3``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import yaml

from dynsys.errors import LayoutError
from dynsys.model.xml_input import PathLike

__all__ = ["MAX_BYTES", "Item", "read_yaml"]

MAX_BYTES = 4 * 2**20
"""Largest layout file that is read."""

MAX_DEPTH = 20
"""Deepest nesting that is read."""

_KINDS = ("str", "int", "float", "bool", "null", "seq", "map")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KINDS}
_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


@final
@dataclass(frozen=True, eq=False)
class Item:
    """A value of a YAML file with its place: a scalar, list of items, or mapping to items."""

    value: Any
    file: str
    line: int

    def error(self, reason: str) -> LayoutError:
        """Return the error that names this place and says ``reason``."""
        return LayoutError(f"{self.file}, line {self.line}: {reason}")

    def mapping(self, what: str) -> dict[str, Item]:
        """Value as a mapping."""
        if not isinstance(self.value, dict):
            raise self.error(f"{what} must be a mapping (key: value), got {self.plain()!r}")
        return self.value

    def listed(self, what: str) -> list[Item]:
        """Value as a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{what} must be a list, got {self.plain()!r}")
        return self.value

    def plain(self) -> Any:
        """Value without places."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


def read_yaml(path: PathLike, max_bytes: int = MAX_BYTES) -> Item:
    """Return the content of a YAML file.

    Raises
    ------
    LayoutError
        naming file and line.
    """
    file = Path(path)
    try:
        if not file.is_file():
            raise LayoutError(f"{file}: no such file; check the path")
        with file.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise LayoutError(f"{file}: cannot be read: {error}") from None
    if len(content) > max_bytes:
        raise LayoutError(f"{file}: larger than {max_bytes} bytes; refused")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{file}: not UTF-8: {error}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, file: str) -> Item:
    """Return the content of a YAML text."""
    try:
        _refuse(yaml.parse(text, Loader=yaml.SafeLoader), file)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise LayoutError(f"{file}: the file is empty")
        return _item(node, loader, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f", line {mark.line + 1}"
        raise LayoutError(f"{file}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise LayoutError(f"{file}: not valid YAML: {error}") from None


def _refuse(events: Iterator[Any], file: str) -> None:
    """Raise on aliases and deep nesting, before anything is built of them."""
    depth = 0
    for event in events:
        place = f"{file}, line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise LayoutError(f"{place}: aliases (*name) are refused; repeat the text")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAX_DEPTH:
                raise LayoutError(f"{place}: nested deeper than {MAX_DEPTH}; refused")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1


def _item(node: yaml.Node, loader: yaml.SafeLoader, file: str) -> Item:
    line = node.start_mark.line + 1
    if node.tag not in _TAGS:
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        raise LayoutError(f"{file}, line {line}: a value is read as {tag!r}; quote it")
    if isinstance(node, yaml.SequenceNode):
        return Item([_item(child, loader, file) for child in node.value], file, line)
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Item] = {}
        for key_node, value_node in node.value:
            key = _item(key_node, loader, file)
            if not isinstance(key.value, (str, int)) or isinstance(key.value, bool):
                raise key.error(f"the key {key.plain()!r} must be a word; quote it")
            if str(key.value) in mapping:
                raise key.error(f"the key {key.value!r} is given twice; keep one")
            value = _item(value_node, loader, file)
            mapping[str(key.value)] = Item(value.value, file, value_node.start_mark.line + 1)
        return Item(mapping, file, line)
    if isinstance(node, yaml.ScalarNode) and not node.style and _EXPONENT.fullmatch(node.value):
        return Item(float(node.value), file, line)
    return Item(loader.construct_object(node), file, line)
