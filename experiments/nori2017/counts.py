"""Robots, systems and operation counts of [NORI]'s experiments, at random states.

Each method is counted twice: by the rules of the published scripts, and by what is executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import spsolve, spsolve_triangular

from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.lu import SymbolicLU, symbolic_lu
from dynsys.plan.operations import Operations, lu_operations, program_operations
from dynsys.plan.orders.libraries import SuperLU, Umfpack, UmfpackLibrary
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, Pattern, PivotOrder
from dynsys.plan.published import numeric_lu, published_lu, published_substitution
from dynsys.plan.record import DynamicsSpec, dynamics_program
from dynsys.plan.recursion import recursion_estimator
from dynsys.plan.search.price import SearchProblem
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.laws import known, known_inputs
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind, UnknownLayout
from dynsys.types import Array
from experiments.nori2017.aba_factors import aba_factors, aba_order
from experiments.nori2017.published import discounted_lu, published_product

__all__ = [
    "Mean",
    "PublishedAndTrue",
    "Reused",
    "chain",
    "forward_operations",
    "forward_system",
    "inverse_system",
    "load_cell_operations",
    "load_cell_spec",
    "load_cell_system",
    "lu_counts",
    "matrix_aba_counts",
    "permuted_lu",
    "permuted_program_operations",
    "plain_lu",
    "reused_order",
    "shuffled",
    "states",
    "umfpack_triangular",
]

GRAVITY = (0.0, -9.81, 0.0)
SEEN = (0, 1, 3, 4, 5)
"""Components that a load cell on a slippery floor gives: all but the torsion."""
OFFLINE = 10
"""States at which orders are found before one of them is reused."""


def chain(n: int, branching: float = 1.0, taper: float = 0.9) -> KinematicTree:
    """autoTree(n, branching, 1.5, taper) of spatial_v2, gravity along -y as in the scripts."""
    tree = synthetic.auto_tree(n, branching, 1.5, taper)
    return KinematicTree(tree.name, tree.bodies, gravity=GRAVITY)


def states(n: int, count: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Q uniform in [0, 10], qd uniform in [0, 1], as the scripts draw them."""
    rng = np.random.default_rng([n, seed])
    for _ in range(count):
        yield rng.uniform(0, 10, n), rng.uniform(0, 1, n)


# ---- systems -------------------------------------------------------------------------------


def forward_system(robot: KinematicTree, *, net_wrench: bool = True) -> LinearSystem:
    """Laws with all external wrenches and torques known: 26n unknowns with net wrenches."""
    laws = LinearSystem(robot, net_wrench=net_wrench)
    return laws.with_equations(known_inputs(laws.unknowns, ()))


def inverse_system(robot: KinematicTree, *, net_wrench: bool = True) -> LinearSystem:
    """Laws with all external wrenches and accelerations known."""
    laws = LinearSystem(robot, net_wrench=net_wrench)
    return laws.with_equations(known_inputs(laws.unknowns, set(laws.unknowns.driven)))


def shuffled(pattern: Pattern, seed: int) -> Pattern:
    """The pattern with its rows and columns in random orders."""
    rng = np.random.default_rng(seed)
    return PivotOrder(*(rng.permutation(k) for k in pattern.shape)).apply_pattern(pattern)


def load_cell_system(robot: KinematicTree, *, net_wrench: bool = True) -> LinearSystem:
    """autoSensSIEfriction: load cells at joint 1 and body n, accelerations 3 .. n-2."""
    laws = LinearSystem(robot, net_wrench=net_wrench)
    u, n = laws.unknowns, robot.n_bodies
    return laws.with_equations(
        [
            *(known(u, "external_wrench", i) for i in range(n - 1)),
            *(known(u, "qdd", i) for i in range(2, n - 2)),
            _load_cell(u, "base", "joint_wrench", 0),
            _load_cell(u, "tip", "external_wrench", n - 1),
        ]
    )


def _load_cell(
    unknowns: UnknownLayout, name: str, kind: UnknownKind, body: int
) -> EquationBlock:
    block = unknowns.block(kind, body)
    term = Term.constant(block, np.eye(6)[list(SEEN)])
    return EquationBlock(f"{name} cell", "load_cell", body, len(SEEN), (term,), measured=True)


