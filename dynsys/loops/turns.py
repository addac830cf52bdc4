"""Elementary turns of vectors and symmetric matrices, as numba inlines them.

E = Rz(c, s) Rx(ca, sa) Rz(ct, st). Matrices follow :mod:`dynsys.model.spatial`: a turn mixes
two coordinates i, j and leaves k, 28 multiplications for the three blocks of an inertia.
"""

from __future__ import annotations

from dynsys.loops.jit import inlined

__all__ = [
    "General",
    "Parts",
    "Symmetric",
    "about_x",
    "about_z",
    "cross",
    "shifted",
    "to_body",
    "to_parent",
    "turn_symmetric",
]

Vector = tuple[float, float, float]
Symmetric = tuple[float, float, float, float, float, float]
General = tuple[float, float, float, float, float, float, float, float, float]
Parts = tuple[Symmetric, General, Symmetric]
"""A, B, C of the spatial inertia [[A, B], [B^T, C]]."""


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
    """R^T (A, B, C) R for the turn Rx(c, s): i = y, j = z, k = x."""
    ayy, ayz, axy, azz, axz = turn_symmetric(c, s, a[3], a[4], a[1], a[5], a[2])
    myy, myz, mxy, mzz, mxz = turn_symmetric(c, s, m[3], m[4], m[1], m[5], m[2])
    d, t, cs = b[4] - b[8], b[5] + b[7], c * s
    h, g = c * c * d - cs * t, cs * d - s * s * t
    turned = (
        b[0],
        c * b[1] - s * b[2],
        s * b[1] + c * b[2],
        c * b[3] - s * b[6],
        b[8] + h,
        b[5] + g,
        s * b[3] + c * b[6],
        b[7] + g,
        b[4] - h,
    )
    return (a[0], axy, axz, ayy, ayz, azz), turned, (m[0], mxy, mxz, myy, myz, mzz)


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
