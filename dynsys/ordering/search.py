"""Search: pivot orders that cost less than any constructive one, found offline.

Generations of independent runs (:mod:`dynsys.ordering.search_run`): every run of a generation
begins at one of the best orders of the generations before. A generation has the same runs
however many workers share them, and is merged in the order of its runs: the same seed and the
same number of evaluations give the same plan, on one core or on a cluster. The search can be
stopped at any time; it returns the best it has.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from dynsys.ordering.fingerprint import Fingerprint, fingerprint_problem, fingerprint_robot
from dynsys.ordering.orders import OrderingContext
from dynsys.ordering.pivots import planned_pivots
from dynsys.ordering.plan import Plan
from dynsys.ordering.search_constructive import constructive
from dynsys.ordering.search_generations import Generations
from dynsys.ordering.search_problem import SearchProblem
from dynsys.ordering.search_run import get_ready
from dynsys.ordering.search_settings import Progress, Search, SearchResult
from dynsys.ordering.search_workers import executor
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind

__all__ = ["Progress", "Search", "SearchResult", "constructive", "search_order", "search_plan"]


def search_plan(
    system: LinearSystem,
    kind: str,
    search: Search | None = None,
    *,
    outputs: Sequence[UnknownKind] = ("torque", "qdd"),
    layout: Fingerprint | None = None,
) -> Plan:
    """Plan of a square system by scalar elimination, method "lu", order found by search.

    Parameters
    ----------
    system : as many equations as unknowns.
    kind : name of the problem, for its fingerprint.
    search : how long and with whom; None takes the best constructive order.
    outputs : kinds of unknowns that are wanted; what they do not need costs nothing.
    layout : fingerprint of the sensors, if there are any.

    Raises
    ------
    StructurallySingularError, SingularSystemError
        if no order eliminates the system.
    """
    search = search or Search()
    problem = SearchProblem.of(system, outputs, seed=search.seed)
    result = search_order(problem, search, system)
    best = result.best
    found = best.origin
    if result.evaluations:
        found += f", search of {result.evaluations} evaluations, seed {search.seed}"
    return Plan(
        method="lu",
        robot=fingerprint_robot(system.robot),
        problem=fingerprint_problem(kind, system),
        operations=best.operations,
        pivots=planned_pivots(system, best.order, OrderingContext(system, problem.values)),
        layout=layout,
        order=best.order,
        options={"outputs": " ".join(outputs)},
        ordering=found,
    )


def search_order(
    problem: SearchProblem, search: Search, system: LinearSystem | None = None
) -> SearchResult:
    """Best order found; with ``system``, orders that follow the robot are beginnings too."""
    began = time.perf_counter()
    if search.is_off:
        known = constructive(problem, search, system)
        return Generations(problem, search, known, began).result(interrupted=False)
    with executor(search.workers, search.scheduler) as pool:
        pool.submit(get_ready)  # other processes start while the beginnings are constructed
        known = constructive(problem, search, system)
        generations = Generations(problem, search, known, began)
        try:
            while not generations.is_over:
                generations.generation(pool)
        except KeyboardInterrupt:
            return generations.result(interrupted=True)
    return generations.result(interrupted=False)
