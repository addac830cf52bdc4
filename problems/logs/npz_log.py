"""Logs as NumPy archives (.npz): one member per array, first axis the samples.

Members are read straight from the archive, a stretch at a time; compressed ones are
decompressed on the way, so reading forwards is what costs least.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, final

import numpy as np

from dynsys.types import Array
from problems.logs.source import AbstractLog, LogError

__all__ = ["NpzLog"]

_BROKEN = (
    OSError,
    ValueError,
    EOFError,
    OverflowError,
    RuntimeError,  # encrypted, or an unknown compression
    SyntaxError,
    tokenize.TokenError,  # in the text of a header
    zipfile.BadZipFile,
    zlib.error,
)


@final
@dataclass(eq=False)
class _Member:
    """One array of the archive: a header, then rows of equal size in bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stream: IO[bytes] = field(repr=False)
    header: int

    @property
    def width(self) -> int:
        return int(np.prod(self.shape[1:]))

    def read(self, start: int, stop: int) -> Array:
        row = self.width * self.dtype.itemsize
        self.stream.seek(self.header + start * row)
        content = self.stream.read((stop - start) * row)
        rows = np.frombuffer(content, dtype=self.dtype).reshape(-1, self.width)
        return rows.astype(np.float64)


@final
class NpzLog(AbstractLog):
    """Arrays of an .npz file. The number of samples is that of ``q``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self._members = {
                name.removesuffix(".npy"): _open(self._archive, name)
                for name in self._archive.namelist()
            }
        except _BROKEN as error:
            raise LogError(f"{path}: not a readable .npz file: {error}") from None
        self._members = {k: m for k, m in self._members.items() if m.shape}
        lengths = {name: member.shape[0] for name, member in self._members.items()}
        self.lengths = lengths
        self.n_samples = lengths.get("q", max(lengths.values(), default=0))
        self.widths = {name: member.width for name, member in self._members.items()}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        try:
            found = {name: self._members[name].read(start, stop) for name in names}
        except _BROKEN as error:
            raise LogError(f"{self.path}: damaged: {error}") from None
        for name, rows in found.items():
            if len(rows) != stop - start:
                raise LogError(f"{self.path}: array {name!r} ends before sample {stop}")
        return found

    def close(self) -> None:
        for member in self._members.values():
            member.stream.close()
        self._archive.close()


def _open(archive: zipfile.ZipFile, name: str) -> _Member:
    stream = archive.open(name)
    version = np.lib.format.read_magic(stream)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "fiub":
        raise ValueError(f"array {name!r} holds {dtype}, not numbers")
    if fortran and len(shape) > 1:
        raise ValueError(
            f"array {name!r} is stored column by column; save numpy.ascontiguousarray of it"
        )
    return _Member(shape, dtype, stream, stream.tell())
