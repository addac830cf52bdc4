"""Articulated-body algorithm as loops: inertias inwards, unknown accelerations outwards.

The elimination of :mod:`dynsys.plan.symmetric` and :mod:`dynsys.recursive.aba` for any mix of
joints with known and unknown qdd: a known joint has no pivot and passes its inertia on whole;
where no joint towards the base is unknown, nothing is passed on at all.

    Ia = IA - U D^-1 U^T,  U = IA S,  D = S^T U + armature ;  pa = p + U D^-1 (torque - S^T p)
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import fused, inlined
from dynsys.loops.columns import (
    ARMATURE,
    AXIAL,
    BLOCK,
    CARRIES,
    COS_T,
    COS_X,
    FIRST,
    FREEDOM_GAIN,
    FREEDOM_LOAD,
    FREEDOM_PIVOT,
    GAIN,
    GIVEN,
    KIND,
    LINEAR,
    LOAD,
    MASS,
    MIXED,
    NV,
    PARENT,
    PIVOT,
    RESPONSE,
    ROTARY,
    SECOND,
    SIN_T,
    SIN_X,
    SLIDE,
    TURN,
    UNKNOWN,
    V0,
    WAY,
    WRENCH,
)
from dynsys.loops.rotations import (
    General,
    Parts,
    Symmetric,
    about_x,
    about_z,
    cross,
    shifted,
    to_body,
    to_parent,
)
from dynsys.loops.wrenches import ROWS
from dynsys.types import Array, IntArray

__all__ = [
    "eliminate_freedoms",
    "gather_inertias",
    "respond",
    "respond_freedoms",
]


@fused
def gather_inertias(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    vectors: Array,
    motion: Array,
    inertia: Array,
    freedoms: Array,
) -> None:
    """Articulated inertias and wrenches, leaves first; pivots and loads of unknown joints.

    ``inertia`` holds zeros in its first 21 columns before and after: sums over children.
    """
    for i in range(len(integers) - 1, 0, -1):
        joint, row, move = integers[i], inertia[i], motion[i]
        a, b, m = _take_sum(row, numbers[i])
        if joint[UNKNOWN]:
            v = joint[V0]
            if joint[KIND] == AXIAL:
                armature, torque = vectors[ARMATURE, v], vectors[GIVEN, v]
                a, b, m = _eliminate_axial(numbers[i], armature, torque, move, row, a, b, m)
            else:
                _add(row, a, b, m)
                eliminate_freedoms(joint, vectors, move, row, freedoms)
                a, b, m = _take(row)
        if joint[CARRIES]:
            c, s, up = angles[1, i], angles[2, i], joint[PARENT]
            a, b, m = about_z(c, s, a, b, m)
            a, b, m = about_x(move[COS_X], move[SIN_X], a, b, m)
            if move[SIN_T] != 0.0:
                a, b, m = about_z(move[COS_T], move[SIN_T], a, b, m)
            a, b, m = shifted(move[WAY], move[WAY + 1], move[WAY + 2], a, b, m)
            _add(inertia[up], a, b, m)
            _pass_wrench(c, s, move, motion[up])


@inlined
def _take(row: Array) -> Parts:
    """Parts of the inertia in a row, which is left empty."""
    a = (row[0], row[1], row[2], row[3], row[4], row[5])
    b = (row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13], row[14])
    m = (row[15], row[16], row[17], row[18], row[19], row[20])
    for k in range(21):
        row[k] = 0.0
    return a, b, m


@inlined
def _take_sum(row: Array, body: Array) -> Parts:
    """Sum over the children and the body itself, [[I, [h]x], [[h]x^T, m 1]]."""
    a, b, m = _take(row)
    jxx, jyy, jzz = body[SECOND], body[SECOND + 3], body[SECOND + 5]
    hx, hy, hz, mass = body[FIRST], body[FIRST + 1], body[FIRST + 2], body[MASS]
    return (
        (
            a[0] + (jyy + jzz),
            a[1] - body[SECOND + 1],
            a[2] - body[SECOND + 2],
            a[3] + (jxx + jzz),
            a[4] - body[SECOND + 4],
            a[5] + (jxx + jyy),
        ),
        (b[0], b[1] - hz, b[2] + hy, b[3] + hz, b[4], b[5] - hx, b[6] - hy, b[7] + hx, b[8]),
        (m[0] + mass, m[1], m[2], m[3] + mass, m[4], m[5] + mass),
    )


@inlined
def _add(row: Array, a: Symmetric, b: General, m: Symmetric) -> None:
    row[ROTARY + 0] += a[0]
    row[ROTARY + 1] += a[1]
    row[ROTARY + 2] += a[2]
    row[ROTARY + 3] += a[3]
    row[ROTARY + 4] += a[4]
    row[ROTARY + 5] += a[5]
    row[MIXED + 0] += b[0]
    row[MIXED + 1] += b[1]
    row[MIXED + 2] += b[2]
    row[MIXED + 3] += b[3]
    row[MIXED + 4] += b[4]
    row[MIXED + 5] += b[5]
    row[MIXED + 6] += b[6]
    row[MIXED + 7] += b[7]
    row[MIXED + 8] += b[8]
    row[LINEAR + 0] += m[0]
    row[LINEAR + 1] += m[1]
    row[LINEAR + 2] += m[2]
    row[LINEAR + 3] += m[3]
    row[LINEAR + 4] += m[4]
    row[LINEAR + 5] += m[5]


@inlined
def _eliminate_axial(
    body: Array,
    armature: float,
    torque: float,
    move: Array,
    row: Array,
    a: Symmetric,
    b: General,
    m: Symmetric,
) -> Parts:
    """Pivot of a joint about or along z: the inertia and wrench it lets through."""
    turn, slide = body[TURN], body[SLIDE]
    gx, gy, gz = turn * a[2], turn * a[4], turn * a[5]
    kx, ky, kz = turn * b[6], turn * b[7], turn * b[8]
    if slide != 0.0:
        gx, gy, gz = gx + slide * b[2], gy + slide * b[5], gz + slide * b[8]
        kx, ky, kz = kx + slide * m[2], ky + slide * m[4], kz + slide * m[5]
    pivot = 1.0 / (turn * gz + slide * kz + armature)
    load = torque - turn * move[WRENCH + 2] - slide * move[WRENCH + 5]
    row[GAIN], row[GAIN + 1], row[GAIN + 2] = gx, gy, gz
    row[GAIN + 3], row[GAIN + 4], row[GAIN + 5] = kx, ky, kz
    row[PIVOT], row[LOAD] = pivot, load
    x = pivot * load
    move[WRENCH] += x * gx
    move[WRENCH + 1] += x * gy
    move[WRENCH + 2] += x * gz
    move[WRENCH + 3] += x * kx
    move[WRENCH + 4] += x * ky
    move[WRENCH + 5] += x * kz
    a, b, m = _less_square(pivot, gx, gy, gz, kx, ky, kz, a, b, m)
    if armature == 0.0 and slide == 0.0:  # Ia S = 0 exactly
        a = (a[0], a[1], 0.0, a[3], 0.0, 0.0)
        b = (b[0], b[1], b[2], b[3], b[4], b[5], 0.0, 0.0, 0.0)
    return a, b, m


@inlined
def _less_square(
    d: float,
    gx: float,
    gy: float,
    gz: float,
    kx: float,
    ky: float,
    kz: float,
    a: Symmetric,
    b: General,
    m: Symmetric,
) -> Parts:
    """IA - d U U^T, U = (g, k)."""
    x, y, z = d * gx, d * gy, d * gz
    u, v, w = d * kx, d * ky, d * kz
    return (
        (
            a[0] - x * gx,
            a[1] - x * gy,
            a[2] - x * gz,
            a[3] - y * gy,
            a[4] - y * gz,
            a[5] - z * gz,
        ),
        (
            b[0] - x * kx,
            b[1] - x * ky,
            b[2] - x * kz,
            b[3] - y * kx,
            b[4] - y * ky,
            b[5] - y * kz,
            b[6] - z * kx,
            b[7] - z * ky,
            b[8] - z * kz,
        ),
        (
            m[0] - u * kx,
            m[1] - u * ky,
            m[2] - u * kz,
            m[3] - v * ky,
            m[4] - v * kz,
            m[5] - w * kz,
        ),
    )


@inlined
def _pass_wrench(c: float, s: float, row: Array, up: Array) -> None:
    """Add X^T p to the parent's wrench."""
    ca, sa, ct, st = row[COS_X], row[SIN_X], row[COS_T], row[SIN_T]
    nx, ny, nz = to_parent(c, s, ca, sa, ct, st, row[WRENCH], row[WRENCH + 1], row[WRENCH + 2])
    fx, fy, fz = to_parent(
        c, s, ca, sa, ct, st, row[WRENCH + 3], row[WRENCH + 4], row[WRENCH + 5]
    )
    tx, ty, tz = cross(row[WAY], row[WAY + 1], row[WAY + 2], fx, fy, fz)
    up[WRENCH] += nx + tx
    up[WRENCH + 1] += ny + ty
    up[WRENCH + 2] += nz + tz
    up[WRENCH + 3] += fx
    up[WRENCH + 4] += fy
    up[WRENCH + 5] += fz


