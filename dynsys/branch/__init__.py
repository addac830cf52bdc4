"""Branch-induced sparsity: factors, products and solves that skip a tree's zeros."""

from dynsys.recursive.sparse_factors import (
    ltdl,
    ltl,
    mul_L,
    mul_LT,
    solve,
    solve_L,
    solve_LT,
    solve_ltdl,
    solve_ltl,
)

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
