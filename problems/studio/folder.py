"""The one folder that the page may read from and write to, by plain file names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import final

from dynsys.errors import DynsysError
from problems.logs.open import FORMATS

__all__ = ["LAYOUTS", "LOGS", "Folder", "RefusedError"]

LAYOUTS = (".yaml", ".yml")
LOGS = FORMATS
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+ -]{0,98}")
MOST_LISTED = 200


class RefusedError(DynsysError):
    """A message asks for something that studio does not do: says what and why."""


@final
class Folder:
    """Files of one folder; nothing outside of it, no hidden files, no links leading out.

    Parameters
    ----------
    path : the folder; it must be there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
        if not self.path.is_dir():
            raise RefusedError(f"{path}: no such folder; make it, or give another --folder")

    def file(self, name: str, endings: Sequence[str]) -> Path:
        """Path of a plain file name; RefusedError for anything else."""
        if not PLAIN.fullmatch(name) or name != Path(name).name:
            raise RefusedError(
                f"{name[:80]!r} is no plain file name; use letters, digits, '_', '-' and '.'"
            )
        if not name.lower().endswith(tuple(endings)):
            raise RefusedError(f"{name!r}: the name must end with {' or '.join(endings)}")
        path = self.path / name
        if path.is_symlink() or path.resolve().parent != self.path:
            raise RefusedError(f"{name!r} is a link; studio follows none")
        if path.exists() and not path.is_file():
            raise RefusedError(f"{name!r} is no file")
        return path

    def names(self, endings: Sequence[str]) -> list[str]:
        """Names of the files that :meth:`file` accepts, sorted."""
        found = []
        for path in sorted(self.path.iterdir()):
            if path.name.lower().endswith(tuple(endings)) and path.is_file():
                try:
                    found.append(self.file(path.name, endings).name)
                except RefusedError:
                    continue
        return found[:MOST_LISTED]

    def holds(self, path: str | Path) -> bool:
        """Tell whether a path leads to something within the folder."""
        return Path(path).resolve().is_relative_to(self.path)
