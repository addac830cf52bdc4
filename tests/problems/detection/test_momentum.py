"""The momentum observer against mass matrices, differences along motions, and known pushes."""

from __future__ import annotations

import numpy as np
import pytest

import dynsys
from dynsys.errors import StateError
from problems.detection.momentum import MomentumObserver, momentum_rates


@pytest.mark.parametrize("seed", range(6))
def test_momentum_and_its_rate(seed: int) -> None:
    """p = H qd, and p' = tau + beta along any motion: differences in extended precision."""
    robot = dynsys.synthetic.random_tree(6, seed=seed)
    rng = np.random.default_rng(seed)
    q, (qd, qdd) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    p, beta = momentum_rates(robot, q, qd)
    np.testing.assert_allclose(p, dynsys.crba(robot, q) @ qd, rtol=1e-10, atol=1e-10)
    torque = dynsys.rnea(robot, q, qd, qdd)
    step, sides = 1e-5, []
    for dt in (-step, step):
        there = robot.integrate(q, qd + 0.5 * dt * qdd, dt)
        sides.append(momentum_rates(robot, there, qd + dt * qdd)[0])
    rate = (sides[1] - sides[0]) / (2 * step)
    np.testing.assert_allclose(rate, torque + beta, rtol=1e-6, atol=1e-5)


def test_a_push_is_followed_at_the_rate_of_the_gain() -> None:
    plain = dynsys.synthetic.chain(3)
    robot = plain.with_parameters({f"{joint}.viscous": 0.3 for joint in plain.joint_names})
    t = np.arange(0, 1.0, 1e-3)
    q = np.stack([np.sin(2 * t), 0.5 * np.cos(3 * t), 0.3 * t], axis=1)
    qd = np.stack([2 * np.cos(2 * t), -1.5 * np.sin(3 * t), 0.3 + 0 * t], axis=1)
    qdd = np.stack([-4 * np.sin(2 * t), -4.5 * np.cos(3 * t), 0 * t], axis=1)
    push = np.zeros((1000, 3, 6))
    push[500:, 2, 3:] = [5.0, -3.0, 1.0]
    loss = robot.friction_torque(qd)
    pushed = [dynsys.rnea(plain, *x) for x in zip(q, qd, qdd, push, strict=True)]
    torque = np.array(pushed) + loss
    free = np.array([dynsys.rnea(plain, *x) for x in zip(q, qd, qdd, strict=True)]) + loss
    r = MomentumObserver(robot, gain=50.0).run(t, q, qd, torque)
    assert np.abs(r[:500]).max() < 1e-3 * np.abs(free).max()
    acting = free - torque  # what the push does for the drives
    response = r[520] @ acting[520] / (acting[520] @ acting[520])
    assert response == pytest.approx(1 - np.exp(-50 * 0.02), abs=0.05)
    np.testing.assert_allclose(r[900:], acting[900:], atol=0.05 * np.abs(acting).max())


def test_bad_input_is_named() -> None:
    robot = dynsys.synthetic.chain(2)
    with pytest.raises(StateError, match="gain of a momentum observer must be positive"):
        MomentumObserver(robot, gain=0.0)
    with pytest.raises(StateError, match="times must ascend"):
        MomentumObserver(robot).run([0.0, 0.0], *np.zeros((3, 2, 2)))
