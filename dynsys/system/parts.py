"""Parts of a quantity by name: one joint's torque, the wrench at a frame.

    part = M whole[start : start + columns of M]        M (size, columns), constant

``torque.l_knee`` is one joint's, also of ``qdd``; ``external_wrench.l_sole`` one body's or
frame's, also of ``acceleration``; ``joint_wrench`` has joints, bodies and frames. Vectors of a
frame are its body's, moved: in its axes, moments about its origin.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.types import Array

__all__ = ["Part", "array_name", "kind_of", "part_of"]


class Part(NamedTuple):
    """Where a part starts in the flat quantity (nv,) or (6 n_bodies,), and the matrix M."""

    start: int
    matrix: Array

    @property
    def is_moved(self) -> bool:
        """Whether it mixes numbers: those of a frame other than its body's."""
        return not np.array_equal(self.matrix, np.eye(len(self.matrix)))


def kind_of(name: str) -> str:
    """Quantity that an output is, or is a part of."""
    return name.partition(".")[0]


def array_name(name: str) -> str:
    """Name of an output as that of an array in programs: ``external_wrench_l_sole``."""
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def part_of(robot: KinematicTree, kind: str, name: str) -> Part:
    """The part of a joint, body or frame; ModelError if there is none of this name."""
    if kind in ("torque", "qdd"):
        place = robot.v_slice(name)
        return Part(place.start, np.eye(place.stop - place.start))
    frame = robot.joint_frame(name) if kind == "joint_wrench" else robot.frame(name)
    if frame.body < 0:
        raise ModelError(
            f"robot {robot.name!r}: {name!r} is fixed to the base, which has no {kind}"
        )
    X = frame.transform
    return Part(
        6 * frame.body, X.matrix() if kind == "acceleration" else X.inverse().matrix().T
    )
