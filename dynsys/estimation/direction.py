"""Which way wrenches are found: from the leaves or, beyond unknown contacts, from the root."""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.model.tree import KinematicTree
from dynsys.system.equations import EquationBlock

__all__ = ["open_joints"]


def open_joints(
    robot: KinematicTree, equations: Sequence[EquationBlock]
) -> frozenset[tuple[str, int]]:
    """Joints ("joint_wrench", i) whose wrench follows from the root's side only.

    Some body beyond has an external wrench that no six rows see, and the first sensor that sees
    all of the wrench sits between here and the root. A matter of cost and of good pivots: the
    equations are the same either way.
    """
    seen: dict[tuple[str, int], int] = {}
    for block in equations:
        for term in block.terms:
            key = (term.unknown.kind, term.unknown.body)
            seen[key] = seen.get(key, 0) + int(term.pattern.any(axis=1).sum())
    bodies = range(robot.n_bodies)
    is_open = [seen.get(("external_wrench", i), 0) < 6 for i in bodies]
    measured = [seen.get(("joint_wrench", i), 0) >= 6 for i in bodies]
    for i in reversed(bodies):
        if robot.parent[i] >= 0 and not measured[i]:
            is_open[robot.parent[i]] |= is_open[i]
    closed_above = list(measured)
    for i in bodies:
        closed_above[i] |= robot.parent[i] >= 0 and closed_above[robot.parent[i]]
    return frozenset(("joint_wrench", i) for i in bodies if is_open[i] and closed_above[i])
