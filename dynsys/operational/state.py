"""One robot at one q: what methods share, each quantity computed when first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import final

import numpy as np

from dynsys.branch.inertia_matrix import inertia_matrix
from dynsys.branch.ltdl import ltdl_in_situ
from dynsys.branch.packed import PackedTree, motion_matrices
from dynsys.errors import SingularSystemError
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import poses, transforms
from dynsys.types import Array

__all__ = ["TreeState"]


@final
class TreeState:
    """Transforms, inertia matrix and its factors of ``robot`` at q (nq,)."""

    def __init__(self, robot: KinematicTree, q: Array, tree: PackedTree | None = None) -> None:
        self.robot = robot
        self.q = q
        self._tree = tree

    @cached_property
    def tree(self) -> PackedTree:
        """The robot's arrays; an error if it has coupled joints."""
        return PackedTree.of(self.robot) if self._tree is None else self._tree

    @cached_property
    def X_up(self) -> list[Transform]:
        """Transform parent -> body of every body."""
        return transforms(self.robot, self.q)

    @cached_property
    def X(self) -> Array:
        """The same as matrices (N, 6, 6)."""
        return motion_matrices(self.X_up)

    @cached_property
    def poses(self) -> list[Transform]:
        """Transform base -> body of every body."""
        return poses(self.robot, self.X_up)

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
        bad = np.flatnonzero(~(diag > 0))
        if len(bad):
            freedom = int(bad[-1])
            body = int(np.searchsorted(self.tree.first, freedom, side="right")) - 1
            raise SingularSystemError(
                f"robot {self.robot.name!r}: the bodies that joint"
                f" {self.robot.joint_names[body]!r} moves have no inertia along it; give them"
                " mass or the joint armature"
            )
        return F, diag
