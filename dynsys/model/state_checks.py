"""Checks of a robot's q and of its vectors per freedom; a failure names the joint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynsys.errors import StateError
from dynsys.model.joint_places import JointPlaces
from dynsys.types import Array, ArrayLike

__all__ = ["check_position", "check_velocity"]

UNIT = 1e-6
"""Distance of a quaternion's norm from one that is accepted."""


def check_position(robot: str, joints: JointPlaces, q: ArrayLike) -> Array:
    """Return q as float64 (nq,), finite, its quaternions of norm one."""
    out = _checked(robot, q, "q", joints.nq, joints.joint_names, joints.q)
    for joint, where in joints.quaternions:
        norm = float(np.linalg.norm(out[where]))
        if abs(norm - 1.0) > UNIT:
            raise StateError(
                f"q: the quaternion of joint {joint!r} (x, y, z, w at {where.start}:"
                f"{where.stop}) has norm {norm:.9g}; divide it by its norm"
            )
    return out


def check_velocity(robot: str, joints: JointPlaces, v: ArrayLike, what: str) -> Array:
    """Return v as float64 (nv,), finite; ``what`` it is: qd, qdd, torque or the like."""
    return _checked(robot, v, what, joints.nv, joints.joint_names, joints.v)


def _checked(
    robot: str,
    x: ArrayLike,
    what: str,
    size: int,
    joints: Sequence[str],
    places: Sequence[slice],
) -> Array:
    try:
        out = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} of robot {robot!r} is not numeric: {error}") from None
    if out.shape != (size,):
        raise StateError(
            f"{what} of robot {robot!r} must have shape ({size},), got {out.shape}"
        )
    if not np.isfinite(out).all():
        k = int(np.flatnonzero(~np.isfinite(out))[0])
        of_joint = zip(joints, places, strict=True)
        joint = next(joint for joint, place in of_joint if place.start <= k < place.stop)
        raise StateError(f"{what}[{k}] of robot {robot!r} (joint {joint!r}) is {out[k]}")
    return out
