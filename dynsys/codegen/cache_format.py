"""One cache entry as bytes, and fingerprints of what an entry was made from.

Layout of an entry (little-endian):

    magic (8)  version (4)  lengths of description, arrays, payload (8 each)  sha256 (32)
    description (JSON: metadata, and name, dtype and shape of each array)
    arrays (raw, one after the other)
    payload

The checksum covers the key, the lengths and the three sections, so an entry that was cut,
changed or renamed is recognised. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import KernelBuildError

__all__ = ["HEADER_SIZE", "Entry", "fingerprint", "pack", "section_lengths", "unpack"]

MAGIC = b"dynsysK\n"
VERSION = 1
_HEADER = struct.Struct("<8sIQQQ32s")
_LENGTHS = struct.Struct("<QQQ")
HEADER_SIZE = _HEADER.size
_STORED = frozenset("?bhilqBHILQfd")  # type codes of the same meaning on every machine


@final
@dataclass(frozen=True, eq=False)
class Entry:
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


def section_lengths(header: bytes) -> tuple[int, int, int] | None:
    """Lengths of description, arrays and payload; None if these bytes start no entry."""
    if len(header) < HEADER_SIZE:
        return None
    magic, version, description, arrays, payload, _ = _HEADER.unpack_from(header)
    return (description, arrays, payload) if (magic, version) == (MAGIC, VERSION) else None


def unpack(key: str, data: bytes) -> Entry | None:
    """Entry from its bytes; None if they are not what :func:`pack` wrote for this key."""
    lengths = section_lengths(data)
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
        dtype = np.dtype(str(code))
        if dtype.char not in _STORED or not isinstance(name, str):
            raise ValueError(f"array {name!r} of dtype {dtype}")
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


# ---- fingerprints ----------------------------------------------------------------------------


def fingerprint(*parts: Any) -> str:
    """sha256 (hex) of the parts: equal parts, equal fingerprint, on every machine.

    Parts are None, booleans, integers, floats, strings, bytes, NumPy scalars and arrays
    (extended precision included: all its bits count), and lists, tuples and mappings of these.
    Types, lengths, shapes and dtypes are part of it, so ("ab", "c") and ("a", "bc"), 1 and 1.0
    differ. The order of a mapping does not count.

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
    digest = hashlib.sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, part: Any) -> None:
    """Add one part: a type tag, a length, the content."""

    def add(tag: str, content: bytes) -> None:
        digest.update(f"{tag}{len(content)}:".encode())
        digest.update(content)

    if part is None:
        add("none", b"")
    elif isinstance(part, bool):
        add("bool", b"1" if part else b"0")
    elif isinstance(part, (np.ndarray, np.generic)):
        _feed_array(digest, np.asarray(part))
    elif isinstance(part, int):
        add("int", str(int(part)).encode())
    elif isinstance(part, float):
        add("float", struct.pack("<d", part))
    elif isinstance(part, str):
        add("str", part.encode("utf-8", "surrogatepass"))
    elif isinstance(part, (bytes, bytearray, memoryview)):
        add("bytes", bytes(part))
    elif isinstance(part, (list, tuple)):
        digest.update(f"sequence{len(part)}:".encode())
        for item in part:
            _feed(digest, item)
    elif isinstance(part, Mapping):
        digest.update(f"mapping{len(part)}:".encode())
        for item in sorted((fingerprint(key), fingerprint(part[key])) for key in part):
            _feed(digest, item)
    else:
        raise KernelBuildError(f"cannot fingerprint a {type(part).__name__}; give its fields")


def _feed_array(digest: Any, array: NDArray[Any]) -> None:
    digest.update(f"array{array.dtype.kind}{array.dtype.itemsize}{array.shape}:".encode())
    if array.dtype.kind in "US":
        _feed(digest, array.ravel().tolist())
    elif array.dtype == np.longdouble and array.dtype != np.float64:
        for piece in _exact_pieces(array):
            _feed_array(digest, piece)
    elif array.dtype.kind in "biuf" or array.dtype.char in "FD":
        digest.update(array.astype(array.dtype.newbyteorder("<"), order="C").tobytes())
    else:
        raise KernelBuildError(f"cannot fingerprint an array of dtype {array.dtype}")


def _exact_pieces(array: NDArray[Any]) -> list[NDArray[Any]]:
    """Exponent, and mantissa as a sum of doubles; raw bytes would include undefined padding."""
    finite = np.isfinite(array)
    rest, exponent = np.frexp(np.where(finite, array, 0))
    pieces: list[NDArray[Any]] = [np.where(finite, 0, array).astype(np.float64), exponent]
    for _ in range(3):
        pieces.append(rest.astype(np.float64))
        rest = rest - pieces[-1]
    return pieces
