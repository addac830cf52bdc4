"""Rows as ROS 2 messages in an MCAP file, read back by :mod:`problems.logs.ros_bag`.

Joint coordinates and torques become one JointState, the floating base an Odometry, sensors and
wrenches the message that has their components; the rest NamedValues, whose definition the file
carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from dynsys.types import Array
from problems.logs.ros_messages import DEFINITIONS, NAMED_VALUES, build_message, message_kind
from problems.logs.source import LogError

__all__ = ["write_messages"]

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
