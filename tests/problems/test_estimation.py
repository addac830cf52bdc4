"""Estimates against truth, against a dense oracle, against statistics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest

import dynsys
import problems
import sensors
from dynsys.errors import KernelBuildError, LayoutError, StateError
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from problems import ContradictionError, Estimation, calibrate_offsets
from problems.estimate import Estimate
from problems.least_squares_sparse import has_cholmod
from problems.posterior import AbstractPosterior
from sensors import AbstractSensor, Layout
from tests.problems.estimation_cases import dense, moving, readings, standing, truth, values
from tests.robots import ROBOTS, robot_path, robots_folder

BACKENDS = ["dense", "superlu"] + (["cholmod"] if has_cholmod() else [])
FEET = ("l_foot", "r_foot")


def inverse_dynamics(robot: KinematicTree) -> Layout:
    return Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *(sensors.ExternalWrench(f"{n}/wrench", n, std=1.0) for n in robot.body_names),
        ],
    )


def forward_dynamics(robot: KinematicTree) -> Layout:
    return Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *(sensors.ExternalWrench(f"{n}/wrench", n, std=1.0) for n in robot.body_names),
        ],
    )


def on_force_sensors(robot: KinematicTree) -> Layout:
    """Accelerations, and the feet's wrenches through sensors inside the legs: square."""
    return Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            sensors.ForceTorque("l_ft", "l_foot_ft_fixed", std=(0.02, 0.5)),
            sensors.ForceTorque("r_ft", "r_ankle_roll", std=(0.02, 0.5)),
            *sensors.zero_external_wrench_except(robot, FEET),
        ],
    )


def generous(robot: KinematicTree, *more: AbstractSensor) -> Layout:
    """Far more than needed: noise of many sizes, exact rows, correlated sensors."""
    return Layout(
        robot,
        [
            *on_force_sensors(robot).sensors,
            *sensors.all_joint_torques(robot, std=0.5, exclude=("root",)),
            sensors.JointTorque("root/torque", "root", value=0.0, std=0.1),
            sensors.Imu("chest", "chest_imu", angular=True, std=(0.05, 0.01, 0.2)),
            sensors.Accelerometer("head", "camera", std=0.05),
            sensors.LoadCellPlate("l_plate", "l_sole", std=(0.1, 2.0)),
            sensors.ExternalWrench("r_plate", "r_sole", std=(0.1, 2.0)),
            *more,
        ],
        correlations=[("chest", "head", 1e-3 * np.eye(9, 3))],
    )


SQUARE = [inverse_dynamics, forward_dynamics, on_force_sensors]


def relative(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def noisy(problem: Estimation, y: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    C = problem.layout.covariance().toarray()
    values, axes = np.linalg.eigh(C)
    return np.asarray(y + axes @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(y))))


# ---- truth -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", SQUARE)
def test_square_layouts_recover_the_truth(humanoid: KinematicTree, layout) -> None:
    problem = Estimation(humanoid, layout(humanoid))
    for seed in range(5):
        state = truth(problem, seed, FEET)
        e = problem.solve(state.q, state.qd, readings(problem, state))
        assert relative(values(problem, e), state.d) < 1e-10
        assert e.method == "superlu"
        assert e.chi_square == 0 and e.degrees_of_freedom == 0 and e.p_value == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_readings_than_needed_recover_the_truth(humanoid, backend) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend=backend)
    for seed in range(3):
        state = moving(problem, *standing(humanoid, seed, FEET))
        e = problem.solve(state.q, state.qd, readings(problem, state))
        assert relative(values(problem, e), state.d) < 1e-10
        assert e.method == backend
        assert e.chi_square < 1e-12


