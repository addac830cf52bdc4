"""Compiled kernels on disk: bytes under a key, safe with many processes, never trusted blindly.

One entry is one file in one folder. Writers write a file of their own and rename it into place,
so that a reader sees a whole entry or none, whatever is killed and whoever else writes. Readers
check length and checksum; what fails is removed and counts as a miss. When the folder cannot be
used, there is no caching: nothing is raised or printed, :meth:`KernelCache.status` says why.

What is trusted. The payload is machine code that the caller will execute. The checksum finds
accidents (cut files, flipped bits, renamed files), not attacks: anyone who can write the entry
can also write the checksum. So code is taken only from a folder and a file that belong to this
user and that nobody else may write; someone who can act as this user needs no cache to run
code. The caller still runs a few stored reference states (:attr:`Entry.arrays`) before using a
kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from numpy.typing import NDArray

from dynsys.codegen.cache_format import (
    HEADER_SIZE,
    Entry,
    fingerprint,
    pack,
    section_lengths,
    unpack,
)
from dynsys.codegen.private_files import CAREFULLY, foreign_access, remove_same, write_whole
from dynsys.errors import KernelBuildError

__all__ = ["CacheStatus", "Entry", "KernelCache", "default_folder", "fingerprint"]

VARIABLE = "DYNSYS_CACHE"
LIMIT_BYTES = 512 * 2**20
STALE_SECONDS = 3600.0
_KEY = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"[0-9a-f]{64}\.kernel")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.[0-9]+-[0-9a-f]+\.tmp")
_OFF = frozenset({"off", "0", "no", "false"})


@final
@dataclass(frozen=True)
class CacheStatus:
    """Whether the cache works (``folder`` and no ``problem``), and what it did so far."""

    folder: Path | None
    problem: str | None
    hits: int
    misses: int
    rejected: int

    def __str__(self) -> str:
        where = "off" if self.folder is None else f"in {self.folder}"
        counts = f"{self.hits} hits, {self.misses} misses, {self.rejected} rejected"
        return f"cache {where}, {counts}" + (f"; {self.problem}" if self.problem else "")


def default_folder() -> Path | None:
    """``$DYNSYS_CACHE`` or ``dynsys`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; None if off."""
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen.lower() in _OFF:
        return None
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        base = os.environ.get("XDG_CACHE_HOME", "")
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "dynsys"
    except RuntimeError:  # no home folder
        return None


@final
class KernelCache:
    """Entries on disk, the least recently used ones removed above ``limit_bytes``.

    Parameters
    ----------
    folder
        Where entries are; :func:`default_folder` if None. ``DYNSYS_CACHE=off`` switches the
        cache off in either case.
    limit_bytes
        Total size of all entries after a :meth:`put`.

    Examples
    --------
    >>> import tempfile
    >>> cache = KernelCache(Path(tempfile.mkdtemp()) / "kernels")
    >>> key = fingerprint("robot", "problem", 3)
    >>> cache.put(key, b"code", {"name": "forward"})
    >>> cache.get(key).payload
    b'code'
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        off = os.environ.get(VARIABLE, "").strip().lower() in _OFF
        if folder is None or off:
            self.folder = default_folder()
        else:
            self.folder = Path(folder).expanduser().absolute()
        self.limit_bytes = limit_bytes
        self._problem: str | None = None
        if self.folder is None:
            self._problem = f"switched off by {VARIABLE}" if off else "there is no home folder"
        self._hits = self._misses = self._rejected = 0

    def get(self, key: str) -> Entry | None:
        """Entry of a key, checked, or None; marks it as used now."""
        path = self._path(key)
        entry = self._read(path, key) if path is not None else None
        self._hits += entry is not None
        self._misses += entry is None
        return entry

    def put(
        self,
        key: str,
        payload: bytes,
        metadata: Mapping[str, Any] | None = None,
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Store an entry, replacing any under the same key; then remove what is too much.

        Raises
        ------
        KernelBuildError
            If the key is not a :func:`fingerprint`, the metadata not JSON, or an array not of
            plain numbers. A folder that cannot be written raises nothing, see :meth:`status`.
        """
        path = self._path(key)
        data = pack(Entry(key, bytes(payload), dict(metadata or {}), dict(arrays or {})))
        if path is None:
            return
        if len(data) > self.limit_bytes:
            self._problem = f"an entry of {len(data)} bytes is above the limit of the cache"
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder_is_private(path.parent):
                write_whole(path, data)
                self._problem = None
                self._trim(keep=path.name)
        except OSError as error:
            self._problem = f"cannot write to the cache folder: {error}"

    def remove(self, key: str) -> None:
        """Forget one entry; nothing happens if there is none."""
        path = self._path(key)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def clear(self) -> None:
        """Remove all entries and leftovers of killed writers; other files stay."""
        for path, _ in self._files(_ENTRY, _TEMPORARY):
            with contextlib.suppress(OSError):
                path.unlink()

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(info.st_size for _, info in self._files(_ENTRY))

    def status(self) -> CacheStatus:
        """What works, what does not and why, and the counts so far."""
        return CacheStatus(self.folder, self._problem, self._hits, self._misses, self._rejected)

    # ---- files ---------------------------------------------------------------------------

    def _path(self, key: str) -> Path | None:
        if not _KEY.fullmatch(key):
            raise KernelBuildError(f"a cache key is made by fingerprint(); got {key[:80]!r}")
        return None if self.folder is None else self.folder / f"{key}.kernel"

    def _read(self, path: Path, key: str) -> Entry | None:
        """Entry in a file that is ours alone; a broken one is removed."""
        try:
            if not self._folder_is_private(path.parent):
                return None
            descriptor = os.open(path, os.O_RDONLY | CAREFULLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._rejected += 1
            self._problem = f"cannot read a cache entry: {error}"
            return None
        with open(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            wrong = (
                "is not a regular file"
                if not stat.S_ISREG(info.st_mode)
                else foreign_access(info)
            )
            if wrong:
                self._rejected += 1
                self._problem = f"cache entry {path} {wrong}: not used"
                return None
            try:
                entry = _checked(file, info.st_size, key)
            except OSError as error:
                self._problem = f"cannot read a cache entry: {error}"
                return None
        if entry is None:
            self._rejected += 1
            remove_same(path, info)
        else:
            with contextlib.suppress(OSError):
                os.utime(path, ns=(time.time_ns(),) * 2)
        return entry

    def _folder_is_private(self, folder: Path) -> bool:
        wrong = foreign_access(folder.stat())
        if wrong:
            self._problem = (
                f"cache folder {folder} {wrong}: no code is loaded from there; "
                f"make it yours alone (chmod 700) or set {VARIABLE} to another folder"
            )
        return not wrong

    def _files(self, *patterns: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
        """Files of the folder named like ours, with their stat; others do not concern us."""
        if self.folder is None:
            return
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return
        for name in names:
            if any(pattern.fullmatch(name) for pattern in patterns):
                with contextlib.suppress(OSError):
                    yield self.folder / name, (self.folder / name).lstat()

    def _trim(self, keep: str) -> None:
        """Remove least recently used entries above the limit, and temporaries an hour old."""
        now = time.time()
        for path, info in self._files(_TEMPORARY):
            if abs(now - info.st_mtime) > STALE_SECONDS:
                with contextlib.suppress(OSError):
                    path.unlink()
        entries = list(self._files(_ENTRY))
        total = sum(info.st_size for _, info in entries)
        for path, info in sorted(entries, key=lambda item: item[1].st_mtime_ns):
            if total <= self.limit_bytes:
                return
            if path.name != keep:
                with contextlib.suppress(OSError):
                    path.unlink()
                total -= info.st_size


def _checked(file: Any, size: int, key: str) -> Entry | None:
    """Entry of an open file; the size is compared before anything large is read."""
    header = file.read(HEADER_SIZE)
    lengths = section_lengths(header)
    if lengths is None or HEADER_SIZE + sum(lengths) != size:
        return None
    return unpack(key, header + file.read())
