"""What an MJCF file of unknown origin may refer to, and how much it may expand to.

The main file and everything it includes is read by :mod:`dynsys.model.xml_input` first (no
document types, bounded size and nesting); included files must lie below the folder of the main
file; assets must be regular files of bounded size; elements that MuJoCo's compiler multiplies
(replicate, composite, flexcomp) and images it makes must stay within bounds. MuJoCo itself
opens no network connection.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from dynsys.model.xml_input import Node, read_xml

__all__ = ["check_referenced_files"]

MAX_INCLUDED = 100
MAX_EXPANDED = 50_000
"""Most elements after MuJoCo's compiler has multiplied them."""
MAX_PIXELS = 10_000_000
"""Most pixels of a texture or points of a height field."""
_MULTIPLIED = ("replicate", "composite", "flexcomp")
_AREAS = (("texture", "width", "height"), ("hfield", "nrow", "ncol"))


def check_referenced_files(root: Node, max_bytes: int) -> None:
    """Raise ModelError if the file includes, refers to or expands to something unsafe."""
    folder = Path(root.file).resolve().parent
    included: dict[Path, Node] = {Path(root.file).resolve(): root}
    nodes = list(_with_included(root, folder, max_bytes, included))
    _expanded(root, folder, included, {})
    folders = {Path()}
    for node in nodes:
        _check_area(node)
        if node.tag == "compiler":
            for key in ("meshdir", "texturedir", "assetdir"):
                folders.add(Path(node.attributes.get(key, "")))
    for node in nodes:
        for key, name in node.attributes.items():
            if node.tag == "include" or not key.startswith("file"):
                continue
            for sub in folders:
                for asset in (folder / sub / name, folder / sub / Path(name).name):
                    _check_asset(node, asset, max_bytes)


def _check_asset(node: Node, asset: Path, max_bytes: int) -> None:
    try:
        if not asset.exists() or asset.is_dir():
            return
        if not asset.is_file():
            raise node.error(f"{asset} is not a regular file; refused")
        if asset.stat().st_size > max_bytes:
            raise node.error(f"{asset} is larger than {max_bytes} bytes; raise max_bytes")
    except (OSError, ValueError) as error:
        raise node.error(f"{asset} cannot be read: {error}") from None


def _check_area(node: Node) -> None:
    for key, value in node.attributes.items() if node.tag == "size" else ():
        if key != "memory" and _product(value) > MAX_PIXELS:
            raise node.error(f"{key}={value} is more than {MAX_PIXELS}; refused")
    for tag, *sides in _AREAS:
        if (
            node.tag == tag
            and _product(" ".join(_text(node, side) for side in sides)) > MAX_PIXELS
        ):
            raise node.error(f"<{tag}> of more than {MAX_PIXELS} points; refused")


def _text(node: Node, key: str) -> str:
    return node.attributes.get(key, "1")


def _product(words: str) -> float:
    """Product of the numbers above one in a text; infinite where they are no numbers."""
    product = 1.0
    for word in words.split():
        try:
            product *= max(float(word), 1.0)
        except ValueError:
            return math.inf
    return product


def _expanded(
    node: Node, folder: Path, included: Mapping[Path, Node], sizes: dict[Path, float]
) -> float:
    """Elements that a node becomes: those below it, times its count, with what it includes.

    ``sizes`` are those of included files, each found once however often it is included.
    """
    size = 1.0
    if node.tag == "include" and "file" in node.attributes:
        target = _target(node, folder)
        if target in included and target not in sizes:
            sizes[target] = 0.0  # within itself: MuJoCo refuses that
            sizes[target] = _expanded(included[target], folder, included, sizes)
        size += sizes.get(target, 0.0)
    size += sum(_expanded(child, folder, included, sizes) for child in node.children)
    if node.tag in _MULTIPLIED:
        size *= _product(_text(node, "count"))
    if size > MAX_EXPANDED and node.tag in (*_MULTIPLIED, "mujoco"):
        raise node.error(f"expands to more than {MAX_EXPANDED} elements; refused")
    return size


def _target(node: Node, folder: Path) -> Path:
    """File that a node includes, below the folder of the main file."""
    name = node.attributes["file"]
    try:
        target = (folder / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise node.error(f"{name!r} cannot be read: {error}") from None
    if not target.is_relative_to(folder):
        raise node.error(
            f"{name!r} lies outside the folder of the main file; refused: move it below"
        )
    return target


def _with_included(
    root: Node, folder: Path, max_bytes: int, included: dict[Path, Node]
) -> Iterator[Node]:
    for node in root.walk():
        yield node
        if node.tag not in ("include", "model") or "file" not in node.attributes:
            continue
        target = _target(node, folder)
        if len(included) > MAX_INCLUDED:
            raise node.error(f"more than {MAX_INCLUDED} included files; refused")
        if target not in included:
            included[target] = read_xml(target, max_bytes)
            yield from _with_included(included[target], folder, max_bytes, included)