@pytest.mark.parametrize("layout", SQUARE[:2])
@pytest.mark.parametrize("which", [17, 20], ids=["icub", "talos"])
def test_square_layouts_of_real_robots(layout, which) -> None:
    path, floating = ROBOTS[which]
    if robots_folder() is None:
        pytest.skip("needs example-robot-data")
    robot = dynsys.load(robot_path(path), floating_base=floating)
    problem = Estimation(robot, layout(robot))
    for seed in range(3):
        state = truth(problem, seed, robot.body_names[-2:])
        y = readings(problem, state)
        e = problem.solve(state.q, state.qd, y)
        assert relative(values(problem, e), state.d) < 1e-10


# ---- the dense oracle ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_noisy_readings_give_the_dense_minimiser(humanoid, backend) -> None:
    problem = Estimation(humanoid, generous(humanoid), backend=backend)
    for seed in range(2):
        state = moving(problem, *standing(humanoid, seed, FEET))
        y = noisy(problem, readings(problem, state), seed)
        e = problem.solve(state.q, state.qd, y)
        oracle = dense(problem, state.q, state.qd, y)
        assert relative(values(problem, e), oracle.d) < 1e-9
        assert e.chi_square == pytest.approx(oracle.chi_square, rel=1e-8)
        for kind in ("torque", "joint_wrench", "external_wrench", "qdd", "acceleration"):
            columns = problem.system.unknowns.columns(kind)
            variance = np.diag(oracle.covariance)[columns]
            assert np.abs(e.std[kind].array ** 2 - variance).max() < 1e-8 * variance.max()


@pytest.mark.parametrize("layout", SQUARE)
@pytest.mark.parametrize("backend", ["dense", "superlu"])
def test_covariance_of_square_layouts(humanoid, layout, backend) -> None:
    problem = Estimation(humanoid, layout(humanoid), backend=backend)
    state = truth(problem, 0, FEET)
    y = readings(problem, state)
    std = problem.solve(state.q, state.qd, y, uncertainty="torque").std.torque.array
    oracle = dense(problem, state.q, state.qd, y)
    columns = problem.system.unknowns.columns("torque")
    expected = np.sqrt(np.maximum(np.diag(oracle.covariance)[columns], 0))
    assert np.abs(std - expected).max() < 1e-8 * expected.max()


