"""How an estimator is computed: which executor, along which order, at what cost.

Redundant or weighted readings are solved as a saddle system (:mod:`.saddle_program`). As many
readings as unknowns are too, where its pivots are safe at every state; else by scalar LU
(:mod:`.lu_program`), whose pivots are watched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from dynsys.errors import KernelBuildError
from dynsys.plan.lu_program import lu_estimator, lu_program
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.saddle_program import EstimatorSpec, planned_estimation
from dynsys.program.program import Program

__all__ = ["PlannedEstimator", "estimator_program", "planned_estimator"]


@final
@dataclass(frozen=True, eq=False)
class PlannedEstimator:
    """A program, its pivots that depend on the state, and the pivot order of method "lu"."""

    method: Literal["symmetric", "lu"]
    program: Program
    pivots: tuple[PlannedPivot, ...]
    order: PivotOrder | None = None


def planned_estimator(spec: EstimatorSpec, dtype: str = "float64") -> PlannedEstimator:
    """Plan of an estimator, executed.

    Raises
    ------
    KernelBuildError
        if the measurements do not determine every unknown, or not without pivoting at run time;
        names the unknowns.
    """
    try:
        return PlannedEstimator("symmetric", *planned_estimation(spec, dtype))
    except KernelBuildError as refused:
        try:
            found = lu_estimator(spec, dtype)
        except KernelBuildError:
            raise refused from None
    return PlannedEstimator("lu", found.program, found.pivots, found.order)


def estimator_program(
    spec: EstimatorSpec, dtype: str = "float64", order: PivotOrder | None = None
) -> Program:
    """Program of an estimator; with an ``order``, that of LU along it, as it stands."""
    if order is not None:
        return lu_program(spec, order, dtype)
    return planned_estimator(spec, dtype).program
