"""Checks of what a user hands to a problem: joints, times, and arrays to write answers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ArrayLike, float_array

__all__ = ["apart_from", "ascending_times", "check_out", "joints_of_their_own"]


def apart_from(arrays: Sequence[Array], out: Sequence[Array] | None) -> list[Array]:
    """Return the arrays, copies in place of those that writing to ``out`` would change."""
    targets = [] if out is None else [x for x in out if isinstance(x, np.ndarray)]
    return [
        x.copy() if any(np.may_share_memory(x, target) for target in targets) else x
        for x in arrays
    ]


def check_out(out: Any, shape: tuple[int, ...]) -> Array:
    """Return ``out``; StateError if results of this shape cannot be written to it."""
    if not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.float64:
        raise StateError(f"out: expected a float64 array of shape {shape}, got {out!r:.60}")
    if not out.flags.writeable:
        raise StateError("out: the array is read-only; hand in a writeable one")
    return out


def ascending_times(time: ArrayLike, n: int | None = None) -> Array:
    """Return the times (n,) of a log's samples in seconds; as many as there are by default.

    Raises
    ------
    StateError
        if they are not n finite numbers, each above the one before.
    """
    try:
        times = float_array(time)
    except (TypeError, ValueError) as error:
        raise StateError(f"time is not numeric: {error}") from None
    n = times.size if n is None else n
    if times.shape != (n,):
        raise StateError(f"time must have shape ({n},), one per sample, got {times.shape}")
    good = np.isfinite(times)
    good[1:] &= times[1:] > times[:-1]
    wrong = np.flatnonzero(~good)
    if len(wrong):
        k = int(wrong[0])
        after = f" after {times[k - 1]:.9g}" if k else ""
        raise StateError(f"time of sample {k} is {times[k]:.9g}{after}; times must ascend (s)")
    return times


def joints_of_their_own(
    robot: KinematicTree, names: Sequence[str], what: str = "known_acceleration"
) -> tuple[str, ...]:
    """Return names of joints that have freedoms of their own; ``what`` they are named for.

    Raises
    ------
    ModelError
        if a name is no joint of the robot, or one that follows another (mimic).
    """
    if isinstance(names, str):
        raise ModelError(f"{what} must list joint names, got {names!r}")
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
