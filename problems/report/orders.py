"""Orders of elimination of a report: fill and operations of each, and the plan of dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from dynsys.cholmod import fill_reducing_order, has_cholmod
from dynsys.errors import DynsysError
from dynsys.plan.estimator import estimator_program
from dynsys.plan.lu import symbolic_lu
from dynsys.plan.operations import program_operations
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot
from dynsys.types import IntArray
from problems.estimation.compiled import CompiledEstimator, EstimatorOutputs
from problems.estimation.estimation import Estimation
from problems.order_comparison import Compared, compare
from problems.planning import PlanRequest
from problems.problem import AbstractDynamics
from problems.report.markup import bars, count, figure, listed, table, text
from problems.report.sparsity import (
    LAW,
    NOISE,
    Matrix,
    Saddle,
    assembled,
    eliminated,
    eliminated_saddle,
    saddle,
)
from problems.report.subject import Subject

__all__ = ["OrderRow", "OrdersPart", "PlanPart", "orders_part", "orders_section", "plan_part"]


@final
@dataclass(frozen=True)
class PlanPart:
    """How dynamics is eliminated: exact operations, and why its pivots are safe."""

    ordering: str
    multiplications: int
    additions: int
    divisions: int
    pivots_by_argument: int
    pivots_by_sampling: int

    @property
    def operations(self) -> int:
        """All of them."""
        return self.multiplications + self.additions + self.divisions


def plan_part(dynamics: AbstractDynamics) -> PlanPart:
    """Plan of inverse, forward or hybrid dynamics."""
    plan = dynamics.plan()
    count = plan.operations
    return PlanPart(
        plan.ordering, count.multiplications, count.additions, count.divisions,
        len(plan.pivots) - len(plan.checked_pivots), len(plan.checked_pivots),
    )  # fmt: skip


@final
@dataclass(frozen=True)
class OrderRow:
    """One order: entries of the factors beyond those of the matrix, operations per solve.

    ``elimination`` counts factorisation and substitution alone, ``executed`` the whole
    simplified computation that is compiled. None where a count does not apply.
    """

    name: str
    fill: int | None
    elimination: int | None
    executed: int | None
    note: str = ""


@final
@dataclass(frozen=True, eq=False)
class OrdersPart:
    """Orders side by side; the matrix before, and after the order named ``shown``."""

    what: str
    rows: list[OrderRow]
    shown: str
    before: Matrix
    after: Matrix | None


def orders_part(subject: Subject) -> OrdersPart:
    """Compare orders of the problem's own system; draw the best."""
    before = assembled(subject.system, subject.estimation)
    if subject.request is not None:
        try:
            return _square(subject, subject.request, before)
        except DynsysError as error:
            note = OrderRow("no order", None, None, None, str(error))
            return OrdersPart("the square system", [note], "", before, None)
    assert subject.estimation is not None
    return _symmetric(subject.estimation, before)


def _square(subject: Subject, request: PlanRequest, before: Matrix) -> OrdersPart:
    found = compare(request, states=8, seed=0, timed=False)
    rows = [OrderRow(r.name, r.fill, r.textbook, r.executed, r.note) for r in found]
    if subject.estimation is not None and subject.estimation.executes is not None:
        rows = [*_compiled(subject.estimation), *rows]
    name, order = _shown(request, found)
    after = None
    if order is not None:
        after = eliminated(subject.system, subject.estimation, order, name)
    return OrdersPart(
        "LU of the square system; recursions and ours beside it", rows, name, before, after
    )


def _shown(request: PlanRequest, found: list[Compared]) -> tuple[str, PivotOrder | None]:
    """Order that is drawn: for dynamics the pairs, leaf to root; else the cheapest."""
    if request.dynamics is not None:
        system = request.system
        context = OrderingContext.sampled(system, 8)
        return "leaf to root", LeafToRoot().order(system.pattern(), context)
    for row in found:
        if row.order is not None and row.executed is not None:
            return row.name, row.order
    return "", None


