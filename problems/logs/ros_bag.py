"""ROS 2 bags (MCAP files, folders with .mcap or .db3 files) as logs on the joints' times.

A bag is read once, message by message, into one plain file of float64 rows per topic (the
spool); from there any stretch is read and aligned without holding the bag in memory. Stamps are
those of the headers. The clock is the JointState stream with most samples.
"""

from __future__ import annotations

import array
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np

from dynsys.types import Array
from problems.logs.align import Stream
from problems.logs.aligned_log import AlignedLog
from problems.logs.mcap_limits import check_chunks
from problems.logs.ros_messages import READERS, stamp
from problems.logs.source import LogError, missing_library

__all__ = ["open_bag"]

INDEX = "streams.json"
BLOCK = 1 << 16


def open_bag(
    path: Path,
    spool: Path,
    topics: Mapping[str, str],
    folder: TemporaryDirectory[str] | None = None,
) -> AlignedLog:
    """Open a bag.

    Parameters
    ----------
    path : .mcap file or folder of a bag.
    spool : folder for the rows; reused if it already holds this bag's.
    topics : sensor (or free joint) name to topic, where they differ by more than a leading
        slash.
    folder : temporary folder that holds ``spool`` and goes with the log.
    """
    if not (spool / INDEX).is_file():
        try:
            _write_spool(path, spool)
        except OSError as error:
            raise LogError(f"{path}: cannot be unpacked into {spool}: {error}") from None
    streams: dict[str, Stream] = {}
    clocks: list[Array] = []
    for entry in json.loads((spool / INDEX).read_text(encoding="utf-8")):
        names = entry["names"]
        rows: Array = np.memmap(spool / entry["file"], dtype="<f8", mode="r").reshape(
            -1, 1 + len(names)
        )
        if entry["kind"] == "JointState":
            clocks.append(rows[:, 0])
        for k, name in enumerate(names, start=1):
            key = _name(entry["topic"], entry["kind"], name, topics)
            streams[key] = _stream(rows, k)
    if not clocks:
        raise LogError(f"{path}: no sensor_msgs/JointState messages; record /joint_states")
    return AlignedLog(path, max(clocks, key=len), streams, folder=folder)


def _stream(rows: Array, k: int) -> Stream:
    """Column k of a topic's rows, whose times are in column 0."""
    return Stream(rows[:, 0], 1, lambda start, stop: rows[start:stop, [k]])


def _name(topic: str, kind: str, name: str, topics: Mapping[str, str]) -> str:
    """Name of a number in the log: that of the sensor's row, of the joint's coordinate."""
    if kind in ("JointState", "NamedValues"):
        return name
    owner = next((key for key, value in topics.items() if value == topic), topic.lstrip("/"))
    if kind == "Odometry":
        part, bracket, index = name.partition("[")
        return f"{part}.{owner if owner in topics else 'root'}{bracket}{index}"
    return f"{owner}.{name}"


# ---- the spool -----------------------------------------------------------------------------


def _write_spool(path: Path, spool: Path) -> None:
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir(parents=True)
    files: dict[tuple[str, str, tuple[str, ...]], tuple[str, IO[bytes]]] = {}
    try:
        for topic, kind, message, logged in _messages(path):
            try:
                values = READERS[kind](message)
                row = array.array("d", [stamp(message, logged), *values.values()])
            except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
                raise LogError(
                    f"{path}: a message on {topic!r} is no {kind}: {error}"
                ) from None
            key = (topic, kind, tuple(values))
            if key not in files:
                name = f"{len(files)}.f8"
                files[key] = name, (spool / name).open("wb")
            row.tofile(files[key][1])
    finally:
        for _, stream in files.values():
            stream.close()
    index = []
    for (topic, kind, names), (file, _) in files.items():
        _sort_by_time(spool / file, 1 + len(names))
        index.append({"topic": topic, "kind": kind, "names": names, "file": file})
    part = spool / (INDEX + ".part")
    part.write_text(json.dumps(index), encoding="utf-8")
    os.replace(part, spool / INDEX)


def _sort_by_time(file: Path, width: int) -> None:
    """Put rows in the order of their stamps and drop repeated stamps, where need be."""
    rows: Array = np.memmap(file, dtype="<f8", mode="r").reshape(-1, width)
    time = np.asarray(rows[:, 0])
    if (np.diff(time) > 0).all():
        return
    order = np.unique(time, return_index=True)[1]
    part = file.with_suffix(".part")
    with part.open("wb") as stream:
        for start in range(0, len(order), BLOCK):
            rows[order[start : start + BLOCK]].tofile(stream)
    os.replace(part, file)


# ---- messages ------------------------------------------------------------------------------


def _messages(path: Path) -> Iterator[tuple[str, str, Any, int]]:
    """Topic, last word of the type, message and time of logging (ns) of what can be read."""
    if path.is_file():
        yield from _mcap_messages(path)
        return
    files = sorted(path.glob("*.mcap"))
    for file in files:
        yield from _mcap_messages(file)
    if not files:
        yield from _bag_messages(path)


def _mcap_messages(path: Path) -> Iterator[tuple[str, str, Any, int]]:
    try:
        from mcap.reader import make_reader
        from mcap_ros2.decoder import DecoderFactory
    except ModuleNotFoundError as error:
        raise missing_library(path, error.name or "mcap", "ros") from None
    try:
        with path.open("rb") as stream:
            reader = make_reader(stream, decoder_factories=[DecoderFactory()])
            summary = reader.get_summary()
            if summary is None:
                raise LogError(
                    f"{path}: has no summary section (not closed properly?); run"
                    " 'mcap recover' on it"
                )
            check_chunks(path, stream, summary.chunk_indexes)
            wanted = [
                channel.topic
                for channel in summary.channels.values()
                if channel.schema_id in summary.schemas
                and _kind(summary.schemas[channel.schema_id].name) in READERS
            ]
            if not wanted:
                return
            for schema, channel, message, decoded in reader.iter_decoded_messages(wanted):
                if schema is not None:
                    yield channel.topic, _kind(schema.name), decoded, message.log_time
    except (LogError, MemoryError):
        raise
    except Exception as error:  # whatever decoders say of damaged bytes
        raise LogError(f"{path}: not a readable MCAP file: {error}") from None


def _bag_messages(path: Path) -> Iterator[tuple[str, str, Any, int]]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ModuleNotFoundError:
        raise missing_library(path, "rosbags", "ros") from None
    try:
        store = get_typestore(Stores.ROS2_HUMBLE)
        with AnyReader([path], default_typestore=store) as reader:
            wanted = [c for c in reader.connections if _kind(c.msgtype) in READERS]
            for connection, logged, raw in reader.messages(connections=wanted):
                message = reader.deserialize(raw, connection.msgtype)
                yield connection.topic, _kind(connection.msgtype), message, logged
    except (LogError, MemoryError):
        raise
    except Exception as error:  # whatever SQLite and decoders say of damaged bytes
        raise LogError(f"{path}: not a readable ROS 2 bag: {error}") from None


def _kind(type_name: str) -> str:
    return type_name.rpartition("/")[2]
