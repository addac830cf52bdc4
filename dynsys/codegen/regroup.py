"""Mass moments that a joint cannot tell from moments of its parent, and where they go.

About a revolute axis these are all point masses on the axis: they move with the parent just as
well. Moving them changes no torque, qdd or H, and what reaches the fixed base is gone. But the
pivot of a link that is nearly a point mass cancels almost all of its inertia; with its mass on
the parent that difference is taken between larger numbers and loses digits.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from dynsys.model.joints import (
    AbstractJoint,
    Cylindrical,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
)
from dynsys.model.spatial import ROUNDING, Inertia, MassMoments, Transform
from dynsys.model.tree import KinematicTree
from dynsys.types import ScalarArray

__all__ = [
    "Regrouping",
    "invisible_moments",
    "is_solid",
    "regroup_moments",
    "snapped",
    "snapped_moments",
]

Regrouping: TypeAlias = Literal["all", "solid", "none"]
"""Whose moments move to the parent: every body's, those of solid bodies, nobody's."""

EXTENDED = 2.0**-56
"""Rounding after some operations in extended precision, well below that of float64."""
SOLID = 1e-3
"""Smallest moment about the centre of mass of a solid body, in the largest about its origin."""


def snapped(r: ScalarArray, rounding: float = ROUNDING) -> ScalarArray:
    """R with components that are rounding of the largest one set to zero."""
    return np.where(np.abs(r) <= rounding * np.abs(r).max(initial=0.0), 0.0, r)


def snapped_moments(m: MassMoments) -> MassMoments:
    """M without what extended precision leaves of entries that the frames were to remove."""
    return MassMoments(m.mass, snapped(m.first, EXTENDED), snapped(m.second, EXTENDED))


def is_solid(inertia: Inertia) -> bool:
    """Whether a body is far from a point mass and from a rod without thickness."""
    about_com, about_origin = inertia.about_com, inertia.about_origin
    smallest, largest = np.linalg.eigvalsh(about_com)[0], np.linalg.eigvalsh(about_origin)[-1]
    return bool(smallest > SOLID * largest)


def regroup_moments(
    robot: KinematicTree,
    moments: list[MassMoments],
    joint_frame: list[Transform],
    which: Regrouping,
) -> None:
    """Move what each joint cannot see from its body to its parent, leaves first, in place.

    ``joint_frame`` goes from the parent's frame to the joint's, axis along z.
    """
    for i in reversed(range(robot.n_bodies)):
        if which == "none" or (which == "solid" and not is_solid(robot.bodies[i].inertia)):
            continue
        moved = invisible_moments(robot.joints[i], moments[i])
        moments[i] = snapped_moments(moments[i].minus(moved))
        parent = robot.bodies[i].parent
        if parent >= 0:
            moments[parent] = moments[parent].plus(moved.seen_from(joint_frame[i]))


def invisible_moments(joint: AbstractJoint, m: MassMoments) -> MassMoments:
    """Part of a body's moments that moves with the parent just as well (axis along z).

    Revolute: point masses on the axis. Cylindrical, helical, planar: those without mass or
    first moment. Spherical: a point mass at the centre. Prismatic: pure second moments.
    """
    nothing, zz = np.zeros_like(m.second), np.zeros_like(m.second)
    zz[2, 2] = m.second[2, 2]
    if isinstance(joint, Revolute):
        return MassMoments(m.mass, np.array([0.0, 0.0, m.first[2]]), zz)
    if isinstance(joint, (Cylindrical, Helical)):
        return MassMoments(0.0, np.zeros(3), zz)
    if isinstance(joint, Planar) and joint.axis[2] == 1.0:
        return MassMoments(0.0, np.zeros(3), zz)
    if isinstance(joint, Spherical):
        return MassMoments(m.mass, np.zeros(3), nothing)
    if isinstance(joint, Prismatic):
        return MassMoments(0.0, np.zeros(3), m.second)
    return MassMoments(0.0, np.zeros(3), nothing)
