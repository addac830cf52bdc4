"""What is fuzzed: every reader of files, with small valid files to start from."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np
import yaml

import dynsys
import problems
from dynsys.codegen.cache import KernelCache
from dynsys.codegen.cache_format import Entry, pack
from experiments.trust.fuzz_mutations import (
    mutate,
    mutate_cache_entry,
    mutate_npz,
    mutate_plan,
)
from problems.logs import Differentiation, SampleReader, open_log
from problems.logs.jobs import SolveJob
from problems.logs.outputs import parse_outputs
from problems.logs.run import run_job
from problems.logs.write import Group, write_log
from problems.problem_file import load_problem
from sensors import Layout

__all__ = ["KEY", "LAYOUT", "MJCF", "TARGETS", "URDF", "Target", "problem_text", "valid_log"]

SMALL = 12
"""Robots of so many bodies at most are also solved after reading."""
KEY = "0" * 64

Mutation = Callable[[bytes, Sequence[bytes], Any], bytes]


@final
@dataclass(frozen=True)
class Target:
    """A reader.

    Parameters
    ----------
    ending : of the file it reads.
    seeds : valid files.
    check : reads the file at a path and uses what it read; raises what the reader raises.
    mutation : makes a new file of an old one.
    """

    ending: str
    seeds: Callable[[], Sequence[bytes]]
    check: Callable[[Path], None]
    mutation: Mutation = mutate


# ---- robots --------------------------------------------------------------------------------

URDF = b"""<?xml version="1.0" encoding="utf-8"?>
<robot name="arm">
  <link name="base"><inertial><mass value="3"/>
    <inertia ixx="1" iyy="1" izz="1"/></inertial></link>
  <link name="upper"><inertial><origin xyz="0 0 0.2" rpy="0 0.1 0"/><mass value="2.0"/>
    <inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0.001"/></inertial></link>
  <link name="lower"><inertial><mass value="1.0"/>
    <inertia ixx="0.01" iyy="0.01" izz="0.01"/></inertial></link>
  <link name="hand"><inertial><mass value="0.1"/>
    <inertia ixx="0.001" iyy="0.001" izz="0.001"/></inertial></link>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="10" velocity="3"/></joint>
  <joint name="elbow" type="prismatic"><parent link="upper"/><child link="lower"/>
    <origin xyz="0 0 0.4" rpy="0.1 0 0"/><axis xyz="0 0 1"/><limit effort="1" velocity="1"/>
    <dynamics damping="0.1" friction="0.2"/><mimic joint="shoulder" multiplier="2"/></joint>
  <joint name="wrist" type="fixed"><parent link="lower"/><child link="hand"/></joint>
</robot>
"""
MJCF = b"""<mujoco model="arm">
  <compiler angle="radian" meshdir="."/>
  <option gravity="0 0 -9.81"/>
  <default><joint damping="0.1" armature="0.01"/></default>
  <worldbody>
    <body name="upper" pos="0 0 0.1"><joint name="shoulder" type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 0.4" size="0.05" mass="2"/>
      <site name="tip" pos="0 0 0.4"/>
      <body name="lower" pos="0 0 0.4" quat="1 0 0 0.1"><joint name="elbow" type="ball"/>
        <inertial pos="0 0 0.1" mass="1" diaginertia="0.01 0.01 0.01"/>
        <body name="hand"><joint name="slide" type="slide" ref="0.1" range="-1 1"/>
          <geom size="0.03"/></body></body></body>
  </worldbody>
  <equality><joint joint1="slide" joint2="shoulder" polycoef="0 1 0 0 0"/></equality>
  <sensor><accelerometer name="acc" site="tip"/></sensor>
