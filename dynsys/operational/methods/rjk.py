"""Lambda^-1 = R Omega R^T with the blocks of Omega that are needed ([OSI] appendix B)."""

from __future__ import annotations

from typing import final

from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod
from dynsys.operational.rjk import (
    Gathering,
    omega_blocks,
    plan_blocks,
    propagators_at,
    wanted_bodies,
)
from dynsys.operational.tasks import TaskSpace, TreeState
from dynsys.types import Array

__all__ = ["Method"]


@final
class Method(AbstractMethod):
    """Articulated-body inertias, then Omega block by block: O(N + m^2 d)."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        super().__init__(robot, space)
        self.plan = plan_blocks(robot.parent, wanted_bodies(space))
        place = self.plan.place
        self.gather = Gathering(space, lambda a, b: place[a, b] if a <= b else -2 - place[b, a])

    def lambda_inv(self, state: TreeState) -> Array:
        return self.gather(state.poses, omega_blocks(self.plan, *propagators_at(state)))
