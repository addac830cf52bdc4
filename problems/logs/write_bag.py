"""MCAP files of ROS 2 messages, written so that its tools read them without a package of ours.

| group of columns                      | message        | topic                              |
|---------------------------------------|----------------|------------------------------------|
| ``q qd``, ``effort.JOINT``            | JointState     | ``/joint_states``                  |
| ``q.root[0]`` ..., ``qd.root[0]`` ... | Odometry       | ``/odom``                          |
| a sensor                              | that of its    | ``/SENSOR``                        |
|                                       | components     |                                    |
| ``torque``                            | JointState     | ``/dynsys/torque``                 |
| ``external_wrench.FRAME``             | WrenchStamped, | ``/dynsys/external_wrench/FRAME``  |
|                                       | in FRAME       |                                    |
| ``acceleration.FRAME``                | AccelStamped,  | ``/dynsys/acceleration/FRAME``     |
|                                       | in FRAME       |                                    |
| every other number                    | Float64        | that of its column                 |
| ``std.`` of any of these              | the same       | the same and ``/std``              |

Names that ROS 2 does not allow for topics are made legal; the metadata ``dynsys.columns`` of
the file has, by topic, what every number was called.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynsys.errors import LogError
from dynsys.types import Array
from problems.estimation.outputs import AGREEMENT
from problems.logs.ros import (
    COLUMNS,
    DEFINITIONS,
    FLOAT,
    JOINT_STATE,
    ODOMETRY,
    OURS,
    VECTORS,
    build_message,
)
from problems.measured.measured_system import QUANTITIES

__all__ = ["write_messages"]

MAX_TOPIC = 240
"""Letters of a topic at most: ROS 2 allows 247, and a number may follow."""
MAX_SECONDS = 2.0**31 - 1
"""Seconds of a stamp: its ``sec`` has 32 bits, and the time of logging no sign."""
_JOINT = re.compile(r"(q|qd|effort)\.[^\[]+")
_ROOT = re.compile(r"(q|qd)\.root(\[\d\])")
_ESTIMATE = re.compile(
    rf"(std\.)?((?:truth\.)?({'|'.join((*QUANTITIES, *AGREEMENT, 'residual', 'suspects'))}))"
    r"(?:\.(.+))?"
)
"""Name of a group of estimates: deviation or not, quantity, owner."""
SENSOR_MESSAGES = tuple(kind for kind in VECTORS if kind != ODOMETRY)
VECTOR_OF = {
    "acceleration": ("geometry_msgs/msg/AccelStamped",),
    "joint_wrench": ("geometry_msgs/msg/WrenchStamped",),
    "external_wrench": ("geometry_msgs/msg/WrenchStamped",),
}
"""Messages of estimates that are vectors of a body, joint or frame."""


class _Topic(NamedTuple):
    """A topic: kind of message, and the column of the rows for each name in the message."""

    name: str
    kind: str
    columns: Mapping[str, int]
    frame: str = ""


def write_messages(
    path: Path, groups: Sequence[tuple[str, Sequence[str]]], chunks: Iterable[Array]
) -> None:
    """Write one message per topic and row. NaN values that a message must hold stay NaN.

    Joint coordinates become one JointState, the floating base an Odometry, torques and their
    deviations a JointState each, sensors, wrenches and accelerations the message that has their
    components; every other number is a Float64 on a topic of its own.
    """
    from mcap_ros2.writer import Writer

    time, topics = _topics(groups)
    names = [column for _, columns in groups for column in columns]
    with path.open("wb") as stream, Writer(stream) as writer:
        own = {t.name: {label: names[k] for label, k in t.columns.items()} for t in topics}
        writer.add_metadata(COLUMNS, {topic: json.dumps(own[topic]) for topic in own})
        schemas = {
            kind: writer.register_msgdef(kind, DEFINITIONS[kind])
            for kind in dict.fromkeys(topic.kind for topic in topics)
        }
        for rows in chunks:
            for row in np.asarray(rows).tolist():
                if not 0 <= row[time] < MAX_SECONDS:
                    raise LogError(
                        f"an MCAP file cannot hold the time {row[time]:g} s: ROS 2 counts from"
                        f" 0 to {MAX_SECONDS:g} s; shift the time of the log, or write .parquet"
                    )
                stamp = round(row[time] * 1e9)
                for name, kind, columns, frame in topics:
                    values = {label: row[k] for label, k in columns.items()}
                    message = build_message(kind, row[time], values, frame)
                    writer.write_message(name, schemas[kind], message, stamp, stamp)


def _topics(groups: Sequence[tuple[str, Sequence[str]]]) -> tuple[int, list[_Topic]]:
    """Column of the time, and the topics of all others, with legal names."""
    joints: dict[str, int] = {}
    root: dict[str, int] = {}
    torques: dict[str, dict[str, int]] = {}
    topics: list[_Topic] = []
    start, time = 0, -1
    for name, columns in groups:
        places = dict(zip(columns, range(start, start + len(columns)), strict=True))
        start += len(columns)
        estimate = _ESTIMATE.fullmatch(name)
        if name == "time":
            time = places["time"]
        elif estimate and estimate[3] == "torque":
            deviation, quantity, *_ = estimate.groups("")
            labels = torques.setdefault(_place(deviation + quantity), {})
            for column, k in places.items():
                labels[f"effort.{column[len(deviation + quantity) + 1 :]}"] = k
        elif estimate:
            topics += _numbers(name, places, VECTOR_OF.get(estimate[3], ()), estimate[4] or "")
        else:
            for column in list(places):
                if _JOINT.fullmatch(column):
                    joints[column] = places.pop(column)
                elif match := _ROOT.fullmatch(column):
                    root[match[1] + match[2]] = places.pop(column)
            topics += _numbers(name, places, SENSOR_MESSAGES)
    if time < 0:
        raise LogError("an MCAP file needs a time for every message; add time to the log")
    topics += [_Topic(name, JOINT_STATE, labels) for name, labels in torques.items()]
    if joints:
        topics.insert(0, _Topic("/joint_states", JOINT_STATE, joints))
    if len(root) == 13:
        topics.append(_Topic("/odom", ODOMETRY, root))
    else:
        whole = {label.replace("[", ".root["): k for label, k in root.items()}
        topics += _numbers("root", whole, ())
    legal = _legal_topics([topic.name for topic in topics])
    return time, [topic._replace(name=n) for topic, n in zip(topics, legal, strict=True)]


def _numbers(
    name: str, columns: Mapping[str, int], kinds: Sequence[str], frame: str = ""
) -> list[_Topic]:
    """The message among kinds that has exactly these components, or a Float64 for each."""
    labels = {column.rpartition(".")[2]: k for column, k in columns.items()}
    for kind in kinds:
        if len(labels) == len(columns) and set(labels) == set(
            " ".join(VECTORS[kind].values()).split()
        ):
            return [_Topic(_place(name), kind, labels, frame)]
    return [_Topic(_place(column), FLOAT, {"data": k}) for column, k in columns.items()]


def _place(name: str) -> str:
    """Topic of a group or column; deviations are beside what they belong to, below it."""
    if not _ESTIMATE.fullmatch(name):
        return f"/{name}"
    is_std, rest = name.startswith("std."), name.removeprefix("std.")
    return f"{OURS}{rest}/std" if is_std else OURS + rest


def _legal_topics(wanted: Sequence[str]) -> list[str]:
    """Names that ROS 2 allows for topics, all different; those that are legal stay.

    Dots are slashes; other signs than letters of ASCII, digits and single underscores become
    one underscore. No part begins with a digit (not allowed) or an underscore (hidden).
    """
    made = ["/" + "/".join(map(_token, re.findall(r"[^./]+", name))) for name in wanted]
    found = [""] * len(made)
    taken: set[str] = set()
    for k in sorted(range(len(made)), key=lambda k: made[k] != wanted[k].replace(".", "/")):
        base = "/unnamed" if made[k] == "/" else made[k][:MAX_TOPIC].rstrip("_/")
        name, copy = base, 1
        while name in taken:
            copy += 1
            name = f"{base}_{copy}"
        taken.add(name)
        found[k] = name
    return found


def _token(text: str) -> str:
    token = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    return f"n{token}" if token[:1].isdigit() else token or "unnamed"
