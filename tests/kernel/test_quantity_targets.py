"""Kernels of single quantities for every vector width, dtype and processor."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys import KinematicTree, ltdl, synthetic
from dynsys.kernel.build import build_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.llvm.computation import MatrixProgram
from dynsys.kernel.llvm.ltdl import LtdlCode, ltdl_computation
from dynsys.kernel.llvm.target import Target, aarch64, compile_object, host, x86_64
from dynsys.kernel.quantities import (
    Quantity,
    inertia_matrix,
    inverse_inertia_matrix,
    operational_matrix,
)
from dynsys.model.expanded import expanded_parent
from dynsys.program.signature import Signature
from dynsys.recursive.crba import crba
from dynsys.recursive.jacobian import jacobian
from tests.kernel.quantities import close, square, states

BODIES = [5, 9, 16]


def matrix_kernel(
    robot: KinematicTree, quantity: Quantity, dtype: str, target: Target
) -> tuple[Kernel, int]:
    width, n = target.tile_width(dtype), robot.nv
    made = {
        "inertia": lambda: inertia_matrix(robot, dtype, width),
        "inverse_inertia": lambda: inverse_inertia_matrix(robot, dtype, width),
        "operational_space_inverse": lambda: operational_matrix(robot, BODIES, dtype, width),
    }[quantity]()
    assert isinstance(made, MatrixProgram)
    size = n if quantity.startswith("in") else 6 * len(BODIES)
    signature = Signature((("q", robot.nq),), ((quantity, size * size),))
    return build_kernel(made, signature, dtype=dtype, target=target), size


@pytest.mark.slow
@pytest.mark.parametrize(
    "quantity", ["inertia", "inverse_inertia", "operational_space_inverse"]
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "disable", [(), ("avx512f",), ("avx",)], ids=["widest", "avx2", "sse2"]
)
def test_every_width_and_dtype(
    quantity: Quantity, dtype: str, disable: tuple[str, ...]
) -> None:
    robot = synthetic.chain(18, generic=True)  # a last block that overlaps at every width
    kernel, size = matrix_kernel(robot, quantity, dtype, host(disable=disable))
    q = states(robot)
    (rows,), finite = kernel.batch(q, threads=2)
    H = np.array([crba(robot, x) for x in q])
    J = np.array([np.vstack([jacobian(robot, x, body) for body in BODIES]) for x in q])
    expected = {
        "inertia": H,
        "inverse_inertia": np.linalg.inv(H),
        "operational_space_inverse": J @ np.linalg.solve(H, J.transpose(0, 2, 1)),
    }[quantity]
    assert finite
    close(rows.reshape(len(q), size, size), expected, 1e-9 if dtype == "float64" else 2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("target", [x86_64(1), x86_64(3), x86_64(4), aarch64()])
def test_object_code_for_other_processors(target: Target) -> None:
    robot, n, width = synthetic.chain(18, generic=True), 18, target.tile_width("float64")
    q, H = (("q", n),), (("H", n * n),)
    computations = (
        (inertia_matrix(robot, "float64", width), Signature(q, H)),
        (inverse_inertia_matrix(robot, "float64", width), Signature(q, H)),
        (
            ltdl_computation(expanded_parent(robot), width),
            Signature(H, (("L", n * n), ("d", n))),
        ),
    )
    for made, signature in computations:
        assert isinstance(made, (MatrixProgram, LtdlCode))
        assert compile_object(made.module(signature, "float64", target), target)


@pytest.mark.parametrize("n", [8, 9, 10, 11])
@pytest.mark.parametrize("disable", [(), ("avx",)], ids=["widest", "sse2"])
def test_ltdl_of_every_remainder(n: int, disable: tuple[str, ...]) -> None:
    robot, target = synthetic.chain(n), host(disable=disable)
    made = ltdl_computation(expanded_parent(robot), target.tile_width("float64"))
    signature = Signature((("H", n * n),), (("L", n * n), ("diagonal", n)))
    kernel = build_kernel(made, signature, target=target)
    H = crba(robot, states(robot, 1)[0])
    (L, diagonal), finite = kernel.one(np.ravel(H))
    assert finite
    close(square(L), ltdl(H, expanded_parent(robot))[0])
    close(diagonal, ltdl(H, expanded_parent(robot))[1])
