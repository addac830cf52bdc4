"""Operational-space dynamics: Lambda^-1, Lambda, Jbar and N by several methods."""

from dynsys.operational.operational_space import (
    OperationalInertia,
    OperationalSpace,
    operational_space,
)
from dynsys.operational.tasks import BodyMotion, CentreOfMass, RelativeMotion

__all__ = [
    "BodyMotion",
    "CentreOfMass",
    "OperationalInertia",
    "OperationalSpace",
    "RelativeMotion",
    "operational_space",
]
