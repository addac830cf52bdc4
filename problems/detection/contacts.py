"""Contacts felt by sensors elsewhere: when, on which link, how hard, and where along it.

A layout that states no contact (``external_wrench`` of value 0) on a link that is touched
contradicts its own readings: chi-square rises. In free motion it is not what the stated noise
promises either, for models are never right and their errors last; so the alarm is calibrated on
a log of free motion (:mod:`.alarm`), for a rate of false alarms that is asked for. Which
statement is the wrong one is what consistency says (:mod:`problems.estimation.consistency`):
suspicion of every "no contact", added up over the event. With that statement dropped, the
wrench is estimated like everything else. A force has a line of action,

    x(s) = f x m / |f|^2 + s f / |f|,         f force, m moment about the link's origin

and the place is the point of the link's axis (origin to the joints it carries) nearest to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import LayoutError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.inputs import state_rows
from dynsys.types import Array, ArrayLike
from problems.detection.alarm import Alarm, calibrate_alarm
from problems.estimation.estimation import Estimation
from problems.estimation.factors import general_backend
from problems.measured.measured_system import Readings
from sensors.external import ExternalWrench
from sensors.layout import Layout

__all__ = ["Contact", "ContactDetector"]

PAUSE = 0.1
"""Seconds below the threshold that do not end a contact."""
DRAWS = 200
"""Wrenches drawn to say how well the place is known."""


@final
@dataclass(frozen=True, eq=False)
class Contact:
    """One event of a log.

    Attributes
    ----------
    start, end, peak : times, s; the statistic is largest at the peak.
    link : the link whose "no contact" is the likeliest to be wrong.
    probability : of that, among all links that state it.
    tied : links that no reading can tell from it.
    wrench, wrench_std : (6,) on the link at the peak, in its coordinates; NaN where the sensors
        do not determine it.
    along, along_std : metres from the link's origin along its axis; NaN if not told.
    """

    start: float
    end: float
    peak: float
    link: str
    probability: float
    tied: tuple[str, ...]
    wrench: Array
    wrench_std: Array
    along: float
    along_std: float

    @property
    def force(self) -> float:
        """Size of the force, N."""
        return float(np.linalg.norm(self.wrench[3:]))

    def __str__(self) -> str:
        where = self.link + "".join(f" or {name}" for name in self.tied)
        known = "" if np.isnan(self.force) else f", {self.force:.3g} N"
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
        """
        if not _statements(problem.layout):
            raise LayoutError(
                "a contact is a statement that fails: add zero_external_wrench_except, or"
                " external_wrench sensors of value 0, for the links that may be touched"
            )
        e = problem.solve_batch(q, qd, y)
        if not np.any(e.degrees_of_freedom):
            raise LayoutError(
                "the readings are just enough for the unknowns: nothing checks that the links"
                " are untouched; add a sensor ('dynsys check' says which)"
            )
        statistic = np.asarray(e.chi_square)
        return ContactDetector(problem, calibrate_alarm(time, statistic, per_hour))

    def statistic(self, q: ArrayLike, qd: ArrayLike, y: Readings) -> float:
        """What is compared with ``alarm.threshold``, of one sample: for a control loop."""
        return float(self.problem.solve(q, qd, y).chi_square)

    def events(
        self, time: ArrayLike, q: ArrayLike, qd: ArrayLike, y: Readings
    ) -> list[Contact]:
        """All contacts of a log (N,), (N, nq), (N, nv), readings as for ``solve_batch``."""
        t = np.asarray(time, dtype=np.float64)
        positions, speeds = state_rows(self.problem.robot, (("q", q), ("qd", qd)))
        packed = self.problem.measured.pack(y, None, len(t))[:, : self.problem.layout.size]
        statistic = np.asarray(self.problem.solve_batch(positions, speeds, packed).chi_square)
        found = []
        for first, last in _joined(t, self.alarm.events(t, statistic)):
            part = slice(first, last + 1)
            peak = first + int(np.argmax(statistic[part]))
            link, probability, tied = self._link(positions[part], speeds[part], packed[part])
            wrench, covariance = self._wrench(link, positions[peak], speeds[peak], packed[peak])
            along, along_std = _place(self.problem.robot, link, wrench, covariance)
            std = np.sqrt(np.diag(covariance))
            times = t[first], t[last], t[peak]
            where = link, probability, tied
            found.append(Contact(*times, *where, wrench, std, along, along_std))
        return found

    def _link(self, q: Array, qd: Array, y: Array) -> tuple[str, float, tuple[str, ...]]:
        """Link whose statement is the likeliest to be wrong over an event; its probability."""
        suspicion = self.problem.solve_batch(q, qd, y).suspicion
        names = _statements(self.problem.layout)
        total = {name: float(np.sum(suspicion[name])) for name in names}
        whole = sum(total.values())
        best = max(total, key=lambda name: total[name])
        tied = tuple(
            names[name]
            for name, value in total.items()
            if name != best and value > (1 - 1e-6) * total[best] > 0
        )
        return names[best], total[best] / whole if whole else float("nan"), tied

    @cached_property
    def _without(self) -> dict[str, Estimation]:
        return {}

    def _wrench(self, link: str, q: Array, qd: Array, y: Array) -> tuple[Array, Array]:
        """Wrench (6,) on a link and its covariance, its statement dropped; NaN if open."""
        layout = self.problem.layout
        statement = {v: k for k, v in _statements(layout).items()}[link]
        if link not in self._without:
            others = [s for s in layout if s.name != statement]
            kept = [c for c in layout.correlations if statement not in c[:2]]
            left = Layout(layout.robot, others, kept, layout.about, quiet=True)
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


def _place(
    robot: KinematicTree, link: str, wrench: Array, covariance: Array
) -> tuple[float, float]:
    """Where along the link a force acts, and how well that is known (draws of the wrench)."""
    body = robot.body_index(link)
    ends = [robot.bodies[child].placement.r for child in robot.children[body]]
    end = max(ends, key=lambda r: float(np.linalg.norm(r)), default=np.zeros(3))
    length = float(np.linalg.norm(end))
    if length == 0 or not np.isfinite(wrench).all():
        return float("nan"), float("nan")
    axis = end / length
    draws = np.random.default_rng(0).multivariate_normal(
        wrench, 0.5 * (covariance + covariance.T), size=DRAWS, check_valid="ignore"
    )
    places = [_nearest(axis, length, draw) for draw in draws]
    return _nearest(axis, length, wrench), float(np.std(places))


def _nearest(axis: Array, length: float, wrench: Array) -> float:
    """Distance along the axis, within the link, of its point nearest to the line of action."""
    moment, force = wrench[:3], wrench[3:]
    size = float(np.linalg.norm(force))
    if size == 0:
        return float("nan")
    direction, point = force / size, np.cross(force, moment) / size**2
    along = float(axis @ direction)
    if abs(along) > 1 - 1e-6:  # a force along the link acts on all of it
        return 0.0
    s = (axis @ point - along * float(direction @ point)) / (1 - along**2)
    return float(np.clip(s, 0.0, length))
