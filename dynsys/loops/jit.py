"""How the loops are compiled: on first use, without the GIL, kept on disk.

Compiled loops live in the folder of the kernel cache (``DYNSYS_CACHE``), below a name made from
the sources of this package: numba itself would not notice an edited callee in another file.
A damaged folder is removed. Without one that is this user's alone, they are compiled in every
process.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

from dynsys.kernel.cache import default_folder

__all__ = ["compiled", "inlined", "loop"]

Function = TypeVar("Function", bound=Callable[..., Any])
_njit: Any = numba.njit
_config: Any = numba.config
_FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
_INNER: dict[str, Any] = {**_FLAGS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inlined(function: Function) -> Function:
    """A helper that disappears into the loops that call it."""
    jitted: Function = _njit(forceinline=True, **_INNER)(function)
    return jitted


def loop(function: Function) -> Function:
    """A loop over bodies, compiled as part of what calls it."""
    jitted: Function = _njit(**_INNER)(function)
    return jitted


def compiled(function: Function, signature: Any) -> Function:
    """Compile for the given numba signature, or take the result of that from the disk."""
    folder = _folder()
    if folder is not None and _is_private(folder):
        try:
            with _numba_folder(folder):
                stored: Function = _njit(signature, cache=True, **_FLAGS)(function)
                return stored
        except Exception:  # full, read-only or damaged: pickles fail in every way
            shutil.rmtree(folder, ignore_errors=True)
    jitted: Function = _njit(signature, **_FLAGS)(function)
    return jitted


@cache
def _folder() -> Path | None:
    base = default_folder()
    if base is None:
        return None
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return base / f"loops-{digest.hexdigest()[:16]}"


def _is_private(folder: Path) -> bool:
    """Make the folder; whether it and the one above are this user's alone, as code must be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name != "posix":
            return True
        infos = [folder.stat(), folder.parent.stat()]
    except OSError:
        return False
    return all(i.st_uid == os.geteuid() and not i.st_mode & 0o022 for i in infos)


@contextmanager
def _numba_folder(folder: Path) -> Iterator[None]:
    """Let numba choose this folder while a function is decorated."""
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        _config.CACHE_DIR = before
