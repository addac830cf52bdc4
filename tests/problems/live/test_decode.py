"""Samples under the names of logs: what is read is what a log reader reads."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import sensors
from dynsys.errors import LogError
from problems.live.decode import SampleDecoder
from problems.logs import open_log
from problems.logs.columns import Column, Columns
from problems.logs.samples import SampleReader, Samples
from problems.problem_file import ProblemFile, load_problem
from tests.problems.live.live_cases import sample_of

Live = tuple[ProblemFile, Samples]


def test_reads_what_a_log_reader_reads(live: Live) -> None:
    problem, samples = live
    decoder = SampleDecoder(problem)
    for k in range(5):
        decoder.take(sample_of(problem, samples, k), float(samples.time[k]))
        np.testing.assert_allclose(decoder.q, samples.q[k], rtol=1e-15, atol=1e-15)
        np.testing.assert_array_equal(decoder.qd, samples.qd[k])
        np.testing.assert_array_equal(decoder.y, samples.y[k])
        assert decoder.missing == 0


def test_one_column_per_number_and_all_readings_in_one(live: Live) -> None:
    problem, samples = live
    robot, decoder = problem.tree, SampleDecoder(problem)
    given: dict[str, object] = {"y": samples.y[3].tolist(), "qd": samples.qd[3].tolist()}
    for name, where in zip(robot.joint_names, robot.q_slices(), strict=True):
        values = samples.q[3, where].tolist()
        if len(values) == 1:
            given[f"q.{name}"] = values[0]
        else:
            given |= {f"q.{name}[{k}]": x for k, x in enumerate(values)}
    decoder.take(given, 0.0)
    np.testing.assert_allclose(decoder.q, samples.q[3], rtol=1e-15, atol=1e-15)
    np.testing.assert_array_equal(decoder.y, samples.y[3])


def test_names_and_units_of_the_problem_file(live: Live) -> None:
    problem, samples = live
    sensor = "imu"
    columns = Columns(
        {
            sensor: (Column("theirs", unit="g", scale=2.0),),
            "time": (Column("stamp", unit="ms"),),
        }
    )
    from dataclasses import replace

    decoder = SampleDecoder(replace(problem, columns=columns))
    given = sample_of(problem, samples, 1)
    given["theirs"] = given.pop(sensor)
    given["stamp"] = 1234.0
    assert decoder.time(given) == pytest.approx(1.234)
    decoder.take(given, 1.234)
    where = problem.sensors.slice(sensor)
    np.testing.assert_allclose(decoder.y[where], 2 * 9.80665 * samples.y[1, where], rtol=1e-12)
    given.pop("theirs")
    decoder.take(given, 1.235)
    assert np.isnan(decoder.y[where]).all()


@pytest.mark.parametrize("gone", ["absent", "null", "null inside", "NaN"])
def test_missing_readings(live: Live, gone: str) -> None:
    problem, samples = live
    decoder, given = SampleDecoder(problem), sample_of(problem, samples, 0)
    where = problem.sensors.slice("ft")
    if gone == "absent":
        given.pop("ft")
    else:
        given["ft"] = {
            "null": None,
            "null inside": [None, *given["ft"][1:]],
            "NaN": [float("nan"), *given["ft"][1:]],
        }[gone]
    decoder.take(given, 0.0)
    assert decoder.missing == (6 if gone in ("absent", "null") else 1)
    assert np.isnan(decoder.y[where]).sum() == decoder.missing


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("q", [1.0], "numbers per sample"),
        ("q", "abc", "numbers per sample"),
        ("ft", [1, 2, 3], "numbers per sample"),
        ("ft", ["1", 2, 3, 4, 5, 6], "no number"),
        ("ft", [True, 2, 3, 4, 5, 6], "no number"),
        ("ft", [[1], 2, 3, 4, 5, 6], "no number"),
        ("ft", [10**400, 2, 3, 4, 5, 6], "too large"),
        ("ft", [float("inf"), 2, 3, 4, 5, 6], "infinite or too large"),
        ("ft", [1e200, 2, 3, 4, 5, 6], "too large"),
        ("qd", [None], "numbers per sample"),
    ],
)
def test_what_is_no_sample_is_refused_in_words(
    live: Live, key: str, value: object, words: str
) -> None:
    problem, samples = live
    given = sample_of(problem, samples, 0) | {key: value}
    with pytest.raises(LogError, match=words):
        SampleDecoder(problem).take(given, 0.0)


def test_positions_must_be_there_and_finite(live: Live) -> None:
    problem, samples = live
    decoder, given = SampleDecoder(problem), sample_of(problem, samples, 0)
    with pytest.raises(LogError, match="no position of joint"):
        decoder.take({k: v for k, v in given.items() if k != "q"}, 0.0)
    spoilt = [None, *given["q"][1:]]
    with pytest.raises(LogError, match=r"not a finite number|is none"):
        decoder.take(given | {"q": spoilt}, 0.0)
    flat = np.array(given["q"])
    flat[problem.tree.quaternion_slices[0]] = 0.0
    with pytest.raises(LogError, match="quaternion"):
        decoder.take(given | {"q": flat.tolist()}, 0.0)


@pytest.mark.finding("L8")
@pytest.mark.parametrize("derived", [False, True])
def test_positions_and_velocities_that_are_too_large_are_called_that(
    live: Live, derived: bool
) -> None:
    """Their sum is infinite: they were called not finite, or waited for others like them."""
    problem, samples = live
    given = sample_of(problem, samples, 0)
    robot = problem.tree
    plain = [i for i in range(robot.n_bodies) if robot.joints[i].nq == 1][:2]
    joint = robot.joint_names[plain[0]]
    large, fast = np.array(given["q"]), np.array(given["qd"])
    large[[robot.q_slices()[i].start for i in plain]] = 1e308
    fast[[robot.v_slices()[i].start for i in plain]] = 1e308
    rest = {k: v for k, v in given.items() if k != "qd"} if derived else given
    with pytest.raises(LogError, match=rf"^q: {joint} is 1e\+308, which is too large"):
        SampleDecoder(problem).take(rest | {"q": large.tolist()}, 0.0)
    with pytest.raises(LogError, match=rf"^qd: {joint} is 1e\+308, which is too large"):
        SampleDecoder(problem).take(given | {"qd": fast.tolist()}, 0.0)


def test_names_that_mean_nothing_are_named(live: Live) -> None:
    problem, samples = live
    decoder, given = SampleDecoder(problem), sample_of(problem, samples, 0)
    decoder.take(given | {"imv": [1.0]}, 0.0)
    assert "imu" in decoder.strangers["imv"]
    with pytest.raises(LogError, match="no sensor is named"):
        decoder.take({"time": 0, "q": given["q"], "qd": given["qd"], "imv": 1.0}, 0.0)


def test_many_sets_of_names_do_not_fill_the_memory(live: Live) -> None:
    problem, samples = live
    decoder, given = SampleDecoder(problem), sample_of(problem, samples, 0)
    for k in range(150):
        decoder.take(given | {f"x{k}": 1.0}, 0.0)
    assert len(decoder._forms) <= 64 and len(decoder.strangers) <= 64


@pytest.mark.parametrize("null", [None, [None] * 6, [float("nan")] * 6])
@pytest.mark.finding("Y-9")
def test_a_statement_that_comes_as_null_does_not_hold(null: object, tmp_path: Path) -> None:
    """As NaN in a log says: the tip is touched now."""
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:chain:2\n"
        "layout: {sensors: [all_joint_torques: {std: 0.1}, zero_external_wrench_except: []]}\n"
        "log: {columns: {link_1/no_contact: {from: held}}}\n"
    )
    decoder = SampleDecoder(load_problem(tmp_path / "problem.yaml"))
    given = {"q": [0.1, 0.2], "qd": [0.0, 0.0], "effort.link_1": 1.0, "effort.link_2": 2.0}
    decoder.take(given, 0.0)
    assert decoder.missing == 0
    for name, held in (
        ("link_2/no_contact", "link_2/no_contact"),
        ("held", "link_1/no_contact"),
    ):
        decoder.take(given | {name: null}, 0.0)
        assert np.isnan(decoder.y[decoder.layout.slice(held)]).all() and decoder.missing == 6
    if null is None:
        decoder.take(given | {"link_2/no_contact.fz": null}, 0.0)
        assert decoder.missing == 1


@pytest.mark.parametrize("null", [None, [None] * 14])
@pytest.mark.finding("Z-M4")
def test_where_all_readings_come_as_null_no_statement_holds(
    null: object, tmp_path: Path
) -> None:
    """As in a log; what else came is read."""
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:chain:2\n"
        "layout: {sensors: [all_joint_torques: {std: 0.1}, zero_external_wrench_except: []]}\n"
    )
    decoder = SampleDecoder(load_problem(tmp_path / "problem.yaml"))
    decoder.take({"q": [0.1, 0.2], "qd": [0.0, 0.0], "y": null}, 0.0)
    assert decoder.missing == len(decoder.y) == 14
    given = {"q": [0.1, 0.2], "qd": [0.0, 0.0], "link_1/torque": 1.0}
    decoder.take(given | {"y": null}, 0.0)
    np.testing.assert_array_equal(decoder.y, [1.0, *[np.nan] * 13])


@pytest.mark.parametrize("parts", [("held", "held"), ("held[0:6]", "held[6:12]")])
@pytest.mark.finding("Z-M1")
def test_an_array_that_comes_as_null_is_missing_to_all_who_read_it(
    parts: tuple[str, str], tmp_path: Path
) -> None:
    first, second = parts
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:chain:2\n"
        "layout: {sensors: [all_joint_torques: {std: 0.1}, zero_external_wrench_except: []]}\n"
        f"log: {{columns: {{link_1/no_contact: {{from: '{first}'}},"
        f" link_2/no_contact: {{from: '{second}'}}}}}}\n"
    )
    decoder = SampleDecoder(load_problem(tmp_path / "problem.yaml"))
    given = {"q": [0.1, 0.2], "qd": [0.0, 0.0], "effort.link_1": 1.0, "effort.link_2": 2.0}
    decoder.take(given | {"held": None}, 0.0)
    for name in ("link_1/no_contact", "link_2/no_contact"):
        assert np.isnan(decoder.y[decoder.layout.slice(name)]).all()
    assert decoder.missing == 12
    np.testing.assert_array_equal(decoder.y[:2], [1.0, 2.0])


@pytest.mark.parametrize(
    "log",
    [
        "joints: {link_1: link_2, link_2: link_1}",
        "columns: {effort.link_1: {from: effort.link_2}, effort.link_2: {from: effort.link_1},"
        " q.link_1: {from: q.link_2}, q.link_2: {from: q.link_1}}",
    ],
)
@pytest.mark.parametrize("null", [False, True])
@pytest.mark.finding("Z-M3")
def test_sensors_whose_names_are_exchanged_lend_each_other_nothing(
    log: str, null: bool, tmp_path: Path
) -> None:
    """A sample in which one of the two is missing."""
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:chain:2\n"
        "layout: {sensors: [all_joint_torques: {std: 0.1}, zero_external_wrench_except: []]}\n"
        f"log: {{{log}}}\n"
    )
    decoder = SampleDecoder(load_problem(tmp_path / "problem.yaml"))
    given: dict[str, object] = {"q.link_1": 0.1, "q.link_2": 0.2, "qd": [0.0, 0.0]}
    given |= {"effort.link_1": 1.0} | ({"effort.link_2": None} if null else {})
    decoder.take(given, 0.0)
    np.testing.assert_array_equal(decoder.q, [0.2, 0.1])
    np.testing.assert_array_equal(decoder.y[:2], [np.nan, 1.0])


def test_what_comes_as_null_is_what_the_robot_calls_so(tmp_path: Path) -> None:
    """Two statements whose names are exchanged: of the one that is null nothing is known."""
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:chain:2\n"
        "layout: {sensors: [zero_external_wrench_except: []]}\n"
        "log: {columns: {link_1/no_contact: {from: link_2/no_contact},"
        " link_2/no_contact: {from: link_1/no_contact}}}\n"
    )
    decoder = SampleDecoder(load_problem(tmp_path / "problem.yaml"))
    given = {"q": [0.1, 0.2], "qd": [0.0, 0.0], "link_1/no_contact": [1, 2, 3, 4, 5, 6]}
    decoder.take(given | {"link_2/no_contact": None}, 0.0)
    np.testing.assert_array_equal(decoder.y, [*[np.nan] * 6, 1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.finding("Y-8")
def test_accelerations_that_come_are_those_of_a_log(one_by_one: bool, tmp_path: Path) -> None:
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:centipede:1\n"
        "layout:\n"
        "  sensors:\n"
        "    - all_joint_accelerations: {std: 0.1, free: true, exclude: [left_upper_leg_1]}\n"
        "    - {kind: joint_acceleration, name: one, joint: left_upper_leg_1, component: 2}\n"
    )
    problem = load_problem(tmp_path / "problem.yaml")
    robot, decoder = problem.tree, SampleDecoder(problem)
    q, (qd, qdd) = (
        robot.random_configuration(0),
        np.random.default_rng(0).normal(size=(2, robot.nv)),
    )
    given = {"q": q, "qd": qd, "qdd": qdd}
    if one_by_one:
        given = {"q": q, "qd": qd} | {
            f"qdd.{name}": qdd[where]
            for name, where in zip(robot.joint_names, robot.v_slices(), strict=True)
        }
    np.savez(tmp_path / "log.npz", **{name: x[None] for name, x in given.items()})
    expected = problem.samples(tmp_path / "log.npz").y[0]
    assert np.isfinite(expected).all()
    decoder.take({name: x.tolist() for name, x in given.items()}, 0.0)
    np.testing.assert_array_equal(decoder.y, expected)
    assert decoder.missing == 0 and not decoder.strangers


FOLLOWED = """\
<robot name="gripper">
  <link name="base"/>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"
    ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="finger"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"
    ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="lead" type="continuous"><parent link="base"/><child link="arm"/></joint>
  <joint name="follow" type="continuous"><parent link="arm"/><child link="finger"/>
    <mimic joint="lead" multiplier="-0.5"/></joint>
