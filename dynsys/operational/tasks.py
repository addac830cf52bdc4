"""Operational coordinates: what a task space is made of, and its Jacobian J(q).

Every coordinate's velocity is a linear function of body velocities ([OSI] eq. 17),

    xd = sum over bodies b of R_b v_b,      R_b (rows, 6), v_b in the coordinates of body b

For a body this is the paper's operational space; the others are its future work ([OSI]
section 10). Coordinates are components of velocities in axes that may move; their acceleration
is the rate of these components, xdd = J qdd + Jdot qd: in the body's own axes its spatial
acceleration, in the world's the classical one. A new kind of coordinate is one new class.
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
from dynsys.model.natural import NaturalUnits
from dynsys.model.spatial import Transform, cross, skew
from dynsys.model.tree import KinematicTree
from dynsys.operational.moving_frames import MovingFrames
from dynsys.operational.sparse_jacobian import Supports
from dynsys.recursive.kinematics import poses, transforms
from dynsys.recursive.momentum import require_mass
from dynsys.types import Array, ArrayLike, BoolArray, IntArray, ScalarArray, float_array

__all__ = [
    "AbstractTask",
    "BodyMotion",
    "CentreOfMass",
    "Posture",
    "RelativeMotion",
    "Task",
    "TaskSpace",
    "Tasks",
    "as_levels",
    "as_tasks",
]

SPATIAL = ("angular x", "angular y", "angular z", "linear x", "linear y", "linear z")
PARTS = {"pose": SPATIAL, "orientation": SPATIAL[:3], "position": SPATIAL[3:]}
SHARED = ("angular", "linear", "mass")
"""Words of names whose coordinates have one unit."""
ROUNDING = 1e-12
"""Entries of J below this part of natural units are what terms that cancel leave."""
Poses = Sequence[Transform]
Coordinates = str | Sequence[str]


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

    @abstractmethod
    def bias(self, frames: MovingFrames) -> ScalarArray:
        """Jdot qd (rows,): acceleration of the coordinates at qdd = 0."""

    def common(self, robot: KinematicTree) -> int:
        """Body that carries all others of the task without moving any coordinate, or -1."""
        return -1


@final
@dataclass(frozen=True, eq=False)
class BodyMotion(AbstractTask):
    """Velocity (angular, linear) of a body or named frame.

    Parameters
    ----------
    body : name or number.
    rows : (k, 6), combinations of the six that make the coordinates: R_i of [OSI] eq. (17).
    axes : in which axes the velocity stands: "own", those of the body or frame itself, "world",
        those of the base, or the name of a body or frame, which may move.
    coordinates : "pose", "position", "orientation", or names of some of the six:
        ("linear x", "angular z").
    """

    body: str | int
    rows: ArrayLike | None = None
    axes: str = "own"
    coordinates: Coordinates = "pose"

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        body = robot.body_index(self.body)
        return () if body < 0 else (body,)

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        frame = robot.frame(self.body)
        R = _turned(robot, poses, [frame.transform.matrix()], self.body, self.axes)
        return [self._chosen @ R[0] for _ in self.bodies(robot)]

    def bias(self, frames: MovingFrames) -> ScalarArray:
        velocity, bias = frames.twist(self.body), frames.bias(self.body)
        turned = frames.turned(self.body, self.axes, velocity, bias)
        return np.asarray(self._chosen @ np.concatenate(turned))

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        label = _label(robot, self.body)
        if self.rows is None:
            return tuple(f"{label} {part}" for part in _parts(self, self.coordinates))
        return tuple(f"{label} row {k}" for k in range(len(self._chosen)))

    @cached_property
    def _chosen(self) -> Array:
        """Rows (k, 6) of the six in the axes asked for."""
        if self.rows is None:
            return _selection(self, self.coordinates)
        try:
            rows = float_array(self.rows)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"rows of BodyMotion({self.body!r}) are not numeric: {error}"
            ) from None
        if not np.isfinite(rows).all():
            raise ModelError(f"rows of BodyMotion({self.body!r}) are not all finite")
        if rows.ndim != 2 or rows.shape[1] != 6:
            raise ModelError(
                f"rows of BodyMotion({self.body!r}) must be (k, 6), got shape {rows.shape}"
            )
        if self.coordinates != "pose":
            raise ModelError(f"BodyMotion({self.body!r}): give rows or coordinates, not both")
        return rows


@final
@dataclass(frozen=True)
class RelativeMotion(AbstractTask):
    """Velocity of body or frame ``a`` relative to ``b``, at the origin of ``a``.

    Joints that move both drop out; a grasp or a closed loop is such a coordinate. ``axes`` and
    ``coordinates`` are those of :class:`BodyMotion`; "own" are the axes of ``a``.
    """

    a: str | int
    b: str | int
    axes: str = "own"
    coordinates: Coordinates = "pose"

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        return tuple(dict.fromkeys(body for body in self._ends(robot) if body >= 0))

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        body_a, body_b = self._ends(robot)
        R_a = robot.frame(self.a).transform.matrix()
        if body_a == body_b:
            return [0 * (self._chosen @ R_a) for _ in self.bodies(robot)]
        pieces = [R_a] if body_a >= 0 else []
        if body_b >= 0:
            to_a = _pose(robot, poses, self.a)
            pieces.append(-poses[body_b].inverse().then(to_a).matrix())
        turned = _turned(robot, poses, pieces, self.a, self.axes)
        return [self._chosen @ R for R in turned]

    def bias(self, frames: MovingFrames) -> ScalarArray:
        # all in coordinates of a, rates in space: with the way d from b's origin to a's,
        # w = w_a - w_b, v = v_a - v_b - w_b x d
        T = frames.pose(self.a).E @ frames.pose(self.b).E.T
        d = frames.pose(self.a).E @ (frames.pose(self.a).r - frames.pose(self.b).r)
        (w_a, v_a), (w_b, v_b) = frames.twist(self.a), (T @ u for u in frames.twist(self.b))
        (wd_a, a_a), (wd_b, a_b) = frames.bias(self.a), (T @ u for u in frames.bias(self.b))
        velocity = w_a - w_b, v_a - v_b - cross(w_b, d)
        rate = wd_a - wd_b, a_a - a_b - cross(wd_b, d) - cross(w_b, v_a - v_b)
        turned = frames.turned(self.a, self.axes, velocity, rate)
        return np.asarray(self._chosen @ np.concatenate(turned))

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        label = f"{_label(robot, self.a)} relative to {_label(robot, self.b)}"
        return tuple(f"{label} {part}" for part in _parts(self, self.coordinates))

    def common(self, robot: KinematicTree) -> int:
        p, q = self._ends(robot)
        while p != q:
            p, q = (int(robot.parent[p]), q) if p > q else (p, int(robot.parent[q]))
        return p

    def _ends(self, robot: KinematicTree) -> tuple[int, int]:
        return robot.body_index(self.a), robot.body_index(self.b)

    @property
    def _chosen(self) -> Array:
        return _selection(self, self.coordinates)


@final
@dataclass(frozen=True)
class CentreOfMass(AbstractTask):
    """Velocity (3) of the centre of mass of the whole robot.

    ``axes`` are "world", those of the base, or the name of a body or frame; ``coordinates``
    some of "x", "y", "z".
    """

    axes: str = "world"
    coordinates: Coordinates = ("x", "y", "z")

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        require_mass(robot)
        return tuple(i for i, body in enumerate(robot.bodies) if body.inertia.mass > 0)

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        E = _axes(robot, poses, self.axes)
        pieces = []
        for i in self.bodies(robot):
            inertia = robot.bodies[i].inertia
            to_axes = E @ poses[i].E.T * (inertia.mass / robot.total_mass)
            piece = np.hstack([-(to_axes @ skew(inertia.com)), to_axes])
            pieces.append(self._chosen @ piece)
        return pieces

    def bias(self, frames: MovingFrames) -> ScalarArray:
        robot, E, w = frames.robot, *frames.turning(self.axes)
        total: ScalarArray = np.zeros(3)
        for i in self.bodies(robot):
            inertia = robot.bodies[i].inertia
            (w_i, v), (wd, a) = frames.twist(i), frames.bias(i)
            arm = inertia.com
            moved = a + cross(wd, arm) + cross(w_i, cross(w_i, arm))
            to_axes = E @ frames.pose(i).E.T
            rate = to_axes @ moved
            if self.axes != "world":
                rate = rate - cross(w, to_axes @ (v + cross(w_i, arm)))
            total = total + rate * (inertia.mass / robot.total_mass)
        return np.asarray(self._chosen @ total)

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        return tuple(f"centre of mass {axis}" for axis in self._parts)

    @property
    def _parts(self) -> tuple[str, ...]:
        wrong = [part for part in self.coordinates if part not in ("x", "y", "z")]
        if wrong or not self.coordinates:
            raise ModelError(
                f"CentreOfMass has coordinates 'x', 'y', 'z', not {self.coordinates!r}"
            )
        return tuple(self.coordinates)

    @property
    def _chosen(self) -> Array:
        return np.eye(3)[["xyz".index(part) for part in self._parts]]


@final
@dataclass(frozen=True)
class Posture(AbstractTask):
    """Velocities qd of some joints, by name; of all that move if none is named.

    With S the axes of joint i, qd_i = S^+ (v_i - X v_parent).
    """

    joints: str | Sequence[str] | None = None

    def bodies(self, robot: KinematicTree) -> tuple[int, ...]:
        mine = self._mine(robot)
        return tuple(sorted({i for i in mine} | {int(robot.parent[i]) for i in mine} - {-1}))

    def coefficients(self, robot: KinematicTree, poses: Poses) -> list[ScalarArray]:
        mine, bodies = self._mine(robot), self.bodies(robot)
        ends = np.cumsum([0, *(robot.motion_subspace[i].shape[1] for i in mine)])
        kind = np.result_type(np.float64, *(poses[i].E for i in bodies))
        pieces = {i: np.zeros((int(ends[-1]), 6), dtype=kind) for i in bodies}
        for i, start, end in zip(mine, ends, ends[1:], strict=False):
            inverse = np.linalg.pinv(robot.motion_subspace[i])
            pieces[i][start:end] = pieces[i][start:end] + inverse
            if (parent := int(robot.parent[i])) >= 0:
                X = poses[parent].inverse().then(poses[i]).matrix()
                pieces[parent][start:end] = pieces[parent][start:end] - inverse @ X
        return [pieces[i] for i in bodies]

    def bias(self, frames: MovingFrames) -> ScalarArray:
        return np.zeros(len(self.names(frames.robot)))

    def names(self, robot: KinematicTree) -> tuple[str, ...]:
        names = []
        for i in self._mine(robot):
            size = robot.motion_subspace[i].shape[1]
            more = [""] if size == 1 else [f"[{k}]" for k in range(size)]
            names += [f"joint {robot.joint_names[i]!r}{index}" for index in more]
        return tuple(names)

    def common(self, robot: KinematicTree) -> int:
        mine = self._mine(robot)
        return int(robot.parent[mine[0]]) if len(mine) == 1 else -1

    def _mine(self, robot: KinematicTree) -> list[int]:
        if self.joints is None:
            moving = enumerate(robot.bodies)
            return [i for i, body in moving if body.joint.nv and body.coupling is None]
        named = [self.joints] if isinstance(self.joints, str) else list(self.joints)
        mine = [robot.joint_index(name) for name in named]
        for i in mine:
            if not robot.joints[i].nv:
                raise ModelError(f"joint {robot.joint_names[i]!r} of a posture does not move")
            if (led := robot.bodies[i].coupling) is not None:
                raise ModelError(
                    f"joint {robot.joint_names[i]!r} of a posture has no qd of its own: it"
                    f" follows {robot.joint_names[led.leader]!r}, name that one"
                )
        if not mine or len(set(mine)) < len(mine):
            raise ModelError("a posture needs the names of some joints, each once")
        return mine


def _parts(task: AbstractTask, coordinates: Coordinates) -> tuple[str, ...]:
    """Names of the coordinates that were asked for."""
    if isinstance(coordinates, str):
        found = PARTS.get(coordinates, (coordinates,))
    else:
        found = tuple(coordinates)
    wrong = [part for part in found if part not in SPATIAL]
    if wrong or not found or len(set(found)) < len(found):
        raise ModelError(
            f"{task}: coordinates are 'pose', 'position', 'orientation' or some of"
            f" {', '.join(map(repr, SPATIAL))}, each once"
        )
    return found


def _selection(task: AbstractTask, coordinates: Coordinates) -> Array:
    """Rows (k, 6) of the unit matrix."""
    return np.eye(6)[[SPATIAL.index(part) for part in _parts(task, coordinates)]]


def _pose(robot: KinematicTree, poses: Poses, body: str | int) -> Transform:
    """Transform base -> body or frame."""
    frame = robot.frame(body)
    return frame.transform if frame.body < 0 else poses[frame.body].then(frame.transform)


def _axes(robot: KinematicTree, poses: Poses, axes: str) -> ScalarArray:
    """E (3, 3): base axes to those of a frame, or of the world."""
    return np.eye(3) if axes == "world" else _pose(robot, poses, axes).E


def _turned(
    robot: KinematicTree,
    poses: Poses,
    pieces: Sequence[ScalarArray],
    own: str | int,
    axes: str,
) -> list[ScalarArray]:
    """Pieces R (6, 6) with their velocities in other axes than those of frame ``own``."""
    if axes == "own":
        return list(pieces)
    T = _axes(robot, poses, axes) @ _pose(robot, poses, own).E.T
    return [np.vstack([T @ R[:3], T @ R[3:]]) for R in pieces]


Task = str | int | AbstractTask


Tasks = Task | Sequence[Task] | Sequence[Sequence[Task]]
"""One task, some, or some on each of several levels, the first level going first."""


def as_tasks(tasks: Task | Sequence[Task]) -> tuple[AbstractTask, ...]:
    """Tasks from what a user may hand in: names or numbers of bodies, frames, tasks."""
    given = [tasks] if isinstance(tasks, (str, int, np.integer, AbstractTask)) else tasks
    return tuple(task if isinstance(task, AbstractTask) else BodyMotion(task) for task in given)


def as_levels(tasks: Tasks) -> tuple[tuple[AbstractTask, ...], ...]:
    """Levels of tasks, from one task, a list of tasks, or a list of lists.

    Raises
    ------
    ModelError
        if lists stand beside tasks, or a level is empty.
    """
    if isinstance(tasks, (str, int, np.integer, AbstractTask)):
        return (as_tasks(tasks),)
    nested = [isinstance(each, (list, tuple)) for each in tasks]
    if not any(nested):
        return (as_tasks(tasks),)  # type: ignore[arg-type]
    if not all(nested) or not all(len(level) for level in tasks):  # type: ignore[arg-type]
        raise ModelError(
            "levels of tasks are lists, each with a task: [[first, beside it], [second]]"
        )
    return tuple(as_tasks(level) for level in tasks)


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
    def alike(self) -> IntArray:
        """Number (m,) of each coordinate's kind: those of one task with one unit share it."""
        kinds: dict[object, int] = {}
        found = []
        for number, task in enumerate(self.tasks):
            for name in task.names(self.robot):
                shared = [word for word in SHARED if f" {word} " in name]
                kind = (number, shared[0]) if shared else (number, name)
                found.append(kinds.setdefault(kind, len(kinds)))
        return np.array(found, dtype=np.intp)

    @cached_property
    def _natural(self) -> NaturalUnits:
        return NaturalUnits(self.robot)

    @cached_property
    def _units(self) -> Array:
        """What the coordinates (m,) are where bodies move with natural units of the robot."""
        units = np.zeros(self.m)
        where = poses(self.robot, transforms(self.robot, self.robot.neutral()))
        for task, pieces in enumerate(self.coefficients(where)):
            for R in pieces:
                units[self.rows(task)] += np.abs(R) @ self._natural.twist
        return units

    @cached_property
    def natural_mobility(self) -> Array:
        """Mobility (m,) of coordinates where bodies have natural units of motion and inertia.

        Far below it is what terms that cancel leave: a coordinate that nothing moves.
        """
        return self._units**2 / self._natural.energy

    def moved(self, J: Array) -> BoolArray:
        """Coordinates (m,) that some freedom moves: their rows of J are more than rounding."""
        size = np.abs(J) * self._natural.motion
        return np.asarray((size > ROUNDING * self._units[:, None]).any(axis=1))

    @cached_property
    def supports(self) -> Supports:
        """Pattern of J and Y; an error if the robot has coupled joints."""
        last, parent = last_freedom(self.robot), expanded_parent(self.robot)
        tips = [last[list(bodies)] for bodies in self.bodies]
        return Supports.above(tips, np.diff(self.first_row).tolist(), parent)

    def bias(self, frames: MovingFrames) -> ScalarArray:
        """Jdot qd (m,) at the motion of the frames; scalars of any kind."""
        return np.concatenate([task.bias(frames) for task in self.tasks])

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
