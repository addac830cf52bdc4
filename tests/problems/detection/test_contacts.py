"""Pushes on an arm with torque sensors: when, where, how hard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KinematicTree, LayoutError, StateError
from dynsys.model.spatial import Transform
from dynsys.model.tree import Frame
from dynsys.types import Array
from problems import Estimation
from problems.detection import Alarm, ContactDetector
from problems.detection.contacts import _place
from problems.logs.simulate import Trajectory
from problems.measured.simulated_readings import TrueReadings
from tests.robots import CHAIN, REST, TIME, N, motion

RATE = 100.0


def arm() -> KinematicTree:
    return dynsys.synthetic.chain(7)


def problem(robot: KinematicTree, std: float = 0.05) -> Estimation:
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=std),
            *sensors.all_joint_accelerations(robot, std=std),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    return Estimation(robot, layout)


def log(
    robot: KinematicTree,
    seconds: float,
    seed: int,
    push: np.ndarray | None = None,
    link: int = 6,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Random motion with noise; the push (6,) acts on a link from 2.0 to 2.3 s."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1 / RATE)
    q, qd, qdd = Trajectory.random(robot, seconds + 1, seed=seed).at(t)
    f_ext = np.zeros((len(t), robot.n_bodies, 6))
    if push is not None:
        f_ext[(t >= 2.0) & (t < 2.3), link] = push
    torque = np.asarray(dynsys.rnea(robot, q, qd, qdd, f_ext))
    y = {}
    for k, joint in enumerate(robot.joint_names):
        y[f"{joint}/torque"] = torque[:, k] + rng.normal(scale=0.05, size=len(t))
        y[f"{joint}/acceleration"] = qdd[:, k] + rng.normal(scale=0.05, size=len(t))
    return t, q, qd, y


@pytest.mark.parametrize("link", [5, 6])
def test_a_push_is_found_on_its_link(link: int) -> None:
    """Beside the joint: a force through a joint's origin acts on both of its links."""
    robot = arm()
    detector = ContactDetector.calibrated(problem(robot), *log(robot, 30.0, 1), per_hour=60.0)
    end, force = robot.bodies[6].placement.r, np.array([12.0, -19.0, 14.0])
    push = np.concatenate([np.cross(0.6 * end, force), force])
    found = detector.events(*log(robot, 4.0, 2, push, link))
    (contact,) = [one for one in found if one.start < 2.3 and one.end > 2.0]
    assert len(found) <= 2  # 60 false ones per hour are promised
    assert contact.start == pytest.approx(2.0, abs=0.02)
    assert contact.end == pytest.approx(2.29, abs=0.02)
    assert contact.link == robot.body_names[link] and contact.probability > 0.5
    assert np.abs((contact.wrench - push) / contact.wrench_std).max() < 5
    assert abs(contact.force - np.linalg.norm(force)) < 4 * contact.force_std
    assert contact.force_std < np.linalg.norm(contact.wrench_std[3:])
    if link == 5:  # the last link carries no joint that would tell how long it is
        expected = 0.6 * float(np.linalg.norm(end))
        assert abs(contact.along - expected) < 4 * contact.along_std < 0.3
        assert f"contact on {contact.where}, {contact.force:.3g} +- " in str(contact)
    _, q, qd, y = log(robot, 1.0, 4)
    assert 0 < detector.statistic(q[0], qd[0], _first(y)) < detector.alarm.threshold


def _rover(folder: Path) -> KinematicTree:
    """An arm of three joints on a base that floats: as many checks as a wrench has numbers."""
    weight = '<mass value="2"/><inertia ixx=".02" iyy=".03" izz=".03" ixy="0" ixz="0" iyz="0"/>'
    links = "".join(
        f'<link name="{name}"><inertial><origin xyz="0.1 0.02 0.03"/>{weight}</inertial></link>'
        for name in "abcd"
    )
    joints = "".join(
        f'<joint name="to_{child}" type="continuous"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="0.3 0 0.05"/><axis xyz="{axis}"/></joint>'
        for parent, child, axis in (
            ("a", "b", "0 0 1"),
            ("b", "c", "0 1 0"),
            ("c", "d", "0 1 0"),
        )
    )
    (folder / "rover.urdf").write_text(f'<robot name="rover">{links}{joints}</robot>')
    return dynsys.load(folder / "rover.urdf", floating_base=True)


