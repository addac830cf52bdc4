"""dynsys: rigid-body dynamics as one sparse linear system.

Mechanics and sparse linear systems; sensors and problems are packages of their own on top.
"""

from dynsys import interop
from dynsys.errors import (
    DynsysError,
    KernelBuildError,
    LayoutError,
    ModelError,
    ModelWarning,
    PlanMismatchError,
    SingularSystemError,
    StateError,
    StructurallySingularError,
)
from dynsys.model import synthetic
from dynsys.model.load import load
from dynsys.model.tree import KinematicTree
from dynsys.recursive import aba, crba, forward_kinematics, jacobian, rnea
from dynsys.system.linear_system import LinearSystem

__all__ = [
    "DynsysError",
    "KernelBuildError",
    "KinematicTree",
    "LayoutError",
    "LinearSystem",
    "ModelError",
    "ModelWarning",
    "PlanMismatchError",
    "SingularSystemError",
    "StateError",
    "StructurallySingularError",
    "aba",
    "crba",
    "forward_kinematics",
    "interop",
    "jacobian",
    "load",
    "rnea",
    "synthetic",
]
