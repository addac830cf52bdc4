"""A log that contradicts its model, or is in other units, says so; a short push is an event."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dynsys
import sensors
from dynsys.errors import LogError
from dynsys.types import Array
from problems import Estimation
from problems.logs.faults import seeming_faults
from problems.logs.files import open_log
from problems.logs.judge import Judgement, judge_log
from problems.logs.samples import SampleReader
from problems.logs.simulate import Trajectory
from problems.logs.units import doubtful_units
from problems.measured.simulated_readings import TrueReadings
from problems.problem_file import load_problem
from tests.problems.command.command_line import run, run_json

ARM = dynsys.synthetic.chain(4)
LINKS = ARM.body_names
FIRST_OF_LINKS = "('link_1', 'link_2', 'link_3' ...)"
ARM_PROBLEM = Estimation(
    ARM,
    sensors.Layout(
        ARM,
        [
            sensors.Imu("imu", LINKS[-1], std=0.1),
            sensors.ForceTorque("base_ft", ARM.joint_names[0], std=(0.1, 0.3)),
            *sensors.all_joint_accelerations(ARM, std=0.2),
            *sensors.all_joint_torques(ARM, std=0.1),
            *sensors.zero_external_wrench_except(ARM, []),
        ],
    ),
)
N, RATE, PUSH = 1200, 1000.0, slice(700, 740)


def content(push: float = 0.0, along: tuple[float, ...] = (0, 1, 0)) -> dict[str, Array]:
    """A log of the arm; the second link is pushed for 40 ms, which no statement knows."""
    time = np.arange(N) / RATE
    q, qd, qdd = Trajectory.random(ARM, N / RATE, seed=1, pace=0.5).at(time)
    wrench = np.zeros((N, ARM.n_bodies, 6))
    wrench[PUSH, 1, 3:] = push * np.array(along)
    y = TrueReadings(ARM_PROBLEM.layout).at(q, qd, qdd, wrench)[1]
    said = ARM_PROBLEM.layout.constants
    y = np.where(np.isnan(said), y, said)
    y = y + ARM_PROBLEM.layout.std * np.random.default_rng(0).normal(size=y.shape)
    return {"time": time, "q": q, "qd": qd, "y": y}


def reader_of(arrays: dict[str, Array], folder: Path, layout: sensors.Layout) -> SampleReader:
    path = folder / "log.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return SampleReader(layout, open_log(path), allow_missing=True)


def judged(arrays: dict[str, Array], folder: Path) -> Judgement:
    return judge_log(ARM_PROBLEM, reader_of(arrays, folder, ARM_PROBLEM.layout))


def test_a_good_log_agrees(tmp_path) -> None:
    found = judged(content(), tmp_path)
    assert found.agrees and not found.events and not found.units and not found.suspects
    assert found.words.startswith("the readings agree with the model (")
    assert found.samples == found.checked == N and 0 < found.contradicting < 30


def test_an_accelerometer_in_g_is_named_with_its_factor(tmp_path) -> None:
    arrays = content()
    arrays["y"][:, :3] /= 9.80665
    found = judged(arrays, tmp_path)
    assert not found.agrees and found.contradicting == N
    assert found.words == (
        "100 % of samples contradict the model (p < 0.01); first suspect imu; its readings in"
        " m/s^2 are about 9.8 times too small: units?"
    )
    (line,) = found.units
    assert line.startswith("imu: feels 1") and '{from: "imu[0:3]", unit: g}' in line


def test_a_wrong_sign_is_named(tmp_path) -> None:
    arrays = content()
    place = ARM_PROBLEM.layout.slice("base_ft")
    arrays["y"][:, place] *= -1
    found = judged(arrays, tmp_path)
    assert found.suspects[0][0] == "base_ft" and "wrong sign" in found.factor


@pytest.mark.parametrize("name", [f"{ARM.joint_names[2]}/torque", "base_ft"])
@pytest.mark.finding("Y-24")
def test_an_offset_is_no_unit(name, tmp_path) -> None:
    """A torque that changes little was called 9 times too large; readings in N mm still are."""
    arrays, place = {k: x[:600] for k, x in content().items()}, ARM_PROBLEM.layout.slice(name)
    right = arrays["y"][:, place].copy()
    arrays["y"][:, place] = right + np.where(right[0] > 0, 3.0, -3.0) * len(right[0])
    found = judged(arrays, tmp_path)
    assert found.suspects[0] == (name, 1.0) and found.factor == ""
    arrays["y"][:, place] = 1000.0 * right
    assert "times too large: units?" in judged(arrays, tmp_path).factor


@pytest.mark.parametrize(
    ("times", "said"),
    [(-1.0, "in N m have the wrong sign"), (1e3, "in N m are about 1e+03 times too large")],
)
@pytest.mark.finding("Y-13")
def test_all_torques_of_another_sign_or_unit_are_named_together(times, said, tmp_path) -> None:
    """Each by itself says nothing of the others: an untouched link was blamed, and no unit."""
    arrays = content()
    torques = [n for n in ARM_PROBLEM.layout.names if n.endswith("/torque")]
    for name in torques:
        arrays["y"][:, ARM_PROBLEM.layout.slice(name)] *= times
    found = judged(arrays, tmp_path)
    assert found.factor.startswith(f"the readings of all 4 sensors of kind joint_torque {said}")
    assert found.words.endswith(found.factor)


@pytest.mark.finding("Y-14")
def test_a_spike_names_its_sensor_whatever_others_do_by_chance(tmp_path) -> None:
    """The last line named whom the samples suspect of which one in a hundred is odd."""
    arrays = content()
    arrays["y"][600, :3] += 5.0
    found = judged(arrays, tmp_path)
    (event,) = found.events
    assert (event.first, event.last, event.suspects) == (600, 601, ("imu",))
    assert found.contradicting > 5 and found.suspects == (("imu", 1.0),)


def test_a_push_of_40_ms_is_an_event(tmp_path) -> None:
    found = judged(content(60.0), tmp_path)
    (event,) = found.events
    assert (event.first, event.last) == (PUSH.start, PUSH.stop)
    assert (event.start, event.stop) == (0.7, 0.739)
    assert f"{LINKS[1]}/no_contact" in event.suspects
    assert not found.agrees and "contradict" in found.words
    assert str(event).startswith("0.7 to 0.739 s (40 samples): suspect ")
    assert event.push == pytest.approx(60, rel=0.05)


@pytest.mark.finding("Z-W5")
def test_links_that_the_readings_cannot_tell_apart_are_both_named(tmp_path) -> None:
    """A push at the joint of two links may act on either; a force explains it on both."""
    found = judged(content(60.0, (0.6, 0.64, 0.48)), tmp_path)
    (event,) = found.events
    pushed = f"{LINKS[1]}/no_contact"
    assert set(event.suspects) == {pushed, f"{LINKS[0]}/no_contact"}
    assert event.push == pytest.approx(60, rel=0.05)
    assert pushed in (found.suspects[0][0], *found.tied)
    for words in (str(event), found.words):
        assert " or " in words and "(the readings cannot tell)" in words
        assert pushed in words


def test_units_do_not_come_and_go(tmp_path) -> None:
    arrays = content()
    arrays["y"][PUSH, :3] *= 2.0
    found = judged(arrays, tmp_path)
    assert found.suspects[0][0] == "imu" and len(found.events) == 1 and found.factor == ""


def test_noise_larger_than_stated_is_nobodys_fault(tmp_path) -> None:
    arrays = content()
    said = ARM_PROBLEM.layout.constants
    noise = np.random.default_rng(1).normal(size=arrays["y"].shape) * np.isnan(said)
    arrays["y"] += 5 * ARM_PROBLEM.layout.std * noise
    found = judged(arrays, tmp_path)
    assert "no single sensor explains it" in found.words and found.suspects[0][1] < 0.5


def test_deviations_a_little_too_small_are_not_blamed_on_one_sensor(tmp_path) -> None:
    arrays, said = content(), ARM_PROBLEM.layout.constants
    noise = np.random.default_rng(1).normal(size=arrays["y"].shape) * np.isnan(said)
    arrays["y"] += 0.6 * ARM_PROBLEM.layout.std * noise
    found = judged(arrays, tmp_path)
    assert 0.02 < found.share < 0.2 and not found.agrees
    assert "deviations stated too small? 'dynsys calibrate'" in found.words
    assert "; first suspect" not in found.words and "no single sensor" not in found.words


def test_one_sensor_that_is_a_little_wrong_is_still_named(tmp_path) -> None:
    arrays, place = content(), ARM_PROBLEM.layout.slice("base_ft")
    arrays["y"][:, place] += 0.8 * ARM_PROBLEM.layout.std[place]
    found = judged(arrays, tmp_path)
    assert 0.02 < found.share < 0.2, found.share
    assert "if they are right, first suspect base_ft" in found.words, found.words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: {"q": np.rad2deg(x["q"])}, "in degrees they are within: log: {columns"),
        (lambda x: {"qd": np.rad2deg(x["qd"])}, "qd: 57.3 times the slopes of q; in deg/s?"),
        (lambda x: {"q": np.rad2deg(0.05 * x["q"]), "qd": 0.05 * x["qd"]}, "57.3 times qd; "),
        (lambda x: {"qd": -x["qd"]}, "-1 times what is logged"),
        (lambda x: {"qd": x["qd"] * [57.3, 1, 1, 1]}, "qd of 'link_1': 57.3 times the slopes"),
        (lambda x: {"qd": x["qd"] * [1, 1, 1, 57.3]}, 'link_4: {from: "qd[3]", unit: deg/s}'),
        (lambda x: {"qd": x["qd"] * [1, -1, 1, 1]}, "qd of 'link_2': the slopes of q are -1 "),
        (lambda x: {"qd": x["qd"][:, [1, 0, 2, 3]]}, "qd of 'link_1', 'link_2': not the slope"),
        (lambda x: {"qd": 0 * x["qd"]}, "qd: stands still while q moves"),
        (lambda x: {"q": x["q"] * [1, 1, 0, 1]}, "q of 'link_3': stands still while qd says"),
        (lambda x: {"time": 1e9 * x["time"]}, "in ns that would be 1000 Hz"),
        (lambda x: {"time": 1e6 * x["time"]}, "in us that would be 1000 Hz"),
        (lambda x: {"time": 1e3 * x["time"]}, "in ms that would be 1000 Hz"),
        (lambda x: {k: 0 * x[k] for k in ("q", "qd", "y")}, "gravity taken out"),
    ],
)  # fmt: skip
@pytest.mark.finding("N-6", "V-4", "Y-16", "item 2")
def test_units_that_cannot_be(change, said, tmp_path) -> None:
    arrays = content()
    found = doubtful_units(reader_of(arrays | change(arrays), tmp_path, ARM_PROBLEM.layout))
    assert len(found) == 1 and said in found[0], found


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (lambda t: np.nan * t, "sample 0: the time is nan"),
        (lambda t: np.where(t > 0.5, np.nan, t), "sample 501: the time is nan"),
        (lambda t: 0.0 * t, "sample 1: time does not ascend"),
        (lambda t: -t, "sample 1: time does not ascend"),
    ],
)
@pytest.mark.finding("V-5")
def test_times_of_which_no_rate_follows_are_named(time, said, tmp_path) -> None:
    """Velocities are to be made; the rate of NaN ended with a ValueError, of zero likewise."""
    arrays = content()
    del arrays["qd"]
    arrays["time"] = time(arrays["time"])
    with pytest.raises(LogError, match=said):
        reader_of(arrays, tmp_path, ARM_PROBLEM.layout).read(0, 10)


@pytest.mark.parametrize(
    ("given", "times", "said"),
    [
        ("sensor", [1, -1, 1, 1], "link_2/acceleration: the slopes of qd are -1 times"),
        ("sensor", [1, 1, 1, 1000], "link_4/acceleration: the slopes of qd are 0.001 times"),
        ("sensor", [57.3, 1, 1, 1], "link_1/acceleration: 57.3 times the slopes of qd; in deg"),
        ("qdd", [1, 1, -1, 1], "link_3/acceleration: the slopes of qd are -1 times"),
        ("sensor", [1, 1, 1, 1], ""),
        ("offset", [1, 1, 1, 1], ""),
        ("noise", [1, 1, 1, 1], ""),
        ("at rest", [1, 1, 1, 1], ""),
    ],
)
@pytest.mark.finding("Z-B5")
def test_accelerations_are_compared_with_velocities(given, times, said, tmp_path) -> None:
    """Torques follow them, and nothing else may check them."""
    time, rng = np.arange(N) / RATE, np.random.default_rng(0)
    q, qd, qdd = Trajectory.random(ARM, N / RATE, seed=1, pace=0.5).at(time)
    if given == "at rest":
        q, qd, qdd = 0 * q + q[0], rng.normal(scale=0.02, size=qd.shape), 0 * qdd
    qdd = times * (qdd + rng.normal(scale=20.0 if given == "noise" else 0.2, size=qdd.shape))
    qdd = qdd + (3.0 if given == "offset" else 0.0)
    arrays = {"time": time, "q": q, "qd": qd, "base_ft": rng.normal(size=(N, 6))}
    named = zip(sensors.all_joint_accelerations(ARM, std=0.2), qdd.T, strict=True)
    more = {"qdd": qdd} if given == "qdd" else {sensor.name: x for sensor, x in named}
    found = doubtful_units(reader_of(arrays | more, tmp_path, UNCHECKED))
    assert len(found) == bool(said) and said in "".join(found), found


def _with(arrays: dict[str, Array], name: str, rows: slice, value: float) -> dict[str, Array]:
    changed = arrays[name].copy()
    changed[rows] = value
    return arrays | {name: changed}


UNCHECKED = sensors.Layout(
    ARM,
    [
        sensors.ForceTorque("base_ft", ARM.joint_names[0], std=(0.1, 0.3)),
        *sensors.all_joint_accelerations(ARM, std=0.2),
    ],
    quiet=True,
)
"""Readings that nothing checks."""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: _with(x, "q", slice(300, 301), -999.0), "to -999 at 0.3 s: a placeholder"),
        (lambda x: _with(x, "q", slice(0, 200), 0.0), " at 0.2 s: a placeholder"),
        (
            lambda x: _with(x, "base_ft", slice(300, 900), 7.0),
            "base_ft: reads the same while the robot moves, 600 of 1200 samples looked at, from"
            " 0.3 s on: is it stuck?",
        ),
        (
            lambda x: _with(x, "base_ft", slice(0, 1200), 0.0),
            "base_ft: reads the same while the robot moves, 1200 of 1200",
        ),
        (
            lambda x: x | {"time.base_ft": x["time"] + 1.7e9},
            "base_ft: no reading in any of the 1200 samples looked at: has it another clock",
        ),
        (lambda x: _with(x, "base_ft", slice(300, 900), 0.0), ""),
        (lambda x: {k: v[np.r_[:500, 800:1200]] for k, v in x.items()}, ""),
    ],
)  # fmt: skip
@pytest.mark.finding("Y-15")
def test_what_no_robot_gives_is_named_where_nothing_checks_it(change, said, tmp_path) -> None:
    """All of this was answered, with status 0: only readings that check each other told."""
    problem, whole = Estimation(ARM, UNCHECKED), content()
    arrays = {k: whole[k] for k in ("time", "q", "qd")}
    arrays["base_ft"] = whole["y"][:, ARM_PROBLEM.layout.slice("base_ft")]
    nothing = np.full(len(arrays["time"]), np.nan)
    good = judge_log(problem, reader_of(arrays, tmp_path, UNCHECKED), nothing)
    assert not good.checked and good.agrees
    found = judge_log(problem, reader_of(change(arrays), tmp_path, UNCHECKED), nothing)
    assert found.agrees == (not said) and len(found.faults) == bool(said) and not found.units
    assert said in "".join(found.faults), found.faults
    assert found.to_json()["faults"] == list(found.faults)


LIMITED = """<robot name="two"><link name="base"/>
<link name="x"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
 iyz="0"/></inertial></link><link name="y"><inertial><mass value="1"/><inertia ixx="1" iyy="1"
 izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="free" type="continuous"><parent link="base"/><child link="x"/></joint>
