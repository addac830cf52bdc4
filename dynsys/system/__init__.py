"""The linear system D(q) d + b(q, qd) = 0: unknowns, equations, pattern, assembly."""

from dynsys.system.aba_factors import AbaFactors, aba_factors, aba_order, articulated_inertias
from dynsys.system.equations import EquationBlock, Term
from dynsys.system.kinematics import Kinematics
from dynsys.system.known import (
    known,
    known_external_wrench,
    known_inputs,
    known_qdd,
    known_torque,
)
from dynsys.system.linear_system import LinearSystem
from dynsys.system.orders import rnea_order
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout

__all__ = [
    "AbaFactors",
    "EquationBlock",
    "Kinematics",
    "LinearSystem",
    "Term",
    "UnknownBlock",
    "UnknownKind",
    "UnknownLayout",
    "aba_factors",
    "aba_order",
    "articulated_inertias",
    "known",
    "known_external_wrench",
    "known_inputs",
    "known_qdd",
    "known_torque",
    "rnea_order",
]
