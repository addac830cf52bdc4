"""Program of as many laws and readings as unknowns: scalar LU along the pivot order of a plan.

    D d = y - b,      P D Q = L U with the pivots of the order, none exchanged

Noise cancels: what is estimated solves all equations. An order is safe only at the states it
was sampled at. So every pivot that depends on the state and has a part in the answers is
watched: where 1 / pivot^2 exceeds its median by the square of :data:`MARGIN`, the answers are
NaN, and whoever asked solves that state by pivoting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np

from dynsys.errors import (
    KernelBuildError,
    PlanMismatchError,
    SingularSystemError,
    StructurallySingularError,
)
from dynsys.plan.lu import entries_by_row, factor_and_solve
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder, sample_values
from dynsys.plan.pivots import PlannedPivot, planned_pivots
from dynsys.plan.saddle_program import (
    CHECKS,
    ESTIMATES,
    EstimatorSpec,
    failures,
    guarded_estimator,
)
from dynsys.plan.search.price import SearchProblem, entries_and_rhs
from dynsys.plan.search.search import Search, search_order
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import Op, Program
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from dynsys.types import BoolArray

__all__ = ["LuEstimator", "lu_estimator", "lu_program"]

MARGIN = 1e4
"""How far a watched pivot may fall below its median before pivoting takes over."""
STATES = 32
SIMPLIFY_SAMPLES = 12


class LuEstimator(NamedTuple):
    """A program with the order it executes, what found it, and pivots that are no constants."""

    program: Program
    order: PivotOrder
    found_by: str
    pivots: tuple[PlannedPivot, ...] = ()


def lu_estimator(
    spec: EstimatorSpec, dtype: str = "float64", search: Search | None = None
) -> LuEstimator:
    """Program of the order that answers most states: searched for first, then constructed.

    Raises
    ------
    KernelBuildError
        if the system is not square, has no order, or loses digits under those it has.
    """
    system = _square(spec)
    context = OrderingContext(system, sample_values(system, STATES))
    found, least = None, CHECKS // 2
    for order, found_by in _orders(spec, system, context, search):
        program = _recorded(spec, system, order, dtype)
        failed = failures(program, spec)
        if failed < least:
            least, found = failed, LuEstimator(program, order, found_by)
        if not least:
            break
    if found is None:
        raise KernelBuildError(
            f"robot {spec.robot.name!r}: no order of elimination keeps its digits without"
            " pivoting at run time; use the reference backend"
        )
    return found._replace(pivots=planned_pivots(system, found.order, context))


def lu_program(spec: EstimatorSpec, order: PivotOrder, dtype: str = "float64") -> Program:
    """Program of a given order, executed as it stands.

    Raises
    ------
    PlanMismatchError
        if the order is not one of this system, or a pivot of it is zero.
    """
    system = _square(spec)
    if len(order.row_order) != system.shape[0]:
        raise PlanMismatchError(
            f"the order of the plan has {len(order.row_order)} pivots, robot"
            f" {spec.robot.name!r} with these sensors needs {system.shape[0]}; make a new plan"
        )
    try:
        return _recorded(spec, system, order, dtype)
    except SingularSystemError as error:
        raise PlanMismatchError(
            f"the order of the plan cannot be executed: {error}. Make a new plan"
        ) from None


def _square(spec: EstimatorSpec) -> LinearSystem:
    """Laws and measurements on the same unknowns; KernelBuildError if LU does not apply."""
    system = spec.system
    rows, columns = system.shape
    if rows != columns or len(np.unique(system.indices)) < rows:
        raise KernelBuildError(f"{rows} equations for {columns} unknowns are no square system")
    if spec.uncertainty or spec.switchable or not set(spec.outputs) <= set(ESTIMATES):
        raise KernelBuildError("scalar LU computes estimates only: no deviations, no residuals")
    return system


def _orders(
    spec: EstimatorSpec, system: LinearSystem, context: OrderingContext, search: Search | None
) -> Iterator[tuple[PivotOrder, str]]:
    """Orders to try, and what found them; KernelBuildError if there is none."""
    try:
        if search is not None and not search.is_off:
            kinds = cast("tuple[UnknownKind, ...]", spec.outputs)
            result = search_order(SearchProblem.of(system, kinds), search, system)
            yield result.best.order, f"{result.best.origin}, search, seed {search.seed}"
        for threshold in (0.01, 0.1):
            ordering = BlockTriangular(Markowitz("flops", threshold=threshold))
            yield ordering.order(system.pattern(), context), ordering.name
    except (StructurallySingularError, SingularSystemError) as error:
        raise KernelBuildError(
            f"robot {system.robot.name!r}: the measurements do not determine every unknown:"
            f" {error}"
        ) from None


def _recorded(
    spec: EstimatorSpec, system: LinearSystem, order: PivotOrder, dtype: str
) -> Program:
    robot, graph = spec.robot, Graph()
    q, qd = graph.inputs(robot.nq), graph.inputs(robot.nv)
    y = spec.all_rows(graph.inputs(spec.n_readings))
    data, rhs = entries_and_rhs(system, Kinematics.at(robot, q, qd), y)
    solved = factor_and_solve(entries_by_row(system.pattern(), data), rhs, order)
    answers = [solved.x[c] for name in spec.outputs for c in spec.columns(name).tolist()]
    varying = [pivot for pivot in solved.pivots if isinstance(pivot, Scalar)]
    used = _used(graph.program([*answers, *varying]), len(answers))
    reciprocals = [1.0 / p for p, has_part in zip(varying, used, strict=True) if has_part]
    watched = [x * x for x in reciprocals]
    samples = spec.samples(SIMPLIFY_SAMPLES, 0)
    program = simplify(graph.program([*answers, *watched]), samples)
    return guarded_estimator(program, spec, dtype, MARGIN**2)


def _used(program: Program, n_answers: int) -> BoolArray:
    """Which outputs behind the first ``n_answers`` are steps towards those."""
    reached = np.zeros(len(program.op) + 1, dtype=bool)
    reached[np.abs(program.outputs[:n_answers])] = True
    for k in range(len(program.op), 0, -1):
        if reached[k] and program.op[k - 1] not in (Op.CONSTANT, Op.INPUT):
            reached[abs(program.left[k - 1])] = reached[abs(program.right[k - 1])] = True
    found: BoolArray = reached[np.abs(program.outputs[n_answers:])]
    return found