<joint name="bound" type="revolute"><parent link="x"/><child link="y"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def test_only_joints_with_limits_are_outside_them_and_columns_are_named(tmp_path) -> None:
    path = tmp_path / "two.urdf"
    path.write_text(LIMITED)
    robot = dynsys.load(path)
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1), quiet=True)
    angle = np.rad2deg(0.9 * np.sin(np.arange(200) / RATE * 20))
    arrays = {"time": np.arange(200) / RATE, "q.free": angle, "q.bound": angle}
    arrays |= {f"{joint}/torque": np.zeros(200) for joint in robot.joint_names}
    (line,) = doubtful_units(reader_of(arrays, tmp_path, layout))
    assert line.startswith("q: 'bound' outside their limits") and "'free'" not in line
    assert "log: {columns: {q.bound: {from: q.bound, unit: deg}, and so on}}" in line


WHEEL = LIMITED.replace("</joint>", "{limit}</joint>", 1)
DEGREES = "q: 'free' beyond two turns in up to"


@pytest.mark.parametrize(
    ("limit", "angle", "velocity", "said"),
    [
        ("", lambda t: 25 * t, None, ""),
        ("", lambda t: 300 - 3000 * t, None, ""),  # in degrees beyond two turns, too
        ("", lambda t: 100 * np.sin(3 * t), np.gradient, ""),  # a rover that goes to and fro
        ("", lambda t: 25 * t, np.gradient, ""),
        ("80", lambda t: 25 * t, np.gradient, ""),
        ("", lambda t: 100 * np.sin(3 * t), None, DEGREES),
        ("", lambda t: 100 * np.sin(3 * t), lambda q, t: np.gradient(q, t) / 57.3, DEGREES),
        ("2", lambda t: 100 * np.sin(3 * t), np.gradient, DEGREES),  # all in degrees
        ("", lambda t: 400 * t % 360, np.gradient, DEGREES),
    ],
)
@pytest.mark.parametrize("samples", [600, 8000])
@pytest.mark.finding("C-20")
def test_wheels_turn_on_and_on(samples, limit, angle, velocity, said, tmp_path) -> None:
    """Angles alone of a wheel, hundreds of rad, were said to be degrees."""
    text = f'<limit effort="1" velocity="{limit}"/>' if limit else ""
    (tmp_path / "wheel.urdf").write_text(WHEEL.format(limit=text))
    robot = dynsys.load(tmp_path / "wheel.urdf")
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1), quiet=True)
    time = np.arange(samples) * 8.0 / samples
    q = angle(time) + np.random.default_rng(0).normal(scale=1e-4, size=samples)
    arrays = {"time": time, "q.free": q, "q.bound": 0.5 * np.sin(time)}
    if velocity is not None:
        jumps = np.abs(np.diff(q, prepend=q[0])) > 180
        arrays["qd.free"] = velocity(q + np.cumsum(360.0 * jumps), time)
    arrays |= {f"{joint}/torque": np.zeros(samples) for joint in robot.joint_names}
    found = doubtful_units(reader_of(arrays, tmp_path, layout))
    assert len(found) == bool(said) and said in "".join(found), found


