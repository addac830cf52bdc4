"""Smooth motions of a robot: splines of degree five, positions with both derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from scipy.interpolate import BSpline, make_interp_spline

from dynsys.errors import StateError
from dynsys.model.joints import Free
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike
from problems.motion import continuous_quaternions, rates

if TYPE_CHECKING:
    from problems.logs.source import AbstractLog

__all__ = ["Trajectory", "random_signal"]

DEGREE = 5
TURN = 0.3
"""Reach of the vector part of a floating base's quaternion before it is normalised."""


@final
@dataclass(frozen=True, eq=False)
class Trajectory:
    """q(t), qd(t), qdd(t) of a robot for start <= t <= stop.

    Parameters
    ----------
    spline : coordinates (nq,) over time; quaternions in it need not have length one.
    """

    robot: KinematicTree
    spline: Any
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
        lower, upper = (bound.copy() for bound in robot.position_limits)
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

    @staticmethod
    def from_log(robot: KinematicTree, log: AbstractLog) -> Trajectory:
        """Spline through the positions of a log."""
        from problems.logs.samples import SampleReader
        from sensors import Layout

        samples = SampleReader(Layout(robot, []), log).read(0, log.n_samples)
        return Trajectory.through(robot, samples.time, samples.q)

    def at(self, time: Array) -> tuple[Array, Array, Array]:
        """q (N, nq), qd and qdd (N, nv) at times (N,)."""
        values = (np.asarray(self.spline(time, nu)) for nu in range(3))
        return rates(self.robot, *values)


def random_signal(rng: np.random.Generator, reach: Array, duration: float, pace: float) -> Any:
    """Random spline over 0 .. duration whose components stay within +-reach."""
    size = (_control_points(duration, pace), len(reach))
    return _uniform_spline(rng.uniform(-1.0, 1.0, size=size) * reach, pace)


def _control_points(duration: float, pace: float) -> int:
    if not (duration > 0 and pace > 0 and np.isfinite(duration / pace)):
        raise StateError(f"duration and pace must be positive, got {duration} and {pace} s")
    return int(np.ceil(duration / pace)) + DEGREE


def _uniform_spline(control: Array, pace: float) -> Any:
    knots = pace * np.arange(-DEGREE, len(control) + 1)
    return BSpline(knots, control, DEGREE)
