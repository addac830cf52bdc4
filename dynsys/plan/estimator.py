"""How an estimator is computed: which executor, along which order, at what cost.

Redundant or weighted readings are solved as a saddle system (:mod:`.saddle_program`). As many
readings as unknowns are too, where its pivots are safe at every state, or by inverse dynamics
with open parameters (:mod:`.recursion`), whichever is cheaper; else, and where standard
deviations are asked for, by scalar LU (:mod:`.lu_program`). Pivots of the last two are watched.

    planned_estimator   finds an order and executes it
    estimator_program   executes a given one: one executor per type of order, see EXECUTORS
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from dynsys.errors import NoOrderError, PlanOrderError
from dynsys.plan.estimator_spec import CHECKS, EstimatorSpec, PlannedEstimator, failures
from dynsys.plan.lu_program import lu_estimator, lu_program, lu_watched
from dynsys.plan.methods import EliminationOrder, RecursionOrder, SaddleOrder
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.recursion import recursion_estimator, recursion_program, recursion_watched
from dynsys.plan.saddle_program import saddle_estimator, saddle_program, saddle_watched
from dynsys.plan.search.saddle_search import search_saddle
from dynsys.plan.search.search import Search
from dynsys.program.program import Program

__all__ = ["EXECUTORS", "estimator_program", "planned_estimator", "watched_program"]

EXECUTORS: Mapping[type[EliminationOrder], Callable[[EstimatorSpec, Any, str], Program]] = {
    PivotOrder: lu_program,
    SaddleOrder: saddle_program,
    RecursionOrder: recursion_program,
}
"""What executes an order, by its type: (spec, order, dtype) to a guarded program. It refuses by
PlanOrderError an order that cannot be executed, never changes one."""


def planned_estimator(
    spec: EstimatorSpec, dtype: str = "float64", search: Search | None = None
) -> PlannedEstimator[EliminationOrder]:
    """Order of an estimator, executed; with a ``search``, the cheapest that it finds.

    Where several executors apply, as many readings as unknowns, each has a third of its
    seconds. Without a search LU is tried only where it must be.

    Raises
    ------
    NoOrderError
        if the measurements do not determine every unknown, or not without pivoting at run time;
        names the unknowns.
    """
    if spec.parameters:
        return _with_parameters(spec, dtype)
    refused: NoOrderError | None = None
    ways: list[PlannedEstimator[EliminationOrder]] = []
    if search is not None and search.seconds and spec.is_square:
        search = replace(search, seconds=search.seconds / 3.0)

    search = None if search is None or search.is_off else search
    lu_first = bool(spec.uncertainty) and spec.is_square
    if lu_first:  # variances as sums of squares: half the operations, and more digits
        with suppress(NoOrderError):
            ways.append(lu_estimator(spec, dtype, search))
    if not ways:
        try:
            saddle = saddle_estimator(spec, dtype)
            ways.append(search_saddle(spec, saddle, search, dtype) if search else saddle)
        except NoOrderError as error:
            refused = error
        with suppress(NoOrderError):
            ways.append(recursion_estimator(spec, dtype, search))
        if not lu_first and (search or not ways):
            with suppress(NoOrderError):
                ways.append(lu_estimator(spec, dtype, search))
    if refused is not None and not ways:
        raise refused
    return min(ways, key=lambda way: way.operations.total)


def _with_parameters(spec: EstimatorSpec, dtype: str) -> PlannedEstimator[EliminationOrder]:
    """The saddle elimination, which alone takes parameters of the robot as inputs."""
    if len(spec.repeated):
        raise NoOrderError(
            "exact readings that repeat others agree at one value of the parameters only; give"
            " them a standard deviation, or leave parameters out"
        )
    return saddle_estimator(spec, dtype)


def estimator_program(
    spec: EstimatorSpec, dtype: str = "float64", order: EliminationOrder | None = None
) -> Program:
    """Program of an estimator; with an ``order``, of that one as it stands.

    Raises
    ------
    PlanOrderError
        if the order cannot be executed for this question, or loses too many digits.
    """
    if order is None:
        return planned_estimator(spec, dtype).program
    if spec.parameters and order.method != "saddle":
        raise PlanOrderError(
            f"an order of method {order.method!r} takes no parameters as inputs; leave out the"
            " plan or the parameters"
        )
    try:
        with np.errstate(all="ignore"):  # an order that is not ours may divide by anything
            program = EXECUTORS[type(order)](spec, order, dtype)
    except ZeroDivisionError:
        raise PlanOrderError(
            f"the order of the plan ({order.method}) cannot be executed: a pivot is zero at"
            " every state. Make a new plan"
        ) from None
    if failures(program, spec) >= CHECKS // 2:
        raise PlanOrderError(
            f"the order of the plan ({order.method}) answers less than half of the sampled"
            f" states of robot {spec.robot.name!r} to full precision; make a plan of the"
            " outputs that are asked for, plan(outputs=..., uncertainty=...)"
        )
    return program


def watched_program(spec: EstimatorSpec, order: EliminationOrder) -> Program:
    """Answers of an order, then what is watched, without guards: for studies.

    Reciprocals of pivots (saddle), their squares (lu), or the pivots (recursion); then checks.
    """
    watchers: Mapping[type[EliminationOrder], Callable[[EstimatorSpec, Any], Program]] = {
        PivotOrder: lu_watched,
        SaddleOrder: saddle_watched,
        RecursionOrder: recursion_watched,
    }
    return watchers[type(order)](spec, order)
