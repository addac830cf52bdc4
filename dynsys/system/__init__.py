"""The linear system D(q) d + b(q, qd) = 0: unknowns, equations, pattern, assembly."""

from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import known, known_inputs
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock, UnknownKind, UnknownLayout

__all__ = [
    "EquationBlock",
    "Kinematics",
    "LinearSystem",
    "Term",
    "UnknownBlock",
    "UnknownKind",
    "UnknownLayout",
    "known",
    "known_inputs",
]
