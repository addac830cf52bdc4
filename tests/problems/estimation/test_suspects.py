"""The wrong one is named: precise, exact, of few rows or many; one state or many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import dynsys
import sensors
from dynsys import StateError
from dynsys.system.equations import Kinematics
from dynsys.types import Array, IntArray
from experiments.trust.consistency.suspects import CULPRITS, KINDS, SAME, table, tried
from problems import Estimation, Prior, Suspect
from problems.estimation.consistency import Checks, log_tail
from problems.estimation.outputs import parse_outputs
from problems.live.estimator import LiveEstimator
from tests.problems.estimation.estimation_cases import (
    FEET,
    Truth,
    generous,
    moving,
    noisy,
    on_force_sensors,
    readings,
    standing,
    truth,
)

ARM = dynsys.synthetic.chain(7)
BODIES, JOINTS = ARM.body_names, ARM.joint_names


def redundant_arm(*more: sensors.AbstractSensor, std: float = 0.1) -> Estimation:
    """Torques and accelerations of all joints, nothing touches the arm."""
    return Estimation(
        ARM,
        sensors.Layout(
            ARM,
            [
                *sensors.all_joint_accelerations(ARM, std=std),
                *(sensors.JointTorque(f"{j} torque", j, std=std) for j in JOINTS),
                *sensors.zero_external_wrench_except(ARM, []),
                *more,
            ],
        ),
    )


def suspects_of(problem: Estimation, state: Truth, y: Array, **more: Any) -> list[Suspect]:
    found = problem.solve(state.q, state.qd, y, **more).suspects
    assert all(isinstance(s, Suspect) for s in found)
    return found  # type: ignore[return-value]


# ---- who is named ----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["auto", "llvm", "superlu", "dense"])
@pytest.mark.parametrize("claimed", [1e-5, 1e-7])
@pytest.mark.finding("N-1", "item 1")
def test_a_precise_sensor_that_is_wrong_is_the_suspect(backend, claimed) -> None:
    robot = dynsys.synthetic.chain(2)
    right = [sensors.JointTorque(f"right {k}", "link_1", std=1.0) for k in range(3)]
    layout = sensors.Layout(
        robot,
        [
            sensors.JointTorque("wrong", "link_1", std=claimed),
            *right,
            *sensors.zero_external_wrench_except(robot, []),
            sensors.JointTorque("other", "link_2", std=1.0),
        ],
    )
    problem = Estimation(robot, layout, backend=backend)
    state = truth(problem, 0)
    y = noisy(problem, readings(problem, state), 0)
    y[0] += 50.0
    e = problem.solve(state.q, state.qd, y)
    assert e.p_value < 1e-100
    (suspect,) = e.suspects
    assert suspect.sensor == "wrong" and suspect.p_value > 0.01 and suspect.probability > 0.99
    # 50 off beside the mean of three with a deviation of one
    assert e.residual["wrong"][0] == pytest.approx(50 * np.sqrt(3), abs=4)
    assert np.isnan(e.residual["other"])  # nothing checks it
    batch = problem.solve_batch(*(np.tile(x, (70, 1)) for x in (state.q, state.qd, y)))
    np.testing.assert_allclose(batch.residual["wrong"][:, 0], e.residual["wrong"][0], rtol=1e-4)


def pushed(problem: Estimation, seed: int, link: str) -> tuple[Truth, Array]:
    """A push on a link, and readings with noise; statements keep to what they say."""
    state = truth(problem, seed, [link])
    y = noisy(problem, readings(problem, state), seed)
    said = problem.layout.constants
    return state, np.where(np.isnan(said), y, said)


@pytest.mark.parametrize("link", BODIES)
@pytest.mark.finding("N-2", "item 1")
def test_a_push_on_a_link_said_to_be_untouched_is_named(link) -> None:
    """Of all links that could explain it, not the one with most freedoms: the last."""
    problem = redundant_arm(std=0.01)
    for seed in range(5):
        state, y = pushed(problem, seed, link)
        first = suspects_of(problem, state, y)[0]
        assert f"{link}/no_contact" in (first.sensor, *first.tied)
        assert first.degrees_of_freedom == min(BODIES.index(link) + 1, 6)


def test_what_no_data_can_separate_is_named_together() -> None:
    problem = redundant_arm(sensors.JointTorque("again", JOINTS[3], std=0.02))
    state = truth(problem, 1)
    y = noisy(problem, readings(problem, state), 1)
    y[problem.layout.slice("again")] += 5.0
    first, *_ = suspects_of(problem, state, y)
    assert first.sensor == "again" and first.tied == ()  # accelerations know which is right
    y[problem.layout.slice(f"{JOINTS[0]} torque")] += 5.0
    y[problem.layout.slice("again")] -= 5.0
    first = suspects_of(problem, state, y)[0]
    assert {first.sensor, *first.tied} >= {f"{JOINTS[0]} torque", f"{BODIES[0]}/no_contact"}
    assert "no_contact' or" in str(first) or "torque' or" in str(first)


@pytest.mark.finding("Z-W5")
def test_links_that_explain_a_push_alike_are_named_together() -> None:
    """A force at the joint between two links may act on either."""
    robot = dynsys.synthetic.chain(4)
    problem = Estimation(
        robot,
        sensors.Layout(
            robot,
            [
                sensors.ForceTorque("base_ft", robot.joint_names[0], std=(0.1, 0.3)),
                *sensors.all_joint_accelerations(robot, std=0.2),
                *sensors.all_joint_torques(robot, std=0.1),
                *sensors.zero_external_wrench_except(robot),
            ],
        ),
    )
    named, sizes = 0, []
    for seed in range(24):
        link, rng = robot.body_names[seed % 4], np.random.default_rng(seed)
        wrench = np.zeros((4, 6))
        wrench[seed % 4, 3:] = 20 * rng.normal(size=3)
        motion = robot.random_configuration(rng), rng.normal(size=4), rng.normal(size=4)
        state = moving(problem, *motion, wrench)
        y, said = noisy(problem, readings(problem, state), seed), problem.layout.constants
        found = suspects_of(problem, state, np.where(np.isnan(said), y, said))
        first = found[0]
        named += f"{link}/no_contact" in (first.sensor, *first.tied)
        sizes.append(1 + len(first.tied))
        assert ("the readings cannot tell" in str(first)) == bool(first.tied)
        for other in found[1:]:  # both say so of each other
            assert (other.sensor in first.tied) == (first.sensor in other.tied)
    assert named >= 23 and 2 <= np.mean(sizes) < 3


@pytest.mark.parametrize("n", [4, 7])
@pytest.mark.finding("E-1")
def test_a_push_along_an_axis_is_not_blamed_on_one_link_alone(n) -> None:
    """A force at a joint, along an axis of the link beyond, may act on the link before it."""
    robot = dynsys.synthetic.chain(n)
    problem = Estimation(
        robot,
        sensors.Layout(
            robot,
            [
                sensors.ForceTorque("base_ft", robot.joint_names[0], std=(0.1, 0.3)),
                *sensors.all_joint_accelerations(robot, std=0.2),
                *sensors.all_joint_torques(robot, std=0.1),
                *sensors.zero_external_wrench_except(robot),
            ],
        ),
    )
    said = problem.layout.constants
    for seed in range(12):
        rng, before = np.random.default_rng(seed), seed % (n - 1)
        pair = [f"{robot.body_names[k]}/no_contact" for k in (before, before + 1)]
        q, qd, qdd = robot.random_configuration(rng), rng.normal(size=n), rng.normal(size=n)
        push = 20.0 * np.eye(6)[3 + seed % 3]
        moved = Kinematics.at(robot, q, qd).X_up[before + 1].T @ push
        for link, wrench in ((before, moved), (before + 1, push)):
            wrenches = np.zeros((n, 6))
            wrenches[link] = wrench
            state = moving(problem, q, qd, qdd, wrenches)
            y = noisy(problem, readings(problem, state), seed)
            first = suspects_of(problem, state, np.where(np.isnan(said), y, said))[0]
            assert {*pair} <= {first.sensor, *first.tied}


def test_one_axis_of_a_sensor_may_be_the_wrong_one() -> None:
    """Its other axes, which are fine, do not speak for the sensor."""
    problem = redundant_arm(sensors.Imu("imu", BODIES[-1], angular=True, std=0.1))
    state = truth(problem, 0)
    y = noisy(problem, readings(problem, state), 0)
    y[problem.layout.slice("imu")] += np.eye(9)[1]
    first = suspects_of(problem, state, y)[0]
    assert first.sensor == "imu" and first.degrees_of_freedom == 9
    assert first.component == "imu.ay" and "imu.ay" in str(first)


def test_beliefs_are_suspects_too() -> None:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.01),
            *sensors.all_joint_accelerations(robot, std=0.01),
            *sensors.zero_external_wrench_except(robot, []),
        ],
    )
    problem = Estimation(
        robot, layout, Prior({"qdd": {"link_2": 0.001}}, {"qdd": {"link_2": 7.0}})
    )
    state = truth(problem, 0)
    y = noisy(problem, readings(problem, state), 0)
    (first, *_) = suspects_of(problem, state, y)
    assert first.sensor.startswith("prior(") and "link_2" in first.sensor


# ---- what is said of it ----------------------------------------------------------------------


@pytest.mark.finding("N-4", "tests that cannot fail")
def test_what_is_left_is_judged_by_what_is_left_of_the_freedoms() -> None:
    """All of a suspect is what solving without it says."""
    problem = redundant_arm(sensors.Accelerometer("tip", BODIES[-1], std=0.1))
    state = truth(problem, 2)
    y = noisy(problem, readings(problem, state), 2)
    y[problem.layout.slice("tip")] += [1.0, -2.0, 3.0]
    whole = problem.solve(state.q, state.qd, y)
    first = suspects_of(problem, state, y)[0]
    without = problem.solve(state.q, state.qd, y, active={first.sensor: False})
    assert first.sensor == "tip" and first.degrees_of_freedom == 3
    assert whole.degrees_of_freedom - without.degrees_of_freedom == 3  # type: ignore[operator]
    assert whole.chi_square - without.chi_square == pytest.approx(first.explains, rel=1e-9)  # type: ignore[operator]
    assert first.p_value == pytest.approx(without.p_value, rel=1e-6)
    assert whole.suspicion["tip"] == first.probability
    assert sum(whole.suspicion.values()) == pytest.approx(1.0)  # type: ignore[call-overload]


def test_readings_that_agree_have_no_suspects() -> None:
    problem = redundant_arm()
    state = truth(problem, 0)
    y = noisy(problem, readings(problem, state), 0)
    e = problem.solve(state.q, state.qd, y)
    assert e.suspects == [] and set(e.suspicion.values()) == {0.0}  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["auto", "llvm", "superlu", "dense"])
@pytest.mark.finding("Y-25")
def test_a_chi_square_that_is_no_number_is_no_agreement(backend) -> None:
    """Squares of 1e200 overflow; no state at all has no chi-square."""
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot, []),
        ],
    )
    problem, y = Estimation(robot, layout, backend=backend), np.zeros(layout.size)
    y[0] = 1e200
    with pytest.raises(StateError, match="overflow float64"):
        _ = problem.solve([0.1, 0.2], [0.0, 0.0], y).p_value
    live = LiveEstimator(problem, parse_outputs(problem, ["p_value"]))
    live.prepare()
    with pytest.raises(StateError, match="overflow float64"):
        live.solve(np.array([0.1, 0.2]), np.zeros(2), y)
    none = problem.solve_batch(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, layout.size)))
    assert np.shape(none.p_value) == (0,) and none.suspects == []


def test_logarithms_of_tails() -> None:
    dof, x = np.meshgrid([1, 2, 3, 6, 11, 40], [0.0, 0.1, 3.0, 50.0, 300.0, 900.0])
    np.testing.assert_allclose(log_tail(dof, x), chi2(dof).logsf(x), rtol=1e-9, atol=1e-12)
    # beyond what is a number: exact for two degrees of freedom, and for four
    far = np.array([2e3, 1e5, 1e12])
    np.testing.assert_allclose(log_tail(2, far), -far / 2, rtol=1e-12)
    np.testing.assert_allclose(log_tail(4, far), np.log1p(far / 2) - far / 2, rtol=1e-12)
    assert log_tail(0, 5.0) == 0.0


# ---- many states -----------------------------------------------------------------------------


def lying(problem: Estimation, n: int, missing: float) -> tuple[Array, ...]:
    """States of a standing humanoid whose readings lie, a sensor each."""
    states = [moving(problem, *standing(problem.robot, k, FEET)) for k in range(n)]
    y = np.array([noisy(problem, readings(problem, s), k) for k, s in enumerate(states)])
    said, rng = problem.layout.constants, np.random.default_rng(0)
    y = np.where(np.isnan(said), y, said)
    names = [x for x in problem.layout.names if np.isnan(said[problem.layout.slice(x)]).all()]
    for k in range(n):
        y[k, problem.layout.slice(names[k % len(names)])] += 40.0
    gone = (rng.uniform(size=y.shape) < missing) & np.isnan(said)
    return (
        np.array([s.q for s in states]),
        np.array([s.qd for s in states]),
        np.where(gone, np.nan, y),
    )


def contacts(robot) -> sensors.Layout:
    """Exact rows that are no plain statements, and correlated ones."""
    return generous(
        robot,
        sensors.RigidContact("l_contact", "l_sole"),
        sensors.PureForce("pure", "r_sole"),
        sensors.JointTorque("no drive", "root", value=0.0),  # sees every stated wrench
    )


@pytest.mark.parametrize("layout", [generous, on_force_sensors, contacts])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_batches_name_whom_single_states_name(humanoid, layout, missing) -> None:
    problem = Estimation(humanoid, layout(humanoid))
    q, qd, y = lying(problem, 10, missing)
    rows = problem.measured.pack(y, None, 10)
    told: dict[int, tuple[Checks, int]] = {}

    def judge(places: IntArray, checks: Checks) -> None:
        told.update({k: (checks, n) for n, k in enumerate(places.tolist())})

    answers = problem.reduced.solve(q, qd, rows, (), judge=judge)
    assert sorted(told) == np.flatnonzero(answers.answered).tolist()
    assert answers.answered.mean() > 0.7
    for k, (checks, n) in told.items():
        twin = problem.checks(q[k], qd[k], rows[k])
        assert checks.names == twin.names
        np.testing.assert_array_equal(checks.rank[n], twin.rank[0])
        scale = 1e-7 * twin.chi_square[0] + 1e-9
        np.testing.assert_allclose(checks.drop[n], twin.drop[0], rtol=1e-6, atol=scale)
        np.testing.assert_allclose(checks.residuals[n], twin.residuals[0], rtol=1e-4, atol=1e-4)
        found, expected = checks.suspects(n), twin.suspects(0)
        assert [s.sensor for s in found] == [s.sensor for s in expected]
        assert [s.tied for s in found] == [s.tied for s in expected]


def test_suspects_of_a_batch_take_no_posterior_each(humanoid, monkeypatch) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    q, qd, y = (np.tile(x, (8, 1)) for x in lying(problem, 9, 0.0))
    e = problem.solve_batch(q, qd, y)
    monkeypatch.setattr(Estimation, "checks", None)
    found = e.suspects
    assert len(found) == 72 and sum(map(bool, found)) > 60
    share = e.suspicion
    for k in (k for k in range(72) if found[k]):
        assert share[found[k][0].sensor][k] == max(x[k] for x in share.values())  # type: ignore[index, union-attr]


def test_residuals_of_a_batch_take_no_dense_system_each(monkeypatch) -> None:
    """The same as state by state, readings missing and one state without any."""
    problem, rng = (
        redundant_arm(sensors.Imu("imu", BODIES[-1], std=0.1)),
        np.random.default_rng(0),
    )
    states = [truth(problem, k) for k in range(70)]
    y = np.array([noisy(problem, readings(problem, s), k) for k, s in enumerate(states)])
    said = ~np.isnan(problem.layout.constants)
    y[(rng.uniform(size=y.shape) < 0.1) & ~said] = np.nan
    y[-1] = np.nan
    q, qd = np.array([s.q for s in states]), np.array([s.qd for s in states])
    single = [problem.solve(*one).residual for one in zip(q[60:], qd[60:], y[60:], strict=True)]
    e, asked, checks = problem.solve_batch(q, qd, y), [], Estimation.checks
    monkeypatch.setattr(Estimation, "checks", lambda *x: asked.append(x) or checks(*x))
    for name, found in e.residual.items():
        expected = [one[name] for one in single]
        np.testing.assert_allclose(found[60:], expected, rtol=1e-6, atol=1e-6)
    assert len(asked) < 7


# ---- the study, small ------------------------------------------------------------------------


@pytest.mark.finding("N-3", "item 1")
def test_the_culprit_is_among_the_suspects_of_random_layouts() -> None:
    found = [
        tried("exact rows" if c == "exact" else k, c, 31 + s)
        for s, (k, c) in enumerate((k, c) for k in KINDS for c in CULPRITS)
    ]
    outcomes = [one for one in found if one is not None]
    assert len(outcomes) > 12
    assert all(one.place > 0 and one.error < SAME for one in outcomes)
    assert np.mean([one.place == 1 for one in outcomes]) > 0.95
    assert table(outcomes).row_count == 4


@pytest.mark.slow
@pytest.mark.finding("L-3")
def test_a_statement_that_nothing_else_checks_is_no_suspect() -> None:
    """Rounding of how it moves the readings, beside nothing else, made it one of 23."""
    found = tried("exact rows", "exact", 394)
    assert found is not None and (found.place, found.group) == (1, 22) and found.error < SAME
