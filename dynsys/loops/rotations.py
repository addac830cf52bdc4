"""Where the bodies are: joint angles to elementary turns, and turns of vectors and matrices.

    E = Rz(c, s) Rx(ca, sa) Rz(ct, st)        parent to body

Matrices follow :mod:`dynsys.model.spatial`: a turn mixes two coordinates i, j and leaves k, 28
multiplications for the three blocks of an inertia. The sines are the branch-free ones of
:mod:`dynsys.kernel.llvm.sincos` (Cody-Waite reduction, same polynomials), written so that LLVM
takes several joints at a time.
"""

from __future__ import annotations

import math

import numpy as np

from dynsys.jit import fused, inlined
from dynsys.loops import flat as at
from dynsys.types import Array

__all__ = [
    "General",
    "Parts",
    "Spatial",
    "Symmetric",
    "Vector",
    "about_x",
    "about_z",
    "cross",
    "own_transforms",
    "place_bodies",
    "shifted",
    "to_body",
    "to_parent",
    "turn_back",
    "turn_symmetric",
    "wrench_back",
    "wrench_to_parent",
]

Vector = tuple[float, float, float]
Spatial = tuple[float, float, float, float, float, float]
Symmetric = tuple[float, float, float, float, float, float]
General = tuple[float, float, float, float, float, float, float, float, float]
Parts = tuple[Symmetric, General, Symmetric]
"""A, B, C of the spatial inertia [[A, B], [B^T, C]]."""

_NORM_TOLERANCE = 2e-6  # that of dynsys.program.guards; here, for cached code depends on it
_LIMIT = 1e5
_TWO_OVER_PI = 0.6366197723675814
_MAGIC = 1.5 * 2.0**52
_PI1, _PI2, _PI3 = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21
_G0, _G1, _G2 = -0.16666666666666666, 0.008333333333330946, -0.0001984126983675497
_G3, _G4, _G5 = 2.755731610068303e-06, -2.5051131455427946e-08, 1.591810123027412e-10
_H0, _H1, _H2 = 0.041666666666666664, -0.0013888888888887395, 2.4801587298763433e-05
_H3, _H4, _H5 = -2.7557317270560326e-07, 2.0876146024689747e-09, -1.1382614868556325e-11


@fused
def place_bodies(model: at.Model, work: at.Work) -> None:
    """Cosines and sines in angles[1], angles[2]; turns and ways of moving origins in motion."""
    numbers, frames, integers = model.numbers, model.frames, model.integers
    q, angles, motion = work.position, work.angles, work.motion
    n = len(integers)
    for i in range(1, n):
        angles[0, i] = numbers[i, at.SLOPE] * q[integers[i, at.Q0]] + numbers[i, at.OFFSET]
    _sincos(angles[0], angles[1], angles[2])
    for i in range(1, n):
        kind = integers[i, at.KIND]
        if kind == at.AXIAL:
            if numbers[i, at.SLIDE] != 0.0:
                advance = (
                    numbers[i, at.ADVANCE] * q[integers[i, at.Q0]] + numbers[i, at.ADVANCE0]
                )
                _set_way(frames[i], motion[i], 0.0, 0.0, advance)
        else:
            _place_block(kind, integers[i, at.Q0], frames[i], q, motion[i], angles, i)


@inlined
def _sincos(x: Array, cosine: Array, sine: Array) -> None:
    for i in range(len(x)):
        shifted = x[i] * _TWO_OVER_PI + _MAGIC
        j = shifted - _MAGIC
        r = ((x[i] - j * _PI1) - j * _PI2) - j * _PI3
        z = r * r
        g = _G0 + z * (_G1 + z * (_G2 + z * (_G3 + z * (_G4 + z * _G5))))
        h = _H0 + z * (_H1 + z * (_H2 + z * (_H3 + z * (_H4 + z * _H5))))
        s = r + r * z * g
        c = (1.0 - 0.5 * z) + z * z * h
        quadrant = np.int32(j)
        odd = (quadrant & 1) != 0
        sin_, cos_ = (c if odd else s), (s if odd else c)
        sine[i] = -sin_ if (quadrant & 2) != 0 else sin_
        cosine[i] = -cos_ if ((quadrant + 1) & 2) != 0 else cos_
    for i in range(len(x)):
        if not abs(x[i]) <= _LIMIT:
            sine[i], cosine[i] = math.sin(x[i]), math.cos(x[i])


