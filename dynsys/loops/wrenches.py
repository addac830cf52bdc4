"""Recursive Newton-Euler as loops: motion of the bodies outwards, wrenches inwards.

The algorithm of :mod:`dynsys.recursive.rnea` (classical accelerations and the tensor
U = [wd]x + [w]x [w]x) on rows of :mod:`dynsys.loops.columns`.
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import fused, inlined
from dynsys.loops.columns import (
    ACC,
    ARMATURE,
    AXIAL,
    COS_T,
    COS_X,
    FIRST,
    FRAME_E,
    FRAME_R,
    FREEDOM_ROWS,
    KIND,
    MASS,
    NV,
    PARENT,
    QD,
    QDD,
    SECOND,
    SIN_T,
    SIN_X,
    SLIDE,
    TENSOR,
    TORQUE,
    TURN,
    V0,
    WAY,
    WD,
    WRENCH,
    W,
)
from dynsys.loops.rotations import cross, to_body, to_parent
from dynsys.types import Array, IntArray

__all__ = ["ROWS", "gather_wrenches", "move_bodies", "push_bodies"]

ROWS = np.array(FREEDOM_ROWS)


@fused
def move_bodies(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    vectors: Array,
    motion: Array,
    joint: Array,
) -> None:
    """Velocities, accelerations and net wrenches of all bodies; ``joint`` (2, 6) is scratch."""
    qd, qdd = vectors[QD], vectors[QDD]
    for i in range(1, len(integers)):
        row, up, body = motion[i], motion[integers[i, PARENT]], numbers[i]
        c, s = angles[1, i], angles[2, i]
        ca, sa, ct, st = row[COS_X], row[SIN_X], row[COS_T], row[SIN_T]
        rx, ry, rz = row[WAY], row[WAY + 1], row[WAY + 2]
        ax = up[ACC] + up[TENSOR] * rx + up[TENSOR + 1] * ry + up[TENSOR + 2] * rz
        ay = up[ACC + 1] + up[TENSOR + 3] * rx + up[TENSOR + 4] * ry + up[TENSOR + 5] * rz
        az = up[ACC + 2] + up[TENSOR + 6] * rx + up[TENSOR + 7] * ry + up[TENSOR + 8] * rz
        wx, wy, wz = to_body(c, s, ca, sa, ct, st, up[W], up[W + 1], up[W + 2])
        dx, dy, dz = to_body(c, s, ca, sa, ct, st, up[WD], up[WD + 1], up[WD + 2])
        ax, ay, az = to_body(c, s, ca, sa, ct, st, ax, ay, az)
        v = integers[i, V0]
        if integers[i, KIND] == AXIAL:
            turn, slide = body[TURN] * qd[v], body[SLIDE] * qd[v]
            dx, dy, dz = dx + wy * turn, dy - wx * turn, dz + body[TURN] * qdd[v]
            wz += turn
            if body[SLIDE] != 0.0:
                ax, ay = ax + 2.0 * wy * slide, ay - 2.0 * wx * slide
                az += body[SLIDE] * qdd[v]
        else:
            _scatter(integers[i], qd, joint[0])
            _scatter(integers[i], qdd, joint[1])
            rate, drive = joint[0], joint[1]
            tx, ty, tz = cross(wx, wy, wz, rate[0], rate[1], rate[2])
            dx, dy, dz = dx + tx + drive[0], dy + ty + drive[1], dz + tz + drive[2]
            ux, uy, uz = wx + rate[0], wy + rate[1], wz + rate[2]
            tx, ty, tz = cross(wx + ux, wy + uy, wz + uz, rate[3], rate[4], rate[5])
            ax, ay, az = ax + tx + drive[3], ay + ty + drive[4], az + tz + drive[5]
            wx, wy, wz = ux, uy, uz
        row[W], row[W + 1], row[W + 2] = wx, wy, wz
        row[WD], row[WD + 1], row[WD + 2] = dx, dy, dz
        row[ACC], row[ACC + 1], row[ACC + 2] = ax, ay, az
        _newton_euler(body, row, wx, wy, wz, dx, dy, dz, ax, ay, az)


@inlined
def _scatter(joint: IntArray, rates: Array, out: Array) -> None:
    """S x (6,) for a joint of several freedoms."""
    for k in range(6):
        out[k] = 0.0
    for k in range(joint[NV]):
        out[ROWS[joint[KIND], k]] = rates[joint[V0] + k]


@inlined
def _newton_euler(
    body: Array,
    row: Array,
    wx: float,
    wy: float,
    wz: float,
    dx: float,
    dy: float,
    dz: float,
    ax: float,
    ay: float,
    az: float,
) -> None:
    """Tensor U of the body and its net wrench: F = m a + U h, N = h x a + vee(U J - J U^T)."""
    xx, yy, zz = wx * wx, wy * wy, wz * wz
    xy, xz, yz = wx * wy, wx * wz, wy * wz
    u00, u01, u02 = -(yy + zz), xy - dz, xz + dy
    u10, u11, u12 = xy + dz, -(xx + zz), yz - dx
    u20, u21, u22 = xz - dy, yz + dx, -(xx + yy)
    row[TENSOR], row[TENSOR + 1], row[TENSOR + 2] = u00, u01, u02
    row[TENSOR + 3], row[TENSOR + 4], row[TENSOR + 5] = u10, u11, u12
    row[TENSOR + 6], row[TENSOR + 7], row[TENSOR + 8] = u20, u21, u22
    m, hx, hy, hz = body[MASS], body[FIRST], body[FIRST + 1], body[FIRST + 2]
    jxx, jxy, jxz = body[SECOND], body[SECOND + 1], body[SECOND + 2]
    jyy, jyz, jzz = body[SECOND + 3], body[SECOND + 4], body[SECOND + 5]
    nx, ny, nz = cross(hx, hy, hz, ax, ay, az)
    row[WRENCH] = nx + u20 * jxy - u10 * jxz + u21 * jyy - u12 * jzz + (u22 - u11) * jyz
    row[WRENCH + 1] = ny + u01 * jyz - u21 * jxy + u02 * jzz - u20 * jxx + (u00 - u22) * jxz
    row[WRENCH + 2] = nz + u12 * jxz - u02 * jyz + u10 * jxx - u01 * jyy + (u11 - u00) * jxy
    row[WRENCH + 3] = m * ax + u00 * hx + u01 * hy + u02 * hz
    row[WRENCH + 4] = m * ay + u10 * hx + u11 * hy + u12 * hz
    row[WRENCH + 5] = m * az + u20 * hx + u21 * hy + u22 * hz


@fused
def push_bodies(frames: Array, f_ext: Array, motion: Array) -> None:
    """Take external wrenches (6 n_bodies,), in the robot's own frames, off the net wrenches."""
    for i in range(1, len(frames)):
        f, row, e, r = f_ext[6 * i - 6 :], motion[i], frames[i, FRAME_E:], frames[i, FRAME_R:]
        nx, ny, nz = cross(r[0], r[1], r[2], f[3], f[4], f[5])
        nx, ny, nz = f[0] - nx, f[1] - ny, f[2] - nz
        for k in range(3):
            row[WRENCH + k] -= e[3 * k] * nx + e[3 * k + 1] * ny + e[3 * k + 2] * nz
            row[WRENCH + 3 + k] -= e[3 * k] * f[3] + e[3 * k + 1] * f[4] + e[3 * k + 2] * f[5]


