"""The expanded connectivity graph: one node per freedom instead of one per body.

A joint of n_i freedoms becomes a chain of n_i joints of one freedom each ([OSI] figures 3, 4;
[BIS] section 6). Element (i, j) of the joint-space inertia H is nonzero only if one of the two
freedoms supports the other in this graph. Precondition: no coupled joints, -1 <= parent(i) < i.
"""

from __future__ import annotations

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.types import IntArray

__all__ = ["depths", "expanded_parent", "last_freedom", "own_supports"]


def last_freedom(robot: KinematicTree) -> IntArray:
    """Last freedom that moves each body: map(i) of [OSI] figure 4, 0-based.

    A body on a fixed joint answers with its parent's; -1 where no freedom moves the body.
    The array b_e of [OSI] is ``last_freedom(robot)[bodies]``.

    Returns
    -------
    (n_bodies,) numbers of freedoms.

    Raises
    ------
    ModelError
        if the robot has coupled (mimic) joints.
    """
    _require_tree_sparsity(robot)
    last = np.full(robot.n_bodies, -1, dtype=np.intp)
    for i, freedoms in enumerate(robot.v_slices()):
        above = last[robot.parent[i]] if robot.parent[i] >= 0 else -1
        last[i] = freedoms.stop - 1 if freedoms.stop > freedoms.start else above
    return last


def expanded_parent(robot: KinematicTree) -> IntArray:
    """Parent of each freedom in the expanded graph: lambda_e of [OSI] figure 4, 0-based.

        lambda_e(first freedom of joint i) = map(lambda(i)),  lambda_e(any other k) = k - 1

    Returns
    -------
    (nv,) numbers of freedoms, -1 for the base; ``-1 <= parent[k] < k``.

    Raises
    ------
    ModelError
        if the robot has coupled (mimic) joints.

    Examples
    --------
    >>> from dynsys.model import synthetic
    >>> expanded_parent(synthetic.humanoid30())[:8].tolist()
    [-1, 0, 1, 2, 3, 4, 5, 6]
    """
    last = last_freedom(robot)
    parent = np.arange(-1, robot.nv - 1, dtype=np.intp)
    for i, freedoms in enumerate(robot.v_slices()):
        if freedoms.stop > freedoms.start:
            parent[freedoms.start] = last[robot.parent[i]] if robot.parent[i] >= 0 else -1
    return parent


def depths(parent: IntArray) -> IntArray:
    """Length d_i of the way from the base to each node, counted in nodes ([BIS] section 4).

    ``parent`` (n,) is a body or an expanded parent array with ``-1 <= parent[i] < i``.

    Examples
    --------
    >>> depths(np.array([-1, 0, 0, 2])).tolist()
    [1, 2, 2, 3]
    """
    depth = np.zeros(len(parent), dtype=np.intp)
    for i, p in enumerate(parent):
        depth[i] = 1 if p < 0 else depth[p] + 1
    return depth


def _require_tree_sparsity(robot: KinematicTree) -> None:
    if robot.is_coupled:
        follower = next(
            name
            for name, body in zip(robot.joint_names, robot.bodies, strict=True)
            if body.coupling is not None
        )
        raise ModelError(
            f"robot {robot.name!r}: joint {follower!r} follows another joint (mimic), so H has"
            " no tree sparsity and the expanded graph does not exist; load the robot with"
            ' mimic="independent" or use a dense method'
        )


def own_supports(parent: IntArray) -> list[frozenset[int]]:
    """Freedoms that support each freedom, itself included."""
    supports: list[frozenset[int]] = []
    for i, above in enumerate(parent):
        supports.append(frozenset([i]) | (supports[above] if above >= 0 else frozenset()))
    return supports
