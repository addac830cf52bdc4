"""Machine code agrees with Program.evaluate for every operation, in every path."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from dynsys import KernelBuildError
from dynsys.kernel.build import build_kernel, kernel_from
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import MachineKernel
from dynsys.kernel.llvm import target
from dynsys.kernel.llvm.computation import program_text
from dynsys.kernel.llvm.target import compile_object, host
from dynsys.kernel.llvm.text import APART
from dynsys.kernel.schedule import make_schedule
from dynsys.program.graph import Graph
from dynsys.program.program import Op, Program
from dynsys.program.signature import Signature
from tests.program.random_programs import N_INPUTS, error_bound, programs

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24}
SIGNATURE = Signature((("a", 2), ("b", N_INPUTS - 2)), (("x", 3), ("y", 4)))


def both_ways(
    program: Program, signature: Signature, x: np.ndarray, **options: object
) -> list[np.ndarray]:
    """Outputs (n, n_outputs) by batch and by one call per state."""
    kernel = build_kernel(program, signature, **options)  # type: ignore[arg-type]
    cuts = np.cumsum([size for _, size in signature.inputs])[:-1]
    groups = np.split(x.astype(kernel.dtype), cuts, axis=1)
    batch, finite = kernel.batch(*groups)
    assert finite == bool(all(np.isfinite(g).all() for g in batch))
    single = [np.hstack(kernel.one(*(g[i] for g in groups))[0]) for i in range(len(x))]
    return [np.hstack(batch), np.array(single).reshape(len(x), signature.n_outputs)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("segment", [3, None])
@settings(max_examples=15, deadline=None)
@given(program=programs())
def test_random_programs(program: Program, dtype: str, segment: int | None) -> None:
    x = np.random.default_rng(1).uniform(-2, 2, (6, N_INPUTS)).astype(dtype)
    expected, bound = error_bound(program, x.astype(np.longdouble), UNIT[dtype])
    sure = np.isfinite(bound) & np.isfinite(expected)
    large = np.finfo(dtype).max / 1e6  # beyond it products on the way may overflow
    sure &= np.isfinite(program.evaluate(x)) & (abs(expected) < large)
    for got in both_ways(program, SIGNATURE, x, dtype=dtype, segment=segment):
        error = np.abs(got - expected)
        assert np.all(error[sure] <= bound[sure])


@pytest.mark.parametrize("segment", [1, 2, None])
def test_outputs_that_are_not_results_of_operations(segment: int | None) -> None:
    g = Graph()
    x = g.inputs(5)
    y = x[0] * x[1] + x[2]
    z = y * y - np.sin(x[3])
    third = np.longdouble(1) / 3
    outputs = [x[4], -x[4], 0.0, third, -third, np.sin(x[0]), -np.cos(x[0]), z, -z, z, y, -y]
    signature = Signature((("x", 5),), (("y", len(outputs)),))
    states = np.random.default_rng(0).normal(size=(5, 5))
    program = g.program(outputs)
    for got in both_ways(program, signature, states, segment=segment):
        np.testing.assert_allclose(got, program.evaluate(states), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("segment", [1, None])
def test_programs_without_operations(segment: int | None) -> None:
    g = Graph()
    x = g.inputs(3)
    for outputs in ([], [0.0], [x[2], x[0]]):
        signature = Signature((("x", 3),), (("y", len(outputs)),))
        program = g.program(outputs)
        states = np.arange(15.0).reshape(5, 3)
        for got in both_ways(program, signature, states, segment=segment):
            np.testing.assert_array_equal(got, program.evaluate(states))


@pytest.mark.parametrize("segment", [2, None])
def test_sines_of_computed_arguments_and_of_sines(segment: int | None) -> None:
    g = Graph()
    x = g.inputs(4)
    inner = np.sin(x[0] + x[1]) * x[2]
    outputs = [np.sin(inner) + np.cos(-x[3]), np.cos(np.cos(inner)), np.sin(-x[1])]
    program = g.program(outputs)
    signature = Signature((("x", 4),), (("y", 3),))
    states = np.random.default_rng(0).normal(size=(9, 4)) * 3
    for got in both_ways(program, signature, states, segment=segment):
        np.testing.assert_allclose(got, program.evaluate(states), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_constants_are_rounded_once_and_exactly(dtype: str) -> None:
    values = np.array([0.1, np.pi, 1e-30, 2.0**-60 + 1, 1 + 2.0**-25], dtype=np.longdouble) / 3
    g = Graph()
    g.inputs(1)
    signature = Signature((("x", 1),), (("y", len(values)),))
    for got in both_ways(g.program(list(values)), signature, np.zeros((2, 1)), dtype=dtype):
        np.testing.assert_array_equal(got, np.tile(values.astype(dtype), (2, 1)))


def test_not_a_number_survives_minimum_and_maximum() -> None:
    op = np.array([Op.INPUT, Op.INPUT, Op.MIN, Op.MAX, Op.MIN], dtype=np.int8)
    program = Program(
        op,
        np.array([0, 1, 1, 1, -1], dtype=np.int32),
        np.array([0, 0, 2, 2, -2], dtype=np.int32),
        np.empty(0, dtype=np.longdouble),
        np.array([3, 4, 5], dtype=np.int32),
        2,
    )
    states = np.array([[np.nan, 1.0], [1.0, np.nan], [2.0, 3.0]])
    for got in both_ways(program, Signature((("x", 2),), (("y", 3),)), states):
        np.testing.assert_array_equal(got, [[np.nan] * 3, [np.nan] * 3, [2, 3, -3]])


def test_scratch_slots_are_reused() -> None:
    g = Graph()
    (x,) = g.inputs(1)
    y = x
    for k in range(200):
        y = y * x + (k + 2.0)
    schedule = make_schedule(g.program([y]), 10)
    assert len(schedule.stages[-1].segments) == 40
    assert schedule.n_slots <= 2


def test_text_grows_linearly_with_the_program() -> None:
    def text_length(n: int) -> int:
        g = Graph()
        x = g.inputs(4)
        y = x[0]
        for k in range(n):
            y = y * x[k % 4] + (k + 2.0)
        signature = Signature((("x", 4),), (("y", 1),))
        return len(program_text(g.program([y]), signature, "float64", host()))

    base, one, two = text_length(10), text_length(2000), text_length(4000)
    assert two - base < 2.2 * (one - base)


def test_sizes_must_match_the_signature() -> None:
    g = Graph()
    x = g.inputs(3)
    with pytest.raises(KernelBuildError, match="2 inputs"):
        build_kernel(g.program([x[0]]), Signature((("x", 2),), (("y", 1),)))
    with pytest.raises(KernelBuildError, match="float16"):
        build_kernel(g.program([x[0]]), Signature((("x", 3),), (("y", 1),)), dtype="float16")
    with pytest.raises(KernelBuildError, match="at least one input"):
        build_kernel(g.program([]), Signature((("x", 3),), ()))
    with pytest.raises(KernelBuildError, match="output 'x' is an input here"):
        Signature((("x", 3),), (("x", 1),))
    with pytest.raises(KernelBuildError, match="'y' is asked for twice"):
        Signature((("x", 3),), (("y", 1), ("y", 1)))


def test_long_programs_are_compiled_in_pieces_side_by_side() -> None:
    g = Graph()
    x = g.inputs(5)
    values = list(x)
    for k in range(200):
        values.append(values[-1] * values[-4] + np.sin(values[k % 5]))
    program, signature = g.program(values[-7:]), Signature((("x", 5),), (("y", 7),))
    text = program_text(program, signature, "float64", host(), segment=8)
    code = compile_object(text, host())
    assert text.count(APART) > 7 and code.startswith(target.SEVERAL)
    assert not compile_object(text.replace(APART, ""), host()).startswith(target.SEVERAL)
    inputs = np.random.default_rng(0).uniform(-1, 1, (11, 5))
    whole = both_ways(program, signature, inputs)
    for got, expected in zip(
        both_ways(program, signature, inputs, segment=8), whole, strict=True
    ):
        assert np.array_equal(got, expected)
    for cut in (code[:12], code[: len(target.SEVERAL) + 8]):
        with pytest.raises(KernelBuildError, match="build it anew"):
            MachineKernel(cut, signature)


def test_the_collector_runs_again_after_a_program_was_made(tmp_path: Path) -> None:
    g = Graph()
    x = g.inputs(2)
    signature, running = Signature((("x", 2),), (("y", 1),)), []

    def program() -> Program:
        running.append(gc.isenabled())
        if len(running) == 1:
            raise ZeroDivisionError
        return g.program([x[0] * x[1]])

    states = np.ones((1, 2), dtype=np.longdouble)
    cache = KernelCache(tmp_path)
    with pytest.raises(ZeroDivisionError):
        kernel_from(program, signature, states, ("product",), cache=cache)
    assert gc.isenabled()
    kernel_from(program, signature, states, ("product",), cache=cache)
    assert gc.isenabled() and running == [False, False]
