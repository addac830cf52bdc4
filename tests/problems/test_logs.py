"""Logs: every format gives the same samples; alignment, derivatives, resumption, writing."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

import dynsys
import sensors
from dynsys.errors import DynsysError, LayoutError
from dynsys.types import Array
from problems.logs import Differentiation, LogError, SampleReader, open_log
from problems.logs.align import Stream
from problems.logs.chunks import ChunkStore
from problems.logs.differentiate import local_fit
from problems.logs.jobs import SimulateJob, SolveJob
from problems.logs.run import run_job
from problems.logs.write import Group, write_log
from problems.problem_file import ProblemFile, load_problem, save_problem
from problems.problem_schema import problem_schema
from problems.trajectory import Trajectory

PROBLEM = {
    "robot": "synthetic:random_tree:5:seed=2:joint_types=free,spherical,planar,revolute",
    "layout": {
        "sensors": [
            {"all_joint_accelerations": {"std": 0.1}},
            {"kind": "imu", "name": "imu", "frame": "body_1", "std": [0.1, 0.01]},
            {"kind": "force_torque", "name": "ft", "at": "body_2", "std": [0.1, 1.0]},
            "zero_external_wrench_except",
        ]
    },
    "outputs": ["torque", "std.torque", "acceleration.body_3", "chi_square", "residual.imu"],
}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    robot = load_problem_robot()
    text = yaml.safe_dump(PROBLEM).replace("body_1", robot.body_names[1])
    text = text.replace("body_2", robot.joint_names[2]).replace("body_3", robot.body_names[3])
    path = tmp_path / "problem.yaml"
    path.write_text(text)
    return path


def load_problem_robot() -> dynsys.KinematicTree:
    return ProblemFile(str(PROBLEM["robot"]), "").tree


def simulated(problem: Path, name: str, **options: float) -> Path:
    path = problem.parent / name
    run_job(SimulateJob(str(problem), str(path), duration=0.5, rate=200, chunk=37, **options))  # type: ignore[arg-type]
    return path


# ---- formats -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet", ".mcap"])
def test_every_format_gives_the_same_samples(problem: Path, ending: str) -> None:
    layout = load_problem(problem).sensors
    with open_log(simulated(problem, "log.npz")) as log:
        expected = SampleReader(layout, log).read(0, log.n_samples)
    with open_log(simulated(problem, "log" + ending)) as log:
        assert log.n_samples == 100
        whole = SampleReader(layout, log).read(0, 100)
        part = SampleReader(layout, log).read(31, 64)
    for name in ("time", "q", "qd", "y"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(expected, name))
        np.testing.assert_array_equal(getattr(part, name), getattr(expected, name)[31:64])


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet", ".mcap"])
def test_every_format_is_written_with_the_same_bytes_twice(problem: Path, ending: str) -> None:
    log = simulated(problem, "log.npz")
    outputs = [problem.parent / f"{name}{ending}" for name in "ab"]
    for output in outputs:
        run_job(SolveJob(str(problem), str(log), str(output), chunk=40))
    assert digest(outputs[0]) == digest(outputs[1])
    assert not list(problem.parent.glob("*.partial")) + list(problem.parent.glob("*.part"))


def test_a_ros_2_bag_of_sqlite_files_is_read(problem: Path) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds = store.types
    Header, Time = kinds["std_msgs/msg/Header"], kinds["builtin_interfaces/msg/Time"]
    JointState = kinds["sensor_msgs/msg/JointState"]
    folder = problem.parent / "bag"
    with Writer(folder, version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        topic = writer.add_connection("/joint_states", JointState.__msgtype__, typestore=store)
        for k in range(5):
            message = JointState(
                header=Header(stamp=Time(sec=1, nanosec=k * 10**7), frame_id=""),
                name=["a", "b"],
                position=np.array([0.1 * k, 1.0]),
                velocity=np.zeros(0),
                effort=np.array([float(k), 0.0]),
            )
            writer.write(topic, k, store.serialize_cdr(message, JointState.__msgtype__))
    with open_log(folder) as log:
        assert (log.n_samples, set(log.widths)) == (
            5,
            {"time", "q.a", "q.b", "effort.a", "effort.b"},
        )
        np.testing.assert_allclose(log.read(["q.a"], 1, 4)["q.a"][:, 0], [0.1, 0.2, 0.3])


def test_compressed_archives_and_empty_cells_are_read(tmp_path: Path) -> None:
    q = np.arange(20.0).reshape(10, 2)
    np.savez_compressed(tmp_path / "log.npz", q=q)
    with open_log(tmp_path / "log.npz") as log:
        np.testing.assert_array_equal(log.read(["q"], 3, 7)["q"], q[3:7])
        np.testing.assert_array_equal(log.read(["q"], 0, 2)["q"], q[:2])
    (tmp_path / "log.csv").write_text("time,a,b\n0,,2\n1,3,\n2, ,4\n")
    with open_log(tmp_path / "log.csv") as log:
        found = log.read(["a", "b"], 0, 3)
    np.testing.assert_array_equal(found["a"][:, 0], [np.nan, 3, np.nan])
    np.testing.assert_array_equal(found["b"][:, 0], [2, np.nan, 4])


def test_long_csv_files_are_read_in_stretches(tmp_path: Path) -> None:
    rows = np.arange(10_000.0).reshape(-1, 2)
    write_log(tmp_path / "log.csv", [Group("a", ("a", "b"))], [rows])
    with open_log(tmp_path / "log.csv") as log:
        assert log.n_samples == 5000
        for start, stop in ((0, 1), (2047, 2049), (2048, 4096), (4990, 5000)):
            found = log.read(["b"], start, stop)["b"][:, 0]
            np.testing.assert_array_equal(found, rows[start:stop, 1])


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


# ---- differentiation -----------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_local_polynomials_are_exact_on_polynomials_with_jitter(causal: bool) -> None:
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.5e-3, 1.5e-3, size=60))
    x = np.stack([t**3, 2 - t + 5 * t**2], axis=1)
    method = Differentiation(window=11, order=3, causal=causal)
    value, first, second = local_fit(method, t, x, slice(0, 60), True, True)
    np.testing.assert_allclose(value, x, atol=1e-12)
    np.testing.assert_allclose(first, np.stack([3 * t**2, 10 * t - 1], axis=1), atol=1e-9)
    np.testing.assert_allclose(second, np.stack([6 * t, 10 + 0 * t], axis=1), atol=1e-5)


def test_causal_derivatives_do_not_look_ahead() -> None:
    t = np.arange(50) * 1e-3
    x = np.sin(20 * t)[:, None]
    changed = x.copy()
    changed[40:] += 1.0
    method = Differentiation(window=9, order=2, causal=True)
    a = local_fit(method, t, x, slice(10, 40), True, True)[1]
    b = local_fit(method, t, changed, slice(10, 40), True, True)[1]
    np.testing.assert_array_equal(a, b)


def test_missing_velocities_and_accelerations_are_made(problem: Path) -> None:
    given = load_problem(problem)
    motion = Trajectory.random(given.tree, 1.0, seed=3)
    time_ = np.arange(0, 1, 1e-3)
    q, qd, qdd = motion.at(time_)
    flipped = q.copy()
    for where in given.tree.quaternion_slices:
        flipped[::2, where] *= -1  # the same pose
    path = problem.parent / "log.npz"
    layout = sensors.Layout(given.tree, sensors.all_joint_accelerations(given.tree))
    np.savez(path, time=time_, q=flipped)
    with open_log(path) as log:
        reader = SampleReader(layout, log, Differentiation(window=9, order=4))
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
        logged = SampleReader(layout, log, Differentiation(window=9, order=4)).read(0, 1000)
    np.testing.assert_array_equal(logged.qd, qd)
    np.testing.assert_allclose(logged.y, qdd, atol=1e-5)


# ---- errors --------------------------------------------------------------------------------


def chain_log(path: Path, **arrays: Array) -> SampleReader:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, [sensors.JointTorque("wrist", robot.joint_names[1])])
    np.savez(path / "log.npz", **arrays)
    return SampleReader(layout, open_log(path / "log.npz"))


def test_errors_name_what_is_missing(tmp_path: Path) -> None:
    ones = np.ones((30, 2))
    with pytest.raises(LogError, match="no position of joint"):
        chain_log(tmp_path, qq=ones)
    with pytest.raises(LogError, match=r"sensor 'wrist'.*did you mean 'wrest'"):
        chain_log(tmp_path, q=ones, qd=ones, wrest=ones[:, 0])
    with pytest.raises(LogError, match="needs 'time'"):
        chain_log(tmp_path, q=ones, wrist=ones[:, 0])
    with pytest.raises(LogError, match="has 29 samples, q has 30"):
        chain_log(tmp_path, q=ones, qd=ones, wrist=ones[1:, 0])
    with pytest.raises(LogError, match="'q' has 3 numbers per sample, not the 2"):
        chain_log(tmp_path, q=np.ones((30, 3)), qd=ones, wrist=ones[:, 0])
    with pytest.raises(LogError, match="'qd' has 3 numbers per sample, not the 2"):
        chain_log(tmp_path, q=ones, qd=np.ones((30, 3)), wrist=ones[:, 0])
    with pytest.raises(LogError, match="'wrist' has 2 numbers per sample, not the 1"):
        chain_log(tmp_path, q=ones, qd=ones, wrist=ones)
    with pytest.raises(LogError, match="'y' has 3 numbers per sample, not the 1"):
        chain_log(tmp_path, q=ones, qd=ones, y=np.ones((30, 3)))
    chain_log(tmp_path, q=ones, qd=ones, wrist=ones[:, 0], y=np.ones((30, 3)))
    with pytest.raises(LogError, match=r"no readings of sensor 'wrist'.*--allow-missing"):
        chain_log(tmp_path, q=ones, qd=ones)
    back = np.arange(30.0)
    back[20] = 3.0
    reader = chain_log(tmp_path, q=ones, qd=ones, wrist=ones[:, 0], time=back)
    with pytest.raises(LogError, match="sample 20: time does not ascend"):
        reader.read(20, 30)
    torque = np.where(back == 25, np.inf, 1.0)
    reader = chain_log(tmp_path, q=ones, qd=ones, wrist=torque)
    with pytest.raises(LogError, match=r"sample 25: 'wrist.torque' is infinite"):
        reader.read(20, 30)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.npz", b"no archive", "not a readable .npz file"),
        ("log.csv", b"a,a\n1,2\n", "appears twice"),
        ("log.csv", b"a,b\n1,2\n1,x\n", r"line 3: b is 'x', not a number"),
        ("log.csv", b"a,b\n1,2\n1\n", "line 3: 1 cells, not 2"),
        ("log.parquet", b"PAR1", "not a readable Parquet file"),
        ("log.mcap", b"no", "not a readable MCAP file"),
        ("log.txt", b"", "unknown kind of log"),
    ],
)
def test_damaged_logs_are_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=message), open_log(tmp_path / name) as log:
        log.read(list(log.widths), 0, log.n_samples)


def test_logs_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no such log"):
        open_log(tmp_path / "log.npz")


# ---- problem files -------------------------------------------------------------------------


def test_problem_files_survive_a_round_trip(problem: Path, tmp_path: Path) -> None:
    first = load_problem(problem)
    save_problem(first, tmp_path / "again.yaml")
    again = load_problem(tmp_path / "again.yaml")
    assert again.sensors.fingerprint() == first.sensors.fingerprint()
    assert (again.outputs, again.differentiation) == (first.outputs, first.differentiation)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"robott": "x"}, r"unknown section 'robott'.*did you mean 'robot'"),
        ({"base": "sitting"}, r"line \d+: base must be fixed or floating"),
        ({"outputs": ["torqe"]}, r"outputs: output 'torqe'.*did you mean 'torque'"),
        ({"outputs": ["torque.nowhere"]}, "outputs: .*nowhere"),
        ({"prior": {"std": {"torq": 1.0}}}, r"prior: unknown.*did you mean 'torque'"),
        ({"sensors": []}, r"this is a layout file.*layout: p\.yaml"),
        ({"log": {"differentiate": {"window": 1.5}}}, "window must be a whole number"),
        ({"log": {"differentiate": {"window": 2}}}, "must be at least 2 and below the window"),
        ({"robot": "nowhere.urdf"}, "line 1: robot: .*nowhere.urdf"),
        ({"layout": "catalogue:naoo"}, "did you mean 'nao'"),
        (
            {"layout": {"sensors": [{"kind": "imuu", "name": "x"}]}},
            r"line \d+: unknown kind .*did you mean 'imu'",
        ),
    ],
)
def test_problem_files_are_refused_with_the_place(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        yaml.safe_dump({"robot": "synthetic:chain:2"} | PROBLEM | change, sort_keys=False)
        if "robot" not in change
        else yaml.safe_dump(PROBLEM | change, sort_keys=False)
    )
    with pytest.raises(DynsysError, match=message) as caught:
        _ = load_problem(path).estimation
    assert "p.yaml" in str(caught.value)


def test_the_schema_accepts_what_is_read(problem: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = problem_schema()
    jsonschema.validate(yaml.safe_load(problem.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"robot": "x", "layout": "y", "outputz": []}, schema)
    assert json.dumps(schema)


# ---- chunks, resumption, workers -----------------------------------------------------------


def test_all_ways_to_run_give_the_same_bytes(problem: Path) -> None:
    log = simulated(problem, "log.npz", missing=0.02)
    jobs = [
        SolveJob(str(problem), str(log), str(problem.parent / f"{n}.npz"), chunk=30)
        for n in "abc"
    ]
    run_job(jobs[0])
    run_job(jobs[1], workers=2)
    run_job(jobs[2], workers=2, scheduler="local")
    assert len({digest(Path(job.output)) for job in jobs}) == 1


def test_an_interrupted_run_resumes(problem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = simulated(problem, "log.npz")
    whole = SolveJob(str(problem), str(log), str(problem.parent / "whole.npz"), chunk=20)
    run_job(whole)
    job = SolveJob(str(problem), str(log), str(problem.parent / "out.npz"), chunk=20)
    original = SolveJob.work

    def failing(self: SolveJob, k: int) -> Array:
        if k == 3:
            raise KeyboardInterrupt
        return original(self, k)

    monkeypatch.setattr(SolveJob, "work", failing)
    with pytest.raises(KeyboardInterrupt):
        run_job(job)
    assert not Path(job.output).exists()
    monkeypatch.setattr(SolveJob, "work", original)
    finished = run_job(job)
    assert (finished.resumed, finished.n_samples) == (60, 100)
    assert digest(Path(job.output)) == digest(Path(whole.output))


def test_another_job_does_not_resume(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "out.npz", 10, 4, 1)
    assert store.prepare({"log": 1}) == 0
    store.put(0, np.zeros((4, 1)))
    assert store.prepare({"log": 1}) == 1
    assert store.prepare({"log": 2}) == 0
    with pytest.raises(LogError, match="chunk 2 has shape"):
        store.put(2, np.zeros((4, 1)))


def test_a_killed_process_leaves_no_output_and_can_go_on(problem: Path) -> None:
    log = simulated(problem, "log.npz")
    output = problem.parent / "out.npz"
    arguments = ["solve", str(problem), str(log), "-o", str(output), "--chunk", "2"]
    with subprocess.Popen([sys.executable, "-m", "problems.cli", *arguments]) as process:
        deadline = time.monotonic() + 120
        while not list(problem.parent.glob("out.npz.partial/0*.npy")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert not output.exists()
    assert run_job(SolveJob(str(problem), str(log), str(output), chunk=2)).resumed > 0
    assert output.exists()


def test_outputs_that_cannot_be_written(problem: Path) -> None:
    log = simulated(problem, "log.npz")
    for name, message in (("out.xls", "unknown kind of log"), ("no/out.npz", "no folder")):
        with pytest.raises(LogError, match=message):
            run_job(SolveJob(str(problem), str(log), str(problem.parent / name)))
    with pytest.raises(LogError, match="no Dask scheduler"):
        job = SolveJob(str(problem), str(log), str(problem.parent / "o.npz"))
        run_job(job, scheduler="inproc://nowhere/1/1")


def test_no_output_replaces_the_log_it_is_made_from(problem: Path) -> None:
    log = simulated(problem, "log.npz")
    before = digest(log)
    for same in (log, log.parent / ".." / log.parent.name / log.name):
        with pytest.raises(LogError, match="would replace what it is made from"):
            run_job(SolveJob(str(problem), str(log), str(same)))
    with pytest.raises(LogError, match="would replace what it is made from"):
        run_job(SimulateJob(str(problem), str(log), trajectory=str(log)))
    assert digest(log) == before


def test_rows_without_position_are_missing_not_wrong(problem: Path) -> None:
    log = simulated(problem, "log.npz")
    arrays = dict(np.load(log))
    arrays["q"][7] = np.nan
    np.savez(log, **arrays)
    output = problem.parent / "out.npz"
    finished = run_job(SolveJob(str(problem), str(log), str(output)))
    torque = np.load(output)["torque"]
    assert np.isnan(torque[7]).all() and np.isfinite(np.delete(torque, 7, axis=0)).all()
    assert finished.missing_rows >= 1


def test_layout_errors_are_of_the_family() -> None:
    assert issubclass(LogError, DynsysError) and issubclass(LayoutError, DynsysError)
