"""Logs as others write them: other names, units, orders, files of other programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

import dynsys
import sensors
from dynsys import DynsysError, KinematicTree
from dynsys.errors import LogError
from dynsys.model.body import Body
from dynsys.model.joints import Revolute, Spherical
from problems.labels import entry_names
from problems.logs import SampleReader, open_log
from problems.logs.columns import Column, Columns, MappedLog
from problems.logs.source import AbstractLog
from problems.problem_file import load_problem


class Held(AbstractLog):
    """A log in memory."""

    def __init__(self, **arrays: Any) -> None:
        self._arrays = {k: np.atleast_2d(np.asarray(v, dtype=float)) for k, v in arrays.items()}
        self.path = Path("held.npz")
        self.n_samples = len(next(iter(self._arrays.values())))
        self.widths = {name: a.shape[1] for name, a in self._arrays.items()}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, np.ndarray]:
        return {name: self._arrays[name][start:stop] for name in names}


def made(column: Column, values: Any) -> np.ndarray:
    return MappedLog(Held(x=values), Columns({"ours": (column,)})).read(["ours"], 0, 2)["ours"]


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [("deg", 180.0, np.pi), ("g", 1.0, 9.80665), ("ns", 2e9, 2.0), ("rpm", 60.0, 2 * np.pi)],
)
def test_units_become_si(unit: str, value: float, expected: float) -> None:
    assert made(Column("x", unit=unit), [[value]])[0, 0] == pytest.approx(expected)


def test_signs_orders_and_scales() -> None:
    column = Column("x", sign=(1, 1, -1), order=(2, 0, 1), scale=10.0)
    np.testing.assert_array_equal(made(column, [[1.0, 2.0, 3.0]]), [[-30.0, 10.0, 20.0]])
    np.testing.assert_array_equal(made(Column("x[1:3]"), [[1.0, 2.0, 3.0]]), [[2.0, 3.0]])
    np.testing.assert_array_equal(made(Column("x[0]"), [[1.0, 2.0, 3.0]]), [[1.0]])


def test_rotations_become_quaternions() -> None:
    half = np.sqrt(0.5)
    w_first = made(Column("x", rotation="wxyz"), [[half, 0.0, 0.0, half]])
    angles = made(Column("x", unit="deg", rotation="rpy"), [[0.0, 0.0, 90.0]])
    np.testing.assert_allclose(w_first, [[0, 0, half, half]], atol=1e-15)
    np.testing.assert_allclose(angles, w_first, atol=1e-15)
    # fixed axes: roll first, then yaw about the axis of the parent
    both = made(Column("x", unit="deg", rotation="rpy"), [[90.0, 0.0, 90.0]])
    np.testing.assert_allclose(both, [[0.5, 0.5, 0.5, 0.5]], atol=1e-15)


def test_joints_and_rates() -> None:
    log = Columns(joints={"elbow": "axis3"}, rate=50.0).applied(
        Held(**{"q.axis3": [[1.0], [2.0]]})
    )
    content = log.read(["q.elbow", "time"], 0, 2)
    np.testing.assert_array_equal(content["q.elbow"][:, 0], [1.0, 2.0])
    np.testing.assert_allclose(content["time"][:, 0], [0.0, 0.02])


@pytest.mark.finding("Z-M2")
def test_joints_whose_names_are_exchanged_lend_each_other_nothing() -> None:
    """The log calls each by the name of the other; the torque of one was not logged."""
    logged = Held(**{"q.left": [[1.0]], "q.right": [[2.0]], "effort.left": [[3.0]]})
    log = Columns(joints={"left": "right", "right": "left"}).applied(logged)
    content = log.read(["q.left", "q.right", "effort.right"], 0, 1)
    assert [float(x[0, 0]) for x in content.values()] == [2.0, 1.0, 3.0]
    assert "effort.left" not in log.widths


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns({"q": (Column("positon"),)}), "no 'positon'; did you mean 'position'"),
        (Columns({"q": (Column("position[3]"),)}), "columns 0..1, no 'position.3.'"),
        (Columns({"q": (Column("position", sign=(1, 1, 1)),)}), "sign has 3 numbers"),
        (Columns({"q": (Column("position", order=(1, 1)),)}), "each of the columns 0..1 once"),
        (
            Columns({"q": (Column("position", rotation="rpy"),)}),
            "has 3 numbers, 'position' has 2",
        ),
        (Columns(joints={"a": "b"}), "nothing of a joint 'b'"),
        (Columns(rate=5.0), "times of its own; leave out rate"),
    ],
)
def test_what_does_not_fit_is_named(columns: Columns, message: str) -> None:
    with pytest.raises(LogError, match=message):
        columns.applied(Held(position=[[1.0, 2.0]], time=[[0.0]]))


PROBLEM = """
robot: synthetic:chain:2
layout: {{sensors: [all_joint_torques: {{std: 0.1}}]}}
log:
  {}
