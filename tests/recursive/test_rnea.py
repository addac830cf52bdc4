"""Recursive Newton-Euler against projected equations of motion, momentum and energy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose

from dynsys import KinematicTree, StateError, synthetic
from dynsys.model.body import Body
from dynsys.recursive import aba, rnea
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.inputs import finite_rows
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import net_wrenches, rnea_scalars
from dynsys.types import Array
from tests import oracles, strategies
from tests.recursive import scalars
from tests.robots import at


@pytest.mark.slow
@given(strategies.states())
def test_torques_are_the_projected_equations_of_motion(state: strategies.State) -> None:
    robot, q, qd, qdd, f_ext = state
    expected = oracles.inverse_dynamics(robot, q, qd, qdd, f_ext)
    atol = 1e-10 * (1 + np.abs(expected).max(initial=0))
    assert_allclose(rnea(robot, q, qd, qdd, f_ext), expected, atol=atol)


@pytest.mark.slow
@given(strategies.states(max_bodies=4))
def test_net_wrench_is_the_rate_of_momentum(state: strategies.State) -> None:
    robot, q, qd, qdd, f_ext = state
    found = net_wrenches(robot, transforms(robot, q), qd, qdd, f_ext)
    bias = net_wrenches(robot, transforms(robot, q), qd, None, f_ext)
    pushed = np.zeros((robot.n_bodies, 6)) if f_ext is None else f_ext
    for i in range(robot.n_bodies):
        for net, drive in ((found[i], qdd), (bias[i], 0 * qdd)):
            rate = oracles.momentum_rate_by_differences(robot, q, qd, drive, i)
            atol = 1e-6 * (1 + np.abs(rate).max() + np.abs(qd).max(initial=0) ** 2)
            assert_allclose(net + pushed[i], rate, atol=atol)


@pytest.mark.slow
@given(strategies.states(max_bodies=5))
def test_power_of_torques_and_wrenches_is_the_rate_of_energy(state: strategies.State) -> None:
    robot, q, qd, qdd, f_ext = state
    power = float(rnea(robot, q, qd, qdd, f_ext) @ qd)
    if f_ext is not None:
        power += sum(
            float(f @ (oracles.jacobian(robot, q, i) @ qd)) for i, f in enumerate(f_ext)
        )
    rate = oracles.power_by_differences(robot, q, qd, qdd, 1e-4)
    scale = 1.0 + abs(rate) + oracles.kinetic_energy(robot, q, qd)
    scale += abs(oracles.potential_energy(robot, q))
    assert abs(power - rate) < 1e-6 * scale


@pytest.mark.slow
@given(strategies.states(max_bodies=4))
def test_torques_at_rest_are_the_slope_of_potential_energy(state: strategies.State) -> None:
    robot, q, _, _, _ = state
    rest = np.zeros(robot.nv)
    found = rnea(robot, q, rest, rest)
    for k, e in enumerate(np.eye(robot.nv)):

        def energy(t: float, e: Array = e) -> float:
            return oracles.potential_energy(robot, robot.integrate(q, e, t))

        slope = oracles.central_difference(energy, 1e-3)
        assert_allclose(found[k], slope, atol=1e-7 * (1 + np.abs(found).max()))


@pytest.mark.slow
@given(strategies.states(max_bodies=5))
def test_numbers_of_higher_precision_stay_so(state: strategies.State) -> None:
    robot, q, qd, qdd, _ = state
    expected = oracles.inverse_dynamics(robot, q, qd, qdd)
    q, qd, qdd = (x.astype(np.longdouble) for x in (q, qd, qdd))
    found = rnea_scalars(robot, q, qd, qdd)
    assert found.dtype == np.longdouble
    atol = 1e-10 * (1 + np.abs(expected).max(initial=0))
    assert_allclose(found.astype(float), expected, atol=atol)
    inertial = found - rnea_scalars(robot, q, qd, 0 * qdd)  # H qdd, to longdouble's rounding
    H = crba_scalars(robot, q)
    scale = np.abs(H) @ np.abs(qdd) + np.abs(found)
    assert (np.abs(inertial - H @ qdd) <= 1e-16 * (1 + scale.max(initial=0))).all()


@pytest.mark.slow
@given(strategies.states(max_bodies=4))
def test_scalars_that_are_no_numbers(state: strategies.State) -> None:
    robot, q, qd, qdd, f_ext = state
    jerk = np.cos(np.arange(robot.nv))
    found = rnea_scalars(robot, *scalars.moving(robot, (q, qd, qdd), (qdd, jerk)), f_ext)
    expected = oracles.inverse_dynamics(robot, q, qd, qdd, f_ext)
    scale = 1 + np.abs(expected).max(initial=0)
    assert_allclose(scalars.values(found), expected, atol=1e-10 * scale)

    def along(t: float) -> Array:
        q_t = robot.integrate(q, qd, t)
        return oracles.inverse_dynamics(robot, q_t, qd + t * qdd, qdd + t * jerk, f_ext)

    rate = oracles.central_difference(along, 1e-3)
    scale += np.abs(rate).max(initial=0)
    assert_allclose(scalars.rates(found), rate, atol=1e-5 * scale)


@pytest.mark.parametrize(("function", "third"), [(rnea, "qdd"), (aba, "torque")])
def test_wrong_vectors_are_named(function: Callable[..., Array], third: str) -> None:
    robot, x = synthetic.chain(3), np.zeros(3)
    for arguments, message in (
        ((np.zeros(2), x, x), "q of robot"),
        ((x, np.zeros(2), x), "qd of robot"),
        ((x, x, np.array([0, np.nan, 0])), rf"{third}\[1\].*'link_2'"),
        ((x, x, x, np.zeros((3, 5))), "f_ext of robot"),
    ):
        with pytest.raises(StateError, match=message):
            function(robot, *arguments)


INF = float("inf")
NAN = float("nan")


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
