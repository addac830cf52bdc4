"""Recursive Newton-Euler: torque = ID(q, qd, qdd, f_ext). O(n).

Classical (not spatial) accelerations with the acceleration tensor of each body,

    U_i = [wd_i]x + [w_i]x [w_i]x,         acceleration of a point r: a_i + U_i r,

as in Balafoutis, Patel and Misra (1988), the algorithm [BIS] section 6 costs at
(93n - 69)m + (81n - 66)a. Net force and moment about the body's origin follow from the mass m,
first moment h and second moment J = integral of r r^T dm:

    F = m a + U h              N = h x a + vee(U J - (U J)^T)

Gravity enters as acceleration -g of the base. Linear velocities are not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynsys.model.spatial import MassMoments, Transform, cross, vector
from dynsys.model.tree import KinematicTree, Mechanism
from dynsys.recursive.kinematics import WrenchInput, external_wrenches, transforms
from dynsys.types import Array, ArrayLike, ScalarArray

__all__ = ["BodyMotion", "body_motions", "net_wrenches", "newton_euler", "rnea", "rnea_scalars"]


def rnea(
    robot: KinematicTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, f_ext: WrenchInput = None
) -> Array:
    """Torque (nv,) = H(q) qdd + C(q, qd) - sum J^T f_ext: inverse dynamics by recursion.

    One state; arguments and errors are those of :func:`dynsys.rnea`.
    """
    return rnea_scalars(
        robot,
        robot.check_q(q),
        robot.check_v(qd, "qd"),
        robot.check_v(qdd, "qdd"),
        external_wrenches(robot, f_ext),
    )


def rnea_scalars(
    robot: Mechanism,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray | None,
    f_ext: ScalarArray | None = None,
) -> ScalarArray:
    """Torque (nv,) over scalars of any kind; ``qdd`` None stands for zero; see :func:`rnea`."""
    X_up = transforms(robot, q)
    f = net_wrenches(robot, X_up, qd, qdd, f_ext)
    torque = robot.friction_torque(qd).astype(np.result_type(q, qd))
    if qdd is not None:
        torque = robot.armature * qdd + torque
    for i in reversed(range(robot.n_bodies)):
        v = robot.v_slices()[i]
        torque[v] = torque[v] + robot.motion_subspace[i].T @ f[i]  # [NORI] eq. (3 tau)
        if (parent := robot.parent[i]) >= 0:
            f[parent] = f[parent] + X_up[i].force_back(f[i])  # [NORI] eq. (3 f), children
    return torque


class BodyMotion(NamedTuple):
    """Angular velocity and acceleration, classical acceleration of the origin, tensor U."""

    w: ScalarArray
    wd: ScalarArray
    a: ScalarArray
    U: ScalarArray


def net_wrenches(
    robot: Mechanism,
    X_up: Sequence[Transform],
    qd: ScalarArray,
    qdd: ScalarArray | None,
    f_ext: ScalarArray | None = None,
) -> list[ScalarArray]:
    """Rate of momentum minus external wrench (6,) of every body, about its origin.

    ``qdd`` None stands for zero: the bias wrenches that velocity and gravity ask for.
    """
    wrenches: list[ScalarArray] = []
    for i, body in enumerate(body_motions(robot, X_up, qd, qdd)):
        net = newton_euler(robot.moments[i], body.a, body.U)
        wrenches.append(net if f_ext is None else net - f_ext[i])
    return wrenches


def body_motions(
    robot: Mechanism, X_up: Sequence[Transform], qd: ScalarArray, qdd: ScalarArray | None
) -> list[BodyMotion]:
    """Motion of every body, root to leaf; ``qdd`` None stands for zero."""
    found: list[BodyMotion] = []
    for i, (X, parent) in enumerate(zip(X_up, robot.parent, strict=True)):
        S, v = robot.motion_subspace[i], robot.v_slices()[i]
        joint = S @ qd[v]
        if parent < 0:
            carried, wd, a = np.zeros(3), np.zeros(3), X.E @ -robot.gravity
        else:
            above = found[parent]
            carried = X.E @ above.w  # parent's angular velocity
            wd = X.E @ above.wd + cross(carried, joint[:3])
            a = X.E @ (above.a + above.U @ X.r)
        w = carried + joint[:3]
        a = a + cross(w + carried, joint[3:])
        if qdd is not None:
            drive = S @ qdd[v]
            wd, a = wd + drive[:3], a + drive[3:]
        found.append(BodyMotion(w, wd, a, acceleration_tensor(w, wd)))
    return found


def acceleration_tensor(w: ScalarArray, wd: ScalarArray) -> ScalarArray:
    """U = [wd]x + [w]x [w]x (3, 3). Cost 6m + 9a."""
    x, y, z = w
    xx, yy, zz = x * x, y * y, z * z
    xy, xz, yz = x * y, x * z, y * z
    return np.array(
        [
            [-(yy + zz), xy - wd[2], xz + wd[1]],
            [xy + wd[2], -(xx + zz), yz - wd[0]],
            [xz - wd[1], yz + wd[0], -(xx + yy)],
        ]
    )


def newton_euler(moments: MassMoments, a: ScalarArray, U: ScalarArray) -> ScalarArray:
    """Net wrench (6,) = (N, F) of a body whose origin accelerates at a; see the module."""
    h, J = moments.first, moments.second
    # vee(U J - (U J)^T) with equal products gathered: 15m + 15a
    turning = vector(
        U[2, 0] * J[0, 1] - U[1, 0] * J[0, 2] + U[2, 1] * J[1, 1] - U[1, 2] * J[2, 2]
        + (U[2, 2] - U[1, 1]) * J[1, 2],
        U[0, 1] * J[1, 2] - U[2, 1] * J[0, 1] + U[0, 2] * J[2, 2] - U[2, 0] * J[0, 0]
        + (U[0, 0] - U[2, 2]) * J[0, 2],
        U[1, 2] * J[0, 2] - U[0, 2] * J[1, 2] + U[1, 0] * J[0, 0] - U[0, 1] * J[1, 1]
        + (U[1, 1] - U[0, 0]) * J[0, 1],
    )  # fmt: skip
    return np.concatenate([turning + cross(h, a), moments.mass * a + U @ h])
