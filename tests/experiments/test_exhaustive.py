"""Proofs by exhaustion: the price by structure, and the least of all orders."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys import DynsysError, LinearSystem, synthetic
from dynsys.errors import TooLarge
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.plan.search.local import by_blocks, neighbour
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.search import Search, constructive
from dynsys.system.laws import known, known_inputs
from experiments.nori2017.exhaustive import (
    GENERAL,
    UNIT,
    estimate,
    first_pivot_price,
    least_operations,
    lu_price,
    structure,
)
from tests.plan.counting import elimination_operations
from tests.plan.systems import load_cell_system
from tests.systems import forward_system, inverse_system


def small_cell_system(n: int) -> LinearSystem:
    laws = LinearSystem(synthetic.auto_tree(n, 1, 1.5, 1.0))
    u = laws.unknowns
    return laws.with_equations(
        [
            *(known(u, "external_wrench", i) for i in range(n - 1)),
            *(known(u, "qdd", i) for i in range(n)),
            known(u, "joint_wrench", 0),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [inverse_system, forward_system, load_cell_system])
def test_compiled_estimate_is_the_count_of_the_elimination(make: object) -> None:
    system = make(synthetic.auto_tree(5, 1, 1.5, 1.0))  # type: ignore[operator]
    problem = SearchProblem.of(system)
    context, rng = OrderingContext(system, problem.values), np.random.default_rng(0)
    for ordering in (
        Markowitz("fill"),
        RootToLeaf(),
        LeafToRoot(),
        BlockTriangular(Markowitz("count")),
    ):
        pivots = ordering.order(problem.pattern, context).pivots
        for _ in range(15):
            order = PivotOrder.of(pivots)
            try:
                expected = elimination_operations(
                    problem.pattern, order, *structure(problem)
                ).total
            except DynsysError:
                expected = None
            assert estimate(problem, order) == expected
            changed = neighbour(pivots, [(0, len(pivots))], rng)
            if estimate(problem, PivotOrder.of(changed)) is not None or rng.random() < 0.1:
                pivots = changed


@pytest.mark.slow
def test_price_of_an_irreducible_block_is_the_sum_over_its_pivots() -> None:
    rng = np.random.default_rng(2)
    for n in range(2, 12):
        kinds = np.where(rng.random((n, n)) < 0.5, rng.choice([GENERAL, UNIT], (n, n)), 0)
        np.fill_diagonal(kinds, rng.choice([GENERAL, UNIT], n))
        kinds[:, -1] = GENERAL  # no unknown is determined before the last pivot
        left, total = kinds.astype(np.int8), 0
        for _ in range(n):
            total += int(first_pivot_price(left))
            left = np.ascontiguousarray(left[1:, 1:])
        assert total == lu_price(kinds.astype(np.int8), np.ones(n, dtype=bool))


@pytest.mark.parametrize("n", [2, 3])
def test_constructive_orders_of_small_systems_are_optimal(n: int) -> None:
    robot = synthetic.auto_tree(n, 1, 1.5, 1.0)
    laws = LinearSystem(robot)
    hybrid = laws.with_equations(known_inputs(laws.unknowns, set(range(n - 1))))
    for system in (small_cell_system(n), hybrid):
        small = SearchProblem.of(system)
        optimum = least_operations(small)
        assert optimum.operations == estimate(small, optimum.order)
        estimates = [estimate(small, c.order) for c in constructive(small, Search(), system)]
        assert optimum.operations == min(e for e in estimates if e is not None)


def test_no_random_order_beats_the_proved_optimum() -> None:
    small = SearchProblem.of(small_cell_system(2))
    optimum = least_operations(small)
    pivots, segments = by_blocks(small.pattern, optimum.order)
    rng = np.random.default_rng(0)
    for _ in range(2000):
        changed = neighbour(pivots, segments, rng)
        found = estimate(small, PivotOrder.of(changed))
        if found is not None:
            pivots = changed
            assert found >= optimum.operations


def test_large_systems_are_not_enumerated() -> None:
    cells = load_cell_system(synthetic.auto_tree(5, 1, 1.5, 1.0))
    problem = SearchProblem.of(cells, ("torque",))
    with pytest.raises(TooLarge, match="search instead"):
        least_operations(problem, limit=50)
