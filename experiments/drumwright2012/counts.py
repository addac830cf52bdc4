"""Operation counts of M^-1 for a chain of n one-freedom joints ([DRUM] tables 1-3).

``TABLE_1`` .. ``TABLE_3`` are the paper's rows: operation -> coefficients of (n^3, n^2, n, 1)
for multiplications and additions. :func:`inverse_count` is what the loops of
:mod:`dynsys.loops.drumwright` execute.
"""

from __future__ import annotations

from fractions import Fraction

from dynsys.errors import ModelError
from experiments.counting import OperationCount

__all__ = ["TABLE_1", "TABLE_2", "TABLE_3", "Table", "evaluate", "inverse_count", "total"]

Coefficients = tuple[Fraction, Fraction, Fraction, Fraction]
Table = dict[str, tuple[Coefficients, Coefficients]]


def _row(
    multiplications: tuple[float, float, float, float],
    additions: tuple[float, float, float, float],
) -> tuple[Coefficients, Coefficients]:
    m3, m2, m1, m0 = map(Fraction, multiplications)
    a3, a2, a1, a0 = map(Fraction, additions)
    return (m3, m2, m1, m0), (a3, a2, a1, a0)


def _lower(coefficients: Coefficients) -> Coefficients:
    """Coefficients of a count divided by n."""
    n3, n2, n1, _ = coefficients
    return Fraction(0), n3, n2, n1


TABLE_1: Table = {
    "spatial axes": _row((0, 0, 24, 0), (0, 0, 6, 0)),
    "isolated inertias": _row((0, 0, 84, 0), (0, 0, 57, 0)),
    "articulated inertias": _row((0, 0, 108, 0), (0, 0, 107, 0)),
    "impulse propagation": _row((0, 13, 0, 0), (0, 13, 0, 0)),
    "velocity updates": _row((0, 9.5, 0, 0), (0, 13, 0, 0)),
}
"""Theta(n^2) inversion."""

TABLE_2: Table = {
    "spatial axes": _row((0, 0, 24, 0), (0, 0, 6, 0)),
    "isolated inertias": _row((0, 0, 84, 0), (0, 0, 57, 0)),
    "composite inertias": _row((0, 0, 0, 0), (0, 0, 13, -13)),
    "I s vectors": _row((0, 0, 36, 0), (0, 0, 24, 0)),
    "elements of M": _row((0, 3, 0, 0), (0, 2.5, 0, 0)),
    "Cholesky (naive)": _row((0.5, 0.5, 1, 0), (0.5, 0, 0, 0)),
}
"""Composite-rigid-body algorithm and Cholesky factorisation. A Cholesky factorisation that does
not compute what it then discards takes n^3 / 6, not n^3 / 2."""

TABLE_3: Table = {
    name: counts if name == "articulated inertias" else (_lower(counts[0]), _lower(counts[1]))
    for name, counts in TABLE_1.items()
}
"""Theta(n^2) inversion, per processor of n; inertias are articulated one after the other."""


def evaluate(coefficients: Coefficients, n: int) -> Fraction:
    """Value of a count at n."""
    c3, c2, c1, c0 = coefficients
    return ((c3 * n + c2) * n + c1) * n + c0


def total(table: Table, n: int) -> tuple[Fraction, Fraction]:
    """Multiplications and additions of all rows of a table at n.

    Examples
    --------
    >>> [int(value) for value in total(TABLE_1, 100)]
    [246600, 277000]
    """
    m = sum((evaluate(row[0], n) for row in table.values()), Fraction(0))
    return m, sum((evaluate(row[1], n) for row in table.values()), Fraction(0))


def inverse_count(n: int) -> dict[str, OperationCount]:
    """What our loops execute for M^-1 of a chain, columns one by one, rows of one triangle.

    Column k starts at freedom k (n (n + 1) / 2 freedoms visited in all), and only rows up to k
    are computed, the others follow by symmetry: both passes over half of the matrix.
    """
    if n < 1:
        raise ModelError(f"a chain has at least one joint, got {n!r}")
    half, inner = n * (n + 1) // 2, n * (n - 1) // 2
    passed = OperationCount(21, 42)  # into the parent's inertia, one triangle
    return {
        "articulated inertias": n * OperationCount(42, 36, 6) + (n - 1) * passed,
        "impulse propagation": half * OperationCount(6, 6) + inner * OperationCount(6, 12),
        "velocity updates": half * OperationCount(6, 0, 1) + inner * OperationCount(6, 12),
    }
