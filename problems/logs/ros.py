"""ROS 2 bags: MCAP and .db3 files, folders with such, read as logs.

A bag is read once, message by message, into one plain file of float64 rows per topic (the
spool); from there any stretch is read and aligned, on the times of the joints, without holding
the bag in memory. Stamps are those of the headers. The clock is the JointState stream with most
samples. What a message holds, by name, both ways:

| message              | names                                                               |
|----------------------|---------------------------------------------------------------------|
| JointState           | ``q.JOINT``, ``qd.JOINT``, ``effort.JOINT``                         |
| Imu                  | ``ax ay az`` (linear acceleration), ``wx wy wz`` (angular velocity) |
| WrenchStamped        | ``fx fy fz tx ty tz``                                               |
| AccelStamped         | ``ax ay az``, ``wdx wdy wdz``                                       |
| Odometry             | pose and twist of the free joint, in the order of q and qd          |
| Float64              | one number that no other message has; read from files of our own    |
| dynsys NamedValues   | names of its own; in files of older versions, read only             |

The last part of a name is that of the sensor's row, so a load-cell plate reads its ``tx ty fz``
from a WrenchStamped, an accelerometer its ``ax ay az`` from an Imu.

A file of our own (``problems.logs.write_bag``) has in its metadata ``dynsys.columns`` what
every number is called, which then goes before the names above.
"""

from __future__ import annotations

import array
import io
import json
import os
import shutil
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple, final

import numpy as np

from dynsys.errors import LogError
from dynsys.resumable import content_digest, replacing
from dynsys.types import Array
from problems.logs.align import AlignedLog, Rotation, Stream
from problems.logs.source import missing_library

__all__ = [
    "COLUMNS",
    "DEFINITIONS",
    "FLOAT",
    "JOINT_STATE",
    "MAX_CHUNK",
    "ODOMETRY",
    "OURS",
    "VECTORS",
    "build_message",
    "check_chunks",
    "open_bag",
]

INDEX = "streams.json"
NAN = float("nan")
OURS = "/dynsys/"
"""Namespace of estimates, away from the topics of the robot."""
COLUMNS = "dynsys.columns"
"""Metadata of a file: by topic, the names in its messages and ours for them, as JSON."""
BLOCK = 1 << 16


# ---- messages as named numbers, both ways ---------------------------------------------------

NAMED_VALUES = "dynsys_msgs/msg/NamedValues"
JOINT_STATE, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
FLOAT = "std_msgs/msg/Float64"
JOINT_FIELDS = {"q": "position", "qd": "velocity", "effort": "effort"}
"""Fields of a JointState by what the log calls them."""
VECTORS: Mapping[str, Mapping[str, str]] = {
    "sensor_msgs/msg/Imu": {
        "linear_acceleration": "ax ay az",
        "angular_velocity": "wx wy wz",
    },
    "geometry_msgs/msg/WrenchStamped": {
        "wrench.force": "fx fy fz",
        "wrench.torque": "tx ty tz",
    },
    "geometry_msgs/msg/AccelStamped": {
        "accel.linear": "ax ay az",
        "accel.angular": "wdx wdy wdz",
    },
    ODOMETRY: {
        "pose.pose.position": "q[0] q[1] q[2]",
        "pose.pose.orientation": "q[3] q[4] q[5] q[6]",
        "twist.twist.angular": "qd[0] qd[1] qd[2]",
        "twist.twist.linear": "qd[3] qd[4] qd[5]",
    },
}
"""By message: where its vectors are, and the names of their x y z, or of x y z w."""
KINDS = {kind.rpartition("/")[2]: kind for kind in (*VECTORS, JOINT_STATE, FLOAT, NAMED_VALUES)}
"""Messages that are read, by the last word of their type."""

