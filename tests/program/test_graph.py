"""The expression graph records what the algorithms compute, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynsys import synthetic
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import (
    Op,
    evaluate_nodes,
    in_order_of_need,
    node_depths,
    with_inputs,
    without_dead_code,
)
from dynsys.program.simplify import simplify
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.jacobian import jacobian_scalars
from dynsys.recursive.rnea import rnea_scalars
from tests.program.recording import admissible_inputs, recorded
from tests.strategies import trees


def test_constants_fold_and_signs_cost_nothing() -> None:
    graph = Graph()
    x, y = graph.inputs(2)
    assert x * 0 == 0.0
    assert (x * 1).ref == x.ref
    minus = -x
    assert (-minus).ref == x.ref
    assert (x - y).ref == -(y - x).ref
    assert (x * -y).ref == -(x * y).ref
    assert (x - x) == 0.0
    assert np.sin(-x).ref == -np.sin(x).ref
    assert np.cos(-x).ref == np.cos(x).ref
    program = graph.program([x * y + (y * x) * 1.0])
    assert program.count()["mul"] == 1 and program.count()["add"] == 1


def test_constants_are_interned_at_full_precision() -> None:
    graph = Graph()
    (x,) = graph.inputs(1)
    one_up = np.nextafter(0.1, 1.0)
    outputs = [x * 0.1, x * one_up]
    program = simplify(graph.program(outputs), np.array([[1.0], [2.0]], dtype=np.longdouble))
    values = program.evaluate(np.array([1.0]))
    assert values[0] == 0.1 and values[1] == one_up


def test_outputs_may_be_inputs_constants_zero_or_repeated() -> None:
    graph = Graph()
    x, y = graph.inputs(2)
    program = graph.program([y, -x, 2.5, 0, x * y, x * y])
    assert program.evaluate(np.array([3.0, 4.0])).tolist() == [4.0, -3.0, 2.5, 0.0, 12.0, 12.0]


def test_division_by_exact_zero_is_refused() -> None:
    graph = Graph()
    (x,) = graph.inputs(1)
    with pytest.raises(ZeroDivisionError):
        x / 0


def test_value_numbering_finds_identities() -> None:
    graph = Graph()
    x, y, z = graph.inputs(3)
    c, s = np.cos(x), np.sin(x)
    outputs = [c * c + s * s, (x + y) + z, x + (y + z), (x + y) * (x - y) - (x * x - y * y)]
    samples = np.random.default_rng(0).normal(size=(12, 3)).astype(np.longdouble)
    program = simplify(graph.program(outputs), samples)
    assert program.count()["mul"] == 0 and program.count()["add"] == 2
    assert program.outputs[1] == program.outputs[2] and program.outputs[3] == 0


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(robot=trees(max_bodies=6), seed=st.integers(0, 1000))
def test_algorithms_mean_the_same_on_graph_and_numbers(robot, seed) -> None:
    """RNEA, ABA, CRBA and Jacobian: recorded, simplified, evaluated = run on numbers."""
    x = admissible_inputs(robot, 3, seed)
    n = robot.nq
    for algorithm in (
        lambda q, qd, u: rnea_scalars(robot, q, qd, u),
        lambda q, qd, u: aba_scalars(robot, q, qd, u),
        lambda q, qd, u: crba_scalars(robot, q).ravel(),
        lambda q, qd, u: jacobian_scalars(robot, q, robot.n_bodies - 1).ravel(),
    ):
        program = recorded(robot, algorithm)
        smaller = simplify(program, admissible_inputs(robot, 12, seed + 1))
        for row in x:
            q, qd, u = row[:n], row[n : n + robot.nv], row[n + robot.nv :]
            expected = algorithm(q, qd, u)
            scale = np.abs(expected).max(initial=1.0)
            for version in (program, smaller):
                got = version.evaluate(row)
                assert np.abs(got - expected).max(initial=0.0) <= 1e-14 * scale
        assert sum(smaller.count().values()) <= sum(program.count().values())


def test_levels_and_evaluation_agree_with_the_plain_evaluator() -> None:
    robot = synthetic.chain(4)
    program = recorded(robot, lambda q, qd, u: rnea_scalars(robot, q, qd, u))
    x = admissible_inputs(robot, 5, 3)
    values = evaluate_nodes(program, x)
    outputs = values[np.abs(program.outputs) - 1] * np.sign(program.outputs)[:, None]
    np.testing.assert_allclose(outputs.T, program.evaluate(x), rtol=1e-17)
    leaf = (program.op == Op.INPUT) | (program.op == Op.CONSTANT)
    assert (node_depths(program)[leaf] == 0).all() and (node_depths(program)[~leaf] > 0).all()


def test_scalars_and_numpy_scalars_mix() -> None:
    graph = Graph()
    (x,) = graph.inputs(1)
    for product in (np.float64(2.0) * x, x * np.longdouble(2.0), 2 * x, np.int64(2) * x):
        assert isinstance(product, Scalar) and product.ref == (x * 2.0).ref
    assert (np.ones(2) * x).dtype == object


def test_in_order_of_need_sums_are_finished_before_others_begin() -> None:
    graph = Graph()
    x = graph.inputs(4)
    sums = [x[0], x[1]]
    for k in range(3):  # as elimination records it: one term of every sum, then the next
        sums = [s - x[2] * (x[3] + k) * (place + 1.0) for place, s in enumerate(sums)]
    assert in_order_of_need(graph.program([0, 0])).n_nodes == 0
    program = graph.program([sums[0], sums[1], sums[0], 0])
    ordered = in_order_of_need(program)
    assert ordered.count() == program.count() and ordered.n_nodes == program.n_nodes
    states = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_array_equal(ordered.evaluate(states), program.evaluate(states))
    assert ordered.outputs[0] == ordered.outputs[2]
    first = abs(ordered.outputs[0]) - 1
    is_sum = np.flatnonzero(ordered.op == Op.ADD)
    assert (is_sum > first).sum() == 3  # those of the second sum, all after the first


@settings(max_examples=20, deadline=None)
@given(robot=trees(max_bodies=5), seed=st.integers(0, 1000))
def test_in_order_of_need_computes_the_same(robot, seed) -> None:
    program = recorded(robot, lambda q, qd, u: aba_scalars(robot, q, qd, u))
    ordered = in_order_of_need(program)
    states = admissible_inputs(robot, 3, seed)
    np.testing.assert_array_equal(ordered.evaluate(states), program.evaluate(states))
    assert ordered.count() == program.count()


def test_inputs_beside_the_outputs_of_a_program() -> None:
    graph = Graph()
    x = graph.inputs(3)
    program = graph.program([x[2] * x[0], -x[2]])  # x[1] is of no use
    with_them = with_inputs(without_dead_code(program), at=1)
    x = np.array([2.0, 3.0, 5.0])
    np.testing.assert_array_equal(with_them.evaluate(x), [10.0, 2.0, 3.0, 5.0, -5.0])
    assert with_them.count() == program.count()
