"""Recursive Newton-Euler as loops: motion of the bodies outwards, wrenches inwards.

The algorithm of :mod:`dynsys.recursive.rnea` (classical accelerations and the tensor
U = [wd]x + [w]x [w]x) on rows of :mod:`dynsys.loops.flat`.
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import fused, inlined
from dynsys.loops import flat as at
from dynsys.loops.rotations import Spatial, Vector, cross, to_body, wrench_to_parent
from dynsys.types import Array, IntArray

__all__ = ["ROWS", "gather_wrenches", "move_bodies", "pass_wrench", "push_bodies", "wrench_of"]

ROWS = np.array(at.FREEDOM_ROWS)


@fused
def move_bodies(model: at.Model, work: at.Work) -> None:
    """Velocities, accelerations and net wrenches of all bodies at qd and qdd of ``vectors``."""
    numbers, integers, angles = model.numbers, model.integers, work.angles
    vectors, motion, joint = work.vectors, work.motion, work.small
    qd, qdd = vectors[at.QD], vectors[at.QDD]
    for i in range(1, len(integers)):
        row, up, body = motion[i], motion[integers[i, at.PARENT]], numbers[i]
        c, s = angles[1, i], angles[2, i]
        ca, sa, ct, st = row[at.COS_X], row[at.SIN_X], row[at.COS_T], row[at.SIN_T]
        rx, ry, rz = row[at.WAY], row[at.WAY + 1], row[at.WAY + 2]
        a, u = up[at.ACC :], up[at.TENSOR :]
        # a = E (a_parent + U_parent r), w = E w_parent, wd = E wd_parent: as if the joint stood
        ax = a[0] + u[0] * rx + u[1] * ry + u[2] * rz
        ay = a[1] + u[3] * rx + u[4] * ry + u[5] * rz
        az = a[2] + u[6] * rx + u[7] * ry + u[8] * rz
        wx, wy, wz = to_body(c, s, ca, sa, ct, st, up[at.W], up[at.W + 1], up[at.W + 2])
        dx, dy, dz = to_body(c, s, ca, sa, ct, st, up[at.WD], up[at.WD + 1], up[at.WD + 2])
        ax, ay, az = to_body(c, s, ca, sa, ct, st, ax, ay, az)
        v = integers[i, at.V0]
        # add S qd, S qdd and their products with w
        if integers[i, at.KIND] == at.AXIAL:
            turn, slide = body[at.TURN] * qd[v], body[at.SLIDE] * qd[v]
            dx, dy, dz = dx + wy * turn, dy - wx * turn, dz + body[at.TURN] * qdd[v]
            wz += turn
            if body[at.SLIDE] != 0.0:
                ax, ay = ax + 2.0 * wy * slide, ay - 2.0 * wx * slide
                az += body[at.SLIDE] * qdd[v]
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
        row[at.W], row[at.W + 1], row[at.W + 2] = wx, wy, wz
        row[at.WD], row[at.WD + 1], row[at.WD + 2] = dx, dy, dz
        row[at.ACC], row[at.ACC + 1], row[at.ACC + 2] = ax, ay, az
        _newton_euler(body, row, (wx, wy, wz), (dx, dy, dz), (ax, ay, az))


@inlined
def _scatter(joint: IntArray, rates: Array, out: Array) -> None:
    """S x (6,) for a joint of several freedoms."""
    for k in range(6):
        out[k] = 0.0
    for k in range(joint[at.NV]):
        out[ROWS[joint[at.KIND], k]] = rates[joint[at.V0] + k]


@inlined
def _newton_euler(body: Array, row: Array, w: Vector, wd: Vector, a: Vector) -> None:
    """Tensor U of the body and its net wrench: F = m a + U h, N = h x a + vee(U J - J U^T)."""
    (wx, wy, wz), (dx, dy, dz), (ax, ay, az) = w, wd, a
    xx, yy, zz = wx * wx, wy * wy, wz * wz
    xy, xz, yz = wx * wy, wx * wz, wy * wz
    u00, u01, u02 = -(yy + zz), xy - dz, xz + dy
    u10, u11, u12 = xy + dz, -(xx + zz), yz - dx
    u20, u21, u22 = xz - dy, yz + dx, -(xx + yy)
    tensor, f = row[at.TENSOR :], row[at.WRENCH :]
    tensor[0], tensor[1], tensor[2] = u00, u01, u02
    tensor[3], tensor[4], tensor[5] = u10, u11, u12
    tensor[6], tensor[7], tensor[8] = u20, u21, u22
    m, hx, hy, hz = body[at.MASS], body[at.FIRST], body[at.FIRST + 1], body[at.FIRST + 2]
    jxx, jxy, jxz = body[at.SECOND], body[at.SECOND + 1], body[at.SECOND + 2]
    jyy, jyz, jzz = body[at.SECOND + 3], body[at.SECOND + 4], body[at.SECOND + 5]
    nx, ny, nz = cross(hx, hy, hz, ax, ay, az)
    f[0] = nx + u20 * jxy - u10 * jxz + u21 * jyy - u12 * jzz + (u22 - u11) * jyz
    f[1] = ny + u01 * jyz - u21 * jxy + u02 * jzz - u20 * jxx + (u00 - u22) * jxz
    f[2] = nz + u12 * jxz - u02 * jyz + u10 * jxx - u01 * jyy + (u11 - u00) * jxy
    f[3] = m * ax + u00 * hx + u01 * hy + u02 * hz
    f[4] = m * ay + u10 * hx + u11 * hy + u12 * hz
    f[5] = m * az + u20 * hx + u21 * hy + u22 * hz


@fused
def push_bodies(model: at.Model, work: at.Work, f_ext: Array) -> None:
    """Take external wrenches (6 n_bodies,), in the robot's own frames, off the net wrenches."""
    frames, motion = model.frames, work.motion
    for i in range(1, len(frames)):
        f, net = f_ext[6 * i - 6 :], motion[i, at.WRENCH :]
        e, r = frames[i, at.FRAME_E :], frames[i, at.FRAME_R :]
        nx, ny, nz = cross(r[0], r[1], r[2], f[3], f[4], f[5])
        nx, ny, nz = f[0] - nx, f[1] - ny, f[2] - nz
        for k in range(3):
            net[k] -= e[3 * k] * nx + e[3 * k + 1] * ny + e[3 * k + 2] * nz
            net[k + 3] -= e[3 * k] * f[3] + e[3 * k + 1] * f[4] + e[3 * k + 2] * f[5]


