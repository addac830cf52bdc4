"""Where cheap link frames sit: axes along z, common normals along x."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from dynsys.codegen.regroup import snapped
from dynsys.model.joints import AbstractJoint, Cylindrical, Helical, Prismatic, Revolute
from dynsys.model.spatial import ROUNDING, Transform, rotation_about, without_rounding
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ScalarArray

__all__ = [
    "AHEAD",
    "Z_AXIS",
    "Turn",
    "along_z",
    "clean",
    "elementary_stages",
    "extended",
    "has_axis",
    "joint_frame",
    "turn_towards_child",
]

Z_AXIS = np.array([0.0, 0.0, 1.0])
X_AXIS = np.array([1.0, 0.0, 0.0])
Turn: TypeAlias = tuple[np.longdouble, np.longdouble]
"""Cosine and sine of an angle."""
AHEAD: Turn = (np.longdouble(1), np.longdouble(0))


def has_axis(joint: AbstractJoint) -> bool:
    """True of joints that move about or along one line."""
    return isinstance(joint, (Revolute, Prismatic, Helical, Cylindrical))


def along_z(joint: AbstractJoint) -> AbstractJoint:
    """The same joint about z."""
    return Helical(Z_AXIS, joint.pitch) if isinstance(joint, Helical) else type(joint)()


def extended(X: Transform) -> Transform:
    """The transform in extended precision."""
    return Transform(X.E.astype(np.longdouble), X.r.astype(np.longdouble))


def _unit(z: ScalarArray) -> ScalarArray:
    """Direction z (3,) without rounding of zeros and of exactly unit length."""
    z = without_rounding(z)
    return z / np.sqrt(z @ z)


def clean(X: Transform) -> Transform:
    """The transform without rounding of exact zeros and ones."""
    return Transform(without_rounding(X.E), snapped(X.r))


def _normal(z: ScalarArray, to: ScalarArray) -> ScalarArray | None:
    """Unit common normal (3,) of e_z and direction z, or None where they are parallel."""
    x = np.array([-z[1], z[0], 0.0])  # e_z x z
    length = np.hypot(z[0], z[1])
    if length <= ROUNDING:
        x = np.array([to[0], to[1], 0.0])  # parallel axes: along the way between them
        length = np.hypot(to[0], to[1])
        if length <= 4 * ROUNDING * max(1.0, np.abs(to).max()):
            return None
    return np.asarray(x / length)


def joint_frame(to_joint: Transform, joint: AbstractJoint) -> Transform:
    """Joint's new frame on the parent: z along the axis, x the common normal, way (a, 0, d)."""
    axis: Array = joint.axis  # type: ignore[attr-defined]
    z = _unit(to_joint.E.T @ axis)
    o = to_joint.r
    x = _normal(z, o)
    if x is None:
        x = X_AXIS
    y = np.array(
        [z[1] * x[2] - z[2] * x[1], z[2] * x[0] - z[0] * x[2], z[0] * x[1] - z[1] * x[0]]
    )
    E = without_rounding(np.array([x, y, z]))
    if isinstance(joint, Prismatic):  # any point will do
        return Transform(E, np.zeros(3))
    across = np.array([-x[1], x[0], 0.0])  # e_z x x: the direction the way should not have
    slope = z @ across
    t = -(o @ across) / slope if abs(slope) > 0.5 else -o[2] / z[2]
    return Transform(E, snapped(o + t * z))


def turn_towards_child(
    robot: KinematicTree, i: int, constant: Transform, weight: list[int]
) -> Turn:
    """Cosine and sine of the turn about z that puts x of body i on the next common normal."""
    x: ScalarArray | None = None
    children = [c for c in robot.children[i] if has_axis(robot.joints[c])]
    if children:
        child = max(children, key=lambda c: weight[c])
        to_joint = constant.inverse().then(extended(robot.bodies[child].placement))
        axis: Array = robot.joints[child].axis  # type: ignore[attr-defined]
        x = _normal(_unit(to_joint.E.T @ axis), to_joint.r)
    elif not robot.children[i]:  # a leaf: x towards its centre of mass
        h = robot.bodies[i].inertia.moments(np.longdouble).seen_from(constant.inverse()).first
        x = _normal(Z_AXIS, snapped(h))
    if x is None or isinstance(robot.joints[i], Prismatic):
        return AHEAD
    return _exact(x[0]), _exact(x[1])


def _exact(x: np.longdouble) -> np.longdouble:
    """X, with rounding of 0 and +-1 removed."""
    return np.round(x) if abs(x - np.round(x)) <= 2 * ROUNDING else x


def elementary_stages(frame: Transform) -> list[Transform]:
    """Stages whose product is ``frame``: shift and turn about z, turn about x."""
    E, r = frame.E, frame.r
    if np.isin(np.abs(E), (0.0, 1.0)).all() or E[0, 2] != 0.0:
        return [frame]  # a permutation costs nothing; a general rotation stays whole
    about_z = rotation_about(Z_AXIS, E[0, 0], E[0, 1])
    about_x = rotation_about(X_AXIS, E[2, 2], -_sine_x(E))
    if (E[0, 0], E[0, 1]) == (1.0, 0.0):
        return [Transform(about_x, r)]
    if E[2, 2] == 1.0:
        return [Transform(about_z, r)]
    return [Transform(about_z, r), Transform(about_x, np.zeros(3))]


def _sine_x(E: ScalarArray) -> np.longdouble:
    """Minus the sine of alpha in E = Rx(alpha) Rz(beta): z = (s_b s_a, -c_b s_a, c_a)."""
    return np.longdouble(E[2, 1] * E[0, 0] - E[2, 0] * E[0, 1])
