"""What the rest of dynsys asks of a joint; the joints are in :mod:`dynsys.model.joints`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = ["AbstractJoint", "uniform"]


class AbstractJoint(ABC):
    """What the rest of dynsys asks of a joint."""

    kind: ClassVar[str]
    nq: ClassVar[int]
    nv: ClassVar[int]

    @property
    @abstractmethod
    def S(self) -> Array:
        """Motion subspace (6, nv), child coordinates, constant."""

    @abstractmethod
    def transform(self, q: ScalarArray) -> Transform:
        """Transform from the joint's frame on the parent to the child, at position q (nq,)."""

    @abstractmethod
    def pattern(self) -> tuple[BoolArray, BoolArray]:
        """Worst-case nonzeros of the transform's E (3, 3) and r (3,), over all q."""

    @property
    def bias(self) -> Array:
        """Velocity-product acceleration c_J (6,): zero, because S is constant here."""
        return np.zeros(6)

    def neutral(self) -> Array:
        """Position (nq,) at which child and joint frame coincide."""
        return np.zeros(self.nq)

    def random(self, rng: np.random.Generator, lower: Array, upper: Array) -> Array:
        """Random position (nq,) between the limits; within +-pi or +-1 where there are none."""
        return uniform(rng, lower, upper, np.pi)

    def integrate(self, q: Array, v: Array, dt: float) -> Array:
        """Position (nq,) after moving at constant velocity v (nv,) for time dt."""
        return q + v * dt


def uniform(
    rng: np.random.Generator, lower: Array, upper: Array, reach: float | Array
) -> Array:
    """Random numbers between the limits; within +-``reach`` where there are none."""
    low = np.where(np.isfinite(lower), lower, -reach)
    high = np.where(np.isfinite(upper), upper, reach)
    return rng.uniform(low, np.maximum(low, high))
