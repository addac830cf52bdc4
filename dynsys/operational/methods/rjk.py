"""Lambda^-1 = R Omega R^T with the blocks of Omega that are needed ([OSI] appendix B)."""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod
from dynsys.operational.need import plan_blocks
from dynsys.operational.rjk import omega_blocks, propagators
from dynsys.operational.space import TaskSpace
from dynsys.operational.state import TreeState
from dynsys.types import Array

__all__ = ["Method"]


@final
class Method(AbstractMethod):
    """Articulated-body inertias, then Omega block by block: O(N + m^2 d)."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        super().__init__(robot, space)
        self.plan = plan_blocks(robot.parent, [b for bodies in space.bodies for b in bodies])

    def lambda_inv(self, state: TreeState) -> Array:
        psi, mobility = propagators(self.tree, state.X)
        if not np.isfinite(mobility).all():
            body = int(np.argwhere(~np.isfinite(mobility))[-1][0])
            raise SingularSystemError(
                f"robot {self.robot.name!r}: the bodies that joint"
                f" {self.robot.joint_names[body]!r} moves have no inertia along it; give them"
                " mass or the joint armature"
            )
        return self._gather(omega_blocks(self.plan, psi, mobility), state)

    def _gather(self, blocks: Array, state: TreeState) -> Array:
        """R Omega R^T (m, m): sums over the bodies that each task depends on."""
        space, pieces = self.space, self.space.coefficients(state.poses)
        out = np.zeros((space.m, space.m))
        for g, rows_g in enumerate(pieces):
            for h in range(g + 1):
                block = out[space.rows(g), space.rows(h)]
                for a, R_a in zip(space.bodies[g], rows_g, strict=True):
                    for b, R_b in zip(space.bodies[h], pieces[h], strict=True):
                        i, j = min(a, b), max(a, b)
                        omega = blocks[self.plan.place[i, j]]
                        block += R_a @ (omega if a <= b else omega.T) @ R_b.T
                out[space.rows(h), space.rows(g)] = block.T
        return out