HEADER = "std_msgs/Header header, "
FIELDS = {
    JOINT_STATE: HEADER
    + "string[] name, float64[] position, float64[] velocity, float64[] effort",
    "sensor_msgs/msg/Imu": HEADER + "geometry_msgs/Quaternion orientation,"
    " float64[9] orientation_covariance, geometry_msgs/Vector3 angular_velocity,"
    " float64[9] angular_velocity_covariance, geometry_msgs/Vector3 linear_acceleration,"
    " float64[9] linear_acceleration_covariance",
    "geometry_msgs/msg/WrenchStamped": HEADER + "geometry_msgs/Wrench wrench",
    "geometry_msgs/msg/AccelStamped": HEADER + "geometry_msgs/Accel accel",
    ODOMETRY: HEADER + "string child_frame_id, geometry_msgs/PoseWithCovariance pose,"
    " geometry_msgs/TwistWithCovariance twist",
    FLOAT: "float64 data",
}
"""Fields of every message that is written; read messages carry their own."""
PARTS = {
    "std_msgs/Header": "builtin_interfaces/Time stamp, string frame_id",
    "builtin_interfaces/Time": "int32 sec, uint32 nanosec",
    "geometry_msgs/Wrench": "geometry_msgs/Vector3 force, geometry_msgs/Vector3 torque",
    "geometry_msgs/Accel": "geometry_msgs/Vector3 linear, geometry_msgs/Vector3 angular",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose, float64[36] covariance",
    "geometry_msgs/TwistWithCovariance": "geometry_msgs/Twist twist, float64[36] covariance",
    "geometry_msgs/Pose": "geometry_msgs/Point position, geometry_msgs/Quaternion orientation",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear, geometry_msgs/Vector3 angular",
    "geometry_msgs/Point": "float64 x, float64 y, float64 z",
    "geometry_msgs/Quaternion": "float64 x, float64 y, float64 z, float64 w",
    "geometry_msgs/Vector3": "float64 x, float64 y, float64 z",
}
"""Fields of the types within messages; none comes before one that uses it."""


def _definition(fields: str) -> str:
    """Text of a message's definition: its fields, then those of every type within it."""
    used, text = fields, ""
    for name, parts in PARTS.items():
        if f"{name} " in used:
            used += f", {parts}"
            text += f"{'=' * 80}\nMSG: {name}\n" + "".join(_lines(parts))
    return "".join(_lines(fields)) + text


def _lines(fields: str) -> list[str]:
    return [f"{field}\n" for field in fields.split(", ")]


DEFINITIONS = {kind: _definition(fields) for kind, fields in FIELDS.items()}


def _values(kind: str, message: Any) -> dict[str, float]:
    """Names and numbers of a message."""
    if kind == FLOAT:
        return {"data": float(message.data)}
    if kind == NAMED_VALUES:
        return dict(zip(message.names, map(float, message.values), strict=True))
    if kind == JOINT_STATE:
        return {
            f"{prefix}.{joint}": float(value)
            for prefix, field in JOINT_FIELDS.items()
            for joint, value in zip(message.name, getattr(message, field), strict=False)
        }
    return {
        name: getattr(attrgetter(path)(message), axis)
        for path, names in VECTORS[kind].items()
        for axis, name in zip("xyzw", names.split(), strict=False)
    }


def _stamp(kind: str, message: Any, logged: int) -> float:
    """Seconds of a message: its header's stamp, or when it was logged (ns) if none or zero."""
    if kind == FLOAT:
        return logged / 1e9
    own = message.header.stamp
    nanoseconds = int(own.sec) * 1_000_000_000 + int(own.nanosec)
    return (nanoseconds or logged) / 1e9


def build_message(
    kind: str, time: float, values: Mapping[str, float], frame: str = ""
) -> dict[str, Any]:
    """Message of a kind from seconds and named numbers; fields left out are written as zero.

    The fields of a JointState are empty or hold every joint: NaN where one has no number.
    """
    if kind == FLOAT:
        return dict(values)
    sec, nanosec = divmod(round(time * 1e9), 1_000_000_000)
    stamp = {"sec": sec, "nanosec": nanosec}
    message: dict[str, Any] = {"header": {"stamp": stamp, "frame_id": frame}}
    if kind == JOINT_STATE:
        message["name"] = list(dict.fromkeys(name.partition(".")[2] for name in values))
        for prefix, field in JOINT_FIELDS.items():
            if any(name.startswith(f"{prefix}.") for name in values):
                message[field] = [values.get(f"{prefix}.{j}", NAN) for j in message["name"]]
        return message
    for path, names in VECTORS[kind].items():
        *outer, last = path.split(".")
        place = message
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = {axis: values[n] for axis, n in zip("xyzw", names.split(), strict=False)}
    if kind.endswith("Imu"):  # which has no orientation to tell: so says the first covariance
        message["orientation"] = {"w": 1.0}
        message["orientation_covariance"] = [-1.0] + [0.0] * 8
    return message


# ---- reading --------------------------------------------------------------------------------


