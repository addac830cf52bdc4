"""Programs executed by Python and NumPy: the same numbers, one state or many, same gaps."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from dynsys import KernelBuildError
from dynsys.kernel.numpy_kernel import NumpyKernel
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from tests.program.random_programs import N_INPUTS, error_bound, programs

SIGNATURE = Signature((("a", 2), ("b", N_INPUTS - 2)), (("c", 3), ("d", 4)))
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24}


def both_ways(kernel: NumpyKernel, x: np.ndarray) -> list[np.ndarray]:
    """Outputs (n, n_outputs) by batch and by one call per state."""
    groups = np.split(x.astype(kernel.dtype), [2], axis=1)
    batch, finite = kernel.batch(*groups)
    assert finite == all(np.isfinite(g).all() for g in batch)
    single = [np.hstack(kernel.one(*(g[i] for g in groups))[0]) for i in range(len(x))]
    return [np.hstack(batch), np.array(single)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@settings(max_examples=60)
@given(program=programs())
def test_random_programs(program: Program, dtype: str) -> None:
    x = np.random.default_rng(1).uniform(-2, 2, (6, N_INPUTS)).astype(dtype)
    with np.errstate(all="ignore"):
        expected, bound = error_bound(program, x.astype(np.longdouble), UNIT[dtype])
        plain = program.evaluate(x)
    sure = np.isfinite(bound) & np.isfinite(expected) & np.isfinite(plain)
    sure &= abs(expected) < np.finfo(dtype).max / 1e6  # beyond it products may overflow
    for got in both_ways(NumpyKernel(program, SIGNATURE, dtype), x):
        assert np.all(np.abs(got[sure] - expected[sure]) <= bound[sure])
        if dtype == "float64":
            np.testing.assert_array_equal(np.isnan(got), np.isnan(plain))


def test_what_has_no_number_is_nan_or_infinite() -> None:
    """Python's floats raise there, arrays do not."""
    g = Graph()
    x = g.inputs(2)
    program = g.program([1 / x[0], np.sqrt(x[1]), np.sin(x[0]), x[0] + x[1]])
    kernel = NumpyKernel(program, Signature((("x", 2),), (("y", 4),)))
    states = np.array([[0.0, 1.0], [1.0, -1.0], [np.inf, 1.0], [2.0, np.nan], [2.0, 4.0]])
    (rows,), finite = kernel.batch(states)
    assert not finite
    for state, row in zip(states, rows, strict=True):
        (one,), fine = kernel.one(state)
        np.testing.assert_allclose(one, row, rtol=1e-15)
        assert fine == bool(np.isfinite(row).all())
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(rows, program.evaluate(states))


@pytest.mark.parametrize("n", [0, 1, 5, 1024, 2500])
@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_states_by_any_threads(n: int, threads: int) -> None:
    g = Graph()
    x = g.inputs(3)
    program = g.program([x[0] * x[1] - x[2], x[2], 0.0, -x[1], -1.5])
    kernel = NumpyKernel(program, Signature((("x", 2), ("z", 1)), (("y", 5),)))
    states = np.random.default_rng(n).normal(size=(n, 3))
    wide = np.full((n, 9), np.nan)
    wide[:, 2:4] = states[:, :2]  # rows far from each other
    out = np.full((n + 2, 5), 7.5)
    (rows,), finite = kernel.batch(
        wide[:, 2:4], states[:, 2:], out=[out[1:-1]], threads=threads
    )
    assert finite
    np.testing.assert_array_equal(rows, program.evaluate(states))
    assert np.all(out[[0, -1]] == 7.5)


def test_it_travels_as_its_program() -> None:
    g = Graph()
    x = g.inputs(2)
    kernel = NumpyKernel(g.program([x[0] / x[1]]), Signature((("x", 2),), (("y", 1),)))
    again = pickle.loads(pickle.dumps(kernel))
    assert again.one([1.0, 2.0]) == kernel.one([1.0, 2.0]) == ((np.array([0.5]),), True)
    assert again.operations == kernel.operations and again.operations.divisions == 1


def test_its_arguments_are_checked_like_those_of_machine_code() -> None:
    g = Graph()
    x = g.inputs(2)
    kernel = NumpyKernel(g.program([x[0] + x[1]] * 2), Signature((("x", 2),), (("y", 2),)))
    given = np.array([1.0, 2.0])
    kernel.one(given, out=[given])  # an output may be what was given
    np.testing.assert_array_equal(given, [3.0, 3.0])
    with pytest.raises(ValueError, match="x: expected"):
        kernel.one([1.0])
    assert kernel.one([1, 2])[0][0].tolist() == [3.0, 3.0]
    with pytest.raises(KernelBuildError, match="3 inputs"):
        NumpyKernel(g.program([x[0]]), Signature((("x", 3),), (("y", 1),)))
