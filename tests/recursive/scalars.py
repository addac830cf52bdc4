"""Scalars that are no numbers: pairs (value, rate) that differentiate what they run through.

    (a, a') (b, b') = (a b, a b' + a' b),   cos (a, a') = (cos a, -a' sin a),   ...

An algorithm over scalars of any kind must take them as they are; the rates it returns are then
judged by finite differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynsys import KinematicTree
from dynsys.types import Array, ScalarArray

__all__ = ["Dual", "duals", "moving", "position_rates", "rates", "values"]


@dataclass(frozen=True, eq=False)
class Dual:
    """A value and its rate of change."""

    value: float
    rate: float

    def __add__(self, other: object) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy goes through the array
        b = _dual(other)
        return Dual(self.value + b.value, self.rate + b.rate)

    def __sub__(self, other: object) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy goes through the array
        b = _dual(other)
        return Dual(self.value - b.value, self.rate - b.rate)

    def __mul__(self, other: object) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy goes through the array
        b = _dual(other)
        return Dual(self.value * b.value, self.value * b.rate + self.rate * b.value)

    def __truediv__(self, other: object) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy goes through the array
        b = _dual(other)
        quotient = self.value / b.value
        return Dual(quotient, (self.rate - quotient * b.rate) / b.value)

    def __rsub__(self, other: object) -> Dual:
        return _dual(other) - self

    def __rtruediv__(self, other: object) -> Dual:
        return _dual(other) / self

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.rate)

    def cos(self) -> Dual:
        """Cosine; numpy calls it by this name."""
        return Dual(float(np.cos(self.value)), -self.rate * float(np.sin(self.value)))

    def sin(self) -> Dual:
        """Sine; numpy calls it by this name."""
        return Dual(float(np.sin(self.value)), self.rate * float(np.cos(self.value)))

    __radd__ = __add__
    __rmul__ = __mul__


def _dual(x: object) -> Dual:
    return x if isinstance(x, Dual) else Dual(float(x), 0.0)  # type: ignore[arg-type]


def duals(value: Array, rate: Array) -> ScalarArray:
    """Array of objects (value[k], rate[k])."""
    pairs = zip(value.ravel().tolist(), rate.ravel().tolist(), strict=True)
    out = np.empty(value.shape, dtype=object)
    out.ravel()[:] = [Dual(*pair) for pair in pairs]
    return out


def values(array: ScalarArray) -> Array:
    """Values of an array of pairs, or of numbers."""
    flat = [_dual(x).value for x in array.ravel()]
    return np.array(flat).reshape(array.shape)


def rates(array: ScalarArray) -> Array:
    """Rates of an array of pairs; numbers have none."""
    flat = [_dual(x).rate for x in array.ravel()]
    return np.array(flat).reshape(array.shape)


def position_rates(robot: KinematicTree, q: Array, qd: Array, step: float = 1e-3) -> Array:
    """Rate (nq,) of q when the robot moves at qd (nv,), by differences along integrate."""
    near = robot.integrate(q, qd, step) - robot.integrate(q, qd, -step)
    far = robot.integrate(q, qd, 2 * step) - robot.integrate(q, qd, -2 * step)
    return np.asarray((8 * near - far) / (12 * step))


def moving(
    robot: KinematicTree, state: tuple[Array, Array, Array], rates: tuple[Array, Array]
) -> tuple[ScalarArray, ScalarArray, ScalarArray]:
    """q, qd and a third vector with their rates: those of q follow from qd."""
    q, qd, third = state
    of_q = duals(q, position_rates(robot, q, qd))
    return of_q, duals(qd, rates[0]), duals(third, rates[1])
