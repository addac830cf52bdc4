"""Logs as files: opened and written by the ending of their name.

    .npz      one array per name               .csv, .parquet   one column per number
    .mcap     ROS 2 messages                   .mat             MATLAB, read only
    a folder with .mcap or .db3, or a .db3 file                 a ROS 2 bag, read only
    .rrd      a recording of rerun, written only

A file is written from chunks of rows, and is complete or absent. The same rows give the same
bytes (but for .rrd): no dates, no names of machines.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dynsys.errors import LogError
from dynsys.model.readers.xml_input import PathLike
from dynsys.resumable import content_digest, replacing
from dynsys.types import Array
from problems.labels import Group
from problems.logs.align import aligned_npz
from problems.logs.columns import Columns
from problems.logs.matlab import MatLog
from problems.logs.ros import open_bag
from problems.logs.source import AbstractLog, missing_library
from problems.logs.tables import CsvLog, NpzLog, ParquetLog
from problems.logs.write_bag import write_messages
from problems.logs.write_rerun import write_recording

__all__ = ["FORMATS", "check_output", "log_digest", "open_log", "write_log"]


# ---- reading --------------------------------------------------------------------------------


def open_log(
    path: PathLike,
    *,
    topics: Mapping[str, str] | None = None,
    columns: Columns | None = None,
    spool: PathLike | None = None,
) -> AbstractLog:
    """Open a log.

    Parameters
    ----------
    path : .npz, .csv, .parquet, .mat, .mcap or .db3 file, or the folder of a ROS 2 bag.
    topics : for bags: sensor name to topic, where they differ.
    columns : where the log has other names, units or orders.
    spool : for bags: folder for unpacked messages, of this bag and no other; a temporary one
        if None.

    Raises
    ------
    LogError
        if it is not there, damaged, of no known kind, or needs a package not installed.
    """
    given = columns or Columns()
    log = _opened(_checked(path), topics or {}, given, spool)
    try:
        return given.applied(log)
    except LogError:
        log.close()
        raise


def _opened(
    file: Path, topics: Mapping[str, str], columns: Columns, spool: PathLike | None
) -> AbstractLog:
    if file.is_file() and file.suffix in _TABLES:
        return _TABLES[file.suffix](file, columns)
    if file.suffix in BAGS or file.is_dir():
        own = TemporaryDirectory(prefix="dynsys-bag-") if spool is None else None
        folder = Path(own.name) / "spool" if own else Path(str(spool))
        return open_bag(file, folder, topics, own)
    kinds = ", ".join((*_TABLES, *BAGS))
    raise LogError(f"{file}: unknown kind of log; use {kinds} or the folder of a ROS 2 bag")


BAGS = (".mcap", ".db3")
_TABLES: Mapping[str, Callable[[Path, Columns], AbstractLog]] = {
    ".npz": lambda path, columns: aligned_npz(NpzLog(path), columns),
    ".csv": lambda path, _: CsvLog(path),
    ".parquet": lambda path, _: ParquetLog(path),
    ".mat": lambda path, _: MatLog(path),
}


def _checked(path: PathLike) -> Path:
    file = Path(path)
    try:
        if not file.exists():
            raise LogError(f"{file}: no such log; check the path")
        if not (file.is_file() or file.is_dir()):
            raise LogError(f"{file}: neither a regular file nor a folder; refused")
    except (OSError, ValueError) as error:
        raise LogError(f"{str(file)[:200]}: cannot be read: {error.args[-1]}") from None
    return file


def log_digest(path: PathLike) -> str:
    """SHA-256 (hex) of the bytes of a log; LogError if there is none."""
    try:
        return content_digest(_checked(path))
    except OSError as error:
        raise LogError(f"{path}: cannot be read: {error}") from None


# ---- writing --------------------------------------------------------------------------------


def check_output(path: PathLike, inputs: Sequence[PathLike] = ()) -> None:
    """Raise early where :func:`write_log` could not write, or would replace an input."""
    file = Path(path)
    here = file.resolve()
    for given in (Path(x).resolve() for x in inputs):
        if here == given:
            raise LogError(f"{file}: the output would replace what it is made from; rename it")
        if given in here.parents:
            raise LogError(f"{file}: the output would become part of the log {given}; move it")
    if file.suffix not in _WRITERS:
        raise LogError(f"{file}: unknown kind of log; use {', '.join(_WRITERS)}")
    if not file.parent.is_dir():
        raise LogError(f"{file}: there is no folder {file.parent}; make it")
    for library, extra in _NEEDS.get(file.suffix, ()):
        try:
            __import__(library)
        except ModuleNotFoundError:
            raise missing_library(file, library, extra) from None


def write_log(
    path: PathLike,
    groups: Sequence[Group],
    chunks: Iterable[Array],
    scratch: Path | None = None,
) -> None:
    """Write rows, chunk by chunk, as the kind of log that the name of the file asks for.

    Parameters
    ----------
    groups : what the columns of the rows are.
    chunks : rows (n, columns), iterated over more than once.
    scratch : folder on the same disk for the file until it is whole; None for its own.
    """
    check_output(path)
    file = Path(path)
    try:
        with replacing(file, scratch) as part:
            _WRITERS[file.suffix](part, groups, chunks)
    except OSError as error:
        raise LogError(f"{file}: cannot be written: {error}") from None


def _write_npz(path: Path, groups: Sequence[Group], chunks: Iterable[Array]) -> None:
    n = sum(len(rows) for rows in chunks)
    start = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for group in groups:
            width = len(group.columns)
            part = slice(start, start := start + width)
            shape = (n,) if (group.name,) == group.columns else (n, width)
            header = io.BytesIO()
            description = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(header, description)
            entry = zipfile.ZipInfo(f"{group.name}.npy")
            with archive.open(entry, "w", force_zip64=True) as stream:
                stream.write(header.getvalue())
                for rows in chunks:
                    stream.write(np.ascontiguousarray(rows[:, part], dtype="<f8").data)


def _write_csv(path: Path, groups: Sequence[Group], chunks: Iterable[Array]) -> None:
    columns = _columns(groups)
    line = ",".join(["%.17g"] * len(columns)) + "\n"
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(",".join(_quoted(name) for name in columns) + "\n")
        for rows in chunks:
            text = "".join([line % tuple(row) for row in rows.tolist()])
            stream.write(text.replace("nan", ""))


def _quoted(name: str) -> str:
    """Name of a column; quotes within quotes are written twice, as readers of CSV expect."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"' if "," in name or '"' in name else name


def _write_parquet(path: Path, groups: Sequence[Group], chunks: Iterable[Array]) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    columns = _columns(groups)
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in columns])
    with parquet.ParquetWriter(path, schema) as writer:
        for rows in chunks:
            arrays = [np.ascontiguousarray(rows[:, k]) for k in range(len(columns))]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _columns(groups: Sequence[Group]) -> list[str]:
    """All columns, side by side."""
    return [column for group in groups for column in group.columns]


_WRITERS: Mapping[str, Callable[[Path, Sequence[Group], Iterable[Array]], None]] = {
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".mcap": write_messages,
    ".rrd": write_recording,
}
_NEEDS = {
    ".parquet": (("pyarrow", "logs"),),
    ".mcap": (("mcap_ros2", "ros"),),
    ".rrd": (("rerun", "rerun"),),
}
FORMATS = tuple(ending for ending in _WRITERS if ending != ".rrd")
"""Endings of the files that are read and written; folders are ROS 2 bags (read only)."""
