"""Logs as CSV tables: a line of column names, then one line per sample.

The file is scanned once for line ends (every `STRIDE`-th place is kept), then any stretch is
parsed on its own. Empty cells are missing values (NaN).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import final

import numpy as np

from dynsys.types import Array
from problems.logs.source import AbstractLog, LogError

__all__ = ["CsvLog"]

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
                self._offsets, self.n_samples = _scan(stream)
            names = next(csv.reader([header.decode("utf-8-sig")]), [])
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise LogError(f"{path}: cannot be read: {error}") from None
        self._columns = [name.strip() for name in names]
        repeated = {name for name, count in Counter(self._columns).items() if count > 1}
        if not names or repeated:
            what = f"the column {repeated.pop()!r} appears twice" if repeated else "no header"
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
        if not lines:
            return np.zeros((0, len(self._columns)))
        for k, line in enumerate(lines):
            cells = line.count(b",") + 1 if line.strip() else 0
            if cells != len(self._columns) and not (cells == 0 and len(self._columns) == 1):
                place = f"{self.path}, line {start + k + 2}"
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
            place = f"{self.path}, line {start + k + 2}"
            for name, cell in zip(self._columns, cells, strict=True):
                try:
                    float(cell)
                except ValueError:
                    return LogError(f"{place}: {name} is {cell!r}, not a number")
        return LogError(f"{self.path}: cannot be parsed near line {start + 2}")


def _has_gap(line: bytes) -> bool:
    return (
        b",," in line or line.startswith(b",") or line.rstrip().endswith(b",") or b", ," in line
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
