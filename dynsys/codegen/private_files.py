"""Files that belong to this user alone, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from pathlib import Path

__all__ = ["CAREFULLY", "foreign_access", "remove_same", "write_whole"]

CAREFULLY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK if os.name == "posix" else 0
"""Flags to open with: no links are followed, no pipe is waited for."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of our own beside ``path``, flush it to the disk, rename it into place."""
    temporary = path.parent / f".{path.stem}.{os.getpid()}-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFULLY
    descriptor = os.open(temporary, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.utime(temporary, ns=(time.time_ns(),) * 2)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def remove_same(path: Path, info: os.stat_result) -> None:
    """Remove a broken file unless another process has replaced it meanwhile."""
    with contextlib.suppress(OSError):
        now = path.lstat()
        if (now.st_dev, now.st_ino) == (info.st_dev, info.st_ino):
            path.unlink()


def foreign_access(info: os.stat_result) -> str:
    """Why code from a file or folder must not be trusted; empty if it is ours alone."""
    if os.name != "posix":
        return ""
    if info.st_uid != os.geteuid():
        return f"belongs to another user (uid {info.st_uid})"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by other users"
    return ""