@fused
def gather_wrenches(model: at.Model, work: at.Work) -> None:
    """Joint wrenches, leaves first, and torque = S^T f + armature qdd + friction."""
    numbers, integers, angles = model.numbers, model.integers, work.angles
    vectors, motion = work.vectors, work.motion
    torque, armature, qdd = vectors[at.TORQUE], vectors[at.ARMATURE], vectors[at.QDD]
    for v in range(len(torque)):
        torque[v] = armature[v] * qdd[v] + vectors[at.FRICTION, v]
    for i in range(len(integers) - 1, 0, -1):
        row = motion[i]
        f, kind, v = wrench_of(row), integers[i, at.KIND], integers[i, at.V0]
        if kind == at.AXIAL:
            torque[v] += numbers[i, at.TURN] * f[2] + numbers[i, at.SLIDE] * f[5]
        else:
            for k in range(integers[i, at.NV]):
                torque[v + k] += row[at.WRENCH + ROWS[kind, k]]
        pass_wrench(f, angles[1, i], angles[2, i], row, motion[integers[i, at.PARENT]])


@inlined
def wrench_of(row: Array) -> Spatial:
    """The wrench in a row of ``motion``."""
    f = row[at.WRENCH :]
    return f[0], f[1], f[2], f[3], f[4], f[5]


@inlined
def pass_wrench(f: Spatial, c: float, s: float, row: Array, up: Array) -> None:
    """Add X^T f, the wrench of a body as its parent sees it, to the parent's."""
    nx, ny, nz, fx, fy, fz = wrench_to_parent(c, s, row, f)
    up[at.WRENCH] += nx
    up[at.WRENCH + 1] += ny
    up[at.WRENCH + 2] += nz
    up[at.WRENCH + 3] += fx
    up[at.WRENCH + 4] += fy
    up[at.WRENCH + 5] += fz
