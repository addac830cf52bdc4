"""One robot at one q: what methods share, each quantity computed when first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from dynsys.loops.drumwright import TreeArrays, motion_matrices
from dynsys.loops.packed import PackedTree, Poses, inertia_matrix
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.sparse_factors import ltdl_in_situ
from dynsys.types import Array

__all__ = ["TreeState"]


@final
class TreeState:
    """Transforms, inertia matrix and its factors of ``robot`` at q (nq,).

    Computed by compiled loops, except ``X_up``, which is there for coupled joints, too.
    ``arrays`` are the robot's, made once for many q.
    """

    def __init__(
        self, robot: KinematicTree, q: Array, arrays: TreeArrays | None = None
    ) -> None:
        self.robot = robot
        self.q = q
        if arrays is not None:
            self.arrays = arrays

    @cached_property
    def arrays(self) -> TreeArrays:
        """The robot as flat arrays; an error if it has coupled joints."""
        return TreeArrays(self.robot)

    @property
    def tree(self) -> PackedTree:
        """Topology and inertias of the robot."""
        return self.arrays.tree

    @cached_property
    def X_up(self) -> list[Transform]:
        """Transform parent -> body of every body, by the readable recursion."""
        return transforms(self.robot, self.q)

    @cached_property
    def X(self) -> Array:
        """Motion transforms (N, 6, 6) parent -> body."""
        return motion_matrices(*self._up)

    @cached_property
    def poses(self) -> Poses:
        """Transform base -> body of every body."""
        return self.arrays.joints.poses(*self._up)

    @cached_property
    def H(self) -> Array:
        """Joint-space inertia matrix (nv, nv)."""
        return inertia_matrix(self.tree, self.X)

    @cached_property
    def ltdl(self) -> tuple[Array, Array]:
        """L (nv, nv), unit diagonal not stored, and diag (nv,): H = L^T diag L."""
        F = self.H.copy()
        ltdl_in_situ(F, self.tree.freedom_parent)
        diag = np.diagonal(F).copy()
        self.arrays.require_positive(diag)
        return F, diag

    @cached_property
    def _up(self) -> tuple[Array, Array]:
        """E (N, 3, 3) and r (N, 3) of the transforms parent -> body."""
        return self.arrays.joints.transforms(self.q)