def open_bag(
    path: Path,
    spool: Path,
    topics: Mapping[str, str],
    folder: TemporaryDirectory[str] | None = None,
) -> AlignedLog:
    """Open a bag.

    Parameters
    ----------
    path : .mcap or .db3 file, or folder of a bag.
    spool : folder for the rows; reused if it already holds this bag's, whole.
    topics : sensor (or free joint) name to topic, where they differ by more than a leading
        slash.
    folder : temporary folder that holds ``spool`` and goes with the log.
    """
    index = _index(spool)
    if index is None:
        try:
            _write_spool(path, spool)
        except OSError as error:
            raise LogError(f"{path}: cannot be unpacked into {spool}: {error}") from None
        index = _index(spool)
        if index is None:
            raise LogError(f"{path}: what is unpacked into {spool} is damaged at once")
    streams: dict[str, Stream] = {}
    clocks: list[Array] = []
    others: list[Array] = []
    for entry in index:
        names = entry["names"]
        rows: Array = np.memmap(spool / entry["file"], dtype="<f8", mode="r").reshape(
            -1, 1 + len(names)
        )
        if entry["kind"] == JOINT_STATE:
            clocks.append(rows[:, 0])
        elif entry["own"]:
            others.append(rows[:, 0])
        is_named = entry["own"] and entry["topic"] not in topics.values()
        for k, name in enumerate(names):
            key = _name(entry["topic"], entry["kind"], name, topics)
            key = entry["own"][name] if is_named else key
            streams[key] = _stream(rows, k, _rotations(entry["kind"], names))
    if not (clocks or others):
        raise LogError(f"{path}: no sensor_msgs/JointState messages; record /joint_states")
    return AlignedLog(path, max(clocks or others, key=len), streams, folder=folder)


def _stream(rows: Array, k: int, rotations: tuple[Rotation, ...]) -> Stream:
    """Number k of a topic's messages; rows are their times and numbers."""
    inside = [r for r in rotations if k in range(r.columns.start, r.columns.stop)]
    if not inside:
        return Stream(rows[:, 0], 1, lambda start, stop: rows[start:stop, [1 + k]])
    first, end = inside[0].columns.start, inside[0].columns.stop
    return Stream(
        rows[:, 0],
        1,
        lambda start, stop: rows[start:stop, 1 + first : 1 + end],
        (replace(inside[0], columns=slice(0, end - first)),),
        slice(k - first, k - first + 1),
    )


def _rotations(kind: str, names: Sequence[str]) -> tuple[Rotation, ...]:
    """Where the numbers of a message are the quaternion of a pose, or angles of joints."""
    if kind == JOINT_STATE:
        places = (k for k, name in enumerate(names) if name.startswith("q."))
        return tuple(Rotation(slice(k, k + 1), 2 * np.pi, wraps=True) for k in places)
    turned = VECTORS[ODOMETRY]["pose.pose.orientation"].split()
    if kind != ODOMETRY or not set(turned) <= set(names):
        return ()
    first = names.index(turned[0])
    return (Rotation(slice(first, first + len(turned))),)


def _name(topic: str, kind: str, name: str, topics: Mapping[str, str]) -> str:
    """Name of a number in the log: that of the sensor's row, of the joint's coordinate."""
    if kind == JOINT_STATE and topic.startswith(OURS):  # whose metadata are lost: no readings
        return f"{topic[1:]}.{name}"
    if kind in (JOINT_STATE, NAMED_VALUES):
        return name
    owner = next((key for key, value in topics.items() if value == topic), topic.lstrip("/"))
    if kind == ODOMETRY:
        part, bracket, index = name.partition("[")
        return f"{part}.{owner if owner in topics else 'root'}{bracket}{index}"
    return f"{owner}.{name}"


# ---- the spool ------------------------------------------------------------------------------


def _index(spool: Path) -> list[dict[str, Any]] | None:
    """What a spool holds, None if it is not there or not as it was written."""
    try:
        index = json.loads((spool / INDEX).read_text(encoding="utf-8"))
        whole = all(content_digest(spool / entry["file"]) == entry["sha256"] for entry in index)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return index if whole else None


