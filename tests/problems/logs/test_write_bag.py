"""MCAP files as ROS 2 has them: standard messages, legal topics, the numbers of the .npz."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dynsys.types import Array
from problems.labels import ACCELERATION, WRENCH, Group
from problems.log_jobs import run_job
from problems.logs import LogError, open_log
from problems.logs.files import write_log
from problems.logs.ros import COLUMNS, DEFINITIONS
from tests.problems.logs.log_cases import PROBLEM, simulated, solving, write_problem

pytest.importorskip("mcap_ros2")

LEGAL = re.compile(r"(/[A-Za-z](_?[A-Za-z0-9])*)+")
"""Topics by the rules of ROS 2: no digit first, no hidden part, no two underscores in a row."""
AXES = dict(zip((*WRENCH, *ACCELERATION), 4 * ["x", "y", "z"], strict=True))


class Bag:
    """What the ``mcap`` and ``mcap_ros2`` tools, and decoders with ROS's own types, read."""

    def __init__(self, path: Path) -> None:
        from mcap.reader import make_reader
        from mcap_ros2.decoder import DecoderFactory
        from rosbags.typesys import Stores, get_typestore

        store = get_typestore(Stores.ROS2_HUMBLE)
        self.kinds: dict[str, str] = {}
        self.messages: dict[str, list[Any]] = {}
        self.logged: dict[str, list[int]] = {}
        with path.open("rb") as stream:
            reader = make_reader(stream, decoder_factories=[DecoderFactory()])
            self.columns = {
                topic: json.loads(text)
                for record in reader.iter_metadata()
                for topic, text in record.metadata.items()
            }
            for schema, channel, message, decoded in reader.iter_decoded_messages():
                assert schema is not None and schema.encoding == "ros2msg"
                standard = store.deserialize_cdr(message.data, schema.name)
                if hasattr(decoded, "header"):
                    stamp = standard.header.stamp
                    assert decoded.header.frame_id == standard.header.frame_id
                    assert stamp.sec * 10**9 + stamp.nanosec == message.log_time
                self.kinds[channel.topic] = schema.name
                self.messages.setdefault(channel.topic, []).append(standard)
                self.logged.setdefault(channel.topic, []).append(message.log_time)

    def floats(self, topic: str) -> Array:
        return np.array([message.data for message in self.messages[topic]])

    def efforts(self, topic: str) -> Array:
        return np.array([message.effort for message in self.messages[topic]])

    def vectors(self, topic: str, labels: tuple[str, ...]) -> Array:
        """The six components in the order of ours."""
        found = []
        for message in self.messages[topic]:
            if hasattr(message, "wrench"):
                parts = (message.wrench.torque, message.wrench.force)
            else:
                parts = (message.accel.angular, message.accel.linear)
            places = zip(labels, 3 * parts[:1] + 3 * parts[1:], strict=True)
            found.append([getattr(part, AXES[label]) for label, part in places])
        return np.array(found)


def test_definitions_are_those_of_ros() -> None:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    standard = get_typestore(Stores.ROS2_HUMBLE).fielddefs
    for kind, text in DEFINITIONS.items():
        for name, (_, fields) in get_types_from_msg(text, kind).items():
            assert list(fields) == list(standard[name][1]), name


@pytest.fixture
def outputs(problem_file: Path) -> tuple[Mapping[str, Array], Bag, Path]:
    """Every kind of output of the same log, as .npz and as .mcap."""
    write_problem(problem_file)
    problem = yaml.safe_load(problem_file.read_text())
    wanted = ["torque", "qdd", "external_wrench", "acceleration", "joint_wrench"]
    problem["outputs"] = [
        *wanted,
        *(f"std.{name}" for name in wanted),
        *("chi_square", "degrees_of_freedom", "p_value", "suspects", "residual"),
    ]
    assert set(PROBLEM) == set(problem)
    problem_file.write_text(yaml.safe_dump(problem))
    simulated(problem_file)
    folder = problem_file.parent
    for ending in (".npz", ".mcap"):
        run_job(solving(problem_file, f"out{ending}"))
    return np.load(folder / "out.npz"), Bag(folder / "out.mcap"), folder / "out.mcap"


