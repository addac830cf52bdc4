"""Constraints on the motion of a robot, as data: what is held, between what, along which axes.

    FrameConstraint   a frame held against another one or the environment, in any subset of the
                      six directions: rigid and point contacts, rolling, loops of all kinds
    JointConstraint   a joint that follows a polynomial of another one, or stands

Each is some rows  J(q) qd = 0  and their time derivative  J qdd + Jdot qd = 0; the dual
unknowns are the forces that hold it (:mod:`dynsys.recursive.constraint_rows` has the rows in
scalars of any kind). Nothing here moves; nothing here knows a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias, final, get_args

import numpy as np

from dynsys.errors import ModelError, nearest_name
from dynsys.model.body import Frame
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import ArrayLike

__all__ = [
    "MOTIONS",
    "WRENCHES",
    "Axes",
    "Constraint",
    "FrameConstraint",
    "JointConstraint",
    "checked_constraints",
    "row_labels",
    "row_slices",
]

MOTIONS = ("rx", "ry", "rz", "x", "y", "z")
"""Directions of motion that can be held: rotations, then translations."""
WRENCHES = ("tx", "ty", "tz", "fx", "fy", "fz")
"""Components of the wrench that holds them, in the same order."""

Axes: TypeAlias = Literal["frame", "other", "world"]


@final
@dataclass(frozen=True, eq=False)
class FrameConstraint:
    """Directions in which a frame does not move relative to another one.

        (w, u) = v_frame - v_other at the origin of ``frame``, in ``axes``
        held components of (w, u) = 0,    and their time derivative in these axes

    All six: a rigid contact, or a weld. ``x y z``: a point contact, or a ball that closes a
    loop. All but ``rz``: a hinge about z, the closure of five directions. ``z`` in world axes:
    a foot on ice.

    Parameters
    ----------
    name : by which its wrench is found.
    frame : body or frame that is held.
    other : body or frame that holds it; None for the environment.
    components : which of rx ry rz x y z are held.
    axes : in which directions are meant, and the wrench is given: those of ``frame`` (default),
        of ``other`` or of the world. Which of them matters where some direction is free.
    placement : from ``frame`` to the point and axes on it that are held, by default itself.
    other_placement : from ``other`` (or the world) to where they belong. Needed of contacts
        only for the error of position; None holds the frame wherever it is.

    Raises
    ------
    ModelError
        if the components or axes are none.
    """

    name: str
    frame: str | int
    other: str | int | None = None
    components: Sequence[str] = MOTIONS
    axes: Axes = "frame"
    placement: Transform = field(default_factory=Transform.identity)
    other_placement: Transform | None = None

    def __post_init__(self) -> None:
        chosen = (self.components,) if isinstance(self.components, str) else self.components
        for component in chosen:
            if component not in MOTIONS:
                hint = nearest_name(str(component), MOTIONS)
                raise ModelError(
                    f"constraint {self.name!r} holds {component!r}; directions are"
                    f" {' '.join(MOTIONS)}{hint}"
                )
        if not chosen or len(set(chosen)) < len(chosen):
            raise ModelError(
                f"constraint {self.name!r} holds {list(chosen)}: name each direction that is"
                " held once, and at least one"
            )
        if self.axes not in get_args(Axes):
            raise ModelError(
                f"constraint {self.name!r}: axes are those of 'frame', 'other' or 'world', not"
                f" {self.axes!r}"
            )
        ordered = tuple(component for component in MOTIONS if component in chosen)
        object.__setattr__(self, "components", ordered)

    def __str__(self) -> str:
        other = "the environment" if self.other is None else repr(self.other)
        along = f"{' '.join(self.components)} in axes of the {self.axes}"
        return f"{self.name!r} holds {self.frame!r} against {other}: {along}"

    @property
    def held(self) -> list[int]:
        """Numbers of the held components among :data:`MOTIONS`."""
        return [MOTIONS.index(component) for component in self.components]

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.components)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its forces, row by row."""
        return tuple(f"{self.name}.{WRENCHES[k]}" for k in self.held)

    @property
    def is_placed(self) -> bool:
        """Whether it says where the frame belongs, so that it has an error of position."""
        return self.other is not None or self.other_placement is not None

    def ends(self, robot: KinematicTree) -> tuple[Frame, Frame]:
        """Body and transform body -> held frame, of ``frame`` and of ``other``."""
        own = robot.frame(self.frame)
        other = robot.frame(-1 if self.other is None else self.other)
        there = self.other_placement or Transform.identity()
        return (
            Frame(own.body, own.transform.then(self.placement)),
            Frame(other.body, other.transform.then(there)),
        )

    def with_locked(
        self, robot: KinematicTree, positions: Mapping[str, ArrayLike]
    ) -> FrameConstraint | None:
        """The same constraint where joints are locked: its frames are still there."""
        return self

    def is_welded(self, robot: KinematicTree) -> bool:
        """Whether both ends are parts of one body, so that nothing is left to hold."""
        own, other = self.ends(robot)
        return own.body == other.body

    def check(self, robot: KinematicTree) -> None:
        """Raise ModelError unless it holds two different bodies of the robot together."""
        own, other = self.ends(robot)
        if own.body == other.body < 0:
            raise ModelError(
                f"constraint {self.name!r}: {self.frame!r} is part of the base of robot"
                f" {robot.name!r}, which never moves; name what moves as 'frame' or 'other'"
            )
        if own.body == other.body:
            raise ModelError(
                f"constraint {self.name!r} holds {self.frame!r} against {self.other!r}, which"
                f" is on the same body of robot {robot.name!r}: nothing there can move"
            )


