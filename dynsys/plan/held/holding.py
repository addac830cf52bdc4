"""Constraints while dynamics is recorded: their rows on the robot in stages, their forces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from dynsys.model.constraints import Constraint, FrameConstraint, row_slices
from dynsys.model.spatial import Transform
from dynsys.plan.held.multipliers import HeldBy, smallest_solution
from dynsys.plan.symmetric import HeldRows, SymmetricStep
from dynsys.program.frames import Reframed
from dynsys.recursive.constraint_rows import ConstraintRows, constraint_rows
from dynsys.recursive.kinematics import transforms
from dynsys.types import ScalarArray

__all__ = ["Holding", "rows_on"]


def rows_on(
    mechanism: Reframed,
    constraint: Constraint,
    state: tuple[ScalarArray, ScalarArray, ScalarArray],
    X_up: Sequence[Transform],
) -> ConstraintRows:
    """Rows of a constraint on the robot in stages, at q, qd and known qdd."""
    ends, robot = None, mechanism.robot
    if isinstance(constraint, FrameConstraint):
        own, other = constraint.ends(robot)
        ends = mechanism.frame_here(own), mechanism.frame_here(other)
    return constraint_rows(mechanism, constraint, robot, *state, X_up, ends)


@final
class Holding:
    """Constraints on the graph of q and qd: their rows, what solves for their forces.

    ``order`` are the rows that are pivots, and the redundant ones; ``steering`` gains and
    targets, or nothing. ``forces`` and ``watched`` are there after :meth:`solve`.
    """

    def __init__(
        self,
        held: HeldBy,
        order: tuple[tuple[int, ...], tuple[int, ...]],
        mechanism: Reframed,
        state: tuple[ScalarArray, ScalarArray],
        steering: tuple[ScalarArray, ScalarArray],
    ) -> None:
        self._held, self._order, self._mechanism = held, order, mechanism
        (self._q, self._qd), (self._gains, self._target) = state, steering
        self.forces: ScalarArray = np.zeros(0)
        self.watched: list[Any] = []

    def tree(self, steps: Sequence[SymmetricStep]) -> tuple[SymmetricStep, ...]:
        """Steps of the bodies."""
        return tuple(s for s in steps if s.kind not in ("multiplier", "redundant"))

    def rows(self, X_up: Sequence[Transform], imposed: ScalarArray) -> list[HeldRows]:
        """Rows of all constraints in the motion whose unknown qdd are zero."""
        constraints, found = self._held.constraints, []
        for c, (constraint, where) in enumerate(
            zip(constraints, row_slices(constraints), strict=True)
        ):
            state = self._q, self._qd, imposed
            rows = rows_on(self._mechanism, constraint, state, X_up)
            acceleration = rows.drift
            if len(self._gains):
                stiffness, damping = self._gains[2 * c : 2 * c + 2]
                steering = stiffness * rows.error + damping * rows.velocity
                acceleration = acceleration + steering - self._target[where]
            found.append(HeldRows(rows.wrenches, rows.torques, acceleration))
        return found

    def solve(
        self, Lambda_inv: ScalarArray, free: ScalarArray, torque: ScalarArray, JT: ScalarArray
    ) -> ScalarArray:
        """Forces of all rows; see :mod:`.multipliers`. ``free``: rows without forces."""
        if self._held.is_inverse:
            U = self._held.undriven
            needed = (torque + self._mechanism.friction_torque(self._qd))[U]
            found = smallest_solution(JT[U] @ JT[U].T, needed, *self._order, self._held.floors)
            self.forces = JT[U].T @ found.x
        else:
            found = smallest_solution(Lambda_inv, -free, *self._order, self._held.floors)
            self.forces = found.x
        self.watched = [*found.shares, *found.contradictions, *found.sizes]
        return self.forces

    def added_to(self, f_ext: ScalarArray | None) -> ScalarArray:
        """External wrenches on the robot's bodies, with those of the constraints."""
        robot, qd = self._mechanism.robot, self._qd
        total = np.zeros((robot.n_bodies, 6), dtype=object)
        if f_ext is not None:
            total = total + f_ext
        X_up, constraints = transforms(robot, self._q), self._held.constraints
        for constraint, where in zip(constraints, row_slices(constraints), strict=True):
            rows = constraint_rows(robot, constraint, robot, self._q, qd, 0 * qd, X_up)
            for body, wrenches in rows.wrenches.items():
                total[body] = total[body] + wrenches @ self.forces[where]
        return total
