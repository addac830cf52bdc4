"""How far an estimate can be trusted: bounds on its error, computed after the fact.

The error is that against the exact solution of the problem as it is posed: laws and readings
without noise hold exactly, the others in the sense of weighted least squares, and every number
given is taken as exact. It comes from float64, not from the sensors; what these leave open is
``Estimate.std``.

With the laws solved for what they determine, d = T z + d_0, the readings are B z = c and the
exact estimate meets the saddle system of :mod:`dynsys.plan.saddle`, in reduced unknowns

    [ C    B ] [lambda]   [ c ]
    [ B^T  0 ] [  z   ] = [ 0 ]        K x = b

B and c are built in extended precision. For any matrix R, best one close to the inverse of K,
and any x,

    exact x - x = R (b - K x) + G (exact x - x),        G = 1 - R K,

so that, with v = |R| (|b - K x| + delta), any s >= v and gamma the largest entry of |G| s / s,

    |error of x| <= v + |G| s / (1 - gamma),
    |error of W x| <= |A| (|b - K x| + delta) + |W - A K| |error of x|,    A = W R.

delta is one unit in the last place of float64 of all that adds up in a row. Where gamma is not
well below one, K is singular to rounding and there is no bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.linalg import qr

from dynsys.plan.saddle import dense_saddle
from dynsys.system.equations import Kinematics
from dynsys.system.response import read_blocks
from dynsys.system.size import reading_sizes
from dynsys.types import Array, BoolArray, IntArray, ScalarArray
from problems.estimation.estimator import AbstractPosterior, ReducedPosterior
from problems.measured.measured_system import QUANTITIES, MeasuredSystem, Quantity
from problems.measured.reduced import RANK_TOLERANCE
from problems.trust import EPS, EPS_EXTENDED, EXTENDED, unit_quaternions

__all__ = ["EstimateTrust", "judge_estimate", "stacked_estimates"]

MOVED = 4 * EPS
"""Part of its reach by which an unseen direction may move a quantity, or a reading."""

DEPENDENT = 1e-14
"""Exact rows that are this close to combinations of others repeat them."""

LARGEST_EXTENDED = 500
"""Rows of K up to which G is computed in extended precision: cubic, and not by LAPACK."""

FLOOR = 1e-3
"""Part of the largest error, in natural units, that s has everywhere."""

LARGEST_GAMMA = 0.5
"""Beyond this, too little of R is known to be right."""

TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class EstimateTrust:
    """Bounds on the rounding errors of an estimate; with a leading axis N for a batch.

    Attributes
    ----------
    error : quantity to bounds on |estimate - exact estimate|: (nv,) for torque and qdd, else
        (n_bodies, 6). NaN where the quantity is undetermined, infinite where the equations are
        singular to rounding.
    relative_error : the larger of those of torque and qdd, each relative to its largest entry.
    backward_error : largest residual of a reading or an optimality condition at the answer,
        relative to the sum of the magnitudes in it: 1e-16 is as good as float64 gets.
    condition : of the optimality conditions in the open unknowns (qdd, external wrenches), rows
        and columns brought to unit size, open directions pinned; infinite where singular.
    """

    error: Mapping[Quantity, Array]
    relative_error: float | Array
    backward_error: float | Array
    condition: float | Array

    @property
    def torque_error(self) -> Array:
        """Bounds (nv,) on the errors of the torques."""
        return self.error["torque"]

    @property
    def qdd_error(self) -> Array:
        """Bounds (nv,) on the errors of the joint accelerations."""
        return self.error["qdd"]

    def __str__(self) -> str:
        numbers = (self.relative_error, self.backward_error, self.condition)
        worst = [float(np.max(x)) for x in numbers]
        return (
            f"relative error below {worst[0]:.1e}, backward error {worst[1]:.1e},"
            f" condition {worst[2]:.1e}"
        )


def judge_estimate(
    measured: MeasuredSystem,
    state: tuple[Array, Array, Array],
    answers: Mapping[Quantity, Array],
    posterior: AbstractPosterior,
) -> EstimateTrust:
    """Judge the quantities of an estimate at a state q, qd, rows (NaN where missing).

    ``posterior`` tells which directions are open, and where along them the answer stands.
    """
    z = _open_values(measured, answers, posterior)
    null = np.zeros((len(z), 0))
    if isinstance(posterior, ReducedPosterior):
        rank, left = posterior.minimiser.rank, posterior.stated.left
        null = np.zeros((len(z), rank.nullity))
        null[left] = rank.null / (rank.scale**2 * measured.units[left])[:, None]
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        optimality = Optimality(OpenProblem.at(measured, state, null, z))
        columns = measured.laws.unknowns.columns
        error = {
            kind: _errors(optimality, columns(kind), answers[kind], null.shape[1])
            for kind in QUANTITIES
        }
        relative = max(_relative(error[kind], answers[kind]) for kind in ("torque", "qdd"))
        backward = optimality.backward_error(z[optimality.problem.columns])
    return EstimateTrust(error, relative, backward, optimality.condition)


def _open_values(
    measured: MeasuredSystem, answers: Mapping[Quantity, Array], posterior: AbstractPosterior
) -> Array:
    """Open unknowns z of the answer; where it has none, the posterior's choice."""
    d = posterior.d.copy()
    for kind in ("qdd", "external_wrench"):
        columns, given = measured.laws.unknowns.columns(kind), answers[kind]
        d[columns] = np.where(np.isnan(given), d[columns], given)
    return np.asarray(d[measured.response.open_columns])


