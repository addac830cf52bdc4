"""Open a log by the ending of its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from dynsys.errors import LogError
from dynsys.model.readers.xml_input import PathLike
from problems.logs.align import aligned_npz
from problems.logs.ros import open_bag
from problems.logs.source import AbstractLog
from problems.logs.tables import CsvLog, NpzLog, ParquetLog

__all__ = ["FORMATS", "open_log"]

FORMATS = (".npz", ".csv", ".parquet", ".mcap")
"""Endings of the files that are read and written; folders are ROS 2 bags (read only)."""


def open_log(
    path: PathLike,
    *,
    topics: Mapping[str, str] | None = None,
    spool: PathLike | None = None,
) -> AbstractLog:
    """Open a log.

    Parameters
    ----------
    path : .npz, .csv, .parquet or .mcap file, or the folder of a ROS 2 bag.
    topics : for bags: sensor name to topic, where they differ.
    spool : for bags: folder for unpacked messages, a temporary one if None.

    Raises
    ------
    LogError
        if it is not there, damaged, of no known kind, or needs a package not installed.
    """
    file = Path(path)
    try:
        if not file.exists():
            raise LogError(f"{file}: no such log; check the path")
        if not (file.is_file() or file.is_dir()):
            raise LogError(f"{file}: neither a regular file nor a folder; refused")
    except (OSError, ValueError) as error:
        raise LogError(f"{str(file)[:200]}: cannot be read: {error.args[-1]}") from None
    if file.suffix == ".npz":
        return aligned_npz(NpzLog(file))
    if file.suffix == ".csv":
        return CsvLog(file)
    if file.suffix == ".parquet":
        return ParquetLog(file)
    if file.suffix == ".mcap" or file.is_dir():
        own = TemporaryDirectory(prefix="dynsys-bag-") if spool is None else None
        folder = Path(own.name if own else str(spool)) / "spool"
        return open_bag(file, folder, topics or {}, own)
    raise LogError(f"{file}: unknown kind of log; use {', '.join(FORMATS)} or a ROS 2 bag")
