"""Velocities and accelerations of a robot from the time derivatives of its coordinates.

    plain joints     qd = dq/dt,  qdd = d2q/dt2
    quaternion u     omega = 2 vec(u* du/dt) / |u|^2,  u any multiple of the unit quaternion
    free, planar     linear velocity in the turned child: v = E dp/dt, dv/dt = E d2p/dt2 - w x v

All of it exact and for many samples at once: what splines and fitted polynomials need.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynsys.model.joints import Free, Planar, Spherical
from dynsys.model.tree import KinematicTree
from dynsys.types import Array

__all__ = ["continuous_quaternions", "rates", "unit_quaternions"]

Rates = tuple[Array, Array]


def rates(robot: KinematicTree, q: Array, dq: Array, ddq: Array) -> tuple[Array, Array, Array]:
    """q (N, nq) with unit quaternions, and qd, qdd (N, nv), from coordinates and derivatives.

    Quaternions in ``q`` need not have length one, as long as ``dq`` and ``ddq`` are their own
    derivatives.
    """
    qd, qdd = np.empty((2, len(q), robot.nv))
    for i, body in enumerate(robot.bodies):
        if body.coupling is not None:
            continue
        where, freedoms = robot.q_slices()[i], robot.v_slices()[i]
        part = q[:, where], dq[:, where], ddq[:, where]
        convert: Callable[[Array, Array, Array], Rates] = _plain
        if isinstance(body.joint, Spherical):
            convert = _spherical
        elif isinstance(body.joint, Free):
            convert = _free
        elif isinstance(body.joint, Planar):
            convert = _planar
        qd[:, freedoms], qdd[:, freedoms] = convert(*part)
    return unit_quaternions(robot, q), qd, qdd


def unit_quaternions(robot: KinematicTree, q: Array) -> Array:
    """Return q (N, nq) with every quaternion divided by its length."""
    out = q.copy()
    for where in robot.quaternion_slices:
        out[:, where] /= np.linalg.norm(q[:, where], axis=1, keepdims=True)
    return out


def continuous_quaternions(robot: KinematicTree, q: Array) -> Array:
    """Return q (N, nq) without jumps of quaternions between u and -u, which are one pose.

    The first keeps its sign.
    """
    out = q.copy()
    for where in robot.quaternion_slices:
        u = q[:, where]
        flips = np.einsum("ij,ij->i", u[1:], u[:-1]) < 0
        out[1:, where] *= np.where(np.cumsum(flips) % 2, -1.0, 1.0)[:, None]
    return out


def _plain(q: Array, dq: Array, ddq: Array) -> Rates:
    return dq, ddq


def _spherical(u: Array, du: Array, ddu: Array) -> Rates:
    square = np.einsum("ij,ij->i", u, u)[:, None]
    stretch = 2.0 * np.einsum("ij,ij->i", u, du)[:, None] / square
    w = 2.0 * _vector_of_product(u, du) / square
    return w, 2.0 * _vector_of_product(u, ddu) / square - stretch * w


def _vector_of_product(u: Array, v: Array) -> Array:
    """Vector part (N, 3) of (conjugate of u) times v, quaternions x y z w."""
    a, b = u[:, :3], v[:, :3]
    return np.asarray(u[:, 3:] * b - v[:, 3:] * a - np.cross(a, b))


def _free(q: Array, dq: Array, ddq: Array) -> Rates:
    w, dw = _spherical(q[:, 3:], dq[:, 3:], ddq[:, 3:])
    u = q[:, 3:] / np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    v = _turned(u, dq[:, :3])
    return np.hstack([w, v]), np.hstack([dw, _turned(u, ddq[:, :3]) - np.cross(w, v)])


def _turned(u: Array, x: Array) -> Array:
    """E x (N, 3): parent to child coordinates for unit quaternions u (child in parent)."""
    a, w = -u[:, :3], u[:, 3:]
    t = 2.0 * np.cross(a, x)
    return np.asarray(x + w * t + np.cross(a, t))


def _planar(q: Array, dq: Array, ddq: Array) -> Rates:
    c, s, turn = np.cos(q[:, 0]), np.sin(q[:, 0]), dq[:, 0]

    def turned(x: Array, y: Array) -> tuple[Array, Array]:
        return c * x + s * y, c * y - s * x

    vx, vy = turned(dq[:, 1], dq[:, 2])
    ax, ay = turned(ddq[:, 1], ddq[:, 2])
    qd = np.column_stack([turn, vx, vy])
    return qd, np.column_stack([ddq[:, 0], ax + turn * vy, ay - turn * vx])