def _errors(optimality: Optimality, columns: IntArray, answer: Array, n_open: int) -> Array:
    """Bounds on the errors of the unknowns at ``columns``, in their shape."""
    problem = optimality.problem
    places, determined = columns.ravel(), ~np.isnan(answer.ravel())
    T = problem.response[places]
    W = T[:, problem.columns].astype(np.float64)
    bound = np.full(len(places), np.inf)
    if optimality.R is not None and problem.is_definite:
        z = problem.z.copy()
        z[problem.columns] = optimality.x[optimality.of_z]
        exact = T[:, :-1] @ z + T[:, -1]
        reach = problem.reach[places]
        sums = reach[:, :-1] @ np.abs(z).astype(np.float64) + reach[:, -1]
        slack = (EPS + 8 * (len(z) + 8) * EPS_EXTENDED) * sums
        missed = np.abs(answer.ravel() - exact).astype(np.float64)
        bound = missed + slack + optimality.errors(W) + TINY
        bound[_moved(optimality, W, n_open)] = np.inf
    bound = np.where(np.isnan(bound), np.inf, bound)
    return np.where(determined, bound, np.nan).reshape(columns.shape)


def _moved(optimality: Optimality, W: Array, n_open: int) -> BoolArray:
    """Tell which quantities W z move along the directions that count as open.

    A direction that the readings do see, if only just, counts as open but is not, exactly
    speaking: the answer is far off along it, and what moves along it has no bound.
    """
    if not n_open:
        return np.zeros(len(W), dtype=bool)
    m = len(optimality.problem.c)
    units = np.zeros((len(optimality.K), n_open), dtype=EXTENDED)
    units[m - n_open : m] = np.eye(n_open)
    along = optimality.solve(units)[optimality.of_z]
    units_of_z = optimality.z_scale[:, None]
    length = np.abs(along / units_of_z).max(axis=0)
    B, size = optimality.problem.B[: m - n_open], optimality.problem.B_size[: m - n_open]
    reach = size @ units_of_z * length
    seen = np.max(np.abs(B @ along) / np.where(reach > 0, reach, 1.0), axis=0, initial=0.0)
    allowed = np.where(seen > EPS, EPS * seen, MOVED)
    moved = np.abs(W @ along) > allowed * (np.abs(W) @ units_of_z * length)
    return np.asarray(moved.any(axis=1))


