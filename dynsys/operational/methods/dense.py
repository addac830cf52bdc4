"""Lambda^-1 = J H^-1 J^T by dense linear algebra ([OSI] eq. 7): the reference, any robot."""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.loops.tree_state import TreeState
from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod
from dynsys.operational.tasks import TaskSpace
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import transforms
from dynsys.types import Array

__all__ = ["Method"]


@final
class Method(AbstractMethod):
    """O(n^3 + n^2 m); coupled (mimic) joints allowed."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        self.robot = robot
        self.space = space

    def jacobian(self, state: TreeState) -> Array:
        X_up = transforms(self.robot, state.q)
        return np.asarray(self.space.jacobian_scalars(X_up), dtype=np.float64)

    def lambda_inv(self, state: TreeState) -> Array:
        J = self.jacobian(state)
        product = J @ self._solve(state, J.T)
        return 0.5 * (product + product.T)

    def jbar(self, state: TreeState, J: Array, Lambda: Array) -> Array:
        return self._solve(state, J.T @ Lambda)

    def null_space(self, J: Array, Jbar: Array) -> Array:
        return np.eye(J.shape[1]) - Jbar @ J

    def _solve(self, state: TreeState, B: Array) -> Array:
        H = crba_scalars(self.robot, state.q)
        try:
            G = np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            raise SingularSystemError(
                f"robot {self.robot.name!r}: its inertia matrix is not positive definite here;"
                " some joint moves no inertia: give its bodies mass or the joint armature"
            ) from None
        return np.asarray(np.linalg.solve(G.T, np.linalg.solve(G, B)))
