"""Contacts felt by sensors elsewhere: when, on which link, how hard, and where along it.

A layout that states no contact (``external_wrench`` of value 0) on a link that is touched
contradicts its own readings: chi-square rises. In free motion it is not what the stated noise
promises either, for models are never right and their errors last; so the alarm is calibrated on
a log of free motion (:mod:`.alarm`), for a rate of false alarms that is asked for. Which
statement is the wrong one is what consistency says (:mod:`problems.estimation.consistency`):
suspicion of every "no contact", added up over the event. Neighbours are hard to tell apart: a
force through the axis of a joint puts no torque on it, so that the links on both sides explain
it alike, however hard it pushes. All that may be it are named (``among``). Of links that
explain it alike, the one whose wrench moves fewer joints is believed more: a force that happens
to move none of the outer joints is taken for one nearer the base. With the statement dropped,
the wrench is estimated like everything else. A force has a line of action,

    x(s) = f x m / |f|^2 + s f / |f|,         f force, m moment about the link's origin

and the place is the point of the link's axis (origin to the farthest joint or frame on it)
nearest to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import LayoutError, StateError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.inputs import state_rows
from dynsys.types import Array, ArrayLike
from problems.detection.alarm import Alarm, calibrate_alarm
from problems.estimation.estimate import Estimate
from problems.estimation.estimation import Estimation
from problems.estimation.factors import general_backend
from problems.inputs import ascending_times
from problems.measured.measured_system import Readings
from sensors.external import ExternalWrench
from sensors.layout import Layout

__all__ = ["Contact", "ContactDetector"]

PAUSE = 0.1
"""Seconds below the threshold that do not end a contact."""
STATISTIC = ("chi_square",)
AMONG = 0.95
"""Probability that the links which are named have together."""
ASKED = 12
"""Samples of a contact that are asked for the link."""
DRAWS = 200
"""Wrenches drawn to say how well the place is known."""


@final
@dataclass(frozen=True, eq=False)
class Contact:
    """One event of a log.

    Attributes
    ----------
    start, end, peak : times, s; the statistic is largest at the peak.
    link : the link whose "no contact" is the likeliest to be wrong; of those that no reading
        can tell apart, the one on which the smallest force explains the readings.
    probability : of that, among all links that state it.
    tied : links that no reading can tell from it.
    among : the likeliest links, that one first, which together have 95 % of the probability.
    wrench, covariance : (6,), (6, 6) on the link at the peak, in its coordinates; NaN where the
        sensors do not determine it.
    along, along_std : metres from the link's origin along its axis, the line from there to the
        farthest of its frames; NaN if not told, within the length of that line.
    """

    start: float
    end: float
    peak: float
    link: str
    probability: float
    tied: tuple[str, ...]
    among: tuple[str, ...]
    wrench: Array
    covariance: Array
    along: float
    along_std: float

    @property
    def wrench_std(self) -> Array:
        """Deviations (6,) of the wrench."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    @property
    def force(self) -> float:
        """Size of the force, N."""
        return float(np.linalg.norm(self.wrench[3:]))

    @property
    def force_std(self) -> float:
        """Deviation of the size of the force, N: along its direction."""
        along = self.wrench[3:] / self.force if self.force else np.zeros(3)
        return float(np.sqrt(along @ self.covariance[3:, 3:] @ along))

    @property
    def where(self) -> str:
        """The link, or those that it is among."""
        return " or ".join(self.among)

    def __str__(self) -> str:
        where = self.where
        known = ""
        if np.isfinite(self.force):
            known = f", {self.force:.3g} +- {self.force_std:.2g} N"
        place = ""
        if np.isfinite(self.along):
            place = f", {1e2 * self.along:.0f} +- {1e2 * self.along_std:.0f} cm along it"
        return f"{self.start:.3f} to {self.end:.3f} s: contact on {where}{known}{place}"


