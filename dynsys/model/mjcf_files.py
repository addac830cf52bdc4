"""What an MJCF file of unknown origin may refer to.

The main file and everything it includes is read by :mod:`dynsys.model.xml_input` first (no
document types, bounded size and nesting); included files must lie below the folder of the main
file; assets must be regular files of bounded size. MuJoCo itself opens no network connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dynsys.model.xml_input import Node, read_xml

__all__ = ["check_referenced_files"]

MAX_INCLUDED = 100


def check_referenced_files(root: Node, max_bytes: int) -> None:
    """Raise ModelError if the file includes or refers to something unsafe."""
    folder = Path(root.file).resolve().parent
    nodes = list(_with_included(root, folder, max_bytes, {Path(root.file).resolve()}))
    folders = {Path()}
    for node in nodes:
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


def _with_included(root: Node, folder: Path, max_bytes: int, seen: set[Path]) -> Iterator[Node]:
    for node in root.walk():
        yield node
        if node.tag not in ("include", "model") or "file" not in node.attributes:
            continue
        target = (folder / node.attributes["file"]).resolve()
        if not target.is_relative_to(folder):
            raise node.error(
                f"{node.attributes['file']!r} lies outside the folder of the main file;"
                " refused: move it below"
            )
        if len(seen) > MAX_INCLUDED:
            raise node.error(f"more than {MAX_INCLUDED} included files; refused")
        if target not in seen:
            seen.add(target)
            yield from _with_included(read_xml(target, max_bytes), folder, max_bytes, seen)
