"""The momentum observer against mass matrices, differences along motions, and known pushes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import dynsys
from dynsys import ModelError, StateError, synthetic
from problems.detection.momentum import MomentumObserver, momentum_rates
from tests.robots import CHAIN, REST, TIME, at, coupled_with_friction


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


INF = float("inf")
NAN = float("nan")


def test_momentum_of_coupled_joints() -> None:
    robot = coupled_with_friction()
    q, qd, qdd = np.random.default_rng(2).normal(size=(3, robot.nv))
    p, beta = momentum_rates(robot, q, qd)
    np.testing.assert_allclose(p, dynsys.crba(robot, q) @ qd, atol=1e-12)
    steps = [(dt, robot.integrate(q, qd + 0.5 * dt * qdd, dt)) for dt in (-1e-5, 1e-5)]
    before, after = (momentum_rates(robot, there, qd + dt * qdd)[0] for dt, there in steps)
    torque = np.asarray(dynsys.rnea(robot, q, qd, qdd)) - robot.friction_torque(qd)
    np.testing.assert_allclose((after - before) / 2e-5, torque + beta, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda m: m.run(TIME, at(REST, NAN), REST, REST), "sample 7: q"),
        (lambda m: m.run(TIME, REST, at(REST, INF), REST), "sample 7: qd"),
        (lambda m: m.run(TIME, REST, REST, at(REST, NAN)), "sample 7: torque"),
        (lambda m: m.run(TIME[::-1], REST, REST, REST), "times must ascend"),
        (lambda m: m.run("abc", REST, REST, REST), "time is not numeric"),
        (lambda m: m.run(TIME, REST[:, :1], REST, REST), "shape"),
        (lambda m: replace(m, gain="5"), "must be positive, got '5'"),
        (lambda m: replace(m, robot="panda"), "needs a robot"),
    ],
)
def test_the_momentum_observer_names_what_is_wrong(
    call: Callable[[MomentumObserver], object], why: str
) -> None:
    with pytest.raises((StateError, ModelError), match=why):
        call(MomentumObserver(CHAIN))


def test_a_momentum_that_overflows_is_named() -> None:
    robot = synthetic.random_tree(3, 0)
    q, v = np.tile(robot.neutral(), (9, 1)), np.zeros((9, robot.nv))
    with np.errstate(all="ignore"), pytest.raises(StateError, match=r"sample 7: .*overflows"):
        MomentumObserver(robot).run(TIME[:9], q, at(v, 1e200), v)
