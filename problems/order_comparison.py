"""Orders of elimination and classical recursions on one problem, each counted the same ways.

Ours (the plan that runs, before any search) and, where the problem has them, RNEA, ABA and
CRBA + LTDL, all recorded on the expression graph and simplified alike; then scalar LU of D
along every order there is. A row says what is executed, fill and textbook cost of LU, what the
scripts behind [NORI] would count, the worst pivot over sampled states, and the measured time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np
from scipy.sparse import csr_array

from dynsys.errors import DynsysError
from dynsys.kernel.build import build_kernel
from dynsys.kernel.calls import AbstractKernel
from dynsys.model.expanded import expanded_parent
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.operations import lu_operations, program_operations, substitution_operations
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.libraries import Cholmod, SuperLU, Umfpack
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, PivotOrder
from dynsys.plan.orders.peeling import Peeled
from dynsys.plan.orders.recursive_orders import LeafToRoot, NewtonEuler, RootToLeaf
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.published import numeric_lu, published_lu, published_substitution
from dynsys.plan.record import SAMPLES, DynamicsSpec, dynamics_program, sample_states
from dynsys.plan.search.price import SearchProblem
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.rnea import rnea_scalars
from dynsys.recursive.sparse_factors import ltdl_scalars, solve_ltdl
from dynsys.types import Array, ScalarArray
from problems.estimation.estimation import Estimation
from problems.planning import PlanRequest
from problems.terminal import progress

__all__ = ["Compared", "compare", "program_nanoseconds"]

LARGEST_RECORDED = 300_000
"""Operations of a textbook LU above which no program is recorded just to be counted."""
LARGEST_TIMED = 40_000
"""Operations above which a program is not compiled just to be measured."""
ROUNDS, ROUND_SECONDS = 5, 0.01
"""How often a program is measured, the best counts, and for how long."""


@final
@dataclass(frozen=True, eq=False)
class Compared:
    """One row of the comparison; None where a column does not apply."""

    name: str
    executed: int | None = None
    fill: int | None = None
    textbook: int | None = None
    published: int | None = None
    safety: float | None = None
    nanoseconds: float | None = None
    note: str = ""
    order: PivotOrder | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row without its order, as plain JSON values."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if name != "order"}


def compare(request: PlanRequest, *, states: int, seed: int, timed: bool) -> list[Compared]:
    """Ours and the recursions first, then orders of D from few executed operations to many.

    Raises
    ------
    LayoutError
        if there are not as many equations as unknowns.
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    request.require_square()
    if request.dynamics is not None:
        pivot_safety(request.robot, request.dynamics.known)
    problem = SearchProblem.of(request.system, request.outputs, states=states, seed=seed)
    first = [*_recursions(request, timed)]
    found = []
    for ordering in progress(_orderings(request), "orders"):
        try:
            found.append(_compared(request, problem, ordering, timed))
        except DynsysError as error:
            found.append(Compared(ordering.name, note=str(error)))
    found.sort(key=lambda row: (row.executed is None, row.executed or 0))
    return first + found


def _orderings(request: PlanRequest) -> list[AbstractOrdering]:
    orderings: list[AbstractOrdering] = [
        Peeled(Markowitz("fill")),
        BlockTriangular(Markowitz("fill")),
        Markowitz("count"),
        Markowitz("flops"),
        Markowitz("fill"),
        LeafToRoot(),
        RootToLeaf(),
        SuperLU("NATURAL"),
        SuperLU("COLAMD"),
        Umfpack(),
        Cholmod("amd"),
        Cholmod("metis"),
    ]
    if request.name == "InverseDynamics":
        orderings.insert(0, NewtonEuler())
    return orderings


def _compared(
    request: PlanRequest, problem: SearchProblem, ordering: AbstractOrdering, timed: bool
) -> Compared:
    context = OrderingContext(request.system, problem.values)
    order = ordering.order(problem.pattern, context)
    lu, safety = symbolic_lu(problem.pattern, order), problem.safety(order)
    textbook = (lu_operations(lu) + substitution_operations(lu)).total
    row = Compared(ordering.name, None, lu.fill, textbook, safety=safety, order=order)
    if safety == 0.0:
        note = "a pivot vanishes at a sampled state: needs pivoting at run time"
        return replace(row, note=note)
    row = replace(row, published=_published(problem, order))
    if textbook > LARGEST_RECORDED:
        return replace(row, note="too many operations to be recorded")
    program = problem.program(order)
    executed = program_operations(program).total
    nanoseconds = _time(program, problem.samples) if timed else None
    return replace(row, executed=executed, nanoseconds=nanoseconds)


