"""A session answers every line, whatever it holds, and counts what happened."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from problems.detection.alarm import Alarm
from problems.live.session import AlarmWatch, Latencies, LiveSession
from problems.logs.samples import Samples
from problems.problem_file import ProblemFile
from tests.problems.live.live_cases import answered, new_session, sample_of

Live = tuple[ProblemFile, Samples]


@pytest.fixture(scope="module")
def session(live: Live) -> LiveSession:
    return new_session(live[0])


def test_estimates_are_those_of_solve(live: Live) -> None:
    problem, samples = live
    session = new_session(problem)
    for k in range(3):
        told = answered(session, sample_of(problem, samples, k) | {"seq": k})
        e = problem.estimation.solve(samples.q[k], samples.qd[k], samples.y[k])
        np.testing.assert_allclose(told["torque"], e.torque.array, rtol=1e-8, atol=1e-8)
        assert told["type"] == "estimate" and told["seq"] == k and not told["alarm"]
        assert told["chi_square"] == pytest.approx(float(e.chi_square), rel=1e-6)
    assert session.counts.estimated == 3 and session.counts.methods == {"llvm": 3}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"[1, 2]", "object of names"),
        (b"7", "object of names"),
        (b"null", "object of names"),
        (b"{}", "empty"),
        (b'{"time": 1}', "empty"),
        (b"[" * 100_000, "no JSON"),
        (b'{"time": ' + b"9" * 5000 + b', "q": 1}', "no JSON|time"),
        (b'{"time": "now", "q": [1]}', "'time' is now"),
        (b'{"time": NaN, "q": [1]}', "'time' is nan"),
        (b'{"time": true, "q": [1]}', "'time' is True"),
        (b'{"time": 1e300, "q": [1]}', "'time'"),
        (b'{"q": {"a": 1}}', "numbers per sample"),
    ],
)
def test_what_is_no_sample_is_refused(session: LiveSession, line: bytes, words: str) -> None:
    before = session.counts.refused
    told = answered(session, line)
    assert told["type"] == "refused"
    assert any(word in told["message"] for word in words.split("|")), told
    assert session.counts.refused == before + 1


NAMES = st.sampled_from(["time", "q", "qd", "ft", "imu", "y", "seq", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda x: st.lists(x, max_size=8) | st.dictionaries(st.text(max_size=5), x, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=st.dictionaries(NAMES, VALUES, max_size=3))
def test_spoilt_samples_never_raise(
    live: Live, session: LiveSession, changes: dict[str, object]
) -> None:
    problem, samples = live
    told = answered(session, sample_of(problem, samples, 0) | changes)
    assert told["type"] in ("estimate", "refused")


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(line=st.binary(max_size=200))
def test_bytes_never_raise(session: LiveSession, line: bytes) -> None:
    assert answered(session, line)["type"] in ("estimate", "refused")


def test_huge_readings_are_answered_or_refused(live: Live) -> None:
    problem, samples = live
    session = new_session(problem)
    for k, size in enumerate((1e20, 1e60, 1e74, 1e80, 1e160, 1e308)):
        spoilt = sample_of(problem, samples, 0) | {"time": float(k), "ft": [size] * 6}
        told = answered(session, spoilt)
        assert told["type"] in ("estimate", "refused")
        assert "NaN" not in json.dumps(told)


def test_time_that_goes_back_is_refused_and_a_new_start_is_not(live: Live) -> None:
    problem, samples = live
    session, given = new_session(problem), sample_of(problem, samples, 0)
    assert answered(session, given | {"time": 100.0})["type"] == "estimate"
    for late in (100.0, 99.99):
        told = answered(session, given | {"time": late})
        assert told["type"] == "refused" and "comes after 100 s" in told["message"]
    records = [json.loads(r) for r in session.answer(json.dumps(given | {"time": 0.5}), 0.0)]
    assert [r["type"] for r in records] == ["note", "estimate"]
    assert "a new start" in records[0]["message"]


def test_an_alarm_that_a_new_start_ends_is_told_though_its_sample_is_refused(
    live: Live,
) -> None:
    problem, samples = live
    session = new_session(problem, ("torque",))
    good = sample_of(problem, samples, 0) | {"time": 10.0}
    answered(session, good | {"imu": [1e3] * 6})
    assert [e["state"] for e in session.events] == ["begins"] and not session.refusal
    told = [json.loads(r) for r in session.answer(json.dumps({"time": 1.0, "q": [0]}), 0.0)]
    assert [r["type"] for r in told] == ["alarm", "note", "refused"]
    assert [e["state"] for e in session.events] == ["ends"]
    assert session.refusal == told[-1]["message"]
    answered(session, good | {"time": 11.0})
    assert not session.events and not session.refusal


def test_gaps_between_numbered_samples_are_lost(live: Live) -> None:
    problem, samples = live
    session, given = new_session(problem), sample_of(problem, samples, 0)
    for k in (0, 1, 5, 6, 8):
        answered(session, given | {"seq": k, "time": float(k)})
    assert session.counts.lost == 4


def test_samples_without_time_have_the_clocks(live: Live) -> None:
    problem, samples = live
    session, given = new_session(problem), sample_of(problem, samples, 0)
    given.pop("time")
    times = [answered(session, given)["time"] for _ in range(3)]
    assert times == sorted(times) and times[0] < times[2]


def test_alarms_begin_and_end(live: Live) -> None:
    problem, samples = live
    session, events = new_session(problem), []
    for k in range(60):
        given = sample_of(problem, samples, k) | {"time": 0.02 * k}
        if 10 <= k < 20 and k != 15:
            given["imu"] = [given["imu"][0] + 30.0, *given["imu"][1:]]
        records = [json.loads(r) for r in session.answer(json.dumps(given), 0.0)]
        events += [r for r in records if r["type"] == "alarm"]
        assert records[-1]["alarm"] == (10 <= k <= 24), k
    assert [e["state"] for e in events] == ["begins", "ends"]
    assert events[1]["start"] == pytest.approx(0.2) and events[1]["end"] == pytest.approx(0.38)
    assert events[1]["samples"] == 9 and session.counts.alarms == 1


def test_an_alarm_learnt_on_free_motion_looks_at_chi_square() -> None:
    watch = AlarmWatch(Alarm(50.0, 1.0, 0.01, 1.0, 0.0))
    assert watch.look(0.0, 49.0, 0.5, 9) is None
    assert watch.look(0.1, float("nan"), float("nan"), 9) is None
    told = watch.look(0.2, 51.0, 0.5, 9)
    assert told is not None and told["state"] == "begins"


@pytest.mark.finding("A-11")
def test_an_alarm_heeds_degrees_of_freedom() -> None:
    """With readings missing a chi-square of 40 is as improbable as 52 with all."""
    for free, begins in ((20, False), (12, True), (0, False)):
        watch = AlarmWatch(Alarm(50.0, 1.0, 0.01, 1.0, 0.0, freedoms=20.0))
        assert (watch.look(0.0, 40.0, 0.5, free) is not None) == begins


def test_late_samples_and_quantiles() -> None:
    of = Latencies()
    values = np.random.default_rng(0).lognormal(-9, 1, 20_000)
    for x in values:
        of.add(float(x))
    for part in (0.5, 0.99, 0.999):
        exact = np.quantile(values, part, method="inverted_cdf")
        assert exact <= of.quantile(part) * (1 + 1e-12) <= 1.0101 * exact
    assert of.largest == values.max() and np.isnan(Latencies().quantile(0.5))
