"""ROS 2 bags (MCAP files, folders with .mcap or .db3 files) as logs on the joints' times.

A bag is read once, message by message, into one plain file of float64 rows per topic (the
spool); from there any stretch is read and aligned without holding the bag in memory. Stamps are
those of the headers. The clock is the JointState stream with most samples.
"""

from __future__ import annotations

import array
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, final

import numpy as np

from dynsys.errors import LogError
from dynsys.resumable import replacing
from dynsys.types import Array
from problems.logs.align import AlignedLog, Stream
from problems.logs.source import missing_library

__all__ = [
    "DEFINITIONS",
    "MAX_CHUNK",
    "NAMED_VALUES",
    "READERS",
    "build_message",
    "check_chunks",
    "message_kind",
    "open_bag",
    "stamp",
    "write_messages",
]

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
    with replacing(spool / INDEX) as part:
        part.write_text(json.dumps(index), encoding="utf-8")


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


# ----------------------------------------------------------------------
# ROS 2 messages as named numbers, both ways: JointState, Imu, WrenchStamped, Odometry.
#
# | message              | names                                                               |
# |----------------------|---------------------------------------------------------------------|
# | JointState           | ``q.JOINT``, ``qd.JOINT``, ``effort.JOINT``                         |
# | Imu                  | ``ax ay az`` (linear acceleration), ``wx wy wz`` (angular velocity) |
# | WrenchStamped        | ``fx fy fz tx ty tz``                                               |
# | AccelStamped         | ``ax ay az``, ``wdx wdy wdz``                                       |
# | Odometry             | pose and twist of the free joint, in the order of q and qd          |
# | dynsys NamedValues   | names of its own: whatever has no message of ROS                    |
#
# The last three numbers of a name are those of the sensor's rows, so a load-cell plate reads
# its
# ``tx ty fz`` from a WrenchStamped, an accelerometer its ``ax ay az`` from an Imu.

NAMED_VALUES = "dynsys_msgs/msg/NamedValues"
_RULE = "=" * 80
_HEADER = "std_msgs/Header header\n"
_STAMPED = f"""{_RULE}
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
{_RULE}
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
_VECTOR3 = f"{_RULE}\nMSG: geometry_msgs/Vector3\nfloat64 x\nfloat64 y\nfloat64 z\n"
_QUATERNION = (
    f"{_RULE}\nMSG: geometry_msgs/Quaternion\nfloat64 x\nfloat64 y\nfloat64 z\nfloat64 w\n"
)
_POINT = _VECTOR3.replace("Vector3", "Point")

DEFINITIONS: Mapping[str, str] = {
    "sensor_msgs/msg/JointState": _HEADER
    + "string[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n"
    + _STAMPED,
    "sensor_msgs/msg/Imu": _HEADER
    + "geometry_msgs/Quaternion orientation\nfloat64[9] orientation_covariance\n"
    + "geometry_msgs/Vector3 angular_velocity\nfloat64[9] angular_velocity_covariance\n"
    + "geometry_msgs/Vector3 linear_acceleration\nfloat64[9] linear_acceleration_covariance\n"
    + _STAMPED
    + _QUATERNION
    + _VECTOR3,
    "geometry_msgs/msg/WrenchStamped": _HEADER
    + "geometry_msgs/Wrench wrench\n"
    + _STAMPED
    + f"{_RULE}\nMSG: geometry_msgs/Wrench\ngeometry_msgs/Vector3 force\n"
    + "geometry_msgs/Vector3 torque\n"
    + _VECTOR3,
    "geometry_msgs/msg/AccelStamped": _HEADER
    + "geometry_msgs/Accel accel\n"
    + _STAMPED
    + f"{_RULE}\nMSG: geometry_msgs/Accel\ngeometry_msgs/Vector3 linear\n"
    + "geometry_msgs/Vector3 angular\n"
    + _VECTOR3,
    "nav_msgs/msg/Odometry": _HEADER
    + "string child_frame_id\ngeometry_msgs/PoseWithCovariance pose\n"
    + "geometry_msgs/TwistWithCovariance twist\n"
    + _STAMPED
    + f"{_RULE}\nMSG: geometry_msgs/PoseWithCovariance\ngeometry_msgs/Pose pose\n"
    + f"float64[36] covariance\n{_RULE}\nMSG: geometry_msgs/TwistWithCovariance\n"
    + f"geometry_msgs/Twist twist\nfloat64[36] covariance\n{_RULE}\nMSG: geometry_msgs/Pose\n"
    + f"geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n{_RULE}\n"
    + "MSG: geometry_msgs/Twist\ngeometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n"
    + _POINT
    + _QUATERNION
    + _VECTOR3,
    NAMED_VALUES: _HEADER + "string[] names\nfloat64[] values\n" + _STAMPED,
}
"""Definition text of every message that is written; read messages carry their own."""


# ---- reading -------------------------------------------------------------------------------


def _xyz(v: Any, names: str) -> dict[str, float]:
    return dict(zip(names.split(), (v.x, v.y, v.z), strict=True))


def _joint_state(m: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for prefix, values in (("q", m.position), ("qd", m.velocity), ("effort", m.effort)):
        for joint, value in zip(m.name, values, strict=False):
            found[f"{prefix}.{joint}"] = float(value)
    return found


def _imu(m: Any) -> dict[str, float]:
    return _xyz(m.linear_acceleration, "ax ay az") | _xyz(m.angular_velocity, "wx wy wz")


def _wrench(m: Any) -> dict[str, float]:
    return _xyz(m.wrench.force, "fx fy fz") | _xyz(m.wrench.torque, "tx ty tz")


def _accel(m: Any) -> dict[str, float]:
    return _xyz(m.accel.linear, "ax ay az") | _xyz(m.accel.angular, "wdx wdy wdz")


def _odometry(m: Any) -> dict[str, float]:
    pose, twist = m.pose.pose, m.twist.twist
    found = _xyz(pose.position, "q[0] q[1] q[2]") | _xyz(pose.orientation, "q[3] q[4] q[5]")
    found["q[6]"] = pose.orientation.w
    return (
        found
        | _xyz(twist.angular, "qd[0] qd[1] qd[2]")
        | _xyz(twist.linear, "qd[3] qd[4] qd[5]")
    )


def _named_values(m: Any) -> dict[str, float]:
    return dict(zip(m.names, map(float, m.values), strict=True))


READERS: Mapping[str, Callable[[Any], dict[str, float]]] = {
    "JointState": _joint_state,
    "Imu": _imu,
    "WrenchStamped": _wrench,
    "AccelStamped": _accel,
    "Odometry": _odometry,
    "NamedValues": _named_values,
}
"""Names and numbers of a message, by the last word of its type."""


def stamp(message: Any, logged: int) -> float:
    """Seconds of a message: its header's stamp, or when it was logged (ns) if that is zero."""
    own = message.header.stamp
    nanoseconds = int(own.sec) * 1_000_000_000 + int(own.nanosec)
    return (nanoseconds or logged) / 1e9