# ---- counts --------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Mean:
    """Mean additions and multiplications (divisions among them) over states.

    ``scatter`` is the standard deviation of one state's additions, relative to their mean;
    ``least`` and ``most`` are those of single states.
    """

    additions: float
    multiplications: float
    scatter: float
    least: tuple[int, int]
    most: tuple[int, int]

    @staticmethod
    def of(counts: list[Operations]) -> Mean:
        """Return the mean of some counts."""
        additions = [c.additions for c in counts]
        multiplications = [c.multiplications + c.divisions for c in counts]
        return Mean(
            float(np.mean(additions)),
            float(np.mean(multiplications)),
            float(np.std(additions) / np.mean(additions)),
            (min(additions), min(multiplications)),
            (max(additions), max(multiplications)),
        )

    @property
    def total(self) -> float:
        """Both together."""
        return self.additions + self.multiplications


@final
@dataclass(frozen=True)
class PublishedAndTrue:
    """LU and substitution by the published rules and as executed; entries of L + U."""

    published: Mean
    true: Mean
    true_elimination: Mean
    entries: float


def permuted_lu(library: str = "best") -> AbstractOrdering:
    """UMFPACK where there is one (``best`` or ``umfpack``), else SuperLU with COLAMD."""
    if library != "superlu" and (library == "umfpack" or UmfpackLibrary.find() is not None):
        return Umfpack()
    return SuperLU("COLAMD")


def plain_lu() -> AbstractOrdering:
    """Partial pivoting with the columns as they come, by UMFPACK where there is one."""
    return SuperLU("NATURAL") if UmfpackLibrary.find() is None else Umfpack(fixed_columns=True)


def lu_counts(
    system: LinearSystem,
    ordering: AbstractOrdering,
    count: int,
    *,
    discount_units: bool = False,
) -> PublishedAndTrue:
    """Counts of an LU whose order is found anew at every state, as the scripts do."""
    published, true, elimination, entries = [], [], [], []
    for D, b in _matrices(system, count):
        order = ordering.order(system.pattern(), OrderingContext(None, D.data[None].copy()))
        D.eliminate_zeros()
        L, U = numeric_lu(csr_array(D), symbolic_lu(_pattern(D), order))
        rhs = b[order.row_order]
        substitution = published_substitution(L, rhs, U)
        lu = discounted_lu(L, U) if discount_units else published_lu(L, U)
        published.append(lu + substitution)
        elimination.append(outer_products(L, U))
        true.append(elimination[-1] + substitution)
        entries.append(L.nnz + U.nnz - L.shape[0])
    return PublishedAndTrue(
        Mean.of(published), Mean.of(true), Mean.of(elimination), float(np.mean(entries))
    )


def _matrices(
    system: LinearSystem, count: int, seed: int = 0
) -> Iterator[tuple[csc_array[np.float64], Array]]:
    """D and b of a system, all readings 1, at random states."""
    for q, qd in states(system.robot.n_bodies, count, seed):
        yield system.assemble(q, qd, np.ones(len(system.measured_rows)))


@final
@dataclass(frozen=True)
class Reused:
    """One order at many states: how small its pivots get, its answers' error, its price.

    ``pivot`` : least |pivot| / largest entry left in its column.
    ``error`` : of the answers, against pivoting at every state, relative to their largest.
    ``executed`` : mean operations, factorisation and substitution.
    ``anew`` : the same of orders found at every state.
    """

    pivot: float
    error: float
    executed: float
    anew: float


def reused_order(
    system: LinearSystem, ordering: AbstractOrdering, answers: UnknownKind, count: int
) -> Reused:
    """One order, found offline, used at other states as it stands: remark 4.

    As in the scripts (ABA/serial/main.m) it is the best of those found at some states.
    """
    pattern, columns = system.pattern(), system.unknowns.columns(answers)
    contexts = (OrderingContext(None, D.data[None].copy())
                for D, _ in _matrices(system, OFFLINE, seed=1))  # fmt: skip
    offline = [symbolic_lu(pattern, ordering.order(pattern, at)) for at in contexts]
    symbolic = min(offline, key=lambda lu: lu_operations(lu).total)
    pivots, errors, executed = [], [], []
    for D, b in _matrices(system, count):
        L, U = numeric_lu(csr_array(D), symbolic)
        found, expected = _solved(symbolic, L, U, -b)[columns], spsolve(D, -b)[columns]
        pivots.append(1.0 / float(np.abs(L.data).max()))
        errors.append(float(np.abs(found - expected).max() / np.abs(expected).max()))
        substitution = published_substitution(L, b[symbolic.order.row_order], U)
        executed.append((outer_products(L, U) + substitution).total)
    anew = lu_counts(system, ordering, count).true.total
    return Reused(min(pivots), max(errors), float(np.mean(executed)), anew)


