"""Search for orders of saddle systems: prices, safety, repeatability."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dynsys import LinearSystem, synthetic
from dynsys.plan.estimator import estimator_program, planned_estimator
from dynsys.plan.estimator_spec import EstimatorSpec, PlannedEstimator, failures
from dynsys.plan.methods import SaddleOrder
from dynsys.plan.operations import program_operations
from dynsys.plan.orders.restarts import body_levels
from dynsys.plan.saddle_elimination import Candidate, PivotRule
from dynsys.plan.saddle_program import (
    PRECISE,
    executed_estimator,
    lost_digits,
    saddle_estimator,
    saddle_order,
    saddle_program,
)
from dynsys.plan.search.saddle_price import SaddleProblem
from dynsys.plan.search.saddle_search import (
    Found,
    Mode,
    SaddleTask,
    _Generations,
    drawn_rule,
    noisy_rule,
    run_saddle_task,
    search_saddle,
)
from dynsys.plan.search.search import Progress, Search
from dynsys.system.laws import known_inputs
from experiments.trust.consistency.cases import case_of
from tests.plan.saddle_layouts import linear, noise


@pytest.fixture(scope="module")
def spec() -> EstimatorSpec:
    robot = synthetic.chain(3)
    unknowns = LinearSystem(robot).unknowns
    blocks = [
        *known_inputs(unknowns, set(range(3))),
        linear(unknowns, "imu", "acceleration", 2, np.eye(6)[3:]),
        linear(unknowns, "ft", "joint_wrench", 1, np.eye(6)),
    ]
    return EstimatorSpec(
        robot, tuple(blocks), noise(blocks, np.random.default_rng(1)), ("torque",)
    )


@pytest.fixture(scope="module")
def start(spec: EstimatorSpec) -> PlannedEstimator[SaddleOrder]:
    return saddle_estimator(spec)


@pytest.fixture(scope="module")
def problem(spec: EstimatorSpec, start: PlannedEstimator[SaddleOrder]) -> SaddleProblem:
    return SaddleProblem.of(spec, start.order)


def test_price_is_what_the_program_executes(
    spec: EstimatorSpec, start: PlannedEstimator[SaddleOrder], problem: SaddleProblem
) -> None:
    rng, levels = np.random.default_rng(0), body_levels(spec.robot)
    found = [problem.constructed(drawn_rule(problem, levels, rng)) for _ in range(8)]
    orders = [problem.pivots(start.order), *(pivots for pivots, _ in filter(None, found))]
    assert len(orders) > 4
    for pivots in orders:
        priced = problem.price(pivots)
        executed = program_operations(saddle_program(spec, problem.order(pivots))).total
        assert priced is not None and abs(priced.operations - executed) <= 0.02 * executed


@pytest.mark.parametrize("constants", ["any", "first"])
def test_orders_are_constructed_as_the_rule_records_them(
    problem: SaddleProblem, spec: EstimatorSpec, constants: str
) -> None:
    """Compiled and recorded rule, ties broken alike: with keys of its own for every line."""
    first, keys = constants == "first", np.random.default_rng(3).normal(size=len(problem.names))
    found = problem.constructed(replace(problem.rule, keys=keys, constants_first=first))

    def rank(candidate: Candidate) -> tuple[float, ...]:
        u, v = candidate.pivot[0], candidate.pivot[-1]
        updates = (candidate.updates + 0.5) * np.exp(keys[u] + keys[v])
        return (candidate.last_resort, candidate.varying and first, updates)

    recorded = saddle_order(spec, PivotRule(rank=rank))
    assert found is not None and recorded.turned == problem.turned
    again = problem.price(found[0])
    assert again == found[1]
    peeled = {p for p in problem.pivots(recorded) if p not in found[0]}  # in any sequence
    assert len(peeled) <= 0.1 * len(found[0])


def test_what_is_rebuilt_leaves_the_rest_as_it_was(
    start: PlannedEstimator[SaddleOrder], problem: SaddleProblem
) -> None:
    pivots, rng = problem.pivots(start.order), np.random.default_rng(0)
    n = len(pivots)
    whole = problem.price(pivots)
    gained = []
    for first, last in ((0, n // 2), (n // 2, n)):
        tried = [
            problem.rebuilt(pivots, first, last, noisy_rule(problem, rng)) for _ in range(9)
        ]
        order, price = min(filter(None, tried), key=lambda one: one[1].operations)
        behind = len(order) - (n - last)
        assert order[:first] == pivots[:first] and order[behind:] == pivots[last:]
        assert sorted(sum(order, ())) != [] and set(sum(order, ())) == set(sum(pivots, ()))
        gained.append((order[first:behind], price))
    both = problem.price([*gained[0][0], *gained[1][0]])
    assert whole is not None and both is not None  # what two parts gain adds up
    expected = sum(price.operations for _, price in gained) - whole.operations
    assert abs(both.operations - expected) <= 0.02 * whole.operations


def test_orders_and_lines_are_the_same(
    start: PlannedEstimator[SaddleOrder], problem: SaddleProblem
) -> None:
    assert problem.order(problem.pivots(start.order)) == start.order


def test_pivots_that_are_zero_have_no_price(
    start: PlannedEstimator[SaddleOrder], problem: SaddleProblem
) -> None:
    pivots = problem.pivots(start.order)
    u, v = next(p for p in pivots if p[1] >= 0)
    rest = [p for p in pivots if p != (u, v)]
    assert problem.price([(v, -1), (u, -1), *rest]) is None  # a multiplier has no diagonal
    assert problem.price([(u, v), (u, v), *rest]) is None


@pytest.mark.parametrize("mode", ["restart", "evolve", "rebuild"])
def test_runs_repeat_travel_and_stay_safe(
    spec: EstimatorSpec,
    start: PlannedEstimator[SaddleOrder],
    problem: SaddleProblem,
    mode: Mode,
) -> None:
    pivots = problem.pivots(start.order)
    first = problem.price(pivots)
    assert first is not None
    bound, levels = first.at_least(3e-2, 1e4, 1e-4), body_levels(spec.robot)
    every = np.ones(spec.robot.n_bodies, dtype=bool)
    last = len(pivots)
    task = SaddleTask(mode, pivots, problem.rule, levels, (1, 2), 80, bound, every, 0, last)
    found = run_saddle_task(problem, task)
    again = run_saddle_task(*pickle.loads(pickle.dumps((problem, task))))
    assert found is not None and again is not None and found.pivots == again.pivots
    price = problem.price(found.pivots)
    assert price is not None and price.operations == found.operations < first.operations
    assert price.is_as_safe(bound)


def test_search_repeats_is_no_worse_and_keeps_its_digits(
    spec: EstimatorSpec, start: PlannedEstimator[SaddleOrder]
) -> None:
    seen: list[Progress] = []
    search = Search(evaluations=1200, seed=3, progress=seen.append)
    first, second = (search_saddle(spec, start, search) for _ in range(2))
    assert first.order == second.order
    before, after = (program_operations(e.program) for e in (start, first))
    assert after.total < before.total
    assert failures(first.program, spec) <= failures(start.program, spec)
    assert seen[-1].best == after and seen[-1].start == before
    assert program_operations(estimator_program(spec, order=first.order)) == after


@pytest.mark.slow
def test_workers_do_not_change_the_order(
    spec: EstimatorSpec, start: PlannedEstimator[SaddleOrder]
) -> None:
    search = Search(evaluations=900, seed=1)
    alone, together = (
        search_saddle(spec, start, replace(search, workers=n)).order for n in (1, 2)
    )
    assert alone == together


def test_plans_of_estimators_are_searched(spec: EstimatorSpec) -> None:
    before = planned_estimator(spec)
    after = planned_estimator(spec, search=Search(evaluations=700))
    assert after.method == "saddle" and "700 evaluations, seed 0" in after.ordering
    assert after.operations.total < before.operations.total


@pytest.mark.finding("Y-26")
def test_what_a_search_finds_keeps_the_digits_of_the_default_order() -> None:
    """The first order of the rule is within 1e-10, as was asked, and loses 6e-12.

    The default order loses a thousandth of that, for it waits for better pivots; a search that
    comes back to the first one must not take it for its fewer operations.
    """
    measured = case_of(("aligned, drawn", 116)).estimation.measured
    spec = EstimatorSpec(measured.robot, measured.readings, measured.covariance, ("torque",))
    start, first = saddle_estimator(spec), saddle_order(spec)
    failed, lost = lost_digits(executed_estimator(spec, first, "").program, spec)
    assert failed == 0 and lost > 3 * PRECISE > 300 * lost_digits(start.program, spec)[1]
    generations = _Generations(spec, start, Search(evaluations=1), "float64")
    for order, is_kept in ((start.order, True), (first, False)):
        found = Found(0, generations.problem.pivots(order), generations.problem.rule)
        assert (generations._executed(found) is not None) == is_kept
