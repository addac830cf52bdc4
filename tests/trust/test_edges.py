"""Numerical edges: an answer is covered by its error bound, or refused by a named error."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest
from scipy.sparse import csc_array

import dynsys
import problems
import sensors
from dynsys import KinematicTree, SingularSystemError, StateError
from dynsys.model.body import Body
from dynsys.model.joints import Revolute
from dynsys.model.natural import NaturalUnits
from dynsys.model.spatial import Inertia, Transform
from dynsys.system.diagnosis import null_vector
from experiments.trust.edges import judge_edge
from experiments.trust.edges_cases import Edge, edges
from experiments.trust.edges_oracle import exact_qdd, exact_torque, wide
from problems.measured.simulated_readings import TrueReadings

SAMPLE = [
    (family, edge)
    for family, edge in edges(["masses", "parallel", "gimbal", "states", "float32"])
    if edge.name
    in {
        "masses grow to 1e+06 along a chain",
        "last link 0 of its mass",
        "inner link 1e-12 of its mass",
        "parallel axes, bent by 0",
        "gimbal at 0",
        "gimbal at 1e-09",
        "gimbal at 0.001",
        "chain6, velocities 1e+160",
        "chain6, accelerations 1e+307",
        "chain6, torques 1e+307",
        "q at 1 pi/2",
        "q at 1e+22",
        "float32, chain6",
    }
]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "edge"), SAMPLE, ids=[edge.name for _, edge in SAMPLE])
@pytest.mark.finding("G-32")
def test_edge_is_covered_or_named(family: str, edge: Edge) -> None:
    for verdict in judge_edge(family, edge):
        assert verdict.covered, verdict


def test_bounds_are_of_use() -> None:
    robot = dynsys.synthetic.chain(6)
    q = robot.random_configuration(0)
    qd, qdd = np.random.default_rng(0).normal(size=(2, 6))
    inverse = problems.InverseDynamics(robot).solve(q, qd, qdd)
    trust = inverse.trust()
    assert 0 < trust.relative_error < 1e-13 and trust.condition == 1.0
    assert not trust.qdd_error.any() and (trust.torque_error > 0).all()
    forward = problems.ForwardDynamics(robot).solve(q, qd, inverse.torque)
    trust = forward.trust()
    assert 0 < trust.relative_error < 1e-10 and trust.backward_error < 1e-14
    assert (np.abs(forward.qdd - qdd) <= trust.qdd_error).all()


def test_bounds_tell_a_wrong_answer() -> None:
    robot = dynsys.synthetic.humanoid30()
    problem = problems.ForwardDynamics(robot)
    q, zero = robot.neutral(), np.zeros(robot.nv)
    solution = problem.solve(q, zero, zero)
    wrong = solution.qdd + 1e-3
    trust = problem.trust((q, zero, None), zero, wrong)
    assert (np.abs(wrong - solution.qdd) <= trust.qdd_error).all()
    assert trust.qdd_error.max() < 1.0
    nothing = problem.trust((q, zero, None), zero, np.full(robot.nv, np.nan))
    assert np.isinf(nothing.qdd_error).all() and math.isinf(float(nothing.relative_error))


def test_trust_of_batches_wrenches_and_hybrid() -> None:
    robot = dynsys.synthetic.random_tree(6, 1)
    rng = np.random.default_rng(2)
    q = np.array([robot.random_configuration(rng) for _ in range(3)])
    qd, known = rng.normal(size=(2, 3, robot.nv))
    f_ext = rng.normal(size=(3, robot.n_bodies, 6))
    problem = problems.HybridDynamics(robot, robot.joint_names[::2])
    trust = problem.solve_batch(q, qd, known, f_ext).trust()
    one = problem.solve(q[1], qd[1], known[1], f_ext[1]).trust()
    assert trust.qdd_error.shape == (3, robot.nv) and np.shape(trust.condition) == (3,)
    np.testing.assert_allclose(trust.qdd_error[1], one.qdd_error, rtol=0.5)
    assert float(np.max(trust.relative_error)) < 1e-9
    assert str(one).startswith("relative error below")


def test_large_robots_have_bounds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = dynsys.synthetic.chain(5)
    problem = problems.ForwardDynamics(robot)
    q, zero = robot.random_configuration(0), np.zeros(5)
    solution = problem.solve(q, zero, zero)
    small = solution.trust()
    monkeypatch.setattr("problems.trust.LARGEST_EXTENDED", 3)
    np.testing.assert_allclose(solution.trust().qdd_error, small.qdd_error, rtol=1e-6)


@pytest.mark.finding("G-30")
def test_overflow_is_an_error_not_a_nan() -> None:
    robot = dynsys.synthetic.chain(3)
    with pytest.raises(StateError, match="overflow"):
        problems.InverseDynamics(robot).solve(np.zeros(3), np.full(3, 1e200), np.zeros(3))
    with pytest.raises(StateError, match="overflow"):
        problems.ForwardDynamics(robot).solve(np.zeros(3), np.zeros(3), np.full(3, 1e308))


@pytest.mark.finding("G-34")
def test_overflow_of_an_estimation_is_an_error() -> None:
    robot = dynsys.synthetic.chain(3)
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1))
    estimation = problems.Estimation(robot, layout)
    with pytest.raises(StateError, match="overflow"):
        estimation.solve(np.zeros(3), np.full(3, 1e200), np.zeros(layout.size))


@pytest.mark.finding("G-31")
def test_very_light_links_are_not_taken_for_rounding() -> None:
    (edge,) = (e for _, e in edges(["masses"]) if e.name == "last link 1e-20 of its mass")
    torque = exact_torque(edge.robot, edge.q, edge.qd, edge.qdd).astype(float)
    solution = problems.ForwardDynamics(edge.robot).solve(edge.q, edge.qd, torque)
    np.testing.assert_allclose(solution.qdd, edge.qdd, rtol=1e-9)


def test_units_of_any_mass_are_finite() -> None:
    """Squares of its inertias overflow: lengths of the robot were infinite, splu raised."""
    (edge,) = (e for _, e in edges(["masses"]) if e.name == "every mass 1e300")
    torque = exact_torque(edge.robot, edge.q, edge.qd, edge.qdd).astype(float)
    for backend in ("auto", "reference"):
        problem = problems.ForwardDynamics(edge.robot, backend=backend)  # type: ignore[arg-type]
        found = problem.solve(edge.q, edge.qd, torque).qdd
        np.testing.assert_allclose(found, edge.qdd, rtol=1e-9)


@pytest.mark.parametrize("length, mass", [(1e200, 1.0), (1e160, 1e200), (1e-160, 1e-200)])
@pytest.mark.finding("Z-C2")
def test_units_of_any_length_are_finite(length: float, mass: float) -> None:
    """A length of 1e200 in a damaged file ended in OverflowError."""
    inertia = Inertia(mass, np.zeros(3), mass * np.eye(3))
    way = Transform(np.eye(3), np.array([length, 0.0, 0.0]))
    robot = KinematicTree("robot", [Body("link", -1, Revolute(np.eye(3)[2]), way, inertia)])
    units = NaturalUnits(robot)
    assert np.isfinite([units.energy, *units.drive, *units.wrench]).all() and units.energy > 0


@pytest.mark.finding("Z-C4")
def test_what_no_float_holds_is_told_in_words() -> None:
    """Where singular systems are looked into, entries that overflow ended in RuntimeError."""
    assert null_vector(csc_array(np.array([[np.inf, 1.0], [1.0, np.inf]]))) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("D", [[[0.0, 0.0], [-1.0, 1e-320]], [[1e-320, 0.0], [0.0, 1.0]]])
@pytest.mark.finding("L-2")
def test_what_is_too_small_to_be_scaled_has_no_null_vector(D: list[list[float]]) -> None:
    """The one ended in RuntimeError of SuperLU, the other was told a null vector it has not."""
    assert null_vector(csc_array(np.array(D))) is None


@pytest.mark.parametrize("length, mass", [(1e-6, 1e-12), (1e4, 1e9)])
@pytest.mark.finding("Y-27")
def test_torques_are_not_taken_for_rounding(length: float, mass: float) -> None:
    """Seen once: qdd of a robot of micrometres off by 122 %, of one of kilometres by 27 %."""
    inertia = Inertia(mass, np.array([0.5 * length, 0, 0]), 0.1 * mass * length**2 * np.eye(3))
    ways = [Transform(np.eye(3), np.array([k * length, 0, 0])) for k in (0, 1, 1)]
    axes = np.eye(3)[[2, 1, 0]]
    bodies = [
        Body(f"link_{k}", k - 1, Revolute(axis), way, inertia)
        for k, (axis, way) in enumerate(zip(axes, ways, strict=True))
    ]
    robot = KinematicTree("robot", bodies, gravity=(0.0, 0.0, -9.81 * length))
    q, qd, qdd = np.array([[0.3, 0.4, -0.7], [0.1, 0.2, -0.3], [1.0, -2.0, 0.5]])
    torque = exact_torque(robot, q, qd, qdd).astype(float)
    solution = problems.ForwardDynamics(robot).solve(q, qd, torque)
    np.testing.assert_allclose(solution.qdd, qdd, rtol=1e-9)
    solution = problems.InverseDynamics(robot).solve(q, qd, qdd)
    np.testing.assert_allclose(solution.torque, torque, rtol=1e-9)
    # straight-line code, which C, constraints and simulated readings have no loops in place of
    nothing = np.zeros((3, 6))
    forward = problems.ForwardDynamics(robot, backend="llvm")
    np.testing.assert_allclose(forward.solve(q, qd, torque).qdd, qdd, rtol=1e-9)
    np.testing.assert_allclose(forward.solve(q, qd, torque, nothing).qdd, qdd, rtol=1e-9)
    inverse = problems.InverseDynamics(robot, backend="llvm")
    found = inverse.solve(q, qd, qdd, nothing).torque
    np.testing.assert_allclose(found, torque, rtol=1e-9)
    tip = dynsys.FrameConstraint("tip", "link_2", components=("x", "z"))
    held = problems.ForwardDynamics(robot, constraints=[tip]).solve(q, qd, torque)
    f, J = held.constraint_wrench["tip"], dynsys.jacobian(robot, q, "link_2")
    carried = exact_torque(robot, q, qd, held.qdd).astype(float) - J.T @ f
    np.testing.assert_allclose(carried, torque, atol=1e-9 * np.abs(torque).max())
    space = dynsys.OperationalSpace(robot, [dynsys.Posture(robot.joint_names)])
    for _ in range(3):  # by matrices, then by code
        np.testing.assert_allclose(space.torque(q, qd, qdd), torque, rtol=1e-9)
    measured = sensors.all_joint_torques(robot, std=1.0)
    layout = sensors.Layout(robot, [*measured, *sensors.zero_external_wrench_except(robot)])
    _, readings = TrueReadings(layout).at(q[None], qd[None], qdd[None], np.zeros((1, 3, 6)))
    np.testing.assert_allclose(readings[0, :3], torque, rtol=1e-9)


def test_oracle_against_what_is_known() -> None:
    for x in (0.5, -3.7, 1e22, 1e-310, 0.0, math.pi):
        number = wide(np.array([x]))[0]
        assert float(number.sin()) == math.sin(x) and float(number.cos()) == math.cos(x)
    robot = dynsys.synthetic.random_tree(5, 3)
    q = robot.random_configuration(1)
    qd, qdd = np.random.default_rng(1).normal(size=(2, robot.nv))
    torque = exact_torque(robot, q, qd, qdd).astype(float)
    np.testing.assert_allclose(
        torque, dynsys.recursive.rnea(robot, q, qd, qdd), rtol=1e-10, atol=1e-11
    )
    found = exact_qdd(robot, q, qd, torque).astype(float)
    np.testing.assert_allclose(found, qdd, rtol=1e-9, atol=1e-9)


def test_singular_states_are_named() -> None:
    (edge,) = (e for _, e in edges(["gimbal"]) if e.name == "gimbal at 0")
    with pytest.raises(SingularSystemError, match="'outer', 'inner'"):
        problems.ForwardDynamics(edge.robot).solve(edge.q, edge.qd, np.ones(3))
    with pytest.raises((decimal.DivisionByZero, decimal.InvalidOperation)):
        exact_qdd(edge.robot, edge.q, edge.qd, np.ones(3))
