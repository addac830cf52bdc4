"""The articulated-body recursion as loops: inertias inwards, unknown accelerations outwards.

The elimination of :mod:`dynsys.plan.symmetric` and :mod:`dynsys.recursive.aba` for any mix of
joints with known and unknown qdd: a known joint has no pivot and passes its inertia on whole;
where no joint towards the base is unknown, nothing is passed on at all.

    Ia = IA - U D^-1 U^T,  U = IA S,  D = S^T U + armature ;  pa = p + U D^-1 (torque - S^T p)

A joint of several freedoms is eliminated freedom by freedom: its freedoms are coordinates of
its body, so that it moves like a chain of joints of one freedom with nothing between them. The
last freedom is eliminated first and found last.

This is the one such recursion in compiled loops: forward dynamics runs all of it, M^-1 ([DRUM])
and the operational-space recursions read U and D of every freedom from it.
"""

from __future__ import annotations

import numpy as np

from dynsys.jit import fused, inlined
from dynsys.loops import flat as at
from dynsys.loops.newton_euler import ROWS, pass_wrench, wrench_of
from dynsys.loops.rotations import (
    General,
    Parts,
    Symmetric,
    Vector,
    about_x,
    about_z,
    cross,
    shifted,
    to_body,
    wrench_back,
)
from dynsys.types import Array, IntArray

__all__ = ["gather_inertias", "own_freedoms", "respond"]


@fused
def gather_inertias(model: at.Model, work: at.Work) -> None:
    """Articulated inertias and wrenches, leaves first; pivots and loads of unknown joints.

    ``inertia`` holds zeros in its first 21 columns before and after: sums over children.
    """
    numbers, integers, angles = model.numbers, model.integers, work.angles
    vectors, motion, inertia = work.vectors, work.motion, work.inertia
    for i in range(len(integers) - 1, 0, -1):
        joint, row, move = integers[i], inertia[i], motion[i]
        a, b, m = _take_sum(row, numbers[i])
        if joint[at.UNKNOWN]:  # U = IA S, D; IA -= U D^-1 U', p += U D^-1 (torque - S' p)
            v = joint[at.V0]
            if joint[at.KIND] == at.AXIAL:
                armature = vectors[at.ARMATURE, v]
                torque = vectors[at.GIVEN, v] - vectors[at.FRICTION, v]
                a, b, m = _eliminate_axial(numbers[i], armature, torque, move, row, a, b, m)
            else:
                _add(row, a, b, m)
                _eliminate_freedoms(joint, vectors, move, row, work.freedoms)
                a, b, m = _take(row)
        if joint[at.CARRIES]:  # IA_parent += X' IA X, p_parent += X' p
            c, s, up = angles[1, i], angles[2, i], joint[at.PARENT]
            a, b, m = about_z(c, s, a, b, m)
            a, b, m = about_x(move[at.COS_X], move[at.SIN_X], a, b, m)
            if move[at.SIN_T] != 0.0:
                a, b, m = about_z(move[at.COS_T], move[at.SIN_T], a, b, m)
            a, b, m = shifted(move[at.WAY], move[at.WAY + 1], move[at.WAY + 2], a, b, m)
            _add(inertia[up], a, b, m)
            pass_wrench(wrench_of(move), c, s, move, motion[up])


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
    jxx, jyy, jzz = body[at.SECOND], body[at.SECOND + 3], body[at.SECOND + 5]
    hx, hy, hz, mass = body[at.FIRST], body[at.FIRST + 1], body[at.FIRST + 2], body[at.MASS]
    return (
        (
            a[0] + (jyy + jzz),
            a[1] - body[at.SECOND + 1],
            a[2] - body[at.SECOND + 2],
            a[3] + (jxx + jzz),
            a[4] - body[at.SECOND + 4],
            a[5] + (jxx + jyy),
        ),
        (b[0], b[1] - hz, b[2] + hy, b[3] + hz, b[4], b[5] - hx, b[6] - hy, b[7] + hx, b[8]),
        (m[0] + mass, m[1], m[2], m[3] + mass, m[4], m[5] + mass),
    )


@inlined
def _add(row: Array, a: Symmetric, b: General, m: Symmetric) -> None:
    for k in range(6):
        row[at.ROTARY + k] += a[k]
        row[at.LINEAR + k] += m[k]
    for k in range(9):
        row[at.MIXED + k] += b[k]


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
    turn, slide = body[at.TURN], body[at.SLIDE]
    gx, gy, gz = turn * a[2], turn * a[4], turn * a[5]
    kx, ky, kz = turn * b[6], turn * b[7], turn * b[8]
    if slide != 0.0:
        gx, gy, gz = gx + slide * b[2], gy + slide * b[5], gz + slide * b[8]
        kx, ky, kz = kx + slide * m[2], ky + slide * m[4], kz + slide * m[5]
    pivot = 1.0 / (turn * gz + slide * kz + armature)
    load = torque - turn * move[at.WRENCH + 2] - slide * move[at.WRENCH + 5]
    gain, wrench, x = row[at.GAIN :], move[at.WRENCH :], pivot * load
    gain[0], gain[1], gain[2], gain[3], gain[4], gain[5] = gx, gy, gz, kx, ky, kz
    row[at.PIVOT], row[at.LOAD] = pivot, load
    wrench[0] += x * gx
    wrench[1] += x * gy
    wrench[2] += x * gz
    wrench[3] += x * kx
    wrench[4] += x * ky
    wrench[5] += x * kz
    a, b, m = _less_square(pivot, (gx, gy, gz), (kx, ky, kz), a, b, m)
    if armature == 0.0 and slide == 0.0:  # Ia S = 0 exactly
        a = (a[0], a[1], 0.0, a[3], 0.0, 0.0)
        b = (b[0], b[1], b[2], b[3], b[4], b[5], 0.0, 0.0, 0.0)
    return a, b, m


