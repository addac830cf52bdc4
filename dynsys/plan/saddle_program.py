"""Program of an estimator: the saddle system recorded by elimination along an order.

saddle_order       an order of pivots that are safe at sampled states, by some rule
saddle_program     any order executed as it stands: recorded, simplified, guarded (NaN where
                   a watched pivot vanishes)
saddle_estimator   both, compared with extended precision; where digits are lost, again with
                   more careful pivots
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast, final

import numpy as np

from dynsys.errors import NoOrderError, PlanOrderError, nearest_name
from dynsys.model.varying import at_parameters
from dynsys.plan.estimator_spec import (
    CHECKS,
    SAMPLES,
    SIMPLIFY_SAMPLES,
    EstimatorSpec,
    PlannedEstimator,
    failures,
    guarded_estimator,
    program_errors,
    watched_limits,
)
from dynsys.plan.methods import Pivot, SaddleOrder
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.repeated_rows import row_checks, row_residuals
from dynsys.plan.saddle import (
    LinearRow,
    StagedUnknowns,
    equation_rows,
    law_rows,
    open_joints,
    recorded_saddle,
)
from dynsys.plan.saddle_elimination import (
    RIGHT,
    Elimination,
    PivotRule,
    Recorder,
    Ref,
    Safety,
    eliminate_all,
)
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import Op, Program
from dynsys.program.simplify import simplify
from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, BoolArray, IntArray

__all__ = [
    "PRECISE",
    "SaddleEntries",
    "executed_estimator",
    "lost_digits",
    "saddle_entries",
    "saddle_estimator",
    "saddle_order",
    "saddle_pivots",
    "saddle_program",
    "saddle_watched",
]

RULE = "leaf to root, cheapest first"
"""What finds an order where nobody searches."""
FEW = CHECKS // 100
"""States left to pivoting that are no reason for another order."""
ANY = Safety(steady=1e-9, kept=1e-9, multiplier=1e9)
STEADY = Safety(steady=3e-2, kept=1e-4, multiplier=1e4)
CAREFUL = Safety(steady=1e-1, kept=1e-2, multiplier=1e2)
STRICT = Safety(steady=3e-1, kept=1e-1, multiplier=1e1)
ATTEMPTS = ((STEADY, ANY), (CAREFUL, STEADY, ANY), (STRICT, CAREFUL, STEADY, ANY))
"""What counts as safe: where an attempt loses digits or states, the next one waits for better
pivots, as a rule at more operations."""
CERTAIN = 1e-12
"""A variance below this part of its terms, at every state, is zero: an exact quantity."""
UNCHECKED = 1e-9
"""A multiplier whose variance is below this part of the reading's information, at every state:
no other reading checks this one."""
PIVOT_MARGIN, SWITCHED_MARGIN = 1e4, 1e9
"""A watched pivot may fall this far below its median before the answer becomes NaN; the second
where sensors can be switched off, which lowers pivots and costs no digits."""
DOUBTFUL_STEADY, DOUBTFUL_KEPT, CALM = 1e-2, 1e-3, 0.1
"""A pivot is doubtful that falls below the first part of its median, or the second of its
terms, at a sampled state; no harm is done if answers keep a digit more than is accurate."""
PRECISE, GAIN = 0.01, 3.0
"""Part of what is accurate that an order may lose before stricter pivots are tried, and by how
much less these must lose to be kept."""
CLOSER = ((1e4, 1e7), (1e4, 1e6), (1e3, 1e6), (1e3, 1e5), (1e2, 1e5), (1e2, 1e4), (1e1, 1e3))
"""Where doubtful pivots cost digits: how far one may fall below its median, and below its
terms. The first under which no answer at so many states is off by more than TOLERATED."""
CLOSELY, CLOSELY_NODES = 4096, 4e7
"""These states; fewer where the program is long, states times nodes."""
LARGEST = float(np.finfo(np.float64).max)
TOLERATED = 10.0
"""Times what counts as accurate: beyond the states tried, errors are larger. Of the ways to
switch sensors off few are tried, and nothing more is tolerated."""


# ---- orders: found, executed ---------------------------------------------------------------


def saddle_estimator(
    spec: EstimatorSpec, dtype: str = "float64"
) -> PlannedEstimator[SaddleOrder]:
    """Estimator along the order of the default rule.

    The answers are NaN at bad quaternions and where a varying pivot vanishes.

    Raises
    ------
    KernelBuildError
        if some unknown has no safe pivot (the measurements do not determine it, or only with
        pivots that depend on the state), digits are lost, or nothing is answered where sensors
        are on or off; names the unknowns.
    """
    best, least, why = None, (0, 0.0), "loses too many digits"
    for safeties in ATTEMPTS:
        try:
            recorded = _chosen(spec, safeties, PivotRule())
        except NoOrderError:
            if best is None:
                raise
            break
        program = recorded.guarded(dtype)
        failed, lost = lost_digits(program, spec)
        if failed >= CHECKS // 2:
            continue
        failed = failed if failed > FEW else 0
        if spec.switchable:
            switched = failures(program, spec, switched=True)
            if switched == CHECKS:
                why = f"answers no state with {', '.join(spec.switchable)} on or off"
                continue
            failed += switched if switched > FEW else 0
        if best is None or (failed, GAIN * lost) < least:
            best, least = recorded.estimator(program, RULE), (failed, lost)
        if least <= (0, PRECISE):
            break
    if best is None:
        raise NoOrderError(f"robot {spec.robot.name!r}: elimination in pairs {why}")
    return best


def lost_digits(program: Program, spec: EstimatorSpec) -> tuple[int, float]:
    """States without a right answer, and the largest error at all but a few states.

    Fewer states go first, then less error: what is accurate may still be digits worse than
    another order. The error is that beside what is accurate; NaN if many have no answer.
    """
    errors = program_errors(program, spec, CHECKS)[0]
    return int((~(errors <= 1.0)).sum()), float(np.sort(errors)[-1 - FEW])


def saddle_order(spec: EstimatorSpec, rule: PivotRule | None = None) -> SaddleOrder:
    """Order of pivots that a rule chooses among safe ones, for a search to price.

    Another ``rule``, another order: bodies in another sequence (``PivotRule.place``: another
    root, nested dissection), other preferences within a body (``PivotRule.rank``: noise for
    restarts, other weights). Its exact price is what executing it costs::

        order = saddle_order(spec, PivotRule(rank=lambda c: (*c[:2], c.updates * noise())))
        price = program_operations(saddle_program(spec, order))

    ``failures`` of that program tells whether it keeps its digits. Local moves, pivots
    exchanged in ``order.pivots``, are executed the same way, or refused where one is zero.

    Raises
    ------
    KernelBuildError
        if an unknown has no pivot that is safe; names it.
    """
    return _chosen(spec, ATTEMPTS[0], rule or PivotRule()).order


def saddle_program(spec: EstimatorSpec, order: SaddleOrder, dtype: str = "float64") -> Program:
    """Program of a given order, executed as it stands, pivot by pivot.

    Raises
    ------
    PlanOrderError
        if the order names a line or joint that is not there, leaves one over, or a pivot of it
        is zero.
    """
    return _executed(spec, order).guarded(dtype)


def executed_estimator(
    spec: EstimatorSpec, order: SaddleOrder, ordering: str, dtype: str = "float64"
) -> PlannedEstimator[SaddleOrder]:
    """Estimator along a given order, which ``ordering`` found; raises as above."""
    recorded = _executed(spec, order)
    return recorded.estimator(recorded.guarded(dtype), ordering)


def saddle_pivots(spec: EstimatorSpec, order: SaddleOrder) -> tuple[PlannedPivot, ...]:
    """Pivots of an order that depend on the state."""
    return _executed(spec, order).pivots


def saddle_watched(spec: EstimatorSpec, order: SaddleOrder) -> Program:
    """Answers, then reciprocals of the watched pivots, without guards."""
    return _executed(spec, order).simplified


def saddle_with_limits(
    spec: EstimatorSpec, order: SaddleOrder | None = None
) -> tuple[Program, list[float]]:
    """What :func:`saddle_watched` gives of an order, and limits of pivots.

    For programs made of this one, which have guards of their own. By default the order is the
    one that is planned.
    """
    recorded = _executed(spec, order or saddle_estimator(spec).order)
    program, margin, limits = recorded.watched
    return program, watched_limits(program, spec, margin, limits)


def _executed(spec: EstimatorSpec, order: SaddleOrder) -> _Recording:
    recorded = _recording(spec, order)
    recorded.execute(order)
    return recorded


def _recording(spec: EstimatorSpec, order: SaddleOrder) -> _Recording:
    """The system with joints turned as an order turns them, nothing eliminated yet."""
    stages = {name: key for key, name in StagedUnknowns(spec.unknowns).stages.items()}
    for stage in order.turned:
        if stage not in stages:
            raise PlanOrderError(
                f"the order of the plan turns the {stage[0]} of joint {stage[1]!r}, which robot"
                f" {spec.robot.name!r} has not in two stages; make a new plan"
            )
    return _Recording(spec, frozenset(stages[stage] for stage in order.turned))


class SaddleEntries(NamedTuple):
    """The system before elimination, for a search to price orders of it.

    ``program`` computes the entries at ``rows`` and ``columns``, both halves, RIGHT (-1) for
    the constants; ``names`` and ``bodies`` are those of the lines, ``switched`` tells which
    entries vanish with weights that may be zero, ``avoided`` (any number, 2) which lines should
    be no pivots together.
    """

    program: Program
    rows: IntArray
    columns: IntArray
    names: tuple[str, ...]
    bodies: IntArray
    switched: BoolArray
    avoided: IntArray


def saddle_entries(spec: EstimatorSpec, order: SaddleOrder) -> SaddleEntries:
    """Entries of the system whose joints are turned as an order of it turns them."""
    return _recording(spec, order).entries


def _chosen(spec: EstimatorSpec, safeties: Sequence[Safety], rule: PivotRule) -> _Recording:
    """Elimination of all unknowns, joints turned round where that gives them a safe pivot."""
    turned = open_joints(spec.robot, spec.equations)
    while True:
        recorded = _Recording(spec, turned)
        left = recorded.choose(safeties, rule)
        more = recorded.joints_to_turn(left)
        if more <= turned:
            recorded.require_complete(left)
            return recorded
        turned |= more


class _Place(NamedTuple):
    """An output that is a sum of lines ``at`` of the system and their parts, times ``factor``.

    The inverse of the system holds ``sign`` times its variance: minus for unknowns, plus for
    multipliers, whose output is C^-1 (Y d + b_Y - y), minus lambda. A variance up to
    ``certain`` is zero.
    """

    at: tuple[tuple[int, float], ...]
    factor: Ref
    sign: int
    certain: float = 0.0

    @property
    def pairs(self) -> dict[tuple[int, int], float]:
        """Entries of the inverse that its variance is a sum of, and their factors."""
        return {
            (u, v): a * b if u == v else 2.0 * a * b
            for k, (u, a) in enumerate(self.at)
            for v, b in self.at[: k + 1]
        }


@final
class _Recording:
    """Rows, elimination and outputs on one graph; watched reciprocals end the outputs."""

    def __init__(self, spec: EstimatorSpec, turned: frozenset[tuple[str, int]]) -> None:
        robot = spec.robot
        self.spec, self.graph = spec, Graph()
        q, qd = self.graph.inputs(robot.nq), self.graph.inputs(robot.nv)
        y = self.graph.inputs(spec.n_readings)
        weights = self.graph.inputs(spec.n_readings) if spec.switchable else y
        y = spec.all_rows(y)
        at = None
        if spec.parameters:
            p = self.graph.inputs(len(spec.parameters))
            at = at_parameters(robot, spec.parameters, p)
        kin = Kinematics.at(robot, q, qd)
        self.unknowns = StagedUnknowns(spec.unknowns, turned)
        laws = law_rows(self.unknowns, kin, q, at)
        self.measurements: list[LinearRow] = []
        weight: dict[int, Any] = {}
        for block in spec.equations:
            for row in equation_rows(self.unknowns, block, kin):
                r = len(self.measurements)
                if block.name in spec.switchable:
                    weight[r] = weights[r]
                self.measurements.append(replace(row, constant=row.constant - y[r]))
        self._repeated = partial(
            row_residuals, spec.unknowns, spec.equations, spec.repeated.tolist(), kin, y=y
        )
        self.samples = spec.samples(SAMPLES, 0)
        switched = spec.switched(SAMPLES, 0) if spec.switchable else None
        self.record = Recorder(self.graph, self.samples, switched)
        left_out = {*spec.repeated.tolist(), *spec.aside.tolist()}
        self._saddle = recorded_saddle(
            self.record, self.unknowns, laws, self.measurements, spec.noise, weight, left_out
        )
        rows = self._saddle.rows
        self._alone = {u: rows.pop(u) for u in list(rows) if set(rows[u]) - {RIGHT} == {u}}
        """Readings without unknowns, apart from all others: in no order, at no cost."""
        self.system = Elimination(self.record, rows)

    # ---- elimination ---------------------------------------------------------------------

    @np.errstate(divide="ignore", invalid="ignore")  # at states where sensors are off
    def choose(self, safeties: Sequence[Safety], rule: PivotRule) -> list[int]:
        """Eliminate by pivots that a rule chooses; return the lines that found none."""
        saddle = self._saddle
        left = eliminate_all(self.system, saddle.group, safeties, saddle.avoided, rule)
        self._end()
        return left

    @np.errstate(divide="ignore", invalid="ignore")
    def execute(self, order: SaddleOrder) -> None:
        """Eliminate along an order; PlanOrderError where that is not possible."""
        lines = {name: line for line, name in enumerate(self._saddle.names)}
        for k, pivot in enumerate(order.pivots):
            for name in pivot:
                if name not in lines:
                    raise PlanOrderError(
                        f"pivot {k} of the plan eliminates {name!r}, which is no line of robot"
                        f" {self.spec.robot.name!r} with these sensors"
                        f"{nearest_name(name, self._saddle.names)}; make a new plan"
                    )
            try:
                self.system.take(tuple(lines[name] for name in pivot))
            except ZeroDivisionError as error:
                raise PlanOrderError(
                    f"the order of the plan cannot be executed: pivot {k},"
                    f" {' with '.join(pivot)}, {error}. Make a new plan"
                ) from None
        left = [self._saddle.names[u] for u in self.system.rows]
        if left:
            raise PlanOrderError(
                f"the order of the plan leaves {len(left)} lines over, such as {left[0]!r};"
                " make a new plan"
            )
        self._end()

    def _end(self) -> None:
        self._ordered = len(self.system.pivots)
        self.system.rows |= self._alone
        for u in self._alone:
            self.system.single(u)

    @property
    def entries(self) -> SaddleEntries:
        """What is left to be eliminated."""
        saddle = self._saddle
        places = [(u, k) for u, row in self.system.rows.items() for k in row]
        values = [Scalar(self.graph, self.system.rows[u][k]) for u, k in places]
        rows, columns = np.array(places, dtype=np.intp).reshape(-1, 2).T
        bodies = np.array([saddle.group.get(u, 0) for u in range(len(saddle.names))])
        program = simplify(self.graph.program(values), self.samples[:SIMPLIFY_SAMPLES])
        switched = [self.record.is_switched(self.system.rows[u][k]) for u, k in places]
        avoided = np.array(sorted(saddle.avoided), dtype=np.intp).reshape(-1, 2)
        return SaddleEntries(
            program, rows, columns, saddle.names, bodies, np.array(switched), avoided
        )

    @property
    def order(self) -> SaddleOrder:
        """What was eliminated, as data."""
        names, pivots = self._saddle.names, self.system.pivots[: self._ordered]
        stages, turned = self.unknowns.stages, self.unknowns.turned
        return SaddleOrder(
            tuple(cast("Pivot", tuple(names[u] for u in pivot)) for pivot in pivots),
            tuple(name for key, name in stages.items() if key in turned),
        )

    def joints_to_turn(self, lines: Sequence[int]) -> frozenset[tuple[str, int]]:
        """Joints between two unknowns of which one was left over."""
        left, unknowns = set(lines), self.unknowns
        stages: dict[UnknownKind, dict[int, list[int]]] = {
            "joint_wrench": unknowns.passed_on,
            "acceleration": unknowns.carried,
        }
        return frozenset(
            (kind, i)
            for kind, columns in stages.items()
            for i, stage in columns.items()
            if not left.isdisjoint([*stage, *unknowns.layout.block(kind, i).columns.tolist()])
        )

    def require_complete(self, left: Sequence[int]) -> None:
        """Raise KernelBuildError if unknowns were left over."""
        if not left:
            return
        layout = self.unknowns.layout
        names = {str(layout.at(u)): None for u in left if u < layout.size}
        names |= {self._passing(u): None for u in left}
        shown = ", ".join(list(names)[:6]) + (" ..." if len(names) > 6 else "")
        raise NoOrderError(
            f"robot {layout.robot.name!r}: no pivot is safe at every state for {shown}"
        )

    def _passing(self, u: int) -> str:
        joint = self.unknowns.layout.robot.joint_names[self._saddle.group[u]]
        return f"what passes joint {joint!r}"

    @property
    def pivots(self) -> tuple[PlannedPivot, ...]:
        """Pivots that depend on the state, with their least size beside their median."""
        layout, found = self.unknowns.layout, []
        for (step, u), ref in zip(self.system.watched, self.system.reciprocals, strict=True):
            sizes = 1.0 / np.abs(self.record.values(ref))
            name = str(layout.at(u)) if u < layout.size else self._passing(u)
            ratio = float(sizes.min() / np.median(sizes))
            found.append(PlannedPivot(step, name, "sampling", ratio))
        return tuple(found)

    # ---- outputs -------------------------------------------------------------------------

    def estimator(self, program: Program, ordering: str) -> PlannedEstimator[SaddleOrder]:
        """What was eliminated, with its program and what found it."""
        return PlannedEstimator(program, self.order, self.pivots, ordering)

    def guarded(self, dtype: str) -> Program:
        """The program simplified; NaN where a watched pivot vanishes."""
        program, margin, limits = self.watched
        return guarded_estimator(program, self.spec, dtype, margin, limits)

    @property
    def watched(self) -> tuple[Program, float, list[float]]:
        """The program simplified, by how much pivots may exceed their median, other limits."""
        program, spec, cancelling = self.simplified, self.spec, len(self._cancelling)
        if not cancelling:
            return program, self._margin, []
        margin, part = _closely(program, spec, cancelling)
        return program, margin, [part**2] * cancelling

    @property
    def _margin(self) -> float:
        return SWITCHED_MARGIN if self.spec.switchable else PIVOT_MARGIN

    @cached_property
    def simplified(self) -> Program:
        """The program without guards, simplified."""
        if not self._cancelling:
            return self._plain
        return simplify(self._program(self._cancelling), self.samples[:SIMPLIFY_SAMPLES])

    @cached_property
    def _plain(self) -> Program:
        return simplify(self._program(()), self.samples[:SIMPLIFY_SAMPLES])

    @np.errstate(divide="ignore", invalid="ignore")
    def _program(self, cancelling: Sequence[Ref]) -> Program:
        """All outputs, then what is watched.

        That is reciprocals of pivots with a positive sign; of those named once more, the sum of
        the squares of the terms that the pivot is a sum of, over its own.
        """
        record, x = self.record, self.system.solution()
        refs = [ref for name in self.spec.outputs for ref in self._values(name, x)]
        watched = [
            ref if (record.values(ref) > 0).all() else -ref for ref in self.system.reciprocals
        ]
        d = [self._scalar(x[c]) for c in range(self.spec.unknowns.size)]
        outputs = [
            *map(self._scalar, refs),
            *self._deviations(),
            *map(self._scalar, watched),
            *map(self._cancellation, cancelling),
            *row_checks(self._repeated(d=d)),
        ]
        return self.graph.program(outputs)

    @cached_property
    def _cancelling(self) -> list[Ref]:
        """Reciprocals of pivots to be watched beside their terms: all sums, if one is doubtful
        and answers show it.
        """
        reciprocals, record = self.system.reciprocals, self.record
        if not reciprocals:
            return []
        divisors = [self.graph.right[abs(ref) - 1] for ref in reciprocals]
        sizes = [np.abs(record.values(p)) for p in divisors]
        steady = min(x.min() / np.median(x) for x in sizes)
        kept = min(record.kept(p).min() for p in divisors)
        switchable = bool(self.spec.switchable)  # then these tell little
        if not switchable and steady >= DOUBTFUL_STEADY and kept >= DOUBTFUL_KEPT:
            return []
        watched = guarded_estimator(self._plain, self.spec, "float64", self._margin)
        if not (_errors(watched, self.spec, CHECKS)[0] > CALM).any():
            return []
        is_sum = [self.graph.op[p - 1] == Op.ADD for p in divisors]
        return [ref for ref, one in zip(reciprocals, is_sum, strict=True) if one]

    def _cancellation(self, reciprocal: Ref) -> Any:
        """Squares of the terms of a pivot, over its own."""
        graph, total = self.graph, 0.0
        pending = [abs(graph.right[abs(reciprocal) - 1])]
        while pending:
            node = pending.pop()
            if graph.op[node - 1] == Op.ADD:
                pending += [abs(graph.left[node - 1]), abs(graph.right[node - 1])]
            else:
                total = total + Scalar(graph, node) * Scalar(graph, node)
        return total * Scalar(graph, reciprocal) * Scalar(graph, reciprocal)

    def _values(self, name: str, x: dict[int, Ref]) -> list[Ref]:
        """Output of a name from all unknowns and multipliers."""
        if name == "residual":
            return [self._residual(row, x) for row in self.measurements]
        found = [0 if p is None else self._value(p, x) for p in self._places(name)]
        for r in self.spec.aside.tolist() if name == "multiplier" else ():
            information = self.record.constant(1.0 / self.spec.noise.diagonal()[r])
            found[r] = self.record.mul(self._residual(self.measurements[r], x), information)
        return found

    def _value(self, place: _Place, x: dict[int, Ref]) -> Ref:
        record, total = self.record, 0
        for line, part in place.at:
            total = record.add(total, record.mul(x[line], record.constant(part)))
        return -place.sign * record.mul(total, place.factor)

    def _places(self, name: str) -> list[_Place | None]:
        """Where the numbers of an output stand among unknowns and multipliers."""
        one, multiplier = self.record.one, self._saddle.multiplier
        if name != "multiplier":
            return [_Place(tuple(parts.items()), one, -1) for parts in self.spec.sums(name)]
        variance = self.spec.noise.diagonal()
        return [
            _Place(
                ((multiplier[r], 1.0),),
                self._saddle.weight.get(r, one),
                1,
                UNCHECKED / variance[r],
            )
            if r in multiplier and variance[r]
            else None
            for r in range(len(self.measurements))
        ]

    def _residual(self, row: LinearRow, x: dict[int, Ref]) -> Ref:
        """Y d + b - y of one row."""
        *coefficients, total = self.record.include(row.scalars)
        for column, coefficient in zip(row.coefficients, coefficients, strict=True):
            total = self.record.add(total, self.record.mul(coefficient, x[column]))
        return total

    def _deviations(self) -> list[Any]:
        """Standard deviations of all that are asked for."""
        spec = self.spec
        found: list[Any] = []
        places = {name: self._places(name) for name in spec.uncertainty}
        of_all = [p for some in places.values() for p in some if p is not None]
        pairs = {pair: None for p in of_all for pair in p.pairs}
        Z = self.system.inverse_entries(pairs)
        for name, some in places.items():
            stds = [0.0 if p is None else self._deviation(Z, p) for p in some]
            for r in spec.aside.tolist() if name == "multiplier" else ():
                stds[r] = float(spec.noise.diagonal()[r] ** -0.5)
            found += stds
        return found

    def _deviation(self, Z: Mapping[tuple[int, int], Ref], place: _Place) -> Any:
        """Root of a variance; what is left by cancellation at every state is exactly zero.

        Where that is so with some sensors on or off only, rounding leaves numbers of either
        sign: what it may leave is added, so that the root is there, and as good as zero.
        """
        record, variance = self.record, 0
        for pair, factor in place.pairs.items():
            variance = record.add(variance, record.mul(Z[pair], record.constant(factor)))
        if not variance or (self.record.kept(variance) < CERTAIN).all():
            return 0.0
        if (place.sign * self.record.values(variance) <= place.certain).all():
            return 0.0
        rest = self.record.left_by_rounding(variance, CERTAIN)
        root = np.sqrt(self._scalar(place.sign * variance) + rest)
        return root * self._scalar(place.factor)

    def _scalar(self, ref: Ref) -> Any:
        return Scalar(self.graph, ref) if ref else 0.0


def _errors(program: Program, spec: EstimatorSpec, count: int) -> tuple[Array, Array]:
    """Errors at random states, sensors on or off; where only float64 has an answer, large."""
    errors, found = program_errors(program, spec, count, switched=bool(spec.switchable))
    answered = np.isfinite(found[:, : spec.signature.n_outputs]).all(axis=1)
    return np.where(answered & np.isnan(errors), np.inf, errors), found


def _closely(program: Program, spec: EstimatorSpec, cancelling: int) -> tuple[float, float]:
    """Margins, of CLOSER, under which double precision is right or has no answer."""
    count = int(np.clip(CLOSELY_NODES / len(program.op), CHECKS, CLOSELY))
    errors, found = _errors(program, spec, count)
    end = len(program.outputs) - 2 * len(spec.repeated)
    watched, terms = np.split(
        np.abs(found[:, spec.signature.n_outputs : end]), [-cancelling], axis=1
    )
    usual = not spec.switchable  # else most states may leave a pivot at zero
    fallen = np.max(watched / (np.median(watched, axis=0) if usual else 1.0), axis=1)
    cancelled = np.sqrt(np.max(terms, axis=1))
    for margin, part in CLOSER:
        answered = (fallen <= (margin if usual else LARGEST)) & (cancelled <= part)
        if np.max(errors[answered], initial=0.0) <= (TOLERATED if usual else 1.0):
            break
    return (margin if usual else SWITCHED_MARGIN), part
