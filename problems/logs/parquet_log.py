"""Logs as Parquet tables (with pyarrow): one column per number, row groups read as needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.types import Array, IntArray
from problems.logs.source import AbstractLog, LogError, missing_library

__all__ = ["ParquetLog"]


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
        metadata = self._file.metadata
        rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        self._starts: IntArray = np.cumsum([0, *rows])
        self.n_samples = int(self._starts[-1])
        self.widths = dict.fromkeys(self._file.schema_arrow.names, 1)

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        if stop <= start or not names:
            return {name: np.zeros((stop - start, 1)) for name in names}
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        table = self._file.read_row_groups(
            list(range(first, last)), columns=list(names), use_threads=False
        ).slice(start - self._starts[first], stop - start)
        return {name: self._numbers(table, name)[:, None] for name in names}

    def _numbers(self, table: Any, name: str) -> Array:
        import pyarrow

        try:
            column = table.column(name).cast(pyarrow.float64())
        except pyarrow.ArrowException as error:
            raise LogError(f"{self.path}: column {name!r} is not numeric: {error}") from None
        return np.asarray(column.to_numpy(), dtype=np.float64)

    def close(self) -> None:
        self._file.close()
