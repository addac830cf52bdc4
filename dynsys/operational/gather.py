"""Lambda^-1 = R Omega R^T from blocks of Omega, and transforms by compiled loops.

Shared by the recursions that give Omega_ij (6, 6), the velocity of body i per impulsive wrench
on body j, for the bodies that an operational space depends on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynsys.branch.articulated import TreeArrays, motion_matrices
from dynsys.branch.packed_joints import Poses
from dynsys.errors import SingularSystemError
from dynsys.operational.rjk import propagators
from dynsys.operational.space import TaskSpace
from dynsys.types import Array

__all__ = ["gather", "propagators_at", "wanted_bodies"]


def wanted_bodies(space: TaskSpace) -> list[int]:
    """Bodies that the coordinates depend on, ascending."""
    return sorted({body for bodies in space.bodies for body in bodies})


def propagators_at(arrays: TreeArrays, q: Array) -> tuple[Array, Array, Poses]:
    """Force propagators, S D^-1 S^T (both (N, 6, 6)) and poses of all bodies at q.

    Steps 1 and 2 of [CK] table 1.

    Raises
    ------
    SingularSystemError
        naming the joint that moves no inertia.
    """
    E_up, r_up = arrays.joints.transforms(q)
    psi, mobility = propagators(arrays.tree, motion_matrices(E_up, r_up))
    if not np.isfinite(mobility).all():
        body = int(np.argwhere(~np.isfinite(mobility))[-1][0])
        robot = arrays.robot
        raise SingularSystemError(
            f"robot {robot.name!r}: the bodies that joint {robot.joint_names[body]!r} moves"
            " have no inertia along it; give them mass or the joint armature"
        )
    return psi, mobility, arrays.joints.poses(E_up, r_up)


def gather(space: TaskSpace, poses: Poses, block: Callable[[int, int], Array]) -> Array:
    """R Omega R^T (m, m); ``block(a, b)`` is Omega_ab (6, 6) of two wanted bodies."""
    pieces = space.coefficients(poses)
    out = np.zeros((space.m, space.m))
    for g, rows_g in enumerate(pieces):
        for h in range(g + 1):
            part = out[space.rows(g), space.rows(h)]
            for a, R_a in zip(space.bodies[g], rows_g, strict=True):
                for b, R_b in zip(space.bodies[h], pieces[h], strict=True):
                    part += R_a @ block(a, b) @ R_b.T
            out[space.rows(h), space.rows(g)] = part.T
    return out
