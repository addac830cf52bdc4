"""Exact operation counts: what is executed.

:func:`program_operations` counts the instructions of a straight-line program, one by one;
:func:`lu_operations` and :func:`substitution_operations` those of a textbook LU from c_k and
r_k, the entries below and right of pivot k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from dynsys.plan.lu import SymbolicLU
from dynsys.program.program import Program

__all__ = ["Operations", "lu_operations", "program_operations", "substitution_operations"]


@final
@dataclass(frozen=True)
class Operations:
    """Number of multiplications, additions (and subtractions) and divisions.

    Examples
    --------
    >>> print(Operations(3, 2, 1) + Operations(multiplications=1) * 2)
    5 multiplications + 2 additions + 1 division = 8
    """

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0

    @property
    def total(self) -> int:
        """All operations."""
        return self.multiplications + self.additions + self.divisions

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.multiplications + other.multiplications,
            self.additions + other.additions,
            self.divisions + other.divisions,
        )

    def __mul__(self, times: int) -> Operations:
        return Operations(
            self.multiplications * times, self.additions * times, self.divisions * times
        )

    def __str__(self) -> str:
        parts = (
            (self.multiplications, "multiplication"),
            (self.additions, "addition"),
            (self.divisions, "division"),
        )
        words = " + ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in parts)
        return f"{words} = {self.total}"


def program_operations(program: Program) -> Operations:
    """Instructions of a straight-line program, each executed once; sines and roots left out."""
    count = program.count()
    return Operations(count["mul"], count["add"], count["div"])


def lu_operations(symbolic: SymbolicLU) -> Operations:
    """Textbook LU of a pattern: sum c_k r_k products and differences, sum c_k quotients."""
    updates = int((symbolic.below * symbolic.right).sum())
    return Operations(updates, updates, int(symbolic.below.sum()))


def substitution_operations(symbolic: SymbolicLU) -> Operations:
    """Forward and back substitution with the factors of a textbook LU, right-hand side full."""
    products = int(symbolic.below.sum() + symbolic.right.sum())
    return Operations(products, products, symbolic.n)