@final
@dataclass(frozen=True, eq=False)
class ContactDetector:
    """Finds contacts in logs, or sample by sample.

    Parameters
    ----------
    problem : estimation whose layout states "no contact" on the links that may be touched.
    alarm : threshold on the chi-square of a sample, see :meth:`calibrated`.
    """

    problem: Estimation
    alarm: Alarm

    def __post_init__(self) -> None:
        if not isinstance(self.alarm, Alarm):
            raise LayoutError(
                f"a detector needs an Alarm, got {self.alarm!r:.60}; write"
                " ContactDetector.calibrated(problem, time, q, qd, y) with a free motion"
            )
        _check_statements(self.problem)

    @staticmethod
    def calibrated(
        problem: Estimation,
        time: ArrayLike,
        q: ArrayLike,
        qd: ArrayLike,
        y: Readings,
        per_hour: float = 1.0,
    ) -> ContactDetector:
        """Detector with that many false alarms per hour, from a log of free motion.

        Raises
        ------
        LayoutError
            if no link states that it is not touched, or nothing checks those statements.
        StateError, LogError
            if the log, or the rate, does not serve; see :func:`calibrate_alarm`.
        """
        _check_statements(problem)
        e = _checked(problem.solve_batch(q, qd, y, outputs=STATISTIC))
        alarm = calibrate_alarm(time, e.chi_square, per_hour, e.degrees_of_freedom)
        return ContactDetector(problem, alarm)

    def statistic(self, q: ArrayLike, qd: ArrayLike, y: Readings) -> float:
        """What is compared with ``alarm.threshold``, of one sample: for a control loop.

        Chi-square, where readings are missing as it would be with all (``alarm.comparable``);
        NaN if so many readings are missing that nothing checks the statements: such a sample
        tells nothing, neither a contact nor that there is none.
        """
        e = self.problem.solve(q, qd, y)
        return float(self.alarm.comparable(e.chi_square, e.degrees_of_freedom))

    def events(
        self, time: ArrayLike, q: ArrayLike, qd: ArrayLike, y: Readings
    ) -> list[Contact]:
        """All contacts of a log (N,), (N, nq), (N, nv), readings as for ``solve_batch``.

        Samples that nothing checks, since readings are missing, belong to no contact.

        Raises
        ------
        LayoutError
            if nothing checks any sample.
        """
        positions, speeds = state_rows(self.problem.robot, (("q", q), ("qd", qd)))
        t = ascending_times(time, len(positions))
        if not len(t):
            raise StateError("the log has no sample")
        packed = self.problem.measured.pack(y, None, len(t))[:, : self.problem.layout.size]
        e = _checked(self.problem.solve_batch(positions, speeds, packed, outputs=STATISTIC))
        statistic = self.alarm.comparable(e.chi_square, e.degrees_of_freedom)
        found = []
        for first, last in _joined(t, self.alarm.events(t, statistic)):
            part = slice(first, last + 1)
            peak = first + int(np.nanargmax(statistic[part]))
            asked = self._link(positions[part], speeds[part], packed[part])
            likeliest, probability, tied, among = asked
            at_peak = positions[peak], speeds[peak], packed[peak]
            wrenches = {one: self._wrench(one, *at_peak) for one in (likeliest, *tied)}
            link = min(wrenches, key=lambda one: _size(wrenches[one][0]))
            tied = tuple(one for one in wrenches if one != link)
            among = (link, *(one for one in among if one != link))
            wrench, covariance = wrenches[link]
            place = _place(self.problem.robot, link, wrench, covariance)
            times = float(t[first]), float(t[last]), float(t[peak])
            found.append(
                Contact(*times, link, probability, tied, among, wrench, covariance, *place)
            )
        return found

    def _link(
        self, q: Array, qd: Array, y: Array
    ) -> tuple[str, float, tuple[str, ...], tuple[str, ...]]:
        """Link whose statement is the likeliest to be wrong over an event, as in a contact.

        Asked of some samples, the doubt of all added up. Where readings agree by the stated
        noise, which may be larger than that of free motion, nobody is suspected: the odds count
        all the same.
        """
        at = np.unique(np.linspace(0, len(q) - 1, ASKED).astype(np.intp))
        suspicion = self.problem.solve_batch(q[at], qd[at], y[at]).suspicion
        names = _statements(self.problem.layout)
        total = {name: float(np.sum(suspicion[name])) for name in names}
        whole = sum(total.values())
        if not whole:
            rows = [self.problem.measured.pack(y[k], None, None) for k in at]
            odds = [self.problem.checks(q[k], qd[k], r) for k, r in zip(at, rows, strict=True)]
            places = {name: odds[0].names.index(name) for name in names}
            total = {n: sum(float(o.odds[0, s]) for o in odds) for n, s in places.items()}
            whole = sum(total.values())
        best = max(total, key=lambda name: total[name])
        tied = tuple(
            names[name]
            for name, value in total.items()
            if name != best and value > (1 - 1e-6) * total[best] > 0
        )
        ranked = sorted(total, key=lambda name: -total[name])
        before = np.cumsum([0.0, *(total[name] for name in ranked)])[:-1]
        among = tuple(
            names[name]
            for name, sooner in zip(ranked, before, strict=True)
            if name == best or names[name] in tied or sooner < AMONG * whole
        )
        return names[best], total[best] / whole if whole else float("nan"), tied, among

    @cached_property
    def _without(self) -> dict[str, Estimation]:
        return {}

    def _wrench(self, link: str, q: Array, qd: Array, y: Array) -> tuple[Array, Array]:
        """Wrench (6,) on a link and its covariance, its statement dropped; NaN if open."""
        layout = self.problem.layout
        statement = {v: k for k, v in _statements(layout).items()}[link]
        if link not in self._without:
            others = [s for s in layout if s.name != statement]
            left = layout.with_sensors(others)
            self._without[link] = Estimation(
                layout.robot, left, self.problem.prior, general_backend()
            )
        problem = self._without[link]
        rows = problem.measured.pack(np.delete(y, np.r_[layout.slice(statement)]), None, None)
        posterior = problem.posterior(q, qd, rows)
        body = layout.robot.body_index(link)
        columns = problem.measured.laws.unknowns.block("external_wrench", body).columns
        if not posterior.determined(np.eye(6), columns).all():
            return np.full(6, np.nan), np.full((6, 6), np.nan)
        return posterior.d[columns], posterior.covariance(columns)


