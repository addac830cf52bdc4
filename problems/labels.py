"""Labels: a name for every entry of q, qd, torques and vectors per body.

They stand in the headers of exported C, in the columns of logs and in reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dynsys.model.constraints import Constraint, row_labels
from dynsys.model.tree import KinematicTree
from dynsys.program.signature import Signature
from dynsys.system.parts import array_name

__all__ = [
    "ACCELERATION",
    "WRENCH",
    "Group",
    "and_more",
    "base_words",
    "constraint_labels",
    "entry_names",
    "joint_columns",
    "moved_by",
    "numbered",
    "of_arrays",
    "own_joints",
]

WRENCH = ("tx", "ty", "tz", "fx", "fy", "fz")
ACCELERATION = ("wdx", "wdy", "wdz", "ax", "ay", "az")
_QUATERNION = ("qx", "qy", "qz", "qw")
_POSITION = {
    "cylindrical": ("angle", "distance"),
    "planar": ("angle", "distance_1", "distance_2"),
    "spherical": _QUATERNION,
    "free": ("x", "y", "z", *_QUATERNION),
}


def base_words(robot: KinematicTree) -> str:
    """What the robot stands on."""
    floats = any(
        p < 0 and j.kind == "free" for p, j in zip(robot.parent, robot.joints, strict=True)
    )
    return "floating base" if floats else "fixed base"


def entry_names(robot: KinematicTree) -> dict[str, list[str]]:
    """Name every entry of q (nq,), of vectors (nv,) and of vectors (6 n_bodies,), by array.

    Examples
    --------
    >>> import dynsys
    >>> names = entry_names(dynsys.synthetic.humanoid30())
    >>> names["q"][5:8], names["qd"][4:8]
    (['root.qz', 'root.qw', 'left_leg_1'], ['root[4]', 'root[5]', 'left_leg_1', 'left_leg_2'])
    """
    return {
        "q": _position_names(robot),
        **dict.fromkeys(("qd", "qdd", "torque"), _freedom_names(robot)),
        "f_ext": _spatial_names(robot.body_names, WRENCH),
        "external_wrench": _spatial_names(robot.body_names, WRENCH),
        "acceleration": _spatial_names(robot.body_names, ACCELERATION),
        "joint_wrench": _spatial_names(robot.joint_names, WRENCH),
    }


def part_names(robot: KinematicTree, outputs: Iterable[str]) -> dict[str, list[str]]:
    """Name every entry of outputs such as ``external_wrench.l_sole``, by array."""
    found = {}
    for output in outputs:
        kind, _, name = output.partition(".")
        if kind in ("torque", "qdd") and name:
            found[array_name(output)] = _freedom_names(robot)[robot.v_slice(name)]
        elif name:
            parts = ACCELERATION if kind == "acceleration" else WRENCH
            found[array_name(output)] = _spatial_names([name], parts)
    return found


def constraint_labels(constraints: Sequence[Constraint]) -> dict[str, list[str]]:
    """Name every force and target of the rows of constraints, and every gain, by array."""
    rows = row_labels(constraints)
    gains = [f"{c.name}.{gain}" for c in constraints for gain in ("stiffness", "damping")]
    return {"constraint_wrench": rows, "target": rows, "gains": gains}


def of_arrays(labels: Mapping[str, list[str]], signature: Signature) -> dict[str, list[str]]:
    """Labels of the arrays of a signature."""
    return {array: labels[array] for array, _ in signature.groups if array in labels}


def _position_names(robot: KinematicTree) -> list[str]:
    names = []
    for body, joint in zip(robot.bodies, robot.joint_names, strict=True):
        if body.coupling is None and body.joint.nq == 1:
            names.append(joint)
        elif body.coupling is None:
            names += [f"{joint}.{part}" for part in _POSITION.get(body.joint.kind, ())]
    return names


def _freedom_names(robot: KinematicTree) -> list[str]:
    """Name of every freedom (nv,): its joint's, with a number where the joint has several."""
    names = [""] * robot.nv
    for joint, v, body in zip(robot.joint_names, robot.v_slices(), robot.bodies, strict=True):
        if body.coupling is None:
            for k in range(v.start, v.stop):
                names[k] = joint if v.stop - v.start == 1 else f"{joint}[{k - v.start}]"
    return names


def _spatial_names(owners: Sequence[str], parts: Sequence[str]) -> list[str]:
    return [f"{owner}.{part}" for owner in owners for part in parts]


def and_more(texts: Sequence[str], limit: int) -> str:
    """The first texts, and how many more there are."""
    left = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {left} more" if left > 0 else "")


# ---- columns of tables and logs -------------------------------------------------------------


class Group(NamedTuple):
    """Numbers that belong together: an array of an .npz file, columns of a table.

    Parameters
    ----------
    name : of the array.
    columns : of its numbers.
    """

    name: str
    columns: tuple[str, ...]


def numbered(prefix: str, size: int) -> list[str]:
    """``prefix`` alone for one number, else ``prefix[0]``, ``prefix[1]`` ..."""
    return [prefix] if size == 1 else [f"{prefix}[{k}]" for k in range(size)]


def own_joints(robot: KinematicTree) -> list[int]:
    """Joints that have coordinates of their own."""
    return [i for i, b in enumerate(robot.bodies) if b.coupling is None and b.joint.nq]


def moved_by(robot: KinematicTree, joint: int) -> tuple[int, float]:
    """Joint whose velocity moves a joint, and how many times: its leader if it is coupled."""
    coupling = robot.bodies[joint].coupling
    return (joint, 1.0) if coupling is None else (coupling.leader, coupling.ratio)


def joint_columns(robot: KinematicTree, quantity: str) -> list[str]:
    """Columns of ``q`` in its order, or of any quantity in the order of qd."""
    names: list[str] = []
    for i in own_joints(robot):
        joint = robot.joints[i]
        size = joint.nq if quantity == "q" else joint.nv
        names += numbered(f"{quantity}.{robot.joint_names[i]}", size)
    return names