def _symmetric(estimation: Estimation, before: Matrix) -> OrdersPart:
    system = saddle(estimation)
    rows: list[OrderRow] = []
    best: tuple[int, str, IntArray] | None = None
    for name, order in _orders(system):
        lu = symbolic_lu(system.pattern, PivotOrder(order, order))
        below = lu.below.astype(np.int64)
        # LDL^T: c divisions and c (c + 1) multiply-subtracts per column; two substitutions
        cost = int((below + below * (below + 1)).sum() + 4 * below.sum() + lu.n)
        rows.append(OrderRow(name, lu.fill // 2, cost, None))
        if best is None or cost < best[0]:
            best = cost, name, order
    rows.sort(key=lambda row: row.elimination or 0)
    rows = [*_compiled(estimation), *rows]
    assert best is not None
    after = eliminated_saddle(system, best[2], best[1])
    what = "LDLᵀ of the symmetric system of the least squares, [C Y 0; Yᵀ 0 Dᵀ; 0 D 0]"
    return OrdersPart(what, rows, best[1], before, after)


def _orders(system: Saddle) -> list[tuple[str, IntArray]]:
    size = system.pattern.shape[0]
    natural = np.arange(size)
    is_unknown = ~np.isin(system.kinds, [NOISE, LAW])
    values = csc_array(system.pattern, dtype=np.float64) + size * csc_array(
        (np.ones(size), (natural, natural)), shape=(size, size)
    )
    degrees = splu(
        csc_array(values), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )  # fmt: skip
    found = [
        ("as assembled", natural),
        ("leaf to root", np.lexsort((natural, is_unknown, -system.body)).astype(np.intp)),
        ("reverse Cuthill-McKee",
         reverse_cuthill_mckee(csc_array(system.pattern).tocsr(), symmetric_mode=True)),
        ("minimum degree (SuperLU)", np.argsort(degrees.perm_c)),
    ]  # fmt: skip
    if has_cholmod():
        found += [
            ("AMD (CHOLMOD)", fill_reducing_order(values, "amd")),
            ("METIS (CHOLMOD)", fill_reducing_order(values, "metis")),
        ]
    return [(name, np.asarray(order, dtype=np.intp)) for name, order in found]


def _compiled(estimation: Estimation) -> list[OrderRow]:
    """What the compiled estimator executes for the torques alone."""
    name = "compiled estimator, torques (ours)"
    try:
        if estimation.executes is not None:
            name = "compiled estimator, torques, along the problem's plan (ours)"
            order = estimation.executes.order
            spec = CompiledEstimator.of(estimation).spec(EstimatorOutputs(("torque",)))
            executed = program_operations(estimator_program(spec, order=order)).total
        else:
            executed = estimation.plan(outputs=("torque",)).operations.total
    except DynsysError as error:
        return [OrderRow(name, None, None, None, str(error).split(": ", 1)[-1])]
    return [OrderRow(name, None, None, executed)]


# ---- section -----------------------------------------------------------------------------


def orders_section(o: OrdersPart, plan: PlanPart | None) -> str:
    """Fill and exact operations of every order."""
    marked = [k for k, row in enumerate(o.rows) if "(ours)" in row.name]
    rows = [
        (text(r.name) + (" · drawn above" if r.name == o.shown else ""), count(r.fill),
         count(r.elimination), count(r.executed))
        for r in o.rows
    ]  # fmt: skip
    columns = ("order", "fill [entries]", "elimination [operations]", "executed [operations]")
    notes = listed(f"{text(r.name)}: {text(r.note)}" for r in o.rows if r.note)
    cost = [(r.name, r.executed or r.elimination) for r in o.rows]
    picture = bars(
        [(name, value, count(value)) for name, value in cost],
        "operations per solve for each order", "operations per solve (scale of powers of ten)",
    )  # fmt: skip
    return (
        f"{'' if plan is None else _plan_words(plan)}<p>{text(o.what)}.</p>"
        + table(columns, rows, marked=marked)
        + figure(picture, "Operations per solve: executed where counted, else elimination.")
        + "<p>Elimination: factorisation and substitution alone, every entry a number."
        " Executed: the whole computation after simplification, entries of the system included,"
        f" as it is compiled for this robot.</p>{notes}"
    )


def _plan_words(p: PlanPart) -> str:
    return (
        f"<p>Plan: {text(p.ordering)}; {count(p.operations)} operations per solve"
        f" ({count(p.multiplications)} multiplications, {count(p.additions)} additions,"
        f" {count(p.divisions)} divisions). Pivots safe by argument:"
        f" {count(p.pivots_by_argument)}; by sampling: {count(p.pivots_by_sampling)}.</p>"
    )
