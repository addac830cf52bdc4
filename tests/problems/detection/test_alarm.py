"""Alarms come as often as promised, on processes that are correlated in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import genpareto

from dynsys import DynsysError, StateError
from dynsys.errors import LogError
from problems.detection.alarm import (
    Alarm,
    calibrate_alarm,
    clusters,
    correlation_time,
)


def chi_square(
    seconds: float, rate: float, memory: float, seed: int, freedoms: int = 3
) -> np.ndarray:
    """Sum of squares of so many processes that forget within ``memory`` seconds."""
    rng, a = np.random.default_rng(seed), np.exp(-1.0 / (rate * memory))
    noise = rng.normal(size=(round(seconds * rate), freedoms)) * np.sqrt(1 - a * a)
    return (lfilter([1.0], [1.0, -a], noise, axis=0) ** 2).sum(axis=1)


@pytest.mark.parametrize("memory", [0.002, 0.05, 0.3])
def test_promised_and_counted_alarms_agree(memory: float) -> None:
    rate = 100.0
    counted = 0
    for seed in range(5):
        free = chi_square(120.0, rate, memory, seed)
        t = np.arange(len(free)) / rate
        alarm = calibrate_alarm(t, free, per_hour=60.0)
        again = chi_square(3600.0, rate, memory, 100 + seed)
        counted += len(alarm.events(np.arange(len(again)) / rate, again))
    assert 30 < counted / 5 < 120


@pytest.mark.parametrize(("learnt", "watched"), [(6, 20), (20, 6), (3, 3)])
@pytest.mark.finding("A-11")
def test_thresholds_hold_where_other_readings_are_missing(learnt: int, watched: int) -> None:
    """Learnt on fewer readings the alarm never ended, on more it never came.

    Free motion has three times the chi-square that noise promises.
    """
    rate, counted = 100.0, 0
    for seed in range(5):
        free = 3.0 * chi_square(240.0, rate, 0.02, seed, learnt)
        t = np.arange(len(free)) / rate
        alarm = calibrate_alarm(t, free, 60.0, np.full(len(free), learnt))
        assert (alarm.comparable(free, np.full(len(free), learnt)) == free).all()
        again = 3.0 * chi_square(3600.0, rate, 0.02, 100 + seed, watched)
        seen = alarm.comparable(again, np.full(len(again), watched))
        counted += len(alarm.events(np.arange(len(again)) / rate, seen))
    assert 30 < counted / 5 < 120


def test_samples_that_nothing_checks_have_no_statistic() -> None:
    alarm = Alarm(50.0, 1.0, 0.1, 1.0, 0.0, freedoms=4.0)
    assert np.isnan(alarm.comparable([0.0, 7.0, 3.0], [0, 4, 0])).tolist() == [
        True,
        False,
        True,
    ]
    assert np.isnan(Alarm(50.0, 1.0, 0.1, 1.0, 0.0).comparable(0.0, 0))


@pytest.mark.parametrize("untold", [False, True])
@pytest.mark.finding("A-1")
def test_hours_in_which_nothing_was_seen_are_no_hours_without_alarms(untold: bool) -> None:
    """A pause of two hours made 1914 alarms per hour of the 60 that were promised."""
    rate, counted = 100.0, 0
    for seed in range(5):
        free = chi_square(240.0, rate, 0.05, seed)
        t = np.arange(len(free)) / rate
        t[len(t) // 2 :] += 7200.0
        if untold:  # samples come all the time, but nothing checks them
            between = np.arange(t[len(t) // 2 - 1] + 1.0, t[len(t) // 2], 1.0)
            order = np.argsort(np.concatenate([t, between]))
            free = np.concatenate([free, np.full(len(between), np.nan)])[order]
            t = np.concatenate([t, between])[order]
        alarm = calibrate_alarm(t, free, per_hour=60.0)
        assert alarm.extrapolation == pytest.approx(1.0 / (60.0 * 240.0 / 3600.0), rel=1e-3)
        again = chi_square(3600.0, rate, 0.05, 100 + seed)
        counted += len(alarm.events(np.arange(len(again)) / rate, again))
    assert 30 < counted / 5 < 120


@pytest.mark.parametrize(("shape", "scale"), [(0.3, 2.0), (0.45, 0.01)])
def test_heavy_tails_are_seen_and_rare_excursions_expected_further_out(
    shape: float, scale: float
) -> None:
    """Of 20000 samples a second apart, independent: what one in a million exceeds."""
    tail = genpareto(shape, scale=scale)
    each = tail.ppf((np.arange(20_000) + 0.5) / 20_000)
    samples = np.random.default_rng(0).permutation(each)
    alarm = calibrate_alarm(np.arange(20_000.0), samples, 3.6e-3)
    assert alarm.shape == pytest.approx(shape, rel=0.1)
    assert alarm.threshold == pytest.approx(tail.isf(1e-6), rel=0.3)
    assert alarm.threshold > 2 * tail.mean() * np.log(1e6)  # far beyond an exponential one


def test_excursions_are_counted_once() -> None:
    t = np.arange(10) * 0.1
    s = np.array([0, 5, 0, 5, 0, 0, 0, 0, 5, 0.0])
    assert [c.tolist() for c in clusters(t, s, 1.0, 0.25)] == [[1, 3], [8]]
    assert clusters(t, s, 6.0, 0.25) == []


def test_correlation_time() -> None:
    s = chi_square(400.0, 100.0, 0.2, 0)
    # squares of a process that forgets exponentially forget twice as fast
    assert correlation_time(np.arange(len(s)) / 100.0, s) == pytest.approx(0.2, rel=0.25)


def test_bad_input_is_named() -> None:
    with pytest.raises(LogError, match="60 samples of free motion at least, got 3"):
        calibrate_alarm([0, 1, 2], [0, 1, 2], 1.0)
    with pytest.raises(LogError, match="must be positive"):
        calibrate_alarm(np.arange(99), np.arange(99), 0.0)


INF = float("inf")
NAN = float("nan")
FREE = np.random.default_rng(0).chisquare(3, size=2000)
CLOCK = np.arange(2000) / 100.0


@pytest.mark.parametrize(
    ("time", "statistic", "per_hour", "error", "why"),
    [
        (CLOCK[::-1], FREE, 1.0, StateError, "must ascend"),
        (0.0 * CLOCK, FREE, 1.0, StateError, "must ascend"),
        (CLOCK[:-1], FREE, 1.0, StateError, "shape"),
        (np.r_[CLOCK[:-1], NAN], FREE, 1.0, StateError, "sample 1999 is nan"),
        (CLOCK, np.r_[FREE[:-1], INF], 1.0, StateError, "1999 is infinite"),
        (CLOCK, FREE[:, None], 1.0, StateError, "shape \\(N,\\)"),
        (CLOCK, ["x"] * 2000, 1.0, StateError, "not numeric"),
        (CLOCK, np.full(2000, 3.0), 1.0, LogError, "3 at every sample"),
        (CLOCK, FREE, "1", LogError, "must be positive, got '1'"),
        (CLOCK, FREE, 1e9, LogError, "ask for fewer"),
    ],
)
@pytest.mark.finding("T-1")
def test_no_threshold_is_better_than_one_that_never_alarms(
    time: Any, statistic: Any, per_hour: Any, error: type[DynsysError], why: str
) -> None:
    with pytest.raises(error, match=why):
        calibrate_alarm(time, statistic, per_hour)


def test_masked_and_missing_statistics_are_left_out() -> None:
    holes = FREE > 8.0
    masked = calibrate_alarm(CLOCK, np.ma.masked_array(FREE, holes), 60.0)
    missing = calibrate_alarm(CLOCK, np.where(holes, NAN, FREE), 60.0)
    assert masked == missing
    assert masked.threshold < calibrate_alarm(CLOCK, FREE, 60.0).threshold


def test_an_alarm_has_a_threshold() -> None:
    for threshold in (NAN, INF):
        with pytest.raises(LogError, match="no alarm"):
            Alarm(threshold, 1.0, 0.1, 1.0, 0.0)
    with pytest.raises(StateError, match="shape"):
        Alarm(1.0, 1.0, 0.1, 1.0, 0.0).events(CLOCK, FREE[:-1])
