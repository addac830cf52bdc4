"""Branch-induced sparsity: factors, products and solves that skip a tree's zeros."""

from dynsys.branch.ltdl import ltdl
from dynsys.branch.ltl import ltl
from dynsys.branch.products import mul_L, mul_LT
from dynsys.branch.solves import solve, solve_L, solve_LT, solve_ltdl, solve_ltl

__all__ = [
    "ltdl",
    "ltl",
    "mul_L",
    "mul_LT",
    "solve",
    "solve_L",
    "solve_LT",
    "solve_ltdl",
    "solve_ltl",
]
