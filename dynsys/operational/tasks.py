"""Operational coordinates: what a task space is made of, and its Jacobian J(q).

Every coordinate's velocity is a linear function of body velocities ([OSI] eq. 17),

    xd = sum over bodies b of R_b v_b,      R_b (rows, 6), v_b in the coordinates of body b

For a body this is the paper's operational space; the other two are its future work ([OSI]
section 10). A new kind of coordinate is one new class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.jit import Loop
from dynsys.loops.tree_state import TreeState
from dynsys.model.expanded import expanded_parent, last_freedom
from dynsys.model.spatial import Transform, skew
from dynsys.model.tree import KinematicTree
from dynsys.operational.sparse_jacobian import Supports
from dynsys.recursive.kinematics import poses
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = [
    "AbstractTask",
    "BodyMotion",
    "CentreOfMass",
    "RelativeMotion",
    "Task",
    "TaskSpace",
    "as_tasks",
]

SPATIAL = ("angular x", "angular y", "angular z", "linear x", "linear y", "linear z")
Poses = Sequence[Transform]


class AbstractTask(ABC):
    """Some operational coordinates."""

    @abstractmethod
    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        """Numbers of the bodies whose velocity enters; the base (-1) left out."""

    @abstractmethod
    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        """R_b (rows, 6) for each of ``bodies``, given the poses base -> body."""

    @abstractmethod
    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        """Name of every coordinate, for messages."""

    def common(self, robot: KinematicTree) -> int:
        """Body that carries all others of the task without moving any coordinate, or -1."""
        return -1


@final
@dataclass(frozen=True, eq=False)
class BodyMotion(AbstractTask):
    """Spatial velocity (angular, linear) of a body or named frame, in its own coordinates.

    ``rows`` (k, 6), if given, are the combinations of the six that make the coordinates: R_i of
    [OSI] eq. (17).
    """

    body: str | int
    rows: ArrayLike | None = None

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        body = robot.body_index(self.body)
        return () if body < 0 else (body,)

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        frame = robot.frame(self.body)
        R = frame.transform.matrix()
        chosen = R if self.rows is None else self._rows() @ R
        return [chosen for _ in self.bodies(robot)]

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        label = _label(robot, self.body)
        if self.rows is None:
            return tuple(f"{label} {part}" for part in SPATIAL)
        return tuple(f"{label} row {k}" for k in range(len(self._rows())))

    def _rows(self) -> ScalarArray:
        rows = np.asarray(self.rows)
        if rows.ndim != 2 or rows.shape[1] != 6:
            raise ModelError(
                f"rows of BodyMotion({self.body!r}) must be (k, 6), got shape {rows.shape}"
            )
        return rows


@final
@dataclass(frozen=True)
class RelativeMotion(AbstractTask):
    """Spatial velocity of body or frame ``a`` relative to ``b``, in coordinates of ``a``.

    Joints that move both drop out; a grasp or a closed loop is such a coordinate.
    """

    a: str | int
    b: str | int

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        return tuple(dict.fromkeys(body for body in self._ends(robot) if body >= 0))

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        body_a, body_b = self._ends(robot)
        R_a = robot.frame(self.a).transform.matrix()
        if body_a == body_b:
            return [0 * R_a for _ in self.bodies(robot)]
        pieces = [R_a] if body_a >= 0 else []
        if body_b >= 0:
            to_a = (
                poses[body_a].then(robot.frame(self.a).transform)
                if body_a >= 0
                else (robot.frame(self.a).transform)
            )
            pieces.append(-poses[body_b].inverse().then(to_a).matrix())
        return pieces

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        label = f"{_label(robot, self.a)} relative to {_label(robot, self.b)}"
        return tuple(f"{label} {part}" for part in SPATIAL)

    def common(self, robot: KinematicTree) -> int:
        p, q = self._ends(robot)
        while p != q:
            p, q = (int(robot.parent[p]), q) if p > q else (p, int(robot.parent[q]))
        return p

    def _ends(self, robot: KinematicTree) -> tuple[int, int]:
        return robot.body_index(self.a), robot.body_index(self.b)


@final
@dataclass(frozen=True)
class CentreOfMass(AbstractTask):
    """Velocity (3) of the centre of mass of the whole robot, in base coordinates."""

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        if robot.total_mass <= 0:
            raise ModelError(f"robot {robot.name!r} has no mass, hence no centre of mass")
        return tuple(i for i, body in enumerate(robot.bodies) if body.inertia.mass > 0)

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        pieces = []
        for i in self.bodies(robot):
            inertia = robot.bodies[i].inertia
            to_base = poses[i].E.T * (inertia.mass / robot.total_mass)
            pieces.append(np.hstack([-(to_base @ skew(inertia.com)), to_base]))
        return pieces

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        return tuple(f"centre of mass {axis}" for axis in "xyz")


Task = str | int | AbstractTask


def as_tasks(bodies: Task | Sequence[Task]) -> tuple[AbstractTask, ...]:
    """Tasks from what a user may hand in: names or numbers of bodies, frames, tasks."""
    given = [bodies] if isinstance(bodies, (str, int, np.integer, AbstractTask)) else bodies
    return tuple(task if isinstance(task, AbstractTask) else BodyMotion(task) for task in given)


def _label(robot: KinematicTree, body: str | int) -> str:
    if isinstance(body, str):
        return repr(body)
    return repr(robot.body_names[body]) if body >= 0 else "the base"


# ---- the task space of a robot -----------------------------------------------------------


@final
class TaskSpace:
    """Tasks of one robot, with their rows, bodies and supports; ``m`` coordinates in all.

    Known before any q ([OSI] section 5): row i of J is nonzero only at freedoms that support
    the bodies it depends on. Y = J L^-1 keeps that pattern.
    """

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
    parent: IntArray, X: Array, S: Array, first: IntArray, moving: IntArray, G: Array, J: Array
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
