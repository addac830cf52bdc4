"""Search for pivot orders: prices, safety, repeatability."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import spearmanr

from dynsys import LinearSystem, synthetic
from dynsys.errors import SchedulerError
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import OrderingContext, PivotOrder
from dynsys.plan.orders.recursive_orders import RootToLeaf
from dynsys.plan.orders.restarts import Weights, tree_potentials
from dynsys.plan.pivots import sampled_ratios
from dynsys.plan.search import search as search_generations
from dynsys.plan.search.local import Task, by_blocks, neighbour, price, run_task
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.search import (
    EVALUATIONS_PER_RUN,
    Generations,
    Progress,
    Search,
    constructive,
    search_order,
)
from dynsys.resumable import executor
from experiments.nori2017.exhaustive import estimate
from problems.order_comparison import program_nanoseconds
from tests.plan.systems import load_cell_system
from tests.systems import forward_system, inverse_system


@pytest.fixture(scope="module")
def cells() -> LinearSystem:
    return load_cell_system(synthetic.auto_tree(5, 1, 1.5, 1.0))


@pytest.fixture(scope="module")
def problem(cells: LinearSystem) -> SearchProblem:
    return SearchProblem.of(cells, ("torque",))


# ---- prices --------------------------------------------------------------------------------


def test_safety_is_the_worst_sampled_ratio(cells: LinearSystem, problem: SearchProblem) -> None:
    order = Markowitz("fill").order(problem.pattern, problem.context)
    ratios = sampled_ratios(cells, order, problem.values)
    assert_allclose(problem.safety(order), ratios.min(), rtol=1e-6)
    assert problem.safety(order, 2 * ratios.min()) == 0.0


def test_program_solves_the_system(cells: LinearSystem, problem: SearchProblem) -> None:
    order = Markowitz("fill").order(problem.pattern, problem.context)
    program, robot = problem.program(order), cells.robot
    rng = np.random.default_rng(1)
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    y = rng.normal(size=len(cells.measured_rows))
    D, b = cells.assemble(q, qd, y)
    d = np.linalg.solve(D.toarray(), -b)
    found = program.evaluate(np.concatenate([q, qd, y]))
    assert_allclose(found, d[cells.unknowns.columns("torque")], rtol=1e-8, atol=1e-8)
    counted = program.count()
    assert problem.exact(order).total == counted["mul"] + counted["add"] + counted["div"]


def test_problem_travels(problem: SearchProblem) -> None:
    copy = pickle.loads(pickle.dumps(problem))
    order = Markowitz("fill").order(problem.pattern, problem.context)
    assert copy.counted(order) == problem.counted(order)
    assert copy.exact(order) == problem.exact(order)


# ---- moves ---------------------------------------------------------------------------------


def test_blocks_come_one_after_the_other_and_neighbours_are_orders(
    problem: SearchProblem,
) -> None:
    order = Markowitz("count").order(problem.pattern, problem.context)
    pivots, segments = by_blocks(problem.pattern, order)
    assert segments and sorted(order.pivots) == sorted(pivots)
    before, after = estimate(problem, order), estimate(problem, PivotOrder.of(pivots))
    assert before is not None and after is not None and after <= before
    rng = np.random.default_rng(0)
    settled = [k for k in range(len(pivots)) if not any(a <= k < b for a, b in segments)]
    for _ in range(200):
        changed = neighbour(pivots, segments, rng)
        PivotOrder.of(changed)  # a permutation of rows and of columns
        assert all(changed[k] == pivots[k] for k in settled)


# ---- search --------------------------------------------------------------------------------


@pytest.mark.slow
def test_search_improves_and_repeats(cells: LinearSystem, problem: SearchProblem) -> None:
    search = Search(evaluations=1500, seed=3)
    first, second = (search_order(problem, search, cells) for _ in range(2))
    assert first.best.order == second.best.order
    assert first.best.operations == second.best.operations
    assert first.evaluations == 1500
    assert first.best.operations.total < first.constructive.operations.total
    assert first.best.safety >= search.threshold
    assert problem.exact(first.best.order) == first.best.operations
    other = search_order(problem, replace(search, seed=4), cells)
    assert other.best.order != first.best.order


@pytest.mark.slow
def test_workers_do_not_change_the_result(cells: LinearSystem, problem: SearchProblem) -> None:
    search = Search(evaluations=2100, seed=1)
    alone = search_order(problem, search, cells)
    together = search_order(problem, replace(search, workers=2), cells)
    assert alone.best.order == together.best.order
    assert alone.evaluations == together.evaluations == 2100


@pytest.mark.slow
def test_pool_that_broke_does_not_change_the_result(
    cells: LinearSystem, problem: SearchProblem
) -> None:
    search = Search(evaluations=700, seed=1)
    alone = search_order(problem, search, cells)
    generations = Generations(problem, search, constructive(problem, search, cells), 0.0)
    with executor(2) as pool:
        with pytest.raises(BrokenProcessPool):
            pool.submit(_die).result()
        while not generations.is_over:
            generations.generation(pool)
    found = generations.result(interrupted=False)
    assert found.best.order == alone.best.order and found.evaluations == 700


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_dask_does_not_change_the_result(cells: LinearSystem, problem: SearchProblem) -> None:
    pytest.importorskip("distributed")
    search = Search(evaluations=400, seed=1)
    alone = search_order(problem, search, cells)
    cluster = search_order(problem, replace(search, scheduler="local"), cells)
    assert alone.best.order == cluster.best.order


@pytest.mark.slow
def test_interrupt_keeps_the_best(cells: LinearSystem, problem: SearchProblem) -> None:
    seen: list[Progress] = []

    def stop(now: Progress) -> None:
        seen.append(now)
        if now.evaluations >= EVALUATIONS_PER_RUN:
            raise KeyboardInterrupt

    result = search_order(problem, Search(evaluations=10**6, progress=stop), cells)
    assert result.interrupted and result.evaluations == EVALUATIONS_PER_RUN
    assert result.best.operations.total == seen[-1].best.total
    assert seen[0].evaluations == 0 and seen[0].best == seen[0].start


@pytest.mark.slow
def test_time_ends_a_search(
    cells: LinearSystem, problem: SearchProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 1.0)  # a second passes between any two looks at it
    monkeypatch.setattr(
        search_generations, "time", SimpleNamespace(perf_counter=lambda: next(clock))
    )
    search = Search(seconds=2.0)
    generations = Generations(problem, search, constructive(problem, search, cells), 0.0)
    with executor() as pool:
        while not generations.is_over:
            generations.generation(pool)
    result = generations.result(interrupted=False)
    assert result.evaluations == 2 * EVALUATIONS_PER_RUN and result.seconds >= 2.0
    assert result.best.rank <= result.constructive.rank


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["restart", "evolve", "anneal"])
def test_runs_keep_pivots_safe(problem: SearchProblem, mode: str) -> None:
    start = constructive(problem, Search())[0]
    task = Task(start, (5,), 300, mode, 0.005)  # type: ignore[arg-type]
    found = run_task(problem, task)
    assert found and all(candidate.safety >= 0.005 for candidate in found)


@pytest.mark.slow
def test_measured_time_as_objective(problem: SearchProblem, cells: LinearSystem) -> None:
    result = search_order(problem, Search(evaluations=100, measure=program_nanoseconds), cells)
    assert 10 < result.best.cost < 1e6
    assert result.best.cost <= result.constructive.cost


def test_bad_workers_and_schedulers() -> None:
    with pytest.raises(ValueError, match="workers"), executor(0):
        pass
    pytest.importorskip("distributed")
    with pytest.raises(SchedulerError, match="answers at"), executor(1, "nowhere"):
        pass


# ---- prices by values, restarts --------------------------------------------------------------


@pytest.fixture(scope="module")
def restarted(problem: SearchProblem) -> list[PivotOrder]:
    """Distinct greedy orders that are safe enough."""
    rng = np.random.default_rng(0)
    found: dict[PivotOrder, None] = {}
    while len(found) < 25:
        order = problem.restarts.drawn(rng, 1e-3)
        if order is not None and problem.safety(order, 1e-3):
            found[order] = None
    return list(found)


def test_counts_by_values_rank_as_the_executed_programs_do(
    problem: SearchProblem, restarted: list[PivotOrder]
) -> None:
    counts = [problem.counted(order)[0] or 0 for order in restarted]
    exact = [problem.exact(order).total for order in restarted]
    assert spearmanr(counts, exact).statistic >= 0.99
    assert max(abs(c - e) for c, e in zip(counts, exact, strict=True)) <= 0.01 * min(exact)


def test_counts_of_triangular_systems_are_exact() -> None:
    system = inverse_system(synthetic.auto_tree(5, 2, 1.5, 1.0))
    small = SearchProblem.of(system)
    order = RootToLeaf().order(small.pattern, OrderingContext(system, small.values))
    assert small.counted(order)[0] == small.exact(order).total


def test_counts_know_zero_pivots_and_small_ones(
    problem: SearchProblem, restarted: list[PivotOrder]
) -> None:
    order = restarted[0]
    count, worst = problem.counted(order)
    assert count is not None and worst > 0
    assert problem.counted(order, 1.01 * worst) == (None, 0.0)
    pivots = order.pivots
    there = set(zip(*(x.tolist() for x in problem.places), strict=True))
    i, j = next(
        (i, j)
        for i, j in itertools.combinations(range(len(pivots)), 2)
        if (pivots[i][0], pivots[j][1]) not in there
    )
    (ri, ci), (rj, cj) = pivots[i], pivots[j]
    rest = [p for k, p in enumerate(pivots) if k not in (i, j)]
    assert problem.counted(PivotOrder.of([(ri, cj), (rj, ci), *rest])) == (None, 0.0)


def test_unit_quaternions_are_known_to_the_counts() -> None:
    system = forward_system(synthetic.random_tree(3, 1, ["free", "spherical"]))
    small = SearchProblem.of(system, ("qdd",))
    assert small.quaternions
    order = Markowitz("fill").order(small.pattern, small.context)
    count, exact = small.counted(order)[0], small.exact(order).total
    assert count is not None and abs(count - exact) <= 0.01 * exact


def test_watching_costs_what_varying_pivots_cost(problem: SearchProblem) -> None:
    order = Markowitz("fill").order(problem.pattern, problem.context)
    free, watched = (replace(problem, watch=w).counted(order)[0] for w in (0, 7))
    assert free is not None and watched is not None
    assert 7 <= watched - free <= 8 * len(order.row_order)


def test_restarts_see_the_values_of_the_system(problem: SearchProblem) -> None:
    """Of every block, what the matrix has in its rows and columns; of no other."""
    rows, cols = problem.places
    values = problem.restarts.values
    whole = np.zeros((len(values), *problem.pattern.shape))
    whole[:, rows, cols] = values
    blocks = [block for block in problem.restarts.blocks if len(block.part.rows) > 1]
    assert blocks
    for block in blocks:
        for k in range(block.values.shape[2]):
            expected = whole[k][np.ix_(block.part.rows, block.part.cols)]
            np.testing.assert_array_equal(block.values[:, :, k], expected)


def test_restarts_repeat_and_differ(problem: SearchProblem) -> None:
    draw = [problem.restarts.drawn(np.random.default_rng(k), 1e-3) for k in (1, 1, 2)]
    assert draw[0] is not None and draw[0] == draw[1] != draw[2]


def test_restarts_are_as_good_as_markowitz(problem: SearchProblem) -> None:
    rng = np.random.default_rng(0)
    orders = [problem.restarts.order(Weights(sigma=0.02 * k), rng) for k in range(6)]
    best = min(problem.counted(order)[0] or np.inf for order in orders if order is not None)
    markowitz = Markowitz("fill").order(problem.pattern, problem.context)
    assert best <= 1.01 * (problem.counted(markowitz)[0] or 0)


def test_pulls_of_the_tree_go_to_every_root(cells: LinearSystem) -> None:
    found = tree_potentials(cells)
    n, unknowns = cells.robot.n_bodies, cells.unknowns
    assert found.shape == (n + 1, unknowns.size)
    for root in range(n):
        assert (found[root, unknowns.block("acceleration", root).columns] == 1.0).all()
    middle = [found[n, unknowns.block("acceleration", i).columns][0] for i in range(n)]
    assert int(np.argmax(middle)) == n // 2  # a chain is cut in its middle first


def test_watched_pivots_are_part_of_the_cost(
    problem: SearchProblem, cells: LinearSystem
) -> None:
    watched = replace(problem, watch=5)
    order = Markowitz("fill").order(problem.pattern, problem.context)
    found = price(watched, order, "", None)
    assert found.cost == found.operations.total + watched.watching(order) > 5
    assert price(problem, order, "", None).cost == found.operations.total
    result = search_order(watched, Search(evaluations=200), cells)
    assert [c.rank for c in result.elite] == sorted(c.rank for c in result.elite)
    assert result.elite[0] is result.best
