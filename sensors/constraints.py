"""Exact statements about motion and contact: rigid contact, loop closure, action and reaction.

Their standard deviation is zero unless given, and they need no data: y = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, final

import numpy as np

from dynsys.model.constraints import Axes, FrameConstraint
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics, carrying_size
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors.force_torque import wrench_units
from sensors.mounting import Mount, generic_states, offset, varying_term, wrench_matrix
from sensors.parameters import AXES, MOTIONS, FrameName, MotionComponents, Vector3, choice
from sensors.sensor import AbstractConstraint, SensorRows

__all__ = ["AXES_OF", "ActionReaction", "LoopClosure", "RigidContact"]

ANGULAR_UNITS, LINEAR_UNITS = ("rad/s^2",) * 3, ("m/s^2",) * 3


@final
@dataclass(frozen=True)
class RigidContact(AbstractConstraint):
    """A frame, or one point of it, that does not accelerate against the base.

    y = (angular acceleration, [0 1] X a_body + omega x v + E g) = 0
    y = [0 1] X a_body + omega x v + E g = 0                                   for a point

    E turns base into frame coordinates; the base does not rotate, so E g takes off what
    gravity adds to a proper acceleration.

    Parameters
    ----------
    frame, xyz : the frame, or the point in it.
    holds : ``pose`` (six rows) or ``point`` (three rows).
    components : fewer of rx ry rz x y z that are held; ``z`` alone slides.
    axes : ``world`` for directions at rest: a foot on ice holds ``z`` of the world.
    """

    kind: ClassVar[str] = "rigid_contact"
    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    holds: Annotated[str, choice("pose", "point")] = "pose"
    components: MotionComponents = MOTIONS
    axes: Annotated[str, choice("frame", "world")] = "frame"

    @property
    def held(self) -> tuple[str, ...]:
        """Directions that are held."""
        allowed = MOTIONS if self.holds == "pose" else MOTIONS[3:]
        return tuple(name for name in self.components if name in allowed)

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz)
        if mount.body < 0:
            raise ValueError("it sits on the base, which never accelerates; remove it")
        if not self.held:
            raise ValueError("it holds a point, which has no rotation; name x, y or z")
        rows = [MOTIONS.index(name) for name in self.held]
        labels = tuple(("wdx", "wdy", "wdz", "ax", "ay", "az")[k] for k in rows)
        if self.axes == "world":
            at = offset(self.xyz)
            held = FrameConstraint(self.name, self.frame, None, self.held, "world", at)
            found = _held_rows(unknowns, held, self.held, mount.reach)
            return replace(found, labels=labels)
        terms, _ = mount.acceleration(unknowns, np.eye(6)[rows])
        gravity = unknowns.robot.gravity

        def bias(kin: Kinematics) -> ScalarArray:
            linear = mount.centripetal(kin) + mount.pose(kin).E @ gravity
            return np.concatenate([np.zeros(3), linear])[rows]

        units = ANGULAR_UNITS + LINEAR_UNITS
        return SensorRows(labels, tuple(units[k] for k in rows), mount.body, terms, bias)


def _pair(robot: KinematicTree, a: str | int, b: str | int) -> tuple[Mount, Mount]:
    first, second = Mount.of(robot, a), Mount.of(robot, b)
    if first.body == second.body:
        raise ValueError(f"{a!r} and {b!r} are on the same body; name two bodies")
    return first, second


@final
@dataclass(frozen=True)
class LoopClosure(AbstractConstraint):
    """Second rate of the pose of frame B in frame A, zero where a loop closes there.

    y = (E wd_B - wd_A - w_A x E w_B,
         E a_B - a_A - wd_A x p - w_A x (w_A x p) - 2 w_A x dp/dt) = 0        in A's coordinates

    p is B's origin in A, E turns B into A coordinates, a are classical accelerations (gravity
    cancels). Choose fewer components for a loop that closes through a joint: all but ``rz`` for
    a hinge about A's z axis, ``x y z`` for a ball.

    Parameters
    ----------
    frame_a, frame_b : frames on two bodies (-1: the base).
    components : which of rx ry rz (rotation) and x y z (position) are held.
    axes : along which: those of frame ``a``, of frame ``b`` or of the ``world``; y is then the
        rate, in these axes, of the velocity of B against A.
    """

    kind: ClassVar[str] = "loop_closure"
    frame_a: FrameName
    frame_b: FrameName
    components: MotionComponents = MOTIONS
    axes: Annotated[str, choice("a", "b", "world")] = "a"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        a, b = _pair(unknowns.robot, self.frame_a, self.frame_b)
        return _held_rows(
            unknowns,
            self.constraint,
            self.components,
            lambda kin: a.reach(kin) + b.reach(kin),
        )

    @property
    def constraint(self) -> FrameConstraint:
        """The constraint of dynamics that says the same, of frame B against A."""
        a, b, axes = self.frame_a, self.frame_b, AXES_OF[self.axes]
        return FrameConstraint(self.name, b, a, tuple(self.components), axes)


AXES_OF: Mapping[str, Axes] = {"a": "other", "b": "frame", "world": "world"}
"""Words of a constraint of dynamics, of frame B against A, for those of a loop closure."""


def _held_rows(
    unknowns: UnknownLayout,
    held: FrameConstraint,
    components: Sequence[str],
    reach: Callable[[Kinematics], float],
) -> SensorRows:
    """Acceleration of what a constraint of dynamics holds, in the order of ``components``.

    y = sum over bodies W_i^T (a_i - a_i^0) + drift

    with a^0 and the drift those of the motion without qdd, as in the constraint's law
    (:func:`dynsys.system.laws.constraint_law`). ``reach`` is the size of its arms.
    """
    order = [held.components.index(name) for name in components]
    ends = dict.fromkeys(end.body for end in held.ends(unknowns.robot) if end.body >= 0)
    states = generic_states(unknowns.robot)

    def coefficient(body: int, kin: Kinematics) -> ScalarArray:
        return np.asarray(kin.rows(held).wrenches[body].T[order])

    def size(kin: Kinematics) -> Array:
        return carrying_size(reach(kin))[[MOTIONS.index(name) for name in components]]

    def bias(kin: Kinematics) -> ScalarArray:
        total = kin.rows(held).drift[order]
        for body in ends:
            total = total - coefficient(body, kin) @ kin.drift[body]
        return total

    terms = [
        varying_term(
            states, unknowns.block("acceleration", body), partial(coefficient, body), size
        )
        for body in ends
    ]
    units = dict(zip(MOTIONS, ANGULAR_UNITS + LINEAR_UNITS, strict=True))
    return SensorRows(
        labels=tuple(components),
        units=tuple(units[name] for name in components),
        body=max(ends),
        terms=tuple(terms),
        bias=bias,
    )


@final
@dataclass(frozen=True)
class ActionReaction(AbstractConstraint):
    """Two bodies that only push each other: their external wrenches cancel.

    y = w_A + (w_B moved to frame A) = 0,   w = X^-T f^x

    For hands that hold one light object, or the joint that closes a loop.

    Parameters
    ----------
    frame_a, frame_b : frames on the two bodies.
    """

    kind: ClassVar[str] = "action_reaction"
    frame_a: FrameName
    frame_b: FrameName

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        a, b = _pair(unknowns.robot, self.frame_a, self.frame_b)
        own = a.external_wrench(unknowns, np.eye(6))
        other = b.external_wrench(unknowns, np.eye(6))
        moved = wrench_matrix(b.transform)

        def value(kin: Kinematics) -> ScalarArray:
            relative = a.pose(kin).inverse().then(b.pose(kin))
            return np.asarray(relative.matrix().T @ moved)

        def size(kin: Kinematics) -> Array:
            return carrying_size(a.reach(kin) + b.reach(kin) + b.arm).T

        states = generic_states(unknowns.robot)
        terms = (own, varying_term(states, other.unknown, value, size))
        return SensorRows(AXES, wrench_units(AXES), max(a.body, b.body), terms)