def _relative(error: Array, answer: Array) -> float:
    known = ~np.isnan(error)
    if not known.any():
        return 0.0
    return float(error[known].max() / max(np.abs(answer[known]).max(), TINY))


def stacked_estimates(judged: Sequence[EstimateTrust]) -> EstimateTrust:
    """Trust of a batch from that of its states."""
    return EstimateTrust(
        {kind: np.array([t.error[kind] for t in judged]) for kind in QUANTITIES},
        np.array([t.relative_error for t in judged]),
        np.array([t.backward_error for t in judged]),
        np.array([t.condition for t in judged]),
    )


# ---- the problem in extended precision ------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class OpenProblem:
    """Readings B z = c of noise C in extended precision and as few unknowns as there are.

    What exact readings say of single entries of z is put in, exact readings that repeat others
    are left out.

    Attributes
    ----------
    response, reach : [T, d_0] (n, all of z + 1), and the same summed over magnitudes.
    B, c, C : the rows that are present; B_size, c_size their terms' magnitudes, summed.
    z : (all of z,) with what is given; ``columns`` of it are unknown.
    is_definite : False where it depends on rounding which exact rows repeat others.
    """

    response: ScalarArray
    reach: Array
    B: ScalarArray
    c: ScalarArray
    C: Array
    B_size: Array
    c_size: Array
    z: ScalarArray
    columns: IntArray
    is_definite: bool

    @staticmethod
    def at(
        measured: MeasuredSystem, state: tuple[Array, Array, Array], null: Array, z: Array
    ) -> OpenProblem:
        """Problem at a state q, qd, rows; along ``null`` (all of z, k) z keeps its values."""
        q, qd, rows = state
        robot = measured.robot
        kinematics = Kinematics.at(
            robot, unit_quaternions(robot, q.astype(EXTENDED)), qd.astype(EXTENDED)
        )
        response = measured.response.at(kinematics)
        reach = measured.response.sizes.at(kinematics)
        present = ~np.isnan(rows)
        seen = read_blocks(measured.readings, kinematics, response)[present]
        sizes = reading_sizes(measured.readings, kinematics, reach)[present]
        # one row more for each open direction, which keeps the answer's place along it
        gauge, y = null.T.astype(EXTENDED), rows[present]
        k, m = len(gauge), len(y)
        B = np.concatenate([seen[:, :-1], gauge])
        c = np.concatenate([y - seen[:, -1], gauge @ z.astype(EXTENDED)])
        B_size = np.concatenate([sizes[:, :-1], np.abs(null.T)])
        c_size = np.concatenate([np.abs(y) + sizes[:, -1], np.abs(null.T) @ np.abs(z)])
        C = np.zeros((m + k, m + k))
        C[:m, :m] = measured.covariance.toarray()[np.ix_(present, present)]
        exact = ~C.any(axis=1) & (np.arange(m + k) < m)
        # exact rows with one entry give that entry, repeatedly
        given, unknown = np.zeros(len(z), dtype=EXTENDED), np.ones(len(z), dtype=bool)
        while True:
            filled = (B != 0) & unknown
            single = np.flatnonzero(exact & (filled.sum(axis=1) == 1))
            if not len(single):
                break
            columns, first = np.unique(filled[single].argmax(axis=1), return_index=True)
            given[columns] = c[single[first]] / B[single[first], columns]
            unknown[columns] = False
            c = c - B[:, columns] @ given[columns]
            c_size = c_size + B_size[:, columns] @ np.abs(given[columns]).astype(np.float64)
        left = ((B != 0) & unknown).any(axis=1)
        kept, is_definite = _independent(B[:, unknown], exact & left)
        kept |= ~exact & left
        pick = np.ix_(kept, unknown)
        return OpenProblem(
            response=response,
            reach=reach,
            B=B[pick],
            c=c[kept],
            C=C[np.ix_(kept, kept)],
            B_size=B_size[pick],
            c_size=c_size[kept],
            z=given,
            columns=np.flatnonzero(unknown),
            is_definite=is_definite,
        )


