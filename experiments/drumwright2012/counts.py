"""Operation counts of M^-1 for a chain of n one-freedom joints ([DRUM] tables 1-3).

``TABLES`` has every cell as the paper prints it: multiplications and additions of an operation,
and the line of the paper's text it stands on. What the algorithms execute, as printed, is
counted in :mod:`experiments.drumwright2012.printed`; :func:`inverse_count` is what the loops of
:mod:`dynsys.loops.drumwright` execute.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dynsys.errors import ModelError
from experiments.counting import OperationCount

__all__ = ["TABLES", "Polynomial", "evaluate", "inverse_count", "polynomial", "text", "through"]

Polynomial = tuple[Fraction, ...]
"""Coefficients of 1, n, n^2, n^3."""
TERMS = 4

Table = dict[str, tuple[str, str, int]]
TABLES: dict[str, Table] = {
    "table 1": {
        "spatial axes": ("24n", "6n", 162),
        "isolated inertias": ("84n", "57n", 163),
        "articulated inertias": ("108n", "107n", 164),
        "impulse propagation": ("13n^2", "13n^2", 165),
        "velocity updates": ("19n^2/2", "26n^2/2", 166),
        "total": ("45n^2/2 + 216n", "26n^2 + 170n", 167),
    },
    "table 2": {
        "spatial axes": ("24n", "6n", 172),
        "isolated inertias": ("84n", "57n", 173),
        "composite inertias": ("0", "13n - 13", 174),
        "I s vectors": ("36n", "24n", 175),
        "elements of M": ("3n^2", "5n^2/2", 176),
        "Cholesky (naive)": ("n^3/2 + n^2/2 + n", "n^3/2", 177),
        "total": ("n^3/2 + 7n^2/2 + 145n", "n^3/2 + 5n^2/2 + 100n - 13", 178),
    },
    "table 3": {
        "spatial axes": ("24", "6", 191),
        "isolated inertias": ("84", "57", 192),
        "articulated inertias": ("108n", "107n", 193),
        "impulse propagation": ("13n", "13n", 194),
        "velocity updates": ("19n/2", "13n", 195),
        "total": ("261n/2 + 108", "133n + 63", 196),
    },
}
"""Theta(n^2) inversion; composite-rigid-body algorithm and Cholesky factorisation; Theta(n^2)
inversion per processor of n, inertias articulated one after the other."""


def polynomial(printed: str) -> Polynomial:
    """Coefficients of a count as the paper prints it.

    Examples
    --------
    >>> [str(c) for c in polynomial("45n^2/2 - 13")]
    ['-13', '0', '45/2', '0']
    """
    found = [Fraction(0)] * TERMS
    term = r"([+-]?)(\d*)(n(?:\^(\d))?)?(?:/(\d+))?"
    for sign, number, n, power, below in re.findall(term, printed.replace(" ", "")):
        if number or n:
            size = Fraction(int(number or 1), int(below or 1))
            found[int(power or 1) if n else 0] += -size if sign == "-" else size
    return tuple(found)


def text(count: Polynomial) -> str:
    """A count written as the paper does.

    Examples
    --------
    >>> text(polynomial("26n^2/2 - 1n + n^3/6"))
    'n^3/6 + 13n^2 - n'
    """
    parts = []
    for k in reversed(range(len(count))):
        if c := count[k]:
            n = ("", "n", "n^2", "n^3")[k]
            number = str(abs(c.numerator)) if abs(c.numerator) != 1 or not k else ""
            below = f"/{c.denominator}" if c.denominator != 1 else ""
            parts.append(("- " if c < 0 else "+ ") + number + n + below)
    return " ".join(parts).removeprefix("+ ") or "0"


def evaluate(count: Polynomial, n: int) -> Fraction:
    """Value of a count at n."""
    return sum((c * n**k for k, c in enumerate(count)), Fraction(0))


def through(counted: Callable[[int], int]) -> Polynomial:
    """The polynomial that a count is, from its values at n = 1 to 4; it holds at 5 and 6 too.

    Raises
    ------
    ModelError
        if the count is no polynomial of third degree.
    """
    at = np.arange(1, TERMS + 1)
    values = [counted(int(n)) for n in at]
    solved = np.linalg.solve(np.vander(at, increasing=True).astype(float), values)
    found = tuple(Fraction(c).limit_denominator(12) for c in solved.tolist())
    for n in range(1, TERMS + 3):
        if evaluate(found, n) != counted(n):
            raise ModelError(f"{counted(n)} operations at n = {n} are not {text(found)}")
    return found


def inverse_count(n: int) -> dict[str, OperationCount]:
    """What our loops execute for M^-1 of a chain, columns one by one, rows of one triangle.

    Column k starts at freedom k (n (n + 1) / 2 freedoms visited in all), and only rows up to k
    are computed, the others follow by symmetry: both passes over half of the matrix. Axes and
    inertias in the global frame are those of :mod:`experiments.drumwright2012.printed`.
    """
    if n < 1:
        raise ModelError(f"a chain has at least one joint, got {n!r}")
    half, inner = n * (n + 1) // 2, n * (n - 1) // 2
    passed = OperationCount(21, 42)  # into the parent's inertia, one triangle
    return {
        "spatial axes": n * OperationCount(24, 18),
        "isolated inertias": n * OperationCount(78, 57),
        "articulated inertias": n * OperationCount(42, 36, 6) + (n - 1) * passed,
        "impulse propagation": half * OperationCount(6, 6) + inner * OperationCount(6, 12),
        "velocity updates": half * OperationCount(6, 0, 1) + inner * OperationCount(6, 12),
    }
