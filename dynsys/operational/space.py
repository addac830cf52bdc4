"""The task space of a robot: which rows depend on which bodies and freedoms, and J(q).

Known before any q ([OSI] section 5): row i of J is nonzero only at freedoms that support the
bodies it depends on. Y = J L^-1 keeps that pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.jit import Loop
from dynsys.model.expanded import expanded_parent, last_freedom
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.operational.state import TreeState
from dynsys.operational.supports import Supports
from dynsys.operational.tasks import AbstractTask
from dynsys.recursive.kinematics import poses
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["TaskSpace"]


@final
class TaskSpace:
    """Tasks of one robot, with their rows, bodies and supports; ``m`` coordinates in all."""

    def __init__(self, robot: KinematicTree, tasks: Sequence[AbstractTask]) -> None:
        if not tasks:
            raise ModelError("an operational space needs at least one body or task")
        self.robot = robot
        self.tasks = tuple(tasks)
        self.names = tuple(name for task in tasks for name in task.names(robot))
        self.bodies = tuple(task.bodies(robot) for task in tasks)
        ends = np.cumsum([0, *(len(task.names(robot)) for task in tasks)])
        self.first_row: IntArray = ends.astype(np.intp)
        self._moving = [
            _bodies_between(robot, bodies, task.common(robot))
            for task, bodies in zip(tasks, self.bodies, strict=True)
        ]

    @property
    def m(self) -> int:
        """Number of operational coordinates."""
        return int(self.first_row[-1])

    @cached_property
    def supports(self) -> Supports:
        """Pattern of J and Y; an error if the robot has coupled joints."""
        last, parent = last_freedom(self.robot), expanded_parent(self.robot)
        tips = [last[list(bodies)] for bodies in self.bodies]
        return Supports.above(tips, np.diff(self.first_row).tolist(), parent)

    def rows(self, task: int) -> slice:
        """Rows of task number ``task`` in J."""
        return slice(int(self.first_row[task]), int(self.first_row[task + 1]))

    def coefficients(self, where: Sequence[Transform]) -> list[list[ScalarArray]]:
        """R_b (rows, 6) of every task and every body it depends on, at poses base -> body."""
        return [task.coefficients(self.robot, where) for task in self.tasks]

    def jacobian(self, state: TreeState) -> Array:
        """Task Jacobian J (m, nv), xd = J qd ([OSI] eq. 12), by a compiled loop."""
        tree, J = state.tree, np.zeros((self.m, self.robot.nv))
        for task, pieces in enumerate(self.coefficients(state.poses)):
            rows = self.rows(task)
            G = np.zeros((self.robot.n_bodies, rows.stop - rows.start, 6))
            for body, R in zip(self.bodies[task], pieces, strict=True):
                G[body] = R
            carry_down(tree.parent, state.X, tree.S, tree.first, self._moving[task], G, J[rows])
        return J

    def jacobian_scalars(self, X_up: Sequence[Transform]) -> ScalarArray:
        """J (m, nv) over scalars of any kind, coupled joints included."""
        robot = self.robot
        pieces = self.coefficients(poses(robot, X_up))
        kind = np.result_type(np.float64, *(X.E for X in X_up), *(X.r for X in X_up))
        J = np.zeros((self.m, robot.nv), dtype=kind)
        for task, coefficients in enumerate(pieces):
            below = dict(zip(self.bodies[task], coefficients, strict=True))
            for j in self._moving[task].tolist():
                R = below.pop(j)
                freedoms = robot.v_slices()[j]
                J[self.rows(task), freedoms] = J[self.rows(task), freedoms] + (
                    R @ robot.motion_subspace[j]
                )
                parent = int(robot.parent[j])
                carried = np.array([X_up[j].force_back(row) for row in R])
                below[parent] = below[parent] + carried if parent in below else carried
        return J


def _bodies_between(robot: KinematicTree, bodies: Sequence[int], common: int) -> IntArray:
    """Bodies on the ways from ``common`` (exclusive) to ``bodies``, the last numbers first."""
    shared = set(robot.support(common))
    moving = {i for body in bodies for i in robot.support(body)} - shared
    return np.array(sorted(moving, reverse=True), dtype=np.intp)


@Loop
def carry_down(
    parent: IntArray,
    X: Array,
    S: Array,
    first: IntArray,
    moving: IntArray,
    G: Array,
    J: Array,
) -> None:
    """Fill rows J (k, nv) from xd = sum over bodies G_b v_b, G (N, k, 6), leaves to base."""
    for i in moving:
        for row in range(len(J)):
            for k in range(first[i], first[i + 1]):
                for c in range(6):
                    J[row, k] += G[i, row, c] * S[k, c]
            if parent[i] >= 0:
                for c in range(6):
                    for r in range(6):
                        G[parent[i], row, c] += G[i, row, r] * X[i, r, c]
