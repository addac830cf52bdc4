"""The joint-space inertia against dense sums, kinetic energy and inverse dynamics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from dynsys import KinematicTree, StateError, synthetic
from dynsys.recursive import crba, rnea
from dynsys.recursive.common_frame import (
    Freedoms,
    articulated_freedoms,
    common_poses,
    composite_freedoms,
)
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import transforms
from dynsys.types import Array
from tests import oracles, strategies
from tests.recursive import scalars


@pytest.mark.slow
@given(strategies.states())
def test_inertia_is_the_dense_sum_over_bodies(state: strategies.State) -> None:
    robot, q, qd, qdd, _ = state
    H = crba(robot, q)
    scale = np.abs(H).max()
    assert_allclose(H, oracles.mass_matrix(robot, q), atol=1e-11 * scale)
    assert (H == H.T).all() or np.abs(H - H.T).max() <= 1e-14 * scale
    assert np.linalg.eigvalsh(H)[0] > -1e-12 * scale
    inertial = rnea(robot, q, qd, qdd) - rnea(robot, q, qd, 0 * qdd)
    assert_allclose(H @ qdd, inertial, atol=1e-9 * (1 + np.abs(inertial).max() + scale))


@pytest.mark.slow
@given(strategies.states(max_bodies=3))
def test_inertia_follows_from_kinetic_energy(state: strategies.State) -> None:
    robot, q, _, _, _ = state
    e = np.eye(robot.nv)
    single = [oracles.kinetic_energy(robot, q, v) for v in e]
    both = [[oracles.kinetic_energy(robot, q, v + w) for v in e] for w in e]
    expected = np.array(both) - np.add.outer(single, single)  # T(v + w) - T(v) - T(w)
    H = crba(robot, q)
    assert_allclose(H, expected, atol=1e-11 * np.abs(H).max())


@pytest.mark.slow
@given(strategies.states(max_bodies=5))
def test_scalars_of_any_kind(state: strategies.State) -> None:
    robot, q, qd, _, _ = state
    expected = oracles.mass_matrix(robot, q)
    scale = np.abs(expected).max()
    fine = crba_scalars(robot, q.astype(np.longdouble))
    assert fine.dtype == np.longdouble
    assert_allclose(fine.astype(float), expected, atol=1e-11 * scale)
    found = crba_scalars(robot, scalars.duals(q, scalars.position_rates(robot, q, qd)))
    assert_allclose(scalars.values(found), expected, atol=1e-11 * scale)

    def along(t: float) -> Array:
        return oracles.mass_matrix(robot, robot.integrate(q, qd, t))

    rate = oracles.central_difference(along, 1e-3)
    scale += np.abs(rate).max()
    assert_allclose(scalars.rates(found), rate, atol=1e-6 * scale)


def test_wrong_position_is_named() -> None:
    with pytest.raises(StateError, match=r"shape \(3,\)"):
        crba(synthetic.chain(3), np.zeros(4))


# ---- the same freedoms in one common frame ------------------------------------------------


def supported(robot: KinematicTree) -> Array:
    """(nv, nv) booleans: freedom j supports freedom i, or is i's own."""
    body = oracles.freedom_owners(robot)
    return np.array(
        [[j <= i and body[j] in robot.support(body[i]) for j in range(robot.nv)]
         for i in range(robot.nv)]
    )  # fmt: skip


@pytest.mark.slow
@given(strategies.states(coupled=False))
def test_composite_freedoms_multiply_to_the_inertia(state: strategies.State) -> None:
    robot, q, _, _, _ = state
    found = composite_freedoms(robot, q)
    H = oracles.mass_matrix(robot, q)
    lower = np.where(supported(robot), found.wrench.T @ found.motion, 0)
    np.fill_diagonal(lower, found.diagonal)
    assert_allclose(lower, np.tril(H), atol=1e-10 * np.abs(H).max())


@pytest.mark.slow
@given(strategies.states(coupled=False))
def test_articulated_freedoms_factorise_the_inertia(state: strategies.State) -> None:
    robot, q, _, _, _ = state
    found, _ = articulated_freedoms(robot, q)
    H = oracles.mass_matrix(robot, q)
    products = found.wrench.T @ found.motion / found.diagonal[:, None]
    L = np.where(supported(robot), products, 0)
    np.fill_diagonal(L, 1)
    # H = L^T diag(D) L, L unit lower triangular
    atol = 1e-9 * np.abs(H).max()
    assert_allclose(L.T @ np.diag(found.diagonal) @ L, H, atol=atol)


def beside(robot: KinematicTree) -> KinematicTree:
    """Return the robot with one more arm, on the base."""
    bodies = [*robot.bodies, *synthetic.chain(1).bodies]
    return KinematicTree("two trees", bodies)


@pytest.mark.parametrize(
    ("robot", "floats"),
    [
        (synthetic.humanoid30(), True),
        (beside(synthetic.humanoid30()), False),
        (synthetic.chain(4), False),
    ],
    ids=str,
)
def test_common_frame_is_that_of_a_floating_base(robot: KinematicTree, floats: bool) -> None:
    q = robot.random_configuration(3)
    X_common = common_poses(robot, transforms(robot, q))
    T = oracles.body_poses(robot, q)
    common = T[0] if floats else np.eye(4)
    for X, T_i in zip(X_common, T, strict=True):
        expected = np.linalg.inv(common) @ T_i
        assert_allclose(oracles.pose(X.E.T, X.r), expected, atol=1e-12)
    # every freedom's motion, in the common frame
    found: Freedoms = composite_freedoms(robot, q)
    for k, body in enumerate(oracles.freedom_owners(robot)):
        X = oracles.motion_matrix(np.linalg.inv(T[body]) @ common)
        S = robot.motion_subspace[body][:, k - robot.v_slices()[body].start]
        assert_allclose(found.motion[:, k], X @ S, atol=1e-12)
