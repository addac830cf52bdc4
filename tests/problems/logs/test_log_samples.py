"""Samples of a log: streams aligned in time, derivatives that were not logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynsys
import sensors
from dynsys.types import Array
from problems.logs import Differentiation, SampleReader, Smoother, open_log
from problems.logs.align import Stream
from problems.logs.columns import Column, Columns
from problems.logs.differentiate import sampling_period
from problems.logs.ros import DEFINITIONS, JOINT_STATE, ODOMETRY, build_message
from problems.logs.samples import continuous_positions
from problems.logs.simulate import Trajectory
from problems.problem_file import load_problem

# ---- alignment -----------------------------------------------------------------------------


def test_streams_are_interpolated_and_gaps_stay_gaps() -> None:
    times = np.array([0.0, 1.0, 2.0, 3.0, 9.0, 10.0])
    values = 2 * times[:, None]
    stream = Stream(times, 1, lambda start, stop: values[start:stop])
    at = np.array([-0.5, 0.0, 0.25, 2.5, 3.0, 5.0, 9.0, 9.5, 11.0])
    expected = np.where(np.isin(at, [-0.5, 5.0, 11.0]), np.nan, 2 * at)
    np.testing.assert_allclose(stream.at(at)[:, 0], expected)
    pieces = [stream.at(at[k : k + 2])[:, 0] for k in range(0, 8, 2)]
    np.testing.assert_array_equal(np.concatenate(pieces), stream.at(at[:8])[:, 0])


def test_sensors_with_times_of_their_own_are_aligned(tmp_path: Path) -> None:
    robot = dynsys.synthetic.chain(1)
    (joint,) = robot.joint_names
    layout = sensors.Layout(robot, [sensors.JointTorque("t", joint)])
    time = np.linspace(0, 1, 11)
    slow = np.linspace(-0.05, 1.05, 12)
    arrays = {"time": time, "q": time[:, None], "qd": time[:, None] ** 0, "t": 3 * slow}
    np.savez(tmp_path / "log.npz", **arrays, **{"time.t": slow})
    with open_log(tmp_path / "log.npz") as log:
        samples = SampleReader(layout, log).read(0, 11)
    np.testing.assert_allclose(samples.y[:, 0], 3 * time)


def _turning(time: Array) -> Array:
    """Pose (N, 7) of a base that turns about a fixed axis, past half a turn."""
    half = 0.5 * (2.0 + 1.5 * time)
    axis = np.array([0.6, 0.0, 0.8])
    pose = np.zeros((len(time), 7))
    pose[:, 3:6], pose[:, 6] = np.sin(half)[:, None] * axis, np.cos(half)
    pose[:, 3:] *= np.where(pose[:, 6] < 0, -1.0, 1.0)[:, None]  # as many programs write it
    return pose


def _angles_apart(q: Array, expected: Array) -> Array:
    return 2 * np.arccos(np.minimum(np.abs(np.sum(q[:, 3:7] * expected[:, 3:], axis=1)), 1.0))


@pytest.mark.parametrize("written", ["joint", "wxyz", "rpy", "odometry"])
@pytest.mark.finding("Y-6")
def test_rotations_with_times_of_their_own_take_the_shorter_way(
    written: str, tmp_path: Path
) -> None:
    robot = dynsys.synthetic.humanoid30()
    root, *joints = robot.joint_names
    layout = sensors.Layout(robot, [sensors.JointTorque("t", joints[0], value=0.0)])
    time, slow = np.arange(400) / 200, np.arange(101) / 50
    pose, columns = _turning(slow), Columns()
    jumps = np.abs(np.diff(pose, axis=0)).max(axis=1) > 0.5
    assert jumps.sum() == 1
    if written == "odometry":
        path = tmp_path / "log.mcap"
        _write_odometry(path, time, joints, slow, pose)
    else:
        arrays = {f"q.{joint}": 0 * time for joint in joints} | {"time": time}
        given = {f"q.{root}": pose}
        if written != "joint":
            quaternion, rotation = pose[:, [6, 3, 4, 5]], pose[:, 3:]
            angles = np.rad2deg(Rotation.from_quat(rotation).as_euler("xyz"))
            given = {"place": pose[:, :3], "turn": quaternion if written == "wxyz" else angles}
            turn = Column("turn", unit="deg" if written == "rpy" else "", rotation=written)
            columns = Columns({f"q.{root}": (Column("place"), turn)})
        path = tmp_path / "log.npz"
        np.savez(path, **arrays, **given, **{f"time.{name}": slow for name in given})
    with open_log(path, columns=columns) as log:
        samples = SampleReader(layout, log).read(0, 400)
    apart = _angles_apart(samples.q, _turning(samples.time))
    # between angles of rpy the shorter way is no turn about one axis
    assert np.isfinite(apart).sum() > 390 and np.nanmax(apart) < (
        1e-2 if written == "rpy" else 1e-4
    )


@pytest.mark.parametrize("written", ["joint", "deg", "states"])
@pytest.mark.finding("Z-B3")
def test_angles_of_joints_with_times_of_their_own_go_on_over_the_ends_of_a_turn(
    written: str, tmp_path: Path
) -> None:
    """Half way between 3.1 and -3.1 there was zero."""
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, sensors.all_joint_accelerations(robot, std=0.1))
    one, two = robot.joint_names
    time, slow, columns = np.arange(400) / 200, np.arange(101) / 50, Columns()
    angle = (4 * slow + np.pi) % (2 * np.pi) - np.pi
    if written == "states":
        path = tmp_path / "log.mcap"
        writer_of = pytest.importorskip("mcap_ros2.writer").Writer
        with path.open("wb") as stream, writer_of(stream) as writer:
            kind = writer.register_msgdef(JOINT_STATE, DEFINITIONS[JOINT_STATE])
            for name, times, q in ((one, slow, angle), (two, time, 0 * time)):
                for t, x in zip(times.tolist(), q.tolist(), strict=True):
                    message = build_message(JOINT_STATE, t, {f"q.{name}": x})
                    writer.write_message(f"/states_of_{name}", kind, message, round(t * 1e9))
    else:
        path, name = tmp_path / "log.npz", f"q.{one}" if written == "joint" else "theirs"
        if written == "deg":
            angle, columns = np.rad2deg(angle), Columns({f"q.{one}": (Column(name, "deg"),)})
        own = {name: angle, f"time.{name}": slow}
        np.savez(path, **{"time": time, f"q.{two}": 0 * time} | own)
    with open_log(path, columns=columns) as log:
        samples = SampleReader(layout, log).read(0, 400)
    np.testing.assert_allclose(np.cos(samples.q[:, 0]), np.cos(4 * samples.time), atol=1e-9)
    np.testing.assert_allclose(samples.qd[:, 0], 4.0, atol=1e-8)


def test_wheels_with_times_of_their_own_are_not_turned_back(tmp_path: Path) -> None:
    """Five rad between readings, no end of a turn."""
    time, slow = np.arange(9) / 8, np.arange(5) / 4
    arrays = {"time": time, "q.wheel": 5.0 * np.arange(3, 8), "time.q.wheel": slow}
    np.savez(tmp_path / "log.npz", **arrays)
    with open_log(tmp_path / "log.npz") as log:
        found = log.read(["q.wheel"], 0, 9)["q.wheel"][:, 0]
    np.testing.assert_allclose(found, 15 + 20 * time)


def test_four_numbers_of_a_sensor_are_no_rotation(tmp_path: Path) -> None:
    """Cells of a plate that change their sign, at times of their own."""
    time, slow = np.arange(9) / 8, np.arange(3) / 2
    cells = np.array([[1.0, 2.0, 3.0, 4.0], [-3.0, -2.0, -3.0, -4.0], [1.0, 2.0, 3.0, 4.0]])
    arrays = {"time": time, "q": 0 * time[:, None], "cells": cells, "time.cells": slow}
    np.savez(tmp_path / "log.npz", **arrays)
    with open_log(tmp_path / "log.npz") as log:
        found = log.read(["cells"], 0, 9)["cells"]
    np.testing.assert_allclose(found[2], 0.5 * (cells[0] + cells[1]))


def _write_odometry(
    path: Path, time: Array, joints: list[str], slow: Array, pose: Array
) -> None:
    writer_of = pytest.importorskip("mcap_ros2.writer").Writer
    with path.open("wb") as stream, writer_of(stream) as writer:
        kinds = JOINT_STATE, ODOMETRY
        states, poses = (writer.register_msgdef(kind, DEFINITIONS[kind]) for kind in kinds)
        for t in time.tolist():
            message = build_message(JOINT_STATE, t, {f"q.{joint}": 0.0 for joint in joints})
            writer.write_message("/joint_states", states, message, round(t * 1e9))
        for t, row in zip(slow.tolist(), pose.tolist(), strict=True):
            values = {f"q[{k}]": x for k, x in enumerate(row)}
            values |= {f"qd[{k}]": x for k, x in enumerate([0.9, 0, 1.2, 0, 0, 0])}
            message = build_message(ODOMETRY, t, values)
            writer.write_message("/odom", poses, message, round(t * 1e9))


# ---- differentiation -----------------------------------------------------------------------


@pytest.mark.finding("Y-7")
def test_signs_of_quaternions_do_not_count_across_missing_samples(tmp_path: Path) -> None:
    robot = dynsys.synthetic.humanoid30()
    layout = sensors.Layout(robot, [sensors.JointTorque("t", robot.joint_names[1], value=0.0)])
    time = np.arange(300) / 200
    q = np.column_stack([_turning(time), np.zeros((300, robot.nq - 7))])
    q += 1e-6 * np.random.default_rng(0).normal(size=q.shape)
    (jump,) = np.flatnonzero(np.abs(np.diff(q, axis=0)).max(axis=1) > 0.5)
    q[jump - 1 : jump + 3] = np.nan
    np.savez(tmp_path / "log.npz", time=time, q=q)
    with open_log(tmp_path / "log.npz") as log:
        samples = SampleReader(layout, log, Smoother()).read(0, 300)
    np.testing.assert_allclose(samples.qd[:, :3], np.tile([0.9, 0.0, 1.2], (300, 1)), atol=0.01)


@pytest.mark.parametrize("causal", [False, True])
def test_local_polynomials_are_exact_on_polynomials_with_jitter(causal: bool) -> None:
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.5e-3, 1.5e-3, size=60))
    x = np.stack([t**3, 2 - t + 5 * t**2], axis=1)
    method = Differentiation(window=0.01, order=3, causal=causal)
    value, first, second = method.fit(t, x, slice(0, 60), True, True, sampling_period(t))
    np.testing.assert_allclose(value, x, atol=1e-12)
    np.testing.assert_allclose(first, np.stack([3 * t**2, 10 * t - 1], axis=1), atol=1e-9)
    np.testing.assert_allclose(second, np.stack([6 * t, 10 + 0 * t], axis=1), atol=1e-5)


def test_causal_derivatives_do_not_look_ahead() -> None:
    t = np.arange(50) * 1e-3
    x = np.sin(20 * t)[:, None]
    changed = x.copy()
    changed[40:] += 1.0
    method = Differentiation(window=0.008, order=2, causal=True)
    a = method.fit(t, x, slice(10, 40), True, True, 1e-3)[1]
    b = method.fit(t, changed, slice(10, 40), True, True, 1e-3)[1]
    np.testing.assert_array_equal(a, b)


def test_missing_velocities_and_accelerations_are_made(problem_file: Path) -> None:
    given = load_problem(problem_file)
    motion = Trajectory.random(given.tree, 1.0, seed=3)
    time_ = np.arange(0, 1, 1e-3)
    q, qd, qdd = motion.at(time_)
    flipped = q.copy()
    for where in given.tree.quaternion_slices:
        flipped[::2, where] *= -1  # the same pose
    path = problem_file.parent / "log.npz"
    layout = sensors.Layout(given.tree, sensors.all_joint_accelerations(given.tree))
    np.savez(path, time=time_, q=flipped)
    with open_log(path) as log:
        reader = SampleReader(layout, log, Differentiation(window=0.008, order=4))
        whole, parts = (
            reader.read(0, 1000),
            [reader.read(k, k + 250) for k in (0, 250, 500, 750)],
        )
    assert any("velocity" in text for text in reader.derived)
    np.testing.assert_allclose(whole.qd, qd, atol=1e-6)
    np.testing.assert_allclose(whole.y, qdd, atol=2e-3)
    for name in ("q", "qd", "y"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    np.savez(path, time=time_, q=q, qd=qd)
    with open_log(path) as log:
        logged = SampleReader(layout, log, Differentiation(window=0.008, order=4)).read(0, 1000)
    np.testing.assert_array_equal(logged.qd, qd)
    np.testing.assert_allclose(logged.y, qdd, atol=1e-5)


@pytest.mark.parametrize("method", [Differentiation(0.1, smooth=True), Smoother()])
@pytest.mark.finding("Y-5")
def test_angles_logged_within_one_turn_go_on_over_its_ends(tmp_path: Path, method) -> None:
    """An encoder that jumps from pi to -pi made velocities of a turn in a sample."""
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, sensors.all_joint_accelerations(robot, std=0.1))
    time = np.arange(500) / 100
    q = np.column_stack([3 * time + 0.2 * np.sin(time), -2 * time])
    q[200:203, 1] = np.nan if isinstance(method, Smoother) else q[200:203, 1]
    found = []
    for positions in (q, (q + np.pi) % (2 * np.pi) - np.pi):
        np.savez(tmp_path / "log.npz", time=time, q=positions)
        with open_log(tmp_path / "log.npz") as log:
            reader = SampleReader(layout, log, method)
            found.append([reader.read(0, 300), reader.read(300, 500)])
            known = np.isfinite(positions[:300])
            np.testing.assert_allclose(found[-1][0].q[known], positions[:300][known], atol=0.01)
    for plain, wrapped in zip(*found, strict=True):
        np.testing.assert_allclose(wrapped.qd, plain.qd, atol=1e-7)
        np.testing.assert_allclose(wrapped.y, plain.y, atol=1e-5)
    assert np.abs(wrapped.qd - [3.0, -2.0]).max() < 0.3


@pytest.mark.finding("Z-B4")
def test_angles_within_one_turn_may_be_rounded_beyond_it() -> None:
    """3.142 and -3.142 are more than a turn apart."""
    robot = dynsys.synthetic.chain(1)
    q = np.pi + 0.0002 * np.random.default_rng(0).normal(size=(50, 1))
    logged = np.round((q + np.pi) % (2 * np.pi) - np.pi, 3)
    assert np.ptp(logged) > 2 * np.pi
    made = continuous_positions(robot, logged)
    assert np.abs(np.diff(made - q, axis=0)).max() < 0.002


def test_fast_wheels_are_not_taken_for_angles_within_one_turn() -> None:
    robot = dynsys.synthetic.chain(1)
    q = 5.5 * np.arange(20.0)[:, None]
    np.testing.assert_array_equal(continuous_positions(robot, q), q)
