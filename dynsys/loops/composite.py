"""Composite-rigid-body algorithm as loops, and a dense solve for robots with coupled joints.

The algorithm of :mod:`dynsys.recursive.crba`; composite bodies keep rotational inertia, first
moment and mass in the columns of the articulated inertia.
"""

from __future__ import annotations

from dynsys.jit import fused, inlined
from dynsys.loops.columns import (
    AXIAL,
    COS_T,
    COS_X,
    FIRST,
    KIND,
    LINEAR,
    MASS,
    MIXED,
    NV,
    PARENT,
    ROTARY,
    SECOND,
    SIN_T,
    SIN_X,
    SLIDE,
    TURN,
    V0,
    WAY,
)
from dynsys.loops.rotations import cross, to_parent, turn_symmetric
from dynsys.loops.wrenches import ROWS
from dynsys.types import Array, IntArray

__all__ = ["fill_inertia_matrix", "solve_unknown"]


@fused
def fill_inertia_matrix(
    numbers: Array,
    integers: IntArray,
    armature: Array,
    angles: Array,
    motion: Array,
    composite: Array,
    forces: Array,
    H: Array,
) -> None:
    """H (nv, nv), armature included; ``forces`` (7, 6) is scratch."""
    for i in range(len(H)):
        for j in range(len(H)):
            H[i, j] = 0.0
        H[i, i] = armature[i]
    for i in range(1, len(integers)):
        _rigid(numbers[i], composite[i])
    for i in range(len(integers) - 1, 0, -1):
        _add_rows(numbers, integers, angles, motion, composite[i], i, forces, H)
        up = integers[i, PARENT]
        if up > 0:
            _pass_composite(angles[1, i], angles[2, i], motion[i], composite[i], composite[up])


@inlined
def _rigid(body: Array, row: Array) -> None:
    jxx, jyy, jzz = body[SECOND], body[SECOND + 3], body[SECOND + 5]
    row[ROTARY], row[ROTARY + 3], row[ROTARY + 5] = jyy + jzz, jxx + jzz, jxx + jyy
    row[ROTARY + 1], row[ROTARY + 2] = -body[SECOND + 1], -body[SECOND + 2]
    row[ROTARY + 4] = -body[SECOND + 4]
    for k in range(3):
        row[MIXED + k] = body[FIRST + k]
    row[LINEAR] = body[MASS]


@inlined
def _add_rows(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    motion: Array,
    composite: Array,
    i: int,
    forces: Array,
    H: Array,
) -> None:
    """Terms of joint i with itself and with every joint towards the base."""
    n, start = integers[i, NV], integers[i, V0]
    for k in range(n):
        _set_subspace(numbers[i], integers[i, KIND], k, forces[6])
        _times(composite, forces[6], forces[k])
    for k in range(n):
        for m in range(n):
            H[start + k, start + m] += _along(numbers[i], integers[i, KIND], m, forces[k])
    j = i
    while integers[j, PARENT] > 0 and n > 0:
        for k in range(n):
            _force_to_parent(angles[1, j], angles[2, j], motion[j], forces[k])
        j = integers[j, PARENT]
        for m in range(integers[j, NV]):
            column = integers[j, V0] + m
            for k in range(n):
                term = _along(numbers[j], integers[j, KIND], m, forces[k])
                H[start + k, column] += term
                H[column, start + k] += term


@inlined
def _set_subspace(body: Array, kind: int, k: int, out: Array) -> None:
    """Column k of S."""
    for row in range(6):
        out[row] = 0.0
    if kind == AXIAL:
        out[2], out[5] = body[TURN], body[SLIDE]
    else:
        out[ROWS[kind, k]] = 1.0


@inlined
def _along(body: Array, kind: int, k: int, f: Array) -> float:
    """Column k of S times a wrench f."""
    if kind == AXIAL:
        return float(body[TURN] * f[2] + body[SLIDE] * f[5])
    return float(f[ROWS[kind, k]])


