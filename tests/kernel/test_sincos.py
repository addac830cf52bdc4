"""Own sine and cosine: accuracy, large arguments, infinities."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys.kernel.build import build_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.llvm.sincos import LIMIT
from dynsys.kernel.llvm.target import host
from dynsys.program.graph import Graph
from dynsys.program.signature import Signature

ABSOLUTE_ERROR = {"float64": 2.3e-16, "float32": 1.3e-7}
TARGETS = {"native": (), "without fma": ("avx512f", "avx2", "fma")}


def sincos_kernel(n: int, dtype: str, disable: tuple[str, ...] = ()) -> Kernel:
    g = Graph()
    x = g.inputs(n)
    outputs = [*np.sin(x), *np.cos(x)]
    signature = Signature((("x", n),), (("sin", n), ("cos", n)))
    return build_kernel(
        g.program(outputs), signature, dtype=dtype, target=host(disable=disable)
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("target", list(TARGETS))
def test_accuracy_on_a_million_points(dtype: str, target: str) -> None:
    kernel = sincos_kernel(4, dtype, TARGETS[target])
    rng = np.random.default_rng(0)
    quadrants = np.arange(250_000) * np.pi / 2
    x = np.concatenate(
        [
            rng.uniform(-4, 4, 400_000),
            rng.uniform(-LIMIT[dtype], LIMIT[dtype], 300_000),
            10.0 ** rng.uniform(-300 if dtype == "float64" else -35, 0, 50_000),
            quadrants[quadrants < LIMIT[dtype]],
        ]
    ).astype(dtype)
    x = np.resize(x, 1_000_000)
    (sine, cosine), finite = kernel.batch(x.reshape(-1, 4))
    assert finite
    exact = x.astype(np.longdouble)
    assert np.abs(sine.ravel() - np.sin(exact)).max() < ABSOLUTE_ERROR[dtype]
    assert np.abs(cosine.ravel() - np.cos(exact)).max() < ABSOLUTE_ERROR[dtype]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 11])
def test_large_arguments_infinities_and_nan(dtype: str, n: int) -> None:
    kernel = sincos_kernel(n, dtype)
    special = [
        0.0,
        -0.0,
        1.5e5,
        -2.0e6,
        1e15,
        1e22,
        1e300,
        -1e308,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
    ]
    with np.errstate(all="ignore"):
        x = np.resize(np.array(special).astype(dtype), (13, n))
        expected = [np.sin(x.astype(np.float64)), np.cos(x.astype(np.float64))]
    got, finite = kernel.batch(x)
    assert finite == bool(np.isfinite(x).all())
    for i in range(len(x)):
        for one, group in zip(kernel.one(x[i])[0], got, strict=True):
            np.testing.assert_array_equal(one, group[i])
    for group, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(group, wanted, rtol=0, atol=ABSOLUTE_ERROR[dtype])


def test_sine_keeps_relative_accuracy_near_zero_and_its_sign() -> None:
    kernel = sincos_kernel(1, "float64")
    x = np.array([[1e-300], [-1e-20], [5e-324], [-0.0]])
    (sine, cosine), _ = kernel.batch(x)
    np.testing.assert_array_equal(sine, x)
    np.testing.assert_array_equal(cosine, np.ones((4, 1)))
