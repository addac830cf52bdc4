"""Samples as they arrive: names and numbers, the names those of logs (:mod:`problems.logs`).

    {"time": 12.345, "q": [...], "qd": [...], "l_ankle_ft": [...], "chest_imu": [...]}

``q.JOINT``, ``qdd``, ``effort.JOINT``, ``y``, ``SENSOR.ROW`` and the problem file's ``columns``
are understood as in logs. A reading that is not there, ``null`` or NaN is missing; a position
never may be. Velocities and joint accelerations that do not come are made of the positions
before, by a polynomial over the last ``window`` seconds
(:class:`problems.logs.Differentiation`, causal).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.errors import LogError, nearest_name
from dynsys.kernel.taking import LARGEST
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, IntArray
from problems.labels import joint_columns
from problems.logs.columns import Column, Columns
from problems.logs.differentiate import AbstractDifferentiation, Differentiation
from problems.logs.samples import SampleReader, continuous_positions, rates
from problems.logs.source import AbstractLog, Source
from problems.problem_file import ProblemFile
from sensors import JointAcceleration

__all__ = ["SampleDecoder", "causal"]

FORMS = 64
"""Sets of names that are remembered: sensors that come at rates of their own make a few."""
MOST = LARGEST**0.5
"""Numbers are smaller: their squares are still numbers."""
NOT_READINGS = frozenset({"time", "seq"})


@final
class SampleDecoder:
    """Turns a mapping of names to numbers into q, qd and y.

    Attributes
    ----------
    q, qd, y : (nq,), (nv,), (size,) of the last sample, overwritten by the next.
    missing : how many of its readings are missing.
    method : how velocities are made that do not come.
    strangers : what was said of names that mean nothing, by name.
    """

    def __init__(self, problem: ProblemFile) -> None:
        self._problem, self.robot, self.layout = problem, problem.tree, problem.sensors
        robot, size = self.robot, self.layout.size
        self._packed = np.zeros(robot.nq + robot.nv + size)
        self.q = self._packed[: robot.nq]
        self.qd = self._packed[robot.nq : robot.nq + robot.nv]
        self.y = self._packed[robot.nq + robot.nv :]
        self.missing = 0
        self._constants = self.layout.constants
        self._rows = _rows_by_name(problem)
        self._forms: dict[tuple[object, ...], _Form] = {}
        self.method = causal(problem.differentiation)
        self._past = _Past(self.method)
        self.strangers: dict[str, str] = {}

    def time(self, given: Mapping[str, Any]) -> Any:
        """What the sample says its time is, in seconds; None if nothing."""
        parts = self._problem.columns.columns.get("time", ())
        name = parts[0].source if parts else "time"
        if not parts or name not in given:
            return given.get("time")
        sample = _OneSample({name: 1})
        return float(parts[0].made({name: numbers(name, [given[name]])[None]}, sample)[0, 0])

    def forget(self) -> None:
        """Begin anew: what came before is no past of what comes."""
        self._past.clear()

    def take(self, given: Mapping[str, Any], time: float) -> None:
        """Read a sample into q, qd and y.

        Raises
        ------
        LogError
            naming what is missing or no number; nothing of such a sample is to be used.
        """
        missing: Sequence[str] = ()
        if None in given.values():
            missing = [name for name, value in given.items() if value is None]
            given = {name: value for name, value in given.items() if value is not None}
        form = self._form(given)
        values = form.values(given)
        packed = self._packed
        self.qd.fill(math.nan)
        self.y[:] = self._constants
        for name in missing:  # of a statement: it does not hold
            self.y[self._rows.get(name, [])] = math.nan
        packed[form.to] = values[form.take]
        if form.times is not None:  # accelerations of leaders, of joints that follow them
            self.y *= form.times
        for where in self.robot.quaternion_slices:
            u = self.q[where]
            norm = math.sqrt(float(u @ u))
            if not 0 < norm < math.inf:
                raise LogError(f"the quaternion {u.tolist()} of q is none")
            u /= norm
        self._check("q", self.q)
        if len(form.speeds_wanted) or form.accelerations:
            self._differentiate(form, time)
        self._check("qd", self.qd)
        self._check("y", self.y)
        self.missing = int(np.isnan(packed).sum())

    def _check(self, quantity: str, x: Array) -> None:
        """Refuse numbers that nothing can be computed with; readings may be missing."""
        fine = np.abs(x) < MOST
        if quantity == "y":
            fine |= np.isnan(x)
        if fine.all():
            return
        k = int(np.argmin(fine))
        value = float(x[k])
        if quantity == "y":
            name, out = self.layout.labels[k], "; leave out what was not measured"
        else:
            name, out = joint_columns(self.robot, quantity)[k].partition(".")[2], ""
        how = "not a finite number" if math.isnan(value) else "infinite or too large"
        if math.isfinite(value):
            how = f"{value:.3g}, which is too large (not below {MOST:.0e})"
        raise LogError(f"{quantity}: {name} is {how}{out}")

    # ---- which number is which -----------------------------------------------------------

    def _form(self, given: Mapping[str, Any]) -> _Form:
        key = tuple((k, len(v) if isinstance(v, list) else 1) for k, v in given.items())
        form = self._forms.get(key)
        if form is None:
            if len(self._forms) >= FORMS:
                self._forms.clear()
            form = self._forms[key] = self._new_form(dict(key))
        return form

    def _new_form(self, widths: Mapping[str, int]) -> _Form:
        sample = _OneSample(widths)
        log = self._columns_of(sample).applied(sample)
        reader = SampleReader(self.layout, log, Differentiation(), allow_missing=True)
        self._look_for_strangers(widths, reader, log)
        robot, nq, nv = self.robot, self.robot.nq, self.robot.nv
        where: list[tuple[Source, int]] = []
        where += [(s, robot.q_slices()[i].start) for i, s in reader.positions.items()]
        where += [(s, nq + robot.v_slices()[i].start) for i, s in reader.velocities.items()]
        where += [
            (s, nq + nv + self.layout.slice(name).start) for name, s in reader.readings.items()
        ]
        accelerations, times = [], np.ones(self.layout.size)
        for name, (joint, ratio) in reader.wanted_accelerations.items():
            sensor, rows = self.layout[name], self.layout.slice(name)
            assert isinstance(sensor, JointAcceleration)
            given, one = reader.given_accelerations.get(joint), sensor.component
            if given is not None:
                source = given if one is None else given.number(one)
                where.append((source, nq + nv + rows.start))
                times[rows] = ratio
                continue
            freedoms = np.arange(nv)[robot.v_slices()[joint]]
            accelerations.append((rows, freedoms if one is None else freedoms[[one]], ratio))
        names = tuple(dict.fromkeys(name for source, _ in where for name in source.names))
        ends = np.cumsum([0, *(log.widths[name] for name in names)]).tolist()
        starts = dict(zip(names, ends, strict=False))
        take: list[int] = []
        to: list[int] = []
        for source, place in where:
            columns = [
                k for n in source.names for k in range(starts[n], starts[n] + log.widths[n])
            ]
            columns = columns if source.part is None else columns[source.part]
            take += columns
            to += range(place, place + len(columns))
        still = [i for i in reader.positions if i not in reader.velocities]
        speeds = [np.arange(nv)[robot.v_slices()[i]] for i in still]
        return _Form(
            names,
            np.array(take, dtype=np.intp),
            np.array(to, dtype=np.intp),
            np.concatenate(speeds) if speeds else np.zeros(0, dtype=np.intp),
            tuple(accelerations),
            None if (times == 1).all() else times,
            (log, sample) if log is not sample else None,
        )

    def _columns_of(self, sample: _OneSample) -> Columns:
        """Names and units of the problem file, as far as the sample has what they name.

        A name of ours by which the robot calls something else is not ours where that is all
        that came.
        """
        given = self._problem.columns

        def is_there(part: Column) -> bool:
            with suppress(LogError):
                return bool(part.find(sample)[0])
            return False

        there = {k: v for k, v in given.columns.items() if all(map(is_there, v))}
        sources = {part.find(sample)[0] for parts in there.values() for part in parts}
        there |= {k: () for k in given.columns if k in sources and k not in there}
        own = {n.partition(".")[2].partition("[")[0] for n in sample.widths}
        joints = {ours: theirs for ours, theirs in given.joints.items() if theirs in own}
        return Columns(there, joints)

    def _look_for_strangers(
        self, widths: Mapping[str, int], reader: SampleReader, log: AbstractLog
    ) -> None:
        """Note names that mean nothing here; refuse where no other says anything."""
        used = set(NOT_READINGS)
        motion = (reader.positions, reader.velocities, reader.given_accelerations)
        for sources in (*motion, reader.readings):
            used |= {name for source in sources.values() for name in source.names}
        if log.widths.keys() != widths.keys() | {"time"}:  # renamed: whose is whose is not told
            return
        known = (*self.layout.names, "q", "qd", "qdd", "y", "time", "seq")
        strange = {
            name: f"{name[:60]!r} is no sensor, joint or array of the problem"
            f"{nearest_name(name[:60], known)}"
            for name in widths
            if name not in used
        }
        if strange and not reader.readings and np.isnan(self._constants).any():
            raise LogError(f"no sensor is named: {next(iter(strange.values()))}")
        if len(self.strangers) < FORMS:
            self.strangers |= strange

    # ---- what does not come --------------------------------------------------------------

    def _differentiate(self, form: _Form, time: float) -> None:
        found = self._past.rates(self.robot, time, self.q, self.qd)
        if found is None:
            if len(form.speeds_wanted):
                raise LogError(
                    f"waiting: velocities are made of the last {self.method.window:g} s"
                    " of positions"
                )
            return
        qd, qdd = found
        self.qd[form.speeds_wanted] = qd[form.speeds_wanted]
        for where, freedoms, ratio in form.accelerations:
            self.y[where] = ratio * qdd[freedoms]


def causal(method: AbstractDifferentiation) -> Differentiation:
    """How velocities are made while samples come, where a problem's logs use a method."""
    own = method if isinstance(method, Differentiation) else Differentiation()
    return replace(own, causal=True)


