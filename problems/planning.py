"""Problems to plan, by the words of the command line, and what a campaign computes of each.

ROBOT + id | fd                     inverse or forward dynamics: symmetric pairs
ROBOT + hybrid:JOINT,JOINT...       accelerations of these joints known, torques elsewhere
ROBOT + published:NAME              a sensor set of sensors.published: scalar LU
ROBOT + LAYOUT.yaml                 a layout of sensors, as many readings as needed
PROBLEM.yaml | catalogue:NAME       an estimation problem, as many readings as needed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse import csr_array

from dynsys.errors import DynsysError, LayoutError, nearest_name
from dynsys.kernel.build import build_kernel
from dynsys.model.expanded import expanded_parent
from dynsys.model.tree import KinematicTree
from dynsys.plan.fingerprint import Fingerprint, fingerprint_parts
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.operations import (
    lu_operations,
    program_operations,
    substitution_operations,
)
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.libraries import Cholmod, SuperLU, Umfpack
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, PivotOrder
from dynsys.plan.orders.peeling import Peeled
from dynsys.plan.orders.recursive_orders import LeafToRoot, NewtonEuler, RootToLeaf
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.plan import Plan
from dynsys.plan.published import numeric_lu, published_lu, published_substitution
from dynsys.plan.record import SAMPLES, dynamics_program, sample_states
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.search import Search, search_order, search_plan
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.rnea import rnea_scalars
from dynsys.recursive.sparse_factors import ltdl_scalars, solve_ltdl
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, ScalarArray
from problems.dynamics import ForwardDynamics, HybridDynamics, InverseDynamics
from problems.problem import AbstractDynamics
from problems.robots import read_robot
from problems.terminal import progress
from sensors import Layout, published

__all__ = [
    "Compared",
    "PlanRequest",
    "compare",
    "plan_task",
    "program_nanoseconds",
    "read_request",
]

PUBLISHED = "published:"
HYBRID = "hybrid:"
FILES = (".yaml", ".yml")


@final
@dataclass(frozen=True, eq=False)
class PlanRequest:
    """A square system to plan: ``dynamics`` where symmetric pairs solve it."""

    name: str
    system: LinearSystem
    outputs: tuple[UnknownKind, ...]
    dynamics: AbstractDynamics | None = None
    layout: Fingerprint | None = None

    @property
    def robot(self) -> KinematicTree:
        """The robot."""
        return self.system.robot

    def plan(self, search: Search) -> Plan:
        """Symmetric plan of dynamics; otherwise scalar LU, its order searched for."""
        if self.dynamics is not None:
            return self.dynamics.plan()
        return search_plan(
            self.system, self.name, search, outputs=self.outputs, layout=self.layout
        )


def read_request(spec: str, problem: str = "fd", floating_base: bool = False) -> PlanRequest:
    """Return what ``spec`` and ``problem`` name; see the module.

    Raises
    ------
    ModelError, LayoutError
        if there is no such robot, problem or file, or it has not as many equations as unknowns.
    """
    if spec.endswith(FILES) or spec.startswith("catalogue:"):
        from problems.problem_file import load_problem

        file = load_problem(spec)
        return _measured(spec, file.sensors)
    robot = read_robot(spec, floating_base).robot
    if problem == "id":
        return _dynamics(InverseDynamics(robot), ("torque",))
    if problem == "fd":
        return _dynamics(ForwardDynamics(robot), ("qdd",))
    if problem.startswith(HYBRID):
        joints = problem.removeprefix(HYBRID).split(",")
        return _dynamics(HybridDynamics(robot, joints), ("torque", "qdd"))
    if problem.startswith(PUBLISHED):
        name = problem.removeprefix(PUBLISHED)
        if name not in published.__all__:
            hint = nearest_name(name, published.__all__)
            known = ", ".join(published.__all__)
            raise LayoutError(f"there is no published set {name!r} among {known}{hint}")
        return _measured(problem, getattr(published, name)(robot))
    if problem.endswith(FILES):
        return _measured(problem, Layout.load(problem, robot))
    raise LayoutError(
        f"there is no problem {problem!r}: use id, fd, hybrid:JOINT,..., published:NAME or a"
        " layout file (.yaml)"
    )


def _dynamics(dynamics: AbstractDynamics, outputs: tuple[UnknownKind, ...]) -> PlanRequest:
    return PlanRequest(type(dynamics).__name__, dynamics.system, outputs, dynamics)


def _measured(name: str, layout: Layout) -> PlanRequest:
    """Laws and the readings of a layout, torques wanted."""
    laws = LinearSystem(layout.robot)
    system = laws.with_equations(layout.equations(laws.unknowns))
    rows, columns = system.shape
    if rows != columns:
        more = "more" if rows > columns else "fewer"
        raise LayoutError(
            f"{name}: {rows} equations for {columns} unknowns; a pivot order needs as many as"
            f" there are unknowns. With {more} readings 'dynsys solve' estimates by least"
            " squares, and 'dynsys check' says what they determine"
        )
    parts = {f"sensor {s.name!r}": repr(s) for s in layout.sensors}
    return PlanRequest(
        name, system, ("torque",), layout=fingerprint_parts(f"layout {name!r}", parts)
    )


def plan_task(payload: Mapping[str, Any]) -> dict[str, Any]:
    """One task of a campaign: search an order for a robot, problem and seed.

    The payload has ``robot, problem, floating_base, seed, evaluations``; the result the
    operations of the best constructive order and of the one found, and the order itself.
    """
    start = time.perf_counter()
    request = read_request(payload["robot"], payload["problem"], bool(payload["floating_base"]))
    if request.dynamics is not None:
        operations = request.dynamics.plan().operations.total
        return {"method": "symmetric", "constructive": operations, "found": operations}
    search = Search(evaluations=payload["evaluations"], seed=payload["seed"])
    problem = SearchProblem.of(request.system, request.outputs, seed=payload["seed"])
    result = search_order(problem, search, request.system)
    return {
        "method": "lu",
        "constructive": result.constructive.operations.total,
        "found": result.best.operations.total,
        "from": result.best.origin,
        "safety": result.best.safety,
        "row_order": result.best.order.row_order.tolist(),
        "col_order": result.best.order.col_order.tolist(),
        "seconds": time.perf_counter() - start,
    }


# ----------------------------------------------------------------------
# Orders of elimination and classical recursions on one problem, each counted the same ways.

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
        fields = ("name", "executed", "fill", "textbook", "published", "safety", "nanoseconds",
                  "note")  # fmt: skip
        return {field: getattr(self, field) for field in fields}


def compare(request: PlanRequest, *, states: int, seed: int, timed: bool) -> list[Compared]:
    """Ours and the recursions first, then orders of D from few executed operations to many.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
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
    lu = symbolic_lu(problem.pattern, order)
    textbook = (lu_operations(lu) + substitution_operations(lu)).total
    safety = problem.safety(order)
    if safety == 0.0:
        return Compared(
            ordering.name, None, lu.fill, textbook, safety=0.0, order=order,
            note="a pivot vanishes at a sampled state: needs pivoting at run time",
        )  # fmt: skip
    if textbook > LARGEST_RECORDED:
        return Compared(
            ordering.name, None, lu.fill, textbook, _published(problem, order), safety,
            note="too many operations to be recorded", order=order,
        )  # fmt: skip
    program = problem.program(order)
    return Compared(
        ordering.name,
        program_operations(program).total,
        lu.fill,
        textbook,
        _published(problem, order),
        safety,
        _time(program, problem.samples.astype(np.float64)) if timed else None,
        order=order,
    )


