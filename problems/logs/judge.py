"""Does a log agree with its model? How many samples contradict it, when, and whose fault.

A sample contradicts the model if its readings would disagree as much in fewer than one of a
hundred cases. One of a hundred does so by chance: a log contradicts its model if far more do,
or if some do beyond all chance (as one log of ten thousand would), such as those of a push of a
few milliseconds. Those are the events. Whom to suspect is asked of some samples of
each, and what their sensor should have read is asked of all the others: a factor of 9.8 is a
unit, not a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.system.equations import Kinematics
from dynsys.types import Array, BoolArray, IntArray
from problems.estimation.consistency import SIGNIFICANCE, Suspect
from problems.estimation.estimation import Estimation
from problems.logs.faults import seeming_faults
from problems.logs.samples import SampleReader, Samples
from problems.logs.units import doubtful_units
from problems.measured.multiples import NEAR, times_wrong
from sensors import ExternalWrench

__all__ = ["Event", "Judgement", "doubts", "judge_log"]

LOOKED, OF_EVENT = 48, 6
"""Samples that are asked whom they suspect: of the log, of an event."""
EVENTS = 5
"""Events that are told."""
BEYOND_CHANCE = 1e-4
"""Probability that a good log has an event."""
BESIDE = 0.8
"""Part of the samples that suspect the first in which they cannot tell those tied from it."""
GAP = 10
"""Samples between two that contradict the model in one event."""
LASTING = 0.1
"""Part of the samples that contradict the model from which units are blamed, not an event."""
SCATTERED = 0.2
"""Contradictions below this share, none beside another, look like noise."""
BLOCK = 512


@final
@dataclass(frozen=True)
class Event:
    """Samples first : last that contradict the model together, and whom they suspect.

    ``start`` and ``stop`` are their times, s; ``suspects`` the first of them with those that
    the readings cannot tell from it; ``push`` (N) the force on its link that would explain it,
    if it says that nothing touches the link.
    """

    first: int
    last: int
    start: float
    stop: float
    suspects: tuple[str, ...]
    push: float | None = None

    def __str__(self) -> str:
        count = self.last - self.first
        when = f"{self.start:.6g} s" if count == 1 else f"{self.start:.6g} to {self.stop:.6g} s"
        many = "1 sample" if count == 1 else f"{count} samples"
        whom = f": suspect {_listed(self.suspects)}" if self.suspects else ""
        push = f"; a force of {self.push:.3g} N would explain it" if self.push else ""
        return f"{when} ({many}){whom}{push}"


@final
@dataclass(frozen=True)
class Judgement:
    """What a log says of its model.

    Attributes
    ----------
    samples, checked, contradicting : in all, with readings that check each other, and of those
        with p < 0.01.
    suspects : first suspects with the share of the samples looked at that suspect them, the
        most suspected first.
    tied : those that the readings cannot tell from the first.
    factor : by how much the readings of the first are wrong, in words; empty if by none.
    events : short times at which the readings contradict the model.
    units : what seems to be in other units.
    faults : jumps of positions that no joint makes, sensors that are stuck.
    """

    samples: int
    checked: int
    contradicting: int
    suspects: tuple[tuple[str, float], ...] = ()
    tied: tuple[str, ...] = ()
    factor: str = ""
    events: tuple[Event, ...] = ()
    units: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Part of the checked samples that contradict the model; 0.01 do by chance."""
        return self.contradicting / max(self.checked, 1)

    @property
    def agrees(self) -> bool:
        """False if the log contradicts the model, or something of it cannot be."""
        return not (self.units or self.faults or self.events or self._too_many)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Units and faults, a line each."""
        return _doubts(self.units, self.faults)

    @property
    def _too_many(self) -> bool:
        chance = SIGNIFICANCE * self.checked
        return bool(self.contradicting > chance + 5 * chance**0.5 + 2)

    @property
    def _scattered(self) -> bool:
        """True for more contradictions than by chance, each by itself: noise, no fault."""
        alone = all(event.last - event.first == 1 for event in self.events)
        return self._too_many and self.share < SCATTERED and alone and not self.factor

    @property
    def words(self) -> str:
        """All of it in one sentence, or a few."""
        if not self.checked:
            return "no reading is checked by others: nothing can contradict the model"
        percent = f"{100 * self.share:.3g} % of samples"
        if not (self._too_many or self.events):
            kinds = [k for k, x in (("units", self.units), ("samples", self.faults)) if x]
            but = f", but its {' and '.join(kinds)} are doubtful" if kinds else ""
            chance = f"{percent} have p < 0.01, 1 % by chance"
            return f"the readings agree with the model ({chance}){but}"
        parts = [f"{percent} contradict the model (p < 0.01)"]
        name, share = self.suspects[0] if self.suspects else ("", 0.0)
        if self._scattered:
            parts.append(
                "they are spread over the log: deviations stated too small? 'dynsys calibrate'"
                " finds those that can be known"
            )
        elif share < 0.5:
            parts.append("no single sensor explains it: units, model or noise?")
        if share > 0.0:
            often = "" if share > 0.99 else f" ({100 * share:.0f} % of those looked at)"
            right = "if they are right, " if self._scattered else ""
            parts.append(f"{right}first suspect {_listed((name, *self.tied))}{often}")
        if self.factor:
            parts.append(self.factor)
        return "; ".join(parts)

    @property
    def lines(self) -> tuple[str, ...]:
        """What a command ends with: doubts, events, and the sentence on all of it."""
        return (*self.doubts, *(f"event: {event}" for event in self.events), self.words)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "samples": self.samples,
            "checked": self.checked,
            "contradicting": self.contradicting,
            "agrees": self.agrees,
            "suspects": [{"sensor": name, "share": share} for name, share in self.suspects],
            "tied": list(self.tied),
            "factor": self.factor or None,
            "events": [vars(event) for event in self.events],
            "units": list(self.units),
            "faults": list(self.faults),
            "words": self.words,
        }


def doubts(reader: SampleReader) -> tuple[str, ...]:
    """What of a log cannot be, whatever the model: a line each. Looks that cost nothing."""
    return _doubts(doubtful_units(reader), seeming_faults(reader))


def _doubts(units: Sequence[str], faults: Sequence[str]) -> tuple[str, ...]:
    return (*(f"units? {x}" for x in units), *(f"fault? {x}" for x in faults))


def _listed(names: Sequence[str]) -> str:
    """Names, the first few in full; several are those that the readings cannot tell apart."""
    shown = list(names) if len(names) <= 4 else [*names[:3], f"{len(names) - 3} others"]
    doubt = " (the readings cannot tell)" if len(names) > 1 else ""
    return " or ".join(shown) + doubt


def judge_log(
    estimation: Estimation, reader: SampleReader, p: Array | None = None
) -> Judgement:
    """Judge all samples of a log.

    Parameters
    ----------
    p : p-values (N,) of the samples, NaN where there is none or nothing is checked; computed
        if None.
    """
    if p is None:
        p = p_values(estimation, reader)
    units, faults = doubtful_units(reader), seeming_faults(reader)
    checked = np.isfinite(p)
    bad = np.flatnonzero(checked & (p < SIGNIFICANCE))
    found = Judgement(len(p), int(checked.sum()), len(bad), units=units, faults=faults)
    runs = _events(p)
    if found.agrees and not runs:
        return found
    beyond = np.flatnonzero(_beyond_chance(p))
    together = any(run.stop - run.start > 1 for run in runs)
    # those that contradict by chance, as one of a hundred does, suspect anybody
    by_chance = len(beyond) > 0 and not found._too_many
    asked_of = beyond if together or by_chance or len(beyond) > 0.5 * len(bad) else bad
    places = asked_of[_spread(len(asked_of), LOOKED)]
    asked = _Asked(estimation, reader)
    votes, tied = asked.vote(places)
    lasting = found.share > LASTING
    factor = asked.factor(votes[0][0], places) if votes and lasting else ""
    events = tuple(asked.event(run) for run in runs)
    share = tuple((name, count / len(places)) for name, count in votes)
    return replace(found, suspects=share, tied=tied, factor=factor, events=events)


def p_values(estimation: Estimation, reader: SampleReader) -> Array:
    """p-values (N,) of all samples of a log, NaN where nothing is checked."""
    n, found = reader.log.n_samples, []
    for start in range(0, n, BLOCK):
        samples = reader.read(start, min(start + BLOCK, n))
        p = np.full(len(samples.time), np.nan)
        usable = np.isfinite(samples.q).all(axis=1) & np.isfinite(samples.qd).all(axis=1)
        q, qd, y = (x[usable] for x in (samples.q, samples.qd, samples.y))
        e = estimation.solve_batch(q, qd, y, outputs=("p_value",))
        p[usable] = np.where(np.asarray(e.degrees_of_freedom) > 0, e.p_value, np.nan)
        found.append(p)
    return np.concatenate(found)


def _spread(n: int, most: int) -> IntArray:
    """Numbers below n, at most so many, evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _beyond_chance(p: Array) -> BoolArray:
    """Samples (N,) that contradict the model as none of a good log would."""
    return np.asarray(np.nan_to_num(p, nan=1.0) < BEYOND_CHANCE / max(len(p), 1))