def _rows_by_name(problem: ProblemFile) -> dict[str, list[int]]:
    """Rows of y by the names that they come by: y, of a sensor, of a row, the robot's own.

    Several sensors may be read from one array of the robot: all of them come by its name.
    """
    layout = problem.sensors
    ours = {"y": [*range(layout.size)]}
    ours |= {label: [k] for k, label in enumerate(layout.labels)}
    ours |= {name: [*range(layout.size)[layout.slice(name)]] for name in layout.names}
    theirs: dict[str, list[int]] = {}
    for name, parts in problem.columns.columns.items():
        for part in parts if name in ours else ():
            for source in (part.source, part.source.partition("[")[0]):
                theirs.setdefault(source, []).extend(ours[name])
    return ours | theirs


@final
@dataclass(frozen=True, eq=False)
class _Form:
    """Samples of one set of names: ``packed[to] = numbers of names, side by side, [take]``."""

    names: tuple[str, ...]
    take: IntArray
    to: IntArray
    speeds_wanted: IntArray
    accelerations: tuple[tuple[slice, IntArray, float], ...]
    times: Array | None
    mapped: tuple[AbstractLog, _OneSample] | None

    def values(self, given: Mapping[str, Any]) -> Array:
        """All numbers of the names, side by side."""
        if self.mapped is not None:
            log, sample = self.mapped
            sample.content = {name: numbers(name, [value]) for name, value in given.items()}
            content = log.read(self.names, 0, 1)
            return np.concatenate([content[name][0] for name in self.names])
        flat: list[Any] = []
        for name in self.names:
            value = given[name]
            if type(value) is list:
                flat += value
            else:
                flat.append(value)
        if NUMBERS.issuperset(map(type, flat)):
            try:
                return np.array(flat, dtype=np.float64)
            except OverflowError:
                pass
        return numbers("", [given[name] for name in self.names], self.names)