def test_values_and_deviations_at_frames(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    state = moving(problem, *standing(humanoid, 4, FEET))
    y = noisy(problem, readings(problem, state), 4)
    e = problem.solve(state.q, state.qd, y)
    oracle = dense(problem, state.q, state.qd, y)
    frame = humanoid.frame("l_sole")
    columns = problem.system.unknowns.block("external_wrench", frame.body).columns
    M = np.linalg.inv(frame.transform.matrix()).T
    np.testing.assert_allclose(e.external_wrench["l_sole"], M @ oracle.d[columns], atol=1e-7)
    C = M @ oracle.covariance[np.ix_(columns, columns)] @ M.T
    np.testing.assert_allclose(e.std.external_wrench["l_sole"], np.sqrt(np.diag(C)), rtol=1e-7)
    assert e.torque["l_knee"] == e.torque.array[humanoid.v_slice("l_knee")][0]
    assert e.qdd["root"].shape == (6,)
    assert set(e.torque) <= set(humanoid.joint_names)


# ---- prior -----------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_prior_gives_the_maximum_a_posteriori(humanoid, backend) -> None:
    layout = Layout(humanoid, sensors.catalogue.load("nao", humanoid).sensors)
    prior = problems.Prior(
        std={"external_wrench": {"l_foot": 50.0, "r_foot": 50.0}, "torque": {"l_knee": 20.0}},
        mean={"external_wrench": {"l_foot": [0, 0, 0, 0, 0, 100.0]}},
    )
    problem = Estimation(humanoid, layout, prior, backend)
    state = moving(problem, *standing(humanoid, 1, FEET))
    y = noisy(problem, readings(problem, state), 1)
    e = problem.solve(state.q, state.qd, y)
    assert e.method == backend
    oracle = dense(problem, state.q, state.qd, y)
    assert relative(values(problem, e), oracle.d) < 1e-9
    assert e.determined.torque.array.all()
    bare = Estimation(humanoid, layout).solve(state.q, state.qd, y)
    assert not bare.determined.torque["l_knee"] and np.isnan(bare.torque["l_knee"])
    np.testing.assert_allclose(bare.qdd.array, dense_determined_qdd(bare), rtol=1e-12)


def dense_determined_qdd(e: Estimate) -> Array:
    assert e.determined.qdd.array.all()
    return e.qdd.array


# ---- what is missing -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_missing_reading_is_a_sensor_left_out(humanoid, backend) -> None:
    layout = generous(humanoid)
    problem = Estimation(humanoid, layout, backend=backend)
    state = moving(problem, *standing(humanoid, 2, FEET))
    y = layout.unpack(noisy(problem, readings(problem, state), 2))
    gone = ("head", "l_plate", "l_knee/torque")
    rest = Layout(humanoid, [s for s in layout.sensors if s.name not in gone])
    expected = Estimation(humanoid, rest, backend="dense").solve(
        state.q, state.qd, {name: y[name] for name in rest.names}
    )
    holes = y | {name: np.full_like(y[name], np.nan) for name in gone}
    by_nan = problem.solve(state.q, state.qd, holes)
    by_switch = problem.solve(state.q, state.qd, y, active=dict.fromkeys(gone, False))
    for e in (by_nan, by_switch):
        assert e.method == backend
        assert relative(values(problem, e), values(problem, expected)) < 1e-9
        assert e.chi_square == pytest.approx(expected.chi_square, rel=1e-8)
        assert e.degrees_of_freedom == expected.degrees_of_freedom
        assert np.isnan(e.residual["head"]).all()
    expected_std = expected.std.torque.array
    np.testing.assert_allclose(by_nan.std.torque.array, expected_std, rtol=1e-8)


def test_one_analysis_serves_all_missing_readings(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    state = moving(problem, *standing(humanoid, 2, FEET))
    y = readings(problem, state)
    problem.solve(state.q, state.qd, y)
    factors, _ = problem._reference._kkt
    problem.solve(state.q, state.qd, y, active={"l_plate": False})
    assert problem._reference._kkt[0] is factors


def test_what_too_few_readings_determine_is_exact(humanoid) -> None:
    """Without the right foot's sensor its wrench is open, and all that depends on it."""
    layout = on_force_sensors(humanoid)
    problem = Estimation(humanoid, layout)
    state = truth(problem, 3, FEET)
    y = layout.unpack(readings(problem, state))
    y["r_ft"] = np.full(6, np.nan)
    e = problem.solve(state.q, state.qd, y)
    found = values(problem, e)
    known = ~np.isnan(found)
    assert np.abs(found - state.d)[known].max() < 1e-10 * np.abs(state.d).max()
    assert e.determined.torque["l_knee"] and not e.determined.torque["r_knee"]
    assert np.isnan(e.torque["r_knee"]) and np.isnan(e.std.torque["r_knee"])
    assert e.determined.acceleration.array.all()
    assert not e.determined["external_wrench"]["r_foot"].any()


def test_parts_of_a_wrench_are_determined_in_the_frame_that_measures_them(humanoid) -> None:
    problem = Estimation(humanoid, sensors.catalogue.load("nao", humanoid))
    state = moving(problem, *standing(humanoid, 5, FEET))
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert e.determined.external_wrench["l_sole"].tolist() == [True, True] + [False] * 3 + [
        True
    ]
    frame = humanoid.frame("l_sole")
    columns = problem.system.unknowns.block("external_wrench", frame.body).columns
    true = np.linalg.inv(frame.transform.matrix()).T @ state.d[columns]
    np.testing.assert_allclose(
        e.external_wrench["l_sole"][[0, 1, 5]], true[[0, 1, 5]], rtol=1e-9
    )


# ---- exact statements ------------------------------------------------------------------------


def test_exact_statements_may_repeat_each_other(humanoid) -> None:
    twice = sensors.ExternalWrench("again", "l_hand", value=0.0)
    still = sensors.Gyroscope("gyro", "chest", std=0.0)
    problem = Estimation(humanoid, generous(humanoid, twice, still))
    state = moving(problem, *standing(humanoid, 6, FEET))
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert relative(values(problem, e), state.d) < 1e-10
    assert e.method == "dense"


def test_exact_statements_that_contradict_each_other_are_named(humanoid) -> None:
    wrong = sensors.ExternalWrench("pushed", "l_hand", components=("fx",), value=1.0)
    problem = Estimation(humanoid, generous(humanoid, wrong))
    state = moving(problem, *standing(humanoid, 6, FEET))
    y = readings(problem, state)
    y[problem.layout.slice("pushed")] = 1.0
    with pytest.raises(ContradictionError, match=r"pushed\.fx"):
        problem.solve(state.q, state.qd, y)
    with pytest.raises(StateError, match=r"^state 1: .*pushed\.fx"):
        good = readings(problem, state)
        problem.solve_batch([state.q] * 2, [state.qd] * 2, np.array([good, y]))


def test_a_singular_covariance_makes_a_combination_exact() -> None:
    robot = synthetic.chain(3)
    ones = 0.04 * np.ones((6, 6))
    layout = Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.all_joint_torques(robot, std=0.5),
            *(sensors.ExternalWrench(f"{n}/w", n, covariance=ones) for n in robot.body_names),
        ],
    )
    problem = Estimation(robot, layout, backend="dense")
    state = truth(problem, 0, robot.body_names)
    y = readings(problem, state)
    y[problem.layout.slice("link_3/w")] += 0.3  # all six alike: possible noise
    e = problem.solve(state.q, state.qd, y)
    change = (
        e.external_wrench["link_3"]
        - state.d[problem.system.unknowns.columns("external_wrench")[2]]
    )
    np.testing.assert_allclose(change, change[0], atol=1e-9)


