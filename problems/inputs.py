"""Checks of what a user hands to a problem: joints, and arrays to write answers to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array

__all__ = ["apart_from", "joints_of_their_own"]


def apart_from(arrays: Sequence[Array], out: Sequence[Array] | None) -> list[Array]:
    """Return the arrays, copies in place of those that writing to ``out`` would change."""
    targets = [] if out is None else [x for x in out if isinstance(x, np.ndarray)]
    return [
        x.copy() if any(np.may_share_memory(x, target) for target in targets) else x
        for x in arrays
    ]


def joints_of_their_own(robot: KinematicTree, names: Sequence[str]) -> tuple[str, ...]:
    """Return names of joints whose acceleration can be given: ``known_acceleration``.

    Raises
    ------
    ModelError
        if a name is no joint of the robot, or one that follows another (mimic).
    """
    if isinstance(names, str):
        raise ModelError(f"known_acceleration must list joint names, got {names!r}")
    found = tuple(names)
    for name in found:
        coupling = robot.bodies[robot.joint_index(name)].coupling
        if coupling is not None:
            leader = robot.joint_names[coupling.leader]
            raise ModelError(
                f"robot {robot.name!r}: joint {name!r} follows joint {leader!r} and"
                f" has no acceleration of its own; name {leader!r}"
            )
    return found
