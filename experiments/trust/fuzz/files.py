"""Small valid files of every kind that dynsys reads, to be mutated."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import dynsys
import problems
from dynsys.kernel.cache import Entry, pack
from problems.labels import Group
from problems.logs.files import write_log
from sensors import Layout

__all__ = [
    "CODE",
    "KEY",
    "LAYOUT",
    "MJCF",
    "URDF",
    "cache_file",
    "db3_file",
    "layout",
    "layout_files",
    "plan_file",
    "problem_text",
    "robot",
    "valid_log",
]

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


@cache
def robot() -> dynsys.KinematicTree:
    """Robot that layouts, plans and logs are for."""
    return dynsys.synthetic.chain(3)


# ---- layouts, problems ---------------------------------------------------------------------

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
CATALOGUE = Path(__file__).resolve().parents[3] / "sensors" / "catalogue"


def layout_files() -> list[bytes]:
    """A layout of every kind we have, the catalogue's with names of our robot."""
    seeds = [LAYOUT]
    for path in sorted(CATALOGUE.glob("*.yaml")):
        text = re.sub(rb"(frame|at|joint|body): [^,}\n]+", rb"\1: link_2", path.read_bytes())
        text = re.sub(rb"(exclude|touched|except): \[[^]]*\]", rb"\1: [link_2]", text)
        seeds.append(text)
    return seeds


@cache
def layout() -> Layout:
    """The layout that logs are for."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layout.yaml"
        path.write_bytes(LAYOUT)
        return Layout.load(path, robot())


def problem_text() -> bytes:
    """Return a problem file with every section."""
    content = {
        "robot": "synthetic:chain:3",
        "base": "fixed",
        "layout": yaml.safe_load(LAYOUT),
        "outputs": ["torque", "std.torque", "acceleration.link_3", "chi_square", "residual.ft"],
        "prior": {"std": {"external_wrench": 100, "qdd": {"link_1": 3}}, "mean": {"qdd": 0.0}},
        "log": {"differentiate": {"window": 0.1, "order": 3}, "topics": {"hand_imu": "/imu"}},
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


# ---- plans, kernels ------------------------------------------------------------------------

KEY = "0" * 64
CODE = b"\x7fELF code"


def plan_file() -> bytes:
    """A plan as it is saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan"
        problems.ForwardDynamics(robot()).plan().save(path)
        return path.read_bytes()


def cache_file() -> bytes:
    """An entry of the cache of kernels."""
    arrays = {"inputs": np.arange(6.0).reshape(2, 3), "outputs": np.ones((2, 1), dtype="f4")}
    return pack(Entry(KEY, CODE, {"name": "forward"}, arrays))


# ---- logs ----------------------------------------------------------------------------------


@cache
def _rows() -> tuple[list[Group], list[Any]]:
    rng, read = np.random.default_rng(0), layout()
    time = np.linspace(0, 0.19, 20)[:, None]
    names = robot().joint_names
    groups = [
        Group("time", ("time",)),
        Group("q", tuple(f"q.{n}" for n in names)),
        Group("qd", tuple(f"qd.{n}" for n in names)),
        *(Group(n, tuple(read.labels[read.slice(n)])) for n in ("hand_imu", "ft", "tau1")),
    ]
    width = sum(len(group.columns) for group in groups) - 1
    rows = np.hstack([time, rng.normal(size=(20, width))])
    return groups, [rows[:13], rows[13:]]


def valid_log(ending: str) -> bytes:
    """Return a log that is good."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log{ending}"
        groups, chunks = _rows()
        write_log(path, groups, chunks)
        return path.read_bytes()


def db3_file() -> bytes:
    """The database of a ROS 2 bag of joint states."""
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
        return next(bag.glob("*.db3")).read_bytes()