def test_a_wheel_does_not_hide_degrees_of_an_arm(tmp_path) -> None:
    (tmp_path / "wheel.urdf").write_text(LIMITED)
    robot = dynsys.load(tmp_path / "wheel.urdf")
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1), quiet=True)
    time = np.arange(600) / 100
    arrays = {"time": time, "q.free": 3000 * time, "q.bound": 50 * np.sin(time)}
    arrays |= {f"{joint}/torque": np.zeros(600) for joint in robot.joint_names}
    (line,) = doubtful_units(reader_of(arrays, tmp_path, layout))
    assert "'bound' outside their limits" in line and "in degrees they are within" in line


def test_quaternions_with_the_real_part_first(humanoid, tmp_path) -> None:
    layout = sensors.Layout(humanoid, sensors.all_joint_torques(humanoid, std=0.1), quiet=True)
    time = np.arange(200) / RATE
    q = np.tile(humanoid.neutral(), (200, 1))
    yaw = 0.5 * time
    q[:, 5], q[:, 6] = np.sin(yaw / 2), np.cos(yaw / 2)
    arrays = {"time": time, "q": q, "qd": np.zeros((200, humanoid.nv))}
    assert doubtful_units(reader_of(arrays, tmp_path, layout)) == ()
    first = q.copy()
    first[:, 3:7] = q[:, [6, 3, 4, 5]]
    (line,) = doubtful_units(reader_of(arrays | {"q": first}, tmp_path, layout))
    assert "real part first" in line and "as: wxyz" in line


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (lambda w, v, R: (w, v), ""),
        (lambda w, v, R: (R.apply(v), w), "its linear part is first;"),  # as MuJoCo
        (lambda w, v, R: (R.apply(w), R.apply(v)), "it is in axes of the world;"),
        (lambda w, v, R: (R.apply(v), R.apply(w)), "first and all in axes of the world;"),
        (lambda w, v, R: (0 * w, v), ""),  # unlike all: no word, for others to say
    ],
)
@pytest.mark.finding("Y-11")
def test_velocities_of_the_base_by_other_conventions(written, said, humanoid, tmp_path) -> None:
    layout = sensors.Layout(humanoid, sensors.all_joint_torques(humanoid, std=0.1), quiet=True)
    time = np.arange(600) / RATE
    q, qd, _ = Trajectory.random(humanoid, 0.6, seed=3).at(time)
    turned = Rotation.from_rotvec([0.0, 0.0, 2.0])  # the robot looks elsewhere
    q[:, :3] = turned.apply(q[:, :3])
    q[:, 3:7] = (turned * Rotation.from_quat(q[:, 3:7])).as_quat()
    base = Rotation.from_quat(q[:, 3:7])
    first, second = written(qd[:, :3].copy(), qd[:, 3:6].copy(), base)
    arrays = {"time": time, "q": q, "qd": np.hstack([first, second, qd[:, 6:]])}
    found = doubtful_units(reader_of(arrays, tmp_path, layout))
    assert len(found) == bool(said)
    assert all(said in line and "without qd.root" in line for line in found)