@final
@dataclass(frozen=True, eq=False)
class JointConstraint:
    """A joint of one freedom that follows another one, or stands.

        q_joint - c_0 - c_1 x - c_2 x^2 - ... = 0,    x = q_leader - start

    Parameters
    ----------
    name : by which its torque is found.
    joint : the joint that follows.
    leader : the joint that leads; None if the joint stands at c_0.
    coefficients : c_0, c_1, ... (rad or m); by default it moves as the leader does.
    start : position of the leader from which x counts.
    is_placed : False lets it follow from wherever it is: c_0 says nothing, and its error of
        position is zero, as a contact's without ``other_placement``.

    Raises
    ------
    ModelError
        if the coefficients are no finite numbers.
    """

    name: str
    joint: str
    leader: str | None = None
    coefficients: Sequence[float] = (0.0, 1.0)
    start: float = 0.0
    is_placed: bool = True

    def __post_init__(self) -> None:
        try:
            numbers = tuple(float(c) for c in self.coefficients)
        except (TypeError, ValueError):
            numbers = ()
        if not numbers or not np.isfinite([*numbers, self.start]).all():
            raise ModelError(
                f"constraint {self.name!r}: coefficients must be some finite numbers, got"
                f" {self.coefficients!r}"
            )
        object.__setattr__(self, "coefficients", numbers)

    def __str__(self) -> str:
        if self.leader is None:
            at = f"at {self.coefficients[0]:g}" if self.is_placed else "where it is"
            return f"{self.name!r} holds joint {self.joint!r} {at}"
        return f"{self.name!r} lets joint {self.joint!r} follow {self.leader!r}"

    @property
    def size(self) -> int:
        """Number of rows."""
        return 1

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of its torque."""
        return (f"{self.name}.torque",)

    def freedoms(self, robot: KinematicTree) -> tuple[int, int | None]:
        """Places in qd of the joint and of its leader."""
        own = robot.v_slice(self.joint).start
        return own, None if self.leader is None else robot.v_slice(self.leader).start

    def with_locked(
        self, robot: KinematicTree, positions: Mapping[str, ArrayLike]
    ) -> JointConstraint | None:
        """What is left of it where joints are locked: one joint that stands, or nothing."""
        if self.joint in positions:
            if self.leader is None or self.leader in positions:
                return None
            raise ModelError(
                f"robot {robot.name!r}: joint {self.joint!r} follows {self.leader!r}"
                f" (constraint {self.name!r}) and cannot be locked by itself; lock that one"
            )
        if self.leader not in positions or self.leader is None:
            return self
        x = float(np.asarray(positions[self.leader]).ravel()[0]) - self.start
        stands = float(np.polynomial.polynomial.polyval(x, self.coefficients))
        return JointConstraint(self.name, self.joint, None, (stands,), is_placed=self.is_placed)

    def is_welded(self, robot: KinematicTree) -> bool:
        """Whether nothing is left to hold: never, of joints that move."""
        return False

    def check(self, robot: KinematicTree) -> None:
        """Raise ModelError unless it is about two joints of one freedom of the robot."""
        for name in (self.joint, self.leader):
            if name is None:
                continue
            i = robot.joint_index(name)
            if robot.joints[i].nv != 1 or robot.bodies[i].coupling is not None:
                why = "follows another one" if robot.bodies[i].coupling else "is no such"
                raise ModelError(
                    f"constraint {self.name!r} is for joints of one freedom of their own;"
                    f" {name!r} of robot {robot.name!r} {why}"
                )
        if self.joint == self.leader:
            raise ModelError(f"constraint {self.name!r}: joint {self.joint!r} leads itself")


Constraint: TypeAlias = FrameConstraint | JointConstraint


def checked_constraints(
    robot: KinematicTree, constraints: Iterable[Constraint]
) -> tuple[Constraint, ...]:
    """Return the constraints; ModelError unless they fit the robot, each with its own name."""
    found = tuple(constraints)
    for constraint in found:
        if not isinstance(constraint, (FrameConstraint, JointConstraint)):
            raise ModelError(
                f"a constraint of robot {robot.name!r} is a {type(constraint).__name__}; use"
                " FrameConstraint or JointConstraint"
            )
        constraint.check(robot)
    names = [constraint.name for constraint in found]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"two constraints are called {name!r}; give each its own name")
    return found


def row_slices(constraints: Sequence[Constraint]) -> tuple[slice, ...]:
    """Where the rows of each constraint stand among those of all."""
    ends = np.cumsum([0, *(constraint.size for constraint in constraints)]).tolist()
    return tuple(slice(a, b) for a, b in pairwise(ends))


def row_labels(constraints: Sequence[Constraint]) -> list[str]:
    """Names of the forces of all rows."""
    return [label for constraint in constraints for label in constraint.labels]