def _published(problem: SearchProblem, order: PivotOrder) -> int:
    """Mean over some states of what the scripts behind [NORI] would count."""
    totals = []
    for data in problem.values[:4]:
        A = csr_array((data, problem.places), shape=problem.pattern.shape)
        L, U = numeric_lu(A, symbolic_lu(problem.pattern, order))
        b = problem.known_rhs[order.row_order].astype(np.float64)
        totals.append((published_lu(L, U) + published_substitution(L, b, U)).total)
    return round(float(np.mean(totals)))


def _time(program: Program, states: Any) -> float | None:
    if program_operations(program).total > LARGEST_TIMED:
        return None
    return program_nanoseconds(program, states)


def program_nanoseconds(program: Program, states: Array) -> float:
    """Nanoseconds per state of a program as machine code, at inputs (n, n_inputs)."""
    signature = Signature((("x", program.n_inputs),), (("out", len(program.outputs)),))
    kernel = build_kernel(program, signature)
    inputs = np.ascontiguousarray(np.tile(states, (22, 1))[:256])
    best = np.inf
    for _ in range(ROUNDS):
        calls, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < ROUND_SECONDS:
            kernel.batch(inputs)
            calls += 1
        best = min(best, spent / (calls * len(inputs)))
    return float(best * 1e9)


# ---- ours and the classical recursions -----------------------------------------------------


def _recursions(request: PlanRequest, timed: bool) -> Iterator[Compared]:
    if request.dynamics is None:
        return
    robot, known = request.robot, request.dynamics.known
    given, names = request.dynamics.given, request.dynamics.answers
    ours, _ = dynamics_program(robot, known, given, names)
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


def _recursion(name: str, program: Program, robot: Any, timed: bool) -> Compared:
    states = sample_states(robot, SAMPLES, 0, robot.nv).astype(np.float64)
    nanoseconds = _time(program, states) if timed else None
    return Compared(name, program_operations(program).total, nanoseconds=nanoseconds)


def _recorded(robot: Any, algorithm: Callable[..., ScalarArray]) -> Program:
    """Program of an algorithm of q, qd and a third vector, on the robot's own frames."""
    graph = Graph()
    vectors = [graph.inputs(size) for size in (robot.nq, robot.nv, robot.nv)]
    program = graph.program(list(np.ravel(algorithm(robot, *vectors))))
    return simplify(program, sample_states(robot, SAMPLES, 0, robot.nv))
