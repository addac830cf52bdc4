"""Operational-space dynamics: inertia, bias and torque of tasks, by several methods."""

from dynsys.operational.hierarchy import Damped
from dynsys.operational.operational_space import (
    OperationalDynamics,
    OperationalSpace,
    operational_space,
)
from dynsys.operational.tasks import BodyMotion, CentreOfMass, Posture, RelativeMotion

__all__ = [
    "BodyMotion",
    "CentreOfMass",
    "Damped",
    "OperationalDynamics",
    "OperationalSpace",
    "Posture",
    "RelativeMotion",
    "operational_space",
]
