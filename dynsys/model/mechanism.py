"""What an algorithm may ask of a robot: KinematicTree has it, and so have its rewritings.

The engine runs the same recursions on a mechanism with other link frames and regrouped masses;
this protocol is all that they share.
"""

from __future__ import annotations

from typing import Protocol

from dynsys.model.spatial import MassMoments, Transform
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["Mechanism"]


class Mechanism(Protocol):
    """Bodies in parent-first order; see KinematicTree for the meaning of each name."""

    @property
    def n_bodies(self) -> int: ...

    @property
    def nv(self) -> int: ...

    @property
    def parent(self) -> IntArray: ...

    @property
    def motion_subspace(self) -> tuple[Array, ...]: ...

    @property
    def moments(self) -> tuple[MassMoments, ...]: ...

    @property
    def armature(self) -> Array: ...

    @property
    def gravity(self) -> Array: ...

    def v_slices(self) -> tuple[slice, ...]: ...

    def joint_transform(self, i: int, q: ScalarArray) -> Transform: ...
