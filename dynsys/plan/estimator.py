"""How an estimator is computed: which executor, along which order, at what cost.

Redundant or weighted readings are solved as a saddle system (:mod:`.saddle_program`). As many
readings as unknowns are too, where its pivots are safe at every state; else by scalar LU
(:mod:`.lu_program`), whose pivots are watched.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, final

from dynsys.errors import KernelBuildError
from dynsys.plan.lu_program import lu_estimator, lu_program
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.saddle_program import EstimatorSpec, planned_estimation
from dynsys.plan.search.search import Search
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
    ordering: str = "single and paired pivots, leaf to root, cheapest first"

    @property
    def operations(self) -> Operations:
        """What it executes."""
        return program_operations(self.program)


def planned_estimator(
    spec: EstimatorSpec, dtype: str = "float64", search: Search | None = None
) -> PlannedEstimator:
    """Plan of an estimator, executed; with a ``search``, the cheaper of both ways.

    Raises
    ------
    KernelBuildError
        if the measurements do not determine every unknown, or not without pivoting at run time;
        names the unknowns.
    """
    refused: KernelBuildError | None = None
    ways: list[PlannedEstimator] = []
    try:
        ways.append(PlannedEstimator("symmetric", *planned_estimation(spec, dtype)))
    except KernelBuildError as error:
        refused = error
    if not ways or (search is not None and not search.is_off):
        with suppress(KernelBuildError):
            lu = lu_estimator(spec, dtype, search)
            ways.append(PlannedEstimator("lu", lu.program, lu.pivots, lu.order, lu.found_by))
    if refused is not None and not ways:
        raise refused
    return min(ways, key=lambda way: way.operations.total)


def estimator_program(
    spec: EstimatorSpec, dtype: str = "float64", order: PivotOrder | None = None
) -> Program:
    """Program of an estimator; with an ``order``, that of LU along it, as it stands."""
    if order is not None:
        return lu_program(spec, order, dtype)
    return planned_estimator(spec, dtype).program
