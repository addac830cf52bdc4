"""Operational coordinates: what a task space is made of.

Every coordinate's velocity is a linear function of body velocities ([OSI] eq. 17),

    xd = sum over bodies b of R_b v_b,      R_b (rows, 6), v_b in the coordinates of body b

For a body this is the paper's operational space; the other two are its future work ([OSI]
section 10). A new kind of coordinate is one new class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.spatial import Transform, skew
from dynsys.model.tree import KinematicTree
from dynsys.types import ArrayLike, ScalarArray

__all__ = ["AbstractTask", "BodyMotion", "CentreOfMass", "RelativeMotion", "Task", "as_tasks"]

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