</mujoco>
"""


def _solvable(robot: dynsys.KinematicTree) -> None:
    """Solve at one state: finite numbers or an error of ours."""
    if robot.n_bodies > SMALL:
        return
    q, zero = robot.neutral(), np.zeros(robot.nv)
    torque = problems.InverseDynamics(robot, "reference").solve(q, zero, zero).torque
    qdd = problems.ForwardDynamics(robot, "reference").solve(q, zero, torque).qdd
    assert np.isfinite(torque).all() and np.isfinite(qdd).all(), "not finite, and no error"


def _check_robot(path: Path) -> None:
    robot = dynsys.load(path)
    with suppress(dynsys.DynsysError):
        dynsys.load(path, floating_base=True)
    with suppress(dynsys.DynsysError):
        dynsys.load(path, mimic="couple")
    _solvable(robot)


# ---- layouts, problems ---------------------------------------------------------------------


@cache
def robot() -> dynsys.KinematicTree:
    """Robot the layouts are for."""
    return dynsys.synthetic.chain(3)


LAYOUT = b"""about: {description: three links, source: none}
sensors:
  - {kind: imu, name: hand_imu, frame: link_3, std: [0.05, 0.01], xyz: [0, 0, 0.1]}
  - {kind: force_torque, name: ft, at: link_2, std: [0.1, 1.0]}
  - {kind: joint_torque, name: tau1, joint: link_1, std: 0.1}
  - all_joint_accelerations: {std: 0.2}
  - zero_external_wrench_except: [link_3]
correlations:
  - {between: [hand_imu, tau1], covariance: [[0], [0], [0.001], [0], [0], [0]]}
"""
CATALOGUE = Path(__file__).resolve().parents[2] / "sensors" / "catalogue"


def _layout_seeds() -> list[bytes]:
    """A layout of every kind we have, the catalogue's with names of our robot."""
    seeds = [LAYOUT]
    for path in sorted(CATALOGUE.glob("*.yaml")):
        text = re.sub(rb"(frame|at|joint|body): [^,}\n]+", rb"\1: link_2", path.read_bytes())
        text = re.sub(rb"(exclude|touched|except): \[[^]]*\]", rb"\1: [link_2]", text)
        seeds.append(text)
    return seeds


def _check_layout(path: Path) -> None:
    layout = Layout.load(path, robot())
    layout.pack({}, missing=np.nan)
    layout.covariance()
    layout.fingerprint()


