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

from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.plan.estimator_spec import ESTIMATES, EstimatorSpec
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.orders.libraries import SuperLU, Umfpack, UmfpackLibrary
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, Pattern, PivotOrder
from dynsys.plan.published import numeric_lu, published_lu, published_substitution
from dynsys.plan.record import DynamicsSpec, dynamics_program
from dynsys.plan.recursion import recursion_estimator
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
    "plain_lu",
    "shuffled",
    "states",
]

GRAVITY = (0.0, -9.81, 0.0)
SEEN = (0, 1, 3, 4, 5)
"""Components that a load cell on a slippery floor gives: all but the torsion."""


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

    ``scatter`` is the standard deviation of one state's additions, relative to their mean.
    """

    additions: float
    multiplications: float
    scatter: float = 0.0

    @staticmethod
    def of(counts: list[Operations]) -> Mean:
        """Return the mean of some counts."""
        additions = np.array([c.additions for c in counts], dtype=np.float64)
        return Mean(
            float(additions.mean()),
            float(np.mean([c.multiplications + c.divisions for c in counts])),
            float(additions.std() / additions.mean()),
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
    for q, qd in states(system.robot.n_bodies, count):
        D, b = system.assemble(q, qd, np.ones(len(system.measured_rows)))
        context = OrderingContext(None, D.data[None].copy())
        order = ordering.order(system.pattern(), context)
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
