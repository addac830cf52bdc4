"""Exact statements about motion and contact: rigid contact, loop closure, action and reaction.

Their standard deviation is zero unless given, and they need no data: y = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, final

import numpy as np

from dynsys.model.spatial import Transform, cross, skew
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics, Term, Values, carrying_size
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors.force_torque import wrench_units
from sensors.mounting import Mount, add_bias, generic_states, varying_term, wrench_matrix
from sensors.parameters import AXES, MOTIONS, FrameName, MotionComponents, Vector3, choice
from sensors.sensor import AbstractConstraint, SensorRows

__all__ = ["ActionReaction", "LoopClosure", "RigidContact"]

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
    """

    kind: ClassVar[str] = "rigid_contact"
    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    holds: Annotated[str, choice("pose", "point")] = "pose"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz)
        if mount.body < 0:
            raise ValueError("it sits on the base, which never accelerates; remove it")
        first = 0 if self.holds == "pose" else 3
        terms, _ = mount.acceleration(unknowns, np.eye(6)[first:])
        gravity = unknowns.robot.gravity

        def bias(kin: Kinematics) -> ScalarArray:
            linear = mount.centripetal(kin) + mount.pose(kin).E @ gravity
            return np.concatenate([np.zeros(3 - first), linear])

        labels = ("wdx", "wdy", "wdz", "ax", "ay", "az")[first:]
        units = (ANGULAR_UNITS + LINEAR_UNITS)[first:]
        return SensorRows(labels, units, mount.body, terms, bias)


def _pair(robot: KinematicTree, a: str | int, b: str | int) -> tuple[Mount, Mount]:
    first, second = Mount.of(robot, a), Mount.of(robot, b)
    if first.body == second.body:
        raise ValueError(f"{a!r} and {b!r} are on the same body; name two bodies")
    return first, second


def _relative(kin: Kinematics, a: Mount, b: Mount) -> Transform:
    """Transform of frame A to frame B."""
    return a.pose(kin).inverse().then(b.pose(kin))


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
    """

    kind: ClassVar[str] = "loop_closure"
    frame_a: FrameName
    frame_b: FrameName
    components: MotionComponents = MOTIONS

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        a, b = _pair(unknowns.robot, self.frame_a, self.frame_b)
        held = [MOTIONS.index(name) for name in self.components]
        states = generic_states(unknowns.robot)
        terms: list[Term] = []
        known: list[Values] = [lambda kin: _velocity_products(kin, a, b)[held]]
        for mount, value, arm in (
            (
                a,
                lambda kin: (_of_a(_relative(kin, a, b)) @ a.transform.matrix())[held],
                lambda kin: a.reach(kin) + b.reach(kin) + a.arm,
            ),
            (
                b,
                lambda kin: (_of_b(_relative(kin, a, b)) @ b.transform.matrix())[held],
                lambda kin: b.arm,
            ),
        ):
            if mount.body < 0:
                known.append(_known_base(value))
            else:
                unknown = unknowns.block("acceleration", mount.body)
                size = partial(_size, arm, held)
                terms.append(varying_term(states, unknown, value, size))
        units = ANGULAR_UNITS + LINEAR_UNITS
        return SensorRows(
            labels=tuple(self.components),
            units=tuple(units[k] for k in held),
            body=max(a.body, b.body),
            terms=tuple(terms),
            bias=add_bias(*known),
        )


def _size(arm: Callable[[Kinematics], float], held: list[int], kin: Kinematics) -> Array:
    return carrying_size(arm(kin))[held]


def _known_base(coefficient: Values) -> Values:
    return lambda kin: coefficient(kin) @ kin.base_acceleration


def _of_a(relative: Transform) -> ScalarArray:
    M = np.zeros((6, 6), dtype=np.result_type(relative.r, np.float64))
    M[:, :] = -np.eye(6)
    M[3:, :3] = skew(relative.r)  # -wd_A x p
    return M


def _of_b(relative: Transform) -> ScalarArray:
    M = np.zeros((6, 6), dtype=np.result_type(relative.E, np.float64))
    M[:3, :3] = M[3:, 3:] = relative.E.T
    return M


def _velocity_products(kin: Kinematics, a: Mount, b: Mount) -> ScalarArray:
    """Part of LoopClosure's y that does not hold accelerations (6,)."""
    relative = _relative(kin, a, b)
    p, E = relative.r, relative.E.T
    v_a, v_b = a.velocity(kin), b.velocity(kin)
    w_a, w_b = v_a[:3], E @ v_b[:3]
    rate = E @ v_b[3:] - v_a[3:] - cross(w_a, p)
    linear = (
        E @ b.centripetal(kin)
        - a.centripetal(kin)
        - cross(w_a, cross(w_a, p))
        - 2 * cross(w_a, rate)
    )
    return np.concatenate([-cross(w_a, w_b), linear])


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
            return np.asarray(_relative(kin, a, b).matrix().T @ moved)

        def size(kin: Kinematics) -> Array:
            return carrying_size(a.reach(kin) + b.reach(kin) + b.arm).T

        states = generic_states(unknowns.robot)
        terms = (own, varying_term(states, other.unknown, value, size))
        return SensorRows(AXES, wrench_units(AXES), max(a.body, b.body), terms)