@pytest.mark.parametrize("link", ["c", "d"])
@pytest.mark.finding("C-26")
def test_of_links_that_nothing_tells_apart_the_smallest_force_is_told(
    link: str, tmp_path: Path
) -> None:
    """It was that of the first link by number: 346 N on a base for 10 N on a hand."""
    robot, rng = _rover(tmp_path), np.random.default_rng(0)
    layout = sensors.Layout(
        robot,
        [
            sensors.Imu("imu", "a", std=(0.05, 0.005)),
            *sensors.all_joint_torques(robot, std=0.05),
            *sensors.all_joint_accelerations(robot, std=0.05, free=False),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    N = 300
    time = np.arange(N) / 100
    q, qd, qdd = Trajectory.random(robot, 4.0, seed=1).at(time)
    f_ext, at = np.zeros((N, robot.n_bodies, 6)), robot.body_names.index(link)
    force = np.array([8.0, -12.0, 9.0])
    f_ext[200:230, at] = np.concatenate([np.cross([0.2, 0, 0], force), force])
    qdd[:, :6] = [_falling(robot, *x) for x in zip(q, qd, qdd, f_ext, strict=True)]
    y = TrueReadings(layout).at(q, qd, qdd, f_ext)[1]
    y = np.where(np.isnan(layout.constants), y, layout.constants)
    y = y + layout.std * rng.normal(size=y.shape)
    detector = ContactDetector(Estimation(robot, layout), Alarm(60.0, 1.0, 0.1, 1.0, 0.0))
    (contact,) = detector.events(time, q, qd, y)
    assert len(contact.tied) == 3 and contact.probability == pytest.approx(0.25, rel=1e-3)
    assert contact.link == contact.among[0] == link and set(contact.among) == set("abcd")
    assert np.abs((contact.wrench - f_ext[210, at]) / contact.wrench_std).max() < 4
    assert contact.force < 40


def _falling(
    robot: KinematicTree, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, f_ext: np.ndarray
) -> np.ndarray:
    """Acceleration (6,) of a base without a drive."""
    still = np.concatenate([np.zeros(6), qdd[6:]])
    H, torque = dynsys.crba(robot, q), dynsys.rnea(robot, q, qd, still, f_ext)
    return np.asarray(np.linalg.solve(H[:6, :6], -torque[:6]))


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.finding("A-11")
def test_alarms_heed_sensors_that_are_missing(learns: bool) -> None:
    """Learnt while some were missing, it rang at every sample; the other way round at none."""
    robot = arm()

    def lacking(seconds: float, seed: int, push: np.ndarray | None, lacks: bool) -> tuple:
        t, q, qd, y = log(robot, seconds, seed, push)
        gone = [f"{name}/torque" for name in robot.joint_names[:4]] if lacks else []
        return t, q, qd, y | {name: np.full(len(t), np.nan) for name in gone}

    free = lacking(30.0, 1, None, learns)
    detector = ContactDetector.calibrated(problem(robot), *free, per_hour=60.0)
    push = np.array([0.0, 0.0, 0.0, 12.0, -19.0, 14.0])
    found = detector.events(*lacking(30.0, 2, push, not learns))
    assert any(one.start < 2.3 and one.end > 2.0 for one in found)
    assert len(found) <= 4  # half a false one is promised
    _, q, qd, y = lacking(4.0, 2, push, not learns)
    one = detector.statistic(q[210], qd[210], {name: x[210] for name, x in y.items()})
    assert one > detector.alarm.threshold


@pytest.mark.parametrize("part", [0.2, 0.98, 1.2])
@pytest.mark.finding("C-24")
def test_how_well_the_place_is_known_is_honest_beyond_the_last_frame(part: float) -> None:
    """It was the end, +- 0, wherever beyond it a force acted."""
    robot, rng, inside = arm(), np.random.default_rng(0), []
    end, link = robot.bodies[6].placement.r, robot.body_names[5]
    at, std = part * float(np.linalg.norm(end)), np.array([0.05] * 3 + [0.3] * 3)
    for _ in range(100):
        force = np.cross(end, rng.normal(size=3)) + 0.3 * end * rng.normal()
        force *= 20 / np.linalg.norm(force)
        wrench = np.concatenate([np.cross(part * end, force), force])
        found, deviation = _place(
            robot, link, wrench + std * rng.normal(size=6), np.diag(std**2)
        )
        inside.append(abs(found - at) < 2 * deviation)
    assert 0.85 < np.mean(inside)
    along = np.concatenate([np.zeros(3), 20 * end / np.linalg.norm(end)])
    assert np.isnan(_place(robot, link, along, np.diag(std**2))).all()  # all of it, or any


def _first(y: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values[0] for name, values in y.items()}


def test_a_force_through_the_axis_of_a_joint_may_be_on_either_link() -> None:
    """It puts no torque on that joint: however hard, only noise tells the links apart."""
    robot = arm()
    detector = ContactDetector.calibrated(problem(robot), *log(robot, 30.0, 1), per_hour=60.0)
    both = set(robot.body_names[5:])
    for size in (10.0, 1000.0):
        push = np.concatenate([np.zeros(3), size * np.array([0.4, -0.7, 0.6])])
        found = detector.events(*log(robot, 4.0, 2, push, 6))
        (contact,) = [one for one in found if one.start < 2.3 and one.end > 2.0]
        assert both <= set(contact.among) and contact.among[0] == contact.link
        assert contact.probability < 0.95
        assert " or " in str(contact)
    beside = np.concatenate([np.cross([0.1, 0.1, 0.0], push[3:]), push[3:]])
    (contact,) = detector.events(*log(robot, 4.0, 2, beside, 6))
    assert contact.among == (robot.body_names[6],) == (contact.link,)


def test_the_link_is_told_where_the_noise_is_smaller_than_stated() -> None:
    """Readings then agree all the time, and consistency suspects nobody."""
    robot = arm()
    end, force = robot.bodies[6].placement.r, np.array([12.0, -19.0, 14.0])
    push = np.concatenate([np.cross(0.6 * end, force), force])
    overstated = problem(robot, std=1.5)
    detector = ContactDetector.calibrated(overstated, *log(robot, 30.0, 1), per_hour=60.0)
    found = detector.events(*log(robot, 4.0, 2, push, 5))
    (contact,) = [one for one in found if one.start < 2.3 and one.end > 2.0]
    assert contact.link == robot.body_names[5] and 1 / 7 < contact.probability < 0.5


def test_the_place_on_the_last_link_is_told_by_its_frames() -> None:
    bare = arm()
    tip = Frame(6, Transform(np.eye(3), np.array([0.0, 0.0, 0.2])))
    robot = KinematicTree("with a tool", bare.bodies, {"tip": tip})
    wrench = np.concatenate([np.cross([0.0, 0.0, 0.15], [9.0, 1.0, 0.0]), [9.0, 1.0, 0.0]])
    place = _place(robot, bare.body_names[6], wrench, 1e-6 * np.eye(6))
    assert place[0] == pytest.approx(0.15) and 0 < place[1] < 1e-3
    assert np.isnan(_place(bare, bare.body_names[6], wrench, np.eye(6))[0])


def test_free_motion_raises_about_as_many_alarms_as_promised() -> None:
    robot = arm()
    detector = ContactDetector.calibrated(problem(robot), *log(robot, 60.0, 1), per_hour=720.0)
    counted = sum(len(detector.events(*log(robot, 30.0, seed))) for seed in range(10, 14))
    assert 8 <= counted <= 60  # 24 are promised for these two minutes


def test_what_cannot_detect_contacts_is_said() -> None:
    robot = dynsys.synthetic.chain(2)
    torques = [*sensors.all_joint_torques(robot, std=1.0)]
    bare = Estimation(robot, sensors.Layout(robot, torques))
    states = np.arange(3.0), np.zeros((3, 2)), np.zeros((3, 2)), np.zeros((3, 2))
    with pytest.raises(LayoutError, match="add zero_external_wrench_except"):
        ContactDetector.calibrated(bare, *states)
    layout = sensors.Layout(robot, [*torques, *sensors.zero_external_wrench_except(robot)])
    y = np.zeros((3, layout.size))
    with pytest.raises(LayoutError, match="nothing checks that the links are untouched"):
        ContactDetector.calibrated(Estimation(robot, layout), *states[:3], y)


NAN = float("nan")


def test_one_degree_of_freedom_checks() -> None:
    """The torque of one joint of two is never read."""
    some, (q, qd, _) = stating(), motion()
    y = readings(some)
    y[f"{CHAIN.joint_names[1]}/torque"][:] = NAN
    assert (some.solve_batch(q, qd, y).degrees_of_freedom == 1).all()
    detector = ContactDetector.calibrated(some, TIME, q, qd, y, per_hour=1000.0)
    assert detector.statistic(q[0], qd[0], {name: value[0] for name, value in y.items()}) > 0


def stating(more: list[Any] | None = None, without: bool = False) -> Estimation:
    own = [
        *sensors.all_joint_torques(CHAIN, std=0.05),
        *sensors.all_joint_accelerations(CHAIN, std=0.05),
        *([] if without else sensors.zero_external_wrench_except(CHAIN)),
        *(more or []),
    ]
    return Estimation(CHAIN, sensors.Layout(CHAIN, own))


def readings(problem: Estimation) -> dict[str, Array]:
    q, qd, qdd = motion()
    torque, rng = np.asarray(dynsys.rnea(CHAIN, q, qd, qdd)), np.random.default_rng(3)
    found = {}
    for k, joint in enumerate(CHAIN.joint_names):
        noise = rng.normal(scale=0.05, size=(2, N))
        found |= {f"{joint}/torque": torque[:, k] + noise[0]}
        found |= {f"{joint}/acceleration": qdd[:, k] + noise[1]}
    return found


@pytest.mark.finding("T-3")
def test_detectors_that_cannot_detect_are_refused() -> None:
    alarm = Alarm(10.0, 1.0, 0.1, 1.0, 0.0)
    again = sensors.ExternalWrench("again", CHAIN.body_names[-1], value=0.0)
    with pytest.raises(LayoutError, match=f"link {CHAIN.body_names[-1]!r}.*keep one"):
        ContactDetector(stating([again]), alarm)
    with pytest.raises(LayoutError, match="a statement that fails"):
        ContactDetector(stating(without=True), alarm)
    with pytest.raises(LayoutError, match="needs an Alarm"):
        ContactDetector(stating(), None)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="Estimation, got 'panda'"):
        ContactDetector("panda", alarm)  # type: ignore[arg-type]


@pytest.mark.finding("T-2")
def test_a_log_that_nothing_checks_has_no_verdict() -> None:
    problem, (q, qd, _) = stating(), motion()
    y = readings(problem)
    detector = ContactDetector.calibrated(problem, TIME, q, qd, y, per_hour=1000.0)
    gone = {name: NAN * value for name, value in y.items()}
    with pytest.raises(LayoutError, match="nothing checks"):
        detector.events(TIME, q, qd, gone)
    assert np.isnan(detector.statistic(q[0], qd[0], {name: NAN for name in y}))
    joint = f"{CHAIN.joint_names[0]}/torque"
    pushed = y | {joint: y[joint] + np.where((TIME > 1) & (TIME < 2), 9.0, 0.0)}
    for value in pushed.values():
        value[75] = NAN  # amid the push: no sample of it, and no end of it either
    (contact,) = detector.events(TIME, q, qd, pushed)
    assert (contact.start, contact.end) == pytest.approx((1.02, 1.98))
    assert contact.wrench.shape == (6,) and contact.covariance.shape == (6, 6)
    assert np.isnan(contact.wrench).all() and np.isnan(contact.covariance).all()  # two checks
    for time in (TIME[::-1], TIME[:-1], "abc"):
        with pytest.raises(StateError, match="time"):
            detector.events(time, q, qd, y)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="no sample"):
        detector.events([], REST[:0], REST[:0], np.zeros((0, problem.layout.size)))