"""


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("columns: {q: {unit: degrees}}", "unknown unit 'degrees'.*did you mean 'deg"),
        ("columns: {q: {form: x}}", "unknown key of column 'q'; 'form'.*did you mean 'from'"),
        ("columns: {q: {sign: [1, 2]}}", "sign must hold 1 and -1 only"),
        ("columns: {q: {scale: 0}}", "other than zero"),
        ("columns: {q: {as: quaternion}}", "written as xyzw, wxyz, rpy"),
        ("rate: -1", "rate must be positive"),
        ("rate: fast", "rate must be a number"),
    ],
)
def test_problem_files_say_what_is_wrong_and_where(
    section: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(PROBLEM.format(section))
    with pytest.raises(DynsysError, match=f"line 5: .*{message}"):
        load_problem(path)


def _layout() -> sensors.Layout:
    robot = dynsys.synthetic.chain(2)
    return sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1))


@pytest.mark.parametrize("kind", ["semicolons", "no header", "columns", "mat 5", "mat 7.3"])
def test_files_of_other_programs_give_the_same_samples(kind: str, tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 300
    time, q, qd, torque = np.arange(n) / 100, *rng.normal(size=(3, n, 2))
    degrees = np.rad2deg(q)
    columns = {
        "q": (Column("pos", unit="deg"),),
        "qd": (Column("vel"),),
        "y": (Column("eff", sign=(-1, -1)),),
    }
    rate: float | None = 100.0
    if kind == "semicolons":
        path, rate = tmp_path / "log.csv", None
        cells = np.column_stack([time, degrees, qd, -torque])
        lines = ["time;p0;p1;v0;v1;e0;e1", *(";".join(map(repr, r.tolist())) for r in cells)]
        path.write_text("\n".join(lines).replace(".", ",") + "\n")
        columns = {
            "q": (Column("p0", unit="deg"), Column("p1", unit="deg")),
            "qd": (Column("v0"), Column("v1")),
            "y": (Column("e0", scale=-1.0), Column("e1", scale=-1.0)),
        }
    elif kind == "no header":
        path = tmp_path / "log.csv"
        np.savetxt(path, np.hstack([degrees, qd, -torque]), delimiter=",", fmt="%.17g")
        columns = {
            "q": (Column("0", unit="deg"), Column("1", unit="deg")),
            "qd": (Column("2"), Column("3")),
            "y": (Column("4", scale=-1.0), Column("5", scale=-1.0)),
        }
    elif kind == "columns":
        path = tmp_path / "log.npz"
        np.savez(path, pos=np.asfortranarray(degrees), vel=np.asfortranarray(qd), eff=-torque)
    elif kind == "mat 5":
        path = tmp_path / "log.mat"
        robot = {
            "pos": degrees.T,
            "vel": qd.T,
            "eff": -torque,
            "name": "arm",
            "pose": np.eye(4),
        }
        scipy.io.savemat(path, {"robot": robot})
        columns = {
            k: tuple(Column(f"robot.{c.source}", c.unit, sign=c.sign) for c in v)
            for k, v in columns.items()
        }
    else:
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "log.mat"
        with h5py.File(path, "w") as file:
            for name, values in (("pos", degrees), ("vel", qd), ("eff", -torque)):
                file[name] = values  # MATLAB's (2, n), transposed as HDF5 holds it
                file[name].attrs["MATLAB_class"] = np.bytes_("double")
    with open_log(path, columns=Columns(columns, rate=rate)) as log:
        samples = SampleReader(_layout(), log).read(100, 220)
    np.testing.assert_allclose(samples.q, q[100:220], rtol=1e-14)
    np.testing.assert_allclose(samples.qd, qd[100:220], rtol=1e-14)
    np.testing.assert_allclose(samples.y, torque[100:220], rtol=1e-14)
    np.testing.assert_allclose(samples.time, time[100:220], rtol=1e-12)


def test_a_database_without_its_metadata_is_a_bag(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kind = "sensor_msgs/msg/JointState"
    types = store.types
    with sqlite3.connect(tmp_path / "log.db3") as file:
        file.execute("CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT)")
        file.execute(
            "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER,"
            " timestamp INTEGER, data BLOB)"
        )
        file.execute("INSERT INTO topics VALUES (1, '/joint_states', ?)", (kind,))
        for k in range(5):
            stamp = types["builtin_interfaces/msg/Time"](sec=k, nanosec=500)
            header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
            message = types[kind](
                header=header,
                name=["link_1", "link_2"],
                position=np.array([k, 2.0 * k]),
                velocity=np.zeros(2),
                effort=np.array([3.0 * k, 0.0]),
            )
            raw = bytes(store.serialize_cdr(message, kind))
            file.execute("INSERT INTO messages VALUES (?, 1, ?, ?)", (k, 10**9 * k, raw))
    with open_log(tmp_path / "log.db3") as log:
        samples = SampleReader(_layout(), log).read(0, 5)
    np.testing.assert_array_equal(samples.q[:, 1], 2.0 * np.arange(5))
    np.testing.assert_array_equal(samples.y[:, 0], 3.0 * np.arange(5))
    (tmp_path / "bad.db3").write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(LogError, match="not a readable ROS 2 bag"):
        open_log(tmp_path / "bad.db3")


def test_effort_is_what_a_motor_torque_reads(tmp_path: Path) -> None:
    robot = dynsys.synthetic.chain(1)
    (joint,) = robot.joint_names
    layout = sensors.Layout(
        robot, [sensors.MotorTorque("motor", joint, gear_ratio=100.0, std=1)]
    )
    arrays = {"time": np.arange(3.0), "q": np.zeros((3, 1)), "qd": np.zeros((3, 1))}
    np.savez(tmp_path / "log.npz", **arrays, **{f"effort.{joint}": np.arange(3.0)})
    with open_log(tmp_path / "log.npz") as log:
        samples = SampleReader(layout, log).read(0, 3)
    np.testing.assert_array_equal(samples.y[:, 0], np.arange(3.0))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.finding("C-22")
def test_one_effort_is_not_two_readings(own: bool, tmp_path: Path) -> None:
    """Torques had 0.71 of their true deviation, and a check that always agreed."""
    robot = dynsys.synthetic.chain(1)
    (joint,) = robot.joint_names
    motor = sensors.MotorTorque("motor", joint, gear_ratio=1.0, std=1)
    layout = sensors.Layout(robot, [*sensors.all_joint_torques(robot, std=1), motor])
    arrays = {"time": np.arange(3.0), "q": np.zeros((3, 1)), "qd": np.zeros((3, 1))}
    arrays |= {f"effort.{joint}": np.arange(3.0)} | ({"motor": np.ones(3)} if own else {})
    np.savez(tmp_path / "log.npz", **arrays)  # type: ignore[arg-type]
    with open_log(tmp_path / "log.npz") as log:
        if own:
            y = SampleReader(layout, log).read(0, 3).y
            np.testing.assert_array_equal(y, np.column_stack([np.arange(3.0), np.ones(3)]))
        else:
            with pytest.raises(LogError, match=f"'motor' would both read effort.{joint}"):
                SampleReader(layout, log)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.finding("C-28")
def test_one_acceleration_is_not_two_readings(own: bool, tmp_path: Path) -> None:
    robot = dynsys.synthetic.chain(1)
    more = sensors.JointAcceleration("more", robot.joint_names[0], std=1)
    layout = sensors.Layout(robot, [*sensors.all_joint_accelerations(robot, std=1), more])
    arrays = {"time": np.arange(30.0) / 100, "q": np.ones((30, 1))}
    arrays |= {"more": np.ones(30)} if own else {}
    np.savez(tmp_path / "log.npz", **arrays)  # type: ignore[arg-type]
    with open_log(tmp_path / "log.npz") as log:
        if own:
            assert SampleReader(layout, log).read(0, 30).y[9] == pytest.approx([0, 1], abs=1e-9)
        else:
            with pytest.raises(LogError, match="'more' would both read qdd"):
                SampleReader(layout, log)


@pytest.mark.parametrize("turned", ["{from: [w, i, j, k], as: wxyz}", "{from: [i, j, k, w]}"])
@pytest.mark.finding("C-25")
def test_quaternions_come_as_four_columns(turned: str, tmp_path: Path) -> None:
    """The entry that a doubt about their order names was refused of every CSV file."""
    log, path = tmp_path / "log.csv", tmp_path / "problem.yaml"
    u = np.array([0.1, -0.2, 0.3, 0.9]) / np.linalg.norm([0.1, -0.2, 0.3, 0.9])
    numbers = ",".join(map(str, [1.0, 2.0, 3.0, *np.roll(u, 1), 0.5]))
    log.write_text(
        "time,x,y,z,w,i,j,k,q.l_knee\n" + "".join(f"{n / 100},{numbers}\n" for n in range(20))
    )
    text = (
        "robot: example:humanoid\nbase: floating\n"
        "layout: {sensors: [zero_external_wrench_except: []]}\n"
        f"log: {{columns: {{q.root: [{{from: [x, y, z]}}, {turned}]}}}}\n"
    )
    robot = dynsys.load("dynsys/model/data/humanoid.urdf", floating_base=True)
    rest = {name: 0.0 for name in robot.joint_names if name not in ("root", "l_knee")}
    path.write_text(text + f"lock: {rest}\n".replace("'", ""))
    q = load_problem(path).samples(log).q[7]
    np.testing.assert_allclose(q[:7], [1, 2, 3, *u], rtol=1e-12)
    path.write_text(text.replace(turned, "{from: [i, j, k], as: rpy}"))
    with pytest.raises(DynsysError, match="as wxyz or, without 'as', in the order x y z w"):
        load_problem(path)


def test_a_list_of_columns_is_one_sensor(tmp_path: Path) -> None:
    """Own CSV: positions of all joints, and three columns of one sensor; B1, B2."""
    log, path = tmp_path / "log.csv", tmp_path / "problem.yaml"
    log.write_text(
        "t,pos1_deg,pos2_deg,ax,ay,az\n"
        + "".join(f"{k / 100},{k},{2 * k},{3 * k},{4 * k},{5 * k}\n" for k in range(20))
    )
    text = """