def _events(p: Array) -> list[slice]:
    """Stretches of samples that contradict the model beyond chance, the worst first, in order.

    None if most of the log does: that is no event.
    """
    bad = np.flatnonzero(_beyond_chance(p))
    if not len(bad) or len(bad) > 0.5 * len(p):
        return []
    cuts = np.flatnonzero(np.diff(bad) > GAP) + 1
    runs = [slice(int(run[0]), int(run[-1]) + 1) for run in np.split(bad, cuts)]
    worst = sorted(runs, key=lambda run: run.start - run.stop)[:EVENTS]
    return sorted(worst, key=lambda run: run.start)


@final
@dataclass(frozen=True, eq=False)
class _Asked:
    """Single samples of a log, asked whom they suspect."""

    estimation: Estimation
    reader: SampleReader

    def _at(self, k: int) -> Samples:
        return self.reader.read(k, k + 1)

    def _suspects(self, k: int) -> list[Suspect]:
        x = self._at(k)
        rows = self.estimation.measured.pack(x.y[0], None, None)
        try:
            return self.estimation.checks(x.q[0], x.qd[0], rows).suspects(0)
        except DynsysError:
            return []

    def vote(self, places: IntArray) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
        """First suspects by the number of samples that name them; who is tied with the first.

        A sample votes for all that it cannot tell from its first suspect; tied is who stands
        beside the first in most samples.
        """
        groups = [
            (found[0].sensor, *found[0].tied)
            for k in places.tolist()
            if (found := self._suspects(k))
        ]
        votes = Counter(name for group in groups for name in group)
        ranked = votes.most_common()
        if not ranked:
            return [], ()
        first, most = ranked[0]
        beside = Counter(name for group in groups if first in group for name in group)
        tied = tuple(name for name, _ in ranked[1:] if beside[name] >= BESIDE * most)
        return [x for x in ranked if x[0] not in tied], tied

    def event(self, run: slice) -> Event:
        """What an event is, asked of some of its samples."""
        places = run.start + _spread(run.stop - run.start, OF_EVENT)
        times = self._at(run.start).time[0], self._at(run.stop - 1).time[0]
        votes, tied = self.vote(places)
        names = (votes[0][0], *tied) if votes else ()
        pushes = (self._push(name, places) for name in names)
        push = next((x for x in pushes if x is not None), None)
        return Event(run.start, run.stop, float(times[0]), float(times[1]), names, push)

    def _push(self, name: str, places: IntArray) -> float | None:
        """Largest force (N) on a link that is said to be untouched, if the others see it."""
        layout = self.estimation.layout
        sensor = layout[name] if name in layout.names else None
        if not isinstance(sensor, ExternalWrench) or sensor.constant(1) is None:
            return None
        forces = []
        for k in places.tolist():
            x = self._at(k)
            e = self.estimation.solve(x.q[0], x.qd[0], x.y[0], active={name: False})
            forces.append(float(np.linalg.norm(e.external_wrench[sensor.frame][3:])))
        return max((f for f in forces if np.isfinite(f)), default=None)

    def factor(self, name: str, places: IntArray) -> str:
        """By what factor the readings of a sensor differ from what all others expect.

        Of all sensors of a kind, if together they do: torques with another sign, in which no
        single one is wrong. Empty if by none.
        """
        kinds: dict[str, list[str]] = {}
        for sensor in self.estimation.layout:
            if sensor.name in self.reader.readings and sensor.constant(1) is None:
                kinds.setdefault(sensor.kind, []).append(sensor.name)
        for kind, names in kinds.items():
            if len(names) > 1 and self._explained_by(names, places):
                found = self._factor(names, places)
                if found:
                    return f"the readings of all {len(names)} sensors of kind {kind} {found}"
        own = self._factor([name], places) if any(name in x for x in kinds.values()) else ""
        return f"its readings {own}" if own else ""

    def _explained_by(self, names: Sequence[str], places: IntArray) -> bool:
        """True if most samples agree with the model without the readings of some sensors."""
        samples = [self._at(k) for k in places.tolist()]
        q, qd, y = (np.concatenate([getattr(x, n) for x in samples]) for n in ("q", "qd", "y"))
        for name in names:
            y[:, self.estimation.layout.slice(name)] = np.nan
        p = self.estimation.solve_batch(q, qd, y, outputs=("p_value",)).p_value
        return bool(np.mean(np.asarray(p) < SIGNIFICANCE) < 0.5)

    def _factor(self, names: Sequence[str], places: IntArray) -> str:
        """Factor of the readings of some sensors, which each of them has, in words."""
        layout = self.estimation.layout
        rows = np.concatenate([np.arange(layout.size)[layout.slice(name)] for name in names])
        units = np.array(layout.units)[rows]
        pairs = [self._expected(k, rows) for k in places.tolist()]
        read, expected = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
        for unit in dict.fromkeys(units.tolist()):
            some = np.flatnonzero(units == unit)
            times = times_wrong(read[:, some], expected[:, some])
            if times is None:
                continue
            if len(names) > 1:  # one of them alone may outweigh all others
                rest = np.delete(some, np.nansum(read[:, some] ** 2, axis=0).argmax())
                others = times_wrong(read[:, rest], expected[:, rest])
                if others is None or not 1 / NEAR < others / times < NEAR:
                    continue
            if times < 0:
                return f"in {unit} have the wrong sign"
            size = (
                f"{times:.2g} times too small"
                if times > 1
                else f"{1 / times:.2g} times too large"
            )
            return f"in {unit} are about {size}: units?"
        return ""

    def _expected(self, k: int, rows: IntArray) -> tuple[Array, Array]:
        """Readings of some rows, and what they should be; NaN where the others do not say."""
        x, measured = self._at(k), self.estimation.measured
        y = measured.pack(x.y[0], None, None)
        read = y[rows].copy()
        y[rows] = np.nan
        try:
            found = self.estimation.posterior(x.q[0], x.qd[0], y)
        except DynsysError:
            return read, np.full(len(rows), np.nan)
        _, (Y, b) = measured.at(Kinematics.at(self.estimation.robot, x.q[0], x.qd[0]))
        some = Y[rows].toarray()
        known = found.determined(some, np.arange(some.shape[1]))
        return read, np.where(known, some @ found.d + b[rows], np.nan)
