"""Estimates against truth, against a dense oracle, with a prior, exact and missing readings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import KernelBuildError, KinematicTree, LayoutError, StateError, synthetic
from dynsys.cholmod import has_cholmod
from problems import ContradictionError, Estimate, Estimation
from sensors import Layout
from tests.backends import COMPILED
from tests.problems.estimation.estimation_cases import (
    BACKENDS,
    FEET,
    SQUARE,
    dense,
    forward_dynamics,
    generous,
    moving,
    noisy,
    on_force_sensors,
    readings,
    relative,
    standing,
    truth,
    values,
)
from tests.robots import ROBOTS, robot_path, robots_folder

# ---- truth -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", SQUARE)
def test_square_layouts_recover_the_truth(humanoid: KinematicTree, layout) -> None:
    problem = Estimation(humanoid, layout(humanoid), backend="superlu")
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


@pytest.mark.slow
@pytest.mark.parametrize("layout", SQUARE[:2])
@pytest.mark.parametrize(
    "which",
    [pytest.param(17, marks=pytest.mark.trust, id="icub"), pytest.param(20, id="talos")],
)
def test_square_layouts_of_real_robots(layout, which) -> None:
    path, floating = ROBOTS[which]
    if robots_folder() is None:
        pytest.skip("needs example-robot-data")
    robot = dynsys.load(robot_path(path), floating_base=floating)
    problem = Estimation(robot, layout(robot))
    verdict = problem.verdict(search=False)
    promised = 10 * verdict.condition[3] * verdict.spread * np.finfo(float).eps
    for seed in range(3):
        state = truth(problem, seed, robot.body_names[-2:])
        y = readings(problem, state)
        e = problem.solve(state.q, state.qd, y)
        assert relative(values(problem, e), state.d) < 1e-10 and e.method == "llvm"
        e = replace(problem, backend="dense").solve(state.q, state.qd, y)
        assert relative(values(problem, e), state.d) < min(promised, 1e-7)


# ---- the dense oracle ------------------------------------------------------------------------


@pytest.mark.slow
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
    problem = Estimation(humanoid, generous(humanoid), backend="superlu")
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


@pytest.mark.slow
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
    bare = Estimation(humanoid, layout, backend="superlu").solve(state.q, state.qd, y)
    assert not bare.determined.torque["l_knee"] and np.isnan(bare.torque["l_knee"])
    assert bare.determined.qdd.array.all()
    everywhere = problems.Prior(std=dict.fromkeys(("torque", "qdd", "external_wrench"), 1e6))
    weak = dense(Estimation(humanoid, layout, everywhere), state.q, state.qd, y)
    expected = weak.d[problem.system.unknowns.columns("qdd")]
    np.testing.assert_allclose(bare.qdd.array, expected, atol=1e-6)


# ---- exact statements ------------------------------------------------------------------------


def test_exact_statements_may_repeat_each_other(humanoid) -> None:
    twice = sensors.ExternalWrench("again", "l_hand", value=0.0)
    still = sensors.Gyroscope("gyro", "chest", std=0.0)
    problem = Estimation(humanoid, generous(humanoid, twice, still), backend="superlu")
    state = moving(problem, *standing(humanoid, 6, FEET))
    e = problem.solve(state.q, state.qd, readings(problem, state))
    assert relative(values(problem, e), state.d) < 1e-10
    assert e.method == "dense"


def test_exact_statements_that_contradict_each_other_are_named(humanoid) -> None:
    wrong = sensors.ExternalWrench("pushed", "l_hand", components=("fx",), value=1.0)
    problem = Estimation(humanoid, generous(humanoid, wrong), backend="superlu")
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


@pytest.mark.finding("P-13", "item 10")
def test_numbers_and_slices_count_joints_and_bodies(humanoid) -> None:
    """``e.torque[:3]`` raised."""
    layout = forward_dynamics(humanoid)
    q, v = humanoid.random_configuration(0), np.ones(humanoid.nv)
    problem = Estimation(humanoid, layout, backend="dense")
    one = problem.solve(q, v, np.ones(layout.size))
    many = problem.solve_batch([q, q], [v, v], np.ones((2, layout.size)))
    for e in (one, many):
        np.testing.assert_array_equal(e.qdd[:2], e.qdd.array[..., :7])  # the free joint has six
        np.testing.assert_array_equal(e.torque[1::2][..., 0], e.torque[1])
        np.testing.assert_array_equal(e.torque[:], e.torque.array)
        assert e.torque[5:5].shape[-1] == 0
        np.testing.assert_array_equal(e.joint_wrench[-2:], e.joint_wrench.array[..., -2:, :])


def test_a_batch_says_in_short_what_solved_it() -> None:
    """Its repr had a method for every state."""
    robot = synthetic.chain(3)
    layout = forward_dynamics(robot)
    problem, some = Estimation(robot, layout), (np.zeros((900, 3)), np.zeros((900, 3)))
    assert repr(problem.solve_batch(*some, np.ones((900, layout.size)))).endswith(
        f"by {COMPILED})"
    )
    e = Estimate(problem, problem.posterior, 3, ("dense", "superlu", "dense"))
    assert repr(e) == "Estimate('chain3', 3 states, by dense (2), superlu (1))"


def test_an_estimate_says_what_it_leaves_open() -> None:
    """Well posed, but blind where the arm is stretched: NaN had no word beside it."""
    robot = synthetic.chain(8)
    layout = sensors.published.sie_friction(robot)
    problem, y = Estimation(robot, layout), np.zeros(layout.size)
    stretched = problem.solve(np.zeros(8), np.zeros(8), y)
    blind = stretched.undetermined("torque")["torque"]
    assert blind == tuple(n for n, x in stretched.torque.items() if np.isnan(x)) and len(blind)
    assert "link_8" in stretched.undetermined()["external_wrench"]
    assert f"; {len(blind)} of 8 torques not determined)" in repr(stretched)
    bent = problem.solve(robot.random_configuration(0), np.zeros(8), y)
    assert not any(bent.undetermined().values()) and repr(bent).endswith(f"by {COMPILED})")


# ---- missing readings: as a sensor left out, and what is still determined --------------------


@pytest.mark.parametrize("backend", [*BACKENDS, "auto", COMPILED])
@pytest.mark.finding("P-14", "item 10")
def test_the_residual_of_a_missing_exact_reading_is_missing(backend) -> None:
    """It was 0, and documented as NaN; one state, few, and many."""
    robot = synthetic.chain(3)
    exact = sensors.JointTorque("exact", robot.joint_names[1], std=0.0)
    accelerations = sensors.all_joint_accelerations(robot, std=0.1)
    untouched = sensors.zero_external_wrench_except(robot)
    layout = Layout(robot, [*accelerations, *untouched, exact])
    problem, at_rest = Estimation(robot, layout, backend=backend), np.zeros(3)
    for value, expected in ((0.5, 0.0), (np.nan, np.nan)):
        y = layout.pack(dict.fromkeys((s.name for s in accelerations), 0.0) | {"exact": value})
        e = problem.solve(at_rest, at_rest, y)
        np.testing.assert_array_equal(e.residual["exact"], [expected])
        for n in (3, 300) if backend == "auto" else (3,):
            rows = np.zeros((n, 3)), np.zeros((n, 3)), np.tile(y, (n, 1))
            e = problem.solve_batch(*rows, outputs=("torque", "residual"))
            np.testing.assert_array_equal(e.residual["exact"], np.full((n, 1), expected))


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
    problem = Estimation(humanoid, generous(humanoid), backend="superlu")
    state = moving(problem, *standing(humanoid, 2, FEET))
    y = readings(problem, state)
    problem.solve(state.q, state.qd, y)
    factors = problem._reference._factors
    problem.solve(state.q, state.qd, y, active={"l_plate": False})
    assert problem._reference._factors is factors


def test_what_too_few_readings_determine_is_exact(humanoid) -> None:
    """Without the right foot's sensor its wrench is open, and all that depends on it."""
    layout = on_force_sensors(humanoid)
    problem = Estimation(humanoid, layout, backend="superlu")
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
