"""Exact answers to judge by: the recursions over numbers of 60 decimal digits.

RNEA and ABA are written over scalars of any kind; here these are decimal numbers without
overflow or underflow. The inputs and the robot's float64 numbers are taken as exact. Estimates
solve their optimality conditions over the same numbers.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.rnea import rnea_scalars
from dynsys.system.equations import Kinematics
from dynsys.system.response import read_blocks
from dynsys.types import Array, BoolArray, ScalarArray
from problems.estimation.estimation import Estimation

__all__ = ["Wide", "exact_qdd", "exact_torque", "exact_unknowns", "unit_wide", "wide"]

DIGITS = 60
_CONTEXT = decimal.Context(
    prec=DIGITS, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[decimal.DivisionByZero]
)


def _operator(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Methods that compute self with other, and other with self; arrays do it by element."""
    operation = getattr(_CONTEXT, name)

    def forward(self: Wide, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return Wide(operation(self.value, self._of(other)))

    def reflected(self: Wide, other: Any) -> Wide:
        return Wide(operation(self._of(other), self.value))

    return forward, reflected


@final
class Wide:
    """A number of 60 digits that mixes with floats, whose value it takes exactly."""

    __slots__ = ("value",)

    def __init__(self, value: Decimal) -> None:
        self.value = value

    @staticmethod
    def _of(other: Any) -> Decimal:
        return other.value if isinstance(other, Wide) else Decimal(float(other))

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")

    def __neg__(self) -> Wide:
        return Wide(-self.value)

    def __abs__(self) -> Wide:
        return Wide(abs(self.value))

    def __float__(self) -> float:
        return float(self.value)

    def sqrt(self) -> Wide:
        """Square root."""
        return Wide(_CONTEXT.sqrt(self.value))

    def sin(self) -> Wide:
        """Sine."""
        return Wide(_cosine(self.value, shift=3))

    def cos(self) -> Wide:
        """Cosine."""
        return Wide(_cosine(self.value, shift=0))


@cache
def _half_pi(digits: int) -> Decimal:
    """Half of pi by Machin's formula, pi / 4 = 4 atan(1/5) - atan(1/239)."""
    unit: int = 10 ** (digits + 10)

    def atan_of_inverse(n: int) -> int:
        power = total = unit // n
        k = 1
        while power:
            power //= -n * n
            k += 2
            total += power // k
        return total

    quarter = 4 * atan_of_inverse(5) - atan_of_inverse(239)
    return Decimal(2 * quarter).scaleb(-(digits + 10), _precise(digits))


def _precise(digits: int) -> decimal.Context:
    return decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def _cosine(x: Decimal, shift: int) -> Decimal:
    """cos(x + shift pi / 2): reduced to a quarter turn, then by its series."""
    digits = DIGITS + 10 + max(0, x.adjusted())
    context = _precise(digits)
    turns = context.to_integral_value(context.divide(x, _half_pi(digits)))
    r = context.subtract(x, context.multiply(turns, _half_pi(digits)))
    r = _precise(DIGITS + 10).plus(r)
    quadrant = (int(turns) + shift) % 4
    context = _precise(DIGITS + 10)
    term = r if quadrant % 2 else Decimal(1)
    total, k, square = term, quadrant % 2, context.multiply(r, r)
    while term and term.adjusted() > total.adjusted() - DIGITS - 10:
        term = context.divide(context.multiply(-term, square), Decimal((k + 1) * (k + 2)))
        total = context.add(total, term)
        k += 2
    return _CONTEXT.plus(-total if quadrant in (1, 2) else total)


def wide(x: Array) -> ScalarArray:
    """Numbers as wide ones, exactly."""
    flat = [Wide(Decimal(float(value))) for value in np.ravel(x)]
    return np.array(flat, dtype=object).reshape(np.shape(x))


def unit_wide(robot: KinematicTree, q: Array) -> ScalarArray:
    """Position q, wide, its quaternions at unit norm."""
    exact = wide(q)
    for where in robot.quaternion_slices:
        norm = (exact[where] * exact[where]).sum().sqrt()
        exact[where] = exact[where] / norm
    return exact


def exact_torque(robot: KinematicTree, q: Array, qd: Array, qdd: Array) -> ScalarArray:
    """Torque (nv,) of inverse dynamics, wide."""
    return rnea_scalars(robot, unit_wide(robot, q), wide(qd), wide(qdd))


def exact_qdd(robot: KinematicTree, q: Array, qd: Array, torque: Array) -> ScalarArray:
    """Acceleration (nv,) of forward dynamics, wide.

    Raises
    ------
    decimal.DivisionByZero
        where H is singular.
    """
    return aba_scalars(robot, unit_wide(robot, q), wide(qd), wide(torque))


# ---- exact estimates: the optimality conditions -------------------------------------------
#     [ C    B ] [lambda]   [ c ]
#     [ B^T  0 ] [  z   ] = [ 0 ]        d = T z + d_0
#
# by elimination with complete pivoting. Directions without a pivot are open: z is zero there.

NO_PIVOT = 1e-28
"""Pivots below this are rounding of the model, squared; entries are of unit size."""


def exact_unknowns(problem: Estimation, q: Array, qd: Array, rows: Array) -> ScalarArray:
    """All unknowns d (n,), wide, of the exact estimate; rows as ``measured.pack`` gives."""
    measured = problem.measured
    kinematics = Kinematics.at(problem.robot, unit_wide(problem.robot, q), wide(qd))
    T = measured.response.at(kinematics, wide(np.eye(measured.needed)))
    present = ~np.isnan(rows)
    seen = read_blocks(measured.readings, kinematics, T)[present]
    C = measured.covariance.toarray()[np.ix_(present, present)]
    B, c = seen[:, :-1], wide(rows[present]) - seen[:, -1]
    z, unknown = _given(B, c, ~C.any(axis=1))
    if unknown.any():
        known = ~unknown
        c = c - B[:, known] @ z[known] if known.any() else c
        left = (B.astype(float) != 0)[:, unknown].any(axis=1)
        B, c, C = B[np.ix_(left, unknown)], c[left], wide(C[np.ix_(left, left)])
        n = B.shape[1]
        K = np.block([[C, B], [B.T, wide(np.zeros((n, n)))]])
        z[unknown] = _solve(K, np.concatenate([c, wide(np.zeros(n))]))[len(c) :]
    return T[:, :-1] @ z + T[:, -1]


def _given(B: ScalarArray, c: ScalarArray, exact: BoolArray) -> tuple[ScalarArray, BoolArray]:
    """What exact rows of one entry say of z, and which of z is left."""
    filled = B.astype(float) != 0
    z, unknown = wide(np.zeros(B.shape[1])), np.ones(B.shape[1], dtype=bool)
    for row in np.flatnonzero(exact & (filled.sum(axis=1) == 1)):
        column = int(filled[row].argmax())
        z[column], unknown[column] = c[row] / B[row, column], False
    return z, unknown


def _solve(K: ScalarArray, b: ScalarArray) -> ScalarArray:
    """K^-1 b; zero for unknowns that have no pivot."""
    n = len(K)
    scale = np.ones(n)
    size = np.abs(K.astype(float))
    for _ in range(12):
        largest = (scale[:, None] * size * scale).max(axis=1)
        scale = np.exp2(np.round(np.log2(scale / np.sqrt(np.where(largest > 0, largest, 1)))))
    K, b = K * np.outer(scale, scale), b * scale
    order, rank = np.arange(n), 0
    while rank < n:
        left = np.abs(K[rank:, rank:].astype(float))
        i, j = (int(k) + rank for k in np.unravel_index(left.argmax(), left.shape))
        if left.max() < NO_PIVOT:
            break
        K[[rank, i]], b[[rank, i]] = K[[i, rank]], b[[i, rank]]
        K[:, [rank, j]], order[[rank, j]] = K[:, [j, rank]], order[[j, rank]]
        for row in range(rank + 1, n):
            if float(K[row, rank]) != 0:
                factor = K[row, rank] / K[rank, rank]
                K[row, rank:] = K[row, rank:] - factor * K[rank, rank:]
                b[row] = b[row] - factor * b[rank]
        rank += 1
    x = wide(np.zeros(n))
    for k in reversed(range(rank)):
        found = b[k] - K[k, k + 1 :] @ x[order[k + 1 :]] if k + 1 < n else b[k]
        x[order[k]] = found / K[k, k]
    return x * scale
