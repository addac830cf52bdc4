"""Points of a robot that may touch a plane: where they are, how they move.

    J_c (3, nv)   velocity of point c in base coordinates (normal, two tangents) per qd

The plane is horizontal, z = height; its normal is z, the tangents x and y. Row order per
contact: normal first, N and D of [DRUM] section 6.3 side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.jit import Loop
from dynsys.loops.packed import PackedTree, Poses
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike, IntArray

__all__ = ["ContactPoints", "Ground"]


@final
@dataclass(frozen=True)
class Ground:
    """Horizontal plane z = ``height`` with Coulomb friction.

    ``correction`` is the part of a penetration beyond ``slop`` (m) that a step removes, at no
    more than ``speed_limit`` (m/s).
    """

    friction: float = 0.8
    height: float = 0.0
    correction: float = 0.2
    slop: float = 1e-4
    speed_limit: float = 0.5

    def __post_init__(self) -> None:
        if not self.friction >= 0 or not 0 <= self.correction <= 1 or not self.slop >= 0:
            raise ModelError(f"friction and slop must be >= 0, correction in 0..1: {self}")


@final
class ContactPoints:
    """Points fixed to bodies of a robot: ``body`` (K,), ``point`` (K, 3) in its coordinates."""

    def __init__(
        self, robot: KinematicTree, bodies: Sequence[str | int], points: ArrayLike
    ) -> None:
        self.robot = robot
        self.body: IntArray = np.array([robot.body_index(b) for b in bodies], dtype=np.intp)
        self.point = np.array(points, dtype=np.float64).reshape(len(bodies), 3)
        if (self.body < 0).any():
            raise ModelError(f"robot {robot.name!r}: a contact point on the base never moves")

    def positions(self, poses: Poses) -> Array:
        """Positions (K, 3) in base coordinates."""
        E, r = poses.E[self.body], poses.r[self.body]
        return np.asarray(r + np.einsum("kji,kj->ki", E, self.point))

    def jacobian(
        self, tree: PackedTree, poses: Poses, positions: Array, active: IntArray
    ) -> Array:
        """J (3 len(active), nv) of the chosen points."""
        J = np.zeros((3 * len(active), len(tree.S)))
        fill_jacobian(
            *(tree.parent, tree.first, tree.S, poses.E, poses.r),
            *(self.body[active], positions[active], J),
        )
        return J


@Loop
def fill_jacobian(
    parent: IntArray,
    first: IntArray,
    S: Array,
    E: Array,
    r: Array,
    body: IntArray,
    position: Array,
    J: Array,
) -> None:
    """Rows 3 c .. 3 c + 2 of J, zeros at first: velocity of a point along z, x, y."""
    arm, w, v = np.empty(3), np.empty(3), np.empty(3)
    for c in range(len(body)):
        i = body[c]
        while i >= 0:
            for m in range(3):
                arm[m] = position[c, m] - r[i, m]
            for k in range(first[i], first[i + 1]):
                for m in range(3):
                    w[m] = v[m] = 0.0
                    for n in range(3):
                        w[m] += E[i, n, m] * S[k, n]
                        v[m] += E[i, n, m] * S[k, n + 3]
                J[3 * c, k] = v[2] + w[0] * arm[1] - w[1] * arm[0]
                J[3 * c + 1, k] = v[0] + w[1] * arm[2] - w[2] * arm[1]
                J[3 * c + 2, k] = v[1] + w[2] * arm[0] - w[0] * arm[2]
            i = parent[i]
