"""Joint models: transform, motion subspace, worst-case sparsity, integration.

Every joint chooses its velocity in successor (child) coordinates, so that its motion subspace
``S`` (6, nv) is constant and its velocity bias c_J = dS/dt qd ([RBDA] eq. 3.41) is zero:

    v_child = X v_parent + S qd          a_child = X a_parent + S qdd + v_child x S qd

| joint       | nq | nv | position q                       | velocity                        |
|-------------|----|----|----------------------------------|---------------------------------|
| revolute    | 1  | 1  | angle about the axis             | its rate                        |
| prismatic   | 1  | 1  | distance along the axis          | its rate                        |
| helical     | 1  | 1  | angle; advance = pitch * angle   | its rate                        |
| cylindrical | 2  | 2  | angle, distance                  | their rates                     |
| planar      | 3  | 3  | angle, two distances (parent)    | angular rate, two rates (child) |
| spherical   | 4  | 3  | unit quaternion x y z w          | angular velocity (child)        |
| free        | 7  | 6  | position, unit quaternion        | angular, linear velocity (child)|
| fixed       | 0  | 0  |                                  |                                 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.model.axis_joints import Cylindrical, Helical, Planar, Prismatic, Revolute
from dynsys.model.joint import AbstractJoint
from dynsys.model.quaternion_joints import Free, Spherical
from dynsys.model.spatial import Transform
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "JOINT_TYPES",
    "AbstractJoint",
    "Cylindrical",
    "Fixed",
    "Free",
    "Helical",
    "Planar",
    "Prismatic",
    "Revolute",
    "Spherical",
]


@final
@dataclass(frozen=True, eq=False)
class Fixed(AbstractJoint):
    """No freedom. Readers fold fixed joints away; a tree may still hold them."""

    kind: ClassVar[str] = "fixed"
    nq: ClassVar[int] = 0
    nv: ClassVar[int] = 0

    @property
    def S(self) -> Array:
        return np.zeros((6, 0))

    def transform(self, q: ScalarArray) -> Transform:
        return Transform.identity()

    def pattern(self) -> tuple[BoolArray, BoolArray]:
        return np.eye(3, dtype=bool), np.zeros(3, dtype=bool)


JOINT_TYPES: dict[str, type[AbstractJoint]] = {
    joint.kind: joint
    for joint in (Revolute, Prismatic, Helical, Cylindrical, Planar, Spherical, Free, Fixed)
}
