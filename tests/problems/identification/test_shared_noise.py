"""Noise that readings share: fits beside dense generalised least squares."""

from __future__ import annotations

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import LayoutError
from experiments.identification import changed, motion
from problems import Identification
from problems.identification.weighted import SharedNoise
from sensors import Layout

STD = np.array([0.3, 0.2, 0.4, 0.1])


def layout_of(robot, correlation: float = 0.9, contact: bool = False) -> Layout:
    """Torques of which the first and the last share noise; a sensor with noise in two axes."""
    names = robot.joint_names
    torques = [
        sensors.JointTorque(f"t{k}", name, std=float(s))
        for k, (name, s) in enumerate(zip(names, STD, strict=True))
    ]
    own = np.diag([0.04] * 3 + [0.5] * 3)
    own[1, 4] = own[4, 1] = 0.08
    found = [*torques, sensors.ForceTorque("wrist", names[2], covariance=own)]
    if contact:
        found.append(sensors.ExternalWrench("tip", robot.body_names[-1], std=0.2))
    shared = [("t0", "t3", [[correlation * STD[0] * STD[3]]])] if correlation else []
    return Layout(robot, found, shared)


@pytest.fixture(scope="module")
def robot():
    return dynsys.synthetic.random_tree(4, seed=3, joint_types=("revolute",))


def simulated(ident, seed: int, seconds: float = 4.0, gone: float = 0.0):
    """A log whose noise is as the layout states it, some readings missing; the truth."""
    rng, robot = np.random.default_rng(seed), ident.robot
    truth = changed(robot, 50 + seed).parameters
    theta = np.array([truth[name] for name in ident.parameters])
    states = motion(robot, seconds, 50.0, seed)
    rows = ident.sought.rows(*states)
    x = rng.normal(size=(len(states[0]), rows.contact.shape[-1], 1))
    y = rows.theta @ theta + rows.known + (rows.contact @ x)[..., 0]
    noise = np.linalg.cholesky(ident.layout.covariance().todense())
    y = y + rng.normal(size=y.shape) @ noise.T
    y[rng.random(y.shape) < gone] = np.nan
    return states, y, theta


def dense(ident, states, y, scale):
    """Generalised least squares, sample by sample, with the whole covariance inverted."""
    rows, covariance = ident.sought.rows(*states), ident.layout.covariance().todense()
    H, g = np.diag(1 / scale**2), ident.sought.model / scale**2
    for R, E, c, reading in zip(rows.theta, rows.contact, rows.known, y, strict=True):
        there = np.isfinite(reading)
        S = np.linalg.inv(covariance[np.ix_(there, there)])
        E = E[there]
        S = S - S @ E @ np.linalg.pinv(E.T @ S @ E) @ E.T @ S  # x is free at every sample
        H = H + R[there].T @ S @ R[there]
        g = g + R[there].T @ S @ (reading - c)[there]
    inverse = np.linalg.inv(H)
    return inverse @ g, np.sqrt(inverse.diagonal())


@pytest.mark.parametrize("contact", [False, True])
@pytest.mark.parametrize("gone", [0.0, 0.2])
def test_a_fit_beside_dense_generalised_least_squares(robot, contact, gone) -> None:
    ident = Identification(robot, layout_of(robot, contact=contact))
    for seed in range(20):  # until residuals are found white, as they are: weights are 1
        states, y, _ = simulated(ident, seed, gone=gone)
        fit = ident.fit(*states, y, noise="layout", huber=None, physical=False)
        if (fit.correlation_time == 1).all():
            break
    assert (fit.correlation_time == 1).all()
    theta, std = dense(ident, states, y, fit.scale)
    found = np.array([fit.std[name] for name in ident.parameters])
    assert np.abs((fit.theta - theta) / std).max() <= 1e-6
    assert np.median(found / std) == pytest.approx(1.0, abs=0.05)
    assert found == pytest.approx(std, rel=0.4)  # by the correlation in time that was seen


def test_shared_noise_is_worth_knowing(robot) -> None:
    knows, not_told = (Identification(robot, layout_of(robot, c)) for c in (0.95, 0.0))
    off = []
    for case in range(6):
        states, y, theta = simulated(knows, case, 6.0)
        fits = knows.fit(*states, y), not_told.fit(*states, y)
        std = np.array(list(fits[0].std.values()))
        off.append([(fit.theta - theta) / std for fit in fits])
    known, blind = np.sqrt(np.mean(np.square(off), axis=(0, 2)))
    assert 0.7 < known < 1.1  # deviations hold
    assert blind > 1.15 * known
    assert (np.abs(np.array(off)[:, 0]) < 2).mean() > 0.92


def test_deviations_are_estimated_beside_what_is_shared(robot) -> None:
    """The layout's correlations, whatever it says about sizes."""
    ident = Identification(robot, layout_of(robot))
    states, y, _ = simulated(ident, 1, 20.0)
    fit = ident.fit(*states, y)
    assert fit.noise == pytest.approx(ident.layout.std, rel=0.15)


def test_taking_out_and_putting_back(robot) -> None:
    shared = SharedNoise.of(layout_of(robot))
    assert [group.tolist() for group in shared.groups] == [[0, 3], [5, 8]]
    rng = np.random.default_rng(0)
    x, there = rng.normal(size=(30, 10, 2)), rng.random((30, 10)) < 0.7
    gone = shared.taken_out(x, there)
    assert shared.put_back(gone, there) == pytest.approx(x)
    both = there[:, 0] & there[:, 3]
    assert (gone[~both, 3] == x[~both, 3]).all() and (gone[both, 3] != x[both, 3]).all()


def test_noise_that_is_the_same_is_refused(robot) -> None:
    ident = Identification(robot, layout_of(robot, 1.0))
    states = motion(robot, 1.0, 50.0, 0)
    with pytest.raises(LayoutError, match=r"t0.*t3.*noise of its own"):
        ident.fit(*states, np.zeros((50, ident.layout.size)))
