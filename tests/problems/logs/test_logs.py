"""Logs: every format gives the same samples; what is missing or damaged is named."""

from __future__ import annotations

import csv
import io
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import DynsysError, LayoutError
from dynsys.types import Array
from problems.labels import Group
from problems.log_jobs import run_job
from problems.logs import LogError, SampleReader, open_log
from problems.logs.files import write_log
from problems.problem_file import load_problem
from tests.problems.logs.log_cases import digest, simulated, solving

# ---- formats -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet", ".mcap"])
def test_every_format_gives_the_same_samples(problem_file: Path, ending: str) -> None:
    layout = load_problem(problem_file).sensors
    with open_log(simulated(problem_file)) as log:
        expected = SampleReader(layout, log).read(0, log.n_samples)
    with open_log(simulated(problem_file, "log" + ending)) as log:
        assert log.n_samples == 100
        whole = SampleReader(layout, log).read(0, 100)
        part = SampleReader(layout, log).read(31, 64)
        assert log.read(["time"], 40, 40)["time"].shape == (0, 1)
    for name in ("time", "q", "qd", "y"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(expected, name))
        np.testing.assert_array_equal(getattr(part, name), getattr(expected, name)[31:64])


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet", ".mcap"])
def test_every_format_is_written_with_the_same_bytes_twice(
    problem_file: Path, ending: str
) -> None:
    simulated(problem_file)
    folder = problem_file.parent
    for name in "ab":
        run_job(solving(problem_file, name + ending, chunk=40))
    assert digest(folder / f"a{ending}") == digest(folder / f"b{ending}")
    assert not list(folder.glob("*.partial")) + list(folder.glob("*.part"))


def test_a_ros_2_bag_of_sqlite_files_is_read(tmp_path: Path) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds = store.types
    Header, Time = kinds["std_msgs/msg/Header"], kinds["builtin_interfaces/msg/Time"]
    JointState = kinds["sensor_msgs/msg/JointState"]
    folder = tmp_path / "bag"
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


@pytest.mark.finding("Y-44")
def test_csv_files_keep_names_whatever_they_hold(tmp_path: Path) -> None:
    names = ('say "hi"', "a,b", 'x",y', '"', "plain")
    write_log(tmp_path / "log.csv", [Group("a", names)], [np.arange(10.0).reshape(2, 5)])
    with (tmp_path / "log.csv").open(newline="") as stream:
        header, *lines = csv.reader(stream)
    assert tuple(header) == names and lines == [list("01234"), list("56789")]
    with open_log(tmp_path / "log.csv") as log:
        read = log.read(names, 0, 2)
    assert [np.ravel(read[name]).tolist() for name in names] == [[k, k + 5] for k in range(5)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.finding("Z-M5")
def test_a_blank_line_is_a_missing_reading_of_the_only_column(tmp_path: Path, end: str) -> None:
    """It was passed over, so that all later readings came a sample early."""
    (tmp_path / "log.csv").write_text(end.join(["a", "1", "", "3", "  ", "5", ""]), newline="")
    with open_log(tmp_path / "log.csv") as log:
        assert log.n_samples == 5
        for start, stop in ((0, 5), (1, 3), (3, 4)):
            found = log.read(["a"], start, stop)["a"][:, 0]
            wanted = np.array([1, np.nan, 3, np.nan, 5])[start:stop]
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.finding("Z-C3")
def test_names_of_a_damaged_parquet_file_are_refused(tmp_path: Path) -> None:
    """A name that is no text ended in UnicodeDecodeError."""
    pyarrow, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.table({"position": [1.0, 2.0]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"position", b"\xc3osition"))
    with pytest.raises(LogError, match="not a readable Parquet file"):
        open_log(path)


def test_long_csv_files_are_read_in_stretches(tmp_path: Path) -> None:
    rows = np.arange(10_000.0).reshape(-1, 2)
    write_log(tmp_path / "log.csv", [Group("a", ("a", "b"))], [rows])
    with open_log(tmp_path / "log.csv") as log:
        assert log.n_samples == 5000
        for start, stop in ((0, 1), (2047, 2049), (2048, 4096), (4990, 5000)):
            found = log.read(["b"], start, stop)["b"][:, 0]
            np.testing.assert_array_equal(found, rows[start:stop, 1])


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


def test_layout_errors_are_of_the_family() -> None:
    assert issubclass(LogError, DynsysError) and issubclass(LayoutError, DynsysError)


@pytest.mark.finding("item 5")
def test_an_array_that_appears_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    for mode, value in (("w", 0.0), ("a", 1.0)):
        buffer = io.BytesIO()
        np.save(buffer, np.full((3, 2), value))
        with warnings.catch_warnings(), zipfile.ZipFile(path, mode) as archive:
            warnings.simplefilter("ignore")
            archive.writestr("q.npy", buffer.getvalue())
    with pytest.raises(LogError, match="the array 'q' appears twice"):
        open_log(path)
