"""What Python files say, as a digest: comments, blank lines and texts nobody reads leave it.

It is the digest of a file's syntax tree without docstrings. Parsing all of dynsys takes a
second or two, so what each file says is kept in the private folder, under the digest of the
bytes; without such a folder, where nothing compiled is kept either, the bytes count.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dynsys.private_folder import default_folder, is_private
from dynsys.resumable import replacing

__all__ = ["meaning"]

KEPT = "sources.txt"
MOST_KEPT = 10_000
"""Files, of all versions and checkouts, whose digests are kept; 1.3 MB."""
_LINE = re.compile("^([0-9a-f]{64}) ([0-9a-f]{64})$", re.MULTILINE)


def meaning(paths: Iterable[Path]) -> list[str]:
    """Digest (hex) of what each file says."""
    sources = [path.read_bytes() for path in paths]
    contents = [hashlib.sha256(source).hexdigest() for source in sources]
    folder = default_folder()
    if folder is None or not is_private(folder):
        return contents
    kept = _read(folder / KEPT)
    missing = {c: s for c, s in zip(contents, sources, strict=True) if c not in kept}
    if missing:
        kept |= {content: _said(source, content) for content, source in missing.items()}
        ours = {content: kept[content] for content in contents}
        _write(folder / KEPT, kept if len(kept) <= MOST_KEPT else ours)
    return [kept[content] for content in contents]


def _said(source: bytes, otherwise: str) -> str:
    """Digest of the syntax tree; ``otherwise`` if it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return otherwise
    _drop_texts(tree)
    return hashlib.sha256(ast.dump(tree).encode("utf-8", "surrogatepass")).hexdigest()


def _drop_texts(node: ast.AST) -> None:
    """Take statements that are a mere text, docstrings among them, out of a statement."""
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        if isinstance(statements, list):
            statements[:] = [x for x in statements if not _is_text(x)]
            for statement in statements:
                _drop_texts(statement)


def _is_text(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _read(path: Path) -> dict[str, str]:
    try:
        return dict(_LINE.findall(path.read_text("ascii")))
    except (OSError, ValueError):
        return {}


def _write(path: Path, kept: dict[str, str]) -> None:
    """Keep digests, if the disk lets us; of two writers the last one counts."""
    with suppress(OSError), replacing(path) as part:
        part.touch(mode=0o600)
        part.write_text("".join(f"{a} {b}\n" for a, b in kept.items()), "ascii")
