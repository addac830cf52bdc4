"""What the readings of a layout see at a posture, and where within reach they see least.

What is seen is the rank of the reduced rows B(q) z = c (:mod:`problems.measured.reduced`);
velocities change nothing about it. The smallest singular value that is not zero, relative to
the largest, tells how far the posture is from one where a further direction is lost; it is
followed downhill within the joint limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics
from dynsys.system.size import without_rounding
from dynsys.types import Array, IntArray
from problems.measured.measured_system import MeasuredSystem
from problems.measured.reduced import (
    RANK_TOLERANCE,
    Rank,
    ReducedSystem,
    columns_left,
    in_parts,
    row_size,
)

__all__ = ["PostureRank", "WeakestPosture", "weakest_posture"]

STEP = 1e-5
"""Difference by which slopes are taken, rad or m."""
LARGEST_STEP = 0.6
"""Most that a coordinate moves at once."""
ITERATIONS = 12
IDLE = 1e-9
"""Slopes below this do not matter."""
LOST = 1e-5
"""Part of its usual size below which a smallest singular value counts as zero nearby."""


@final
@dataclass(frozen=True, eq=False)
class PostureRank:
    """What the readings see of z = (qdd, external wrenches) at position q."""

    measured: MeasuredSystem
    q: Array
    tolerance: float = RANK_TOLERANCE

    @cached_property
    def reduced(self) -> ReducedSystem:
        """All readings as rows of z."""
        return self.measured.reduced(_at_rest(self.measured.robot, self.q))

    @property
    def kinematics(self) -> Kinematics:
        """The posture."""
        return self.reduced.kinematics

    @cached_property
    def rank(self) -> Rank:
        """Rank and null space."""
        return self.reduced.rank(self.tolerance)

    @property
    def condition(self) -> float:
        """Condition number of estimates here."""
        present = np.ones(len(self.reduced.B), dtype=bool)
        return self.reduced.condition(self.measured.whitened(present))

    @cached_property
    def unseen(self) -> Array:
        """All unknowns d (n, nullity) along the directions that no reading sees."""
        return np.asarray(self.reduced.T @ self.rank.null)

    @cached_property
    def reach(self) -> Array:
        """Size (n,) of each unknown for natural sizes of z."""
        return self.rank.reach(self.reduced.T_size)


def _at_rest(robot: KinematicTree, q: Array) -> Kinematics:
    return Kinematics.at(robot, q, np.zeros(robot.nv))


# ---- the weakest posture -------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class WeakestPosture:
    """Position q with the smallest relative singular value found; joints it depends on.

    ``is_lost``: close to a position at which a direction is not seen at all.
    """

    q: Array
    value: float
    is_lost: bool
    joints: tuple[int, ...]


@final
class _SmallestSeen:
    """Smallest relative singular value of what is seen, as a function of q.

    Columns of z that rows with one entry determine, the same entry at every posture, are left
    out.
    """

    def __init__(self, start: PostureRank) -> None:
        self.measured = start.measured
        robot, rank, reduced = self.measured.robot, start.rank, start.reduced
        other = self.measured.reduced(_at_rest(robot, robot.random_configuration(1))).B
        steady = without_rounding(other - reduced.B, reduced.B_size) == 0
        filled = (reduced.B != 0) | (other != 0)
        followed = columns_left(filled, filled & steady)
        self.order = len(followed) - rank.nullity - 1
        """Number of the singular value; negative if what is seen does not depend on q."""
        self.directions = np.diag(rank.scale)[:, followed]
        self.size = row_size(reduced.B_size[:, followed])

    def __call__(self, q: Array) -> float:
        B = self.measured.seen(_at_rest(self.measured.robot, q), self.directions)
        if len(B) <= self.order:
            return 0.0
        singular = np.linalg.svd(in_parts(B, self.size), compute_uv=False)
        return float(singular[self.order] / singular[0])

    def moved(self, q: Array, place: int, by: float) -> float:
        """Value with one coordinate of q moved."""
        q = q.copy()
        q[place] += by
        return self(q)


def weakest_posture(start: PostureRank) -> WeakestPosture | None:
    """Follow the smallest singular value downhill from a posture, within the joint limits.

    Steps of size sigma / |gradient| towards sigma = 0 over all joints of one freedom. None if
    what is seen does not depend on the position.
    """
    smallest = _SmallestSeen(start)
    if smallest.order < 0:
        return None
    robot = start.measured.robot
    joint_at = {
        where.start: joint
        for joint, (where, body) in enumerate(zip(robot.q_slices(), robot.bodies, strict=True))
        if body.joint.nq == 1 and body.coupling is None
    }
    movable = np.array(list(joint_at), dtype=np.intp)
    q = start.q.copy()
    value = smallest(q)
    goal = LOST * value
    for _ in range(ITERATIONS):
        slopes = [(smallest.moved(q, k, STEP) - value) / STEP for k in movable.tolist()]
        gradient = np.array(slopes)
        moving = np.abs(gradient) > IDLE
        movable, gradient = movable[moving], gradient[moving]
        limits = robot.position_limits
        found = (
            _step_down(smallest, q, movable, gradient, value, limits) if value > goal else None
        )
        if found is None:
            break
        q, before, value = found[0], value, found[1]
        if value > 0.95 * before:
            break
    joints = []
    if value < goal:  # which joints bring sight back when moved by a quarter radian?
        least = 1e3 * max(value, 1e-12)
        joints = [j for k, j in joint_at.items() if smallest.moved(q, k, 0.25) > least]
    return WeakestPosture(q, value, value < goal, tuple(joints))


def _step_down(
    smallest: _SmallestSeen,
    q: Array,
    movable: IntArray,
    gradient: Array,
    value: float,
    limits: tuple[Array, Array],
) -> tuple[Array, float] | None:
    """Position and value after a step against the gradient, joints at their limits held."""
    lower, upper = limits[0][movable], limits[1][movable]
    here = q[movable]
    held = ((here <= lower) & (gradient > 0)) | ((here >= upper) & (gradient < 0))
    downhill = np.where(held, 0.0, -gradient)
    size = float(downhill @ downhill)
    if size < IDLE**2:
        return None
    step = value / size * downhill
    step *= min(1.0, LARGEST_STEP / float(np.abs(step).max()))
    for _ in range(3):
        trial = q.copy()
        trial[movable] = np.clip(here + step, lower, upper)
        found = smallest(trial)
        if found < value:
            return trial, found
        step = 0.3 * step
    return None
