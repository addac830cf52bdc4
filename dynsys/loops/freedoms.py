"""Joints of several freedoms, eliminated freedom by freedom.

A joint whose freedoms are coordinates of its body moves like a chain of joints of one freedom
with nothing between them: the last freedom is eliminated first and found last.
"""

from __future__ import annotations

import numpy as np

from dynsys.loops.columns import (
    ARMATURE,
    BLOCK,
    FREEDOM_GAIN,
    FREEDOM_LOAD,
    FREEDOM_PIVOT,
    GIVEN,
    KIND,
    NV,
    RESPONSE,
    V0,
    WRENCH,
)
from dynsys.loops.jit import loop
from dynsys.loops.wrenches import ROWS
from dynsys.types import Array, IntArray

__all__ = ["eliminate_freedoms", "respond_freedoms"]

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


@loop
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


@loop
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