</robot>
"""


@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.finding("E-8")
def test_joints_that_follow_have_accelerations_of_their_own(
    is_given: bool, tmp_path: Path
) -> None:
    """They had those of their leader, and its effort, from logs and live."""
    (tmp_path / "gripper.urdf").write_text(FOLLOWED)
    (tmp_path / "problem.yaml").write_text(
        "robot: gripper.urdf\n"
        "mimic: couple\n"
        "layout:\n"
        "  sensors:\n"
        "    - {kind: joint_acceleration, name: own, joint: follow, std: 0.1}\n"
        "    - zero_external_wrench_except: []\n"
    )
    problem = load_problem(tmp_path / "problem.yaml")
    time = 0.01 * np.arange(60)
    arrays = {"q": 3.0 * time**2, "qd": 6.0 * time} | (
        {"qdd": 6 + 0 * time} if is_given else {}
    )
    logged = {name: x[:, None] for name, x in arrays.items()}
    np.savez(tmp_path / "log.npz", time=time, **logged)
    np.testing.assert_allclose(problem.samples(tmp_path / "log.npz").y[:, 0], -3.0)
    decoder = SampleDecoder(problem)
    for k in range(60):
        decoder.take({name: [float(x[k])] for name, x in arrays.items()}, float(time[k]))
    assert decoder.y[0] == pytest.approx(-3.0)
    torque = sensors.JointTorque("torque", "follow", std=0.1)
    layout = sensors.Layout(problem.tree, [*problem.sensors, torque])
    np.savez(tmp_path / "log.npz", time=time, effort=logged["q"], **logged)
    with (
        open_log(tmp_path / "log.npz") as log,
        pytest.raises(LogError, match="no readings of sensor 'torque'"),
    ):
        SampleReader(layout, log).read(0, 60)
    lead = sensors.JointAcceleration("of its leader", "lead", std=0.1)
    both = sensors.Layout(problem.tree, [*problem.sensors, lead])
    with (
        open_log(tmp_path / "log.npz") as log,
        pytest.raises(LogError, match="'own' and 'of its leader' would both read"),
    ):  # one number, which would count twice
        SampleReader(both, log)


# ---- velocities and accelerations that do not come ------------------------------------------


def test_velocities_and_accelerations_of_the_past(live: Live) -> None:
    """Cubic positions without velocities are differentiated exactly."""
    problem = load_problem("catalogue:panda")
    robot = problem.tree
    decoder = SampleDecoder(problem)
    rng = np.random.default_rng(0)
    c = rng.normal(size=(4, robot.nq))
    wanted = [n for n in problem.sensors.names if n.endswith("/acceleration")]
    for k in range(300):
        t = 0.001 * k
        q = c[0] + c[1] * t + c[2] * t**2 + c[3] * t**3
        given = {"q": q.tolist()} | {
            n: [0.0] * size
            for n, size in problem.sensors.sizes.items()
            if problem.sensors[n].constant(1) is None and n not in wanted
        }
        if k < 50:
            with pytest.raises(LogError, match="waiting"):
                decoder.take(given, t)
        else:
            decoder.take(given, t)
    np.testing.assert_allclose(decoder.qd, c[1] + 2 * c[2] * t + 3 * c[3] * t**2, rtol=1e-6)
    for name in wanted:
        joint = robot.joint_index(problem.sensors[name].joint)  # type: ignore[attr-defined]
        (value,) = decoder.y[problem.sensors.slice(name)]
        place = robot.v_slices()[joint].start
        assert value == pytest.approx(2 * c[2, place] + 6 * c[3, place] * t, rel=1e-4)
    decoder.forget()
    with pytest.raises(LogError, match="waiting"):
        decoder.take(given, 1.0)


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.finding("Z-B1")
def test_velocities_that_come_now_and_then_are_not_slopes_with_zeros_between(
    every: int, tmp_path: Path
) -> None:
    (tmp_path / "problem.yaml").write_text(
        "robot: synthetic:chain:2\nlayout: {sensors: [all_joint_accelerations: {std: 0.1}]}\n"
    )
    decoder = SampleDecoder(load_problem(tmp_path / "problem.yaml"))
    c = np.random.default_rng(0).normal(size=(4, 2))
    for k in range(61):
        t = 0.005 * k
        q = (c[0] + c[1] * t + c[2] * t**2 + c[3] * t**3).tolist()
        qd, qdd = c[1] + 2 * c[2] * t + 3 * c[3] * t**2, 2 * c[2] + 6 * c[3] * t
        if k < 30:  # all that is waited for
            with suppress(LogError):
                decoder.take({"q": q}, t)
            continue
        decoder.take({"q": q} | ({} if k % every else {"qd": qd.tolist()}), t)
        np.testing.assert_allclose(decoder.qd, qd, rtol=1e-7)
        np.testing.assert_allclose(decoder.y, qdd, rtol=1e-5)