# ---- statistics ------------------------------------------------------------------------------


def small() -> Estimation:
    robot = synthetic.chain(3)
    layout = Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.all_joint_torques(robot, std=0.5),
            sensors.Accelerometer("tip", "link_3", std=0.2),
            sensors.ExternalWrench("push", "link_3", std=(0.1, 1.0)),
            *sensors.zero_external_wrench_except(robot, ["link_3"]),
        ],
        correlations=[("link_1/torque", "link_2/torque", [[0.1]])],
    )
    return Estimation(robot, layout)


def test_scatter_of_noisy_solves_is_the_stated_uncertainty() -> None:
    problem, n = small(), 3000
    state = truth(problem, 0, ["link_3"])
    y = readings(problem, state)
    rng = np.random.default_rng(1)
    factor = np.linalg.cholesky(problem.layout.covariance().toarray() + 1e-300 * np.eye(len(y)))
    torques, wrenches, chi_squares = np.empty((n, 3)), np.empty((n, 6)), np.empty(n)
    for k in range(n):
        e = problem.solve(state.q, state.qd, y + factor @ rng.normal(size=len(y)))
        torques[k], wrenches[k] = e.torque.array, e.external_wrench["link_3"]
        chi_squares[k] = e.chi_square
    for found, std, kind in (
        (torques, e.std.torque.array, "torque"),
        (wrenches, e.std.external_wrench["link_3"], "external_wrench"),
    ):
        columns = problem.system.unknowns.columns(kind)
        mean = state.d[columns if kind == "torque" else columns[2]]
        assert np.abs(found.std(axis=0) / std - 1).max() < 4.5 / np.sqrt(2 * n)
        assert np.abs((found.mean(axis=0) - mean) / std).max() < 4.5 / np.sqrt(n)
    assert e.degrees_of_freedom == 6
    assert kstest(chi_squares, chi2(6).cdf).pvalue > 1e-3


