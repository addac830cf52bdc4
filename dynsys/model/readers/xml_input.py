"""Reading XML of unknown origin: no document types, no entities, no fetching, bounded size.

Why a small reader of our own: it sits on the standard library's expat alone and names file,
line and element in every error, where urchin and yourdfpy depend on trimesh, and ElementTree
keeps no line numbers and refuses elements with an undeclared prefix.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TypeAlias, final
from xml.parsers import expat

import numpy as np

from dynsys.distribution import install
from dynsys.errors import DynsysError, ModelError
from dynsys.types import Array

__all__ = ["MAX_BYTES", "Node", "PathLike", "read_bounded", "read_xml"]

PathLike: TypeAlias = str | os.PathLike[str]

MAX_BYTES = 64 * 2**20
"""Largest robot file that is read, unless the caller says otherwise."""

MAX_DEPTH = 200
"""Deepest nesting of elements that is read."""

MAX_TEXT = 4096
"""Characters of one element's text that are kept: no robot file needs more."""

MAX_ELEMENTS = 1_000_000
"""Most elements that are read: each takes 200 to 450 bytes, many times its shortest text."""


@final
@dataclass(eq=False, slots=True)
class Node:
    """One XML element with the place it was read from; ``text`` is stripped."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Node] = field(default_factory=list)
    text: str = ""

    def error(self, reason: str) -> ModelError:
        """Return the error that names this element and says ``reason``."""
        name = self.attributes.get("name")
        shown = f"<{self.tag}>" if name is None else f"<{self.tag} name={name!r}>"
        return ModelError(f"{self.file}, line {self.line}, {shown}: {reason}")

    def all(self, tag: str) -> Iterator[Node]:
        """Direct children called ``tag``."""
        return (child for child in self.children if child.tag == tag)

    def walk(self) -> Iterator[Node]:
        """Yield this element and everything below it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def optional(self, tag: str) -> Node | None:
        """Return the child called ``tag``, or None; two of them are an error."""
        found = list(self.all(tag))
        if len(found) > 1:
            raise found[1].error(f"second <{tag}> in <{self.tag}>; keep one of them")
        return found[0] if found else None

    def required(self, tag: str) -> Node:
        """Return the one child called ``tag``."""
        found = self.optional(tag)
        if found is None:
            raise self.error(f"<{tag}> is missing; add it")
        return found

    def attribute(self, name: str) -> str:
        """Text of a required attribute, not empty."""
        value = self.attributes.get(name, "").strip()
        if not value:
            raise self.error(f"attribute {name!r} is missing or empty; add it")
        return value

    def number(
        self, name: str, default: float | None = None, *, infinite: bool = False
    ) -> float:
        """Value of a numeric attribute; ``infinite`` allows +-inf (limits that are none)."""
        if name not in self.attributes and default is not None:
            return default
        value = self._float(name, self.attribute(name))
        if math.isnan(value) or (math.isinf(value) and not infinite):
            raise self.error(f"attribute {name}={value} must be a finite number")
        return value

    def numbers(self, name: str, default: tuple[float, ...]) -> Array:
        """Value of an attribute that holds as many finite numbers as ``default`` has."""
        if name not in self.attributes:
            return np.array(default, dtype=np.float64)
        words = self.attributes[name].split()
        if len(words) != len(default):
            raise self.error(
                f"attribute {name}={self.attributes[name]!r} must hold {len(default)} numbers"
            )
        values = np.array([self._float(name, word) for word in words])
        if not np.isfinite(values).all():
            raise self.error(f"attribute {name}={self.attributes[name]!r} must be finite")
        return values

    def _float(self, name: str, word: str) -> float:
        try:
            if "_" in word:
                raise ValueError
            return float(word)
        except ValueError:
            raise self.error(f"attribute {name}={word!r} is not a number") from None