NUMBERS = frozenset({float, int})


def numbers(name: str, values: Sequence[Any], names: Sequence[str] = ()) -> Array:
    """Numbers of values, lists and null; LogError names the value that is none of these."""
    out: list[float] = []
    for k, value in enumerate(values):
        for number in value if isinstance(value, list) else [value]:
            if number is None:
                out.append(math.nan)
            elif type(number) in NUMBERS:
                try:
                    out.append(float(number))
                except OverflowError:
                    out.append(math.inf)
            else:
                of = names[k] if names else name
                raise LogError(f"{of!r} holds {str(number)[:40]!r}, which is no number")
    return np.array(out)


@final
class _OneSample(AbstractLog):
    """A sample as a log of one, for the names, units and orders of problem files."""

    def __init__(self, widths: Mapping[str, int]) -> None:
        # a sample without time has the clock's
        self.path, self.n_samples, self.widths = Path("sample"), 1, dict(widths) | {"time": 1}
        self.content: dict[str, Array] = {}

    def read(self, names: Sequence[str], start: int, stop: int) -> dict[str, Array]:
        return {name: self.content[name][None] for name in names}


@final
class _Past:
    """The last window of positions and velocities."""

    def __init__(self, method: Differentiation) -> None:
        self._method = method
        self._samples: deque[tuple[float, Array, Array]] = deque()

    def clear(self) -> None:
        self._samples.clear()

    def rates(
        self, robot: KinematicTree, time: float, q: Array, qd: Array
    ) -> tuple[Array, Array] | None:
        """qd of positions; qdd of velocities where they came each time, else of positions.

        None: not enough of them. A velocity that did not come is NaN.
        """
        samples, method = self._samples, self._method
        if len(samples) > 1:
            usual = samples[-1][0] - samples[-2][0]
            if time - samples[-1][0] > method.pause(usual):
                samples.clear()
        samples.append((time, q.copy(), qd.copy()))
        least = method.order + 2
        while len(samples) > least and time - samples[0][0] > method.window * (1 + 1e-9):
            samples.popleft()
        if len(samples) < least or time - samples[0][0] < 0.5 * method.window:
            return None
        times = np.array([s[0] for s in samples])
        n = len(times)
        positions = continuous_positions(robot, np.array([s[1] for s in samples]))
        speeds = np.array([s[2] for s in samples])
        both = np.hstack([positions, speeds])
        period = float(times[-1] - times[0]) / (n - 1)
        whole = replace(method, window=(n - 1) * period)
        fitted = whole.fit(times, both, slice(n - 1, n), True, True, period)
        nq = positions.shape[1]
        _, velocity, acceleration = rates(robot, *fitted[:, :, :nq])
        slopes = fitted[1, 0, nq:]
        return velocity[0], np.where(np.isnan(slopes), acceleration[0], slopes)