def _published(problem: SearchProblem, order: PivotOrder) -> int:
    """Mean over some states of what the scripts behind [NORI] would count."""
    totals = []
    for data in problem.values[:4]:
        A = csr_array((data, problem.places), shape=problem.pattern.shape)
        L, U = numeric_lu(A, symbolic_lu(problem.pattern, order))
        known = problem.assembly.outputs[problem.pattern.nnz :] != 0
        b = known[order.row_order].astype(np.float64)
        totals.append((published_lu(L, U) + published_substitution(L, b, U)).total)
    return round(float(np.mean(totals)))


def _time(program: Program, states: ScalarArray) -> float | None:
    if program_operations(program).total > LARGEST_TIMED:
        return None
    return program_nanoseconds(program, states.astype(np.float64))


def program_nanoseconds(program: Program, states: Array) -> float:
    """Nanoseconds per state of a program's kernel, at inputs (n, n_inputs)."""
    signature = Signature((("x", program.n_inputs),), (("out", len(program.outputs)),))
    kernel = build_kernel(program, signature)
    return _batch_nanoseconds(kernel, np.ascontiguousarray(np.tile(states, (22, 1))[:256]))


def _batch_nanoseconds(kernel: AbstractKernel, *inputs: Array) -> float:
    """Nanoseconds of processor time per state of a batch, the least of some rounds."""
    best = np.inf
    for _ in range(ROUNDS):
        calls, start = 0, time.thread_time()
        while (spent := time.thread_time() - start) < ROUND_SECONDS:
            kernel.batch(*inputs)
            calls += 1
        best = min(best, spent / (calls * len(inputs[0])))
    return float(best * 1e9)


# ---- ours and the classical recursions -----------------------------------------------------


def _recursions(request: PlanRequest, timed: bool) -> Iterator[Compared]:
    if request.estimation is not None:
        yield _planned(request.estimation, timed)
    if request.dynamics is None:
        return
    if request.dynamics.constraints:  # which the recursions do not know
        held = request.dynamics.plan().operations.total
        yield Compared("symmetric pairs, then what holds (ours)", held)
        return
    robot, known = request.robot, request.dynamics.known
    given, answers = request.dynamics.given, request.dynamics.answers
    ours = dynamics_program(DynamicsSpec(robot, known, given, answers))
    yield _recursion("symmetric pairs (ours)", ours, robot, timed)
    if known.all():
        yield _recursion("RNEA, the recursion", _recorded(robot, rnea_scalars), robot, timed)
    elif not known.any():
        yield _recursion("ABA, the recursion", _recorded(robot, aba_scalars), robot, timed)
        try:
            parent = expanded_parent(robot)
        except DynsysError as error:
            yield Compared("CRBA + LTDL", note=str(error).split(":")[0])
            return

        def via_inertia(
            robot: Any, q: ScalarArray, qd: ScalarArray, tau: ScalarArray
        ) -> ScalarArray:
            nothing = np.zeros(robot.nv).astype(object)
            bias = rnea_scalars(robot, q, qd, nothing)
            L, diag = ltdl_scalars(crba_scalars(robot, q), parent)
            return solve_ltdl(L, diag, parent, tau - bias)

        yield _recursion("CRBA + LTDL", _recorded(robot, via_inertia), robot, timed)


def _planned(problem: Estimation, timed: bool) -> Compared:
    """What solves an estimation unless another plan is given; torques of it."""
    try:
        plan = problem.plan()
        row = Compared(f"{plan.method} (ours)", plan.operations.total)
        if not timed or plan.operations.total > LARGEST_TIMED:
            return row
        robot, rng = problem.robot, np.random.default_rng(0)
        q = np.array([robot.random_configuration(seed) for seed in range(256)])
        qd, y = rng.normal(size=(256, robot.nv)), rng.normal(size=(256, problem.layout.size))
        return replace(row, nanoseconds=_batch_nanoseconds(problem.compile(plan), q, qd, y))
    except DynsysError as error:
        return Compared("ours", note=str(error))


def _recursion(name: str, program: Program, robot: Any, timed: bool) -> Compared:
    states = sample_states(robot, SAMPLES, 0, np.ones(robot.nv))
    nanoseconds = _time(program, states) if timed else None
    return Compared(name, program_operations(program).total, nanoseconds=nanoseconds)


def _recorded(robot: Any, algorithm: Callable[..., ScalarArray]) -> Program:
    """Program of an algorithm of q, qd and a third vector, on the robot's own frames."""
    graph = Graph()
    vectors = [graph.inputs(size) for size in (robot.nq, robot.nv, robot.nv)]
    program = graph.program(list(np.ravel(algorithm(robot, *vectors))))
    return simplify(program, sample_states(robot, SAMPLES, 0, np.ones(robot.nv)))
