"""A live session: a line of JSON comes in, a line of JSON goes out, and nothing stops it.

Every sample is answered by one record, in the order of arrival:

    {"type": "estimate", "time": ..., "torque": [...], "std.torque": [...], "p_value": ...,
     "alarm": false, "missing": 0, "method": "llvm", "latency_us": ...}
    {"type": "refused", "message": "time 3.2 s comes after 3.3 s"}

An alarm that begins or ends is a record of its own before the estimate's. Numbers that are not
determined are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.types import IntArray
from problems.detection.alarm import Alarm
from problems.live.decode import NOT_READINGS, SampleDecoder
from problems.live.estimator import LiveEstimator

__all__ = ["MOST_BYTES", "AlarmWatch", "Latencies", "LiveSession", "Viewer"]

MOST_BYTES = 2**20
"""Longest sample that is read."""
NEW_START = 1.0
"""Time that goes back by more than this (s) is a source that began anew."""
IMPROBABLE = 1e-9
"""p-value below which readings raise an alarm where no free motion was given: once in eleven
days at 1 kHz if noise is as the layout states it."""
PAUSE = 0.1
"""Seconds of agreement that end an alarm, if the alarm itself states none."""


# ---- how long it takes ----------------------------------------------------------------------


@final
class Latencies:
    """Quantiles of any number of durations in little memory: counts in steps of 1 %."""

    STEP = math.log(1.01)
    LEAST = 1e-7

    def __init__(self) -> None:
        self._counts: IntArray = np.zeros(2400, dtype=np.int64)
        self.n, self.largest = 0, 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        k = int(math.log(max(seconds, self.LEAST) / self.LEAST) / self.STEP)
        self._counts[min(k, len(self._counts) - 1)] += 1
        self.n += 1
        self.largest = max(self.largest, seconds)

    def quantile(self, part: float) -> float:
        """Seconds that this part of all stays below, at most 1 % too large; NaN if none."""
        if not self.n:
            return math.nan
        k = int(np.searchsorted(np.cumsum(self._counts), part * self.n))
        return min(self.LEAST * math.exp((k + 1) * self.STEP), self.largest)


# ---- alarms ---------------------------------------------------------------------------------


@final
class AlarmWatch:
    """Tells when readings begin to contradict the model, and when they agree again.

    Parameters
    ----------
    alarm : threshold on chi-square, learnt on free motion; None: p-value below 1e-9, which
        believes the noise that the layout states.
    """

    def __init__(self, alarm: Alarm | None = None) -> None:
        self._alarm = alarm
        self._pause = max(alarm.apart if alarm else 0.0, PAUSE)
        self._event: dict[str, Any] | None = None

    @property
    def words(self) -> tuple[str, float | None]:
        """What raises an alarm, and the p-value that does; None where chi-square does."""
        if self._alarm is None:
            return f"p-value below {IMPROBABLE:g}", IMPROBABLE
        return f"chi-square above {self._alarm.threshold:.4g}", None

    @property
    def is_on(self) -> bool:
        """True between the first and the last sample of an alarm, and shortly after."""
        return self._event is not None

    def look(
        self, time: float, chi_square: float, p_value: float, freedoms: int
    ) -> dict[str, Any] | None:
        """What is to be told at this sample, if anything."""
        if self._alarm is None:
            above = p_value < IMPROBABLE
        else:
            above = bool(self._alarm.comparable(chi_square, freedoms) > self._alarm.threshold)
        event = self._event
        if above:
            if event is None:
                self._event = {"start": time, "end": time, "peak": time, "samples": 1}
                self._event["chi_square"] = chi_square
                return {"type": "alarm", "state": "begins", **self._event}
            event["end"], event["samples"] = time, event["samples"] + 1
            if chi_square > event["chi_square"]:
                event["peak"], event["chi_square"] = time, chi_square
        elif event is not None and time - event["end"] > self._pause:
            return self.close()
        return None

    def close(self) -> dict[str, Any] | None:
        """End what is on."""
        event, self._event = self._event, None
        return event and {"type": "alarm", "state": "ends", **event}


# ---- the session ----------------------------------------------------------------------------


class Viewer(Protocol):
    """Whoever looks on; must not take long."""

    def show(self, time: float, session: LiveSession) -> None:
        """Show what was made of a sample, estimated or refused, that has been answered."""

    def idle(self, session: LiveSession) -> None:
        """Show what waits to be shown, while no sample comes."""


@final
@dataclass
class Counts:
    """What happened so far.

    ``lost`` are missing between numbered samples (``seq``), ``dropped`` thrown away by the
    system before they were read, ``late`` beyond the deadline, ``unsent`` records that a slow
    reader did not get.
    """

    samples: int = 0
    estimated: int = 0
    with_missing: int = 0
    refused: int = 0
    lost: int = 0
    dropped: int = 0
    late: int = 0
    alarms: int = 0
    unsent: int = 0
    methods: dict[str, int] = field(default_factory=dict)


@final
class LiveSession:
    """Answers samples one by one and counts what happens.

    Parameters
    ----------
    decoder, estimator : of one problem; the estimator prepared.
    watch : alarms.
    deadline : seconds from a sample to its estimate, beyond which it counts as late.

    Attributes
    ----------
    viewers : shown every sample, after it was answered.
    events : alarms that began or ended with the last sample.
    refusal : why the last sample was refused; nothing if it was not.
    """

    def __init__(
        self,
        decoder: SampleDecoder,
        estimator: LiveEstimator,
        watch: AlarmWatch,
        deadline: float,
    ) -> None:
        self.decoder, self.estimator, self.watch = decoder, estimator, watch
        self.deadline = deadline
        self.viewers: list[Viewer] = []
        self.events: list[dict[str, Any]] = []
        self.refusal = ""
        self.counts, self.latencies = Counts(), Latencies()
        self._begin = perf_counter()
        self._last_time = -math.inf
        self._last_seq: int | None = None
        self._strangers = 0
        ends = np.cumsum([0, *(len(o.group.columns) for o in estimator.outputs)]).tolist()
        self._groups = [
            (o.group.name, slice(a, b), (o.group.name,) == o.group.columns)
            for o, a, b in zip(estimator.outputs, ends, ends[1:], strict=False)
        ]

    def hello(self) -> dict[str, Any]:
        """What a consumer is told first: names of all numbers that come."""
        robot, layout = self.decoder.robot, self.decoder.layout
        return {
            "type": "hello",
            "robot": robot.name,
            "outputs": {o.group.name: list(o.group.columns) for o in self.estimator.outputs},
            "takes": {"time": 1, "q": robot.nq, "qd": robot.nv}
            | {s: n for s, n in layout.sizes.items() if layout[s].constant(1) is None},
            "deadline_us": round(1e6 * self.deadline, 3),
        }

    # ---- a sample ------------------------------------------------------------------------

    def answer(self, line: bytes | str, arrived: float) -> list[str]:
        """Records for a sample that arrived at that time of ``perf_counter``, as JSON.

        Whatever the line holds, this returns; the last record is the estimate or says why there
        is none.
        """
        records: list[str] = []
        self._begin_sample()
        try:
            with np.errstate(all="ignore"):
                self._estimate(_parsed(line), arrived, records)
        except DynsysError as error:
            records.append(self._refuse(str(error)))
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            records.append(self._refuse(f"cannot be solved: {error}"))
        return records

    def delivered(self, arrived: float) -> None:
        """Note that the answer to a sample has been handed on."""
        seconds = perf_counter() - arrived
        self.latencies.add(seconds)
        if seconds > self.deadline:
            self.counts.late += 1
        for viewer in self.viewers:
            viewer.show(self._last_time, self)

    def idle(self) -> None:
        """Note that no sample is waiting."""
        for viewer in self.viewers:
            viewer.idle(self)

    def dropped(self, so_far: int) -> None:
        """Note how many samples the system threw away before they were read."""
        self.counts.dropped = max(so_far, self.counts.dropped)

    def refuse(self, message: str) -> str:
        """Record for what is no sample at all: too long, binary."""
        self._begin_sample()
        return self._refuse(message)

    def _begin_sample(self) -> None:
        self.counts.samples += 1
        self.events, self.refusal = [], ""

    def _refuse(self, message: str) -> str:
        self.counts.refused += 1
        self.refusal = message[:500]
        told = {"type": "refused", "sample": self.counts.samples, "message": message[:500]}
        return json.dumps(told)

    def _time(self, given: Mapping[str, Any]) -> float:
        time = self.decoder.time(given)
        if time is None:
            return perf_counter() - self._begin
        if isinstance(time, list) and len(time) == 1:
            (time,) = time
        if type(time) not in (int, float) or not abs(time) < 1e15:
            raise ValueError(f"'time' is {str(time)[:40]}; it must be a number of seconds")
        return float(time)

    def _estimate(self, given: dict[str, Any], arrived: float, records: list[str]) -> None:
        time = self._time(given)
        if not time > self._last_time:
            if not time < self._last_time - NEW_START:
                raise _Refusal(f"time {time:.9g} s comes after {self._last_time:.9g} s")
            self._begin_anew(records, time)
        self._count_lost(given.get("seq"))
        decoder, estimator = self.decoder, self.estimator
        decoder.take(given, time)
        if len(decoder.strangers) > self._strangers:
            self._name_strangers(records)
        self._last_time = time
        estimator.solve(decoder.q, decoder.qd, decoder.y)
        counts, p = self.counts, estimator.p_value
        event = self.watch.look(time, estimator.chi_square, p, estimator.degrees_of_freedom)
        if event is not None:
            self._tell(event, records)
        values: list[Any] = estimator.row.tolist()
        if not math.isfinite(sum(values)):
            values = [x if math.isfinite(x) else None for x in values]
        told: dict[str, Any] = {"type": "estimate", "time": time}
        if type(given.get("seq")) is int:
            told["seq"] = given["seq"]
        for name, where, alone in self._groups:
            told[name] = values[where.start] if alone else values[where]
        told["p_value"] = p
        told["alarm"] = self.watch.is_on
        told["missing"], told["method"] = decoder.missing, estimator.method
        told["latency_us"] = round(1e6 * (perf_counter() - arrived), 1)
        records.append(json.dumps(told, allow_nan=False))
        counts.estimated += 1
        counts.with_missing += decoder.missing > 0
        counts.methods[estimator.method] = counts.methods.get(estimator.method, 0) + 1

    def _begin_anew(self, records: list[str], time: float) -> None:
        event = self.watch.close()
        if event is not None:
            self._tell(event, records)
        self.decoder.forget()
        self._last_seq = None
        text = f"time went back from {self._last_time:.9g} to {time:.9g} s: a new start"
        records.append(json.dumps({"type": "note", "message": text}))

    def _name_strangers(self, records: list[str]) -> None:
        new = list(self.decoder.strangers.values())[self._strangers :]
        self._strangers += len(new)
        records += [json.dumps({"type": "note", "message": text}) for text in new]

    def _tell(self, event: dict[str, Any], records: list[str]) -> None:
        self.counts.alarms += event["state"] == "begins"
        self.events.append(event)
        records.append(json.dumps(event))

    def _count_lost(self, seq: Any) -> None:
        """Count what is missing between numbered samples."""
        if type(seq) is not int or abs(seq) > 2**62:
            return
        if self._last_seq is not None and seq > self._last_seq + 1:
            self.counts.lost += seq - self._last_seq - 1
        self._last_seq = seq

    # ---- at the end ----------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """All counts and latencies, as plain values."""
        of, counts = self.latencies, self.counts

        def us(seconds: float) -> float | None:
            return round(1e6 * seconds, 1) if math.isfinite(seconds) else None

        return {
            "type": "summary",
            "seconds": round(perf_counter() - self._begin, 3),
            **vars(counts),
            "deadline_us": round(1e6 * self.deadline, 3),
            "latency_us": {
                "median": us(of.quantile(0.5)),
                "99 %": us(of.quantile(0.99)),
                "99.9 %": us(of.quantile(0.999)),
                "largest": us(of.largest if of.n else math.nan),
            },
        }


class _Refusal(DynsysError):
    """A sample that is not used."""


def _parsed(line: bytes | str) -> dict[str, Any]:
    """The object of a line of JSON; ValueError says what is wrong with it."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _Refusal(f"no JSON: {str(error)[:120]}") from None
    if not isinstance(given, dict):
        raise _Refusal(f"a sample is an object of names and numbers, got {str(given)[:40]}")
    if not given.keys() - NOT_READINGS:
        raise _Refusal("the sample is empty; give time, q, qd and readings by name")
    return given