@pytest.mark.filterwarnings("ignore::dynsys.errors.LayoutWarning")
def test_a_solved_log_is_one_of_standard_messages(
    outputs: tuple[Mapping[str, Array], Bag, Path],
) -> None:
    arrays, bag, path = outputs
    assert set(bag.kinds.values()) == {
        "sensor_msgs/msg/JointState",
        "geometry_msgs/msg/WrenchStamped",
        "geometry_msgs/msg/AccelStamped",
        "std_msgs/msg/Float64",
    }
    assert all(LEGAL.fullmatch(topic) for topic in bag.kinds)
    stamps = [round(t * 1e9) for t in arrays["time"]]
    assert all(logged == stamps for logged in bag.logged.values())
    equal = np.testing.assert_array_equal
    seen = {"time"}
    for name in arrays:
        std = "/std" if name.startswith("std.") else ""
        quantity, _, owner = name.removeprefix("std.").partition(".")
        topic = f"/dynsys/{quantity}/{owner}{std}"
        if quantity == "torque":
            topic = f"/dynsys/torque{std}"
            names = bag.messages[topic][0].name
            assert names[0] == "body_1" and names[-1] == "body_5[5]"
            equal(bag.efforts(topic), arrays[name])
        elif quantity in ("external_wrench", "joint_wrench", "acceleration"):
            labels = ACCELERATION if quantity == "acceleration" else WRENCH
            equal(bag.vectors(topic, labels), arrays[name])
            assert bag.messages[topic][0].header.frame_id == owner
        elif arrays[name].ndim == 1 and name != "time":
            equal(bag.floats(f"/dynsys/{name}"), arrays[name])
        elif name == "qdd":
            equal(bag.floats("/dynsys/qdd/body_2"), arrays[name][:, 1])
            equal(bag.floats("/dynsys/qdd/body_5_5"), arrays[name][:, -1])
        elif name == "residual.imu":
            equal(bag.floats("/dynsys/residual/imu/wz"), arrays[name][:, 5])
        elif name == "suspects":
            ours = [t for t in bag.kinds if t.startswith("/dynsys/suspects/")]
            equal(np.column_stack([bag.floats(t) for t in ours]), arrays[name])
        else:
            continue
        seen.add(name)
    assert {"torque", "std.external_wrench.body_3", "suspects", "chi_square"} <= seen
    with open_log(path) as log:  # and back, by the names of the columns
        assert log.n_samples == len(stamps)
        width = sum(array.size for array in arrays.values()) // len(stamps)
        assert sum(log.widths.values()) == width
        back = log.read(["torque.body_5[5]", "std.qdd.body_1", "residual.imu.ax"], 3, 60)
    equal(back["torque.body_5[5]"][:, 0], arrays["torque"][3:60, -1])
    equal(back["std.qdd.body_1"][:, 0], arrays["std.qdd"][3:60, 0])
    equal(back["residual.imu.ax"][:, 0], arrays["residual.imu"][3:60, 0])


# ---- the floating base -----------------------------------------------------------------------


