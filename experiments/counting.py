"""Scalars that count the operations executed on them.

>>> tally = Tally()
>>> x, y = tally.scalars([2.0, 3.0])
>>> float(x * y + x / y)
6.6666666
>>> str(tally.count)
'1m + 1a + 1d'

Every +, -, *, / and square root executed is one operation, whatever its operands; subtractions
count as additions and negations are free, as in [BIS] section 4.1 and [OSI] section 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, final

import numpy as np

from dynsys.types import ArrayLike, ScalarArray

__all__ = ["Counted", "OperationCount", "Tally", "exact_fit", "written_out"]


@final
@dataclass(frozen=True)
class OperationCount:
    """Multiplications m, additions a, divisions d, square roots s; adds up and scales."""

    multiplications: int = 0
    additions: int = 0
    divisions: int = 0
    square_roots: int = 0

    @property
    def total(self) -> int:
        """All operations, each counted as one."""
        return self.multiplications + self.additions + self.divisions + self.square_roots

    @property
    def divisions_as_multiplications(self) -> OperationCount:
        """The same with every division counted as a multiplication ([BIS] section 6)."""
        m = self.multiplications + self.divisions
        return OperationCount(m, self.additions, 0, self.square_roots)

    def __add__(self, other: OperationCount) -> OperationCount:
        return OperationCount(
            self.multiplications + other.multiplications,
            self.additions + other.additions,
            self.divisions + other.divisions,
            self.square_roots + other.square_roots,
        )

    def __sub__(self, other: OperationCount) -> OperationCount:
        return self + -1 * other

    def __rmul__(self, times: int) -> OperationCount:
        return OperationCount(
            times * self.multiplications,
            times * self.additions,
            times * self.divisions,
            times * self.square_roots,
        )

    def __str__(self) -> str:
        parts = (
            (self.multiplications, "m"),
            (self.additions, "a"),
            (self.divisions, "d"),
            (self.square_roots, "s"),
        )
        return " + ".join(f"{number}{letter}" for number, letter in parts if number) or "0"


@final
class Tally:
    """Counter shared by the scalars it makes."""

    def __init__(self) -> None:
        self.multiplications = self.additions = self.divisions = self.square_roots = 0

    @property
    def count(self) -> OperationCount:
        """Operations executed so far."""
        return OperationCount(
            self.multiplications, self.additions, self.divisions, self.square_roots
        )

    def scalars(self, values: ArrayLike) -> ScalarArray:
        """Object array of counting scalars with the given values."""
        numbers = np.asarray(values, dtype=np.float64)
        out = np.empty(numbers.shape, dtype=object)
        for index, value in np.ndenumerate(numbers):
            out[index] = Counted(float(value), self)
        return out


@final
class Counted:
    """A number with a tally."""

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Tally) -> None:
        self.value = value
        self.tally = tally

    def _of(self, value: float) -> Counted:
        return Counted(value, self.tally)

    def __float__(self) -> float:
        return self.value

    def __neg__(self) -> Counted:
        return self._of(-self.value)

    def __add__(self, other: Any) -> Counted:
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.tally.additions += 1
        return self._of(self.value + float(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Counted:
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.tally.additions += 1
        return self._of(self.value - float(other))

    def __rsub__(self, other: Any) -> Counted:
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.tally.additions += 1
        return self._of(float(other) - self.value)

    def __mul__(self, other: Any) -> Counted:
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.tally.multiplications += 1
        return self._of(self.value * float(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Counted:
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.tally.divisions += 1
        return self._of(self.value / float(other))

    def __rtruediv__(self, other: Any) -> Counted:
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.tally.divisions += 1
        return self._of(float(other) / self.value)

    def sqrt(self) -> Counted:
        """Square root; what ``np.sqrt`` calls."""
        self.tally.square_roots += 1
        return self._of(self.value**0.5)

    def __repr__(self) -> str:
        return f"Counted({self.value!r})"


# ---- formulas found from counts ----------------------------------------------------------


def exact_fit(
    terms: Sequence[Sequence[int]], counts: Sequence[int | Fraction]
) -> list[Fraction]:
    """Coefficients c (k,) with terms (s, k) c = counts (s,), in exact arithmetic.

    Raises
    ------
    ValueError
        If none fit every sample, or more than one.

    Examples
    --------
    >>> written_out(("n^2", "n"), exact_fit([(1, 1), (4, 2), (9, 3)], [0, 1, 3]))
    '(n^2 - n)/2'
    """
    rows = [[Fraction(x) for x in (*t, y)] for t, y in zip(terms, counts, strict=True)]
    size = len(terms[0])
    for k in range(size):
        found = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if found is None:
            raise ValueError(f"{len(rows)} samples leave coefficient {k} of {size} open")
        pivot = rows.pop(found)
        pivot = [x / pivot[k] for x in pivot]
        rows = [[x - row[k] * p for x, p in zip(row, pivot, strict=True)] for row in rows]
        rows.insert(k, pivot)
    if any(row[size] for row in rows[size:]):
        raise ValueError("no coefficients fit every count")
    return [row[size] for row in rows[:size]]


def written_out(names: Sequence[str], coefficients: Sequence[Fraction]) -> str:
    """The sum of coefficients times names, over one denominator; "" names the constant."""
    below = lcm(*(c.denominator for c in coefficients))
    text = ""
    for name, c in zip(names, coefficients, strict=True):
        if c:
            number = abs(int(c * below))
            sign = " - " if c < 0 else " + "
            text += sign + (name if name and number == 1 else f"{number}{name}")
    text = text.removeprefix(" + ").lstrip() or "0"
    return text if below == 1 else f"({text})/{below}"
