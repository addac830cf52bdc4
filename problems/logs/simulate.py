"""Synthetic logs: what the sensors of a layout read along a motion, with their noise.

    y = Y d + b + noise,    d from inverse dynamics of q, qd, qdd and the external wrenches

What the layout states (no wrench on a body, no torque at the free base, a foot that does not
accelerate) holds in the log: exactly or, where the statement has a standard deviation, up to a
random error of that size. External wrenches, and accelerations where nothing else can, are
moved by the least amount that makes it so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.sparse import csr_array

from dynsys.errors import LayoutError, StateError
from dynsys.model.constraints import Constraint
from dynsys.model.joints import Free
from dynsys.model.tree import KinematicTree
from dynsys.recursive.constraint_rows import CLOSED, closest_configuration
from dynsys.types import Array, ArrayLike, IntArray
from problems.labels import Group, joint_columns
from problems.logs.samples import (
    SampleReader,
    continuous_positions,
    continuous_quaternions,
    rates,
)
from problems.logs.source import AbstractLog
from problems.measured.simulated_readings import NearestMotion, TrueReadings
from sensors import Layout

__all__ = ["Recorded", "Simulation", "Trajectory", "random_signal"]

BLOCK = 512
"""Samples made at a time: few enough to stay near the processor."""


@final
@dataclass(frozen=True, eq=False)
class Simulation:
    """A log to be: samples of a trajectory at a rate.

    Parameters
    ----------
    layout : the sensors, and through it the robot.
    trajectory : the motion; a recorded one has wrenches of its own.
    rate : samples per second.
    seed : of noise and wrenches.
    contact_force : reach (N) of the random wrenches on bodies that may be touched; moments
        reach a tenth of it.
    position_std, velocity_std : noise of the logged q and qd (rad, m and per second).
    missing : part of the readings that are lost (NaN).
    """

    layout: Layout
    trajectory: Trajectory | Recorded
    rate: float = 1000.0
    seed: int = 0
    contact_force: float = 20.0
    position_std: float = 0.0
    velocity_std: float = 0.0
    missing: float = 0.0

    def __post_init__(self) -> None:
        if not (self.rate > 0 and 0 <= self.missing < 1):
            raise LayoutError("simulate: rate must be positive, and 0 <= missing < 1")
        self.layout.require_sides()

    @property
    def robot(self) -> KinematicTree:
        """The robot of the layout."""
        return self.layout.robot

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        span = self.trajectory.stop - self.trajectory.start
        return round(span * self.rate)

    @cached_property
    def readings(self) -> TrueReadings:
        """The sensors without noise."""
        return TrueReadings(self.layout)

    @cached_property
    def _nearest(self) -> NearestMotion:
        return NearestMotion(self.readings)

    # ---- columns -------------------------------------------------------------------------

    @cached_property
    def _measured(self) -> list[str]:
        return [s.name for s in self.layout if s.constant(1) is None]

    def groups(self, *, truth: bool = False) -> list[Group]:
        """Columns of the log; with ``truth`` also those of the true torques and wrenches."""
        robot, layout = self.robot, self.layout
        groups = [
            Group("time", ("time",)),
            Group("q", tuple(joint_columns(robot, "q"))),
            Group("qd", tuple(joint_columns(robot, "qd"))),
        ]
        groups += [Group(n, tuple(layout.labels[layout.slice(n)])) for n in self._measured]
        if truth:
            for quantity in ("torque", "qdd"):
                columns = joint_columns(robot, f"truth.{quantity}")
                groups.append(Group(f"truth.{quantity}", tuple(columns)))
            for body in robot.body_names:
                name = f"truth.external_wrench.{body}"
                axes = ("tx", "ty", "tz", "fx", "fy", "fz")
                groups.append(Group(name, tuple(f"{name}.{axis}" for axis in axes)))
        return groups

    # ---- samples -------------------------------------------------------------------------

    def motion(self, start: int, stop: int) -> tuple[Array, Array, Array, Array, Array]:
        """Time, q, qd, qdd and wrenches (N, n_bodies, 6) that meet what the layout states."""
        firsts = range(start, stop, BLOCK)
        errors = [self._errors(k, min(k + BLOCK, stop) - k)[1] for k in firsts]
        return self._motion(start, np.vstack([np.zeros((0, self.layout.size)), *errors]))

    def _motion(self, start: int, errors: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Motion of the samples from ``start`` on, given the errors (N, rows) of their rows."""
        time = self.trajectory.start + np.arange(start, start + len(errors)) / self.rate
        q, qd, qdd = self.trajectory.at(time)
        if isinstance(self.trajectory, Recorded):
            f = self._checked_wrenches(self.trajectory, time)
        else:
            f = np.asarray(self._contact(time - self.trajectory.start))
        qdd, f = self._nearest.meet(q, qd, qdd, f, self.layout.constants - errors)
        return time, q, qd, qdd, f.reshape(len(time), -1, 6)

    def _checked_wrenches(self, recorded: Recorded, time: Array) -> Array:
        """Wrenches (N, 6 n_bodies) of a record; LayoutError if the layout denies them."""
        q, qd, qdd = recorded.at(time)
        f = recorded.wrenches(time)
        stated = np.broadcast_to(self.layout.constants, (len(time), self.layout.size))
        _, near = self._nearest.meet(q, qd, qdd, f.copy(), stated.copy())
        change = np.abs(near - f).max(axis=0, initial=0.0)
        if change.max(initial=0.0) > 1e-3 * (1.0 + np.abs(f).max(initial=0.0)):
            body = self.robot.body_names[int(np.argmax(change)) // 6]
            missed = np.abs(self.readings.at(q, qd, qdd, f)[1] - stated)
            row = int(np.nanargmax(np.where(np.isnan(missed), 0.0, missed).max(axis=0)))
            whose = next(
                s
                for s in self.layout
                if row in range(*self.layout.slice(s.name).indices(self.layout.size))
            )
            raise LayoutError(
                f"the layout states what the record denies: {whose.name!r} ({whose.kind}) is"
                f" missed by {np.nanmax(missed[:, row]):.3g} {self.layout.units[row]}"
                f" ({self.layout.labels[row]}); a wrench on body {body!r} would have to change"
                f" by {change.max():.3g} (N, N m). Leave that statement out, or state what the"
                " record does"
            )
        return f

    def rows(self, start: int, stop: int, *, truth: bool = False) -> Array:
        """Samples start : stop, the columns of :meth:`groups`.

        The noise depends on ``seed``, ``start`` and ``stop``.
        """
        width = sum(len(group.columns) for group in self.groups(truth=truth))
        out = np.empty((stop - start, width))
        for first in range(start, stop, BLOCK):
            last = min(first + BLOCK, stop)
            out[first - start : last - start] = self._rows(first, last, truth)
        return out

    def _rows(self, start: int, stop: int, truth: bool) -> Array:
        rng, errors = self._errors(start, stop - start)
        time, q, qd, qdd, f = self._motion(start, errors)
        torque, y = self.readings.at(q, qd, qdd, f)
        y += errors
        if self.missing:
            y[rng.uniform(size=y.shape) < self.missing] = np.nan
        if self.position_std:
            q = q + self.position_std * rng.normal(size=q.shape)
        if self.velocity_std:
            qd = qd + self.velocity_std * rng.normal(size=qd.shape)
        parts = [
            time[:, None],
            q,
            qd,
            *(y[:, self.layout.slice(name)] for name in self._measured),
        ]
        if truth:
            parts += [torque, qdd, f.reshape(len(time), -1)]
        return np.hstack(parts)

    def _errors(self, start: int, count: int) -> tuple[np.random.Generator, Array]:
        """Error (count, rows) of every row, and the generator after drawing it."""
        rng = np.random.default_rng([self.seed, 2, start])
        noisy, root = self._noise
        errors = np.zeros((count, self.layout.size))
        errors[:, noisy] = (root @ rng.normal(size=(len(noisy), count))).T
        return rng, errors

    @cached_property
    def _noise(self) -> tuple[IntArray, csr_array[Any]]:
        """Rows with noise, and a square root of the covariance of their readings."""
        noisy = np.flatnonzero(~self.layout.exact)
        covariance = self.layout.covariance().toarray()[np.ix_(noisy, noisy)]
        if np.count_nonzero(covariance - np.diag(covariance.diagonal())) == 0:
            return noisy, csr_array(np.diag(np.sqrt(covariance.diagonal())))
        values, axes = np.linalg.eigh(covariance)
        root = axes * np.sqrt(np.maximum(values, 0.0)) @ axes.T
        root[np.abs(root) < 1e-14 * np.abs(root).max()] = 0.0
        return noisy, csr_array(root)

    @cached_property
    def _contact(self) -> Any:
        rng = np.random.default_rng([self.seed, 3])
        reach = np.tile(np.repeat([0.1, 1.0], 3), self.robot.n_bodies) * self.contact_force
        return random_signal(rng, reach, self.n_samples / self.rate + 1.0, 1.0)


# ---- smooth motions: splines of degree five, positions with both derivatives ----------------

DEGREE = 5
CLOSING = 0.02
"""Seconds between the positions at which loops are closed."""
TURN = 0.3
"""Reach of the vector part of a floating base's quaternion before it is normalised."""


@final
@dataclass(frozen=True, eq=False)
class Trajectory:
    """q(t), qd(t), qdd(t) of a robot for start <= t <= stop."""

    robot: KinematicTree
    spline: Any
    """Coordinates (nq,) over time; quaternions in it need not have length one."""
    start: float
    stop: float

    @staticmethod
    def random(
        robot: KinematicTree, duration: float, *, seed: int = 0, pace: float = 1.0
    ) -> Trajectory:
        """Return a random motion that stays within the joint limits.

        A B-spline whose control points are random positions, one per ``pace`` seconds: it never
        leaves their convex hull. Joints without limits swing within +-1 (rad or m); a floating
        base tilts and shifts by some tenths.
        """
        rng = np.random.default_rng([seed, 1])
        lower, upper = robot.position_limits
        low = np.where(np.isfinite(lower), lower, np.minimum(-1.0, upper - 2.0))
        high = np.where(np.isfinite(upper), upper, np.maximum(1.0, low + 2.0))
        n = _control_points(duration, pace)
        control = rng.uniform(low, high, size=(n, robot.nq))
        for where in robot.quaternion_slices:
            control[:, where] = rng.uniform(-TURN, TURN, size=(n, 4))
            control[:, where.stop - 1] = 1.0
        for where, joint in zip(robot.q_slices(), robot.joints, strict=True):
            if isinstance(joint, Free):
                control[:, where.start : where.start + 3] *= TURN
        return Trajectory(robot, _uniform_spline(control, pace), 0.0, float(duration))

    @staticmethod
    def through(robot: KinematicTree, time: ArrayLike, q: ArrayLike) -> Trajectory:
        """Spline through given positions: time (N,), ascending, and q (N, nq)."""
        from scipy.interpolate import make_interp_spline  # slow to import

        times, positions = np.asarray(time, dtype=float), np.asarray(q, dtype=float)
        if positions.ndim != 2 or positions.shape != (len(times), robot.nq):
            raise StateError(
                f"trajectory: q must have shape ({len(times)}, {robot.nq}), got"
                f" {positions.shape}"
            )
        if len(times) <= DEGREE or not (np.diff(times) > 0).all():
            raise StateError(
                f"trajectory: give at least {DEGREE + 1} samples with ascending times"
            )
        if not np.isfinite(positions).all():
            raise StateError("trajectory: a position is missing or infinite; leave it out")
        spline = make_interp_spline(times, continuous_quaternions(robot, positions), DEGREE)
        return Trajectory(robot, spline, float(times[0]), float(times[-1]))

    def closed(self, loops: Sequence[Constraint]) -> Trajectory:
        """Motion whose loops stay closed: this one's velocity, as far as they allow.

        Positions every 20 ms, each the last one moved on and closed again, and a spline
        through them, which leaves loops open by its own error.
        """
        if not loops:
            return self
        robot, count = self.robot, max(DEGREE + 1, round((self.stop - self.start) / CLOSING))
        times = np.linspace(self.start, self.stop, count + 1)
        wanted = self.at(times)[0]
        found = [closest_configuration(robot, loops, wanted[0])]
        for before, after in pairwise(wanted):
            moved = robot.integrate(found[-1][0], robot.difference(before, after), 1.0)
            found.append(closest_configuration(robot, loops, moved))
        left = max(error for _, error in found)
        if left > CLOSED:
            raise StateError(
                f"trajectory: no motion near this one keeps the loops of robot {robot.name!r}"
                f" closed ({', '.join(loop.name for loop in loops)}): {left:.2g} m or rad are"
                " left; try another seed, or a slower pace"
            )
        return Trajectory.through(robot, times, np.array([q for q, _ in found]))

    @staticmethod
    def from_log(robot: KinematicTree, log: AbstractLog) -> Trajectory:
        """Spline through the positions of a log."""
        samples = SampleReader(Layout(robot, []), log).read(0, log.n_samples)
        return Trajectory.through(robot, samples.time, continuous_positions(robot, samples.q))

    def at(self, time: Array) -> tuple[Array, Array, Array]:
        """q (N, nq), qd and qdd (N, nv) at times (N,)."""
        values = (np.asarray(self.spline(time, nu)) for nu in range(3))
        return rates(self.robot, *values)


@final
@dataclass(frozen=True, eq=False)
class Recorded:
    """Motion with the wrenches that made it: what ``dynsys.simulation.Record.save`` wrote.

    Samples are taken as they are: at a time, the nearest one.
    """

    robot: KinematicTree
    time: Array
    q: Array
    qd: Array
    qdd: Array
    wrench: Array
    """(N, 6 n_bodies) on the bodies, but for gravity, body coordinates."""

    @property
    def start(self) -> float:
        """Time of the first sample."""
        return float(self.time[0])

    @property
    def stop(self) -> float:
        """One step after the last sample."""
        return float(self.time[-1] + (self.time[-1] - self.time[0]) / (len(self.time) - 1))

    @staticmethod
    def read(robot: KinematicTree, path: str | os.PathLike[str]) -> Recorded | None:
        """Motion of a record; None for a log of another kind.

        Raises
        ------
        StateError
            if the record is of another robot.
        """
        if Path(path).suffix != ".npz":
            return None
        with np.load(path, allow_pickle=False) as file:
            bodies = [key.removeprefix("wrench.") for key in file if key.startswith("wrench.")]
            if not bodies or "qdd" not in file:
                return None
            if bodies != list(robot.body_names) or file["q"].shape[1] != robot.nq:
                raise StateError(
                    f"{path}: a record of another robot: it has bodies {bodies[:3]} ..., and"
                    f" {robot.name!r} has {list(robot.body_names[:3])} ..."
                )
            if len(file["time"]) < 2:
                raise StateError(f"{path}: a record of at least two samples is wanted")
            wrench = np.hstack([file[f"wrench.{body}"] for body in bodies])
            q, qd, qdd = file["q"], file["qd"], file["qdd"]
            return Recorded(robot, file["time"], q, qd, qdd, wrench)

    def _nearest(self, time: Array) -> IntArray:
        after = np.clip(np.searchsorted(self.time, time), 1, len(self.time) - 1)
        nearer = time - self.time[after - 1] < self.time[after] - time
        return np.asarray(after - nearer)

    def at(self, time: Array) -> tuple[Array, Array, Array]:
        """q (N, nq), qd and qdd (N, nv) at times (N,)."""
        k = self._nearest(time)
        return self.q[k], self.qd[k], self.qdd[k]

    def wrenches(self, time: Array) -> Array:
        """Wrenches (N, 6 n_bodies) at times (N,)."""
        return self.wrench[self._nearest(time)].copy()


def random_signal(rng: np.random.Generator, reach: Array, duration: float, pace: float) -> Any:
    """Random spline over 0 .. duration whose components stay within +-reach."""
    size = (_control_points(duration, pace), len(reach))
    return _uniform_spline(rng.uniform(-1.0, 1.0, size=size) * reach, pace)


def _control_points(duration: float, pace: float) -> int:
    if not (duration > 0 and pace > 0 and np.isfinite(duration / pace)):
        raise StateError(f"duration and pace must be positive, got {duration} and {pace} s")
    return int(np.ceil(duration / pace)) + DEGREE


def _uniform_spline(control: Array, pace: float) -> Any:
    from scipy.interpolate import BSpline  # slow to import

    knots = pace * np.arange(-DEGREE, len(control) + 1)
    return BSpline(knots, control, DEGREE)
