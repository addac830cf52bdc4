"""Program of as many laws and readings as unknowns: scalar LU along the pivot order of a plan.

    D d = y - b,      P D Q = L U with the pivots of the order, none exchanged

Noise cancels: what is estimated solves all equations, residuals and multipliers are zero, and
the covariance of d is W C W^T with W = D^-1 in the columns of the readings: one right-hand side
that is carried along for each noisy reading. Rows that exact ones imply, and rows without
unknowns (a gyroscope's), stand aside (:mod:`.repeated_rows`): they check the motion, and where
their noise is correlated with that of others they correct those.

An order is safe only at the states it was sampled at. So every pivot that depends on the state
and has a part in the answers is watched: where 1 / pivot^2 exceeds its median by the square of
:data:`MARGIN`, the answers are NaN, and whoever asked solves that state by pivoting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, final

import numpy as np
from scipy.sparse import coo_array

from dynsys.errors import (
    NoOrderError,
    PlanOrderError,
    SingularSystemError,
    StructurallySingularError,
)
from dynsys.plan.estimator_spec import (
    CHECKS,
    ESTIMATES,
    SIMPLIFY_SAMPLES,
    EstimatorSpec,
    PlannedEstimator,
    failures,
    guarded_estimator,
    watched_limits,
)
from dynsys.plan.lu import entries_by_row, factor_and_solve
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder, sample_values
from dynsys.plan.pivots import PlannedPivot, planned_pivots
from dynsys.plan.repeated_rows import row_checks, row_residuals
from dynsys.plan.search.price import SearchProblem, entries_and_rhs
from dynsys.plan.search.search import Search, search_order
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import Op, Program
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.parts import kind_of
from dynsys.types import Array, BoolArray

__all__ = [
    "lu_estimator",
    "lu_pivots",
    "lu_program",
    "lu_watched",
    "lu_with_limits",
    "used_outputs",
]

MARGIN = 1e3
"""How far a watched pivot may fall below its median before pivoting takes over. At 1e4 load
cells lost all but six digits at one state of 20000 without a word; at 1e3 none lost more than
seven, and pivoting takes over at two to six states of a thousand."""
THRESHOLDS = (0.5, 0.1, 0.01)
"""Least size of a pivot in its column: large ones vary less. Five watched pivots where 0.01
leaves 33, at a few per cent more operations."""
FEW = CHECKS // 50
"""States left to pivoting that are no reason for another order."""
WATCH = 5
"""Operations of watching a pivot whose reciprocal is there: its square, and the guard."""
STATES = 32


def lu_estimator(
    spec: EstimatorSpec, dtype: str = "float64", search: Search | None = None
) -> PlannedEstimator[PivotOrder]:
    """Program of the order that answers most states: searched for first, then constructed.

    Raises
    ------
    NoOrderError
        if the system is not square, has no order, or loses digits under those it has.
    """
    square = _Square(spec)
    system = square.system
    context = OrderingContext(system, sample_values(system, STATES))
    found, least = None, CHECKS // 2
    for order, found_by in _orders(spec, system, context, search):
        try:
            program = square.program(order, dtype)
        except SingularSystemError:  # values cancel that sampling took for a pivot
            continue
        failed = failures(program, spec)
        if failed < least:
            least, found = failed, PlannedEstimator(program, order, (), found_by)
        if least <= FEW:
            break
    if found is None:
        raise NoOrderError(
            f"robot {spec.robot.name!r}: no order of elimination keeps its digits"
        )
    return replace(found, pivots=planned_pivots(system, found.order, context))


def lu_pivots(spec: EstimatorSpec, order: PivotOrder) -> tuple[PlannedPivot, ...]:
    """Pivots of an order that depend on the state."""
    system = _Square(spec).system
    context = OrderingContext(system, sample_values(system, STATES))
    return planned_pivots(system, order, context)


def lu_program(spec: EstimatorSpec, order: PivotOrder, dtype: str = "float64") -> Program:
    """Program of a given order, executed as it stands.

    Raises
    ------
    PlanOrderError
        if the order is not one of this system, or a pivot of it is zero.
    """
    square = _Square(spec)
    system = square.system
    if len(order.row_order) != system.shape[0]:
        raise PlanOrderError(
            f"the order of the plan has {len(order.row_order)} pivots, robot"
            f" {spec.robot.name!r} with these sensors needs {system.shape[0]}; make a new plan"
        )
    try:
        return square.program(order, dtype)
    except SingularSystemError as error:
        raise PlanOrderError(
            f"the order of the plan cannot be executed: {error}. Make a new plan"
        ) from None


def _orders(
    spec: EstimatorSpec, system: LinearSystem, context: OrderingContext, search: Search | None
) -> Iterator[tuple[PivotOrder, str]]:
    """Orders to try, and what found them; NoOrderError if there is none."""
    try:
        if search is not None and not search.is_off:
            asked = set(map(kind_of, (*spec.outputs, *spec.uncertainty)))
            kinds = tuple(kind for kind in ESTIMATES if kind in asked) or ("torque",)
            problem = replace(SearchProblem.of(system, kinds), watch=WATCH)
            for found in search_order(problem, search, system).elite:
                yield found.order, f"{found.origin}, search, seed {search.seed}"
        for threshold in THRESHOLDS:
            ordering = BlockTriangular(Markowitz("flops", threshold=threshold))
            yield ordering.order(system.pattern(), context), ordering.name
    except (StructurallySingularError, SingularSystemError) as error:
        raise NoOrderError(f"robot {system.robot.name!r}: {error}") from None


def lu_watched(spec: EstimatorSpec, order: PivotOrder) -> Program:
    """Answers, then squares of the reciprocals of the watched pivots, without guards."""
    return _Square(spec).watched(order)


def lu_with_limits(spec: EstimatorSpec, order: PivotOrder) -> tuple[Program, list[float]]:
    """The same, and limits of these squares: for programs made of this one."""
    program = lu_watched(spec, order)
    return program, watched_limits(program, spec, MARGIN**2)


@final
class _Square:
    """The rows that an elimination works on, and those that stand aside.

    Raises
    ------
    NoOrderError
        if they are not as many as the unknowns, or may be missing.
    """

    def __init__(self, spec: EstimatorSpec) -> None:
        whole, self.spec, self.kept = spec.system, spec, spec.seeing
        laws = [block for block in whole.equations if not block.measured]
        starts = np.cumsum([0, *(block.size for block in spec.equations)])
        readings = [
            block.part(rows)
            for block, start, stop in zip(
                whole.equations[len(laws) :], starts, starts[1:], strict=False
            )
            if len(rows := self.kept[(self.kept >= start) & (self.kept < stop)] - start)
        ]
        base = LinearSystem(spec.robot, net_wrench=spec.unknowns.net_wrench)
        self.system = base.with_equations(readings)
        rows, columns = self.system.shape
        if rows != columns:
            raise NoOrderError(f"{rows} equations for {columns} unknowns: not square")
        if spec.switchable:
            raise NoOrderError("of as many equations as unknowns none may be missing")
        # y' = y + C_ka C_aa^-1 r and its covariance, r the residuals of the rows aside
        C = coo_array(spec.covariance).toarray()
        others = np.setdiff1d(np.arange(spec.n_rows), self.kept)
        self.aside = np.setdiff1d(others, spec.repeated)
        self.information: Array = np.asarray(np.linalg.inv(C[np.ix_(self.aside, self.aside)]))
        self.gain: Array = C[np.ix_(self.kept, self.aside)] @ self.information
        self.covariance = C[np.ix_(self.kept, self.kept)]
        self.covariance -= self.gain @ C[np.ix_(self.aside, self.kept)]

    def program(self, order: PivotOrder, dtype: str) -> Program:
        """Guarded program of an order."""
        return guarded_estimator(self.watched(order), self.spec, dtype, MARGIN**2)

    def watched(self, order: PivotOrder) -> Program:
        """Answers, squares of the reciprocals of watched pivots, and checks."""
        spec, graph = self.spec, Graph()
        robot = spec.robot
        q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
        y = spec.all_rows(graph.inputs(spec.n_readings))
        kin = Kinematics.at(robot, q, qd)
        residuals = partial(row_residuals, spec.unknowns, spec.equations, kin=kin, y=y)
        # rows that correct others are without unknowns: known before anything is solved
        correcting = np.flatnonzero(self.gain.any(axis=0))
        known = [r for r, _ in residuals(self.aside[correcting].tolist(), d=())]
        correction = _products(self.gain[:, correcting], known)
        given = [y[r] + extra for r, extra in zip(self.kept, correction, strict=True)]
        data, rhs = entries_and_rhs(self.system, kin, np.array(given, dtype=object))
        rows = entries_by_row(self.system.pattern(), data)
        solved = factor_and_solve(rows, rhs, order)
        aside = [r for r, _ in residuals(self.aside.tolist(), d=solved.x)]
        answers = [
            x for name in spec.outputs for x in self._values(name, solved.x, correction, aside)
        ]
        if spec.uncertainty:
            deviations = self._deviations(rows, order)
            answers += [x for name in spec.uncertainty for x in deviations(name)]
        varying = [pivot for pivot in solved.pivots if isinstance(pivot, Scalar)]
        used = used_outputs(graph.program([*answers, *varying]), len(answers))
        reciprocals = [1.0 / p for p, has_part in zip(varying, used, strict=True) if has_part]
        watched = [x * x for x in reciprocals]
        checks = row_checks(residuals(spec.repeated.tolist(), d=solved.x))
        samples = spec.samples(SIMPLIFY_SAMPLES, 0)
        try:
            return simplify(graph.program([*answers, *watched, *checks]), samples)
        except ZeroDivisionError:
            raise SingularSystemError("a pivot is zero at every state") from None

    def _values(
        self, name: str, x: Sequence[Any], correction: Sequence[Any], aside: Sequence[Any]
    ) -> list[Any]:
        """Numbers of an output."""
        spec = self.spec
        if kind_of(name) in ESTIMATES:
            return [sum(x[c] * k for c, k in parts.items()) for parts in spec.sums(name)]
        found: list[Any] = [0.0] * spec.n_rows
        if name == "residual":
            for r, value in zip(self.kept.tolist(), correction, strict=True):
                found[r] = value
        else:
            aside = _products(self.information, aside)
        for r, value in zip(self.aside.tolist(), aside, strict=True):
            found[r] = value
        return found

    def _deviations(
        self, rows: Sequence[Mapping[int, Any]], order: PivotOrder
    ) -> Callable[[str], list[Any]]:
        """Standard deviations of an output, by its name."""
        spec, C = self.spec, self.covariance
        n_laws = self.system.shape[0] - len(self.kept)
        noisy = np.flatnonzero(np.abs(C).max(axis=1, initial=0.0)).tolist()
        rhs: list[Any] = [_Noise({})] * self.system.shape[0]
        for k in noisy:
            rhs[n_laws + k] = _Noise({k: 1.0})
        W = factor_and_solve(rows, rhs, order).x

        def of(name: str) -> list[Any]:
            if kind_of(name) in ESTIMATES:
                return [_deviation(_noise_of(W, parts), C) for parts in spec.sums(name)]
            found: list[Any] = [0.0] * spec.n_rows  # multipliers: nothing checks a reading
            for r, x in zip(self.aside.tolist(), np.diag(self.information), strict=True):
                found[r] = float(np.sqrt(x))
            return found

        return of


@final
class _Noise:
    """A number that is a sum of noises, each times a scalar: what LU needs of a right side."""

    def __init__(self, parts: Mapping[int, Any]) -> None:
        self.parts = parts

    def __sub__(self, other: Any) -> _Noise:
        if not isinstance(other, _Noise):  # the number zero
            return self
        parts = dict(self.parts)
        for k, x in other.parts.items():
            parts[k] = parts[k] - x if k in parts else -x
        return _Noise(parts)

    def __mul__(self, factor: Any) -> _Noise:
        return _Noise({k: x * factor for k, x in self.parts.items()})

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> _Noise:
        return _Noise({k: x / divisor for k, x in self.parts.items()})


def _noise_of(W: Sequence[Any], parts: Mapping[int, float]) -> _Noise:
    """Noise of a sum of unknowns."""
    total = _Noise({})
    for c, factor in parts.items():
        total = total - W[c] * -factor
    return total


def _deviation(w: Any, C: Array) -> Any:
    """Root of w C w^T."""
    parts = list(w.parts.items()) if isinstance(w, _Noise) else []
    total: Any = 0.0
    for place, (k, x) in enumerate(parts):
        total = total + x * x * C[k, k]
        for l, other in parts[:place]:
            if C[k, l]:
                total = total + x * other * (2.0 * C[k, l])
    return np.sqrt(total)


def _products(matrix: Array, vector: Sequence[Any]) -> list[Any]:
    """Matrix times a vector of scalars; entries that are zero cost nothing."""
    return [
        sum((x * v for x, v in zip(row.tolist(), vector, strict=True) if x), start=0.0)
        for row in matrix
    ]


def used_outputs(program: Program, n_answers: int) -> BoolArray:
    """Which outputs behind the first ``n_answers`` are steps towards those."""
    reached = np.zeros(len(program.op) + 1, dtype=bool)
    reached[np.abs(program.outputs[:n_answers])] = True
    for k in range(len(program.op), 0, -1):
        if reached[k] and program.op[k - 1] not in (Op.CONSTANT, Op.INPUT):
            reached[abs(program.left[k - 1])] = reached[abs(program.right[k - 1])] = True
    found: BoolArray = reached[np.abs(program.outputs[n_answers:])]
    return found
