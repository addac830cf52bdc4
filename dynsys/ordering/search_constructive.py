"""Orders that a search begins with: constructed, priced, the best first."""

from __future__ import annotations

from dynsys.errors import DynsysError, SingularSystemError, StructurallySingularError
from dynsys.ordering.dulmage_mendelsohn import BlockTriangular
from dynsys.ordering.markowitz import Markowitz
from dynsys.ordering.orders import AbstractOrdering, OrderingContext
from dynsys.ordering.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.ordering.search_problem import SearchProblem
from dynsys.ordering.search_run import Candidate, price
from dynsys.ordering.search_settings import Search
from dynsys.system.linear_system import LinearSystem

__all__ = ["constructive"]


def constructive(
    problem: SearchProblem, search: Search, system: LinearSystem | None = None
) -> list[Candidate]:
    """Orders to begin with, priced, best first; unsafe ones only if there are no others."""
    orderings: list[AbstractOrdering] = [
        Markowitz("fill"),
        Markowitz("count"),
        BlockTriangular(Markowitz("fill")),
    ]
    if system is not None:
        orderings += [RootToLeaf(), LeafToRoot()]
    context = OrderingContext(system, problem.values)
    found: list[Candidate] = []
    failures: list[DynsysError] = []
    for ordering in orderings:
        try:
            order = ordering.order(problem.pattern, context)
            found.append(price(problem, order, ordering.name, search.objective))
        except (StructurallySingularError, SingularSystemError) as error:
            failures.append(error)
    if not found:
        raise failures[0]
    safe = [candidate for candidate in found if candidate.safety >= search.threshold]
    return sorted(safe or found, key=lambda candidate: candidate.rank)
