"""Logs as Parquet tables (with pyarrow): one column per number, row groups read as needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.types import Array, IntArray
from problems.logs.source import AbstractLog, LogError, missing_library

__all__ = ["ParquetLog"]

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
        except (OSError, pyarrow.ArrowException) as error:
            raise LogError(f"{path}: not a readable Parquet file: {error}") from None
        names = self._file.schema_arrow.names
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
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
        self.widths = dict.fromkeys(self._file.schema_arrow.names, 1)

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
