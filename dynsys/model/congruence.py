"""X^T M X for a symmetric (6, 6) matrix M and a motion transform X, by its parts.

    M = [[A, B], [B^T, C]]   rotation:     (E^T A E, E^T B E, E^T C E)
                             translation:  B' = B + [r]x C,   A' = A + [r]x B^T - B' [r]x

A rotation about a frame axis mixes two coordinates only. With d = m11 - m22, t = m12 + m21,

    m11' = m22 + h, m22' = m11 - h, h = c^2 d - c s t ;  m12' = m12 + g, m21' = m21 + g,
    g = c s d - s^2 t

turns a 2x2 block with four multiplications (Brandl, Johanni and Otter 1986 count the same way),
so that A, B, C cost 28 together, where the plain products cost 60.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.types import ScalarArray

__all__ = ["congruence", "frame_axis", "rotate_matrix"]


def congruence(X: Transform, M: ScalarArray) -> ScalarArray:
    """X^T M X (6, 6), symmetric, over scalars of any kind."""
    A, B, C = (rotate_matrix(X.E, block) for block in (M[:3, :3], M[:3, 3:], M[3:, 3:]))
    if any(not is_number(x, 0) for x in X.r):
        rC = cross_columns(X.r, C)
        shifted = B + rC
        # [r]x B^T - B' [r]x = (r x rows of B)^T + its mirror - ... gathered by symmetry
        half = cross_columns(X.r, B.T)
        A = A + half + cross_columns(X.r, shifted.T).T
        A = mirrored(A)
        B = shifted
    return np.block([[A, B], [B.T, C]])


def cross_columns(r: ScalarArray, M: ScalarArray) -> ScalarArray:
    """[r]x M: r x every column of M (3, 3)."""
    return np.array(
        [
            r[1] * M[2] - r[2] * M[1],
            r[2] * M[0] - r[0] * M[2],
            r[0] * M[1] - r[1] * M[0],
        ]
    )


def mirrored(A: ScalarArray) -> ScalarArray:
    """A with its upper triangle copied below, so that equal entries are one."""
    A = A.copy()
    for i in range(3):
        for j in range(i):
            A[i, j] = A[j, i]
    return A


def rotate_matrix(E: ScalarArray, M: ScalarArray) -> ScalarArray:
    """E^T M E (3, 3); E about a frame axis is recognised by its exact zeros and ones."""
    axis = frame_axis(E)
    if axis is None:
        return E.T @ M @ E
    i, j = (axis + 1) % 3, (axis + 2) % 3
    if is_number(E[i, i], 1) and is_number(E[i, j], 0):
        return M
    c, s = E[i, i], E[i, j]
    out = np.array(M, dtype=np.result_type(M.dtype, E.dtype))
    d, t = M[i, i] - M[j, j], M[i, j] + M[j, i]
    cc, cs, ss = c * c, c * s, s * s
    h, g = cc * d - cs * t, cs * d - ss * t
    out[i, i], out[j, j] = M[j, j] + h, M[i, i] - h
    out[i, j], out[j, i] = M[i, j] + g, M[j, i] + g
    for k in (axis,):
        out[i, k], out[j, k] = c * M[i, k] - s * M[j, k], s * M[i, k] + c * M[j, k]
        out[k, i], out[k, j] = c * M[k, i] - s * M[k, j], s * M[k, i] + c * M[k, j]
    return out


def frame_axis(E: ScalarArray) -> int | None:
    """Frame axis 0, 1 or 2 that E turns about, or None; decided by exact zeros and ones."""
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        if is_number(E[k, k], 1) and all(
            is_number(x, 0) for x in (E[k, i], E[k, j], E[i, k], E[j, k])
        ):
            return k
    return None


def is_number(x: Any, value: float) -> bool:
    """Whether x is the plain number ``value`` (an expression-graph node never is)."""
    return isinstance(x, (int, float, np.floating)) and x == value