@fused
def gather_wrenches(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    vectors: Array,
    motion: Array,
) -> None:
    """Joint wrenches, leaves first, and torque = S^T f + armature qdd."""
    torque, armature, qdd = vectors[TORQUE], vectors[ARMATURE], vectors[QDD]
    for v in range(len(torque)):
        torque[v] = armature[v] * qdd[v]
    for i in range(len(integers) - 1, 0, -1):
        row, up = motion[i], motion[integers[i, PARENT]]
        nx, ny, nz = row[WRENCH], row[WRENCH + 1], row[WRENCH + 2]
        fx, fy, fz = row[WRENCH + 3], row[WRENCH + 4], row[WRENCH + 5]
        v = integers[i, V0]
        if integers[i, KIND] == AXIAL:
            torque[v] += numbers[i, TURN] * nz + numbers[i, SLIDE] * fz
        else:
            for k in range(integers[i, NV]):
                torque[v + k] += row[WRENCH + ROWS[integers[i, KIND], k]]
        c, s = angles[1, i], angles[2, i]
        ca, sa, ct, st = row[COS_X], row[SIN_X], row[COS_T], row[SIN_T]
        nx, ny, nz = to_parent(c, s, ca, sa, ct, st, nx, ny, nz)
        fx, fy, fz = to_parent(c, s, ca, sa, ct, st, fx, fy, fz)
        tx, ty, tz = cross(row[WAY], row[WAY + 1], row[WAY + 2], fx, fy, fz)
        up[WRENCH] += nx + tx
        up[WRENCH + 1] += ny + ty
        up[WRENCH + 2] += nz + tz
        up[WRENCH + 3] += fx
        up[WRENCH + 4] += fy
        up[WRENCH + 5] += fz
