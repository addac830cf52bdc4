"""Lambda^-1 by the method expected to be fastest for the robot and its operational space.

Which that is follows from counts and measured times per unit: :mod:`dynsys.operational.costs`.
"""

from __future__ import annotations

from typing import final

from dynsys.model.tree import KinematicTree
from dynsys.operational.costs import choose
from dynsys.operational.method import AbstractMethod, make_method
from dynsys.operational.space import TaskSpace
from dynsys.operational.state import TreeState
from dynsys.types import Array

__all__ = ["Method"]


@final
class Method(AbstractMethod):
    """The method ``chosen`` for this robot and space."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        self.robot, self.space = robot, space
        self.chosen = choose(space)
        self._method = make_method(self.chosen, robot, space)

    def state(self, q: Array) -> TreeState:
        return self._method.state(q)

    def jacobian(self, state: TreeState) -> Array:
        return self._method.jacobian(state)

    def lambda_inv(self, state: TreeState) -> Array:
        return self._method.lambda_inv(state)

    def jbar(self, state: TreeState, J: Array, Lambda: Array) -> Array:
        return self._method.jbar(state, J, Lambda)

    def null_space(self, J: Array, Jbar: Array) -> Array:
        return self._method.null_space(J, Jbar)
