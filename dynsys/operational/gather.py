"""Lambda^-1 = R Omega R^T from blocks of Omega.

Shared by the recursions that give Omega_ij (6, 6), the velocity of body i per impulsive wrench
on body j, for the bodies that an operational space depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.jit import Loop
from dynsys.model.spatial import Transform
from dynsys.operational.rjk import propagators
from dynsys.operational.space import TaskSpace
from dynsys.operational.state import TreeState
from dynsys.types import Array, IntArray

__all__ = ["Gathering", "propagators_at", "wanted_bodies"]


def wanted_bodies(space: TaskSpace) -> list[int]:
    """Bodies that the coordinates depend on, ascending."""
    return sorted({body for bodies in space.bodies for body in bodies})


def propagators_at(state: TreeState) -> tuple[Array, Array]:
    """Force propagators and S D^-1 S^T of all bodies (N, 6, 6): steps 1, 2 of [CK] table 1.

    Raises
    ------
    SingularSystemError
        naming the joint that moves no inertia.
    """
    psi, mobility = propagators(state.tree, state.X)
    if not np.isfinite(mobility).all():
        body = int(np.argwhere(~np.isfinite(mobility))[-1][0])
        raise SingularSystemError(
            f"robot {state.robot.name!r}: the bodies that joint"
            f" {state.robot.joint_names[body]!r} moves have no inertia along it; give them"
            " mass or the joint armature"
        )
    return psi, mobility


@final
class Gathering:
    """R Omega R^T of one operational space, its places of blocks found once.

    ``place(a, b)`` says where Omega_ab of two wanted bodies is stored: k for block k, -2 - k
    for its transpose, -1 if it is zero.
    """

    def __init__(self, space: TaskSpace, place: Callable[[int, int], int]) -> None:
        self.space = space
        pieces = [(task, body) for task, bodies in enumerate(space.bodies) for body in bodies]
        self._task = np.array([task for task, _ in pieces], dtype=np.intp)
        sizes = [space.rows(task).stop - space.rows(task).start for task, _ in pieces]
        self._start = np.cumsum([0, *sizes]).astype(np.intp)
        found = [[place(a, b) for _, b in pieces] for _, a in pieces]
        self._block = np.array(found, dtype=np.intp).reshape(len(pieces), len(pieces))

    def __call__(self, poses: Sequence[Transform], blocks: Array) -> Array:
        """Lambda^-1 (m, m) from the blocks (n_blocks, 6, 6)."""
        space = self.space
        pieces = [R for rows in space.coefficients(poses) for R in rows]
        R = np.concatenate([np.zeros((0, 6)), *pieces])
        out = np.zeros((space.m, space.m))
        multiply_blocks(self._task, space.first_row, self._start, R, self._block, blocks, out)
        return out


@Loop
def multiply_blocks(
    task: IntArray,
    first_row: IntArray,
    start: IntArray,
    R: Array,
    block: IntArray,
    blocks: Array,
    out: Array,
) -> None:
    """Add R_a Omega_ab R_b^T of all pieces a, b into out (m, m), then mirror it.

    Piece p belongs to task[p] and has rows start[p] .. start[p + 1] - 1 of R (.., 6).
    """
    half = np.empty(6)
    for a in range(len(task)):
        for i in range(start[a], start[a + 1]):
            row = first_row[task[a]] + i - start[a]
            for b in range(len(task)):
                k = block[a, b]
                if k == -1 or task[b] > task[a]:
                    continue
                for c in range(6):
                    half[c] = 0.0
                    for r in range(6):
                        if k >= 0:
                            half[c] += R[i, r] * blocks[k, r, c]
                        else:
                            half[c] += R[i, r] * blocks[-2 - k, c, r]
                for j in range(start[b], start[b + 1]):
                    column = first_row[task[b]] + j - start[b]
                    for c in range(6):
                        out[row, column] += half[c] * R[j, c]
    for row in range(len(out)):
        for column in range(row):
            out[column, row] = out[row, column]
