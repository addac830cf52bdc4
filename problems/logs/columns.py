"""Names of the numbers in a log.

| numbers            | one array        | or one column per number                       |
|--------------------|------------------|------------------------------------------------|
| time, s            | ``time``         |                                                |
| positions          | ``q`` (N, nq)    | ``q.JOINT``, or ``q.JOINT[k]`` where it has many |
| velocities         | ``qd`` (N, nv)   | ``qd.JOINT``                                   |
| accelerations      | ``qdd`` (N, nv)  | ``qdd.JOINT``                                  |
| joint torques      |                  | ``effort.JOINT``                               |
| readings           | ``y`` (N, rows)  |                                                |
| readings of one    | ``SENSOR``       | ``SENSOR.ROW``, rows as ``layout.labels``      |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from dynsys.model.tree import KinematicTree

__all__ = ["Source", "joint_columns", "numbered", "own_joints", "source_of"]


@final
@dataclass(frozen=True)
class Source:
    """Arrays of a log that, side by side, hold what is wanted, or a part of one array."""

    names: tuple[str, ...]
    part: slice | None = None


def numbered(prefix: str, size: int) -> list[str]:
    """``prefix`` alone for one number, else ``prefix[0]``, ``prefix[1]`` ..."""
    return [prefix] if size == 1 else [f"{prefix}[{k}]" for k in range(size)]


def own_joints(robot: KinematicTree) -> list[int]:
    """Joints that have coordinates of their own."""
    return [i for i, b in enumerate(robot.bodies) if b.coupling is None and b.joint.nq]


def joint_columns(robot: KinematicTree, quantity: str) -> list[str]:
    """Columns of ``q`` in its order, or of any quantity in the order of qd."""
    names: list[str] = []
    for i in own_joints(robot):
        joint = robot.joints[i]
        size = joint.nq if quantity == "q" else joint.nv
        names += numbered(f"{quantity}.{robot.joint_names[i]}", size)
    return names


def source_of(
    widths: Mapping[str, int],
    whole: str,
    columns: Sequence[str],
    within: tuple[str, int, slice] | None = None,
) -> Source | None:
    """Where a log holds some numbers, None if it does not.

    Parameters
    ----------
    widths : arrays of the log and their widths.
    whole : name of the array that would hold them all.
    columns : names of the numbers, one by one.
    within : name and width of a larger array, and the place of the numbers in it.
    """
    if widths.get(whole) == len(columns):
        return Source((whole,))
    if columns and all(widths.get(name) == 1 for name in columns):
        return Source(tuple(columns))
    if within is not None and widths.get(within[0]) == within[1]:
        return Source((within[0],), within[2])
    return None