# ---- writing -------------------------------------------------------------------------------


def message_kind(labels: Sequence[str]) -> str:
    """Type of the ROS message that can hold numbers of these labels."""
    known = {
        "sensor_msgs/msg/Imu": {"ax", "ay", "az", "wx", "wy", "wz"},
        "geometry_msgs/msg/WrenchStamped": {"fx", "fy", "fz", "tx", "ty", "tz"},
        "geometry_msgs/msg/AccelStamped": {"ax", "ay", "az", "wdx", "wdy", "wdz"},
    }
    for kind, labels_of_kind in known.items():
        if set(labels) == labels_of_kind:
            return kind
    return NAMED_VALUES


def build_message(kind: str, time: float, values: Mapping[str, float]) -> dict[str, Any]:
    """Message of a kind from seconds and named numbers, in the names of the module."""
    nanoseconds = round(time * 1e9)
    header = {
        "stamp": {"sec": nanoseconds // 1_000_000_000, "nanosec": nanoseconds % 1_000_000_000},
        "frame_id": "",
    }

    def vector(names: str) -> dict[str, float]:
        return {axis: values[name] for axis, name in zip("xyz", names.split(), strict=True)}

    if kind.endswith("Imu"):
        unknown = [-1.0] + [0.0] * 8
        return {
            "header": header,
            "orientation": {"x": 0.0, "y": 0.0, "z": 0.0, "w": 1.0},
            "orientation_covariance": unknown,
            "angular_velocity": vector("wx wy wz"),
            "angular_velocity_covariance": [0.0] * 9,
            "linear_acceleration": vector("ax ay az"),
            "linear_acceleration_covariance": [0.0] * 9,
        }
    if kind.endswith("WrenchStamped"):
        wrench = {"force": vector("fx fy fz"), "torque": vector("tx ty tz")}
        return {"header": header, "wrench": wrench}
    if kind.endswith("AccelStamped"):
        accel = {"linear": vector("ax ay az"), "angular": vector("wdx wdy wdz")}
        return {"header": header, "accel": accel}
    if kind.endswith("JointState"):
        joints = list(dict.fromkeys(name.partition(".")[2] for name in values))
        return {"header": header, "name": joints} | {
            field: [values[f"{prefix}.{j}"] for j in joints if f"{prefix}.{j}" in values]
            for field, prefix in (("position", "q"), ("velocity", "qd"), ("effort", "effort"))
        }
    if kind.endswith("Odometry"):
        return _build_odometry(header, vector, values)
    return {"header": header, "names": list(values), "values": list(values.values())}


def _build_odometry(
    header: dict[str, Any],
    vector: Callable[[str], dict[str, float]],
    values: Mapping[str, float],
) -> dict[str, Any]:
    orientation = vector("q[3] q[4] q[5]") | {"w": values["q[6]"]}
    pose = {"position": vector("q[0] q[1] q[2]"), "orientation": orientation}
    twist = {"angular": vector("qd[0] qd[1] qd[2]"), "linear": vector("qd[3] qd[4] qd[5]")}
    return {
        "header": header,
        "child_frame_id": "",
        "pose": {"pose": pose, "covariance": [0.0] * 36},
        "twist": {"twist": twist, "covariance": [0.0] * 36},
    }


# ----------------------------------------------------------------------
# Rows as ROS 2 messages in an MCAP file, read back by :mod:`problems.logs.ros`.
#
# Joint coordinates and torques become one JointState, the floating base an Odometry, sensors
# and
# wrenches the message that has their components; the rest NamedValues, whose definition the
# file
# carries.

JOINT_STATE, ODOMETRY = "sensor_msgs/msg/JointState", "nav_msgs/msg/Odometry"
_JOINT = re.compile(r"(q|qd|torque|effort)\.[^\[]+")
_FREE = re.compile(r"(q|qd)\.(.+)\[(\d)\]")


@final
@dataclass(frozen=True)
class _Topic:
    """A topic: kind of message, columns of the rows, and what the message calls them."""

    name: str
    kind: str
    columns: tuple[int, ...]
    labels: tuple[str, ...]


def write_messages(
    path: Path, groups: Sequence[tuple[str, Sequence[str]]], chunks: Iterable[Array]
) -> None:
    """Write one message per topic and row. NaN values that a message must hold stay NaN."""
    from mcap_ros2.writer import Writer

    time, topics = _topics(groups)
    with path.open("wb") as stream, Writer(stream) as writer:
        schemas = {
            kind: writer.register_msgdef(kind, DEFINITIONS[kind])
            for kind in dict.fromkeys(topic.kind for topic in topics)
        }
        for rows in chunks:
            for row in np.asarray(rows).tolist():
                for topic in topics:
                    values = {
                        label: row[k]
                        for label, k in zip(topic.labels, topic.columns, strict=True)
                    }
                    message = build_message(topic.kind, row[time], values)
                    stamp = round(row[time] * 1e9)
                    writer.write_message(topic.name, schemas[topic.kind], message, stamp, stamp)


def _topics(groups: Sequence[tuple[str, Sequence[str]]]) -> tuple[int, list[_Topic]]:
    joints: dict[str, int] = {}
    free: dict[str, dict[str, int]] = {}
    topics: list[_Topic] = []
    start, time = 0, -1
    for name, columns in groups:
        places = dict(zip(columns, range(start, start + len(columns)), strict=True))
        start += len(columns)
        if name == "time":
            time = places.pop("time")
        for column in list(places):
            if _JOINT.fullmatch(column):
                joints[column.replace("torque.", "effort.", 1)] = places.pop(column)
            elif match := _FREE.fullmatch(column):
                label = f"{match[1]}[{match[3]}]"
                free.setdefault(match[2], {})[label] = places.pop(column)
        if places:
            topics.append(_plain_topic(name, places))
    if time < 0:
        raise LogError("an MCAP file needs a time for every message; add time to the log")
    if joints:
        topics.insert(0, _Topic("/joint_states", JOINT_STATE, *_split(joints)))
    for joint, labels in free.items():
        if joint == "root" and len(labels) == 13:
            topics.append(_Topic("/odom", ODOMETRY, *_split(labels)))
        else:
            whole = {_full(joint, label): k for label, k in labels.items()}
            topics.append(_Topic(f"/{joint}", NAMED_VALUES, *_split(whole)))
    return time, topics


def _full(joint: str, label: str) -> str:
    part, bracket, index = label.partition("[")
    return f"{part}.{joint}{bracket}{index}"


def _plain_topic(name: str, places: dict[str, int]) -> _Topic:
    labels = [column.rpartition(".")[2] for column in places]
    kind = message_kind(labels)
    if kind == NAMED_VALUES:
        labels = list(places)
    return _Topic("/" + name, kind, tuple(places.values()), tuple(labels))


def _split(places: dict[str, int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    return tuple(places.values()), tuple(places)


# ----------------------------------------------------------------------
# Bounds on what an MCAP file of unknown origin unpacks to: checked before it is unpacked.

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
