"""Exported C: compiles without a warning and agrees with the program, also an odd one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynsys import KernelBuildError, KinematicTree, synthetic
from dynsys.kernel.c.source import c_source, export_c
from dynsys.kernel.c.text import Code
from dynsys.program.graph import Graph, Scalar
from dynsys.program.program import Op, Program
from dynsys.program.signature import Signature
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.rnea import rnea_scalars
from tests.kernel.exported_c import (
    COMPILERS,
    call,
    compile_and_check,
    dynamics,
    needs_compiler,
    relative_error,
)
from tests.processes import LIMIT

CASES: dict[str, tuple[Callable[[], KinematicTree], Any, str, str]] = {
    "chain_id": (lambda: synthetic.chain(6), rnea_scalars, "qdd", "torque"),
    "chain_fd": (lambda: synthetic.chain(6), aba_scalars, "torque", "qdd"),
    "humanoid_id": (synthetic.humanoid30, rnea_scalars, "qdd", "torque"),
    "humanoid_fd": (synthetic.humanoid30, aba_scalars, "torque", "qdd"),
}


# ---- robots ------------------------------------------------------------------------------


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_robot_dynamics(tmp_path: Path, name: str) -> None:
    make, algorithm, given, wanted = CASES[name]
    program, signature, states = dynamics(make(), algorithm, given, wanted)
    paths = export_c(tmp_path / "c", name, program, signature, states[:3])
    assert [path.name for path in paths] == [
        f"{name}.h",
        f"{name}.hpp",
        f"{name}.c",
        f"{name}_selftest.c",
        "CMakeLists.txt",
        "README.md",
    ]
    printed = compile_and_check(tmp_path / "c", name)
    assert re.fullmatch(rf"ok {wanted}: largest relative error \S+, tolerance 1e-12\n", printed)
    want = program.evaluate(states.astype(np.longdouble))
    assert relative_error(call(tmp_path / "c", name, signature, states), want) < 1e-12


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [["-O0"], ["-O3", "-ffp-contract=fast"]], ids=["O0", "O3"])
def test_compilers_and_flags(tmp_path: Path, compiler: str, flags: list[str]) -> None:
    program, signature, states = dynamics(synthetic.chain(6), aba_scalars, "torque", "qdd")
    export_c(tmp_path, "chain_fd", program, signature, states)
    compile_and_check(tmp_path, "chain_fd", compiler, flags)


@needs_compiler
def test_float32(tmp_path: Path) -> None:
    program, signature, states = dynamics(synthetic.chain(6), aba_scalars, "torque", "qdd")
    export_c(tmp_path, "chain_fd", program, signature, states, dtype="float32")
    compile_and_check(tmp_path, "chain_fd")
    text = (tmp_path / "chain_fd.c").read_text()
    assert "double" not in text and "sinf(" in text and not re.search(r"\bsin\(", text)
    single = states.astype(np.float32)
    want = program.evaluate(single.astype(np.float64))
    assert relative_error(call(tmp_path, "chain_fd", signature, single), want) < 1e-4


@needs_compiler
def test_only_sine_and_cosine_are_called(tmp_path: Path) -> None:
    if not shutil.which("nm"):
        pytest.skip("no nm")
    program, signature, states = dynamics(synthetic.humanoid30(), rnea_scalars, "qdd", "torque")
    export_c(tmp_path, "robot_id", program, signature, states[:1])
    command = [COMPILERS[0], "-std=c99", "-O1", "-fno-stack-protector", "-c", "robot_id.c"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=LIMIT)
    symbols = subprocess.run(
        ["nm", "robot_id.o"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT,
    ).stdout.split("\n")
    undefined = {line.split()[-1] for line in symbols if " U " in line}
    assert undefined - {"_GLOBAL_OFFSET_TABLE_"} <= {"sin", "cos", "sincos"}
    assert not [line for line in symbols if re.search(r" [bBdDC] ", line)], "no static data"


# ---- odd programs ------------------------------------------------------------------------


def odd_program() -> tuple[Program, Signature]:
    graph = Graph()
    x: Any = graph.inputs(5)
    one = Scalar(graph, graph.one)
    product = x[0] * x[1]
    difference = x[2] - product
    first = [x[0], -x[1], one, -one * 2.5, 0.0, product, product, -product, x[0], x[4]]
    second = [
        np.sin(x[0]) / np.cos(x[1]),
        np.sin(-x[0]),
        difference,
        -difference,
        -x[0] - x[1],
        abs(x[2]),
        Scalar(graph, graph.extremum(Op.MIN, x[2].ref, -x[0].ref)),
        Scalar(graph, graph.extremum(Op.MAX, x[2].ref, 0)),
        np.sqrt(abs(x[0]) + 2.0),
        x[1] * (np.longdouble(1) / 3),
        1e-320 + 0 * x[0],
    ]
    signature = Signature(
        (("t1", 2), ("w", 1), ("empty", 0), ("unused", 1), ("s", 1)),
        (("k", len(first)), ("failed", 0), ("check_", len(second))),
    )
    return graph.program(first + second), signature


@needs_compiler
def test_odd_outputs_and_awkward_names(tmp_path: Path) -> None:
    program, signature = odd_program()
    states = np.random.default_rng(0).normal(size=(20, 5))
    export_c(tmp_path, "odd", program, signature, states)
    for compiler in COMPILERS:
        compile_and_check(tmp_path, "odd", compiler)
    got = call(tmp_path, "odd", signature, states)
    np.testing.assert_allclose(got, program.evaluate(states), rtol=1e-14, atol=0)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("length", [1, 2, 7])
def test_any_segment_length(
    tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Code.__init__, "__defaults__", ("float64", None, length))
    for name, made in {
        "odd": odd_program(),
        "chain_id": dynamics(synthetic.chain(3), rnea_scalars, "qdd", "torque")[:2],
    }.items():
        program, signature = made
        states = np.random.default_rng(0).normal(size=(4, program.n_inputs))
        export_c(tmp_path, name, program, signature, states)
        assert f"{name}_part1(" in (tmp_path / f"{name}.c").read_text()
        compile_and_check(tmp_path, name)
        got = call(tmp_path, name, signature, states)
        np.testing.assert_allclose(got, program.evaluate(states), rtol=1e-12, atol=1e-14)


def test_scratch_slots_are_reused() -> None:
    program, signature, _ = dynamics(synthetic.chain(6), aba_scalars, "torque", "qdd")
    code = Code(program, signature, "f", segment_length=100)
    crossing = sum(line.startswith("    w[") for part in code.parts() for line in part.lines)
    assert code.n_segments > 5
    assert 0 < code.n_slots < crossing / 2


@needs_compiler
def test_every_combination_of_signs(tmp_path: Path) -> None:
    """Other passes may put any sign on any operand, which Graph itself does not."""
    ops, left, right = [Op.INPUT, Op.INPUT], [0, 1], [0, 0]
    for op in (Op.ADD, Op.MUL, Op.DIV, Op.MIN, Op.MAX):
        for a, b in ((1, 2), (1, -2), (-1, 2), (-1, -2)):
            ops, left, right = [*ops, op], [*left, a], [*right, b]
    for op in (Op.SIN, Op.COS, Op.ABS):
        for a in (1, -1):
            ops, left, right = [*ops, op], [*left, a], [*right, 0]
    program = Program(
        np.array(ops, dtype=np.int8),
        np.array(left, dtype=np.int32),
        np.array(right, dtype=np.int32),
        np.zeros(0, dtype=np.longdouble),
        np.array([s * k for k in range(1, len(ops) + 1) for s in (1, -1)], dtype=np.int32),
        2,
    )
    signature = Signature((("x", 2),), (("y", 2 * len(ops)),))
    states = np.array([[0.5, 2.0], [-0.5, 2.0], [0.5, -2.0], [-3.0, -2.0]])
    export_c(tmp_path, "signs", program, signature, states)
    compile_and_check(tmp_path, "signs")
    np.testing.assert_allclose(
        call(tmp_path, "signs", signature, states), program.evaluate(states), rtol=1e-15
    )
    special = np.array([[np.nan, 1.0], [1.0, np.nan], [-0.0, 1.0], [np.inf, 1.0]])
    with np.errstate(invalid="ignore"):
        want = program.evaluate(special)
    np.testing.assert_allclose(call(tmp_path, "signs", signature, special), want, rtol=1e-15)


@needs_compiler
def test_constants_from_nothing(tmp_path: Path) -> None:
    graph = Graph()
    program, signature = graph.program([0.0, 2.5]), Signature((), (("y", 2),))
    export_c(tmp_path, "nothing", program, signature, np.zeros((1, 0)))
    compile_and_check(tmp_path, "nothing")
    with pytest.raises(KernelBuildError, match="without outputs"):
        Code(graph.program([]), Signature((), ()), "nothing")


def test_constants_are_rounded_once_and_written_exactly() -> None:
    graph = Graph()
    x: Any = graph.inputs(1)
    values: list[Any] = [
        np.longdouble(1) / 3,
        0.1,
        1e-310,
        123456789.123456789,
        np.longdouble(np.pi) / 7,
    ]
    program = graph.program([x[0] * v for v in values])
    signature = Signature((("x", 1),), (("y", len(values)),))
    found = re.findall(r"0x[0-9a-f.]+p[+-]\d+", c_source(Code(program, signature, "f")))
    assert {float.fromhex(text) for text in found} == {float(v) for v in values}
    found = re.findall(
        r"(0x[0-9a-f.]+p[+-]\d+)f", c_source(Code(program, signature, "f", dtype="float32"))
    )
    assert {float.fromhex(text) for text in found} == {float(np.float32(v)) for v in values}


@needs_compiler
def test_self_test_fails_when_the_kernel_is_wrong(tmp_path: Path) -> None:
    program, signature, states = dynamics(synthetic.chain(3), rnea_scalars, "qdd", "torque")
    export_c(tmp_path, "chain_id", program, signature, states)
    source = tmp_path / "chain_id.c"
    correct = source.read_text()
    output = "    torque[0] = "
    for wrong in ("torque[0] = 1e-11 + ", "torque[0] = 0.0 / 0.0 * ", "torque[0] = 0 * "):
        source.write_text(correct.replace(output, "    " + wrong))
        command = [COMPILERS[0], "-O1", "chain_id.c", "chain_id_selftest.c", "-lm", "-o", "st"]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=LIMIT)
        done = subprocess.run([tmp_path / "st"], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 1 and done.stdout.startswith("FAILED torque")
