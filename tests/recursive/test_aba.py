"""The articulated-body algorithm against dense solves, and its small factorisation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from dynsys import KinematicTree, SingularSystemError, synthetic
from dynsys.model.spatial import Inertia
from dynsys.model.tree import Coupling
from dynsys.recursive import aba, rnea
from dynsys.recursive.aba import aba_scalars, factor_ldl, solve_ldl
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array
from tests import oracles, strategies
from tests.recursive import scalars


@pytest.mark.slow
@given(strategies.states())
def test_accelerations_satisfy_the_equations_of_motion(state: strategies.State) -> None:
    robot, q, qd, torque, f_ext = state
    qdd = aba(robot, q, qd, torque, f_ext)
    H = oracles.mass_matrix(robot, q)
    expected = oracles.forward_dynamics(robot, q, qd, torque, f_ext)
    atol = 1e-13 * np.linalg.cond(H) * (1 + np.abs(expected).max())
    assert_allclose(qdd, expected, atol=max(atol, 1e-9))
    back = oracles.inverse_dynamics(robot, q, qd, qdd, f_ext)
    assert_allclose(back, torque, atol=1e-9 * (1 + (np.abs(H) @ np.abs(qdd)).max()))


@pytest.mark.slow
@given(strategies.states())
def test_forward_after_inverse_dynamics_returns_the_acceleration(
    state: strategies.State,
) -> None:
    robot, q, qd, qdd, f_ext = state
    found = aba(robot, q, qd, rnea(robot, q, qd, qdd, f_ext), f_ext)
    condition = np.linalg.cond(oracles.mass_matrix(robot, q))
    assert_allclose(found, qdd, atol=max(1e-12 * condition, 1e-9))


@pytest.mark.slow
@given(strategies.states(max_bodies=5, coupled=False))
def test_numbers_of_higher_precision_stay_so(state: strategies.State) -> None:
    robot = state.robot
    q, qd, qdd = (x.astype(np.longdouble) for x in (state.q, state.qd, state.qdd))
    found = aba_scalars(robot, q, qd, rnea_scalars(robot, q, qd, qdd))
    assert found.dtype == np.longdouble
    condition = np.linalg.cond(oracles.mass_matrix(robot, q.astype(float)))
    assert (np.abs(found - qdd) <= 1e-17 * condition + 1e-15).all()


@pytest.mark.slow
@given(strategies.states(max_bodies=3, coupled=False))
def test_scalars_that_are_no_numbers(state: strategies.State) -> None:
    robot, q, qd, torque, f_ext = state
    change = np.cos(np.arange(robot.nv))
    moving = scalars.moving(robot, (q, qd, torque), (change, -change))
    found = aba_scalars(robot, *moving, f_ext)
    expected = oracles.forward_dynamics(robot, q, qd, torque, f_ext)
    condition = np.linalg.cond(oracles.mass_matrix(robot, q))
    scale = 1 + np.abs(expected).max()
    assert_allclose(scalars.values(found), expected, atol=max(1e-13 * condition, 1e-9) * scale)

    def along(t: float) -> Array:
        q_t = robot.integrate(q, qd, t)
        return oracles.forward_dynamics(robot, q_t, qd + t * change, torque - t * change, f_ext)

    rate = oracles.central_difference(along, 1e-3)
    scale += np.abs(rate).max()
    assert_allclose(scalars.rates(found), rate, atol=max(1e-10 * condition, 1e-5) * scale)


def massless_tip(coupled: bool) -> KinematicTree:
    """Chain of three whose last joint moves no mass, alone or together with the one before."""
    robot = synthetic.chain(3)
    bodies = [*robot.bodies[:2], replace(robot.bodies[2], inertia=Inertia.zero())]
    if coupled:
        bodies[1] = replace(bodies[1], inertia=Inertia.zero())
        bodies[2] = replace(bodies[2], coupling=Coupling(1, 1.0, 0.0))
    return KinematicTree("tip", bodies)


@pytest.mark.parametrize("coupled", [False, True])
def test_joints_that_move_no_inertia_are_named(coupled: bool) -> None:
    robot = massless_tip(coupled)
    x = np.zeros(robot.nv)
    with pytest.raises(SingularSystemError, match=r"'link_[23]'.*no inertia about its axis"):
        aba(robot, x, x, x)
    bodies = [*robot.bodies[:2], replace(robot.bodies[2], armature=[0.5])]
    torque = np.zeros(robot.nv)
    torque[-1] = 1.0
    robot = KinematicTree("with rotor", bodies, gravity=np.zeros(3))
    assert_allclose(aba(robot, x, x, torque)[-1], 2.0)


@pytest.mark.parametrize("n", range(7))
def test_small_factorisation_solves(n: int) -> None:
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    M, b = A @ A.T + np.eye(n), rng.normal(size=n)
    F = factor_ldl(M)
    L = np.tril(F, -1) + np.eye(n)
    assert_allclose(L @ np.diag(1 / F.diagonal()) @ L.T, M, atol=1e-12)
    assert_allclose(solve_ldl(F, b), np.linalg.solve(M, b), atol=1e-10)
