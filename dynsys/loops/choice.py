"""When loops are the better choice: an estimate of the size of straight-line code.

Straight-line code runs 3 to 8 times faster than the loops, even for 200 bodies, but takes
0.27 ms per operation to plan and compile: 8 s for the forward dynamics of a chain of 100 joints
with generic frames (29 000 operations), 17 s for one of 200 (65 000). The loops are compiled
once for all robots.
"""

from __future__ import annotations

from dynsys.model.tree import KinematicTree

__all__ = ["OPERATIONS_LIMIT", "estimated_operations", "prefer_loops"]

OPERATIONS_LIMIT = 40_000
"""Operations that straight-line code may have: about ten seconds to plan and compile."""

_OPERATIONS = {
    "fixed": 100,
    "prismatic": 250,
    "revolute": 300,
    "helical": 350,
    "cylindrical": 350,
    "planar": 400,
    "spherical": 500,
    "free": 500,
}
"""Operations of forward dynamics per joint, generic frames, as counted on trees of one kind."""


def estimated_operations(robot: KinematicTree) -> int:
    """Operations, within a factor of two, of straight-line forward dynamics.

    Examples
    --------
    >>> import dynsys
    >>> estimated_operations(dynsys.synthetic.chain(100))
    30000
    """
    return sum(_OPERATIONS.get(joint.kind, 500) for joint in robot.joints)


def prefer_loops(robot: KinematicTree, limit: int = OPERATIONS_LIMIT) -> bool:
    """True where straight-line code of the robot would take too long to compile.

    Examples
    --------
    >>> import dynsys
    >>> prefer_loops(dynsys.synthetic.chain(100)), prefer_loops(dynsys.synthetic.chain(300))
    (False, True)
    """
    return estimated_operations(robot) > limit
