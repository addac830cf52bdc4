"""Motion from sampled positions: seconds and Hz, zero phase, a smoother with a dense twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.linalg import expm
from scipy.signal import butter, filtfilt

import dynsys
import sensors
from dynsys.errors import LogError
from problems.logs import (
    AbstractDifferentiation,
    Butterworth,
    Differentiation,
    SampleReader,
    Smoother,
    open_log,
    smooth_motion,
)


@pytest.mark.parametrize("rate", [60.0, 200.0, 1000.0])
def test_a_window_means_the_same_time_at_every_rate(rate: float) -> None:
    method = Differentiation(window=0.1)
    assert (method.samples(1 / rate) - 1) / rate == pytest.approx(0.1, abs=1.01 / rate)
    t = np.arange(0, 2, 1 / rate)
    first = method.fit(t, np.sin(5 * t)[:, None], slice(0, len(t)), True, True, 1 / rate)[1]
    np.testing.assert_allclose(first[5:-5, 0], 5 * np.cos(5 * t[5:-5]), atol=0.03)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.finding("Z-B2")
def test_polynomials_do_not_reach_across_a_pause(causal: bool) -> None:
    t = np.concatenate([np.arange(200) * 0.005, 4.0 + np.arange(200) * 0.005])
    x = np.where(t < 2, t**3 - t, np.sin(2 * (t - 4)))[:, None]
    method = Differentiation(causal=causal)
    first, second = method.fit(t, x, slice(0, 400), True, True, 0.005)[1:, :, 0]
    np.testing.assert_allclose(first[:200], 3 * t[:200] ** 2 - 1, atol=1e-9)
    np.testing.assert_allclose(second[:200], 6 * t[:200], atol=1e-7)
    np.testing.assert_allclose(second[200:], -4 * np.sin(2 * (t[200:] - 4)), atol=0.1)
    part = method.fit(t[150:260], x[150:260], slice(30, 70), False, False, 0.005)
    np.testing.assert_array_equal(part[1:, :, 0], [first[180:220], second[180:220]])
    few = np.delete(np.arange(400), np.arange(210, 380))
    made = method.fit(t[few], x[few], slice(0, len(few)), True, True, 0.005)[1, :, 0]
    assert np.isnan(made[200:]).all()  # ten and twenty samples are no window
    np.testing.assert_array_equal(made[:200], first[:200])


def test_zero_phase_is_that_of_scipy_and_needs_even_whole_samples() -> None:
    rng, t = np.random.default_rng(0), np.arange(600) * 0.008
    x = np.sin(4 * t)[:, None] + rng.normal(scale=0.01, size=(600, 2))
    method = Butterworth(cutoff=10.0)
    value, first, _ = method.fit(t, x, slice(0, 600), True, True, 0.008)
    b, a = butter(4, 10.0, fs=125.0)
    inside = slice(150, 450)
    np.testing.assert_allclose(value[inside], filtfilt(b, a, x, axis=0)[inside], atol=1e-9)
    np.testing.assert_allclose(first[inside, 0], 4 * np.cos(4 * t[inside]), atol=0.5)
    gap = x.copy()
    gap[77, 1] = np.nan
    with pytest.raises(
        LogError, match=r"a value is missing at 0.616 s; .*: {method: smoother} bridges gaps"
    ):
        method.fit(t, gap, slice(0, 600), True, True, 0.008)
    with pytest.raises(LogError, match=r"needs even samples"):
        method.fit(np.delete(t, 50), np.delete(x, 50, axis=0), slice(0, 9), True, True, 0.008)
    with pytest.raises(LogError, match=r"not below half the sampling rate, 62.5 Hz"):
        Butterworth(cutoff=63.0).fit(t, x, slice(0, 9), True, True, 0.008)


@pytest.mark.finding("L8")
def test_what_takes_uneven_samples_filters_readings_too() -> None:
    """Samples 2 to 13 ms apart: a smoother was named, without the readings' filter."""
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.002, 0.013, size=3000))
    true = np.sin(4 * t)
    x = (true + 0.3 * rng.normal(size=3000))[:, None]
    with pytest.raises(LogError) as refused:
        Butterworth(cutoff=8.0, readings=True).fit(t, x, slice(0, 9), True, True, 0.0075)
    entry = yaml.safe_load(str(refused.value).partition("differentiate: ")[2])
    method = Differentiation(**entry)
    assert method.smooth and method.readings
    value = method.fit(t, x, slice(0, 3000), True, True, 0.0075)[0, :, 0]
    assert np.sqrt(np.mean((value - true) ** 2)) < 0.12
    even = np.arange(4000) * 0.001
    wave = np.cos(2 * np.pi * 8.0 * (even - 2.0))[:, None]
    kept = [
        m.fit(even, wave, slice(1990, 2010), False, False, 0.001)[0, 10, 0]
        for m in (Butterworth(cutoff=8.0), method)
    ]
    assert kept == pytest.approx([0.5, 0.5], abs=0.02)