def read_bounded(
    path: PathLike, max_bytes: int, refused: type[DynsysError], *, irregular: str, large: str
) -> bytes:
    """Return the content of a regular file of at most ``max_bytes``.

    Anything else is ``refused``, with ``irregular`` for what is no regular file and ``large``
    for what to do about too large a file.
    """
    file = Path(path)
    try:
        if not file.exists():
            raise refused(f"{file}: no such file; check the path")
        if not file.is_file():
            raise refused(f"{file}: {irregular}")
        with file.open("rb") as stream:
            content = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise refused(f"{file}: cannot be read: {error}") from None
    if len(content) > max_bytes:
        raise refused(f"{file}: larger than {max_bytes} bytes; {large}")
    return content


def read_xml(path: PathLike, max_bytes: int = MAX_BYTES) -> Node:
    """Return the root element of an XML file; a ``.xacro`` file is expanded first.

    Raises
    ------
    ModelError
        file missing, too large, too deeply nested, not well-formed, or with a document type; a
        ``.xacro`` file that xacro cannot expand, or no ``xacro`` package to do it.
    """
    name = os.fspath(path)
    large = "raise max_bytes if you trust the file"
    content = read_bounded(
        path,
        max_bytes,
        ModelError,
        irregular="not a regular file; give the path of a robot file",
        large=large,
    )
    if name.endswith(".xacro"):
        content, name = _expanded(name), f"{name} (expanded)"
        if len(content) > max_bytes:
            raise ModelError(f"{name}: larger than {max_bytes} bytes; {large}")
    return _Builder(name).parse(content)


def _expanded(path: str) -> bytes:
    """What the package ``xacro`` makes of a file.

    Unlike all else here it trusts the file: xacro evaluates its expressions and reads what it
    includes. What it says on standard error is dropped; what it cannot do is an exception.
    """
    try:
        import xacro
    except ImportError:
        raise ModelError(
            f"{path}: a xacro file needs the package xacro ({install('xacro')}); or expand it"
            f" where it is installed: xacro {path} > robot.urdf"
        ) from None
    try:
        with redirect_stderr(StringIO()):
            document = xacro.process_file(path)
    except (Exception, SystemExit) as error:  # whatever expressions of the file raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(
            f"{path}: xacro cannot expand it: {reason}; packages are found by ROS only, so"
            f" where it is set up: xacro {path} > robot.urdf"
        ) from None
    return bytes(document.toprettyxml(indent=" ", encoding="utf-8"))


@final
class _Builder:
    """Builds the nodes while expat reads; refuses what a robot file has no use for."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[Node] = []
        self._root: Node | None = None
        self._count = 0
        self._skipped = 0  # lines before the first element or declaration
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.EntityDeclHandler = self._doctype

    def parse(self, content: bytes) -> Node:
        text = content.lstrip(b" \t\r\n")  # white space before <?xml, which expat refuses
        self._skipped = content[: len(content) - len(text)].count(b"\n")
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            raise ModelError(f"{self._file}: not well-formed XML: {error}; repair it") from None
        except (LookupError, ValueError, UnicodeError) as error:
            raise ModelError(f"{self._file}: unreadable encoding: {error}; use UTF-8") from None
        if self._root is None:
            raise ModelError(f"{self._file}: no XML element in the file")
        return self._root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        node = Node(tag, attributes, self._file, self._line)
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise node.error(f"more than {MAX_ELEMENTS} elements in the file; refused")
        if len(self._open) >= MAX_DEPTH:
            raise node.error(f"nested deeper than {MAX_DEPTH} elements; refused")
        if self._open:
            self._open[-1].children.append(node)
        else:
            self._root = node
        self._open.append(node)

    @property
    def _line(self) -> int:
        return self._skipped + self._parser.CurrentLineNumber

    def _end(self, tag: str) -> None:
        node = self._open.pop()
        node.text = node.text.strip()

    def _characters(self, text: str) -> None:
        if self._open and not text.isspace() and len(self._open[-1].text) < MAX_TEXT:
            self._open[-1].text += text[:MAX_TEXT]

    def _doctype(self, *_: object) -> None:
        raise ModelError(
            f"{self._file}, line {self._line}: document type and entity"
            " declarations are refused (they can expand without bound or fetch files);"
            " remove <!DOCTYPE ...>"
        )
