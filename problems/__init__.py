"""Problems on the linear system D(q) d + b(q, qd) = 0: inverse, forward, hybrid dynamics."""

from problems.forward import ForwardDynamics
from problems.hybrid import HybridDynamics
from problems.inverse import InverseDynamics
from problems.problem import AbstractDynamics, AbstractProblem
from problems.solution import NamedVectors, Solution

__all__ = [
    "AbstractDynamics",
    "AbstractProblem",
    "ForwardDynamics",
    "HybridDynamics",
    "InverseDynamics",
    "NamedVectors",
    "Solution",
]
