"""From a log to what an estimator takes: q, qd and y, stretch by stretch.

What is not logged and can be made is made, by differentiation. Velocities of the robot from the
time derivatives of its coordinates, exact and for many samples at once:

    plain joints     qd = dq/dt,  qdd = d2q/dt2
    quaternion u     omega = 2 vec(u* du/dt) / |u|^2,  u any multiple of the unit quaternion
    free, planar     linear velocity in the turned child: v = E dp/dt,
                     dv/dt = E d2p/dt2 - omega x v
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import LogError, nearest_name
from dynsys.model.joints import Cylindrical, Free, Planar, Revolute, Spherical
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray
from problems.labels import moved_by, numbered, own_joints
from problems.logs.align import WITHIN, WRAP
from problems.logs.columns import MappedLog
from problems.logs.differentiate import (
    AbstractDifferentiation,
    Differentiation,
    sampling_period,
)
from problems.logs.source import (
    AbstractLog,
    Source,
    check_time,
    some_names,
    source_of,
)
from sensors import AbstractSensor, JointAcceleration, JointTorque, Layout, MotorTorque

__all__ = [
    "SampleReader",
    "Samples",
    "continuous_positions",
    "continuous_quaternions",
    "rates",
    "unit_quaternions",
]

MOST_TUNED = 20_000
"""Samples at the start of a log on which a method finds its constants."""


@final
@dataclass(frozen=True, eq=False)
class Samples:
    """A stretch of a log: time (N,), q (N, nq), qd (N, nv) and y (N, rows); NaN is missing.

    ``qdd`` (N, nv) is there if the reader was asked for accelerations.
    """

    time: Array
    q: Array
    qd: Array
    y: Array
    qdd: Array | None = None

    def part(self, at: slice | BoolArray) -> Samples:
        """Some of them."""
        qdd = None if self.qdd is None else self.qdd[at]
        return Samples(self.time[at], self.q[at], self.qd[at], self.y[at], qdd)

    def with_motion(self) -> Samples:
        """Those with all positions and velocities."""
        known = np.isfinite(np.hstack([self.q, self.qd])).all(axis=1)
        return self.part(np.asarray(known))


@final
@dataclass(frozen=True, eq=False)
class SampleReader:
    """Reads a robot's samples from a log; what is missing and can be made is made.

    Velocities that are not logged are derivatives of q, joint accelerations that a layout's
    :class:`JointAcceleration` wants are derivatives of qd if that is logged, else second
    derivatives of q (:mod:`problems.logs.differentiate`). A :class:`JointTorque` or
    :class:`MotorTorque` without readings of its own takes ``effort``.

    Parameters
    ----------
    method : how; it may also smooth what is logged, and filter the readings.
    allow_missing : True lets sensors go without data (NaN) that the log knows nothing of.
    accelerations : True makes those of all joints, whether or not a sensor wants them.

    Raises
    ------
    LogError
        naming the joint or sensor the log has no data for, and the nearest name it has.
    """

    layout: Layout
    log: AbstractLog
    method: AbstractDifferentiation = field(default_factory=Differentiation)
    allow_missing: bool = False
    accelerations: bool = False

    def __post_init__(self) -> None:
        for part in (
            self.positions, self.velocities, self.readings, self.wanted_accelerations
        ):  # fmt: skip
            assert part is not None
        if self._filtered and "time" not in self.log.widths:
            made = f"{self.derived[0]} must be" if self.derived else "the motion is to be"
            raise LogError(
                f"{self.log.path}: {made} made by differentiation, which needs 'time' (s); add"
                " it"
            )

    @property
    def robot(self) -> KinematicTree:
        """The robot of the layout."""
        return self.layout.robot

    # ---- where things are ----------------------------------------------------------------

    def _joint_source(self, quantity: str, joint: int) -> Source | None:
        robot = self.robot
        name = f"{quantity}.{robot.joint_names[joint]}"
        if quantity == "q":
            size, total, place = robot.joints[joint].nq, robot.nq, robot.q_slices()[joint]
        else:
            size, total, place = robot.joints[joint].nv, robot.nv, robot.v_slices()[joint]
        is_own = robot.bodies[joint].coupling is None  # else its place is that of its leader
        within = (quantity, total, place) if is_own else None
        found = source_of(self.log.widths, name, numbered(name, size), within)
        if found is None:
            self._refuse_width(name, size)
            self._refuse_width(quantity, total)
        return found

    def _refuse_width(self, name: str, size: int) -> None:
        """Raise if the log has such an array, with another number of columns."""
        width = self.log.widths.get(name, size)
        if width != size:
            raise LogError(
                f"{self.log.path}: {name!r} has {width} numbers per sample, not the {size} of"
                f" robot {self.robot.name!r} and its layout"
            )

    @cached_property
    def positions(self) -> dict[int, Source]:
        """Where the position of each joint is."""
        found = self._logged("q")
        for i in own_joints(self.robot):
            if i not in found:
                name = self.robot.joint_names[i]
                column, unit = _guessed_position(
                    self.log, name, own_joints(self.robot).index(i)
                )
                entry = f"q.{name}: {{from: {column}, unit: {unit}}}"
                raise LogError(
                    f"{self.log.path}: no position of joint {name!r}{some_names(self.log)}; say"
                    f" in the problem file where it is, log: {{columns: {{{entry}}}}}, or add"
                    f" an array q of {self.robot.nq} numbers per sample"
                )
        return found

    def _logged(self, quantity: str) -> dict[int, Source]:
        """Where the log holds a quantity, for the joints that it holds it of."""
        sources = {i: self._joint_source(quantity, i) for i in own_joints(self.robot)}
        return {i: source for i, source in sources.items() if source is not None}

    @cached_property
    def velocities(self) -> dict[int, Source]:
        """Where the velocity is of each joint that it is logged of."""
        return self._logged("qd")

    @cached_property
    def given_accelerations(self) -> dict[int, Source]:
        """Where the acceleration is of each joint that it is logged of."""
        return self._logged("qdd")

    @cached_property
    def readings(self) -> dict[str, Source]:
        """Where the readings are of each sensor that the log has any of."""
        found: dict[str, Source] = {}
        efforts: dict[str, str] = {}
        for sensor in self.layout:
            place = self.layout.slice(sensor.name)
            within = ("y", self.layout.size, place)
            source = source_of(self.log.widths, sensor.name, self.layout.labels[place], within)
            if source is None and (source := self._effort(sensor)) is not None:
                assert isinstance(sensor, JointTorque | MotorTorque)
                other = efforts.setdefault(sensor.joint, sensor.name)
                if other != sensor.name:
                    raise self._twice(other, sensor.name, f"effort.{sensor.joint}")
            if source is not None:
                found[sensor.name] = source
                continue
            self._refuse_width(sensor.name, place.stop - place.start)
            if not self._needs_none(sensor):
                self._refuse_width("y", self.layout.size)
                hint = nearest_name(sensor.name, tuple(self.log.widths))
                raise LogError(
                    f"{self.log.path}: no readings of {sensor}; add an array {sensor.name!r},"
                    f" or columns {', '.join(self.layout.labels[place])}{hint}; or let"
                    " it go without (--allow-missing)"
                )
        return found

    def _twice(self, first: str, second: str, what: str) -> LogError:
        return LogError(
            f"{self.log.path}: {first!r} and {second!r} would both read {what}, and one number"
            " count twice; leave one of them out of the layout, or give it an array of its own,"
            f" {second!r}"
        )

    def _effort(self, sensor: AbstractSensor) -> Source | None:
        if not isinstance(sensor, JointTorque | MotorTorque) or sensor.constant(1) is not None:
            return None
        source = self._joint_source("effort", self.robot.joint_index(sensor.joint))
        return source if source is None or sensor.component is None else None

    def _needs_none(self, sensor: AbstractSensor) -> bool:
        known = sensor.constant(1) is not None
        return known or self.allow_missing or isinstance(sensor, JointAcceleration)

    @cached_property
    def wanted_accelerations(self) -> dict[str, tuple[int, float]]:
        """What moves the joint of each acceleration sensor that has no readings of its own."""
        found: dict[str, tuple[int, float]] = {}
        taken: dict[tuple[int, int], str] = {}
        for sensor in self.layout:
            if (
                not isinstance(sensor, JointAcceleration)
                or sensor.value is not None
                or sensor.name in self.readings
            ):
                continue
            joint, one = self.robot.joint_index(sensor.joint), sensor.component
            found[sensor.name] = moved_by(self.robot, joint)
            for k in range(self.robot.joints[joint].nv) if one is None else (one,):
                other = taken.setdefault((found[sensor.name][0], k), sensor.name)
                if other != sensor.name:
                    raise self._twice(other, sensor.name, f"qdd.{sensor.joint}")
        return found

    @cached_property
    def derived(self) -> tuple[str, ...]:
        """What is made by differentiation, in words."""
        names = self.robot.joint_names
        speeds = [i for i in self.positions if i not in self.velocities]
        turns = self._turning - set(self.given_accelerations)
        return (
            *(f"velocity of joint {names[i]!r}" for i in speeds),
            *(f"acceleration of joint {names[i]!r}" for i in sorted(turns)),
        )

    @cached_property
    def _turning(self) -> set[int]:
        """Joints whose accelerations are wanted."""
        wanted = {joint for joint, _ in self.wanted_accelerations.values()}
        return set(self.positions) if self.accelerations else wanted

    @property
    def logged_velocities(self) -> tuple[int, ...]:
        """Joints whose velocities are logged."""
        return tuple(self.velocities)

    @cached_property
    def not_measured(self) -> tuple[str, ...]:
        """Sensors that go without data."""
        have = {*self.readings, *self.wanted_accelerations}
        return tuple(
            s.name for s in self.layout if s.name not in have and s.constant(1) is None
        )

    @cached_property
    def unused(self) -> tuple[str, ...]:
        """Arrays of the log that nothing is read from, but for the truth of a simulation."""
        used = set(self._names)
        if isinstance(self.log, MappedLog):
            used |= self.log.sources(used)
        return tuple(
            name
            for name in self.log.widths
            if name not in used and not name.startswith(("truth.", "time."))
        )

    # ---- the method on this log ----------------------------------------------------------

    @property
    def _filtered(self) -> bool:
        """True if samples depend on their neighbours."""
        return bool(self.derived) or self.method.smooth or self.method.readings

    @cached_property
    def _start(self) -> tuple[Array, dict[str, Array]]:
        """Times and content of the first samples, on which methods find their constants."""
        content = self.log.read(self._names, 0, min(self.log.n_samples, MOST_TUNED))
        time = content["time"][:, 0]
        self._check_time(time, 0)
        return time, content

    @cached_property
    def _period(self) -> float:
        """Median time between samples, s."""
        return sampling_period(self._start[0])

    @cached_property
    def _tuned(self) -> dict[str, AbstractDifferentiation]:
        """The method for positions, logged velocities and readings, its constants found."""
        time, content = self._start
        found = {}
        for what in ("q", "qd", "y"):
            if (x := self._columns(what, content)).shape[1] and (
                what != "y" or self.method.readings
            ):
                x = continuous_positions(self.robot, x) if what == "q" else x
                found[what] = self.method.tuned(time, x)
        return found

    @cached_property
    def _reach(self) -> int:
        """Samples on either side that those of a stretch depend on."""
        return max(method.reach(self._period) for method in self._tuned.values())

    def _fit(self, what: str, time: Array, x: Array, ends: tuple[slice, bool, bool]) -> Array:
        try:
            return self._tuned[what].fit(time, x, *ends, self._period)
        except LogError as error:
            raise LogError(f"{self.log.path}: {error}") from None

    def _columns(self, what: str, content: dict[str, Array]) -> Array:
        """All positions, logged velocities, or readings, side by side."""
        if what == "q":
            q = np.zeros((len(next(iter(content.values()))), self.robot.nq))
            for i, source in self.positions.items():
                q[:, self.robot.q_slices()[i]] = _rows(content, source)
            return q
        sources = self.velocities if what == "qd" else self.readings
        parts = [_rows(content, source) for source in sources.values()]
        return np.hstack(parts) if parts else np.zeros((len(content["time"]), 0))

    # ---- reading -------------------------------------------------------------------------

    def _check_time(self, time: Array, first: int) -> None:
        check_time(time, lambda k: f"{self.log.path}, sample {first + k}")

    def read(self, start: int, stop: int) -> Samples:
        """Samples start : stop."""
        halo = self._reach if self._filtered else 1  # one: time must ascend across
        first, last = max(start - halo, 0), min(stop + halo, self.log.n_samples)
        content = self.log.read(self._names, first, last)
        time: Array = np.arange(first, last, dtype=np.float64)
        if "time" in content:
            time = content["time"][:, 0]
            self._check_time(time, first)
        ends = (slice(start - first, stop - first), first == 0, last == self.log.n_samples)
        q, qd, qdd = self._motion(content, time, *ends)
        y = np.broadcast_to(self.layout.constants, (stop - start, self.layout.size)).copy()
        if self.readings:
            places = [np.arange(self.layout.size)[self.layout.slice(k)] for k in self.readings]
            readings = self._columns("y", content)
            if self.method.readings:
                y[:, np.concatenate(places)] = self._fit("y", time, readings, ends)[0]
            else:
                y[:, np.concatenate(places)] = readings[ends[0]]
        for name, (joint, ratio) in self.wanted_accelerations.items():
            sensor = self.layout[name]
            assert isinstance(sensor, JointAcceleration)
            values = ratio * qdd[:, self.robot.v_slices()[joint]]
            if sensor.component is not None:
                values = values[:, [sensor.component]]
            y[:, self.layout.slice(name)] = values
        if np.isinf(y).any():
            k, row = np.argwhere(np.isinf(y))[0].tolist()
            raise LogError(
                f"{self.log.path}, sample {start + k}: {self.layout.labels[row]!r} is infinite;"
                " make it NaN where there is no reading"
            )
        return Samples(time[ends[0]], q, qd, y, qdd if self.accelerations else None)

    @cached_property
    def _names(self) -> list[str]:
        names = {"time": None} if "time" in self.log.widths else {}
        given = self.given_accelerations.items()
        accelerations = {i: source for i, source in given if i in self._turning}
        for sources in (self.positions, self.velocities, accelerations, self.readings):
            for source in sources.values():
                names |= dict.fromkeys(source.names)
        return list(names)

    def _motion(
        self,
        content: dict[str, Array],
        time: Array,
        wanted: slice,
        at_start: bool,
        at_end: bool,
    ) -> tuple[Array, Array, Array]:
        robot, smooth = self.robot, self.method.smooth
        q, speeds = self._columns("q", content), self._columns("qd", content)
        ends = (wanted, at_start, at_end)
        if not (self.derived or smooth):
            q, speeds = unit_quaternions(robot, q[wanted]), speeds[wanted]
            qd, qdd = np.full((2, len(q), robot.nv), np.nan)
            slopes = np.full_like(speeds, np.nan)
        else:
            whole = continuous_positions(robot, q)
            fitted, qd, qdd = rates(robot, *self._fit("q", time, whole, ends))
            q = (
                _turned_as(robot, fitted, q[wanted])
                if smooth
                else unit_quaternions(robot, q[wanted])
            )
            if self.velocities:
                values, slopes, _ = self._fit("qd", time, speeds, ends)
                speeds = values if smooth else speeds[wanted]
        place = 0
        for i in self.velocities:
            freedoms = robot.v_slices()[i]
            part = slice(place, place + freedoms.stop - freedoms.start)
            qd[:, freedoms], qdd[:, freedoms] = speeds[:, part], slopes[:, part]
            place = part.stop
        for i, source in self.given_accelerations.items():
            if all(name in content for name in source.names):
                qdd[:, robot.v_slices()[i]] = _rows(content, source)[wanted]
        return q, qd, qdd


def _guessed_position(log: AbstractLog, joint: str, number: int) -> tuple[str, str]:
    """The column that looks like the position of a joint, and its unit; else a stand-in."""
    single = [name for name, width in log.widths.items() if width == 1]
    named = [x for x in single if joint.lower() in x.lower()]
    counted = [
        x
        for count in (number + 1, number)
        for x in single
        if re.findall(r"\d+", x) == [str(count)]
    ]
    for name in (*named, *counted):
        if re.match(
            r"(?i)(.*[^a-z])?(q|p|pos|position|ang|angle|theta|enc|encoder)([^a-z]|$)", name
        ):
            return name, "deg" if "deg" in name.lower() else "rad"
    close = difflib.get_close_matches(f"q.{joint}", single, n=1)
    return (close[0] if close else "COLUMN"), "deg"


def _rows(content: dict[str, Array], source: Source) -> Array:
    arrays = [content[name] for name in source.names]
    rows = np.hstack(arrays) if len(arrays) > 1 else arrays[0]
    return rows if source.part is None else rows[:, source.part]


# ---- velocities from coordinates and their derivatives --------------------------------------

Rates = tuple[Array, Array]


def rates(robot: KinematicTree, q: Array, dq: Array, ddq: Array) -> tuple[Array, Array, Array]:
    """q (N, nq) with unit quaternions, and qd, qdd (N, nv), from coordinates and derivatives.

    Quaternions in ``q`` need not have length one, as long as ``dq`` and ``ddq`` are their own
    derivatives.
    """
    qd, qdd = np.empty((2, len(q), robot.nv))
    for i, body in enumerate(robot.bodies):
        if body.coupling is not None:
            continue
        where, freedoms = robot.q_slices()[i], robot.v_slices()[i]
        part = q[:, where], dq[:, where], ddq[:, where]
        convert = CONVERSIONS.get(type(body.joint), _plain)
        qd[:, freedoms], qdd[:, freedoms] = convert(*part)
    return unit_quaternions(robot, q), qd, qdd


def unit_quaternions(robot: KinematicTree, q: Array) -> Array:
    """Return q (N, nq) with every quaternion divided by its length."""
    out = q.copy()
    for where in robot.quaternion_slices:
        out[:, where] /= np.linalg.norm(q[:, where], axis=1, keepdims=True)
    return out


def continuous_quaternions(robot: KinematicTree, q: Array) -> Array:
    """Return q (N, nq) without jumps of quaternions between u and -u, which are one pose.

    The first keeps its sign; what is missing between two of them changes nothing.
    """
    out = q.copy()
    for where in robot.quaternion_slices:
        known = np.flatnonzero(np.isfinite(q[:, where]).all(axis=1))
        u = q[known, where]
        flips = np.einsum("ij,ij->i", u[1:], u[:-1]) < 0
        out[known[1:], where] *= np.where(np.cumsum(flips) % 2, -1.0, 1.0)[:, None]
    return out


def continuous_positions(robot: KinematicTree, q: Array) -> Array:
    """Return q (N, nq) of neighbouring samples without jumps between numbers of one pose.

    Quaternions as :func:`continuous_quaternions` has them, and angles that are logged within
    one turn, which go on where they jump from one of its ends to the other.
    """
    out = continuous_quaternions(robot, q)
    for k in _angles(robot):
        known = np.flatnonzero(np.isfinite(q[:, k]))
        steps = np.diff(q[known, k])
        if (np.abs(steps) > JUMP).any() and np.ptp(q[known, k]) < WITHIN * TURN:
            jumps = np.where(np.abs(steps) > JUMP, np.sign(steps), 0.0)
            out[known[1:], k] -= TURN * np.cumsum(jumps)
    return out


TURN = 2 * np.pi
JUMP = WRAP * TURN
"""Between neighbours: no motion, but an angle that has come to the end of its turn."""


def _angles(robot: KinematicTree) -> list[int]:
    """Where angles sit in q which are the same pose after a turn."""
    return [
        robot.q_slices()[i].start
        for i in own_joints(robot)
        if isinstance(robot.joints[i], Revolute | Cylindrical | Planar)
    ]


def _turned_as(robot: KinematicTree, q: Array, logged: Array) -> Array:
    """q (N, nq), each quaternion or angle as that number of its pose which was logged."""
    out = q.copy()
    angles = _angles(robot)
    out[:, angles] += TURN * np.nan_to_num(((logged - q)[:, angles] / TURN).round())
    for where in robot.quaternion_slices:
        opposite = np.einsum("ij,ij->i", q[:, where], logged[:, where]) < 0
        out[:, where] *= np.where(opposite, -1.0, 1.0)[:, None]
    return out


def _plain(q: Array, dq: Array, ddq: Array) -> Rates:
    return dq, ddq


def _spherical(u: Array, du: Array, ddu: Array) -> Rates:
    square = np.einsum("ij,ij->i", u, u)[:, None]
    stretch = 2.0 * np.einsum("ij,ij->i", u, du)[:, None] / square
    w = 2.0 * _vector_of_product(u, du) / square
    return w, 2.0 * _vector_of_product(u, ddu) / square - stretch * w


def _vector_of_product(u: Array, v: Array) -> Array:
    """Vector part (N, 3) of (conjugate of u) times v, quaternions x y z w."""
    a, b = u[:, :3], v[:, :3]
    return np.asarray(u[:, 3:] * b - v[:, 3:] * a - np.cross(a, b))


def _free(q: Array, dq: Array, ddq: Array) -> Rates:
    w, dw = _spherical(q[:, 3:], dq[:, 3:], ddq[:, 3:])
    u = q[:, 3:] / np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    v = _turned(u, dq[:, :3])
    return np.hstack([w, v]), np.hstack([dw, _turned(u, ddq[:, :3]) - np.cross(w, v)])


def _turned(u: Array, x: Array) -> Array:
    """E x (N, 3): parent to child coordinates for unit quaternions u (child in parent)."""
    a, w = -u[:, :3], u[:, 3:]
    t = 2.0 * np.cross(a, x)
    return np.asarray(x + w * t + np.cross(a, t))


def _planar(q: Array, dq: Array, ddq: Array) -> Rates:
    c, s, turn = np.cos(q[:, 0]), np.sin(q[:, 0]), dq[:, 0]

    def turned(x: Array, y: Array) -> tuple[Array, Array]:
        return c * x + s * y, c * y - s * x

    vx, vy = turned(dq[:, 1], dq[:, 2])
    ax, ay = turned(ddq[:, 1], ddq[:, 2])
    qd = np.column_stack([turn, vx, vy])
    return qd, np.column_stack([ddq[:, 0], ax + turn * vy, ay - turn * vx])


CONVERSIONS: Mapping[type, Callable[[Array, Array, Array], Rates]] = {
    Spherical: _spherical,
    Free: _free,
    Planar: _planar,
}
"""By kind of joint: qd and qdd from q, dq/dt and d2q/dt2."""
