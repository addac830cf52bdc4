"""Accelerations and wrenches of the bodies, back in the robot's own frames."""

from __future__ import annotations

import math

from dynsys.loops.columns import (
    ACC,
    AXIAL,
    COS_T,
    COS_X,
    FRAME_E,
    FRAME_R,
    KIND,
    NV,
    PARENT,
    SIN_T,
    SIN_X,
    SLIDE,
    V0,
    VELOCITY,
    WAY,
    WD,
    WRENCH,
    W,
)
from dynsys.loops.jit import inlined, loop
from dynsys.loops.turns import Vector, cross, to_body
from dynsys.loops.wrenches import ROWS
from dynsys.types import Array, IntArray

__all__ = ["linear_velocities", "write_accelerations", "write_wrenches"]


@inlined
def _turn_back(e: Array, x: float, y: float, z: float) -> Vector:
    return (
        e[0] * x + e[3] * y + e[6] * z,
        e[1] * x + e[4] * y + e[7] * z,
        e[2] * x + e[5] * y + e[8] * z,
    )


@loop
def linear_velocities(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    qd: Array,
    motion: Array,
    velocity: Array,
) -> None:
    """Fill v = E (v_parent + w_parent x r) + S_linear qd; angular velocities are in motion."""
    for i in range(1, len(integers)):
        joint, row, own = integers[i], motion[i], velocity[i]
        up, above = motion[joint[PARENT]], velocity[joint[PARENT]]
        x, y, z = cross(up[W], up[W + 1], up[W + 2], row[WAY], row[WAY + 1], row[WAY + 2])
        x, y, z = above[VELOCITY] + x, above[VELOCITY + 1] + y, above[VELOCITY + 2] + z
        c, s = angles[1, i], angles[2, i]
        x, y, z = to_body(c, s, row[COS_X], row[SIN_X], row[COS_T], row[SIN_T], x, y, z)
        own[VELOCITY], own[VELOCITY + 1], own[VELOCITY + 2] = x, y, z
        if joint[KIND] == AXIAL:
            own[VELOCITY + 2] += numbers[i, SLIDE] * qd[joint[V0]]
        else:
            for k in range(joint[NV]):
                place = ROWS[joint[KIND], k]
                if place >= 3:
                    own[VELOCITY + place - 3] += qd[joint[V0] + k]


@loop
def write_accelerations(frames: Array, motion: Array, velocity: Array, out: Array) -> bool:
    """Spatial proper accelerations (6 n_bodies,): (wd, a - w x v), a the classical one."""
    finite = True
    for i in range(1, len(frames)):
        row, own, to = motion[i], velocity[i], out[6 * i - 6 :]
        e, r = frames[i, FRAME_E:], frames[i, FRAME_R:]
        x, y, z = own[VELOCITY], own[VELOCITY + 1], own[VELOCITY + 2]
        tx, ty, tz = cross(row[W], row[W + 1], row[W + 2], x, y, z)
        wx, wy, wz = _turn_back(e, row[WD], row[WD + 1], row[WD + 2])
        x, y, z = _turn_back(e, row[ACC] - tx, row[ACC + 1] - ty, row[ACC + 2] - tz)
        tx, ty, tz = cross(r[0], r[1], r[2], wx, wy, wz)
        to[0], to[1], to[2], to[3], to[4], to[5] = wx, wy, wz, x + tx, y + ty, z + tz
        finite = finite and math.isfinite(wx + wy + wz + to[3] + to[4] + to[5])
    return finite


@loop
def write_wrenches(frames: Array, motion: Array, out: Array) -> bool:
    """Joint wrenches (6 n_bodies,)."""
    finite = True
    for i in range(1, len(frames)):
        row, to = motion[i], out[6 * i - 6 :]
        e, r = frames[i, FRAME_E:], frames[i, FRAME_R:]
        nx, ny, nz = _turn_back(e, row[WRENCH], row[WRENCH + 1], row[WRENCH + 2])
        fx, fy, fz = _turn_back(e, row[WRENCH + 3], row[WRENCH + 4], row[WRENCH + 5])
        tx, ty, tz = cross(r[0], r[1], r[2], fx, fy, fz)
        to[0], to[1], to[2], to[3], to[4], to[5] = nx + tx, ny + ty, nz + tz, fx, fy, fz
        finite = finite and math.isfinite(nx + ny + nz + fx + fy + fz)
    return finite