def _size(wrench: Array) -> float:
    """Size of the force of a wrench, N; of one that is not determined, infinite."""
    return float(np.linalg.norm(wrench[3:])) if np.isfinite(wrench).all() else float("inf")


def _joined(time: Array, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Events with hardly a pause between them as one: a push may dip below the threshold."""
    found: list[tuple[int, int]] = []
    for first, last in events:
        if found and time[first] - time[found[-1][1]] < PAUSE:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def _statements(layout: Layout) -> Mapping[str, str]:
    """Sensors that state that a link is untouched, and the names of the links."""
    robot = layout.robot
    return {
        s.name: robot.body_names[robot.frame(s.frame).body]
        for s in layout
        if isinstance(s, ExternalWrench) and s.value is not None and not np.any(s.value)
    }


def _check_statements(problem: Estimation) -> None:
    """Refuse what cannot detect contacts."""
    if not isinstance(problem, Estimation):
        raise LayoutError(
            f"contacts are detected by a problems.Estimation, got {problem!r:.60}"
        )
    links = list(_statements(problem.layout).values())
    if not links:
        raise LayoutError(
            "a contact is a statement that fails: add zero_external_wrench_except, or"
            " external_wrench sensors of value 0, for the links that may be touched"
        )
    twice = [link for link in links if links.count(link) > 1]
    if twice:
        raise LayoutError(
            f"several sensors state that link {twice[0]!r} is untouched: none of them alone can"
            " be the wrong one; keep one"
        )


def _checked(e: Estimate) -> Estimate:
    """The same batch; LayoutError if nothing checks any of its samples."""
    if not (np.asarray(e.degrees_of_freedom) > 0).any():
        raise LayoutError(
            "the readings are just enough for the unknowns: nothing checks that the links"
            " are untouched; add a sensor ('dynsys check' says which)"
        )
    return e


def _place(
    robot: KinematicTree, link: str, wrench: Array, covariance: Array
) -> tuple[float, float]:
    """Where along the link a force acts, and how well that is known (draws of the wrench)."""
    body = robot.body_index(link)
    ends = [robot.bodies[child].placement.r for child in robot.children[body]]
    ends += [frame.transform.r for frame in robot.frames.values() if frame.body == body]
    end = max(ends, key=lambda r: float(np.linalg.norm(r)), default=np.zeros(3))
    length = float(np.linalg.norm(end))
    axis = end / length if length else end
    place = _nearest(axis, wrench) if length else float("nan")
    if not np.isfinite(place):
        return float("nan"), float("nan")
    draws = np.random.default_rng(0).multivariate_normal(
        wrench, 0.5 * (covariance + covariance.T), size=DRAWS, check_valid="ignore"
    )
    places = [_nearest(axis, draw) for draw in draws]
    low, high = np.nanpercentile(places, [15.87, 84.13])  # some may be far off: almost along it
    std = float(high - low) / 2
    return (place, std) if std < length else (float("nan"), float("nan"))


def _nearest(axis: Array, wrench: Array) -> float:
    """Distance along the axis of its point nearest to the line of action; NaN if all are.

    It may lie beyond the frames of a link: they are where others are attached, not its ends.
    """
    moment, force = wrench[:3], wrench[3:]
    size = float(np.linalg.norm(force))
    if size == 0:
        return float("nan")
    direction, point = force / size, np.cross(force, moment) / size**2
    along = float(axis @ direction)
    if abs(along) > 1 - 1e-6:  # a force along the link acts on all of it
        return float("nan")
    s = axis @ point / (1 - along**2)  # point is the one of the line nearest to the origin
    return float(s)