robot: synthetic:chain:2
layout:
  sensors:
    - {kind: accelerometer, name: tip, frame: link_2, std: 0.1}
    - zero_external_wrench_except: []
log:
  columns:
    time: t
    tip: {from: [ax, ay, az], unit: mm/s, sign: [1, 1, -1], order: [1, 0, 2]}
"""
    path.write_text(text)
    with pytest.raises(LogError) as error:
        load_problem(path).samples(log)
    told = str(error.value)
    assert "it has t, pos1_deg, pos2_deg, ax" in told
    assert "log: {columns: {q.link_1: {from: pos1_deg, unit: deg}}}" in told
    path.write_text(text + "    q: {from: [pos1_deg, pos2_deg], unit: deg}\n")
    samples = load_problem(path).samples(log)
    assert samples.q[10] == pytest.approx(np.deg2rad([10.0, 20.0]))
    assert samples.y[10, :3] == pytest.approx([0.04, 0.03, -0.05])
    path.write_text(text.replace("sign: [1, 1, -1]", "sign: [1, -1]"))
    with pytest.raises(DynsysError, match="sign has 2 numbers, from has 3"):
        load_problem(path)


def test_freedoms_have_numbers_only_where_a_joint_has_several() -> None:
    bodies = [Body("a", -1, Revolute([0, 0, 1])), Body("b", 0, Spherical())]
    robot = KinematicTree("two", [*bodies, Body("c", 1, Revolute([0, 1, 0]))])
    a, b, c = robot.joint_names
    assert entry_names(robot)["qd"] == [a, f"{b}[0]", f"{b}[1]", f"{b}[2]", c]
