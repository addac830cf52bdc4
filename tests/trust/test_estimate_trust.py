"""Trust in estimates: errors are covered by their bounds, open quantities claim none."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import StateError
from dynsys.cholmod import has_cholmod
from dynsys.types import Array
from experiments.trust.edges_estimation import (
    ESTIMATION_FAMILIES,
    EstimationEdge,
    judge_estimation_edge,
)
from experiments.trust.edges_oracle import exact_unknowns
from problems import Estimate, Estimation
from problems.measured.measured_system import QUANTITIES
from tests.robots import CHAIN

SAMPLE = {
    "feet": (
        "sie_friction, feet at 0.1 rad",
        "sie_friction, feet at 1e-09 rad",
        "sie_friction, feet at 0 rad",
        "sie_friction_fy, feet at 1e-06 rad",
        "sie, feet at 0.001 rad",
    ),
    "aligned": (
        "gimbal at 0, torques",
        "gimbal at 1e-09, torques",
        "gimbal at 1e-07, torques",
        "gimbal at 1e-05, torques",
        "gimbal at 0.001, torques and one acceleration",
    ),
    "noise": ("noise by 1e-06", "noise by 1e+06, q = 0"),
    "missing": ("6 readings missing", "without body_4/torque", "without any sensor"),
}
CASES = [
    (family, edge)
    for family, names in SAMPLE.items()
    for edge in ESTIMATION_FAMILIES[family]()
    if edge.name in names
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "edge"), CASES, ids=[edge.name for _, edge in CASES])
def test_estimation_edge_is_covered_or_open(family: str, edge: EstimationEdge) -> None:
    verdict = judge_estimation_edge(family, edge)
    assert verdict.covered, verdict


def test_every_name_of_the_sample_is_a_case() -> None:
    assert len(CASES) == sum(len(names) for names in SAMPLE.values())


def case(family: str, name: str) -> EstimationEdge:
    (found,) = (edge for edge in ESTIMATION_FAMILIES[family]() if edge.name == name)
    return found


def solved(edge: EstimationEdge, backend: str = "auto") -> Estimate:
    problem = problems.Estimation(edge.problem.robot, edge.problem.layout, None, backend)  # type: ignore[arg-type]
    return problem.solve(edge.q, edge.qd, edge.y, active=edge.active)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cholmod", "superlu", "dense", "llvm"])
def test_every_backend_is_good_to_rounding(backend: str) -> None:
    if backend == "cholmod" and not has_cholmod():
        pytest.skip("needs scikit-sparse")
    trust = solved(case("missing", "without body_4/torque"), backend).trust()
    assert 0 < trust.relative_error < 1e-12, str(trust)


@pytest.mark.skipif(not has_cholmod(), reason="needs scikit-sparse")
@pytest.mark.finding("J-1")
def test_cholmod_is_refined_until_light_parts_are_right() -> None:
    for name in ("noise by 1e-06", "noise by 0.01"):
        estimate = solved(case("noise", name), "cholmod")
        assert estimate.method == "cholmod"
        trust = estimate.trust()
        assert float(trust.relative_error) < 1e-11 and float(trust.backward_error) < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "superlu", "dense", "llvm"])
@pytest.mark.filterwarnings("ignore:.*(overflow|invalid value).*:RuntimeWarning")
@pytest.mark.finding("J-4")
def test_readings_and_speeds_that_overflow_are_an_error_not_open(backend: str) -> None:
    edge = case("noise", "readings by 1e+307")
    with pytest.raises(StateError, match="overflow"):
        solved(edge, backend)
    with pytest.raises(StateError, match="overflow"):
        solved(case("noise", "estimation, velocities by 1e+160"), backend)


def test_a_wrong_answer_is_told() -> None:
    edge = case("noise", "noise by 100")
    right = solved(edge)
    wrong = solved(edge).keep({"torque": right.torque.array + 1e-3})
    error = wrong.trust().torque_error
    assert (error >= 1e-3 * (1 - 1e-9)).all() and (error < 1.1e-3).all()
    moved = solved(edge).keep({"qdd": right.qdd.array + 1e-3})
    assert float(moved.trust().backward_error) > 1e6 * float(right.trust().backward_error)


def test_open_quantities_claim_no_bound() -> None:
    edge = case("feet", "sie, feet at 0.1 rad")
    estimate = solved(edge)
    trust = estimate.trust()
    for kind in QUANTITIES:
        is_open = np.logical_not(estimate.determined[kind].array)
        np.testing.assert_array_equal(np.isnan(trust.error[kind]), is_open)
    assert np.isnan(trust.torque_error).any() and np.isfinite(trust.qdd_error).all()
    assert float(trust.relative_error) < 1e-12


@pytest.mark.finding("J-2")
def test_what_is_singular_to_rounding_has_no_bound() -> None:
    edge = case("aligned", "gimbal at 1e-07, torques")
    estimate = solved(edge)
    trust = estimate.trust()
    outer = edge.problem.robot.v_slice("outer")
    assert np.isinf(trust.torque_error[outer]).all() and np.isinf(trust.relative_error)


def batch() -> tuple[Estimate, EstimationEdge, Array, Array]:
    edge = case("noise", "noise by 100")
    q = np.array([edge.q, np.zeros(6), -edge.q])
    y = np.array([edge.y, edge.y, edge.y])
    y[1, 0] = np.nan
    return edge.problem.solve_batch(q, np.zeros((3, 6)), y), edge, q, y


def test_trust_of_a_batch() -> None:
    estimate, edge, q, y = batch()
    trust = estimate.trust()
    assert trust.torque_error.shape == (3, 6) and np.shape(trust.condition) == (3,)
    assert trust.error["joint_wrench"].shape == (3, 6, 6)
    one = edge.problem.solve(q[1], np.zeros(6), y[1]).trust()
    np.testing.assert_allclose(trust.torque_error[1], one.torque_error, rtol=0.9)
    assert str(one).startswith("relative error below")


def test_trust_with_a_prior_and_a_floating_base() -> None:
    robot = dynsys.synthetic.random_tree(3, 1, ["free", "revolute", "spherical"])
    torques = sensors.all_joint_torques(robot, std=0.1)
    layout = sensors.Layout(robot, torques)
    problem = problems.Estimation(robot, layout, {"external_wrench": 10.0})
    q, qd = robot.random_configuration(0), np.ones(robot.nv)
    y = np.ones(layout.size)
    estimate = problem.solve(q, qd, y)
    trust = estimate.trust()
    rows = problem.measured.pack(y, None, None)
    exact = exact_unknowns(problem, q, qd, rows).astype(float)
    torque = exact[problem.system.unknowns.columns("torque")]
    assert (np.abs(estimate.torque.array - torque) <= trust.torque_error).all()
    assert float(trust.relative_error) < 1e-9


def test_an_estimate_without_states_says_so() -> None:
    edge = case("noise", "noise by 100")
    posterior = edge.problem.posterior(
        edge.q, edge.qd, edge.problem.measured.pack(edge.y, None, None)
    )
    bare = Estimate.of_one(edge.problem, posterior)
    with pytest.raises(StateError, match="without its states"):
        bare.trust()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "llvm"])
@pytest.mark.finding("J-3")
def test_estimates_travel_by_pickle(backend: str) -> None:
    edge = case("noise", "noise by 100")
    estimate = solved(edge, backend)
    copy = pickle.loads(pickle.dumps(estimate))
    assert copy.method == estimate.method and copy.shape == ()
    for kind in QUANTITIES:
        np.testing.assert_array_equal(copy.values[kind].array, estimate.values[kind].array)
    assert float(copy.trust().relative_error) < 1e-12


def test_what_is_asked_after_the_journey_is_found_again() -> None:
    estimate = solved(case("noise", "noise by 100"))
    _ = estimate.std.torque.array
    copy = pickle.loads(pickle.dumps(estimate))
    for kind in QUANTITIES:
        found, expected = copy.std[kind].array, estimate.std[kind].array
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert copy.chi_square == estimate.chi_square and copy.p_value == estimate.p_value
    residual = estimate.residual["base_wrench"]
    np.testing.assert_allclose(copy.residual["base_wrench"], residual, rtol=1e-6)


def test_batches_and_open_estimates_travel_by_pickle() -> None:
    estimate = batch()[0]
    copy = pickle.loads(pickle.dumps(estimate))
    np.testing.assert_array_equal(copy.torque.array, estimate.torque.array)
    np.testing.assert_array_equal(copy.degrees_of_freedom, estimate.degrees_of_freedom)
    partly = solved(case("feet", "sie, feet at 0.1 rad"))
    copy = pickle.loads(pickle.dumps(partly))
    np.testing.assert_array_equal(copy.torque.array, partly.torque.array)
    np.testing.assert_array_equal(copy.determined.torque.array, partly.determined.torque.array)


def test_large_robots_have_bounds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = solved(case("noise", "noise by 100"))
    small = estimate.trust()
    monkeypatch.setattr("problems.estimation.trust.LARGEST_EXTENDED", 3)
    large = estimate.trust()
    assert (large.torque_error >= small.torque_error).all()
    np.testing.assert_allclose(large.torque_error, small.torque_error, rtol=1e-3)


def test_exact_readings_that_repeat_others_leave_the_bounds_alone() -> None:
    robot = dynsys.synthetic.chain(4)
    torques = sensors.all_joint_torques(robot, std=0.0)
    again = [sensors.JointTorque(f"{joint}/again", joint) for joint in robot.joint_names]
    untouched = sensors.zero_external_wrench_except(robot)
    q, qd = robot.random_configuration(0), np.ones(4)
    found = []
    for more in ([], again):
        problem = problems.Estimation(
            robot, sensors.Layout(robot, [*torques, *untouched, *more])
        )
        y = np.where(np.isnan(problem.layout.constants), 1.0, 0.0)
        found.append(problem.solve(q, qd, y).trust())
    assert float(found[1].relative_error) < 1e-10
    np.testing.assert_allclose(found[1].qdd_error, found[0].qdd_error, rtol=10)


def test_estimates_without_exact_rows_have_a_bound() -> None:
    own: list[Any] = [
        *sensors.all_joint_torques(CHAIN, std=0.1),
        *sensors.all_joint_accelerations(CHAIN, std=0.1),
        *(sensors.ExternalWrench(f"{n} felt", n, std=0.2) for n in CHAIN.body_names),
    ]
    problem = Estimation(CHAIN, sensors.Layout(CHAIN, own), backend="dense")
    e = problem.solve(np.ones(2), np.ones(2), np.ones(problem.layout.size))
    assert e.trust().relative_error < 1e-10
