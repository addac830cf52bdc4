"""Search for orders of saddle systems: prices, safety, repeatability."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dynsys.model import synthetic
from dynsys.plan.estimator import estimator_program, planned_estimator
from dynsys.plan.estimator_spec import EstimatorSpec, PlannedEstimator, failures
from dynsys.plan.methods import SaddleOrder
from dynsys.plan.operations import program_operations
from dynsys.plan.orders.restarts import body_levels
from dynsys.plan.saddle_program import saddle_estimator, saddle_order, saddle_program
from dynsys.plan.search.saddle_price import SaddleProblem
from dynsys.plan.search.saddle_search import (
    SaddleTask,
    drawn_rule,
    run_saddle_task,
    search_saddle,
)
from dynsys.plan.search.search import Progress, Search
from dynsys.system.laws import known_inputs
from dynsys.system.linear_system import LinearSystem
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
    rng = np.random.default_rng(0)
    levels = body_levels(spec.robot)
    orders = [start.order, *(saddle_order(spec, drawn_rule(levels, rng)) for _ in range(4))]
    for order in orders:
        if order.turned == start.order.turned:
            priced = problem.price(problem.pivots(order))
            executed = program_operations(saddle_program(spec, order)).total
            assert priced is not None
            assert (
                abs(priced.operations - executed) <= 0.02 * executed
            )  # it merges other equal quantities


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


def test_runs_repeat_travel_and_stay_safe(
    start: PlannedEstimator[SaddleOrder], problem: SaddleProblem
) -> None:
    pivots = problem.pivots(start.order)
    first = problem.price(pivots)
    assert first is not None
    bound = first.at_least(3e-2, 1e4, 1e-4)
    task = SaddleTask(pivots, (1, 2), 150, bound)
    found = run_saddle_task(problem, task)
    copies = pickle.loads(pickle.dumps((problem, task)))
    assert found is not None and found == run_saddle_task(*copies)
    price = problem.price(found)
    assert price is not None and price.operations < first.operations and price.is_as_safe(bound)


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