@fused
def respond(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    motion: Array,
    inertia: Array,
    freedoms: Array,
    qdd: Array,
) -> None:
    """Write the unknown qdd (nv + 1,), base first: qdd = D^-1 (load - U^T X a_parent)."""
    for i in range(1, len(integers)):
        joint, row, move, up = integers[i], inertia[i], motion[i], motion[integers[i, PARENT]]
        c, s = angles[1, i], angles[2, i]
        ca, sa, ct, st = move[COS_X], move[SIN_X], move[COS_T], move[SIN_T]
        wx, wy, wz = up[RESPONSE], up[RESPONSE + 1], up[RESPONSE + 2]
        tx, ty, tz = cross(wx, wy, wz, move[WAY], move[WAY + 1], move[WAY + 2])
        vx, vy, vz = up[RESPONSE + 3] + tx, up[RESPONSE + 4] + ty, up[RESPONSE + 5] + tz
        wx, wy, wz = to_body(c, s, ca, sa, ct, st, wx, wy, wz)
        vx, vy, vz = to_body(c, s, ca, sa, ct, st, vx, vy, vz)
        if joint[UNKNOWN] and joint[KIND] == AXIAL:
            x = row[PIVOT] * (
                row[LOAD]
                - (row[GAIN] * wx + row[GAIN + 1] * wy + row[GAIN + 2] * wz)
                - (row[GAIN + 3] * vx + row[GAIN + 4] * vy + row[GAIN + 5] * vz)
            )
            qdd[joint[V0]] = x
            wz += numbers[i, TURN] * x
            vz += numbers[i, SLIDE] * x
        move[RESPONSE], move[RESPONSE + 1], move[RESPONSE + 2] = wx, wy, wz
        move[RESPONSE + 3], move[RESPONSE + 4], move[RESPONSE + 5] = vx, vy, vz
        if joint[UNKNOWN] and joint[KIND] != AXIAL:
            respond_freedoms(joint, freedoms, move, qdd)


