"""A tree as flat arrays: what every compiled loop reads. Made once per robot.

parent (N,)          parent of each body
first (N + 1,)       freedoms of body i are first[i] .. first[i + 1] - 1
S (nv, 6)            motion subspace, one row per freedom
inertia (N, 6, 6)    spatial inertia of each body
freedom_parent (nv,) expanded parent array
last (N,)            last freedom that moves each body, -1 if none does
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.expanded import expanded_parent, last_freedom
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, IntArray

__all__ = ["PackedTree"]


@final
@dataclass(frozen=True, eq=False)
class PackedTree:
    """The arrays of the module, and ``armature`` (nv,)."""

    parent: IntArray
    first: IntArray
    S: Array
    inertia: Array
    armature: Array
    freedom_parent: IntArray
    last: IntArray

    @staticmethod
    def of(robot: KinematicTree) -> PackedTree:
        """Arrays of a robot.

        Raises
        ------
        ModelError
            if the robot has coupled (mimic) joints: its inertia matrix has no tree sparsity.
        """
        if robot.is_coupled:
            raise ModelError(
                f"robot {robot.name!r} has coupled (mimic) joints, so its inertia matrix has no"
                ' tree sparsity; load it with mimic="independent" or use the method "dense"'
            )
        sizes = [joint.nv for joint in robot.joints]
        subspaces = [S.T for S in robot.motion_subspace]
        return PackedTree(
            parent=np.array(robot.parent),
            first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp),
            S=np.ascontiguousarray(np.concatenate([np.zeros((0, 6)), *subspaces])),
            inertia=np.array([moments.matrix() for moments in robot.moments]),
            armature=np.array(robot.armature),
            freedom_parent=expanded_parent(robot),
            last=last_freedom(robot),
        )
