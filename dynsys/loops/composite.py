"""Composite-rigid-body algorithm as loops, and a dense solve for robots with coupled joints.

The algorithm of :mod:`dynsys.recursive.crba`; composite bodies keep rotational inertia, first
moment and mass in the columns of the articulated inertia.
"""

from __future__ import annotations

from dynsys.jit import fused, inlined
from dynsys.loops import flat as at
from dynsys.loops.newton_euler import ROWS
from dynsys.loops.rotations import cross, to_parent, turn_symmetric, wrench_to_parent
from dynsys.types import Array, IntArray

__all__ = ["fill_inertia_matrix", "solve_unknown"]


@fused
def fill_inertia_matrix(model: at.Model, work: at.Work, H: Array) -> None:
    """H (nv, nv), armature included, of the bodies as they are placed."""
    integers, composite, angles = model.integers, work.inertia, work.angles
    for i in range(len(H)):
        for j in range(len(H)):
            H[i, j] = 0.0
        H[i, i] = work.vectors[at.ARMATURE, i]
    for i in range(1, len(integers)):
        _rigid(model.numbers[i], composite[i])
    for i in range(len(integers) - 1, 0, -1):
        _add_rows(model, work, i, H)
        up = integers[i, at.PARENT]
        if up > 0:
            c, s, move = angles[1, i], angles[2, i], work.motion[i]
            _pass_composite(c, s, move, composite[i], composite[up])


@inlined
def _rigid(body: Array, row: Array) -> None:
    jxx, jyy, jzz = body[at.SECOND], body[at.SECOND + 3], body[at.SECOND + 5]
    row[at.ROTARY], row[at.ROTARY + 3], row[at.ROTARY + 5] = jyy + jzz, jxx + jzz, jxx + jyy
    row[at.ROTARY + 1], row[at.ROTARY + 2] = -body[at.SECOND + 1], -body[at.SECOND + 2]
    row[at.ROTARY + 4] = -body[at.SECOND + 4]
    for k in range(3):
        row[at.MIXED + k] = body[at.FIRST + k]
    row[at.LINEAR] = body[at.MASS]


@inlined
def _add_rows(model: at.Model, work: at.Work, i: int, H: Array) -> None:
    """Terms of joint i with itself and with every joint towards the base."""
    numbers, integers, forces = model.numbers, model.integers, work.small
    n, start, kind = integers[i, at.NV], integers[i, at.V0], integers[i, at.KIND]
    for k in range(n):  # F = Ic S
        _set_subspace(numbers[i], kind, k, forces[6])
        _times(work.inertia[i], forces[6], forces[k])
    for k in range(n):  # H_ii = F' S
        for m in range(n):
            H[start + k, start + m] += _along(numbers[i], kind, m, forces[k])
    j = i
    while integers[j, at.PARENT] > 0 and n > 0:
        for k in range(n):  # F = X' F
            f, c, s = forces[k], work.angles[1, j], work.angles[2, j]
            wrench = (f[0], f[1], f[2], f[3], f[4], f[5])
            wrench = wrench_to_parent(c, s, work.motion[j], wrench)
            f[0], f[1], f[2], f[3], f[4], f[5] = wrench
        j = integers[j, at.PARENT]
        for m in range(integers[j, at.NV]):  # H_ij = F' S_j
            column = integers[j, at.V0] + m
            for k in range(n):
                term = _along(numbers[j], integers[j, at.KIND], m, forces[k])
                H[start + k, column] += term
                H[column, start + k] += term


@inlined
def _set_subspace(body: Array, kind: int, k: int, out: Array) -> None:
    """Column k of S."""
    for row in range(6):
        out[row] = 0.0
    if kind == at.AXIAL:
        out[2], out[5] = body[at.TURN], body[at.SLIDE]
    else:
        out[ROWS[kind, k]] = 1.0


@inlined
def _along(body: Array, kind: int, k: int, f: Array) -> float:
    """Column k of S times a wrench f."""
    if kind == at.AXIAL:
        return float(body[at.TURN] * f[2] + body[at.SLIDE] * f[5])
    return float(f[ROWS[kind, k]])


@inlined
def _times(row: Array, motion: Array, out: Array) -> None:
    """(I w + h x v, m v - h x w)."""
    w0, w1, w2, v0, v1, v2 = motion[0], motion[1], motion[2], motion[3], motion[4], motion[5]
    hx, hy, hz, m = row[at.MIXED], row[at.MIXED + 1], row[at.MIXED + 2], row[at.LINEAR]
    tx, ty, tz = cross(hx, hy, hz, v0, v1, v2)
    out[0] = row[at.ROTARY] * w0 + row[at.ROTARY + 1] * w1 + row[at.ROTARY + 2] * w2 + tx
    out[1] = row[at.ROTARY + 1] * w0 + row[at.ROTARY + 3] * w1 + row[at.ROTARY + 4] * w2 + ty
    out[2] = row[at.ROTARY + 2] * w0 + row[at.ROTARY + 4] * w1 + row[at.ROTARY + 5] * w2 + tz
    tx, ty, tz = cross(hx, hy, hz, w0, w1, w2)
    out[3], out[4], out[5] = m * v0 - tx, m * v1 - ty, m * v2 - tz


@inlined
def _pass_composite(c: float, s: float, move: Array, row: Array, up: Array) -> None:
    """Add X^T (composite) X: turned, then moved by r ([RBDA] eq. 2.66)."""
    ca, sa, ct, st = move[at.COS_X], move[at.SIN_X], move[at.COS_T], move[at.SIN_T]
    xx, xy, xz, yy, yz, zz = row[0], row[1], row[2], row[3], row[4], row[5]
    xx, xy, xz, yy, yz = turn_symmetric(c, s, xx, xy, xz, yy, yz)
    yy, yz, xy, zz, xz = turn_symmetric(ca, sa, yy, yz, xy, zz, xz)
    xx, xy, xz, yy, yz = turn_symmetric(ct, st, xx, xy, xz, yy, yz)
    m, rx, ry, rz = row[at.LINEAR], move[at.WAY], move[at.WAY + 1], move[at.WAY + 2]
    h = row[at.MIXED :]
    hx, hy, hz = to_parent(c, s, ca, sa, ct, st, h[0], h[1], h[2])
    px, py, pz = hx + m * rx, hy + m * ry, hz + m * rz
    dx, dy, dz = rx * px + hx * rx, ry * py + hy * ry, rz * pz + hz * rz
    up[at.ROTARY] += xx + dy + dz
    up[at.ROTARY + 1] += xy - (rx * py + hx * ry)
    up[at.ROTARY + 2] += xz - (rx * pz + hx * rz)
    up[at.ROTARY + 3] += yy + dx + dz
    up[at.ROTARY + 4] += yz - (ry * pz + hy * rz)
    up[at.ROTARY + 5] += zz + dx + dy
    up[at.MIXED] += px
    up[at.MIXED + 1] += py
    up[at.MIXED + 2] += pz
    up[at.LINEAR] += m


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
