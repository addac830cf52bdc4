"""Derivatives of programs: against differences, forward against reverse, every operation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynsys.program.derivatives import (
    Replay,
    hessian_product_program,
    jvp_program,
    vjp_program,
)
from dynsys.program.graph import Graph
from dynsys.program.program import Op, Program
from dynsys.types import ScalarArray

SIZE = 4


def smooth_programs(seed: int) -> Program:
    """Random programs whose operations are all well away from their poles and corners."""
    rng = np.random.default_rng(seed)
    graph = Graph()
    x = graph.inputs(SIZE)
    pool = [*x, *(np.sin(v) for v in x)]
    for _ in range(rng.integers(1, 25)):
        a, b = (pool[k] for k in rng.integers(len(pool), size=2))
        bounded = np.cos(b) * np.cos(b) + 1.0  # between 1 and 2
        kind = rng.integers(8)
        pool.append(
            [
                lambda a=a, b=b: a + b,
                lambda a=a, b=b: a - 0.5 * b,
                lambda a=a, b=b: np.sin(a) * np.cos(b),
                lambda a=a, d=bounded: a / d,
                lambda d=bounded: np.sqrt(d),
                lambda a=a, d=bounded: abs(np.sin(a) - 3.0 * d),
                lambda a=a, d=bounded: extremum(graph, Op.MIN, np.sin(a), 2.0 * d),
                lambda a=a, d=bounded: extremum(graph, Op.MAX, np.sin(a), -2.0 * d),
            ][kind]()
        )
    return graph.program([pool[-1], pool[-2], pool[0] * pool[-1], 2.0, 0.0])


def extremum(graph: Graph, op: Op, a: object, b: object) -> object:
    from dynsys.program.graph import Scalar

    return Scalar(graph, graph.extremum(op, graph.reference(a), graph.reference(b)))


def differences(program: Program, x: ScalarArray, d: ScalarArray) -> ScalarArray:
    """Central differences of fourth order along d, in extended precision."""
    h = np.longdouble(2.0) ** -10
    at = [program.evaluate(x + k * h * d) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h)


def straight(inputs: ScalarArray, v: ScalarArray) -> ScalarArray:
    return v


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_products_are_differences(seed: int) -> None:
    program = smooth_programs(seed)
    rng = np.random.default_rng(seed)
    x, d, e = rng.uniform(-1, 1, size=(3, SIZE)).astype(np.longdouble)
    w = rng.normal(size=len(program.outputs)).astype(np.longdouble)
    along = jvp_program(program, straight, SIZE).evaluate(np.concatenate([x, d]))
    expected = differences(program, x, d)
    scale = 1 + np.abs(expected).max()
    assert np.abs(along - expected).max() < 1e-8 * scale
    against = vjp_program(program, straight, SIZE)
    gradient = against.evaluate(np.concatenate([x, w]))
    assert abs(gradient @ d - w @ along) < 1e-15 * scale * (1 + np.abs(gradient).max()) * 10
    # second order: the gradient's own differences, and symmetric
    second = hessian_product_program(program, straight, SIZE)
    along_d, along_e = (second.evaluate(np.concatenate([x, w, y])) for y in (d, e))
    change = differences(against, np.concatenate([x, w]), np.concatenate([d, 0 * w]))
    scale = 1 + np.abs(change).max()
    assert np.abs(along_d - change).max() < 1e-7 * scale
    assert abs(along_d @ e - along_e @ d) < 1e-12 * scale


@pytest.mark.parametrize(
    ("op", "at", "expected"),
    [
        (Op.MIN, (1.0, 2.0), (1.0, 0.0)),
        (Op.MIN, (-2.0, -3.0), (0.0, 1.0)),
        (Op.MAX, (1.0, 2.0), (0.0, 1.0)),
        (Op.MAX, (5.0, 5.0), (0.5, 0.5)),
    ],
)
def test_extrema_follow_the_one_that_counts(
    op: Op, at: tuple[float, float], expected: tuple[float, float]
) -> None:
    graph = Graph()
    x, y = graph.inputs(2)
    replay = Replay(graph.program([extremum(graph, op, x, y)]))
    slopes = [*replay.reverse([1.0]), *replay.forward([1.0, 0.0]), *replay.forward([0.0, 1.0])]
    found = replay.graph.program(slopes).evaluate(np.array(at))
    assert tuple(found) == expected * 2


@pytest.mark.parametrize(("at", "slope"), [(3.0, 1.0), (-1e-20, -1.0), (0.0, 0.0)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_magnitudes_turn_at_zero(at: float, slope: float, dtype: str) -> None:
    graph = Graph()
    (x,) = graph.inputs(1)
    replay = Replay(graph.program([abs(x)]))
    program = replay.graph.program(list(replay.forward([1.0])))
    assert program.evaluate(np.array([at], dtype=dtype)).tolist() == [slope]


def test_what_does_not_depend_costs_nothing() -> None:
    graph = Graph()
    x = graph.inputs(3)
    replay = Replay(graph.program([np.sin(x[0]) * x[1], x[2] * 3.0]))
    found = replay.graph.program(list(replay.forward([0.0, 0.0, 1.0])))
    assert found.evaluate(np.array([1.0, 2.0, 5.0])).tolist() == [0.0, 3.0]
    assert sum(found.count().values()) == 0
    assert replay.reverse([0.0, 1.0])[:2].tolist() == [0.0, 0.0]


def test_work_is_shared_with_the_program() -> None:
    """The sine that the slope of a cosine needs is the program's own."""
    graph = Graph()
    (x,) = graph.inputs(1)
    replay = Replay(graph.program([np.sin(x), np.cos(x)]))
    both = replay.graph.program([*replay.outputs, *replay.forward([1.0])])
    assert both.count()["sin"] == both.count()["cos"] == 1


def test_an_input_read_twice_is_pulled_twice() -> None:
    program = Program.from_lists([Op.INPUT, Op.INPUT, Op.MUL], [0, 0, 1], [0, 0, 2], [], [3], 1)
    replay = Replay(program)
    slope = replay.graph.program(list(replay.reverse([1.0])))
    assert slope.evaluate(np.array([3.0])).tolist() == [6.0]