@inlined
def _less_square(
    d: float, g: Vector, k: Vector, a: Symmetric, b: General, m: Symmetric
) -> Parts:
    """IA - d U U^T, U = (g, k)."""
    (gx, gy, gz), (kx, ky, kz) = g, k
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


@fused
def respond(model: at.Model, work: at.Work) -> None:
    """Write the unknown qdd, base first: qdd = D^-1 (load - U^T X a_parent)."""
    numbers, integers, angles = model.numbers, model.integers, work.angles
    motion, inertia, qdd = work.motion, work.inertia, work.vectors[at.QDD]
    for i in range(1, len(integers)):
        joint, row, move = integers[i], inertia[i], motion[i]
        up = motion[joint[at.PARENT]]
        c, s = angles[1, i], angles[2, i]
        ca, sa, ct, st = move[at.COS_X], move[at.SIN_X], move[at.COS_T], move[at.SIN_T]
        # a = X a_parent
        wx, wy, wz = up[at.RESPONSE], up[at.RESPONSE + 1], up[at.RESPONSE + 2]
        tx, ty, tz = cross(wx, wy, wz, move[at.WAY], move[at.WAY + 1], move[at.WAY + 2])
        vx, vy = up[at.RESPONSE + 3] + tx, up[at.RESPONSE + 4] + ty
        vz = up[at.RESPONSE + 5] + tz
        wx, wy, wz = to_body(c, s, ca, sa, ct, st, wx, wy, wz)
        vx, vy, vz = to_body(c, s, ca, sa, ct, st, vx, vy, vz)
        # qdd = D^-1 (load - U' a), a += S qdd
        if joint[at.UNKNOWN] and joint[at.KIND] == at.AXIAL:
            x = row[at.PIVOT] * (
                row[at.LOAD]
                - (row[at.GAIN] * wx + row[at.GAIN + 1] * wy + row[at.GAIN + 2] * wz)
                - (row[at.GAIN + 3] * vx + row[at.GAIN + 4] * vy + row[at.GAIN + 5] * vz)
            )
            qdd[joint[at.V0]] = x
            wz += numbers[i, at.TURN] * x
            vz += numbers[i, at.SLIDE] * x
        move[at.RESPONSE], move[at.RESPONSE + 1], move[at.RESPONSE + 2] = wx, wy, wz
        move[at.RESPONSE + 3], move[at.RESPONSE + 4], move[at.RESPONSE + 5] = vx, vy, vz
        if joint[at.UNKNOWN] and joint[at.KIND] != at.AXIAL:
            _respond_freedoms(joint, work.freedoms, move, qdd)


@fused
def own_freedoms(model: at.Model, work: at.Work, U: Array, D: Array) -> None:
    """U = IA S (nv, 6) and D (nv,) of every freedom, in the robot's own frames.

    For a robot without coupled joints, of which every qdd is unknown, after
    :func:`gather_inertias`.
    """
    for i in range(1, len(model.integers)):
        joint, frame = model.integers[i], model.frames[i]
        for k in range(joint[at.NV]):
            v = joint[at.V0] + k
            if joint[at.KIND] == at.AXIAL:
                wrench_back(frame, work.inertia[i, at.GAIN :], U[v])
                D[v] = 1.0 / work.inertia[i, at.PIVOT]
            else:
                store = work.freedoms[joint[at.BLOCK] + k]
                wrench_back(frame, store[at.FREEDOM_GAIN :], U[v])
                D[v] = 1.0 / store[at.FREEDOM_PIVOT]


# ---- joints of several freedoms --------------------------------------------------------------

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
def _eliminate_freedoms(
    joint: IntArray, vectors: Array, move: Array, row: Array, freedoms: Array
) -> None:
    """Pivots of a joint: the inertia and wrench it lets through, in place.

    Without armature Ia S = 0 exactly, and those entries are set to zero.
    """
    for k in range(joint[at.NV] - 1, -1, -1):
        place, v = ROWS[joint[at.KIND], k], joint[at.V0] + k
        store = freedoms[joint[at.BLOCK] + k]
        for i in range(6):
            store[at.FREEDOM_GAIN + i] = row[_ENTRY[place, i]]
        pivot = 1.0 / (store[at.FREEDOM_GAIN + place] + vectors[at.ARMATURE, v])
        load = vectors[at.GIVEN, v] - vectors[at.FRICTION, v] - move[at.WRENCH + place]
        store[at.FREEDOM_PIVOT], store[at.FREEDOM_LOAD] = pivot, load
        for i in range(6):
            gain = store[at.FREEDOM_GAIN + i]
            move[at.WRENCH + i] += pivot * load * gain
            for j in range(i, 6):
                row[_ENTRY[i, j]] -= pivot * gain * store[at.FREEDOM_GAIN + j]
        if vectors[at.ARMATURE, v] == 0.0:
            for i in range(6):
                row[_ENTRY[place, i]] = 0.0


@fused
def _respond_freedoms(joint: IntArray, freedoms: Array, move: Array, qdd: Array) -> None:
    """qdd of a joint from the carried acceleration in ``move``, which it then adds to."""
    for k in range(joint[at.NV]):
        store = freedoms[joint[at.BLOCK] + k]
        load = store[at.FREEDOM_LOAD]
        for i in range(6):
            load -= store[at.FREEDOM_GAIN + i] * move[at.RESPONSE + i]
        x = store[at.FREEDOM_PIVOT] * load
        qdd[joint[at.V0] + k] = x
        move[at.RESPONSE + ROWS[joint[at.KIND], k]] += x
