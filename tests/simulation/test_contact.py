"""Contact: Jacobians, the three routes, and the friction solver's conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import nnls

import dynsys
from dynsys import KinematicTree, ModelError, StateError, synthetic
from dynsys.loops.flat import flat_robot
from dynsys.loops.tree_state import TreeState
from dynsys.simulation import ROUTES, ContactInertia, ContactPoints, Ground, solve_contacts
from dynsys.types import Array
from tests import oracles
from tests.strategies import seeds, trees


@given(robot=trees(max_bodies=6), seed=seeds)
@settings(deadline=None, max_examples=40)
def test_contact_jacobians_are_velocities_of_points(robot: KinematicTree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, bodies = robot.random_configuration(seed), [0, robot.n_bodies - 1]
    points = ContactPoints(robot, bodies, rng.normal(size=(2, 3)))
    state = TreeState(robot, q)
    where = points.positions(state.poses)
    J = points.jacobian(state.tree, state.poses, where, np.arange(2))
    for c, body in enumerate(bodies):
        point = points.point[c]
        turn = oracles.body_poses(robot, q)[body][:3, :3]
        body_J = oracles.jacobian(robot, q, body)
        exact = turn @ (body_J[3:] - oracles.skew_matrix(point) @ body_J[:3])
        assert_allclose(J[3 * c : 3 * c + 3], exact[[2, 0, 1]], atol=1e-11)


@pytest.mark.parametrize("route", ROUTES)
def test_routes_give_the_same_contact_inertia(route: str) -> None:
    robot = synthetic.centipede(3)
    q = robot.random_configuration(0)
    flat, poses = flat_robot(robot), TreeState(robot, q).poses
    feet = [name for name in robot.body_names if "lower" in name]
    points = ContactPoints(robot, feet, np.zeros((6, 3)))
    active = np.array([0, 2, 3, 5])
    where = points.positions(poses)
    J = points.jacobian(flat.tree, poses, where, active)
    tips, inertia = flat.tree.last[points.body[active]], ContactInertia(flat, route)  # type: ignore[arg-type]
    A, respond = inertia.at(q, J, tips, where[active])
    exact = np.linalg.solve(dynsys.recursive.crba(robot, q), J.T)
    assert_allclose(respond(J[4]), exact[:, 4], atol=1e-10 * np.abs(exact).max())
    assert_allclose(respond(J[4]), exact[:, 4], atol=1e-10 * np.abs(exact).max())
    assert_allclose(A, J @ exact, atol=1e-10 * np.abs(A).max())


# ---- friction ----------------------------------------------------------------------------


def random_problem(contacts: int, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(3 * contacts, 3 * contacts + 3))
    return np.asarray(G @ G.T / len(G)), rng.normal(size=3 * contacts)


@given(contacts=st.integers(1, 6), seed=seeds, mu=st.sampled_from([0.0, 0.3, 1.0]))
@settings(deadline=None, max_examples=40)
def test_solutions_obey_signorini_and_coulomb(contacts: int, seed: int, mu: float) -> None:
    A, b = random_problem(contacts, seed)
    found = solve_contacts(A, b, mu, sweeps=20000, tolerance=1e-9)
    assert found.converged == (found.residual <= 1e-9)
    assume(found.converged)  # random A is no mechanism's: there need not be an answer
    x, u = found.x.reshape(-1, 3), (A @ found.x + b).reshape(-1, 3)
    assert (x[:, 0] >= 0).all() and (u[:, 0] >= -1e-9).all()
    assert_allclose(x[:, 0] * u[:, 0], 0.0, atol=1e-7)
    size, limit = np.linalg.norm(x[:, 1:], axis=1), mu * x[:, 0]
    assert (size <= limit + 1e-7).all()
    for c in np.flatnonzero(x[:, 0] > 1e-6):
        if size[c] < limit[c] * (1 - 1e-6):  # sticks
            assert_allclose(u[c, 1:], 0.0, atol=1e-8)
        else:  # slides against friction
            assert x[c, 1:] @ u[c, 1:] <= 1e-9
            assert abs(x[c, 1] * u[c, 2] - x[c, 2] * u[c, 1]) < 1e-7


@given(contacts=st.integers(1, 6), seed=seeds)
@settings(deadline=None, max_examples=40)
def test_without_friction_it_is_a_non_negative_least_squares_problem(
    contacts: int, seed: int
) -> None:
    A, b = random_problem(contacts, seed)
    normal = np.arange(0, 3 * contacts, 3)
    C = np.linalg.cholesky(A[np.ix_(normal, normal)]).T
    exact, _ = nnls(C, -np.linalg.solve(C.T, b[normal]))
    found = solve_contacts(A, b, 0.0, tolerance=1e-11)
    assert found.converged
    assert_allclose(found.x[normal], exact, atol=1e-6 * max(1.0, float(exact.max())))


def test_a_good_start_saves_sweeps() -> None:
    A, b = random_problem(5, 1)
    for solver in ("newton", "gauss_seidel"):
        cold = solve_contacts(A, b, 0.5, solver=solver)  # type: ignore[arg-type]
        warm = solve_contacts(A, b, 0.5, start=cold.x, solver=solver)  # type: ignore[arg-type]
        assert warm.sweeps + warm.steps < cold.sweeps + cold.steps
        assert_allclose(warm.x, cold.x, atol=1e-5)


def test_bad_arguments_are_refused() -> None:
    robot = synthetic.chain(2)
    with pytest.raises(StateError, match=r"\(3 c, 3 c\)"):
        solve_contacts(np.eye(4), np.ones(4), 0.5)
    with pytest.raises(ModelError, match="never moves"):
        ContactPoints(robot, [-1], np.zeros((1, 3)))
    with pytest.raises(ModelError, match="no solver"):
        solve_contacts(np.eye(3), np.ones(3), 0.5, solver="lemke")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="friction"):
        Ground(friction=-1.0)
    with pytest.raises(ModelError, match="did you mean 'dense'"):
        ContactInertia(flat_robot(robot), "dens")  # type: ignore[arg-type]