@pytest.mark.finding("W2")
@pytest.mark.parametrize("noise", [0.0, 0.001])
@pytest.mark.parametrize(
    ("written", "said"),
    [
        (lambda w, v, R: (w, v), ""),
        (lambda w, v, R: (w, R.apply(v)), "its linear part is in axes of the world;"),
        (lambda w, v, R: (v, w), "moves as if its linear part is first;"),
        (lambda w, v, R: (R.apply(v), w), "its linear part is first and in axes of the world;"),
    ],
)
def test_a_base_that_moves_gently_tells_the_axes_of_its_velocity(
    written, said, noise, humanoid, tmp_path
) -> None:
    """Walking pace and turns too slow to tell: a linear part in axes of the world passed."""
    layout = sensors.Layout(humanoid, sensors.all_joint_torques(humanoid, std=0.1), quiet=True)
    rate, time = 100.0, np.arange(1200) / 100.0
    speed, turn = np.array([1.3, 1.9, 3.1]), np.array([0.3, 0.2, 0.1])
    place = np.array([0.2, 0.1, 0.02]) * np.sin(speed * time[:, None])
    moved = np.array([0.2, 0.1, 0.02]) * speed * np.cos(speed * time[:, None])
    base = Rotation.from_euler("xyz", turn * np.sin(np.array([0.1, 0.2, 0.3]) * time[:, None]))
    w = np.zeros_like(place)
    w[:-1] = (base[:-1].inv() * base[1:]).as_rotvec() * rate
    assert np.abs(w).max() < 0.05
    rng = np.random.default_rng(0)
    q = np.tile(humanoid.neutral(), (len(time), 1))
    q[:, :3], q[:, 3:7] = place + noise * rng.normal(size=place.shape), base.as_quat()
    qd = np.zeros((len(time), humanoid.nv))
    qd[:, :6] = np.hstack(written(w, base.inv().apply(moved), base))
    qd[:, :6] += 10 * noise * rng.normal(size=(len(time), 6))
    found = doubtful_units(reader_of({"time": time, "q": q, "qd": qd}, tmp_path, layout))
    assert len(found) == bool(said)
    assert all(said in line and "without qd.root" in line for line in found)