@inlined
def _times(row: Array, motion: Array, out: Array) -> None:
    """(I w + h x v, m v - h x w)."""
    w0, w1, w2, v0, v1, v2 = motion[0], motion[1], motion[2], motion[3], motion[4], motion[5]
    hx, hy, hz, m = row[MIXED], row[MIXED + 1], row[MIXED + 2], row[LINEAR]
    tx, ty, tz = cross(hx, hy, hz, v0, v1, v2)
    out[0] = row[ROTARY] * w0 + row[ROTARY + 1] * w1 + row[ROTARY + 2] * w2 + tx
    out[1] = row[ROTARY + 1] * w0 + row[ROTARY + 3] * w1 + row[ROTARY + 4] * w2 + ty
    out[2] = row[ROTARY + 2] * w0 + row[ROTARY + 4] * w1 + row[ROTARY + 5] * w2 + tz
    tx, ty, tz = cross(hx, hy, hz, w0, w1, w2)
    out[3], out[4], out[5] = m * v0 - tx, m * v1 - ty, m * v2 - tz


@inlined
def _force_to_parent(c: float, s: float, row: Array, f: Array) -> None:
    """X^T f in place."""
    ca, sa, ct, st = row[COS_X], row[SIN_X], row[COS_T], row[SIN_T]
    nx, ny, nz = to_parent(c, s, ca, sa, ct, st, f[0], f[1], f[2])
    fx, fy, fz = to_parent(c, s, ca, sa, ct, st, f[3], f[4], f[5])
    tx, ty, tz = cross(row[WAY], row[WAY + 1], row[WAY + 2], fx, fy, fz)
    f[0], f[1], f[2], f[3], f[4], f[5] = nx + tx, ny + ty, nz + tz, fx, fy, fz


@inlined
def _pass_composite(c: float, s: float, move: Array, row: Array, up: Array) -> None:
    """Add X^T (composite) X: turned, then moved by r ([RBDA] eq. 2.66)."""
    ca, sa, ct, st = move[COS_X], move[SIN_X], move[COS_T], move[SIN_T]
    xx, xy, xz, yy, yz, zz = row[0], row[1], row[2], row[3], row[4], row[5]
    xx, xy, xz, yy, yz = turn_symmetric(c, s, xx, xy, xz, yy, yz)
    yy, yz, xy, zz, xz = turn_symmetric(ca, sa, yy, yz, xy, zz, xz)
    xx, xy, xz, yy, yz = turn_symmetric(ct, st, xx, xy, xz, yy, yz)
    m, rx, ry, rz = row[LINEAR], move[WAY], move[WAY + 1], move[WAY + 2]
    hx, hy, hz = to_parent(c, s, ca, sa, ct, st, row[MIXED], row[MIXED + 1], row[MIXED + 2])
    px, py, pz = hx + m * rx, hy + m * ry, hz + m * rz
    dx, dy, dz = rx * px + hx * rx, ry * py + hy * ry, rz * pz + hz * rz
    up[ROTARY] += xx + dy + dz
    up[ROTARY + 1] += xy - (rx * py + hx * ry)
    up[ROTARY + 2] += xz - (rx * pz + hx * rz)
    up[ROTARY + 3] += yy + dx + dz
    up[ROTARY + 4] += yz - (ry * pz + hy * rz)
    up[ROTARY + 5] += zz + dx + dy
    up[MIXED] += px
    up[MIXED + 1] += py
    up[MIXED + 2] += pz
    up[LINEAR] += m


@fused
def solve_unknown(H: Array, unknown: IntArray, x: Array) -> None:
    """x[unknown] = H[unknown, unknown]^-1 x[unknown] by L D L^T in place, O(nv^3)."""
    n = len(unknown)
    for k in range(n):
        pivot = 1.0 / H[unknown[k], unknown[k]]
        H[unknown[k], unknown[k]] = pivot
        for i in range(k + 1, n):
            scaled = H[unknown[i], unknown[k]] * pivot
            for j in range(k + 1, i + 1):
                H[unknown[i], unknown[j]] -= scaled * H[unknown[j], unknown[k]]
        for i in range(k + 1, n):
            H[unknown[i], unknown[k]] *= pivot
    for i in range(n):
        for j in range(i):
            x[unknown[i]] -= H[unknown[i], unknown[j]] * x[unknown[j]]
    for i in range(n - 1, -1, -1):
        x[unknown[i]] *= H[unknown[i], unknown[i]]
        for j in range(i + 1, n):
            x[unknown[i]] -= H[unknown[j], unknown[i]] * x[unknown[j]]