def _write_spool(path: Path, target: Path) -> None:
    """Unpack a bag into a folder of our own, which then takes the place of what is there."""
    spool = target.with_name(f"{target.name}.{os.getpid()}.part")
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir(parents=True)
    files: dict[tuple[str, str, tuple[str, ...]], tuple[str, IO[bytes]]] = {}
    own: dict[tuple[str, str, tuple[str, ...]], Mapping[str, str]] = {}
    try:
        for topic, kind, message, logged, columns in _messages(path):
            try:
                values = _values(kind, message)
                if columns:
                    values = {name: x for name, x in values.items() if name in columns}
                row = array.array("d", [_stamp(kind, message, logged), *values.values()])
            except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
                raise LogError(
                    f"{path}: a message on {topic!r} is no {kind.rpartition('/')[2]}: {error}"
                ) from None
            key = (topic, kind, tuple(values))
            if key not in files:
                name = f"{len(files)}.f8"
                files[key] = name, (spool / name).open("wb")
                own[key] = columns
            row.tofile(files[key][1])
    finally:
        for _, stream in files.values():
            stream.close()
    index = []
    for key, (file, _) in files.items():
        topic, kind, names = key
        _sort_by_time(spool / file, 1 + len(names))
        digest = content_digest(spool / file)
        entry = {"topic": topic, "kind": kind, "names": names, "file": file, "sha256": digest}
        index.append({**entry, "own": own[key]})
    (spool / INDEX).write_text(json.dumps(index), encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    with suppress(OSError):  # another process was first: its spool is as good
        spool.rename(target)
    shutil.rmtree(spool, ignore_errors=True)


def _sort_by_time(file: Path, width: int) -> None:
    """Put rows in the order of their stamps and drop repeated stamps, where need be."""
    rows: Array = np.memmap(file, dtype="<f8", mode="r").reshape(-1, width)
    time = np.asarray(rows[:, 0])
    if (np.diff(time) > 0).all():
        return
    order = np.unique(time, return_index=True)[1]
    with replacing(file) as part, part.open("wb") as stream:
        for start in range(0, len(order), BLOCK):
            rows[order[start : start + BLOCK]].tofile(stream)


class _Message(NamedTuple):
    """A message that can be read, when it was logged (ns), and our own names of its numbers."""

    topic: str
    kind: str
    content: Any
    logged: int
    columns: Mapping[str, str]


def _messages(path: Path) -> Iterator[_Message]:
    if path.is_file():
        yield from _database_messages(path) if path.suffix == ".db3" else _mcap_messages(path)
        return
    files, described = sorted(path.glob("*.mcap")), (path / "metadata.yaml").is_file()
    for file in files:
        yield from _mcap_messages(file)
    if not files and not described:
        for file in sorted(path.glob("*.db3")):
            yield from _database_messages(file)
    elif not files:
        yield from _bag_messages(path)


@final
class _WithinFile(io.BufferedReader):
    """A file that is asked for no more than it has left: damaged lengths take no memory."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._size = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._size - self.tell(), 0)
        return super().read(left if size is None or size < 0 else min(size, left))


def _mcap_messages(path: Path) -> Iterator[_Message]:
    try:
        from mcap.reader import make_reader
        from mcap_ros2.decoder import DecoderFactory
    except ModuleNotFoundError as error:
        raise missing_library(path, error.name or "mcap", "ros") from None
    try:
        with _WithinFile(path) as stream:
            reader = make_reader(stream, decoder_factories=[DecoderFactory()])
            summary = reader.get_summary()
            if summary is None:
                raise LogError(
                    f"{path}: has no summary section (not closed properly?); run"
                    " 'mcap recover' on it"
                )
            check_chunks(path, stream, summary.chunk_indexes)
            own = _own_columns(path, reader.iter_metadata())
            wanted = [
                channel.topic
                for channel in summary.channels.values()
                if channel.schema_id in summary.schemas
                and _kind(summary.schemas[channel.schema_id].name, channel.topic in own)
            ]
            if not wanted:
                return
            for schema, channel, message, decoded in reader.iter_decoded_messages(wanted):
                topic, logged = channel.topic, message.log_time
                if schema is not None and (kind := _kind(schema.name, topic in own)):
                    yield _Message(topic, kind, decoded, logged, own.get(topic, {}))
    except (LogError, MemoryError):
        raise
    except Exception as error:  # whatever decoders say of damaged bytes
        raise LogError(f"{path}: not a readable MCAP file: {error}") from None


def _own_columns(path: Path, metadata: Iterable[Any]) -> dict[str, dict[str, str]]:
    """By topic: what the numbers of its messages are called, where the file is one of ours."""
    own = {}
    for record in metadata:
        if record.name == COLUMNS:
            for topic, text in record.metadata.items():
                names = json.loads(text)
                if not isinstance(names, dict) or not all(
                    isinstance(name, str) for name in names.values()
                ):
                    raise LogError(f"{path}: metadata {COLUMNS!r} of {topic!r} are damaged")
                own[topic] = names
    return own


def _bag_messages(path: Path) -> Iterator[_Message]:
    try:
        from rosbags.highlevel import AnyReader
        from rosbags.typesys import Stores, get_typestore
    except ModuleNotFoundError:
        raise missing_library(path, "rosbags", "ros") from None
    try:
        store = get_typestore(Stores.ROS2_HUMBLE)
        with AnyReader([path], default_typestore=store) as reader:
            wanted = [c for c in reader.connections if _kind(c.msgtype)]
            for connection, logged, raw in reader.messages(connections=wanted):
                message = reader.deserialize(raw, connection.msgtype)
                yield _Message(connection.topic, _kind(connection.msgtype), message, logged, {})
    except (LogError, MemoryError):
        raise
    except Exception as error:  # whatever SQLite and decoders say of damaged bytes
        raise LogError(f"{path}: not a readable ROS 2 bag: {error}") from None


def _database_messages(path: Path) -> Iterator[_Message]:
    """Messages of a .db3 file by itself: SQLite, without the metadata.yaml of its bag."""
    try:
        from rosbags.typesys import Stores, get_typestore
    except ModuleNotFoundError:
        raise missing_library(path, "rosbags", "ros") from None
    store = get_typestore(Stores.ROS2_HUMBLE)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            topics = {
                number: (topic, kind)
                for number, topic, kind in file.execute("SELECT id, name, type FROM topics")
                if _kind(kind)
            }
            rows = file.execute("SELECT topic_id, timestamp, data FROM messages ORDER BY id")
            for number, logged, raw in rows:
                if number in topics:
                    topic, kind = topics[number]
                    message = store.deserialize_cdr(raw, kind)
                    yield _Message(topic, _kind(kind), message, logged, {})
    except (LogError, MemoryError):
        raise
    except Exception as error:  # whatever SQLite and decoders say of damaged bytes
        raise LogError(f"{path}: not a readable ROS 2 bag: {error}") from None


def _kind(type_name: str, is_ours: bool = False) -> str:
    """Kind of message that a type is read as; empty if it is not read."""
    kind = KINDS.get(type_name.rpartition("/")[2], "")
    return "" if kind == FLOAT and not is_ours else kind


# ---- bounds on what a file of unknown origin unpacks to, checked before it is unpacked -------

MAX_CHUNK = 256 * 2**20
"""Most bytes of a chunk, unpacked; writers make chunks of one to eight megabytes."""
LZ4_RATIO = 255
"""Bytes that one byte of LZ4 unpacks to at most."""
LZ4_MAGIC = b"\x04\x22\x4d\x18"
_RECORD = struct.Struct("<BQQQQII")
"""Opcode, length, start, end, unpacked size, CRC, length of the compression's name."""


def check_chunks(path: Path, stream: IO[bytes], chunks: list[Any]) -> None:
    """Raise LogError unless every chunk record says, and can only unpack to, a bounded size."""
    back = stream.tell()
    for chunk in chunks:
        stream.seek(chunk.chunk_start_offset)
        head = stream.read(_RECORD.size)
        if len(head) < _RECORD.size:
            raise LogError(f"{path}: a chunk lies beyond the end of the file")
        *_, size, _, name_length = _RECORD.unpack(head)
        kind = stream.read(min(name_length, 8))
        stream.seek(8, os.SEEK_CUR)  # length of what follows
        if kind == b"lz4":
            size = max(size, _lz4_size(stream))
        elif kind == b"zstd":
            size = max(size, _zstd_size(stream.read(18)))
        if size > MAX_CHUNK:
            raise LogError(
                f"{path}: a chunk may unpack to {size >> 20} MB; refused: write it with chunks"
                " of some megabytes ('mcap recover --chunk-size 4194304')"
            )
    stream.seek(back)


def _lz4_size(stream: IO[bytes]) -> int:
    """Most bytes that an LZ4 frame says, or can unpack to, as far as MAX_CHUNK; 0 if none.

    A block unpacks to no more than the frame's largest, and to 255 times its own bytes.
    """
    head = stream.read(6)
    if len(head) < 6 or not head.startswith(LZ4_MAGIC):
        return 0
    flags, largest = head[4], 1 << (8 + 2 * (head[5] >> 4 & 7))
    stated = int.from_bytes(stream.read(8), "little") if flags & 0x08 else 0
    stream.seek(5 if flags & 0x01 else 1, os.SEEK_CUR)  # dictionary, checksum of the head
    size = 0
    while size <= MAX_CHUNK and (block := int.from_bytes(stream.read(4), "little")):
        length = block & 0x7FFFFFFF
        size += length if block >> 31 else min(largest, LZ4_RATIO * length)
        stream.seek(length + (4 if flags & 0x10 else 0), os.SEEK_CUR)
    return max(size, stated)


def _zstd_size(head: bytes) -> int:
    """Content size that the head of a Zstandard frame states (RFC 8878, 3.1.1.1); 0 if none."""
    if len(head) < 6:
        return 0
    flags = head[4]
    single = bool(flags & 0x20)
    width = (1 if single else 0, 2, 4, 8)[flags >> 6]
    start = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    return int.from_bytes(head[start : start + width], "little")