@inlined
def _set_way(frame: Array, row: Array, x: float, y: float, z: float) -> None:
    """r = r_joint + E_joint^T (x, y, z)."""
    for k in range(3):
        row[at.WAY + k] = frame[at.JOINT_R + k] + (
            frame[at.JOINT_E + k] * x
            + frame[at.JOINT_E + 3 + k] * y
            + frame[at.JOINT_E + 6 + k] * z
        )


@inlined
def _place_block(
    kind: int, q0: int, frame: Array, q: Array, row: Array, angles: Array, i: int
) -> None:
    """Joints of several freedoms."""
    if kind == at.CYLINDRICAL:
        _set_way(frame, row, 0.0, 0.0, q[q0 + 1])
    elif kind == at.PLANAR:
        _set_way(frame, row, q[q0 + 1], q[q0 + 2], 0.0)
    else:
        if kind == at.FREE:
            _set_way(frame, row, q[q0], q[q0 + 1], q[q0 + 2])
            q0 += 3
        _turn_by_quaternion(frame, q[q0], q[q0 + 1], q[q0 + 2], q[q0 + 3], row, angles, i)


@inlined
def _turn_by_quaternion(
    frame: Array, x: float, y: float, z: float, w: float, row: Array, angles: Array, i: int
) -> None:
    """E(x, y, z, w) E_joint taken apart into Rz Rx Rz; what theta misses, the first Rz has.

    A quaternion that is not of unit norm has no rotation: NaN.
    """
    if not abs(x * x + y * y + z * z + w * w - 1.0) <= _NORM_TOLERANCE:
        x = math.nan
    q0x, q0y, q0z = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)
    q2x, q2y, q2z = 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)
    e = frame[at.JOINT_E :]
    e00 = q0x * e[0] + q0y * e[3] + q0z * e[6]
    e01 = q0x * e[1] + q0y * e[4] + q0z * e[7]
    e02 = q0x * e[2] + q0y * e[5] + q0z * e[8]
    e20 = q2x * e[0] + q2y * e[3] + q2z * e[6]
    e21 = q2x * e[1] + q2y * e[4] + q2z * e[7]
    e22 = q2x * e[2] + q2y * e[5] + q2z * e[8]
    sa = math.sqrt(e20 * e20 + e21 * e21)
    sa = -sa if e21 > 0.0 else sa  # then ct >= 0, and st = 0 means no turn
    scale = 1.0 / math.sqrt(sa * sa + e22 * e22)
    ct, st = 1.0, 0.0
    if abs(sa) > 1e-150:
        ct, st = -e21 / sa, e20 / sa
    sa, ca = sa * scale, e22 * scale
    # first row of E (Rx Rz)^T is (c, s, 0)
    c = e00 * ct + e01 * st
    s = (e01 * ct - e00 * st) * ca + e02 * sa
    scale = 1.0 / math.sqrt(c * c + s * s)
    row[at.COS_X], row[at.SIN_X], row[at.COS_T], row[at.SIN_T] = ca, sa, ct, st
    angles[1, i], angles[2, i] = c * scale, s * scale


# ---- the robot's own frames --------------------------------------------------------------


@inlined
def turn_back(e: Array, x: float, y: float, z: float) -> Vector:
    """A vector from the frame a body has here to its own; e (9,) is that rotation, by rows."""
    return (
        e[0] * x + e[3] * y + e[6] * z,
        e[1] * x + e[4] * y + e[7] * z,
        e[2] * x + e[5] * y + e[8] * z,
    )


