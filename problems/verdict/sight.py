"""What a layout sees of the open unknowns at a state, and where within reach it sees least."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from dynsys.system.equations import Kinematics
from dynsys.types import Array, IntArray
from problems.estimation.least_squares import RANK_TOLERANCE, Rank, Rows, rank_of

if TYPE_CHECKING:
    from problems.estimation.estimation import Estimation

__all__ = ["Sight", "WeakestState", "weakest_state"]

STEP = 1e-5
LARGEST_STEP = 0.6
ITERATIONS = 12
IDLE = 1e-9
LOST = 1e-5
"""Part of its usual size below which a smallest singular value counts as zero nearby."""


@final
@dataclass(frozen=True, eq=False)
class Sight:
    """What the readings of a layout see of z = (qdd, external wrenches) at position q."""

    problem: Estimation
    q: Array
    tolerance: float = RANK_TOLERANCE

    @cached_property
    def kinematics(self) -> Kinematics:
        """The state; velocities change nothing about what is seen."""
        robot = self.problem.robot
        return Kinematics.at(robot, self.q, np.zeros(robot.nv))

    @cached_property
    def rows(self) -> Rows:
        """All readings as functions of z."""
        _, readings = self.problem.measured.at(self.kinematics)
        return self.problem.measured.reduced(self.kinematics, *readings)[0]

    @cached_property
    def rank(self) -> Rank:
        """Rank and null space."""
        return rank_of(self.rows.B, tolerance=self.tolerance)

    @cached_property
    def unseen(self) -> Array:
        """All unknowns d (n, nullity) along the directions that no reading sees."""
        d = self.problem.measured.response.at(self.kinematics, self.rank.null)
        return np.asarray(d[:, :-1])

    @cached_property
    def reach(self) -> Array:
        """Size (n,) of each unknown for natural sizes of z."""
        d = self.problem.measured.response.at(self.kinematics, np.diag(self.rank.scale))
        return np.asarray(np.linalg.norm(d[:, :-1], axis=1))


@final
@dataclass(frozen=True, eq=False)
class WeakestState:
    """Position q with the smallest relative singular value found; joints it depends on.

    ``is_lost``: close to a position at which a direction is not seen at all.
    """

    q: Array
    value: float
    is_lost: bool
    joints: tuple[int, ...]


@final
class _Core:
    """Smallest relative singular value of what is seen, as a function of q.

    Only the columns of z that are not trivially known are followed.
    """

    def __init__(self, sight: Sight) -> None:
        self.problem = sight.problem
        rank = sight.rank
        self.nullity = rank.nullity
        trivially = np.zeros(len(rank.scale), dtype=bool)
        core = len(rank.singular)
        # columns outside the core are unit vectors among the directions that are seen
        trivially[np.nonzero(rank.seen[:, core - rank.nullity :].any(axis=1))] = True
        self.directions = np.diag(rank.scale)[:, ~trivially]
        self.order = core - rank.nullity - 1

    @property
    def is_constant(self) -> bool:
        return self.order < 0

    def __call__(self, q: Array) -> float:
        robot = self.problem.robot
        kinematics = Kinematics.at(robot, q, np.zeros(robot.nv))
        B = self.problem.measured.seen(kinematics, self.directions)
        sizes = np.linalg.norm(B, axis=1)
        B = B[sizes > 1e-12] / sizes[sizes > 1e-12, None]
        if len(B) <= self.order:
            return 0.0
        singular = np.linalg.svd(B, compute_uv=False)
        return float(singular[self.order] / singular[0])


def weakest_state(start: Sight) -> WeakestState | None:
    """Follow the smallest singular value downhill from a state, within the joint limits.

    Steps of size sigma / |gradient| towards sigma = 0 over all joints of one freedom. None if
    what is seen does not depend on the position.
    """
    core = _Core(start)
    if core.is_constant:
        return None
    movable = _movable(start)
    limits = start.problem.robot.position_limits
    q = start.q.copy()
    value = core(q)
    goal = LOST * value
    for _ in range(ITERATIONS):
        gradient = _gradient(core, q, movable, value)
        moving = np.abs(gradient) > IDLE
        movable, gradient = movable[moving], gradient[moving]
        found = _step_down(core, q, movable, gradient, value, limits) if value > goal else None
        if found is None:
            break
        q, before, value = found[0], value, found[1]
        if value > 0.95 * before:
            break
    joints = _decisive(core, q, _movable(start), value) if value < goal else ()
    return WeakestState(q, value, value < goal, joints)


def _step_down(
    core: _Core,
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
        found = core(trial)
        if found < value:
            return trial, found
        step = 0.3 * step
    return None


def _movable(sight: Sight) -> IntArray:
    """Places in q of joints of one coordinate and one freedom."""
    robot = sight.problem.robot
    return np.array(
        [
            where.start
            for where, body in zip(robot.q_slices(), robot.bodies, strict=True)
            if body.joint.nq == 1 and body.coupling is None
        ],
        dtype=np.intp,
    )


def _gradient(core: _Core, q: Array, movable: IntArray, value: float) -> Array:
    gradient = np.empty(len(movable))
    for k, place in enumerate(movable.tolist()):
        moved = q.copy()
        moved[place] += STEP
        gradient[k] = (core(moved) - value) / STEP
    return gradient


def _decisive(core: _Core, q: Array, movable: IntArray, value: float) -> tuple[int, ...]:
    """Joints (numbers) that bring sight back when moved away from q by a quarter radian."""
    found = []
    for place in movable.tolist():
        moved = q.copy()
        moved[place] += 0.25
        if core(moved) > 1e3 * max(value, 1e-12):
            slices = core.problem.robot.q_slices()
            found.append(next(i for i, where in enumerate(slices) if where.start == place))
    return tuple(found)