def _solved(
    symbolic: SymbolicLU, L: csr_array[np.float64], U: csr_array[np.float64], rhs: Array
) -> Array:
    """Solution of A x = rhs, A[row_order][:, col_order] = L U."""
    x, order = np.empty(symbolic.n), symbolic.order
    half = spsolve_triangular(L, rhs[order.row_order], lower=True)
    x[order.col_order] = spsolve_triangular(U, half, lower=False)
    return x


def umfpack_triangular(n: int, branching: float, *, mixed: bool) -> bool:
    """Whether UMFPACK's order makes inverse dynamics triangular, no fill: remark 3.

    ``mixed`` : from shuffled rows and columns. As in the scripts at one random state.
    """
    system = inverse_system(chain(n, branching))
    (D, _) = next(_matrices(system, 1))
    D.eliminate_zeros()
    if mixed:
        rows, columns = (np.random.default_rng(n).permutation(k) for k in D.shape)
        D = csc_array(D.tocsr()[rows].tocsc()[:, columns])
        D.sort_indices()
    order = Umfpack().order(_pattern(D), OrderingContext(None, D.data[None].copy()))
    lu = symbolic_lu(_pattern(D), order)
    return lu.is_triangular and lu.fill == 0


def _pattern(D: csc_array[np.float64]) -> Pattern:
    """Entries of D that are there."""
    return csc_array((np.ones(D.nnz, dtype=bool), D.indices, D.indptr), D.shape)


def outer_products(L: csr_array[np.float64], U: csr_array[np.float64]) -> Operations:
    """Sum c_k r_k products and differences, sum c_k quotients, from the factors found."""
    below = np.bincount(L.indices, minlength=L.shape[0]) - 1
    right = np.diff(U.indptr) - 1
    updates = int((below * right).sum())
    return Operations(updates, updates, int(below.sum()))


def matrix_aba_counts(robot: KinematicTree, count: int, *, corrected: bool) -> Mean:
    """Matrix reformulation of ABA: product of the left factors with D, then substitution.

    Articulated inertias and the right factor are left out, as in the scripts; ``corrected``
    counts every multiplication of the products.
    """
    system = forward_system(robot)
    laws = 19 * robot.n_bodies
    rows, cols = aba_order(system)
    found = []
    for q, qd in states(robot.n_bodies, count):
        D, b = system.assemble(q, qd, np.ones(len(system.measured_rows)))
        D.eliminate_zeros()
        factors = aba_factors(system, Kinematics.at(robot, q, qd))
        T = csr_array(factors.triangular(D))[rows][:, cols].tocoo()
        keep = (T.row >= T.col) & (T.data != 0)
        L = csr_array((T.data[keep], (T.row[keep], T.col[keep])), T.shape)
        cost = published_substitution(L, b[rows])
        product: csr_array[np.float64] | None = None
        for factor in (*factors.left, D):
            W = csr_array(factor)[:laws]
            W = W if factor is D else csr_array(W[:, :laws])
            W.eliminate_zeros()
            if product is None:
                product = W
                continue
            left, right = (product, W) if factor is D else (W, product)
            cost += published_product(left, right, corrected=corrected)
            product = csr_array(left @ right)
            product.eliminate_zeros()
        found.append(cost)
    return Mean.of(found)


@cache
def forward_operations(n: int, branching: float = 1.0, *, wrenches: bool = False) -> Operations:
    """Ours: forward dynamics as one program, entries of D and b included."""
    robot = chain(n, branching)
    known = np.zeros(n, dtype=bool)
    program = dynamics_program(DynamicsSpec(robot, known, "torque", ("qdd",), wrenches))
    return program_operations(program)


@cache
def permuted_program_operations(n: int) -> int:
    """Forward dynamics by scalar LU as one program, in the order found at one state.

    Products by 0 and 1, equal values and what no acceleration needs are left out; entries of D
    and b are included.
    """
    problem = SearchProblem.of(forward_system(chain(n)), ("qdd",))
    order = permuted_lu().order(problem.pattern, problem.context)
    return program_operations(problem.program(order)).total


@cache
def load_cell_operations(n: int, *, everything: bool = False) -> Operations:
    """Ours: torques (or all unknowns) from load cells, by the recursion with open parameters.

    Entries, right-hand side and the checks of all pivots included.
    """
    return program_operations(recursion_estimator(load_cell_spec(n, everything)).program)


def load_cell_spec(n: int, everything: bool = False) -> EstimatorSpec:
    """The estimator of torques, or of all unknowns, from load cells."""
    robot = chain(n, taper=1.0)
    system = load_cell_system(robot, net_wrench=False)
    readings = tuple(block for block in system.equations if block.measured)
    noise = np.eye(sum(block.size for block in readings))
    return EstimatorSpec(robot, readings, noise, ESTIMATES if everything else ("torque",))
