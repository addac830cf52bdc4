"""Where a sensor sits on the robot, and the terms that come with its place.

A :class:`Mount` is a frame fixed to a body. What is measured there is the body's acceleration,
velocity or external wrench, moved to the frame: X a, X v, X^-T f^x for the transform X from the
body to the frame. Wrenches may be told in axes of another frame or the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.spatial import (
    Transform,
    cross,
    rotation_from_rpy,
    rpy_of,
    without_rounding,
)
from dynsys.model.tree import KinematicTree
from dynsys.system.equations import (
    Kinematics,
    Term,
    Values,
    carrying_size,
    product_size,
    vector_size,
)
from dynsys.system.size import without_rounding as rounded_off
from dynsys.system.unknowns import UnknownBlock, UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors.parameters import FrameName, Vector3
from sensors.sensor import AbstractSensor

__all__ = [
    "Mount",
    "MountedSensor",
    "add_bias",
    "generic_states",
    "offset",
    "rpy_of",
    "varying_term",
    "wrench_matrix",
]


def offset(xyz: Sequence[float], rpy: Sequence[float] = (0.0, 0.0, 0.0)) -> Transform:
    """Transform of a frame to the one at ``xyz`` in it, turned by roll, pitch, yaw."""
    return Transform(rotation_from_rpy(np.asarray(rpy)), np.asarray(xyz, dtype=np.float64))


@final
@dataclass(frozen=True, eq=False)
class Mount:
    """A frame fixed to ``body`` (-1: the base); ``transform`` goes body -> frame.

    ``axes`` is the frame in whose axes wrenches are told, if not in this one's.
    """

    body: int
    transform: Transform
    axes: Mount | None = None

    @staticmethod
    def of(
        robot: KinematicTree,
        frame: str | int,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        axes: str | int = "frame",
    ) -> Mount:
        """Frame (or body) of the robot, moved by ``xyz`` and turned by ``rpy`` within it.

        With ``axes`` of the world or of another frame it is these that ``rpy`` turns.
        """
        found, told_in = robot.frame(frame), None
        if axes != "frame":
            told_in = Mount.of(robot, -1 if axes == "world" else axes, rpy=rpy)
            rpy = (0.0, 0.0, 0.0)
        moved = found.transform.then(offset(xyz, rpy))
        r = np.asarray(moved.r, dtype=np.float64)
        length = float(np.linalg.norm(found.transform.r) + np.linalg.norm(xyz))
        E = without_rounding(np.asarray(moved.E))
        return Mount(found.body, Transform(E, rounded_off(r, np.full(3, length))), told_in)

    @cached_property
    def arm(self) -> float:
        """Length of the way from the body's origin."""
        return float(np.linalg.norm(self.transform.r))

    def reach(self, kin: Kinematics) -> float:
        """Size of the way from the base."""
        return self.arm + (float(kin.reach[self.body]) if self.body >= 0 else 0.0)

    def velocity(self, kin: Kinematics) -> ScalarArray:
        """Spatial velocity (6,) of the frame, in its own coordinates."""
        if self.body < 0:
            return np.zeros(6)
        return self.transform.motion(kin.velocity[self.body])

    def pose(self, kin: Kinematics) -> Transform:
        """Transform base -> frame."""
        return self.transform if self.body < 0 else kin.poses[self.body].then(self.transform)

    def centripetal(self, kin: Kinematics) -> ScalarArray:
        """Product omega x v (3,): classical minus spatial acceleration of the origin."""
        v = self.velocity(kin)
        return cross(v[:3], v[3:])

    def acceleration(
        self, unknowns: UnknownLayout, coefficient: Array
    ) -> tuple[tuple[Term, ...], Values | None]:
        """Term and bias of  coefficient @ (proper spatial acceleration of the frame).

        The base accelerates by -g, known: it gives a bias and touches no unknown.
        """
        size = np.abs(coefficient) @ carrying_size(self.arm)
        M = rounded_off(coefficient @ self.transform.matrix(), size)
        if self.body < 0:
            return (), lambda kin: M @ kin.base_acceleration
        return (Term.constant(unknowns.block("acceleration", self.body), M),), None

    def external_wrench(self, unknowns: UnknownLayout, coefficient: Array) -> Term:
        """Term  coefficient @ (external wrench on the body, moved to the frame)."""
        if self.body < 0:
            raise ValueError(
                "it sits on the fixed base, whose external wrench moves nothing and is no"
                " unknown; name a moving body"
            )
        M = rounded_off(
            coefficient @ wrench_matrix(self.transform),
            np.abs(coefficient) @ carrying_size(self.arm).T,
        )
        unknown = unknowns.block("external_wrench", self.body)
        if self.axes is None:
            return Term.constant(unknown, M)
        to_frame, axes = wrench_matrix(self.transform), self.axes

        def value(kin: Kinematics) -> ScalarArray:
            E = axes.pose(kin).E @ self.pose(kin).E.T  # frame -> base -> axes
            return np.hstack([coefficient[:, :3] @ E, coefficient[:, 3:] @ E]) @ to_frame

        def size(kin: Kinematics) -> Array:
            return product_size(vector_size(coefficient, rows=False), carrying_size(self.arm).T)

        return varying_term(generic_states(unknowns.robot), unknown, value, size)


@dataclass(frozen=True)
class MountedSensor(AbstractSensor):
    """A sensor with a pose of its own.

    Parameters
    ----------
    frame : body or named frame that carries it (-1: the base).
    xyz, rpy : pose of the sensor within that frame, m and rad (fixed-axis roll, pitch, yaw).
    """

    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    rpy: Vector3 = (0.0, 0.0, 0.0)

    def mount(self, unknowns: UnknownLayout) -> Mount:
        """Frame of the sensor."""
        return Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy)


def wrench_matrix(transform: Transform) -> Array:
    """X^-T (6, 6): a wrench from A to B coordinates, for the transform A -> B."""
    return np.asarray(transform.inverse().matrix().T, dtype=np.float64)


def add_bias(*parts: Values | None) -> Values | None:
    """Sum of biases, None for zero."""
    given = [part for part in parts if part is not None]
    if not given:
        return None

    def bias(kin: Kinematics) -> ScalarArray:
        total = given[0](kin)
        for part in given[1:]:
            total = total + part(kin)
        return total

    return bias


def generic_states(robot: KinematicTree) -> tuple[Kinematics, ...]:
    """Two random positions, joint limits ignored, for :func:`varying_term`."""
    rng = np.random.default_rng(0)
    states = []
    for _ in range(2):
        q = np.zeros(robot.nq)
        for where, body in zip(robot.q_slices(), robot.bodies, strict=True):
            if body.coupling is None:
                unlimited = np.full(body.joint.nq, np.inf)
                q[where] = body.joint.random(rng, -unlimited, unlimited)
        states.append(Kinematics.at(robot, q, np.zeros(robot.nv)))
    return tuple(states)


def varying_term(
    states: Sequence[Kinematics], unknown: UnknownBlock, value: Values, size: Values
) -> Term:
    """Term whose coefficient depends on q alone, analytically; its pattern is found here.

    An entry that is not identically zero is nonzero at almost every q, so the nonzeros at
    random positions (``states``) are the worst-case pattern. ``size``: of its entries.
    """
    found = [rounded_off(value(kin), size(kin)) != 0 for kin in states]
    return Term(unknown, np.any(found, axis=0), value, size)