def _dense_posterior(
    t: np.ndarray, x: np.ndarray, position_std: float, jerk: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (N, 3) of the states by one dense inverse; Q by van Loan."""
    n = len(t)
    A = np.diag([1.0, 1.0], 1)
    information, right = np.zeros((3 * n, 3 * n)), np.zeros(3 * n)
    for k in range(1, n):
        block = np.zeros((6, 6))
        block[:3, :3], block[3:, 3:], block[2, 5] = -A, A.T, jerk**2
        big = expm(block * (t[k] - t[k - 1]))
        F = big[3:, 3:].T
        rows = np.zeros((3, 3 * n))
        rows[:, 3 * k : 3 * k + 3], rows[:, 3 * k - 3 : 3 * k] = np.eye(3), -F
        information += rows.T @ np.linalg.solve(F @ big[:3, 3:], rows)
    for k in np.flatnonzero(np.isfinite(x)):
        information[3 * k, 3 * k] += position_std**-2
        right[3 * k] = x[k] / position_std**2
    covariance = np.linalg.inv(information)
    return (covariance @ right).reshape(n, 3), np.sqrt(np.diag(covariance)).reshape(n, 3)


def test_the_smoother_is_the_dense_posterior_of_its_model() -> None:
    rng = np.random.default_rng(1)
    t = np.cumsum(rng.uniform(0.005, 0.015, size=60))
    x = np.sin(6 * t) + rng.normal(scale=0.01, size=60)
    x[[20, 21, 22, 40]] = np.nan
    found = smooth_motion(t, x[:, None], Smoother(position_std=0.01, jerk=20.0))
    mean, std = _dense_posterior(t, x, 0.01, 20.0)
    for k, (value, deviation) in enumerate(
        [(found.q, found.q_std), (found.qd, found.qd_std), (found.qdd, found.qdd_std)]
    ):
        # the start is a guess of large, not of infinite variance
        np.testing.assert_allclose(value[:, 0], mean[:, k], atol=1e-3 * std[:, k].max())
        np.testing.assert_allclose(deviation[:, 0], std[:, k], rtol=1e-3)


def test_noise_levels_are_found_and_deviations_hold() -> None:
    rng, period, jerk, noise = np.random.default_rng(2), 0.01, 300.0, 2e-4
    A = np.diag([1.0, 1.0], 1)
    F, G = (
        expm(A * period),
        np.linalg.cholesky(
            jerk**2
            * np.array(
                [
                    [period**5 / 20, period**4 / 8, period**3 / 6],
                    [period**4 / 8, period**3 / 3, period**2 / 2],
                    [period**3 / 6, period**2 / 2, period],
                ]
            )
        ),
    )
    states = np.zeros((3000, 3))
    for k in range(1, 3000):
        states[k] = F @ states[k - 1] + G @ rng.normal(size=3)
    t = np.arange(3000) * period
    x = states[:, :1] + rng.normal(scale=noise, size=(3000, 1))
    tuned = Smoother().tuned(t, x)
    ((found, ratio),) = tuned.constants
    assert found == pytest.approx(noise, rel=0.1)
    assert np.sqrt(ratio * found**2 / period**5) == pytest.approx(jerk, rel=0.15)
    motion = smooth_motion(t, x)
    for k, (value, std) in enumerate(
        [(motion.q, motion.q_std), (motion.qd, motion.qd_std), (motion.qdd, motion.qdd_std)]
    ):
        held = np.abs(value[:, 0] - states[:, k]) < 1.96 * std[:, 0]
        assert 0.93 < held.mean() < 0.97


def test_a_joint_that_never_moves_has_no_known_noise() -> None:
    t = np.arange(50) * 0.01
    motion = smooth_motion(t, np.full((50, 1), 0.3))
    np.testing.assert_allclose(motion.q, 0.3)
    np.testing.assert_allclose(motion.qdd, 0.0, atol=1e-9)
    assert np.isnan(motion.q_std).all()


@pytest.mark.parametrize(
    "method",
    [Smoother(readings=True), Butterworth(8.0, readings=True)],
    ids=["smoother", "low"],
)
def test_stretches_of_a_log_are_those_of_the_whole(
    method: AbstractDifferentiation, tmp_path: Path
) -> None:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, [*sensors.all_joint_torques(robot, std=0.1)])
    rng, t = np.random.default_rng(3), np.arange(1200) * 0.01
    clean = np.stack([np.sin(2 * t), np.cos(3 * t)], axis=1)
    noisy = clean + rng.normal(scale=1e-3, size=clean.shape)
    torque = clean + rng.normal(scale=0.05, size=clean.shape)
    np.savez(tmp_path / "log.npz", time=t, q=noisy, y=torque)
    with open_log(tmp_path / "log.npz") as log:
        reader = SampleReader(layout, log, method, accelerations=True)
        whole = reader.read(0, 1200)
        parts = [reader.read(k, k + 300) for k in range(0, 1200, 300)]
    assert len(reader.derived) == 4
    for name in ("q", "qd", "qdd", "y"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(joined, getattr(whole, name), atol=1e-9)
    inside = slice(100, -100)
    assert (whole.q - clean)[inside].std() < 0.5e-3
    assert (whole.y - clean)[inside].std() < 0.03
    truth = np.stack([-4 * np.sin(2 * t), -9 * np.cos(3 * t)], axis=1)
    assert whole.qdd is not None
    assert (whole.qdd - truth)[inside].std() < 0.5


@pytest.mark.parametrize("cutoff", [3.0, 10.0, 40.0])
@pytest.mark.finding("C-27")
def test_a_wheel_that_turns_at_the_ends_of_a_log_is_not_braked(cutoff: float) -> None:
    """A low pass that had not settled there: 164 rad/s^2 in place of none, 2 rad off."""
    time = np.arange(2500) / 250.0
    wanted = slice(0, len(time))
    found = Butterworth(cutoff=cutoff).fit(time, 27 * time[:, None], wanted, True, True, 0.004)
    q, qd, qdd = found[:, :, 0]
    np.testing.assert_allclose(q, 27 * time, atol=1e-9)
    np.testing.assert_allclose(qd, 27.0, rtol=1e-9)
    np.testing.assert_allclose(qdd, 0.0, atol=1e-5)