@pytest.mark.finding("W4")
def test_a_placeholder_among_turns_is_named_by_its_sample(tmp_path) -> None:
    """An angle within one turn that goes on and on: its wrap at 0.01 s was named."""
    layout = sensors.Layout(ARM, sensors.all_joint_torques(ARM, std=0.1), quiet=True)
    time = np.arange(300) / 100.0
    q = np.zeros((300, 4))
    q[:, 1] = np.angle(np.exp(1j * (np.pi - 0.02 + 3 * time)))
    good = reader_of({"time": time, "q": q}, tmp_path, layout)
    assert not seeming_faults(good)
    q[99, 1] = -999.0
    (found,) = seeming_faults(reader_of({"time": time, "q": q}, tmp_path, layout))
    assert "'link_2': jumps from " in found and "to -999 at 0.99 s" in found


# ---- the command -----------------------------------------------------------------------------


PROBLEM = """
robot: synthetic:chain:4
layout:
  sensors:
    - {kind: imu, name: imu, frame: link_4, std: 0.1}
    - {all_joint_accelerations: {std: 0.2}}
    - {all_joint_torques: {std: 0.1}}
    - zero_external_wrench_except
"""


@pytest.mark.finding("N-5", "item 2")
def test_solve_ends_with_what_the_log_says_of_the_model(capsys, tmp_path) -> None:
    spec, log, out = tmp_path / "arm.yaml", tmp_path / "log.npz", tmp_path / "out.npz"
    spec.write_text(PROBLEM)
    assert run(capsys, "simulate", spec, "-o", log, "--duration", 0.06)[0] == 0
    asked = ["solve", spec, log, "-o", out, "--outputs", "torque,suspects", "--strict"]
    status, text, _ = run(capsys, *asked)
    assert status == 0 and text.splitlines()[-1].startswith("the readings agree with the model")
    with np.load(log) as good:
        arrays = dict(good)
    arrays["imu"][:, :3] /= 9.80665
    np.savez(log, **arrays)
    status, text, _ = run(capsys, *asked)
    last = text.splitlines()[-1]
    assert status == 1 and last == (
        "100 % of samples contradict the model (p < 0.01); first suspect imu; its readings in"
        " m/s^2 are about 9.8 times too small: units?"
    )
    with np.load(out) as solved:
        assert np.allclose(solved["suspects"].sum(axis=1), 1.0)
        assert (solved["suspects"][:, 0] > 0.9).all()
    status, told = run_json(capsys, *asked[:-1])
    assert status == 0 and not told["agreement"]["agrees"]
    assert told["agreement"]["words"] == last
    assert told["agreement"]["suspects"][0] == {"sensor": "imu", "share": 1.0}


