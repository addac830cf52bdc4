"""Hostile input to derivatives, detection and identification: named, never answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from dynsys.errors import DynsysError, LayoutError, LogError, ModelError, StateError
from dynsys.model import synthetic
from dynsys.model.body import Body, Coupling
from dynsys.model.joints import Revolute
from dynsys.model.tree import KinematicTree
from dynsys.recursive.inputs import finite_rows
from dynsys.types import Array
from problems import Estimation, ForwardDynamics, Identification, InverseDynamics
from problems.detection import Alarm, ContactDetector, MomentumObserver, calibrate_alarm
from problems.detection.momentum import momentum_rates
from problems.identification.excitation import design
from problems.identification.fit import Fit
from problems.inputs import ascending_times

ROBOT = synthetic.chain(2)
TORQUES = sensors.Layout(ROBOT, sensors.all_joint_torques(ROBOT, std=0.05))
N = 150
TIME = np.arange(N) / 50.0
REST = np.zeros((N, 2))
NAN, INF = float("nan"), float("inf")


def at(array: Array, value: float, sample: int = 7) -> Array:
    """The array with a value at one sample."""
    changed = np.array(array, dtype=np.float64)
    changed[sample, ...] = value
    return changed


def motion() -> tuple[Array, Array, Array]:
    phase = np.stack([2.0 * TIME, 3.0 * TIME + 1.0], axis=1)
    speed = np.array([2.0, 3.0])
    return np.sin(phase), speed * np.cos(phase), -(speed**2) * np.sin(phase)


# ---- what is shared --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "why"),
    [
        ([0.0, 1.0], "shape \\(3,\\)"),
        ([0.0, 2.0, 1.0], "sample 2 is 1 after 2"),
        ([0.0, 0.0, 1.0], "sample 1 is 0 after 0"),
        ([0.0, NAN, 1.0], "sample 1 is nan"),
        ([0.0, 1.0, INF], "sample 2 is inf"),
        ([-INF, 1.0, 2.0], "sample 0 is -inf"),
        (np.ma.masked_array([0.0, 1.0, 2.0], [0, 1, 0]), "sample 1 is nan"),
        ("abc", "not numeric"),
        (np.arange(3) * 1j, "complex"),
        (None, "shape"),
    ],
)
def test_times_ascend(time: Any, why: str) -> None:
    with pytest.raises(StateError, match=why):
        ascending_times(time, 3)


@pytest.mark.finding("T-4")
def test_rows_without_a_guard_are_checked() -> None:
    robot = KinematicTree("ball", [Body("a", -1, synthetic.random_tree(4, 3).joints[0])])
    assert robot.quaternion_slices
    q, v = np.tile(robot.neutral(), (4, 1)), np.zeros((4, robot.nv))
    assert len(finite_rows(robot, (("q", q), ("qd", v)))) == 2
    for bad, why in ((3.0 * q, "norm 3"), (0.0 * q, "norm 0"), (NAN * q, "nan")):
        with pytest.raises(StateError, match=f"sample 2: .*{why}"):
            finite_rows(robot, (("q", np.r_[q[:2], bad[2:]]), ("qd", v)), "sample")
    with pytest.raises(StateError, match=r"sample 2: torque.*inf"):
        finite_rows(robot, (("q", q), ("torque", at(v, INF, 2))), "sample")


@pytest.mark.finding("T-9")
def test_complex_numbers_are_no_state() -> None:
    with pytest.raises(StateError, match="complex"):
        ROBOT.check_q(np.array([1j, 0.0]))


# ---- derivatives -----------------------------------------------------------------------------


def coupled_with_friction() -> KinematicTree:
    rng = np.random.default_rng(0)
    bodies = [
        Body(
            name,
            parent,
            Revolute(rng.normal(size=3)),
            inertia=synthetic.cloud_inertia(rng),
            friction=0.3,
            damping=0.2,
            armature=0.1,
        )
        for name, parent in zip("abcd", (-1, 0, 1, 0), strict=True)
    ]
    bodies[2] = replace(bodies[2], coupling=Coupling(0, 0.5, 0.3))
    bodies[3] = replace(bodies[3], coupling=Coupling(1, -1.5, 0.1))
    return KinematicTree("coupled", bodies).with_friction()


@pytest.mark.parametrize("backend", ["llvm", "reference"])
@pytest.mark.parametrize("kind", [InverseDynamics, ForwardDynamics])
def test_derivatives_of_coupled_joints_with_friction(kind: Any, backend: str) -> None:
    robot = coupled_with_friction()
    problem = kind(robot, backend)
    state = np.random.default_rng(1).normal(size=(3, robot.nv))
    J = problem.derivatives(*state)
    answer = "torque" if kind is InverseDynamics else "qdd"
    for k, found in enumerate((J.q, J.qd, J._part(2))):
        for freedom in range(robot.nv):
            step = np.zeros_like(state)
            step[k, freedom] = 1e-6
            ends = [getattr(problem.solve(*(state + s)), answer) for s in (step, -step)]
            np.testing.assert_allclose(found[:, freedom], (ends[0] - ends[1]) / 2e-6, atol=1e-6)


def test_derivatives_are_not_written_where_nothing_may_be() -> None:
    out = np.zeros(12)
    out.setflags(write=False)
    with pytest.raises(StateError, match="read-only"):
        InverseDynamics(ROBOT).derivatives([0, 0], [0, 0], [0, 0], out=out)


# ---- the momentum observer -------------------------------------------------------------------


def test_momentum_of_coupled_joints() -> None:
    robot = coupled_with_friction()
    q, qd, qdd = np.random.default_rng(2).normal(size=(3, robot.nv))
    p, beta = momentum_rates(robot, q, qd)
    np.testing.assert_allclose(p, dynsys.crba(robot, q) @ qd, atol=1e-12)
    steps = [(dt, robot.integrate(q, qd + 0.5 * dt * qdd, dt)) for dt in (-1e-5, 1e-5)]
    before, after = (momentum_rates(robot, there, qd + dt * qdd)[0] for dt, there in steps)
    torque = np.asarray(dynsys.rnea(robot, q, qd, qdd)) - robot.friction_torque(qd)
    np.testing.assert_allclose((after - before) / 2e-5, torque + beta, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda m: m.run(TIME, at(REST, NAN), REST, REST), "sample 7: q"),
        (lambda m: m.run(TIME, REST, at(REST, INF), REST), "sample 7: qd"),
        (lambda m: m.run(TIME, REST, REST, at(REST, NAN)), "sample 7: torque"),
        (lambda m: m.run(TIME[::-1], REST, REST, REST), "times must ascend"),
        (lambda m: m.run("abc", REST, REST, REST), "time is not numeric"),
        (lambda m: m.run(TIME, REST[:, :1], REST, REST), "shape"),
        (lambda m: replace(m, gain="5"), "must be positive, got '5'"),
        (lambda m: replace(m, robot="panda"), "needs a robot"),
    ],
)
def test_the_momentum_observer_names_what_is_wrong(
    call: Callable[[MomentumObserver], object], why: str
) -> None:
    with pytest.raises((StateError, ModelError), match=why):
        call(MomentumObserver(ROBOT))


def test_a_momentum_that_overflows_is_named() -> None:
    robot = synthetic.random_tree(3, 0)
    q, v = np.tile(robot.neutral(), (9, 1)), np.zeros((9, robot.nv))
    with np.errstate(all="ignore"), pytest.raises(StateError, match=r"sample 7: .*overflows"):
        MomentumObserver(robot).run(TIME[:9], q, at(v, 1e200), v)


# ---- alarms and contacts ---------------------------------------------------------------------

FREE = np.random.default_rng(0).chisquare(3, size=2000)
CLOCK = np.arange(2000) / 100.0


@pytest.mark.parametrize(
    ("time", "statistic", "per_hour", "error", "why"),
    [
        (CLOCK[::-1], FREE, 1.0, StateError, "must ascend"),
        (0.0 * CLOCK, FREE, 1.0, StateError, "must ascend"),
        (CLOCK[:-1], FREE, 1.0, StateError, "shape"),
        (np.r_[CLOCK[:-1], NAN], FREE, 1.0, StateError, "sample 1999 is nan"),
        (CLOCK, np.r_[FREE[:-1], INF], 1.0, StateError, "1999 is infinite"),
        (CLOCK, FREE[:, None], 1.0, StateError, "shape \\(N,\\)"),
        (CLOCK, ["x"] * 2000, 1.0, StateError, "not numeric"),
        (CLOCK, np.full(2000, 3.0), 1.0, LogError, "3 at every sample"),
        (CLOCK, FREE, "1", LogError, "must be positive, got '1'"),
        (CLOCK, FREE, 1e9, LogError, "ask for fewer"),
    ],
)
@pytest.mark.finding("T-1")
def test_no_threshold_is_better_than_one_that_never_alarms(
    time: Any, statistic: Any, per_hour: Any, error: type[DynsysError], why: str
) -> None:
    with pytest.raises(error, match=why):
        calibrate_alarm(time, statistic, per_hour)


def test_masked_and_missing_statistics_are_left_out() -> None:
    holes = FREE > 8.0
    masked = calibrate_alarm(CLOCK, np.ma.masked_array(FREE, holes), 60.0)
    missing = calibrate_alarm(CLOCK, np.where(holes, NAN, FREE), 60.0)
    assert masked == missing
    assert masked.threshold < calibrate_alarm(CLOCK, FREE, 60.0).threshold


def test_an_alarm_has_a_threshold() -> None:
    for threshold in (NAN, INF):
        with pytest.raises(LogError, match="no alarm"):
            Alarm(threshold, 1.0, 0.1, 1.0, 0.0)
    with pytest.raises(StateError, match="shape"):
        Alarm(1.0, 1.0, 0.1, 1.0, 0.0).events(CLOCK, FREE[:-1])


def stating(more: list[Any] | None = None, without: bool = False) -> Estimation:
    own = [
        *sensors.all_joint_torques(ROBOT, std=0.05),
        *sensors.all_joint_accelerations(ROBOT, std=0.05),
        *([] if without else sensors.zero_external_wrench_except(ROBOT)),
        *(more or []),
    ]
    return Estimation(ROBOT, sensors.Layout(ROBOT, own))


def readings(problem: Estimation) -> dict[str, Array]:
    q, qd, qdd = motion()
    torque, rng = np.asarray(dynsys.rnea(ROBOT, q, qd, qdd)), np.random.default_rng(3)
    found = {}
    for k, joint in enumerate(ROBOT.joint_names):
        noise = rng.normal(scale=0.05, size=(2, N))
        found |= {f"{joint}/torque": torque[:, k] + noise[0]}
        found |= {f"{joint}/acceleration": qdd[:, k] + noise[1]}
    return found


@pytest.mark.finding("T-3")
def test_detectors_that_cannot_detect_are_refused() -> None:
    alarm = Alarm(10.0, 1.0, 0.1, 1.0, 0.0)
    again = sensors.ExternalWrench("again", ROBOT.body_names[-1], value=0.0)
    with pytest.raises(LayoutError, match=f"link {ROBOT.body_names[-1]!r}.*keep one"):
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
    joint = f"{ROBOT.joint_names[0]}/torque"
    pushed = y | {joint: y[joint] + np.where((TIME > 1) & (TIME < 2), 9.0, 0.0)}
    for value in pushed.values():
        value[75] = NAN  # amid the push: no sample of it, and no end of it either
    (contact,) = detector.events(TIME, q, qd, pushed)
    assert (contact.start, contact.end) == pytest.approx((1.02, 1.98))
    for time in (TIME[::-1], TIME[:-1], "abc"):
        with pytest.raises(StateError, match="time"):
            detector.events(time, q, qd, y)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="no sample"):
        detector.events([], REST[:0], REST[:0], np.zeros((0, problem.layout.size)))


# ---- identification --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({"inertia": 3}, "list of body names, got 3"),
        ({"inertia": None}, "list of body names, got None"),
        ({"inertia": ["link_1", "link_1"]}, "'link_1' is asked for twice"),
        ({"contacts": "link_1"}, "list of body names, got 'link_1'"),
        ({"contacts": ["link_9"]}, "no body 'link_9'"),
        ({"friction": ["nothing"]}, "no joint 'nothing'"),
        (dict.fromkeys(("inertia", "friction", "rotor", "offset"), False), "no parameter"),
    ],
)
def test_parameters_that_are_none(choices: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelError, match=why):
        Identification(ROBOT, TORQUES, **choices)


def test_what_an_identification_is_made_of() -> None:
    with pytest.raises(LayoutError, match="got 'panda'"):
        Identification("panda", TORQUES)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="without sensors"):
        Identification(ROBOT, sensors.Layout(ROBOT, []))


@pytest.fixture(scope="module")
def fitted() -> Fit:
    q, qd, qdd = motion()
    torque = np.asarray(dynsys.rnea(ROBOT, q, qd, qdd))
    y = torque + np.random.default_rng(0).normal(scale=0.05, size=torque.shape)
    return Identification(ROBOT, TORQUES).fit(q, qd, qdd, y)


Q, QD, QDD = motion()
Y = np.asarray(dynsys.rnea(ROBOT, Q, QD, QDD))


@pytest.mark.parametrize(
    ("log", "choices", "why"),
    [
        (("q", QD, QDD, Y), {}, "q is not numeric"),
        ((Q, QD, QDD, "y"), {}, "y is not numeric"),
        ((Q, QD, QDD, 1j * Y), {}, "complex"),
        ((Q[:0], QD[:0], QDD[:0], Y[:0]), {}, "no sample"),
        ((Q, at(QD, NAN), QDD, Y), {}, "sample 7: qd"),
        ((np.ma.masked_array(Q, at(0.0 * Q, 1.0) > 0), QD, QDD, Y), {}, "sample 7: q"),
        ((Q, QD, QDD, at(Y, INF)), {}, "infinite"),
        ((Q, QD, QDD, NAN * Y), {}, "nothing to fit to"),
        ((Q, QD, QDD, None), {}, "nothing to fit to"),
        ((Q, QD, QDD, 1e200 * Y), {}, "overflow"),
        ((Q, at(QD, 1e200), QDD, Y), {}, "sample 7: .*overflow"),
        ((Q[:3], QD[:3], QDD[:3], Y[:3]), {}, "leave nothing to tell their noise"),
        ((Q, QD, QDD, Y), {"noise": "estimat"}, "noise must be one of estimate, layout"),
        ((Q, QD, QDD, Y), {"huber": 0.0}, "huber"),
        ((Q, QD, QDD, Y), {"huber": NAN}, "huber"),
        ((Q, QD, QDD, Y), {"huber": "4"}, "huber"),
        ((Q, QD, QDD, Y), {"sizes": {"link_1.mass": "1"}}, "size of link_1.mass"),
        ((Q, QD, QDD, Y), {"sizes": [1.0]}, "by names of parameters"),
    ],
)
@pytest.mark.finding("T-6", "T-7")
def test_fits_to_nonsense(log: tuple[Any, ...], choices: dict[str, Any], why: str) -> None:
    with np.errstate(all="ignore"), pytest.raises((StateError, ModelError), match=why):
        Identification(ROBOT, TORQUES).fit(*log, **choices)


@pytest.mark.finding("T-5")
def test_what_was_not_compared_has_no_error(fitted: Fit) -> None:
    """An rms of zero would say that readings which are not there are met exactly."""
    found = fitted.validate(Q, QD, QDD, np.where([True, False], NAN, Y))
    assert np.isnan([found.after[0], found.before[0], found.inside[0]]).all()
    assert np.isfinite([found.after[1], found.before[1], found.inside[1]]).all()


def test_predictions_and_payloads_of_nonsense(fitted: Fit) -> None:
    with np.errstate(all="ignore"), pytest.raises(StateError, match=r"sample 7: .*overflow"):
        fitted.predict(Q, at(QD, 1e200), QDD)
    with np.errstate(all="ignore"), pytest.raises(StateError, match="overflow"):
        Identification(ROBOT, TORQUES).regressor_batch(Q, 1e200 * QD, QDD)
    with pytest.raises(ModelError, match="two fits"):
        fitted.payload("other", "link_2")  # type: ignore[arg-type]


@pytest.mark.finding("T-8")
def test_half_a_motion_is_no_motion() -> None:
    with pytest.raises(StateError, match="all three, or none"):
        Identification(ROBOT, TORQUES).verdict(Q)


@pytest.mark.parametrize("seconds", ["2", NAN, INF, 0.0, -1.0])
def test_motions_take_seconds(seconds: Any) -> None:
    with pytest.raises(StateError, match="takes some seconds"):
        design(Identification(ROBOT, TORQUES).sought, seconds)
