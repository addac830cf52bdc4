"""How an estimator is computed: which executor, along which order, at what cost.

Redundant or weighted readings are solved as a saddle system (:mod:`.saddle_program`). As many
readings as unknowns are too, where its pivots are safe at every state, or by inverse dynamics
with open parameters (:mod:`.recursion`), whichever is cheaper; else, and where standard
deviations are asked for, by scalar LU (:mod:`.lu_program`). Pivots of the last two are watched.

    planned_estimator   finds an order and executes it
    estimator_program   executes a given one: one executor per type of order, see EXECUTORS
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from dynsys.errors import KernelBuildError, NoOrderError, PlanOrderError
from dynsys.plan.estimator_spec import (
    CHECKS,
    SIMPLIFY_SAMPLES,
    EstimatorSpec,
    PlannedEstimator,
    failures,
)
from dynsys.plan.lu_program import (
    lu_estimator,
    lu_pivots,
    lu_program,
    lu_watched,
    lu_with_limits,
)
from dynsys.plan.methods import EliminationOrder, RecursionOrder, SaddleOrder
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.recursion import (
    recursion_estimator,
    recursion_pivots,
    recursion_program,
    recursion_watched,
)
from dynsys.plan.saddle_program import (
    saddle_estimator,
    saddle_pivots,
    saddle_program,
    saddle_watched,
    saddle_with_limits,
)
from dynsys.plan.search.saddle_search import search_saddle
from dynsys.plan.search.search import Search
from dynsys.program.derivatives import Replay, added_variances
from dynsys.program.graph import Scalar
from dynsys.program.guards import guarded
from dynsys.program.program import Program, in_order_of_need, side_by_side
from dynsys.program.simplify import simplify
from dynsys.types import ScalarArray

__all__ = [
    "EXECUTORS",
    "estimator_program",
    "ordered_estimator",
    "planned_estimator",
    "watched_program",
]

EXECUTORS: Mapping[type[EliminationOrder], Callable[[EstimatorSpec, Any, str], Program]] = {
    PivotOrder: lu_program,
    SaddleOrder: saddle_program,
    RecursionOrder: recursion_program,
}
"""What executes an order, by its type: (spec, order, dtype) to a guarded program. It refuses by
PlanOrderError an order that cannot be executed, never changes one."""
LONGEST = 1_000_000
"""Nodes of a program whose deviations count noise of q and qd; more take minutes to compile."""


def planned_estimator(
    spec: EstimatorSpec, dtype: str = "float64", search: Search | None = None
) -> PlannedEstimator[EliminationOrder]:
    """Order of an estimator, executed; with a ``search``, the cheapest that it finds.

    Where several executors apply, as many readings as unknowns, each has a third of its
    seconds. Without a search LU is tried only where it must be.

    Raises
    ------
    NoOrderError
        if the measurements do not determine every unknown, or not without pivoting at run time;
        names the unknowns.
    """
    if spec.followed:
        plain = planned_estimator(spec.plain, dtype, search)
        return replace(plain, program=_noisy(spec, plain.order, dtype))
    if spec.parameters:
        return _with_parameters(spec, dtype)
    refused: NoOrderError | None = None
    ways: list[PlannedEstimator[EliminationOrder]] = []
    if search is not None and search.seconds and spec.is_square:
        search = replace(search, seconds=search.seconds / 3.0)

    search = None if search is None or search.is_off else search
    lu_first = bool(spec.uncertainty) and spec.is_square
    if lu_first:  # variances as sums of squares: half the operations, and more digits
        with suppress(NoOrderError):
            ways.append(lu_estimator(spec, dtype, search))
    if not ways:
        try:
            saddle = saddle_estimator(spec, dtype)
            ways.append(search_saddle(spec, saddle, search, dtype) if search else saddle)
        except NoOrderError as error:
            refused = error
        with suppress(NoOrderError):
            ways.append(recursion_estimator(spec, dtype, search))
        if not lu_first and (search or not ways):
            with suppress(NoOrderError):
                ways.append(lu_estimator(spec, dtype, search))
    if refused is not None and not ways:
        raise refused
    return min(ways, key=lambda way: way.operations.total)


def _with_parameters(spec: EstimatorSpec, dtype: str) -> PlannedEstimator[EliminationOrder]:
    """The saddle elimination, which alone takes parameters of the robot as inputs."""
    if len(spec.repeated):
        raise NoOrderError(
            "exact readings that repeat others agree at one value of the parameters only; give"
            " them a standard deviation, or leave parameters out"
        )
    return saddle_estimator(spec, dtype)


def estimator_program(
    spec: EstimatorSpec, dtype: str = "float64", order: EliminationOrder | None = None
) -> Program:
    """Program of an estimator; with an ``order``, of that one as it stands.

    Raises
    ------
    PlanOrderError
        if the order cannot be executed for this question, or loses too many digits.
    """
    if order is None:
        return planned_estimator(spec, dtype).program
    if spec.followed:
        estimator_program(spec.plain, dtype, order)  # or says why it cannot be executed
        return _noisy(spec, order, dtype)
    if spec.parameters and order.method != "saddle":
        raise PlanOrderError(
            f"an order of method {order.method!r} takes no parameters as inputs; leave out the"
            " plan or the parameters"
        )
    try:
        with np.errstate(all="ignore"):  # an order that is not ours may divide by anything
            program = EXECUTORS[type(order)](spec, order, dtype)
    except ZeroDivisionError:
        raise PlanOrderError(
            f"the order of the plan ({order.method}) cannot be executed: a pivot is zero at"
            " every state. Make a new plan"
        ) from None
    if failures(program, spec) >= CHECKS // 2:
        raise PlanOrderError(
            f"the order of the plan ({order.method}) answers less than half of the sampled"
            f" states of robot {spec.robot.name!r} to full precision; make a plan of the"
            " outputs that are asked for, plan(outputs=..., uncertainty=...)"
        )
    return program


def ordered_estimator(
    spec: EstimatorSpec, order: EliminationOrder
) -> PlannedEstimator[EliminationOrder]:
    """An order of somebody's own, executed as it stands, and its pivots; raises as above."""
    if type(order) not in EXECUTORS:
        raise PlanOrderError(
            f"order must be an order of elimination, such as plan.order, got {order!r:.80}"
        )
    program = estimator_program(spec, "float64", order)
    pivots: Mapping[type[EliminationOrder], Callable[..., tuple[PlannedPivot, ...]]] = {
        PivotOrder: lu_pivots,
        SaddleOrder: saddle_pivots,
        RecursionOrder: recursion_pivots,
    }
    plain = spec.plain if spec.followed else spec
    return PlannedEstimator(program, order, pivots[type(order)](plain, order), "as given")