@pytest.mark.parametrize(
    "command",
    [
        ["calibrate"],
        ["identify", "--json"],
        ["detect", "--free-seconds", "0", "50"],
    ],
)
@pytest.mark.finding("Y-17")
def test_every_command_that_reads_a_log_says_what_cannot_be(command, capsys, tmp_path) -> None:
    """They took milliseconds for seconds and sensors without data without a word."""
    spec, log = tmp_path / "arm.yaml", tmp_path / "log.npz"
    spec.write_text(PROBLEM)
    arrays = content()
    layout = load_problem(spec).sensors
    for name in ("imu", *(n for n in layout.names if n.endswith("/torque"))):
        arrays[name] = arrays["y"][:, ARM_PROBLEM.layout.slice(name)]
    del arrays["y"]
    arrays["time"] *= 1e3
    np.savez(log, **{k: v[:100] for k, v in arrays.items()})
    _, _, told = run(capsys, command[0], spec, log, *command[1:])
    assert f"{log}: units? time: a sample every 1 s; in ms that would be 1000 Hz" in told


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (["link_2/acceleration"], "1 acceleration ('link_2')"),
        ([f"{k}/acceleration" for k in LINKS], f"4 accelerations {FIRST_OF_LINKS}"),
        (
            ["qd", "link_1/acceleration", "link_3/acceleration"],
            f"4 velocities {FIRST_OF_LINKS} and 2 accelerations ('link_1', 'link_3')",
        ),
    ],
)
def test_what_was_differentiated_is_told_by_kind(gone, words, capsys, tmp_path) -> None:
    spec, log, out = tmp_path / "arm.yaml", tmp_path / "log.npz", tmp_path / "out.npz"
    spec.write_text(PROBLEM)
    assert run(capsys, "simulate", spec, "-o", log, "--duration", 0.1)[0] == 0
    with np.load(log) as whole:
        np.savez(log, **{k: v for k, v in dict(whole).items() if k not in gone})
    _, text, _ = run(capsys, "solve", spec, log, "-o", out)
    assert f"{words} made by" in text


