"""Other processors: SSE2 runs here, NEON and AVX-512 give valid object code."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from dynsys import KernelBuildError, synthetic
from dynsys.kernel.build import build_kernel
from dynsys.kernel.llvm.computation import program_text
from dynsys.kernel.llvm.target import Target, aarch64, compile_object, host, x86_64
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.recursive.rnea import rnea_scalars
from tests.program.recording import admissible_inputs, recorded

ROBOT = synthetic.random_tree(4, 2)
SIGNATURE = Signature(
    (("q", ROBOT.nq), ("qd", ROBOT.nv), ("qdd", ROBOT.nv)), (("torque", ROBOT.nv),)
)
MACHINE_X86, MACHINE_ARM = 62, 183  # e_machine of ELF files


@pytest.fixture(scope="module")
def program() -> Program:
    return recorded(ROBOT, lambda q, qd, qdd: rnea_scalars(ROBOT, q, qd, qdd))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86-64 only")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("disable", [("avx512f",), ("avx512f", "avx2", "fma")])
def test_fewer_features_give_the_same_numbers(
    program: Program, dtype: str, disable: tuple[str, ...]
) -> None:
    target = host(disable=disable)
    assert target.vector_bits <= (256 if disable == ("avx512f",) else 128)
    assert "+avx512" not in target.features  # LLVM: any of them brings avx512f back
    kernel = build_kernel(program, SIGNATURE, dtype=dtype, target=target)
    x = admissible_inputs(ROBOT, 11, 3)
    q, qd, qdd = np.split(x.astype(dtype), [ROBOT.nq, ROBOT.nq + ROBOT.nv], axis=1)
    (torque,), finite = kernel.batch(q, qd, qdd)
    expected = program.evaluate(x)
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    assert finite
    assert np.abs(torque - expected).max() < tolerance * np.abs(expected).max()
    (single,), _ = kernel.one(q[4], qd[4], qdd[4])
    assert np.abs(single - expected[4]).max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("target", "width", "machine"),
    [
        (x86_64(1), 2, MACHINE_X86),
        (x86_64(3), 4, MACHINE_X86),
        (x86_64(4), 8, MACHINE_X86),
        (aarch64(), 2, MACHINE_ARM),
    ],
)
def test_object_code_for_other_processors(
    program: Program, dtype: str, target: Target, width: int, machine: int
) -> None:
    assert target.width(dtype) == (width if dtype == "float64" else 2 * width)
    text = program_text(program, SIGNATURE, dtype, target)
    code = compile_object(text, target)
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == machine


def test_unknown_processors_are_refused(program: Program) -> None:
    with pytest.raises(KernelBuildError, match="reference"):
        build_kernel(program, SIGNATURE, target=Target("pdp11-dec", "", "", 128, False))


def test_keys_differ_where_code_may_differ() -> None:
    targets = [host(), host(disable=("avx2",)), x86_64(1), x86_64(3), aarch64()]
    assert len({t.key for t in targets}) == len(targets) - (targets[0] == targets[1])
