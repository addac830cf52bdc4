"""Arrays a loop is called with: the robot's, and a workspace for one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynsys.loops import columns as at
from dynsys.loops.flat import FlatRobot
from dynsys.types import Array

__all__ = ["Model", "Work", "workspace"]

_SKEW = 264  # half a page and a line


class Model(NamedTuple):
    """The robot; read only while it runs."""

    numbers: Array
    frames: Array
    integers: NDArray[np.int64]
    unknown: NDArray[np.int64]  # freedoms whose qdd is to be found


class Work(NamedTuple):
    """Everything written while one state is solved; one per thread."""

    motion: Array
    inertia: Array
    freedoms: Array
    angles: Array  # angle, cosine, sine of each joint
    vectors: Array  # (5, nv + 1)
    position: Array  # (nq + 1,)
    small: Array  # (8, 6)
    H: Array  # (nv, nv), or empty where no inertia matrix is formed


def workspace(flat: FlatRobot, nq: int, *, matrix: bool) -> Work:
    """Fresh workspace; ``matrix`` makes room for H."""
    rows, size = len(flat.integers), len(flat.armature)
    side = size - 1 if matrix else 0
    vectors = np.zeros((at.N_VECTORS, size))
    vectors[at.ARMATURE] = flat.armature
    motion = _aligned(rows, at.N_MOTION, 0)
    motion[:] = flat.motion
    return Work(
        motion,
        _aligned(rows, at.N_ARTICULATED, _SKEW),
        np.zeros((flat.n_stored, at.N_FREEDOM)),
        np.zeros((3, rows)),
        vectors,
        np.zeros(nq + 1),
        np.zeros((8, 6)),
        np.zeros((side, side)),
    )


def _aligned(rows: int, columns: int, skew: int) -> Array:
    """Zeros whose rows begin on cache lines, ``skew`` numbers into a page.

    Equal rows of two arrays must not differ by whole pages only: loads would wait for stores
    they have nothing to do with.
    """
    page = 4096 // 8
    store = np.zeros(rows * columns + 2 * page)
    start = (-store.ctypes.data // 8) % page + skew
    return store[start : start + rows * columns].reshape(rows, columns)