def test_a_floating_base_is_an_odometry_and_read_back(tmp_path: Path) -> None:
    """Position, quaternion x y z w, then the twist: turning first with us, last in ROS."""
    pose, twist = (tuple(f"{c}.root[{k}]" for k in range(n)) for c, n in (("q", 7), ("qd", 6)))
    groups = [Group("time", ("time",)), Group("q", (*pose, "q.knee")), Group("qd", twist)]
    rows = np.random.default_rng(3).normal(size=(4, 15))
    rows[:, 0] = np.arange(4) / 8
    write_log(tmp_path / "base.mcap", groups, [rows])
    bag = Bag(tmp_path / "base.mcap")
    assert bag.kinds["/odom"] == "nav_msgs/msg/Odometry" and len(bag.kinds) == 2
    for message, row in zip(bag.messages["/odom"], rows, strict=True):
        place, turn = message.pose.pose.position, message.pose.pose.orientation
        w, v = message.twist.twist.angular, message.twist.twist.linear
        found = [place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w]
        assert found == row[1:8].tolist()
        assert [w.x, w.y, w.z, v.x, v.y, v.z] == row[9:].tolist()
    # a part of it is no Odometry, and not lost
    write_log(tmp_path / "pose.mcap", groups[:2], [rows[:, :9]])
    assert "/odom" not in Bag(tmp_path / "pose.mcap").kinds
    for name, columns in (("base", (*pose, *twist)), ("pose", pose)):
        with open_log(tmp_path / f"{name}.mcap") as log:
            found = log.read(columns, 0, 4)
        told = [1 + k + (k > 6) for k in range(len(columns))]
        np.testing.assert_array_equal(np.hstack([found[c] for c in columns]), rows[:, told])


# ---- names ---------------------------------------------------------------------------------

ODD = (
    "l knee",
    "l_knee",
    "l-knee",
    "7th",
    "_hidden_",
    "knie\u00e9",
    "a//b",
    "\u00fc",
    "x" * 300,
)


def odd_groups() -> list[Group]:
    frames = [f"external_wrench.{name}" for name in ODD]
    return [
        Group("time", ("time",)),
        Group("q", tuple(f"q.{name}" for name in ODD)),
        Group("torque", tuple(f"torque.{name}" for name in ODD)),
        Group("std.torque", tuple(f"std.torque.{name}" for name in ODD)),
        Group("qdd", tuple(f"qdd.{name}" for name in ODD)),
        *(Group(frame, tuple(f"{frame}.{axis}" for axis in WRENCH)) for frame in frames),
        Group("joint_states", tuple(f"joint_states.{axis}" for axis in WRENCH)),
        Group("qd", ("qd.l_knee",)),
    ]


def odd_log(path: Path) -> tuple[list[str], Array]:
    groups = odd_groups()
    columns = [column for group in groups for column in group.columns]
    rows = np.random.default_rng(0).normal(size=(7, len(columns)))
    rows[:, 0] = np.arange(7) / 8
    write_log(path, groups, [rows[:3], rows[3:]])
    return columns, rows


def test_odd_names_are_made_legal_and_read_back(tmp_path: Path) -> None:
    columns, rows = odd_log(tmp_path / "odd.mcap")
    bag = Bag(tmp_path / "odd.mcap")
    assert all(LEGAL.fullmatch(topic) and len(topic) < 248 for topic in bag.kinds)
    assert all(len(messages) == 7 for messages in bag.messages.values())
    ours = {topic: names["data"] for topic, names in bag.columns.items() if "data" in names}
    assert (
        ours["/dynsys/qdd/l_knee"] == "qdd.l_knee"
    )  # the legal one stays, others are told apart
    assert ours["/dynsys/qdd/l_knee_2"] == "qdd.l knee"
    assert ours["/dynsys/qdd/n7th"] == "qdd.7th"
    assert tuple(bag.messages["/dynsys/torque"][0].name) == ODD
    assert bag.messages["/dynsys/external_wrench/n7th"][0].header.frame_id == "7th"
    state = bag.messages["/joint_states"][0]
    assert len(state.position) == len(state.velocity) == len(ODD) and not len(state.effort)
    assert np.isfinite(state.velocity).tolist() == [name == "l_knee" for name in ODD]
    with open_log(tmp_path / "odd.mcap") as log:
        assert set(log.widths) == set(columns)
        found = log.read(columns[1:], 0, 7)
    np.testing.assert_array_equal(np.hstack([found[c] for c in columns[1:]]), rows[:, 1:])


