"""Logs as tables of one file: CSV, NumPy archives, Parquet. Any stretch is read on its own.

CSV      a line of column names, then one line per sample; empty cells are missing (NaN). Where
         there are no names, columns are called by their numbers, from 0. Cells are set apart
         by commas, or by semicolons (decimal commas then) or tabs. The file is scanned once
         for line ends, of which every `STRIDE`-th place is kept.
.npz     one member per array, first axis the samples, read straight from the archive;
         compressed ones are decompressed on the way, so reading forwards costs least.
Parquet  one column per number (with pyarrow), row groups read as needed; nulls are missing.
"""

from __future__ import annotations

import csv
import io
import re
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, final

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array, IntArray
from problems.logs.source import AbstractLog, missing_library

__all__ = ["CsvLog", "NpzLog", "ParquetLog"]


def _repeated(names: Sequence[str]) -> list[str]:
    """Names that stand more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


# ---- CSV ------------------------------------------------------------------------------------

STRIDE = 2048
MAX_HEADER = 1 << 22
BLOCK = 1 << 20
_EMPTY = re.compile(rb"(^|,)[ \t]*(?=,|\r?$)", re.M)


@final
class CsvLog(AbstractLog):
    """Columns of a CSV file, each an array of width 1."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as stream:
                header = stream.readline(MAX_HEADER)
                if len(header) == MAX_HEADER:
                    raise LogError(f"{path}, line 1: longer than {MAX_HEADER} bytes; refused")
                self._delimiter = _delimiter(header)
                first = header.decode("utf-8-sig")
                names = next(csv.reader([first], delimiter=self._delimiter), [])
                self._first_line = 2
                if names and all(map(_is_number, names)):  # no names: numbers from the start
                    names, self._first_line = [str(k) for k in range(len(names))], 1
                    stream.seek(0)
                self._offsets, self.n_samples = _scan(stream)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise LogError(f"{path}: cannot be read: {error}") from None
        self._columns = [name.strip() for name in names]
        repeated = _repeated(self._columns)
        if not names or repeated:
            what = f"the column {repeated[0]!r} appears twice" if repeated else "no header"
            raise LogError(f"{path}, line 1: {what}; name every column once")
        self.widths = dict.fromkeys(self._columns, 1)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        table = self._rows(start, stop)
        return {name: table[:, [self._columns.index(name)]] for name in names}

    def _rows(self, start: int, stop: int) -> Array:
        first = start // STRIDE
        last = -(-stop // STRIDE)
        with self.path.open("rb") as stream:
            stream.seek(self._offsets[first])
            end = self._offsets[last] if last < len(self._offsets) else -1
            content = stream.read() if end < 0 else stream.read(end - self._offsets[first])
        lines = content.split(b"\n")[start - first * STRIDE : stop - first * STRIDE]
        if self._delimiter == ";":
            lines = [line.replace(b",", b".").replace(b";", b",") for line in lines]
        elif self._delimiter == "\t":
            lines = [line.replace(b"\t", b",") for line in lines]
        if not lines:
            return np.zeros((0, len(self._columns)))
        for k, line in enumerate(lines):
            cells = line.count(b",") + 1 if line.strip() else 0
            if cells != len(self._columns) and not (cells == 0 and len(self._columns) == 1):
                place = f"{self.path}, line {start + k + self._first_line}"
                raise LogError(f"{place}: {cells} cells, not {len(self._columns)}")
        filled = [_EMPTY.sub(rb"\1nan", line) if _has_gap(line) else line for line in lines]
        text = io.StringIO(b"\n".join(filled).decode("ascii", "replace"))
        try:
            return np.loadtxt(text, delimiter=",", ndmin=2, comments=None)
        except ValueError:
            raise self._diagnose(filled, start) from None

    def _diagnose(self, lines: list[bytes], start: int) -> LogError:
        for k, line in enumerate(lines):
            cells = line.decode("ascii", "replace").rstrip("\r").split(",")
            place = f"{self.path}, line {start + k + self._first_line}"
            for name, cell in zip(self._columns, cells, strict=True):
                try:
                    float(cell)
                except ValueError:
                    return LogError(f"{place}: {name} is {cell!r}, not a number")
        return LogError(f"{self.path}: cannot be parsed near line {start + self._first_line}")


def _delimiter(header: bytes) -> str:
    """What sets cells apart: a semicolon or a tab if the first line has one, else a comma."""
    return ";" if b";" in header else "\t" if b"\t" in header and b"," not in header else ","


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return not cell.strip()
    return True


def _has_gap(line: bytes) -> bool:
    """Whether a cell is empty; a blank line is an empty cell of its only column."""
    bare = line.strip()
    return (
        not bare
        or b",," in line
        or bare.startswith(b",")
        or bare.endswith(b",")
        or b", ," in line
    )


def _scan(stream: io.BufferedReader) -> tuple[list[int], int]:
    """Byte offset of every STRIDE-th line from here on, and the number of lines."""
    position = stream.tell()
    offsets, count, ends_open = [position], 0, False
    while block := stream.read(BLOCK):
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
        for k in range(-(count + 1) % STRIDE, len(ends), STRIDE):
            offsets.append(position + int(ends[k]) + 1)
        count += len(ends)
        position += len(block)
        ends_open = not block.endswith(b"\n")
    return offsets, count + ends_open


# ---- .npz ------------------------------------------------------------------------------------

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
    """One array of the archive: a header, then rows of equal size in bytes.

    What is stored column by column is read as a whole, once.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stream: IO[bytes] = field(repr=False)
    header: int
    by_columns: bool = False

    @property
    def width(self) -> int:
        return int(np.prod(self.shape[1:]))

    @cached_property
    def _turned(self) -> Array:
        self.stream.seek(self.header)
        flat = np.frombuffer(self.stream.read(), dtype=self.dtype)
        return flat.reshape(self.shape, order="F").reshape(-1, self.width).astype(np.float64)

    def read(self, start: int, stop: int) -> Array:
        if self.by_columns:
            return self._turned[start:stop]
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
            names = [name.removesuffix(".npy") for name in self._archive.namelist()]
            if repeated := _repeated(names):
                raise LogError(f"{path}: the array {repeated[0]!r} appears twice; keep one")
            self._members = {
                name.removesuffix(".npy"): _open(self._archive, name)
                for name in self._archive.namelist()
            }
        except _BROKEN as error:
            raise LogError(f"{path}: not a readable .npz file: {error}") from None
        self._members = {k: m for k, m in self._members.items() if m.shape}
        self.lengths = {name: member.shape[0] for name, member in self._members.items()}
        self.n_samples = self.lengths.get("q", max(self.lengths.values(), default=0))
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
    form = np.lib.format
    first = form.read_magic(stream) == (1, 0)
    read = form.read_array_header_1_0 if first else form.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.kind not in "fiub":
        raise ValueError(f"array {name!r} holds {dtype}, not numbers")
    return _Member(shape, dtype, stream, stream.tell(), fortran and len(shape) > 1)


# ---- Parquet --------------------------------------------------------------------------------

MAX_GROUP_ROWS = 2**24
"""Most rows of a row group, which is read as a whole, a column at a time."""


@final
class ParquetLog(AbstractLog):
    """Columns of a Parquet file, each an array of width 1; nulls are missing values (NaN)."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ModuleNotFoundError:
            raise missing_library(path, "pyarrow") from None
        self.path = path
        try:
            self._file: Any = parquet.ParquetFile(path, memory_map=True)
            names = self._file.schema_arrow.names
        except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
            raise LogError(f"{path}: not a readable Parquet file: {error}") from None
        if repeated := _repeated(names):
            raise LogError(f"{path}: the column {repeated[0]!r} appears twice; rename one")
        metadata = self._file.metadata
        rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        if max(rows, default=0) > MAX_GROUP_ROWS:
            raise LogError(
                f"{path}: a row group of {max(rows)} rows; write it with row_group_size="
                f"{MAX_GROUP_ROWS} at most"
            )
        self._starts: IntArray = np.cumsum([0, *rows])
        self.n_samples = int(self._starts[-1])
        self.widths = dict.fromkeys(names, 1)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        if stop <= start or not names:
            return {name: np.zeros((stop - start, 1)) for name in names}
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        groups, offset = list(range(first, last)), start - int(self._starts[first])
        return {
            name: self._numbers(groups, name, offset, stop - start)[:, None] for name in names
        }

    def _numbers(self, groups: list[int], name: str, start: int, count: int) -> Array:
        """``count`` numbers of a column, counted from ``start`` in some row groups."""
        import pyarrow

        try:
            table = self._file.read_row_groups(groups, columns=[name], use_threads=False)
            column = table.slice(start, count).column(name).cast(pyarrow.float64())
            numbers = np.asarray(column.to_numpy(), dtype=np.float64)
        except pyarrow.ArrowInvalid as error:
            raise LogError(f"{self.path}: column {name!r} is not numeric: {error}") from None
        except (OSError, LookupError, ValueError, pyarrow.ArrowException) as error:
            raise LogError(f"{self.path}: column {name!r} is damaged: {error}") from None
        if len(numbers) != count:
            raise LogError(f"{self.path}: column {name!r} is damaged: it ends too early")
        return numbers

    def close(self) -> None:
        self._file.close()