@inlined
def wrench_back(frame: Array, w: Array, out: Array) -> None:
    """A wrench w (6,) (moment, force) on a body, written to out (6,) in its own frame."""
    e, r = frame[at.FRAME_E :], frame[at.FRAME_R :]
    nx, ny, nz = turn_back(e, w[0], w[1], w[2])
    fx, fy, fz = turn_back(e, w[3], w[4], w[5])
    tx, ty, tz = cross(r[0], r[1], r[2], fx, fy, fz)
    out[0], out[1], out[2], out[3], out[4], out[5] = nx + tx, ny + ty, nz + tz, fx, fy, fz


@fused
def own_transforms(model: at.Model, work: at.Work, E: Array, r: Array) -> None:
    """Write the transforms parent -> body in own frames: E (N, 3, 3), r (N, 3)."""
    for i in range(1, len(model.integers)):
        move, frame = work.motion[i], model.frames[i]
        above = model.frames[model.integers[i, at.PARENT]]
        c, s = work.angles[1, i], work.angles[2, i]
        ca, sa, ct, st = move[at.COS_X], move[at.SIN_X], move[at.COS_T], move[at.SIN_T]
        for k in range(3):  # E(:, k) = F_i' E_here F_parent(:, k)
            x, y, z = to_body(c, s, ca, sa, ct, st, above[k], above[k + 3], above[k + 6])
            E[i - 1, 0, k], E[i - 1, 1, k], E[i - 1, 2, k] = turn_back(frame, x, y, z)
        x, y, z = turn_back(above, move[at.WAY], move[at.WAY + 1], move[at.WAY + 2])
        r[i - 1, 0], r[i - 1, 1], r[i - 1, 2] = x, y, z
        for k in range(3):  # r = r_parent + F_parent' way - E' r_i
            r[i - 1, k] += above[at.FRAME_R + k]
            for m in range(3):
                r[i - 1, k] -= E[i - 1, m, k] * frame[at.FRAME_R + m]


# ---- elementary turns of vectors and symmetric matrices ------------------------------------


@inlined
def cross(a: float, b: float, c: float, x: float, y: float, z: float) -> Vector:
    """(a, b, c) x (x, y, z)."""
    return b * z - c * y, c * x - a * z, a * y - b * x


@inlined
def to_body(
    c: float, s: float, ca: float, sa: float, ct: float, st: float, x: float, y: float, z: float
) -> Vector:
    """E (x, y, z)."""
    if st != 0.0:
        x, y = ct * x + st * y, ct * y - st * x
    y, z = ca * y + sa * z, ca * z - sa * y
    return c * x + s * y, c * y - s * x, z


@inlined
def to_parent(
    c: float, s: float, ca: float, sa: float, ct: float, st: float, x: float, y: float, z: float
) -> Vector:
    """E^T (x, y, z)."""
    x, y = c * x - s * y, s * x + c * y
    y, z = ca * y - sa * z, sa * y + ca * z
    if st != 0.0:
        x, y = ct * x - st * y, st * x + ct * y
    return x, y, z


@inlined
def wrench_to_parent(c: float, s: float, move: Array, f: Spatial) -> Spatial:
    """X^T f for a wrench f (6,) and the row of a body in ``motion``."""
    ca, sa, ct, st = move[at.COS_X], move[at.SIN_X], move[at.COS_T], move[at.SIN_T]
    nx, ny, nz = to_parent(c, s, ca, sa, ct, st, f[0], f[1], f[2])
    fx, fy, fz = to_parent(c, s, ca, sa, ct, st, f[3], f[4], f[5])
    tx, ty, tz = cross(move[at.WAY], move[at.WAY + 1], move[at.WAY + 2], fx, fy, fz)
    return nx + tx, ny + ty, nz + tz, fx, fy, fz