@pytest.mark.parametrize("time", [-1.0, np.nan, np.inf, 5e9])
def test_times_that_ros_cannot_hold_are_named(tmp_path: Path, time: float) -> None:
    groups = [Group("time", ("time",)), Group("q", ("q.a",))]
    with pytest.raises(LogError, match=re.escape(f"cannot hold the time {time:g} s")):
        write_log(tmp_path / "log.mcap", groups, [np.array([[0.0, 1.0], [time, 1.0]])])
    assert not list(tmp_path.iterdir())


# ---- files that others made or changed -------------------------------------------------------


def rewritten(source: Path, target: Path, metadata: Mapping[str, str] | None) -> Path:
    """The messages of a file with other metadata, or without."""
    from mcap.reader import make_reader
    from mcap.writer import Writer

    with source.open("rb") as stream, target.open("wb") as out:
        writer = Writer(out)
        writer.start(profile="ros2")
        if metadata is not None:
            writer.add_metadata(COLUMNS, dict(metadata))
        channels: dict[str, int] = {}
        for schema, channel, message in make_reader(stream).iter_messages():
            assert schema is not None
            if channel.topic not in channels:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.topic] = writer.register_channel(channel.topic, "cdr", number)
            time = message.log_time
            writer.add_message(channels[channel.topic], time, message.data, time)
        writer.finish()
    return target


def test_without_its_metadata_no_estimate_is_taken_for_a_reading(tmp_path: Path) -> None:
    columns, rows = odd_log(tmp_path / "odd.mcap")
    with open_log(rewritten(tmp_path / "odd.mcap", tmp_path / "bare.mcap", None)) as log:
        assert not [name for name in log.widths if name.startswith("effort.")]
        assert "dynsys/torque/std.effort.l_knee" in log.widths
        assert not [
            name for name in log.widths if "qdd" in name
        ]  # Float64 of others is not read
        q = log.read(["q.l_knee"], 0, 7)["q.l_knee"][:, 0]
    np.testing.assert_array_equal(q, rows[:, columns.index("q.l_knee")])


@pytest.mark.parametrize("text", ["[1]", '{"data": 1}', "{", "[" * 100_000])
def test_damaged_metadata_are_named(tmp_path: Path, text: str) -> None:
    odd_log(tmp_path / "odd.mcap")
    path = rewritten(tmp_path / "odd.mcap", tmp_path / "bad.mcap", {"/joint_states": text})
    with pytest.raises(
        LogError, match=r"bad\.mcap: (metadata 'dynsys\.columns'|not a readable)"
    ):
        open_log(path)


def test_files_of_older_versions_are_read(tmp_path: Path) -> None:
    from mcap_ros2.writer import Writer

    kind, state = "dynsys_msgs/msg/NamedValues", "sensor_msgs/msg/JointState"
    parts = DEFINITIONS[state].partition("=" * 80)
    text = "std_msgs/Header header\nstring[] names\nfloat64[] values\n" + "".join(parts[1:])
    with (tmp_path / "old.mcap").open("wb") as stream, Writer(stream) as writer:
        values = writer.register_msgdef(kind, text)
        states = writer.register_msgdef(state, DEFINITIONS[state])
        for k in range(3):
            header = {"stamp": {"sec": k + 1, "nanosec": 0}}
            message = {"header": header, "names": ["std.torque.a"], "values": [2.0 * k]}
            writer.write_message("/std.torque", values, message, k)
            message = {"header": header, "name": ["a"], "effort": [1.0 * k]}
            writer.write_message("/joint_states", states, message, k)
    with open_log(tmp_path / "old.mcap") as log:
        found = log.read(["std.torque.a", "effort.a"], 0, 3)
    np.testing.assert_array_equal(found["std.torque.a"][:, 0], [0, 2, 4])
    np.testing.assert_array_equal(found["effort.a"][:, 0], [0, 1, 2])