def problem_text() -> bytes:
    """Return a problem file with every section."""
    content = {
        "robot": "synthetic:chain:3",
        "base": "fixed",
        "layout": yaml.safe_load(LAYOUT),
        "outputs": ["torque", "std.torque", "acceleration.link_3", "chi_square", "residual.ft"],
        "prior": {"std": {"external_wrench": 100, "qdd": {"link_1": 3}}, "mean": {"qdd": 0.0}},
        "log": {"differentiate": {"window": 21, "order": 3}, "topics": {"hand_imu": "/imu"}},
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


def _check_problem(path: Path) -> None:
    problem = load_problem(path)
    problem.sensors.covariance()
    if problem.tree.n_bodies <= SMALL:
        parse_outputs(problem.estimation, problem.outputs)


# ---- plans, kernels ------------------------------------------------------------------------


def _plan_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        problems.ForwardDynamics(robot()).plan().save(path)
        symmetric = path.read_bytes()
    return [symmetric]


def _check_plan(path: Path) -> None:
    plan = dynsys.Plan.load(path)
    str(plan)
    plan.checked_pivots  # noqa: B018
    problems.ForwardDynamics(robot()).compile(plan, backend="reference")


def _cache_seeds() -> list[bytes]:
    arrays = {"inputs": np.arange(6.0).reshape(2, 3), "outputs": np.ones((2, 1), dtype="f4")}
    return [pack(Entry(KEY, b"\x7fELF code", {"name": "forward"}, arrays))]


def _check_cache(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        entry = Path(folder) / f"{KEY}.kernel"
        shutil.copyfile(path, entry)
        entry.chmod(0o600)
        found = KernelCache(folder).get(KEY)
        if found is None:
            raise dynsys.DynsysError("not used")
        assert found.payload == b"\x7fELF code", "code with a wrong checksum was accepted"


# ---- logs ----------------------------------------------------------------------------------


@cache
def _rows() -> tuple[list[Group], list[Any]]:
    layout = _layout()
    rng = np.random.default_rng(0)
    time = np.linspace(0, 0.19, 20)[:, None]
    names = robot().joint_names
    groups = [
        Group("time", ("time",)),
        Group("q", tuple(f"q.{n}" for n in names)),
        Group("qd", tuple(f"qd.{n}" for n in names)),
        *(Group(n, tuple(layout.labels[layout.slice(n)])) for n in ("hand_imu", "ft", "tau1")),
    ]
    width = sum(len(group.columns) for group in groups) - 1
    rows = np.hstack([time, rng.normal(size=(20, width))])
    return groups, [rows[:13], rows[13:]]


@cache
def _layout() -> Layout:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layout.yaml"
        path.write_bytes(LAYOUT)
        return Layout.load(path, robot())


def valid_log(ending: str) -> bytes:
    """Return a log that is good."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{ending}"
        groups, chunks = _rows()
        write_log(path, groups, chunks)
        return path.read_bytes()


def _check_log(path: Path) -> None:
    """Read a log a stretch at a time, then run a job on it: a whole output or none."""
    with open_log(path) as log:
        reader = SampleReader(_layout(), log, Differentiation(5, 2), allow_missing=True)
        for start in range(0, min(log.n_samples, 200), 7):
            reader.read(start, min(start + 7, log.n_samples))
    _check_job(path)


def _check_job(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem, output = Path(folder) / "problem.yaml", Path(folder) / "out.npz"
        text = {
            "robot": "synthetic:chain:3",
            "layout": yaml.safe_load(LAYOUT),
            "log": {"differentiate": {"window": 5, "order": 2}},
        }
        problem.write_text(yaml.safe_dump(text))
        job = SolveJob(str(problem), str(path), str(output), ("torque",), 8, True)
        try:
            run_job(job)
        except dynsys.DynsysError:
            assert not output.exists(), "an error, and an output"
            raise
        with np.load(output) as found:
            assert len(found["torque"]) == job.n_samples(), "partial output"


def _check_bag(path: Path) -> None:
    """Read the file as the .db3 of a ROS 2 bag."""
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        bag.mkdir()
        shutil.copyfile(path, bag / "bag.db3")
        (bag / "metadata.yaml").write_text(_METADATA)
        with open_log(bag, spool=Path(folder) / "spool") as log:
            reader = SampleReader(_layout(), log, Differentiation(5, 2), allow_missing=True)
            reader.read(0, min(log.n_samples, 5))


_METADATA = """rosbag2_bagfile_information:
  version: 5
  storage_identifier: sqlite3
  duration: {nanoseconds: 1000000000}
  starting_time: {nanoseconds_since_epoch: 0}
  message_count: 5
  topics_with_message_count:
  - topic_metadata: {name: /joint_states, type: sensor_msgs/msg/JointState,
      serialization_format: cdr, offered_qos_profiles: ''}
    message_count: 5
  compression_format: ''
  compression_mode: ''
  relative_file_paths: [bag.db3]
  files: []
"""


def _db3_seeds() -> list[bytes]:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds = store.types
    with tempfile.TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        with Writer(bag, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
            kind = "sensor_msgs/msg/JointState"
            connection = writer.add_connection("/joint_states", kind, typestore=store)
            for k in range(5):
                stamp = kinds["builtin_interfaces/msg/Time"](sec=k, nanosec=0)
                header = kinds["std_msgs/msg/Header"](stamp=stamp, frame_id="")
                names = list(robot().joint_names)
                numbers = np.full(len(names), 0.1 * k)
                message = kinds[kind](header, names, numbers, numbers, numbers)
                writer.write(connection, k * 10**9, store.serialize_cdr(message, kind))
        return [next(bag.glob("*.db3")).read_bytes()]


TARGETS: dict[str, Target] = {
    "urdf": Target(".urdf", lambda: (URDF,), _check_robot),
    "mjcf": Target(".xml", lambda: (MJCF,), _check_robot),
    "layout": Target(".yaml", _layout_seeds, _check_layout),
    "problem": Target(".yaml", lambda: [problem_text()], _check_problem),
    "plan": Target(".plan", _plan_seeds, _check_plan, mutate_plan),
    "cache": Target(".kernel", _cache_seeds, _check_cache, mutate_cache_entry),
    "npz": Target(".npz", lambda: [valid_log(".npz")], _check_log, mutate_npz),
    "csv": Target(".csv", lambda: [valid_log(".csv")], _check_log),
    "parquet": Target(".parquet", lambda: [valid_log(".parquet")], _check_log),
    "mcap": Target(".mcap", lambda: [valid_log(".mcap")], _check_log),
    "db3": Target(".db3", _db3_seeds, _check_bag),
}
