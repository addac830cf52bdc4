"""What a layout says at a state, found densely in extended precision: the oracle of estimates.

    laws and exact readings   E d = e                  D d + b_D = 0,  Y d + b_Y = y
    the others, whitened      N d = t + unit noise

E and N are the rows of the whole system as they are assembled, all unknowns d, nothing reduced,
eliminated or compiled. Householder's reflectors with column pivoting decide ranks and solve, in
long double; the gap between what is seen (``least``) and rounding must be wide. At right angles
the kinematics are rounded to the right angle first, so that nothing cancels but exactly.

Cost O(n^3), slow: 20 ms for five bodies, seconds for a humanoid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import velocities
from dynsys.system.equations import Kinematics
from dynsys.types import Array, BoolArray, IntArray, ScalarArray
from problems.measured.measured_system import MeasuredSystem
from problems.trust import unit_quaternions

__all__ = ["Truth", "kinematics_at", "reading_map", "truth_at"]

SEEN, NOISE = 1e-8, 1e-14
"""Pivots above the first are seen, below the second they are rounding; between is a doubt."""
GRID = 1024.0
"""Lengths of an aligned robot are multiples of one in so many."""
CONTRADICTS = 1e-8
Wide = np.longdouble


@final
@dataclass(frozen=True, eq=False)
class Truth:
    """What is true of all unknowns d.

    Attributes
    ----------
    d, std : (n,) values and deviations, meaningless where not ``determined`` (n,).
    chi_square, degrees_of_freedom : of the noisy readings.
    contradiction : largest miss of an exact row, in parts of its terms.
    least : smallest pivot that counts as seen; ``doubtful`` if that is not beyond doubt.
    """

    d: Array
    std: Array
    determined: BoolArray
    chi_square: float
    degrees_of_freedom: int
    contradiction: float
    least: float
    doubtful: bool

    @property
    def contradicts(self) -> bool:
        """Whether exact readings contradict each other."""
        return self.contradiction > CONTRADICTS


def kinematics_at(robot: KinematicTree, q: Array, qd: Array, *, aligned: bool) -> Kinematics:
    """Kinematics in long double; of an aligned robot at right angles without any rounding."""
    wide = unit_quaternions(robot, q.astype(Wide))
    found = Kinematics.at(robot, wide, qd.astype(Wide))
    if not aligned:
        return found
    X = tuple(
        Transform(np.round(X.E), np.round(X.r * Wide(GRID)) / Wide(GRID))
        for X in found.transforms
    )
    matrices = tuple(one.matrix() for one in X)
    return Kinematics(robot, found.qd, X, matrices, tuple(velocities(robot, X, found.qd)))


def reading_map(measured: MeasuredSystem, kinematics: Kinematics) -> tuple[Array, Array]:
    """B (m, size of z) and b (m,): readings B z + b without noise of motion and wrenches z."""
    D, b_D, Y, b_Y = _dense(measured, kinematics)
    z = measured.laws.open_columns
    others = np.setdiff1d(np.arange(D.shape[1]), z)
    solved = _Factors.of(D[:, others]).solve(-np.column_stack([D[:, z], b_D]))
    found = Y[:, others] @ solved + np.column_stack([Y[:, z], b_Y])
    return found[:, :-1].astype(np.float64), found[:, -1].astype(np.float64)


def truth_at(measured: MeasuredSystem, kinematics: Kinematics, rows: Array) -> Truth:
    """What readings ``rows`` (m,), NaN where there is none, say at a state."""
    D, b_D, Y, b_Y = _dense(measured, kinematics)
    there = ~np.isnan(rows)
    noisy = there & (measured.variance > 0)
    exact = there & ~noisy
    E, e = np.vstack([D, Y[exact]]), np.concatenate([-b_D, (rows - b_Y)[exact]])
    N, t = Y[noisy], (rows - b_Y)[noisy]
    L = _cholesky(measured.covariance.toarray()[np.ix_(noisy, noisy)].astype(Wide))
    scale, unit = _equilibrated(np.vstack([E, N]))
    E_size = np.abs(E) @ scale
    E, e = E * scale / _positive(E_size)[:, None], e / _positive(E_size)
    whole = _Factors.of((np.vstack([E, unit[len(E) :]])).T)
    null = whole.Q[:, whole.rank :]
    fixed = _Factors.of(E.T)
    # a solution of E d = e, then what the noisy readings say of what is left
    x = fixed.solve_transposed(e)
    terms = np.abs(E) @ np.abs(x) + np.abs(e)
    of_readings = len(b_D) + np.arange(int(exact.sum()))
    sums = np.abs(Y[exact]) @ np.abs(scale * x) + np.abs(b_Y[exact]) + np.abs(rows[exact])
    terms[of_readings] += sums / _positive(E_size)[of_readings]
    missed = np.abs(E @ x - e) / _positive(np.maximum(terms, 1.0))
    Z = fixed.Q[:, fixed.rank :]
    A, misfit = _lower_solve(L, N * scale @ Z), _lower_solve(L, t - N * scale @ x)
    free = whole.rank - fixed.rank
    rest = _Factors.of(A, free)
    w, deviation = rest.solve(misfit), rest.deviation
    residual = misfit - A @ w
    least = min(whole.least, fixed.least)
    return Truth(
        d=(scale * (x + Z @ w)).astype(np.float64),
        std=(scale * np.sqrt(((Z @ deviation) ** 2).sum(axis=1))).astype(np.float64),
        determined=np.asarray(np.abs(null).max(axis=1, initial=0.0) < SEEN),
        chi_square=float(residual @ residual),
        degrees_of_freedom=len(t) - free,
        contradiction=float(missed.max(initial=0.0)),
        least=least,
        doubtful=max(whole.beyond, fixed.beyond) > NOISE or least < SEEN,
    )


def _dense(
    measured: MeasuredSystem, kinematics: Kinematics
) -> tuple[ScalarArray, ScalarArray, ScalarArray, ScalarArray]:
    """D, b_D, Y, b_Y as they are assembled."""
    data, b = measured.whole.values(kinematics)
    whole = np.zeros(measured.whole.shape, dtype=Wide)
    indptr = measured.whole.indptr
    columns = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    whole[measured.whole.indices, columns] = data
    n = measured.laws.shape[0]
    return whole[:n], b[:n].astype(Wide), whole[n:], b[n:].astype(Wide)


# ---- linear algebra in long double -----------------------------------------------------------


def _positive(x: ScalarArray) -> ScalarArray:
    return np.where(x > 0, x, 1.0)


def _equilibrated(A: ScalarArray) -> tuple[ScalarArray, ScalarArray]:
    """Scale (n,) of the columns, and A with columns and then rows of unit size."""
    scale = np.ones(A.shape[1], dtype=Wide)
    rows = np.ones(len(A), dtype=Wide)
    size = np.abs(A)
    for _ in range(6):
        rows = rows / np.sqrt(_positive((rows[:, None] * size * scale).max(axis=1)))
        scale = scale / np.sqrt(_positive((rows[:, None] * size * scale).max(axis=0)))
    unit = A * scale
    return scale, unit / _positive(np.abs(unit).sum(axis=1))[:, None]


def _cholesky(C: ScalarArray) -> ScalarArray:
    L = np.zeros_like(C)
    for k in range(len(C)):
        L[k, k] = np.sqrt(C[k, k] - L[k, :k] @ L[k, :k])
        L[k + 1 :, k] = (C[k + 1 :, k] - L[k + 1 :, :k] @ L[k, :k]) / L[k, k]
    return L


def _lower_solve(L: ScalarArray, B: ScalarArray) -> ScalarArray:
    x = B.copy()
    for k in range(len(L)):
        x[k] = (x[k] - L[k, :k] @ x[:k]) / L[k, k]
    return x


@final
@dataclass(frozen=True, eq=False)
class _Factors:
    """A P = Q R by reflectors, largest column first; ``least`` pivot taken, largest beyond."""

    Q: ScalarArray
    R: ScalarArray
    order: IntArray
    rank: int
    least: float
    beyond: float

    @staticmethod
    def of(A: ScalarArray, rank: int | None = None) -> _Factors:
        """Factors of as many columns as are independent, or of ``rank`` of them."""
        m, n = A.shape
        R, Q, order = A.astype(Wide), np.eye(m, dtype=Wide), np.arange(n)
        pivots: list[float] = []
        for k in range(min(m, n)):
            norms = (R[k:, k:] ** 2).sum(axis=0)
            best = k + int(norms.argmax())
            size = float(np.sqrt(norms[best - k]))
            if size < NOISE if rank is None else k == rank:
                return _Factors(Q, R, order, k, min(pivots, default=1.0), size)
            pivots.append(size)
            R[:, [k, best]], order[[k, best]] = R[:, [best, k]], order[[best, k]]
            v = R[k:, k].copy()
            v[0] += np.copysign(np.sqrt(v @ v), v[0])
            v /= np.sqrt(v @ v)
            R[k:, k:] -= np.outer(2 * v, v @ R[k:, k:])
            Q[:, k:] -= np.outer(Q[:, k:] @ (2 * v), v)
        return _Factors(Q, R, order, min(m, n), min(pivots, default=1.0), 0.0)

    def _upper(self, B: ScalarArray) -> ScalarArray:
        x = B.copy()
        for k in reversed(range(self.rank)):
            x[k] = (x[k] - self.R[k, k + 1 : self.rank] @ x[k + 1 :]) / self.R[k, k]
        return x

    def solve(self, b: ScalarArray) -> ScalarArray:
        """A x closest to b, zero in the columns that were not taken."""
        x = np.zeros((self.R.shape[1], *b.shape[1:]), dtype=Wide)
        x[self.order[: self.rank]] = self._upper((self.Q.T @ b)[: self.rank])
        return x

    def solve_transposed(self, b: ScalarArray) -> ScalarArray:
        """Shortest x with A^T x = b in the rows of A^T that were taken."""
        R, k = self.R[: self.rank, : self.rank], self.rank
        return self.Q[:, :k] @ _lower_solve(R.T, b[self.order[:k]])

    @property
    def deviation(self) -> ScalarArray:
        """The inverse of R in the columns that were taken: covariance is its square."""
        out = np.zeros((self.R.shape[1], self.rank), dtype=Wide)
        out[self.order[: self.rank]] = self._upper(np.eye(self.rank, dtype=Wide))
        return out