def test_residuals_are_unit_normal() -> None:
    problem = small()
    state = truth(problem, 0, ["link_3"])
    y = readings(problem, state)
    found = np.array(
        [
            np.concatenate(
                list(problem.solve(state.q, state.qd, noisy(problem, y, k)).residual.values())
            )
            for k in range(400)
        ]
    )
    checked = problem.layout.std > 0
    assert np.abs(found[:, checked].std(axis=0) - 1).max() < 5 / np.sqrt(800)
    assert (found[:, ~checked] == 0).all()


def test_the_sensor_that_disagrees_is_named(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    state = moving(problem, *standing(humanoid, 7, FEET))
    y = noisy(problem, readings(problem, state), 7)
    good = problem.solve(state.q, state.qd, y)
    assert good.p_value > 0.01 and good.suspects == []
    y[problem.layout.slice("l_knee/torque")] += 8.0
    bad = problem.solve(state.q, state.qd, y)
    assert bad.p_value < 1e-6
    assert bad.suspects[0].sensor == "l_knee/torque"
    assert abs(bad.residual["l_knee/torque"][0]) > 5
    # what a suspect explains is what the chi-square loses without it
    y[problem.layout.slice("l_knee/torque")] = np.nan
    without = problem.solve(state.q, state.qd, y)
    assert bad.chi_square - without.chi_square == pytest.approx(
        bad.suspects[0].explains, rel=1e-6
    )


# ---- batches ---------------------------------------------------------------------------------


def test_a_batch_is_its_states(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    states = [moving(problem, *standing(humanoid, k, FEET)) for k in range(3)]
    y = np.array([noisy(problem, readings(problem, s), k) for k, s in enumerate(states)])
    on = np.array([True, False, True])
    q, qd = np.array([s.q for s in states]), np.array([s.qd for s in states])
    e = problem.solve_batch(
        q, qd, problem.layout.unpack(y), uncertainty=["torque"], active={"l_plate": on}
    )
    assert e.torque["l_knee"].shape == (3,) and e.external_wrench["l_sole"].shape == (3, 6)
    for k, state in enumerate(states):
        one = problem.solve(state.q, state.qd, y[k], active={"l_plate": bool(on[k])})
        np.testing.assert_array_equal(e.torque.array[k], one.torque.array)
        np.testing.assert_allclose(e.std.torque.array[k], one.std.torque.array, rtol=1e-12)
        np.testing.assert_allclose(e.std.qdd["l_knee"][k], one.std.qdd["l_knee"], rtol=1e-9)
        assert e.chi_square[k] == one.chi_square and e.p_value[k] == one.p_value
        for name, residual in e.residual.items():
            np.testing.assert_allclose(residual[k], one.residual[name], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", [generous, on_force_sensors])
def test_answers_do_not_depend_on_what_was_solved_before(humanoid, layout, backend) -> None:
    problem = Estimation(humanoid, layout(humanoid), backend=backend)
    states = [moving(problem, *standing(humanoid, k, FEET)) for k in range(3)]
    alone = Estimation(humanoid, layout(humanoid), backend=backend)
    last = states[-1]
    found = [problem.solve(s.q, s.qd, readings(problem, s)) for s in states][-1]
    again = alone.solve(last.q, last.qd, readings(alone, last))
    for kind in ("torque", "external_wrench"):
        np.testing.assert_array_equal(found.std[kind].array, again.std[kind].array)
        np.testing.assert_array_equal(getattr(found, kind).array, getattr(again, kind).array)


def test_an_estimate_stays_right_after_others_are_made(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    states = [moving(problem, *standing(humanoid, k, FEET)) for k in range(2)]
    first = problem.solve(states[0].q, states[0].qd, readings(problem, states[0]))
    problem.solve(states[1].q, states[1].qd, readings(problem, states[1]))
    again = problem.solve(states[0].q, states[0].qd, readings(problem, states[0]))
    np.testing.assert_allclose(first.std.torque.array, again.std.torque.array, rtol=1e-10)


def test_quantities_from_elsewhere_leave_the_rest_to_the_posterior(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    state = moving(problem, *standing(humanoid, 0, FEET))
    rows = problem.measured.pack(readings(problem, state), None, None)
    solved: list[int] = []

    def posterior_of(k: int) -> AbstractPosterior:
        solved.append(k)
        return problem.posterior(state.q, state.qd, rows)

    e = Estimate(problem, posterior_of, None, "kernel").keep({"torque": np.arange(35.0)})
    assert e.torque["root"].tolist() == [0, 1, 2, 3, 4, 5] and not solved
    assert e.degrees_of_freedom > 0 and e.p_value == pytest.approx(1)
    np.testing.assert_allclose(e.qdd.array, state.d[problem.system.unknowns.columns("qdd")])
    assert solved == [0]


# ---- calibration -----------------------------------------------------------------------------


def test_offsets_are_found_from_a_log() -> None:
    problem, n = small(), 60
    rng = np.random.default_rng(2)
    true = {
        "link_2/torque": np.array([0.8]),
        "push": np.array([0.1, -0.2, 0.1, 2.0, 1.0, -3.0]),
    }
    q, qd, y = [], [], []
    for k in range(n):
        state = truth(problem, k, ["link_3"])
        sample = noisy(problem, readings(problem, state), 100 + k)
        for name, offset in true.items():
            sample[problem.layout.slice(name)] += offset
        q.append(state.q)
        qd.append(state.qd)
        y.append(sample)
    y[5][problem.layout.slice("push")] = np.nan
    y[int(rng.integers(n))][problem.layout.slice("tip")] = np.nan
    found = calibrate_offsets(problem, q, qd, np.array(y), ["link_2/torque"])
    one = calibrate_offsets(problem, q, qd, np.array(y), ["push", "link_2/torque"])
    assert found.samples == n
    assert not found.unobservable
    for name, offset in true.items():
        error = np.abs(one.offset[name] - offset)[one.observable[name]]
        assert (error < 4.5 * one.std[name][one.observable[name]]).all()


def test_offsets_that_cannot_be_told_are_named(humanoid) -> None:
    problem = Estimation(
        humanoid, on_force_sensors(humanoid)
    )  # square: nothing checks anything
    state = truth(problem, 0, FEET)
    y = readings(problem, state)
    found = calibrate_offsets(problem, [state.q], [state.qd], y[None], ["l_ft"])
    assert not found.observable["l_ft"].any() and np.isnan(found.offset["l_ft"]).all()
    assert len(found.unobservable) == 6 and "l_ft.fz" in " ".join(found.unobservable)
    assert "not observable" in str(found)
    with pytest.raises(LayoutError, match="without noise"):
        calibrate_offsets(problem, [state.q], [state.qd], y[None], ["l_hand/no_contact"])


def test_offset_of_the_difference_of_two_sensors() -> None:
    """Two torque sensors on one joint: only the difference of their offsets can be told."""
    robot = synthetic.chain(2)
    layout = Layout(
        robot,
        [
            *sensors.zero_external_wrench_except(robot),
            sensors.JointAcceleration("a", "link_1", value=0.0),
            sensors.JointAcceleration("b", "link_2", std=1.0),
            sensors.JointTorque("left", "link_2", std=0.1),
            sensors.JointTorque("right", "link_2", std=0.1),
        ],
    )
    problem = Estimation(robot, layout)
    state = truth(problem, 0)
    y = np.array([readings(problem, state)])
    y[0, layout.slice("a")] = 0.0
    found = calibrate_offsets(problem, [state.q], [state.qd], y, ["left", "right", "b"])
    assert not found.observable["left"][0]
    assert len(found.unobservable) == 1


# ---- wrong input -----------------------------------------------------------------------------


def test_wrong_input_is_named(humanoid) -> None:
    problem = Estimation(humanoid, generous(humanoid))
    state = moving(problem, *standing(humanoid, 0, FEET))
    y = readings(problem, state)
    with pytest.raises(LayoutError, match="shape"):
        problem.solve(state.q, state.qd, y[:-1])
    with pytest.raises(LayoutError, match=r"l_knee/torque"):
        problem.solve(state.q, state.qd, {"l_knee/torqe": 1.0})
    with pytest.raises(LayoutError, match="no reading of sensor 'head'"):
        problem.solve(
            state.q,
            state.qd,
            {k: v for k, v in problem.layout.unpack(y).items() if k != "head"},
        )
    with pytest.raises(StateError, match=r"l_plate\.fz.*infinite"):
        wrong = y.copy()
        wrong[problem.layout.slice("l_plate")] = np.inf
        wrong[problem.layout.slice("l_plate").start] = wrong[
            problem.layout.slice("l_plate").start + 1
        ] = 0
        problem.solve(state.q, state.qd, wrong)
    with pytest.raises(StateError, match="not numeric"):
        problem.solve(state.q, state.qd, ["a"] * len(y))
    with pytest.raises(LayoutError, match="no quantity 'torques'"):
        problem.solve(state.q, state.qd, y, uncertainty=["torques"])  # type: ignore[list-item]
    with pytest.raises(KernelBuildError, match="no backend"):
        Estimation(humanoid, generous(humanoid), backend="lapack")  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"prior.*external_wrench"):
        Estimation(humanoid, generous(humanoid), {"external_wrenches": 1.0})
    with pytest.raises(LayoutError, match="must be positive"):
        Estimation(humanoid, generous(humanoid), {"qdd": 0.0})
    with pytest.raises(LayoutError, match="no sensor"):
        problem.solve(state.q, state.qd, y, active={"l_plat": False})
    for on in ("off", np.nan, [True, False]):
        with pytest.raises(LayoutError, match="active: sensor 'l_plate' takes True or False"):
            problem.solve(state.q, state.qd, y, active={"l_plate": on})
    with pytest.raises(LayoutError, match="active must map names"):
        problem.solve(state.q, state.qd, y, active=["l_plate"])  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"needs a robot and its sensors\.Layout"):
        Estimation(humanoid, [sensors.Imu("head", "head")])  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="prior must be"):
        Estimation(humanoid, generous(humanoid), 1.0)  # type: ignore[arg-type]
    if not has_cholmod():
        with pytest.raises(KernelBuildError, match="CHOLMOD is not installed"):
            Estimation(humanoid, generous(humanoid), backend="cholmod")


def test_means_of_a_prior_that_go_with_no_deviation_are_named(humanoid) -> None:
    layout = generous(humanoid)
    with pytest.raises(LayoutError, match=r"no torque of 'l_kne'.*did you mean 'l_knee'"):
        Estimation(humanoid, layout, problems.Prior({"torque": 1.0}, {"torque": {"l_kne": 1}}))
    with pytest.raises(LayoutError, match="torque of joint 'l_knee' has a mean but no std"):
        std, mean = {"torque": {"r_knee": 1.0}}, {"torque": {"l_knee": 1.0}}
        Estimation(humanoid, layout, problems.Prior(std, mean))


def test_a_batch_of_no_states_has_the_shapes_of_one() -> None:
    robot = synthetic.chain(3)
    layout = forward_dynamics(robot)
    none = np.zeros((0, 3))
    e = Estimation(robot, layout).solve_batch(none, none, np.zeros((0, layout.size)))
    assert e.torque.array.shape == (*e.torque["link_1"].shape, 3) == (0, 3)
    assert e.external_wrench["link_2"].shape == e.std.external_wrench["link_2"].shape == (0, 6)


def test_a_quantity_is_a_mapping_of_names() -> None:
    robot = synthetic.chain(3)
    layout = forward_dynamics(robot)
    e = Estimation(robot, layout).solve(np.zeros(3), np.zeros(3), np.ones(layout.size))
    assert dict(e.torque) == dict(e.torque.items()) == {n: e.torque[n] for n in e.torque}
    assert list(e.external_wrench.keys()) == list(robot.body_names)