def _independent(B: ScalarArray, exact: BoolArray) -> tuple[BoolArray, bool]:
    """Exact rows that no other exact rows repeat, and whether that is beyond doubt."""
    kept = exact.copy()
    rows = np.flatnonzero(exact)
    if not len(rows):
        return kept, True
    E = B[rows] / np.sqrt((B[rows] ** 2).sum(axis=1))[:, None]
    _, R, order = qr(E.astype(np.float64).T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(R))
    rank = int((diagonal > RANK_TOLERANCE * diagonal[0]).sum())
    if rank == len(rows):
        return kept, True
    kept[rows[order[rank:]]] = False
    basis, left = E[order[:rank]], E[order[rank:]]
    for _ in range(3):
        used = np.linalg.lstsq(basis.T.astype(np.float64), left.T.astype(np.float64))[0].T
        left = left - used.astype(EXTENDED) @ basis
    return kept, bool(np.abs(left).max() <= DEPENDENT)


# ---- its optimality conditions K x = b, and how far they hold -------------------------------


@final
@dataclass(frozen=True, eq=False)
class Optimality:
    """Optimality conditions K x = b of a problem, x = (lambda, z)."""

    problem: OpenProblem

    @cached_property
    def is_square(self) -> bool:
        """True if there are as many rows as unknowns: K is B, the noise cancels."""
        m, n = self.problem.B.shape
        return bool(m == n)

    @cached_property
    def K(self) -> ScalarArray:
        """Matrix of the conditions."""
        return self._matrix(self.problem.B, self.problem.C)

    @cached_property
    def K_size(self) -> Array:
        """Sums of the magnitudes of all that adds up to its entries."""
        return self._matrix(self.problem.B_size, np.abs(self.problem.C))

    def _matrix(self, B: ScalarArray, C: Array) -> ScalarArray:
        return B if self.is_square else dense_saddle(C, B)

    @cached_property
    def b(self) -> ScalarArray:
        """Right-hand side."""
        zeros = len(self.K) - len(self.problem.c)
        return np.concatenate([self.problem.c, np.zeros(zeros)])

    @cached_property
    def of_z(self) -> slice:
        """Where z is in x."""
        return slice(len(self.K) - len(self.problem.columns), None)

    @cached_property
    def _scaled(self) -> tuple[Array, Array, Array]:
        """Rows' and columns' scales (n,) that bring K to unit size, and K so scaled."""
        K = self.K.astype(np.float64)
        rows, columns = np.ones(len(K)), np.ones(len(K))
        for _ in range(8):
            for scale, axis in ((rows, 1), (columns, 0)):
                size = np.abs(rows[:, None] * K * columns).max(axis=axis, initial=0.0)
                scale /= np.sqrt(np.where(size > 0, size, 1.0))
        if not self.is_square:
            self._balance(rows, columns, K)
        return rows, columns, rows[:, None] * K * columns

    def _balance(self, rows: Array, columns: Array, K: Array) -> None:
        """Weigh C against B by the least singular value of B: K is then no worse than B."""
        m = self.of_z.start
        B = rows[:m, None] * K[:m, m:] * columns[m:]
        is_usable = B.size and np.isfinite(B).all()
        least = np.linalg.svd(B, compute_uv=False)[-1] if is_usable else 1.0
        balance = np.sqrt(max(float(least), EPS))
        for scale in (rows, columns):
            scale[:m] *= balance
            scale[m:] /= balance

    @cached_property
    def R(self) -> Array | None:
        """An inverse of K to rounding, None if there is none."""
        rows, columns, scaled = self._scaled
        try:
            inverse = np.linalg.inv(scaled)
        except np.linalg.LinAlgError:
            return None
        found = columns[:, None] * inverse * rows
        return np.asarray(found) if np.isfinite(found).all() else None

    @property
    def z_scale(self) -> Array:
        """Natural units of z."""
        return self._scaled[1][self.of_z]

    @cached_property
    def condition(self) -> float:
        """Condition number of K, rows and columns brought to unit size."""
        rows, columns, scaled = self._scaled
        if self.R is None or not len(scaled):
            return 1.0 if not len(scaled) else np.inf
        inverse = self.R / columns[:, None] / rows
        return float(np.abs(scaled).sum(axis=1).max() * np.abs(inverse).sum(axis=1).max())

    def solve(self, b: ScalarArray) -> ScalarArray:
        """K^-1 b (n,) or (n, k), refined in extended precision."""
        assert self.R is not None
        R = self.R.astype(EXTENDED)
        x = R @ b
        for _ in range(4):
            x = x + R @ (b - self.K @ x)
        return x

    @cached_property
    def x(self) -> ScalarArray:
        """The exact estimate, as exactly as extended precision can tell."""
        return self.solve(self.b)

    @cached_property
    def sums(self) -> Array:
        """Sum of the magnitudes of all that adds up in each row of K x = b."""
        size = self.K_size @ np.abs(self.x).astype(np.float64)
        size[: len(self.problem.c_size)] += self.problem.c_size
        return np.asarray(size)

    def backward_error(self, z: Array) -> float:
        """Largest residual of K x = b at an answer's z and the exact multipliers, relative.

        Relative to the magnitudes in its row; rows in which all is zero are held against the
        others by one unit in the last place.
        """
        if self.R is None:
            return np.inf
        x, rows = self.x.copy(), self._scaled[0]
        x[self.of_z] = z
        left = np.abs(self.K @ x - self.b)
        floor = EPS * np.max(rows * self.sums, initial=0.0) / rows
        found = float(np.max(left / (self.sums + floor + TINY), initial=0.0))
        return np.inf if np.isnan(found) else found

    def errors(self, W: Array) -> Array:
        """Bounds (k,) on the errors of W z, W (k, size of z); infinite where there is none."""
        if self.R is None or not self.problem.is_definite:
            return np.full(len(W), np.inf)
        if not len(self.K):
            return np.zeros(len(W))
        error = self._spread
        A = W @ self.R[self.of_z]
        scalar = self._scalar
        left = -(A.astype(scalar) @ self.K.astype(scalar))
        left[:, self.of_z] += W
        doubt = self._doubt + self._slack * (self.K_size @ error)
        return np.asarray(np.abs(A) @ doubt + np.abs(left).astype(np.float64) @ error)

    @cached_property
    def _scalar(self) -> type[np.floating[Any]]:
        return EXTENDED if len(self.K) <= LARGEST_EXTENDED else np.float64

    @cached_property
    def _slack(self) -> float:
        """One unit in the last place of K, and the rounding of a product with it."""
        return EPS + len(self.K) * float(np.finfo(self._scalar).eps)

    @cached_property
    def _doubt(self) -> Array:
        """|b - K x| + delta."""
        slack = EPS + 8 * (len(self.K) + 8) * EPS_EXTENDED
        left = np.abs(self.b - self.K @ self.x).astype(np.float64)
        return np.asarray(left + slack * self.sums + TINY)

    @cached_property
    def _spread(self) -> Array:
        """Bounds (n,) on the errors of x."""
        assert self.R is not None
        size, scalar = np.abs(self.R), self._scalar
        G = np.abs(np.eye(len(size)) - self.R.astype(scalar) @ self.K.astype(scalar))
        v, units = size @ self._doubt, self._scaled[1]
        s = v + FLOOR * np.max(v / units) * units
        Gs = G.astype(np.float64) @ s + self._slack * (size @ (self.K_size @ s))
        gamma = float(np.max(Gs / s))
        if not gamma < LARGEST_GAMMA:
            return np.full(len(v), np.inf)
        return np.asarray(v + Gs / (1 - gamma))