def test_sensors_without_data_are_told(capsys, tmp_path) -> None:
    spec, log = tmp_path / "arm.yaml", tmp_path / "log.npz"
    spec.write_text(PROBLEM)
    assert run(capsys, "simulate", spec, "-o", log, "--duration", 0.06)[0] == 0
    with np.load(log) as good:
        np.savez(log, **{k: v for k, v in dict(good).items() if k != "imu"})
    status, _, told = run(capsys, "calibrate", spec, log)
    assert status == 0 and f"{log}: no readings of imu: they are let go" in told


def test_the_report_says_on_the_terminal_what_the_log_says(capsys, tmp_path) -> None:
    spec, log, page = tmp_path / "arm.yaml", tmp_path / "log.npz", tmp_path / "page.html"
    spec.write_text(PROBLEM)
    assert run(capsys, "simulate", spec, "-o", log, "--duration", 0.06)[0] == 0
    with np.load(log) as good:
        arrays = dict(good)
    arrays["imu"][30] += 20.0
    np.savez(log, **arrays)
    asked = ["report", spec, log, "-o", page, "--no-time"]
    _, text, _ = run(capsys, *asked)
    event, last = text.splitlines()[-2:]
    assert event == "event: 0.03 s (1 sample): suspect imu" and "first suspect imu" in last
    _, told = run_json(capsys, *asked)
    assert told["log"]["judgement"]["words"] == last
    assert not told["log"]["judgement"]["agrees"]