# ----------------------------------------------------------------------
# Joints of several freedoms, eliminated freedom by freedom.
#
# A joint whose freedoms are coordinates of its body moves like a chain of joints of one freedom
# with nothing between them: the last freedom is eliminated first and found last.

_ENTRY = np.array(
    [
        [0, 1, 2, 6, 7, 8],
        [1, 3, 4, 9, 10, 11],
        [2, 4, 5, 12, 13, 14],
        [6, 9, 12, 15, 16, 17],
        [7, 10, 13, 16, 18, 19],
        [8, 11, 14, 17, 19, 20],
    ]
)
"""Columns that hold the entries of the symmetric (6, 6) matrix [[A, B], [B^T, C]]."""


@fused
def eliminate_freedoms(
    joint: IntArray, vectors: Array, move: Array, row: Array, freedoms: Array
) -> None:
    """Pivots of a joint: the inertia and wrench it lets through, in place.

    Without armature Ia S = 0 exactly, and those entries are set to zero.
    """
    for k in range(joint[NV] - 1, -1, -1):
        place, v, store = ROWS[joint[KIND], k], joint[V0] + k, freedoms[joint[BLOCK] + k]
        for i in range(6):
            store[FREEDOM_GAIN + i] = row[_ENTRY[place, i]]
        pivot = 1.0 / (store[FREEDOM_GAIN + place] + vectors[ARMATURE, v])
        load = vectors[GIVEN, v] - move[WRENCH + place]
        store[FREEDOM_PIVOT], store[FREEDOM_LOAD] = pivot, load
        for i in range(6):
            gain = store[FREEDOM_GAIN + i]
            move[WRENCH + i] += pivot * load * gain
            for j in range(i, 6):
                row[_ENTRY[i, j]] -= pivot * gain * store[FREEDOM_GAIN + j]
        if vectors[ARMATURE, v] == 0.0:
            for i in range(6):
                row[_ENTRY[place, i]] = 0.0


@fused
def respond_freedoms(joint: IntArray, freedoms: Array, move: Array, qdd: Array) -> None:
    """qdd of a joint from the carried acceleration in ``move``, which it then adds to."""
    for k in range(joint[NV]):
        store = freedoms[joint[BLOCK] + k]
        load = store[FREEDOM_LOAD]
        for i in range(6):
            load -= store[FREEDOM_GAIN + i] * move[RESPONSE + i]
        x = store[FREEDOM_PIVOT] * load
        qdd[joint[V0] + k] = x
        move[RESPONSE + ROWS[joint[KIND], k]] += x
