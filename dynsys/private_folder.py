"""The folder where compiled code is kept between processes, of this user alone.

Whoever can write there can have code run: what others may write is not used.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["CACHE_OFF", "CACHE_VARIABLE", "default_folder", "foreign_access", "is_private"]

CACHE_VARIABLE = "DYNSYS_CACHE"
CACHE_OFF = frozenset({"off", "0", "no", "false"})


def default_folder() -> Path | None:
    """``$DYNSYS_CACHE`` or ``dynsys`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; None if off."""
    chosen = os.environ.get(CACHE_VARIABLE, "").strip()
    if chosen.lower() in CACHE_OFF:
        return None
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "dynsys"
    except RuntimeError:  # no home folder
        return None


def foreign_access(info: os.stat_result) -> str:
    """Why code from a file or folder must not be trusted; empty if it is ours alone."""
    if os.name != "posix":
        return ""
    if info.st_uid != os.geteuid():
        return f"belongs to another user (uid {info.st_uid})"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by other users"
    return ""


def is_private(folder: Path) -> bool:
    """Make a folder if there is none; whether it can be used and is this user's alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return not foreign_access(folder.stat())
    except OSError:
        return False
