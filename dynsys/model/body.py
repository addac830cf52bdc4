"""What a tree is made of: bodies with their joints, named frames, couplings of joints."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import ModelError
from dynsys.model.joints import AbstractJoint
from dynsys.model.spatial import Inertia, Transform, matrix_pattern
from dynsys.types import Array, ArrayLike, BoolArray

__all__ = ["Body", "Coupling", "Frame", "read_only"]

_PER_JOINT_VECTORS = (
    "armature",
    "damping",
    "friction",
    "effort_limit",
    "velocity_limit",
    "lower",
    "upper",
)
_Scalar = TypeVar("_Scalar", bound=np.generic)


@final
@dataclass(frozen=True, eq=False)
class Frame:
    """A named frame fixed to a body (-1: the base); ``transform`` goes body -> frame."""

    body: int
    transform: Transform


@final
@dataclass(frozen=True)
class Coupling:
    """Mimic joint: position = ratio * (position of joint ``leader``) + offset."""

    leader: int
    ratio: float
    offset: float


@final
@dataclass(frozen=True, eq=False)
class Body:
    """One body with the joint that carries it: what builders and readers hand to a tree.

    ``placement`` goes from the parent body to the joint's frame. Per-freedom vectors (nv,):
    ``armature`` (reflected rotor inertia), ``damping``, ``friction``, ``effort_limit``,
    ``velocity_limit``; per-coordinate vectors (nq,): ``lower``, ``upper``. None means zero,
    respectively unlimited. Arrays are copied and become read-only.
    """

    name: str
    parent: int
    joint: AbstractJoint
    placement: Transform = field(default_factory=Transform.identity)
    inertia: Inertia = field(default_factory=Inertia.zero)
    joint_name: str = ""
    armature: ArrayLike | None = None
    damping: ArrayLike | None = None
    friction: ArrayLike | None = None
    effort_limit: ArrayLike | None = None
    velocity_limit: ArrayLike | None = None
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    coupling: Coupling | None = None

    def __post_init__(self) -> None:
        place, inertia = self.placement, self.inertia
        E, r = self._own("placement.E", place.E), self._own("placement.r", place.r)
        com, about = self._own("com", inertia.com), self._own("about_com", inertia.about_com)
        object.__setattr__(self, "placement", Transform(E, r))
        object.__setattr__(self, "inertia", Inertia(inertia.mass, com, about))
        for key in _PER_JOINT_VECTORS:
            if (value := getattr(self, key)) is not None:
                object.__setattr__(self, key, self._own(key, value))

    def __reduce__(self) -> tuple[type[Body], tuple[object, ...]]:
        return Body, tuple(getattr(self, entry.name) for entry in fields(self))

    def motion_subspace(self) -> Array:
        """S (6, nv) of the joint, scaled by the ratio where the joint is coupled."""
        return self.joint.S * (1.0 if self.coupling is None else self.coupling.ratio)

    def transform_pattern(self) -> BoolArray:
        """Worst-case nonzeros (6, 6) of the transform parent -> body, over all q."""
        E_joint, r_joint = self.joint.pattern()
        E_place, r_place = self.placement.E != 0, self.placement.r != 0
        return matrix_pattern(E_joint @ E_place, r_place | (E_place.T @ r_joint))

    def _own(self, what: str, value: ArrayLike) -> Array:
        try:
            return read_only(np.array(value, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ModelError(f"body {self.name!r}: {what} is not numeric: {error}") from None


def read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Make an array immutable and return it."""
    array.setflags(write=False)
    return array