@inlined
def turn_symmetric(
    c: float, s: float, ii: float, ij: float, ik: float, jj: float, jk: float
) -> tuple[float, float, float, float, float]:
    """Entries ii ij ik jj jk of R^T M R for a turn R about k; kk stays."""
    d, t = ii - jj, ij + ij
    cs = c * s
    h, g = c * c * d - cs * t, cs * d - s * s * t
    return jj + h, ij + g, c * ik - s * jk, ii - h, s * ik + c * jk


@inlined
def about_z(c: float, s: float, a: Symmetric, b: General, m: Symmetric) -> Parts:
    """R^T (A, B, C) R for the turn Rz(c, s)."""
    axx, axy, axz, ayy, ayz = turn_symmetric(c, s, a[0], a[1], a[2], a[3], a[4])
    mxx, mxy, mxz, myy, myz = turn_symmetric(c, s, m[0], m[1], m[2], m[3], m[4])
    d, t, cs = b[0] - b[4], b[1] + b[3], c * s
    h, g = c * c * d - cs * t, cs * d - s * s * t
    turned = (
        b[4] + h,
        b[1] + g,
        c * b[2] - s * b[5],
        b[3] + g,
        b[0] - h,
        s * b[2] + c * b[5],
        c * b[6] - s * b[7],
        s * b[6] + c * b[7],
        b[8],
    )
    return (axx, axy, axz, ayy, ayz, a[5]), turned, (mxx, mxy, mxz, myy, myz, m[5])


@inlined
def about_x(c: float, s: float, a: Symmetric, b: General, m: Symmetric) -> Parts:
    """R^T (A, B, C) R for the turn Rx(c, s): about z, once axes y z x are called x y z."""
    a, b, m = _renamed(a, b, m)
    a, b, m = about_z(c, s, a, b, m)
    a, b, m = _renamed(a, b, m)
    return _renamed(a, b, m)  # three times is no renaming


@inlined
def _renamed(a: Symmetric, b: General, m: Symmetric) -> Parts:
    """The same inertia with axes y z x called x y z."""
    return (
        (a[3], a[4], a[1], a[5], a[2], a[0]),
        (b[4], b[5], b[3], b[7], b[8], b[6], b[1], b[2], b[0]),
        (m[3], m[4], m[1], m[5], m[2], m[0]),
    )


@inlined
def shifted(rx: float, ry: float, rz: float, a: Symmetric, b: General, m: Symmetric) -> Parts:
    """Inertia about an origin moved by -r: B' = B + [r]x C, A' = A - B [r]x + [r]x B'^T."""
    d0, d3, d6 = cross(rx, ry, rz, m[0], m[1], m[2])  # columns of [r]x C
    d1, d4, d7 = cross(rx, ry, rz, m[1], m[3], m[4])
    d2, d5, d8 = cross(rx, ry, rz, m[2], m[4], m[5])
    d0, d1, d2 = d0 + b[0], d1 + b[1], d2 + b[2]
    d3, d4, d5 = d3 + b[3], d4 + b[4], d5 + b[5]
    d6, d7, d8 = d6 + b[6], d7 + b[7], d8 + b[8]
    # -B [r]x has rows r x (rows of B), [r]x B'^T has columns r x (rows of B')
    about = (
        a[0] + ry * (b[2] + d2) - rz * (b[1] + d1),
        a[1] + (rz * b[0] - rx * b[2]) + (ry * d5 - rz * d4),
        a[2] + (rx * b[1] - ry * b[0]) + (ry * d8 - rz * d7),
        a[3] + rz * (b[3] + d3) - rx * (b[5] + d5),
        a[4] + (rx * b[4] - ry * b[3]) + (rz * d6 - rx * d8),
        a[5] + rx * (b[7] + d7) - ry * (b[6] + d6),
    )
    return about, (d0, d1, d2, d3, d4, d5, d6, d7, d8), m
