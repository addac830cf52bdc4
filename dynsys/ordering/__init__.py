"""Orderings, symbolic and numeric elimination, exact operation counts, plans."""

from dynsys.ordering.dulmage_mendelsohn import (
    BlockTriangular,
    CoarseDecomposition,
    block_triangular,
    coarse_decomposition,
    matching,
)
from dynsys.ordering.elimination import (
    Elimination,
    entries_by_row,
    factor_and_solve,
    solve_system,
)
from dynsys.ordering.fingerprint import (
    Fingerprint,
    fingerprint_parts,
    fingerprint_problem,
    fingerprint_robot,
)
from dynsys.ordering.libraries import Cholmod, SuperLU, Umfpack, UnavailableOrdering
from dynsys.ordering.markowitz import Markowitz
from dynsys.ordering.operations import Operations, elimination_operations, program_operations
from dynsys.ordering.orders import (
    AbstractOrdering,
    Natural,
    OrderingContext,
    Pattern,
    PivotOrder,
)
from dynsys.ordering.peeling import Peeled, Peeling, peel
from dynsys.ordering.pivots import PlannedPivot, planned_pivots, symmetric_pivots
from dynsys.ordering.plan import Plan
from dynsys.ordering.plan_file import PlanFileError
from dynsys.ordering.recursive_orders import (
    ArticulatedBody,
    LeafToRoot,
    NewtonEuler,
    RootToLeaf,
)
from dynsys.ordering.symbolic import SymbolicLU, numeric_lu, symbolic_lu

__all__ = [
    "AbstractOrdering",
    "ArticulatedBody",
    "BlockTriangular",
    "Cholmod",
    "CoarseDecomposition",
    "Elimination",
    "Fingerprint",
    "LeafToRoot",
    "Markowitz",
    "Natural",
    "NewtonEuler",
    "Operations",
    "OrderingContext",
    "Pattern",
    "Peeled",
    "Peeling",
    "PivotOrder",
    "Plan",
    "PlanFileError",
    "PlannedPivot",
    "RootToLeaf",
    "SuperLU",
    "SymbolicLU",
    "Umfpack",
    "UnavailableOrdering",
    "block_triangular",
    "coarse_decomposition",
    "elimination_operations",
    "entries_by_row",
    "factor_and_solve",
    "fingerprint_parts",
    "fingerprint_problem",
    "fingerprint_robot",
    "matching",
    "numeric_lu",
    "peel",
    "planned_pivots",
    "program_operations",
    "solve_system",
    "symbolic_lu",
    "symmetric_pivots",
]
