"""Derivatives of estimates: how what is estimated changes with q, qd, y and parameters. Exact.

The estimate solves the symmetric system of :mod:`dynsys.plan.saddle`, K x = r:

    C lambda + Y d = y - b_Y        Y^T lambda + D^T nu = 0        D d = -b_D

Differentiated, K dx = dr - dK x: the same matrix. Any c . d changes by a . (dr - dK x) where
K a = c, one solve for each estimated number whatever the number of variables; a by itself says
how the number follows the readings. K is symmetric, so these solves are those that give its
standard deviation. D, Y and b move with q and qd by the chain rule over their recorded values,
q along v in ``robot.integrate(q, v, 1)``; in parameters of the robot they are linear.

As many readings as needed or more, missing ones too. Where K is singular, because readings
leave something open or repeat each other, the factors of the estimator stand in for it: numbers
that these do not call determined have NaN for derivatives, all others have some.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

from dynsys.errors import ContradictionError, KernelBuildError
from dynsys.interop.functions import PlainFunction
from dynsys.interop.questions import EstimationProblem
from dynsys.kernel.build import kernel_from
from dynsys.kernel.kernel import Kernel
from dynsys.loops import prefer_loops
from dynsys.model.natural import NaturalUnits
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import sample_states
from dynsys.program.derivatives import jvp_program
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.system.linear_system import LinearSystem
from dynsys.system.size import without_rounding
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, BoolArray, IntArray, ScalarArray
from problems.estimation.assembly import Assembly
from problems.estimation.estimate import AbstractQuantities
from problems.estimation.estimator import Estimator, ReducedPosterior
from problems.estimation.factors import SuperLUFactors
from problems.measured.measured_system import Equations, MeasuredSystem, Quantity
from problems.measured.prior import prior_rows
from problems.measured.reduced import RANK_TOLERANCE, row_size

__all__ = [
    "BatchSlopes",
    "EstimateDerivatives",
    "EstimatorSlopes",
    "QuantityDerivatives",
    "StateSlopes",
]

COMPILED_FROM, TOGETHER = 64, 256
"""States of a batch from which a kernel pays, and states that go through it together."""
PATIENCE = 100
"""States whose program is evaluated before code for it is compiled, which takes seconds."""


# ---- what a caller gets ----------------------------------------------------------------------


@final
class QuantityDerivatives:
    """Derivatives of one quantity, rows in the order of its ``array`` in an estimate.

    ``q`` and ``qd`` (..., nv), ``y`` (..., size of the layout), zero for missing readings,
    ``parameters`` (..., names); in front (nv,) for torque and qdd, (n_bodies, 6) for the
    others, and N before that for a batch. NaN where the quantity is not determined.
    """

    __slots__ = ("_columns", "_slopes")

    def __init__(self, slopes: StateSlopes | QuantitySlopes, columns: IntArray) -> None:
        self._slopes, self._columns = slopes, columns

    def _shaped(self, found: Array) -> Array:
        return found.reshape(*found.shape[:-2], *self._columns.shape, found.shape[-1])

    @property
    def _by_state(self) -> Array:
        return self._shaped(self._slopes.by_state(self._columns.ravel()))

    @property
    def q(self) -> Array:
        """By position, along v in ``robot.integrate(q, v, 1)``."""
        return self._by_state[..., : self._slopes.nv]

    @property
    def qd(self) -> Array:
        """By velocity."""
        return self._by_state[..., self._slopes.nv :]

    @property
    def y(self) -> Array:
        """By every reading, in the order of the layout."""
        return self._shaped(self._slopes.by_readings(self._columns.ravel()))

    @property
    def parameters(self) -> Array:
        """By the parameters that were named, in this order."""
        return self._shaped(self._slopes.by_parameters(self._columns.ravel()))

    def __repr__(self) -> str:
        return f"QuantityDerivatives(rows {self._columns.shape}, by q, qd, y and parameters)"


@final
class EstimateDerivatives(AbstractQuantities[QuantityDerivatives]):
    """Derivatives of what is estimated at one state or N, by quantity, found when asked for.

    ``J.torque.q`` (nv, nv), ``J.external_wrench.y`` (n_bodies, 6, size of the layout) ...
    """

    __slots__ = ("_columns", "_slopes")

    def __init__(self, slopes: StateSlopes | BatchSlopes, unknowns: UnknownLayout) -> None:
        self._slopes, self._columns = slopes, unknowns

    def about(self, quantity: Quantity) -> QuantityDerivatives:
        slopes, columns = self._slopes, self._columns.columns(quantity)
        if isinstance(slopes, BatchSlopes):
            return QuantityDerivatives(slopes.of(quantity, columns), columns)
        return QuantityDerivatives(slopes, columns)

    def __repr__(self) -> str:
        return "EstimateDerivatives(torque, qdd, acceleration, joint_wrench, external_wrench)"


# ---- one state -----------------------------------------------------------------------------


@final
class StateSlopes:
    """K and x at one state, and what they say of numbers d[columns]."""

    def __init__(
        self, slopes: EstimatorSlopes, q: Array, qd: Array, rows: Array, names: Sequence[str]
    ) -> None:
        self._of, self._q, self._qd, self._names = slopes, q, qd, tuple(names)
        present = ~np.isnan(rows)
        self.nv = len(qd)
        measured = slopes.measured
        data, b = slopes.assembly.at(q, qd)
        laws, (Y, b_Y) = measured.parts(data, b)
        c = np.where(present, np.where(present, rows, 0.0) - b_Y, 0.0)
        regular = RegularSaddle(slopes, laws, Y, present)
        solution = regular.solution(c)
        self._saddle: RegularSaddle | OpenSaddle = regular
        if solution is None:
            found = Estimator(measured).at(q, qd, rows, statements=False)
            self._saddle = OpenSaddle(found, laws[0], Y, measured.response.open_columns)
            solution = self._saddle.solution()
        self.d, self._multipliers = solution.unknowns[0], solution.multipliers[0]
        self._adjoints: dict[bytes, Lines] = {}

    def _adjoint(self, columns: IntArray, combination: Array | None = None) -> Lines:
        """K^-1 of the lines of d[columns], or of combinations: found once."""
        rows = np.eye(len(columns)) if combination is None else combination
        key = columns.tobytes() + rows.tobytes()
        if key not in self._adjoints:
            wanted = np.zeros((len(rows), len(self.d)))
            wanted[:, columns] = rows
            self._adjoints[key] = self._saddle.inverse(wanted)
        return self._adjoints[key]

    def _followed(self, adjoint: Lines, of_rows: Array, of_unknowns: Array) -> Array:
        """a . (dr - dK x) (k, variables).

        ``of_rows`` (laws and readings, variables) is how D d + b_D and Y d + b_Y move at fixed
        d, ``of_unknowns`` (n, variables) how D^T nu + Y^T lambda does at fixed multipliers.
        """
        return -(adjoint.multipliers @ of_rows + adjoint.unknowns @ of_unknowns)

    def by_state(self, columns: IntArray, combination: Array | None = None) -> Array:
        """Derivatives (k, 2 nv) of d[columns], or combination @ d[columns], by q and qd.

        NaN rows where that is not determined.
        """
        return self._followed(self._adjoint(columns, combination), *self._moves)

    @cached_property
    def _moves(self) -> tuple[Array, Array]:
        return self._of.moves(self._q, self._qd, self.d, self._multipliers)

    def by_readings(self, columns: IntArray) -> Array:
        """Derivatives (k, size of the layout) of d[columns] by y."""
        n_laws = self._of.measured.laws.shape[0]
        found = self._adjoint(columns).multipliers[:, n_laws:]
        return found[:, : self._of.measured.layout.size]

    def by_parameters(self, columns: IntArray) -> Array:
        """Derivatives (k, names) of d[columns] by parameters of the robot."""
        if not self._names:
            return np.zeros((len(columns), 0))
        of_rows, of_unknowns = [], []
        for name in self._names:
            (A, b), (A_more, b_more) = self._of.beside(name, self._q, self._qd)
            dA = A_more - A  # linear: a step of one is the derivative
            of_rows.append(dA @ self.d + b_more - b)
            of_unknowns.append(dA.T @ self._multipliers)
        moved = np.array(of_rows).T, np.array(of_unknowns).T
        return self._followed(self._adjoint(columns), *moved)


# ---- the symmetric system --------------------------------------------------------------------


class Lines(NamedTuple):
    """Some K^-1 r: ``multipliers`` (k, laws and readings) nu and lambda, ``unknowns`` (k, n) d.

    Of the system as it is, not as it is scaled.
    """

    multipliers: Array
    unknowns: Array


@final
class RegularSaddle:
    """K at a state, factorised; readings that are missing have lambda = 0."""

    def __init__(
        self, slopes: EstimatorSlopes, laws: Equations, Y: csc_array[Any], present: BoolArray
    ) -> None:
        self._factors, self._b = slopes.factors, laws[1]
        self._saddle = slopes.saddle.at(laws[0].data, Y.data, present)
        self._reading_scale = np.where(present, self._saddle.reading_scale, 0.0)

    def _lines(self, x: Array) -> Lines:
        lines, saddle = self._saddle.lines, self._saddle
        nu, readings = x[lines.laws].T * saddle.law_scale, x[lines.readings].T
        return Lines(np.hstack([nu, readings * self._reading_scale]), x[lines.unknowns].T)

    def _factorised(self) -> bool:
        """Whether K is regular; its factors are the current ones then."""
        K = self._saddle.matrix
        return getattr(self._factors, "current", None) is K or self._factors.factor(K)

    def solution(self, c: Array) -> Lines | None:
        """The estimate for c = y - b_Y; None where K is singular to rounding."""
        if not self._factorised():
            return None
        x = self._factors.solve(self._saddle.right_side(c, self._b)[:, None])
        return self._lines(x) if np.isfinite(x).all() else None

    def inverse(self, wanted: Array) -> Lines:
        """K^-1 of the lines of numbers wanted @ d."""
        self._factorised()
        unit = np.zeros((self._saddle.lines.size, len(wanted)))
        unit[self._saddle.lines.unknowns] = wanted.T
        return self._lines(self._factors.solve(unit))


@final
class OpenSaddle:
    """What K^-1 says of determined numbers where K is singular.

    With d = T z, B = Y T, noisy and exact combinations N and E of the readings, of unit noise
    and of none, covariance P P^T of z, and c the row of a number c . d, t = T^T c:

        z = -P P^T t,    lambda = -N^T (N B z) + E^T mu,    (E B)^T mu = t + (N B)^T (N B z)

    and D^T nu = c - Y^T lambda. The estimate itself has the residuals of the noisy combinations
    in the place of -N B z, and t = c = 0.
    """

    def __init__(
        self, posterior: ReducedPosterior, D: csc_array[Any], Y: csc_array[Any], z: IntArray
    ) -> None:
        self._posterior, self._Y = posterior, Y
        self._closed = np.setdiff1d(np.arange(D.shape[1]), z)
        self._laws = splu(csc_array(D[:, self._closed].T))
        exact, self._noisy = posterior.whitened.times(posterior.rows.B)
        size = posterior.whitened.sizes(posterior.rows.B_size)[0]
        self._weight = 1.0 / np.where(row_size(size) > 0, row_size(size), 1.0)
        self._scale = posterior.minimiser.rank.scale
        self._exact = without_rounding(exact, size) * self._weight[:, None] * self._scale

    def solution(self) -> Lines:
        """The estimate."""
        found = self._posterior
        noisy = found.minimiser.residual[None]
        return self._lines(noisy, np.zeros((1, len(found.d))), found.d[None])

    def inverse(self, wanted: Array) -> Lines:
        """K^-1 of the lines of numbers wanted @ d; NaN where that is not determined."""
        T, P = self._posterior.rows.T, self._posterior.minimiser.deviation
        seen = (wanted @ T) @ P
        found = self._lines(seen @ (self._noisy @ P).T, wanted, -(seen @ P.T) @ T.T)
        is_open = ~self._posterior.determined(wanted, np.arange(wanted.shape[1]))
        for part in found:
            part[is_open] = np.nan
        return found

    def _lines(self, noisy: Array, wanted: Array, unknowns: Array) -> Lines:
        """All multipliers from those of the noisy combinations (k, w)."""
        whitened = self._posterior.whitened
        left = (wanted @ self._posterior.rows.T - noisy @ self._noisy) * self._scale
        mu = np.linalg.lstsq(self._exact.T, left.T, rcond=RANK_TOLERANCE)[0].T * self._weight
        readings = np.asarray(noisy @ whitened.noisy + mu @ whitened.exact)
        left = (wanted - np.asarray(readings @ self._Y))[:, self._closed]
        return Lines(np.hstack([self._laws.solve(left.T).T, readings]), unknowns)


# ---- many states ---------------------------------------------------------------------------


@final
class BatchSlopes:
    """Derivatives at N states: of each estimated number its gradient, by one kernel.

    The kernel differentiates the compiled estimator in reverse
    (:class:`dynsys.interop.functions.PlainFunction`), SIMD over states and numbers. States that
    it does not answer, missing readings among them, go one by one; all of a small batch do, for
    the kernel takes seconds to compile.
    """

    def __init__(
        self, slopes: EstimatorSlopes, q: Array, qd: Array, rows: Array, names: Sequence[str]
    ) -> None:
        self._of, self._names = slopes, tuple(names)
        self.q, self.qd, self.rows = q, qd, rows
        self._found: dict[str, QuantitySlopes] = {}

    def of(self, quantity: Quantity, columns: IntArray) -> QuantitySlopes:
        """Slopes of one quantity: found once."""
        if quantity not in self._found:
            kernel = None
            if len(self.q) >= COMPILED_FROM:
                kernel = self._of.gradient(quantity, self._names)
            ends = np.cumsum([len(self.qd[0]), len(self.qd[0]), self._of.measured.layout.size])
            parts = np.split(self._rows(kernel, columns.ravel()), ends[1:], axis=2)
            self._found[quantity] = QuantitySlopes(int(ends[0]), *parts)
        return self._found[quantity]

    def _rows(self, kernel: Kernel | None, columns: IntArray) -> Array:
        """Derivatives (N, k, nv + nv + size of the layout + names) of d[columns]."""
        n, k, size = len(self.q), len(columns), self._of.measured.layout.size
        out = np.full((n, k, 2 * self.qd.shape[1] + size + len(self._names)), np.nan)
        for start in range(0, n if kernel is not None else 0, TOGETHER):
            assert kernel is not None
            some = slice(start, start + TOGETHER)
            state = [self.q[some], self.qd[some], self.rows[some, :size]]
            if self._names:
                values = [self._of.measured.robot.parameters[x] for x in self._names]
                state.append(np.tile(values, (len(state[0]), 1)))
            inputs = [np.repeat(x, k, axis=0) for x in state]
            weights = np.tile(np.eye(k), (len(state[0]), 1))
            found, _ = kernel.batch(*inputs, weights)
            by_q, *rest = (x.reshape(len(state[0]), k, x.shape[1]) for x in found)
            T = np.array([self._of.measured.robot.tangent(q) for q in state[0]])
            out[some] = np.concatenate([by_q @ T, *rest], axis=2)
        for i in np.flatnonzero(~np.isfinite(out).all(axis=(1, 2))).tolist():
            try:
                at = self._of.at(self.q[i], self.qd[i], self.rows[i], self._names)
            except ContradictionError as error:
                raise ContradictionError(f"state {i}: {error}") from None
            parts = at.by_state(columns), at.by_readings(columns), at.by_parameters(columns)
            out[i] = np.concatenate(parts, axis=1)
        return out


@final
class QuantitySlopes:
    """Derivatives (N, k, ...) of one quantity at N states: those of a :class:`StateSlopes`."""

    def __init__(self, nv: int, state: Array, readings: Array, parameters: Array) -> None:
        self.nv, self._state = nv, state
        self._readings, self._parameters = readings, parameters

    def by_state(self, columns: IntArray) -> Array:
        """By q and qd (N, k, 2 nv)."""
        return self._state

    def by_readings(self, columns: IntArray) -> Array:
        """By y (N, k, size of the layout)."""
        return self._readings

    def by_parameters(self, columns: IntArray) -> Array:
        """By the parameters that were named (N, k, names)."""
        return self._parameters


# ---- one estimator -------------------------------------------------------------------------


@final
class EstimatorSlopes:
    """What derivatives at all states of an estimation share: patterns, recorded values."""

    def __init__(self, measured: MeasuredSystem, problem: EstimationProblem) -> None:
        self.measured, self._problem = measured, problem
        self._gradients: dict[tuple[str, ...], Kernel | None] = {}
        self.saddle = self.measured.saddle()
        self.assembly = Assembly(self.measured)
        self.factors = SuperLUFactors()
        self._beside: dict[str, tuple[LinearSystem, ...]] = {}
        self._patience = PATIENCE

    def at(self, q: Array, qd: Array, rows: Array, names: Sequence[str] = ()) -> StateSlopes:
        """What derivatives at one state need; ``rows`` as for ``Estimation.posterior``."""
        return StateSlopes(self, q, qd, rows, names)

    def gradient(self, quantity: Quantity, names: tuple[str, ...]) -> Kernel | None:
        """Kernel of the gradient of a weighted quantity; None if the layout has none."""
        key = quantity, *names
        if key not in self._gradients:
            try:
                f = PlainFunction(self._problem, answer=quantity, parameters=names)
                self._gradients[key] = f.gradient
            except KernelBuildError:
                self._gradients[key] = None
        return self._gradients[key]

    # ---- how D, Y and b move with q and qd -----------------------------------------------

    def moves(self, q: Array, qd: Array, d: Array, multipliers: Array) -> tuple[Array, Array]:
        """See :meth:`StateSlopes._followed`, by q and qd: (rows, 2 nv) and (n, 2 nv)."""
        whole, nv = self.measured.whole, len(qd)
        directions = np.eye(2 * nv)
        state = np.tile(np.concatenate([q, qd]), (2 * nv, 1))
        entries, b = self._moved(state, directions)
        rows = whole.indices
        columns = np.repeat(np.arange(whole.shape[1]), np.diff(whole.indptr))
        each, (m, n) = np.arange(whole.nnz), whole.shape
        onto_rows = csr_array((d[columns], (rows, each)), shape=(m, whole.nnz))
        onto_unknowns = csr_array((multipliers[rows], (columns, each)), shape=(n, whole.nnz))
        of_rows, of_unknowns = onto_rows @ entries.T + b.T, onto_unknowns @ entries.T
        return np.asarray(of_rows), np.asarray(of_unknowns)

    def _moved(self, state: Array, directions: Array) -> tuple[Array, Array]:
        """How entries of [D; Y] and b change along directions, a row each."""
        nq, nnz = self.measured.robot.nq, self.measured.whole.nnz
        self._patience -= 1
        if self._patience >= 0 or prefer_loops(self.measured.robot):
            found = self._program.evaluate(np.hstack([state, directions]))
            return found[:, :nnz], found[:, nnz:]
        (entries, b), _ = self._code.batch(state[:, :nq], state[:, nq:], directions)
        return entries, b

    @cached_property
    def _code(self) -> Kernel:
        """Machine code of the program."""
        measured = self.measured
        robot, whole = measured.robot, measured.whole
        inputs = (("q", robot.nq), ("qd", robot.nv), ("direction", 2 * robot.nv))
        outputs = (("entries", whole.nnz), ("b", whole.shape[0]))
        made_from = ("moving assembly", *measured.identity)
        states = sample_states(robot, 3, 7, np.tile(NaturalUnits(robot).motion, 2))
        return kernel_from(lambda: self._program, Signature(inputs, outputs), states, made_from)

    @cached_property
    def _program(self) -> Program:
        robot = self.measured.robot

        def directions(x: ScalarArray, v: ScalarArray) -> ScalarArray:
            moved = robot.tangent(x[: robot.nq]) @ v[: robot.nv]
            return np.concatenate([moved, v[robot.nv :]])

        try:
            program = self.assembly.program()
        except TypeError as error:
            raise KernelBuildError(
                "a sensor of the layout computes with numbers only, so its rows cannot be"
                f" differentiated: {error}"
            ) from None
        return jvp_program(program, directions, 2 * robot.nv)

    # ---- parameters ----------------------------------------------------------------------

    def beside(self, name: str, q: Array, qd: Array) -> tuple[Equations, Equations]:
        """[D; Y] and b without y at a state; the same with one parameter larger by one."""
        if name not in self._beside:
            robot = self.measured.robot
            value = robot.parameters[name]
            self._beside[name] = tuple(
                self._whole(robot.with_parameters({name: x}, physical=False))
                for x in (value, value + 1.0)
            )
        found = [system.assemble(q, qd) for system in self._beside[name]]
        return found[0], found[1]

    def _whole(self, robot: KinematicTree) -> LinearSystem:
        """Laws of a robot, readings of the layout's sensors on it."""
        measured = self.measured
        laws = LinearSystem(robot, net_wrench=measured.laws.unknowns.net_wrench)
        rows = [b for sensor in measured.layout for b in sensor.blocks(laws.unknowns)]
        return laws.with_equations(
            [*rows, *prior_rows(measured.prior, laws.unknowns).equations]
        )