@pytest.mark.finding("Y-21")
def test_arrays_that_nothing_reads_are_named(capsys, tmp_path) -> None:
    """A misspelt statement held on, misspelt velocities were differentiated, in silence."""
    spec, log, out = tmp_path / "arm.yaml", tmp_path / "log.npz", tmp_path / "out.npz"
    foreign = "log: {columns: {imu: {from: acc}}}\n"
    spec.write_text(PROBLEM + foreign)
    plain = tmp_path / "plain.yaml"
    plain.write_text(PROBLEM)
    made = ["simulate", plain, "-o", log, "--duration", 0.02, "--truth"]
    assert run(capsys, *made)[0] == 0
    with np.load(log) as good:
        arrays = dict(good)
    arrays["acc"], arrays["qdot"] = arrays.pop("imu"), arrays.pop("qd")
    arrays["link_4/no_contakt"] = np.full((len(arrays["time"]), 6), np.nan)
    np.savez(log, **arrays)
    status, text, _ = run(capsys, "solve", spec, log, "-o", out, "--strict")
    words = "of the log, no sensor and no joint reads qdot, link_4/no_contakt"
    assert status == 0 and words in text.splitlines()
    _, told = run_json(capsys, "solve", spec, log, "-o", out)
    assert told["not_used"] == ["qdot", "link_4/no_contakt"]
