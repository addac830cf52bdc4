"""Reading YAML of unknown origin, every value with its line: no tags, no aliases, no surprises.

Aliases are refused (a few nested ones expand without bound), as are repeated keys, deep nesting
and large files. Numbers may be written the way everybody writes them: ``1e-3``; those that
YAML 1.1 reads in its own way (``010`` is 8, ``1:30`` is 90) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import yaml

from dynsys.errors import LayoutError
from dynsys.model.readers.xml_input import PathLike, read_bounded

__all__ = ["MAX_BYTES", "Item", "parse_yaml", "read_yaml", "write_yaml"]

_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's, ten times faster, where PyYAML was built with it."""

MAX_BYTES = 2**20
"""Largest layout file that is read."""

MAX_VALUES = 30_000
"""Most values (keys, lists and mappings included) that are read: about a second's work."""

MAX_DEPTH = 20
"""Deepest nesting that is read."""

MAX_NUMBER = 400
"""Most characters of a number or another unquoted value that is not text."""

_KINDS = ("str", "int", "float", "bool", "null", "seq", "map")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _KINDS}
LONGEST_SHOWN = 60
"""Characters of a value that a message shows."""
_DECIMAL = re.compile(r"[-+]?(0|[1-9]\d*|\d*\.\d*)|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
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
            raise self.error(f"{what} must be a mapping (key: value), got {self._short()}")
        return self.value

    def listed(self, what: str) -> list[Item]:
        """Value as a list."""
        if not isinstance(self.value, list):
            raise self.error(f"{what} must be a list, got {self._short()}")
        return self.value

    def _short(self) -> str:
        """Value without places, for a message: its beginning."""
        text = repr(self.plain())
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} ..."

    def plain(self) -> Any:
        """Value without places."""
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        return self.value


def read_yaml(path: PathLike) -> Item:
    """Return the content of a YAML file.

    Raises
    ------
    LayoutError
        naming file and line.
    """
    irregular = "no such file; check the path"
    content = read_bounded(path, MAX_BYTES, LayoutError, irregular=irregular, large="refused")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LayoutError(f"{Path(path)}: not UTF-8: {error}") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, file: str) -> Item:
    """Return the content of a YAML text."""
    try:
        _refuse(yaml.parse(text, Loader=_Loader), file)
        loader = _Loader(text)
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


class _Dumper(yaml.SafeDumper):
    """Writes so that :func:`read_yaml` reads the same: quotes words that look like 1e3."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _EXPONENT.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def write_yaml(content: object) -> str:
    """Return plain values as YAML that :func:`read_yaml` reads; short lists on one line."""
    text: str = yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=96,
        allow_unicode=True,
    )
    return text


def _refuse(events: Iterator[Any], file: str) -> None:
    """Raise on aliases, deep nesting and masses of values, before any of it is built."""
    depth = 0
    for count, event in enumerate(events):
        place = f"{file}, line {event.start_mark.line + 1}"
        if count > MAX_VALUES:
            raise LayoutError(f"{place}: more than {MAX_VALUES} values; refused")
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
    if isinstance(node, yaml.ScalarNode) and not node.style:
        if not node.tag.endswith(":str") and len(node.value) > MAX_NUMBER:
            raise LayoutError(f"{file}, line {line}: a number of {len(node.value)} digits")
        if _EXPONENT.fullmatch(node.value):
            return Item(float(node.value), file, line)
    try:
        value = loader.construct_object(node)
    except (ValueError, OverflowError) as error:
        raise LayoutError(f"{file}, line {line}: not a number: {error}; quote it") from None
    if node.tag.endswith((":int", ":float")) and not _DECIMAL.fullmatch(node.value):
        raise LayoutError(
            f"{file}, line {line}: {node.value} is {value} in YAML 1.1; write a plain decimal"
            f" number, or '{node.value}' in quotes if it is text"
        )
    return Item(value, file, line)