def watched_program(spec: EstimatorSpec, order: EliminationOrder) -> Program:
    """Answers of an order, then what is watched, without guards: for studies.

    Reciprocals of pivots (saddle), their squares (lu), or the pivots (recursion); then checks.
    """
    watchers: Mapping[type[EliminationOrder], Callable[[EstimatorSpec, Any], Program]] = {
        PivotOrder: lu_watched,
        SaddleOrder: saddle_watched,
        RecursionOrder: recursion_watched,
    }
    return watchers[type(order)](spec, order)


# ---- noise of q and qd -----------------------------------------------------------------------


def _noisy(spec: EstimatorSpec, order: EliminationOrder, dtype: str) -> Program:
    """Guarded program along an order whose deviations count noise of q and qd.

        sigma^2 = sigma_y^2 + sum over freedoms j of (d x / d q_j s_j)^2 + (d x / d qd_j s'_j)^2

    for every number x that is followed, by the chain rule over the estimator's own program.

    Raises
    ------
    KernelBuildError
        if it would be too long; says what answers instead.
    """
    if isinstance(order, RecursionOrder):  # it has no deviations: those by LU, as without noise
        values, others = replace(spec, uncertainty=()), replace(spec, outputs=())
        by_lu = _noisy(others, lu_estimator(others.plain, dtype).order, dtype)
        return side_by_side(recursion_program(values, order, dtype), by_lu)
    plain = spec.plain
    if isinstance(order, PivotOrder):
        program, limits = lu_with_limits(plain, order)
    else:
        assert isinstance(order, SaddleOrder)
        program, limits = saddle_with_limits(plain, order)
    names = (*plain.outputs, *(f"std {name}" for name in plain.uncertainty))
    ends = np.cumsum([plain.size(name.removeprefix("std ")) for name in names]).tolist()
    places = {name: range(a, b) for name, a, b in zip(names, [0, *ends], ends, strict=False)}
    replay = Replay(program)
    followed = [k for name in spec.followed for k in places[name]]
    try:
        found = added_variances(replay, _deviations(spec, replay), followed, LONGEST)
    except OverflowError as error:
        raise KernelBuildError(
            f"robot {spec.robot.name!r}: standard deviations with the noise of q and qd"
            f" (position_std, velocity_std of the layout) take {error}, too many to compile;"
            " solve and solve_batch compute them, a single one (std.torque.JOINT) takes fewer,"
            " or make a layout without that noise"
        ) from None
    variance, outputs = dict(zip(followed, found, strict=True)), replay.outputs
    answers = [outputs[k] for name in spec.outputs for k in places[name]]
    for name in spec.uncertainty:
        sigma = outputs[places[f"std {name}"]].tolist()
        if name in spec.followed:
            more = [variance[k] for k in places[name]]
            sigma = [_root(x, v) for x, v in zip(sigma, more, strict=True)]
        answers += sigma
    whole = replay.graph.program([*answers, *outputs[ends[-1] :]])
    shorter = simplify(whole, spec.samples(SIMPLIFY_SAMPLES, 0))
    quaternions, n_checks = spec.robot.quaternion_slices, len(spec.repeated)
    return in_order_of_need(guarded(shorter, quaternions, dtype, limits, n_checks=n_checks))


def _deviations(spec: EstimatorSpec, replay: Replay) -> ScalarArray:
    """Independent deviations (n_inputs, freedoms with noise) of the inputs."""
    robot, std = spec.robot, np.array(spec.state_std)
    nq, nv = robot.nq, robot.nv
    moves = np.zeros((len(replay.inputs), 2 * nv), dtype=object)
    moves[:nq, :nv] = robot.tangent(replay.inputs[:nq])
    moves[nq : nq + nv, nv:] = np.eye(nv)
    noisy = np.flatnonzero(std)
    return np.asarray(moves[:, noisy] * std[noisy])


def _root(sigma: Any, more: Any) -> Any:
    """Root of sigma^2 + more; either may be a plain zero."""
    is_zero = not isinstance(more, Scalar) and more == 0
    return sigma if is_zero else np.sqrt(sigma * sigma + more)
