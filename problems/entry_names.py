"""Names of the entries of q and of vectors per body, for the headers of exported C."""

from __future__ import annotations

from collections.abc import Sequence

from dynsys.model.tree import KinematicTree

__all__ = ["ACCELERATION", "WRENCH", "entry_names"]

WRENCH = ("tx", "ty", "tz", "fx", "fy", "fz")
ACCELERATION = ("wdx", "wdy", "wdz", "ax", "ay", "az")
_QUATERNION = ("qx", "qy", "qz", "qw")
_POSITION = {
    "cylindrical": ("angle", "distance"),
    "planar": ("angle", "distance_1", "distance_2"),
    "spherical": _QUATERNION,
    "free": ("x", "y", "z", *_QUATERNION),
}


def entry_names(robot: KinematicTree) -> dict[str, list[str]]:
    """Name every entry of q (nq,) and of the vectors (6 n_bodies,), by array.

    Examples
    --------
    >>> import dynsys
    >>> entry_names(dynsys.synthetic.humanoid30())["q"][5:8]
    ['root.qz', 'root.qw', 'left_leg_1']
    """
    return {
        "q": _position_names(robot),
        "f_ext": _spatial_names(robot.body_names, WRENCH),
        "external_wrench": _spatial_names(robot.body_names, WRENCH),
        "acceleration": _spatial_names(robot.body_names, ACCELERATION),
        "joint_wrench": _spatial_names(robot.joint_names, WRENCH),
    }


def _position_names(robot: KinematicTree) -> list[str]:
    names = []
    for body, joint in zip(robot.bodies, robot.joint_names, strict=True):
        if body.coupling is None and body.joint.nq == 1:
            names.append(joint)
        elif body.coupling is None:
            names += [f"{joint}.{part}" for part in _POSITION.get(body.joint.kind, ())]
    return names


def _spatial_names(owners: Sequence[str], parts: Sequence[str]) -> list[str]:
    return [f"{owner}.{part}" for owner in owners for part in parts]
