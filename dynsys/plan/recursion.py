"""Program of an estimator by inverse dynamics with open parameters, for any tree and any rows.

    d = d0 + Z p,    B p = c        :mod:`.open_rows`

As many rows left as parameters: scalar LU along the pivots of the order, none exchanged. The
pivots that depend on the state and have a part in the answers are watched: where one falls
below its median by :data:`MARGIN`, the answers are NaN, and whoever asked solves that state by
pivoting. Cheap where few parameters are open; the elimination of all unknowns (:mod:`.saddle`,
:mod:`.lu`) is cheaper where readings of one body say little of the others.

[NORI]'s load cells at both ends of a chain: two joint accelerations at each end and a torsion
are open, five components of the first joint's wrench are rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array

from dynsys.errors import (
    NoOrderError,
    PlanMismatchError,
    SingularSystemError,
    StructurallySingularError,
    nearest_name,
)
from dynsys.plan.estimator_spec import (
    CHECKS,
    ESTIMATES,
    SAMPLES,
    SIMPLIFY_SAMPLES,
    EstimatorSpec,
    PlannedEstimator,
    failures,
)
from dynsys.plan.lu import factor_and_solve, symbolic_lu
from dynsys.plan.lu_program import lu_estimator, used_outputs
from dynsys.plan.methods import RecursionOrder
from dynsys.plan.open_rows import OpenSystem, Substitution
from dynsys.plan.operations import program_operations
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, Pattern, PivotOrder
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.search.search import Search
from dynsys.program.graph import Scalar
from dynsys.program.guards import guarded
from dynsys.program.program import Program, side_by_side
from dynsys.program.simplify import simplify
from dynsys.types import Array

__all__ = [
    "recursion_estimator",
    "recursion_pivots",
    "recursion_program",
    "recursion_watched",
]

MARGIN = 1e4
"""How far a watched pivot may fall below its median before pivoting takes over. No error above
2e-10 at 87000 driven states and 800000 random ones of eight layouts, 0.05 % of these left to
pivoting; at 1e3, as for LU, 0.25 %."""
LARGEST = 48
"""Number of open parameters above which the small system is not small."""
REPETITIONS = 100


def recursion_estimator(
    spec: EstimatorSpec, dtype: str = "float64", search: Search | None = None
) -> PlannedEstimator[RecursionOrder]:
    """Cheapest order found that keeps its digits: constructed, then by random restarts.

    Raises
    ------
    NoOrderError
        if too little is measured, too much is open, or every order found loses digits.
    """
    _require_square(spec)
    if spec.uncertainty:
        raise NoOrderError("the recursion computes no deviations")
    substitution = Substitution(spec)
    substitution.choose()
    n_open = len(substitution.open)
    if n_open > LARGEST:
        raise NoOrderError(
            f"robot {spec.robot.name!r}: {n_open} parameters are open, the recursion takes at"
            f" most {LARGEST}"
        )
    best = _Best(spec, dtype)
    for regrouped in (True, False):  # masses in their places keep more digits
        ways = [
            _SmallSystem(OpenSystem(spec, substitution, anchors, regrouped))
            for anchors in _anchors(spec, substitution)
        ]
        for threshold in (0.01, 0.1):
            ordering = Markowitz("flops", threshold=threshold)
            for small in ways:
                best.compare(small, small.ordered(ordering), ordering.name)
            if best.failed == 0:
                break
        if best.failed == 0:
            break
    if search is not None and not search.is_off:
        for small, pivots in _restarts(ways, search):
            best.compare(small, pivots, f"randomised Markowitz, search, seed {search.seed}")
    if best.found is None:
        raise NoOrderError(
            f"robot {spec.robot.name!r}: the recursion with open parameters loses too many"
            " digits"
        )
    return best.found


def _require_square(spec: EstimatorSpec) -> None:
    if not spec.is_square or len(spec.repeated):
        raise NoOrderError("the recursion takes as many readings as unknowns are open")
    if spec.switchable or not set(spec.outputs) <= set(ESTIMATES):
        raise NoOrderError("the recursion computes estimates of sensors that are all there")
    noise = replace(spec, uncertainty=()).noise
    if np.isin(noise.row[noise.data != 0], spec.seeing).any():
        raise NoOrderError("readings that noise correlates with rows aside are corrected by LU")


class _Best:
    """The estimator that answers most states, the cheapest of those."""

    def __init__(self, spec: EstimatorSpec, dtype: str) -> None:
        self.found: PlannedEstimator[RecursionOrder] | None = None
        self.failed, self._total = CHECKS // 2, 0
        self._spec, self._dtype = spec, dtype

    def compare(self, small: _SmallSystem, pivots: PivotOrder, found_by: str) -> None:
        """Keep this one if it is better."""
        try:
            program = small.program(pivots, self._dtype)
        except (SingularSystemError, ZeroDivisionError):  # a pivot cancels at every state
            return
        total = program_operations(program).total
        if self.failed == 0 and total >= self._total:
            return
        failed = failures(program, self._spec)
        if failed < self.failed or (
            failed == self.failed and self.found is not None and total < self._total
        ):
            varying = small.planned_pivots(pivots)
            self.found = PlannedEstimator(program, small.order(pivots), varying, found_by)
            self.failed, self._total = failed, total


def recursion_program(
    spec: EstimatorSpec, order: RecursionOrder, dtype: str = "float64"
) -> Program:
    """Program of a given order, executed as it stands.

    The order says nothing of deviations and of how well readings agree: where these are asked
    for behind estimates, they come from scalar LU.

    Raises
    ------
    PlanMismatchError
        if the order names what is not there, leaves something over, or a pivot of it is zero.
    NoOrderError
        if it is asked for what the recursion does not compute.
    """
    ours = tuple(name for name in spec.outputs if name in ESTIMATES)
    others = spec.outputs[len(ours) :]
    if others or spec.uncertainty:
        if not ours or ours + others != spec.outputs:
            raise NoOrderError("the recursion computes estimates, all else behind them")
        estimates = recursion_program(replace(spec, outputs=ours, uncertainty=()), order, dtype)
        return side_by_side(
            estimates, lu_estimator(replace(spec, outputs=others), dtype).program
        )
    _require_square(spec)
    try:
        small = _ordered(spec, order)
        return small.program(small.numbered(order.pivots), dtype)
    except (NoOrderError, SingularSystemError, ZeroDivisionError) as error:
        raise PlanMismatchError(
            f"robot {spec.robot.name!r}: the order of the plan (recursion) cannot be executed:"
            f" {error}. Make a new plan"
        ) from None


def recursion_pivots(spec: EstimatorSpec, order: RecursionOrder) -> tuple[PlannedPivot, ...]:
    """Pivots of an order that depend on the state."""
    ours = tuple(name for name in spec.outputs if name in ESTIMATES)
    small = _ordered(replace(spec, outputs=ours, uncertainty=()), order)
    return small.planned_pivots(small.numbered(order.pivots))


def recursion_watched(spec: EstimatorSpec, order: RecursionOrder) -> Program:
    """Answers, then the watched pivots, without guards."""
    small = _ordered(spec, order)
    return small.watched(small.numbered(order.pivots))


# ---- an order in names, read -----------------------------------------------------------------


def _ordered(spec: EstimatorSpec, order: RecursionOrder) -> _SmallSystem:
    """The small system of what an order chooses."""
    substitution = _substituted(spec, order)
    anchors = _anchored(spec, substitution, order)
    return _SmallSystem(OpenSystem(spec, substitution, anchors, order.regrouped))


def _substituted(spec: EstimatorSpec, order: RecursionOrder) -> Substitution:
    found = Substitution(spec)
    readings = {name: r for r, name in enumerate(found.readings)}
    columns = {name: c for c, name in found.names.items()}
    chosen: dict[int, int] = {}
    for reading, unknown in order.substituted:
        r = _number(readings, reading, "reading")
        chosen[r] = _number(columns, unknown, "unknown")
    if list(chosen) != sorted(chosen):
        raise NoOrderError("its substituted readings do not stand in their order")
    found.choose(chosen)
    return found


def _anchored(
    spec: EstimatorSpec, substitution: Substitution, order: RecursionOrder
) -> dict[int, int]:
    bodies = {name: b for b, name in enumerate(spec.robot.body_names)}
    found = {}
    for source, anchor in order.anchors:
        b, a = _number(bodies, source, "body"), _number(bodies, anchor, "body")
        if b not in substitution.fully_open() or a not in spec.robot.support(b) or a == b:
            raise NoOrderError(
                f"the wrench on {source!r} is not open, or {anchor!r} is not on its way to the"
                " base"
            )
        found[b] = a
    return found


def _number(names: dict[str, int], name: str, what: str) -> int:
    if name not in names:
        raise NoOrderError(f"there is no {what} {name!r}{nearest_name(name, [*names])}")
    return names[name]


# ---- which anchors, which pivots -------------------------------------------------------------


def _restarts(
    ways: Sequence[_SmallSystem], search: Search
) -> Iterator[tuple[_SmallSystem, PivotOrder]]:
    """Pivot orders, ties broken at random, each once; until the search is over.

    Small systems have few orders: after many repetitions in a row there are no others. Those
    that change more entries than the best so far are not worth an execution.
    """
    end = time.perf_counter() + (search.seconds or np.inf)
    seen: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
    least = [np.inf] * len(ways)
    repeated = 0
    for k in range(search.evaluations or 10**9):
        if time.perf_counter() > end or repeated > REPETITIONS:
            return
        way = k % len(ways)
        ordering = Markowitz("flops", threshold=(0.01, 0.001)[k % 2], seed=search.seed + k)
        pivots = ways[way].ordered(ordering)
        key = (way, tuple(pivots.pivots))
        repeated = repeated + 1 if key in seen else 0
        seen.add(key)
        if repeated == 0 and (updates := ways[way].updates(pivots)) <= least[way]:
            least[way] = updates
            yield ways[way], pivots


def _anchors(spec: EstimatorSpec, substitution: Substitution) -> list[dict[int, int]]:
    """No anchors; the nearest body on the way to the base whose joint wrench is measured."""
    measured = {
        term.unknown.body
        for block in spec.equations
        for term in block.terms
        if term.unknown.kind == "joint_wrench"
    }
    nearest = {}
    for body in substitution.fully_open():
        way = [a for a in spec.robot.support(body) if a in measured]
        if way and way[-1] != body:
            nearest[body] = way[-1]
    return [{}, nearest] if nearest else [{}]


# ---- as many rows as parameters: scalar LU ---------------------------------------------------


class _SmallSystem:
    """B p = c of one choice of parameters, on its graph."""

    def __init__(self, system: OpenSystem) -> None:
        self.system, self.spec, self.substitution = system, system.spec, system.substitution
        rows = system.rows
        self.numbers = [r for r, row in rows.items() if row.coefficients]
        self.rows = [rows[r].coefficients for r in self.numbers]
        self.rhs = [-rows[r].constant for r in self.numbers]
        n_open = len(self.substitution.open)
        if len(self.rows) != n_open:
            raise NoOrderError(
                f"robot {self.spec.robot.name!r}: {len(self.rows)} readings for {n_open} open"
                " parameters"
            )

    def ordered(self, ordering: Markowitz) -> PivotOrder:
        """Pivots by an ordering, judged at sampled states; NoOrderError if it has none."""
        pattern, values = self._sampled
        try:
            return self._canonical(ordering.order(pattern, OrderingContext(None, values)))
        except (StructurallySingularError, SingularSystemError) as error:
            raise NoOrderError(
                f"robot {self.spec.robot.name!r}: no pivots for the open parameters: {error}"
            ) from None

    def updates(self, pivots: PivotOrder) -> int:
        """Number of entries that the elimination along pivots changes."""
        lu = symbolic_lu(self._sampled[0], pivots)
        return int(lu.below @ lu.right)

    def _canonical(self, pivots: PivotOrder) -> PivotOrder:
        """The same elimination, pivots that do not touch each other by their readings.

        Other sequences of such pivots cost the same: restarts try one of them.
        """
        lu = symbolic_lu(self._sampled[0], pivots)
        touched = np.zeros((lu.n, lu.n), dtype=bool)
        touched[lu.rows, lu.columns] = touched[lu.columns, lu.rows] = True
        left, found = list(range(lu.n)), []
        while left:
            free = [k for k in left if not touched[k, [j for j in left if j < k]].any()]
            k = min(free, key=lambda k: int(pivots.row_order[k]))
            left.remove(k)
            found.append(pivots.pivots[k])
        return PivotOrder.of(found)

    @cached_property
    def _sampled(self) -> tuple[Pattern, Array]:
        """Pattern of B, and its entries (states, entries)."""
        n, places = len(self.rows), [(i, k) for i, row in enumerate(self.rows) for k in row]
        scalars = [self.rows[i][k] for i, k in places]
        values = self.system.graph.program(scalars).evaluate(self.system.samples)
        dense = np.zeros((len(values), n, n))
        for (i, k), column in zip(places, values.T, strict=True):
            dense[:, i, k] = column
        pattern: Pattern = csc_array(np.asarray(dense.any(axis=0)))
        pattern.sort_indices()
        columns = np.repeat(np.arange(n), np.diff(pattern.indptr))
        return pattern, dense[:, pattern.indices, columns]

    def program(self, pivots: PivotOrder, dtype: str) -> Program:
        """Guarded program along pivots; SingularSystemError where one is zero."""
        spec, program = self.spec, self.watched(pivots)
        n_answers = spec.signature.n_outputs
        sizes = np.abs(program.evaluate(spec.samples(SAMPLES, 3))[:, n_answers:])
        limits = [float(x) / MARGIN for x in np.median(sizes, axis=0)]
        return guarded(program, spec.robot.quaternion_slices, dtype, pivot_limits=limits)

    def watched(self, pivots: PivotOrder) -> Program:
        """Answers, then the pivots that are watched, without guards."""
        spec, system = self.spec, self.system
        solved = factor_and_solve(self.rows, self.rhs, pivots)
        found = system.answers(solved.x)
        answers = [x for name in spec.outputs for x in found[name]]
        varying = [pivot for pivot in solved.pivots if isinstance(pivot, Scalar)]
        used = used_outputs(system.graph.program([*answers, *varying]), len(answers))
        watched = [p for p, has_part in zip(varying, used, strict=True) if has_part]
        samples = system.samples[:SIMPLIFY_SAMPLES]
        return simplify(system.graph.program([*answers, *watched]), samples)

    def order(self, pivots: PivotOrder) -> RecursionOrder:
        """The choices, in names."""
        part, names = self.substitution, self.spec.robot.body_names
        return RecursionOrder(
            tuple((part.readings[r], part.names[c]) for r, c in sorted(part.pairs)),
            tuple((names[b], names[a]) for b, a in self.system.anchors.items()),
            tuple((self._row(i), self._parameter(k)) for i, k in pivots.pivots),
            self.system.regrouped,
        )

    def _row(self, i: int) -> str:
        return self.substitution.readings[self.numbers[i]]

    def _parameter(self, k: int) -> str:
        return self.substitution.names[self.substitution.open[k]]

    def numbered(self, pivots: Sequence[tuple[str, ...]]) -> PivotOrder:
        """Pivots of names; NoOrderError says which is missing or unknown."""
        n = len(self.rows)
        rows = {self._row(i): i for i in range(n)}
        parameters = {self._parameter(k): k for k in range(n)}
        if len(pivots) != n or any(len(pivot) != 2 for pivot in pivots):
            raise NoOrderError(
                f"it has {len(pivots)} pivots, the open parameters need {n}, each of a reading"
                " and an unknown"
            )
        return PivotOrder.of(
            [
                (_number(rows, r, "open reading"), _number(parameters, c, "open parameter"))
                for r, c in pivots
            ]
        )

    def planned_pivots(self, pivots: PivotOrder) -> tuple[PlannedPivot, ...]:
        """Pivots that depend on the state, with their least size beside their median."""
        solved = factor_and_solve(self.rows, self.rhs, pivots)
        found: list[PlannedPivot] = []
        for step, pivot in enumerate(solved.pivots):
            if isinstance(pivot, Scalar):
                values = self.system.graph.program([pivot]).evaluate(self.system.samples)
                ratio = float(np.abs(values).min() / np.median(np.abs(values)))
                k = int(pivots.col_order[step])
                found.append(PlannedPivot(step, self._parameter(k), "sampling", ratio))
        return tuple(found)
