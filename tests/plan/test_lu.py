"""Elimination solves, over every kind of scalar, and its counts are those of what it does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csc_array

from dynsys import KinematicTree, LinearSystem, SingularSystemError, synthetic
from dynsys.plan.lu import ScalarSolution, entries_by_row, factor_and_solve, symbolic_lu
from dynsys.plan.operations import Operations, lu_operations, program_operations
from dynsys.plan.orders.dulmage_mendelsohn import BlockTriangular
from dynsys.plan.orders.libraries import SuperLU
from dynsys.plan.orders.markowitz import Markowitz
from dynsys.plan.orders.orders import AbstractOrdering, OrderingContext, PivotOrder
from dynsys.plan.orders.peeling import Peeled
from dynsys.plan.orders.recursive_orders import LeafToRoot, RootToLeaf
from dynsys.plan.published import numeric_lu
from dynsys.plan.search.price import entries_and_rhs
from dynsys.program.graph import Graph
from dynsys.program.simplify import simplify
from dynsys.recursive.aba import aba
from dynsys.system.equations import Kinematics
from dynsys.types import Array, ScalarArray
from tests import strategies
from tests.plan.counting import elimination_operations
from tests.plan.systems import load_cell_system
from tests.systems import forward_system, inverse_system

ORDERINGS: tuple[AbstractOrdering, ...] = (
    LeafToRoot(),
    RootToLeaf(),
    Peeled(Markowitz("fill")),
    BlockTriangular(Markowitz("count")),
    SuperLU(),
)


def at_random(system: LinearSystem, seed: int) -> tuple[Kinematics, Array, Array]:
    """Kinematics and y at a random state, and the dense solution."""
    rng = np.random.default_rng(seed)
    q, qd = system.robot.random_configuration(rng), rng.normal(size=system.robot.nv)
    y = rng.normal(size=len(system.measured_rows))
    D, b = system.assemble(q, qd, y)
    return Kinematics.at(system.robot, q, qd), y, np.linalg.solve(D.toarray(), -b)


def solve_system(
    system: LinearSystem, kinematics: Kinematics, y: ScalarArray, order: PivotOrder
) -> ScalarSolution:
    """Solve D d + b = 0, b holding -y, at a state whose scalars may be of any kind."""
    data, rhs = entries_and_rhs(system, kinematics, y)
    return factor_and_solve(entries_by_row(system.pattern(), data), rhs, order)


@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda o: o.name)
@pytest.mark.parametrize("make", [inverse_system, forward_system, load_cell_system])
def test_solution_is_the_dense_one(ordering: AbstractOrdering, make: Any) -> None:
    system = make(synthetic.chain(5))
    order = ordering.order(system.pattern(), OrderingContext.sampled(system, 8))
    kinematics, y, expected = at_random(system, 5)
    found = solve_system(system, kinematics, y, order)
    np.testing.assert_allclose(np.array(found.x), expected, atol=1e-9 * np.abs(expected).max())
    assert len(found.pivots) == system.shape[0]


@settings(max_examples=30)
@given(robot=strategies.trees(max_bodies=6, coupled=True), seed=strategies.seeds)
def test_forward_dynamics_of_any_tree(robot: KinematicTree, seed: int) -> None:
    system = forward_system(robot)
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    kinematics, y, expected = at_random(system, seed)
    found = np.array(solve_system(system, kinematics, y, order).x)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_extended_precision() -> None:
    robot = synthetic.chain(4)
    system = forward_system(robot)
    order = LeafToRoot().order(system.pattern(), OrderingContext(system))
    rng = np.random.default_rng(0)
    q, qd, torque = (rng.normal(size=4).astype(np.longdouble) for _ in range(3))
    y = np.zeros(len(system.measured_rows), dtype=np.longdouble)
    y[6::7] = torque
    found = np.array(solve_system(system, Kinematics.at(robot, q, qd), y, order).x)
    assert found.dtype == np.longdouble
    double = [x.astype(float) for x in (q, qd, torque)]
    qdd = found[system.unknowns.columns("qdd")].astype(float)
    np.testing.assert_allclose(qdd, aba(robot, *double), rtol=1e-11)


def test_many_states_at_once() -> None:
    system = forward_system(synthetic.chain(3))
    context = OrderingContext.sampled(system, 6)
    assert context.values is not None
    order = Markowitz().order(system.pattern(), context)
    rhs = [np.ones(6) for _ in range(system.shape[0])]
    found = np.array(
        factor_and_solve(entries_by_row(system.pattern(), context.values.T), rhs, order).x
    )
    for k, data in enumerate(context.values):
        D = csc_array((data, system.indices, system.indptr), system.shape).toarray()
        np.testing.assert_allclose(D @ found[:, k], np.ones(len(D)), atol=1e-9)


@pytest.mark.parametrize("make", [inverse_system, forward_system, load_cell_system])
def test_graph_is_the_same_computation(make: Any) -> None:
    robot = synthetic.chain(4)
    system = make(robot)
    order = RootToLeaf().order(system.pattern(), OrderingContext.sampled(system, 8))
    graph = Graph()
    q, qd = graph.inputs(4), graph.inputs(4)
    y = graph.inputs(len(system.measured_rows))
    recorded = solve_system(system, Kinematics.at(robot, q, qd), y, order)
    program = graph.program(recorded.x)
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(12, program.n_inputs))
    smaller = simplify(program, samples.astype(np.longdouble))
    for x in samples[:3]:
        kinematics = Kinematics.at(robot, x[:4], x[4:8])
        expected = np.array(solve_system(system, kinematics, x[8:], order).x)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(program.evaluate(x), expected, atol=1e-9 * scale)
        np.testing.assert_allclose(smaller.evaluate(x), expected, atol=1e-9 * scale)
    assert program_operations(smaller).total <= program_operations(program).total


def test_zero_pivots_are_named() -> None:
    rows = [{0: 0.0, 1: 1.0}, {0: 1.0, 1: 0.0}]
    with pytest.raises(SingularSystemError, match="pivot 0"):
        factor_and_solve(rows, [1.0, 1.0], PivotOrder([0, 1], [0, 1]))
    assert factor_and_solve(rows, [1.0, 2.0], PivotOrder([1, 0], [0, 1])).x == [2.0, 1.0]


def test_input_rows_are_not_changed() -> None:
    rows = [{0: 2.0, 1: 1.0}, {0: 1.0, 1: 3.0}]
    factor_and_solve(rows, [3.0, 4.0], PivotOrder([0, 1], [0, 1]))
    assert rows == [{0: 2.0, 1: 1.0}, {0: 1.0, 1: 3.0}]


# ---- counts -------------------------------------------------------------------------------


def test_operations_add_and_read() -> None:
    total = Operations(1, 2, 3) + Operations(10, 20, 30)
    assert (total.multiplications, total.additions, total.divisions) == (11, 22, 33)
    assert total.total == 66
    assert str(Operations(1, 0, 2)) == "1 multiplication + 0 additions + 2 divisions = 3"


@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda o: o.name)
def test_structural_count_is_that_of_the_graph(ordering: AbstractOrdering) -> None:
    """A graph of general inputs, +-1 where the system has them, before simplification."""
    system = forward_system(synthetic.chain(4, generic=True))
    context = OrderingContext.sampled(system, 8)
    assert context.values is not None
    order = ordering.order(system.pattern(), context)
    unit = (np.abs(context.values) == 1.0).all(axis=0)
    graph = Graph()
    data = graph.inputs(system.nnz)
    data[unit] = context.values[0][unit]
    rhs = graph.inputs(system.shape[0])
    found = factor_and_solve(entries_by_row(system.pattern(), data), rhs, order)
    counted = elimination_operations(system.pattern(), order, unit)
    recorded = program_operations(graph.program(found.x))
    assert recorded.total <= counted.total  # the graph shares equal products
    assert recorded.divisions == counted.divisions
    assert counted.total - recorded.total <= 0.05 * counted.total


def test_symbolic_factors_are_those_of_dense_elimination() -> None:
    rng = np.random.default_rng(0)
    for n in range(2, 9):
        A = np.where(rng.random((n, n)) < 0.35, rng.normal(size=(n, n)), 0.0) + np.eye(n) * 3
        order = PivotOrder(rng.permutation(n), rng.permutation(n))
        order = PivotOrder(order.row_order, order.row_order)
        symbolic = symbolic_lu(csc_array(A != 0), order)
        L, U = numeric_lu(csc_array(A).tocsr(), symbolic)
        permuted = A[order.row_order][:, order.col_order]
        np.testing.assert_allclose((L @ U).toarray(), permuted, atol=1e-12)
        R, updates, quotients = permuted.astype(object), 0, 0
        filled = R != 0
        for k in range(n):
            below = [i for i in range(k + 1, n) if filled[i, k]]
            right = [j for j in range(k + 1, n) if filled[k, j]]
            assert (symbolic.below[k], symbolic.right[k]) == (len(below), len(right))
            quotients += len(below)
            for i in below:
                for j in right:
                    updates += 1
                    filled[i, j] = True
        assert lu_operations(symbolic) == Operations(updates, updates, quotients)
        assert symbolic.fill == filled.sum() - (A != 0).sum()


def test_zero_pivot_in_the_factors() -> None:
    A = csc_array(np.array([[1.0, 1.0], [1.0, 1.0]]))
    symbolic = symbolic_lu(A.astype(bool), PivotOrder([0, 1], [0, 1]))
    with pytest.raises(SingularSystemError, match="pivot 1"):
        numeric_lu(A.tocsr(), symbolic)
