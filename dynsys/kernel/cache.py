"""Compiled kernels on disk: bytes under a key, safe with many processes, never trusted blindly.

One entry is one file in one folder. Writers write a file of their own and rename it into place,
so that a reader sees a whole entry or none, whatever is killed and whoever else writes. Readers
check length and checksum; what fails is removed and counts as a miss. When the folder cannot be
used, there is no caching: nothing is raised or printed, :meth:`KernelCache.status` says why.

What is trusted. The payload is machine code that the caller will execute. The checksum finds
accidents (cut files, flipped bits, renamed files), not attacks: anyone who can write the entry
can also write the checksum. So code is taken only from a folder and a file that belong to this
user and that nobody else may write; someone who can act as this user needs no cache to run
code. The caller still runs a few stored reference states (:attr:`Entry.arrays`), by every entry
of the code that it will use, before using a kernel. Not covered: damage that somebody signs
anew and that only shows at other states, or ends the process at once; code is run in no process
of its own.

Layout of an entry (little-endian):

    magic (8)  version (4)  lengths of description, arrays, payload (8 each)  sha256 (32)
    description (JSON: metadata, and name, dtype and shape of each array)
    arrays (raw, one after the other)
    payload

The checksum covers the key, the lengths and the three sections. Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import operator
import os
import re
import secrets
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError
from dynsys.plan.fingerprint import canonical_bytes
from dynsys.private_folder import (
    CACHE_OFF,
    CACHE_VARIABLE,
    default_folder,
    foreign_access,
    is_private,
)
from dynsys.resumable import in_turn

__all__ = [
    "CacheStatus",
    "Entry",
    "KernelCache",
    "default_folder",
    "fingerprint",
    "pack",
]

LIMIT_BYTES = 512 * 2**20
STALE_SECONDS = 3600.0
FEW_FILES = 256
"""A folder of at most so many files is looked through at every store."""
LOOK_SHARE = 64
"""A larger one, on average, each time that this part of the limit has been written."""
_KEY = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"[0-9a-f]{64}\.kernel")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.([0-9]+-[0-9a-f]+\.tmp|lock)")
CAREFULLY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK if os.name == "posix" else 0
"""Flags to open with: no links are followed, no pipe is waited for."""

MAGIC = b"dynsysK\n"
VERSION = 1
_HEADER = struct.Struct("<8sIQQQ32s")
_LENGTHS = struct.Struct("<QQQ")
HEADER_SIZE = _HEADER.size
_STORED = frozenset("?bhilqBHILQfd")  # type codes of the same meaning on every machine
_NAMES = frozenset(np.dtype(code).newbyteorder("<").str for code in _STORED)


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


@final
class KernelCache:
    """Entries on disk, the least recently used ones removed above ``limit_bytes``.

    Parameters
    ----------
    folder
        Where entries are; :func:`default_folder` if None. ``DYNSYS_CACHE=off`` switches the
        cache off in either case.
    limit_bytes
        Total size of all entries after a :meth:`put`; in a folder of some hundred entries and
        more, which is not looked through every time, about 2 % more at times.

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
        off = os.environ.get(CACHE_VARIABLE, "").strip().lower() in CACHE_OFF
        if folder is None or off:
            self.folder = default_folder()
        else:
            self.folder = Path(folder).expanduser().absolute()
        self.limit_bytes = limit_bytes
        self._problem: str | None = None
        if self.folder is None:
            self._problem = (
                f"switched off by {CACHE_VARIABLE}" if off else "there is no home folder"
            )
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
                with contextlib.suppress(OSError):
                    path.rmdir()  # an empty folder in its place
                _write_whole(path, data)
                self._problem = None
                if self._is_worth_a_look(len(data)):
                    self._trim(keep=path.name)
        except OSError as error:
            self._problem = f"cannot write to the cache folder: {error}"

    @contextlib.contextmanager
    def making(self, key: str) -> Iterator[bool]:
        """Make an entry when nobody else is at it; whether there is one by then.

        The others are threads and processes of this user, waited for with some patience.
        """
        path = self._path(key)
        with contextlib.ExitStack() as turn:
            if path is not None and is_private(path.parent):
                turn.enter_context(in_turn(path.parent / f".{key}.lock"))
            yield path is not None and path.exists()

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
                os.unlink(path)

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
        info = os.fstat(descriptor)
        regular = stat.S_ISREG(info.st_mode)
        wrong = foreign_access(info) if regular else "is not a regular file"
        if wrong:
            os.close(descriptor)
            self._rejected += 1
            self._problem = f"cache entry {path} {wrong}: not used"
            return None
        with open(descriptor, "rb") as file:
            try:
                entry = _checked(file, info.st_size, key)
            except OSError as error:
                self._problem = f"cannot read a cache entry: {error}"
                return None
        if entry is None:
            self._rejected += 1
            _remove_same(path, info)
        else:
            with contextlib.suppress(OSError):
                os.utime(path, ns=(time.time_ns(),) * 2)
        return entry

    def _folder_is_private(self, folder: Path) -> bool:
        wrong = foreign_access(folder.stat())
        if wrong:
            self._problem = (
                f"cache folder {folder} {wrong}: no code is loaded from there; "
                f"make it yours alone (chmod 700) or set {CACHE_VARIABLE} to another folder"
            )
        return not wrong

    def _files(self, *patterns: re.Pattern[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Files of the folder named like ours, with their stat; others do not concern us."""
        if self.folder is None:
            return
        try:
            with os.scandir(self.folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if any(pattern.fullmatch(entry.name) for pattern in patterns):
                with contextlib.suppress(OSError):
                    yield entry.path, entry.stat(follow_symlinks=False)

    def _is_worth_a_look(self, written: int) -> bool:
        """P(look) = written / (limit / 64) in a folder of many files; 1 if they are few.

        By chance, and not by a count: that would be one more file to share with other
        processes, to find damaged, and to lose on a disk that is full.
        """
        assert self.folder is not None
        many = False
        with contextlib.suppress(OSError), os.scandir(self.folder) as found:
            many = next(islice(found, FEW_FILES, None), None) is not None
        return not many or secrets.randbelow(max(1, self.limit_bytes // LOOK_SHARE)) < written

    def _trim(self, keep: str) -> None:
        """Remove least recently used entries above the limit, and temporaries an hour old."""
        now, entries, total = time.time(), [], 0
        for path, info in self._files(_ENTRY, _TEMPORARY):
            if _ENTRY.fullmatch(os.path.basename(path)):
                entries.append((info.st_mtime_ns, path, info.st_size))
                total += info.st_size
            elif abs(now - info.st_mtime) > STALE_SECONDS:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        if total <= self.limit_bytes:
            return
        for _, path, size in sorted(entries):
            if total <= self.limit_bytes:
                return
            if os.path.basename(path) != keep:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                total -= size


def _checked(file: Any, size: int, key: str) -> Entry | None:
    """Entry of an open file; the size is compared before anything large is read."""
    header = file.read(HEADER_SIZE)
    lengths = _section_lengths(header)
    if lengths is None or HEADER_SIZE + sum(lengths) != size:
        return None
    return unpack(key, header + file.read())


# ---- an entry as bytes -----------------------------------------------------------------------


class Entry(NamedTuple):
    """What was stored under ``key``: ``payload``, ``metadata`` (JSON values) and ``arrays``."""

    key: str
    payload: bytes
    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def pack(entry: Entry) -> bytes:
    """Bytes of an entry.

    Raises
    ------
    KernelBuildError
        If the metadata is not JSON, or an array is not of fixed-size numbers.
    """
    raw, described = [], []
    for name, value in entry.arrays.items():
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        if array.dtype.char not in _STORED:
            raise KernelBuildError(
                f"array {name!r} of a cache entry has dtype {array.dtype}; "
                "store booleans, integers, float32 or float64"
            )
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        described.append([name, array.dtype.str, list(array.shape)])
        raw.append(array.tobytes())
    try:
        text = json.dumps({"metadata": entry.metadata, "arrays": described})
    except (TypeError, ValueError) as error:
        raise KernelBuildError(
            f"metadata of a cache entry must be JSON values: {error}"
        ) from error
    sections = (text.encode(), b"".join(raw), entry.payload)
    lengths = tuple(map(len, sections))
    digest = _digest(entry.key, lengths, sections)
    return _HEADER.pack(MAGIC, VERSION, *lengths, digest) + b"".join(sections)


def _section_lengths(header: bytes) -> tuple[int, int, int] | None:
    """Lengths of description, arrays and payload; None if these bytes start no entry."""
    if len(header) < HEADER_SIZE:
        return None
    magic, version, description, arrays, payload, _ = _HEADER.unpack_from(header)
    return (description, arrays, payload) if (magic, version) == (MAGIC, VERSION) else None


def unpack(key: str, data: bytes) -> Entry | None:
    """Entry from its bytes; None if they are not what :func:`pack` wrote for this key."""
    lengths = _section_lengths(data)
    if lengths is None or HEADER_SIZE + sum(lengths) != len(data):
        return None
    ends = HEADER_SIZE + np.cumsum((0, *lengths))
    sections = [data[a:b] for a, b in pairwise(ends.tolist())]
    if _digest(key, lengths, sections) != data[HEADER_SIZE - 32 : HEADER_SIZE]:
        return None
    try:
        metadata, arrays = _described(sections[0], sections[1])
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        return None  # signed by somebody, but not by pack()
    return Entry(key, sections[2], metadata, arrays)


def _described(text: bytes, raw: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Metadata and arrays of an entry; any error means that :func:`pack` did not write it."""
    description = json.loads(text)
    arrays: dict[str, NDArray[Any]] = {}
    offset = 0
    for name, code, shape in description["arrays"]:
        if code not in _NAMES or not isinstance(name, str):
            raise ValueError(f"array {name!r} of dtype {code!r}")
        dtype = np.dtype(code)
        count = math.prod(operator.index(n) for n in shape)
        flat = np.frombuffer(raw, dtype=dtype, count=count, offset=offset)
        arrays[name] = flat.reshape(shape).astype(dtype.newbyteorder("="))
        offset += flat.nbytes
    if offset != len(raw) or not isinstance(description["metadata"], dict):
        raise ValueError("more numbers than described")
    return description["metadata"], arrays


def _digest(key: str, lengths: tuple[int, ...], sections: Any) -> bytes:
    digest = hashlib.sha256(key.encode() + _LENGTHS.pack(*lengths))
    for section in sections:
        digest.update(section)
    return digest.digest()


def fingerprint(*parts: Any) -> str:
    """sha256 (hex) of the parts: equal parts, equal fingerprint, on every machine.

    Parts are whatever :func:`~dynsys.plan.fingerprint.canonical_bytes` takes. Their lengths and
    shapes count, so that ("ab", "c") and ("a", "bc") differ; the order of a mapping does not.

    Raises
    ------
    KernelBuildError
        If a part is of another type.

    Examples
    --------
    >>> fingerprint("ab", "c") == fingerprint("a", "bc")
    False
    >>> fingerprint({"x": 1, "y": 2}) == fingerprint({"y": 2, "x": 1})
    True
    """
    try:
        return hashlib.sha256(canonical_bytes(parts)).hexdigest()
    except (TypeError, ValueError) as error:
        raise KernelBuildError(f"cannot make a fingerprint of it: {error}") from error


# ---- files written whole or not at all -----------------------------------------------------


def _write_whole(path: Path, data: bytes) -> None:
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


def _remove_same(path: Path, info: os.stat_result) -> None:
    """Remove a broken file unless another process has replaced it meanwhile."""
    with contextlib.suppress(OSError):
        now = path.lstat()
        if (now.st_dev, now.st_ino) == (info.st_dev, info.st_ino):
            path.unlink()
