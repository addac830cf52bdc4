"""Exported C: compiles without a warning, agrees with the program, harms no other file."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dynsys.codegen.c_code import Code
from dynsys.codegen.c_names import arguments
from dynsys.codegen.c_source import c_header, c_source, export_c
from dynsys.codegen.graph import Graph, Scalar
from dynsys.codegen.program import Op, Program
from dynsys.codegen.signature import Signature
from dynsys.errors import KernelBuildError, StateError
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.rnea import rnea_scalars

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror -Wconversion -Wshadow".split()
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no C compiler")
needs_cmake = pytest.mark.skipif(
    not (COMPILERS and shutil.which("cmake") and shutil.which("make")),
    reason="no CMake or make",
)
needs_cpp = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")


def compile_and_check(
    folder: Path, name: str, compiler: str = "", flags: Sequence[str] = ("-O1",)
) -> str:
    """Compile strictly, run the self-test, return what it prints."""
    command = [compiler or COMPILERS[0], *STRICT, *flags, f"{name}.c", f"{name}_selftest.c"]
    subprocess.run([*command, "-lm", "-o", "selftest"], cwd=folder, check=True)
    done = subprocess.run([folder / "selftest"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def call(
    folder: Path, name: str, signature: Signature, inputs: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """Outputs of the compiled function at each state, through ctypes."""
    library = folder / f"{name}.so"
    command = [COMPILERS[0], *STRICT, "-O1", "-shared", "-fPIC", f"{name}.c", "-lm"]
    subprocess.run([*command, "-o", str(library)], cwd=folder, check=True)
    function = getattr(ctypes.CDLL(str(library)), name)
    function.restype = None
    cuts = np.cumsum([size for _, size in signature.inputs])[:-1]
    rows = []
    for state in inputs:
        arrays = [np.ascontiguousarray(x) for x in np.split(state, cuts)]
        results = [np.full(size, np.nan, dtype=inputs.dtype) for _, size in signature.outputs]
        function(*(ctypes.c_void_p(x.ctypes.data) for x in (*arrays, *results)))
        rows.append(np.concatenate(results))
    return np.array(rows)


def dynamics(
    robot: KinematicTree, algorithm: Callable[..., Any], given: str, wanted: str
) -> tuple[Program, Signature, NDArray[np.float64]]:
    graph = Graph()
    x = graph.inputs(robot.nq + 2 * robot.nv)
    q, qd, last = np.split(x, [robot.nq, robot.nq + robot.nv])
    signature = Signature(
        (("q", robot.nq), ("qd", robot.nv), (given, robot.nv)), ((wanted, robot.nv),)
    )
    rng = np.random.default_rng(0)
    states = [
        np.concatenate([robot.random_configuration(k), rng.normal(size=2 * robot.nv)])
        for k in range(6)
    ]
    return graph.program(algorithm(robot, q, qd, last)), signature, np.array(states)


def relative_error(got: NDArray[Any], want: NDArray[Any]) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


CASES: dict[str, tuple[Callable[[], KinematicTree], Any, str, str]] = {
    "chain_id": (lambda: synthetic.chain(6), rnea_scalars, "qdd", "torque"),
    "chain_fd": (lambda: synthetic.chain(6), aba_scalars, "torque", "qdd"),
    "humanoid_id": (synthetic.humanoid30, rnea_scalars, "qdd", "torque"),
    "humanoid_fd": (synthetic.humanoid30, aba_scalars, "torque", "qdd"),
}


# ---- robots ------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_robot_dynamics(tmp_path: Path, name: str) -> None:
    make, algorithm, given, wanted = CASES[name]
    program, signature, states = dynamics(make(), algorithm, given, wanted)
    paths = export_c(tmp_path / "c", name, program, signature, states[:3])
    assert [path.name for path in paths] == [
        f"{name}.h",
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
    subprocess.run(command, cwd=tmp_path, check=True)
    symbols = subprocess.run(
        ["nm", "robot_id.o"], cwd=tmp_path, capture_output=True, text=True, check=True
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


@needs_compiler
@pytest.mark.parametrize("length", [1, 2, 7])
def test_any_segment_length(
    tmp_path: Path, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Code.__init__, "__defaults__", (length,))
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
    code = Code(program, arguments(signature, "f"), "float64", 100)
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
        c_source(graph.program([]), Signature((), ()), "nothing")


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
    found = re.findall(r"0x[0-9a-f.]+p[+-]\d+", c_source(program, signature, "f"))
    assert {float.fromhex(text) for text in found} == {float(v) for v in values}
    found = re.findall(
        r"(0x[0-9a-f.]+p[+-]\d+)f", c_source(program, signature, "f", dtype="float32")
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
        subprocess.run(command, cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "st"], capture_output=True, text=True)
        assert done.returncode == 1 and done.stdout.startswith("FAILED torque")


# ---- building ----------------------------------------------------------------------------


@needs_cmake
def test_cmake_builds_all_kernels_of_a_folder(tmp_path: Path) -> None:
    for name, algorithm, given, wanted in (
        ("chain_id", rnea_scalars, "qdd", "torque"),
        ("chain_fd", aba_scalars, "torque", "qdd"),
    ):
        program, signature, states = dynamics(synthetic.chain(3), algorithm, given, wanted)
        export_c(tmp_path / "c", name, program, signature, states)
    readme = (tmp_path / "c" / "README.md").read_text()
    assert "chain_id.h" in readme and "chain_fd.h" in readme
    build = tmp_path / "build"
    for command in (
        ["cmake", "-S", str(tmp_path / "c"), "-B", str(build)],
        ["cmake", "--build", str(build)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["ctest"], cwd=build, capture_output=True, text=True)
    assert done.returncode == 0 and "out of 2" in done.stdout, done.stdout


@needs_cpp
@needs_compiler
def test_header_from_cpp(tmp_path: Path) -> None:
    program, signature, states = dynamics(synthetic.chain(3), rnea_scalars, "qdd", "torque")
    export_c(tmp_path, "chain_id", program, signature, states)
    (tmp_path / "use.cpp").write_text(
        '#include "chain_id.h"\n#include "chain_id.h"\n'
        "int main() { double q[CHAIN_ID_Q_SIZE] = {}, qd[3] = {}, qdd[3] = {}, torque[3];\n"
        "  chain_id(q, qd, qdd, torque); return torque[0] != torque[0]; }\n"
    )
    for command in (
        [COMPILERS[0], "-std=c99", "-c", "chain_id.c"],
        [
            "g++",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "use.cpp",
            "chain_id.o",
            "-o",
            "use",
        ],
        ["./use"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)


# ---- header ------------------------------------------------------------------------------


@needs_compiler
def test_header_lists_sizes_and_labels_that_cannot_break_it(tmp_path: Path) -> None:
    program, signature, states = dynamics(synthetic.chain(3), rnea_scalars, "qdd", "torque")
    labels = {"q": ["*/ int x; /*", "??/", "ellbow\\\n"], "torque": ["a", "é", "*/*/"]}
    description = "Inverse dynamics */ of \\ ??/ a chain"
    export_c(tmp_path, "f", program, signature, states, labels=labels, description=description)
    header = (tmp_path / "f.h").read_text()
    for text in (
        "in  q       3 x double",
        "out torque  3 x double",
        '[0] "a"',
        "TORQUE_SIZE 3",
    ):
        assert text in header
    compile_and_check(tmp_path, "f")


def test_output_called_like_an_input() -> None:
    class Pair:
        inputs = (("torque", 1),)
        outputs = (("torque", 1),)

    graph = Graph()
    text = c_source(graph.program(list(graph.inputs(1))), Pair(), "f")
    assert "torque_out[0] = torque[0];" in text


# ---- refusals ----------------------------------------------------------------------------


def tiny() -> tuple[Program, Signature]:
    graph = Graph()
    x: Any = graph.inputs(1)
    return graph.program([x[0] * 2.5]), Signature((("x", 1),), (("y", 1),))


@pytest.mark.parametrize(
    "name",
    [
        *"|2d|a-b|a b|é|_x|__x|for|class|main|math|sin|sinf|ceilf|test|a.b|../up|x\n".split(
            "|"
        ),
        "x" * 300,
    ],
)
def test_bad_function_names(tmp_path: Path, name: str) -> None:
    program, signature = tiny()
    with pytest.raises(KernelBuildError):
        export_c(tmp_path / "c", name, program, signature, np.ones(1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "q d", "double", "cos", "f", "x[0]"])
def test_bad_array_names(name: str) -> None:
    program, _ = tiny()
    with pytest.raises(KernelBuildError):
        c_source(program, Signature(((name, 1),), (("y", 1),)), "f")


def test_bad_arguments(tmp_path: Path) -> None:
    program, signature = tiny()
    with pytest.raises(KernelBuildError, match="1 outputs, the program"):
        c_source(program, Signature((("x", 2),), (("y", 1),)), "f")
    with pytest.raises(KernelBuildError, match="labels"):
        c_header(program, signature, "f", labels={"x": ["a", "b"]})
    with pytest.raises(KernelBuildError, match="unknown"):
        c_header(program, signature, "f", labels={"z": ["a"]})
    with pytest.raises(KernelBuildError, match="float16"):
        c_source(program, signature, "f", dtype="float16")  # type: ignore[arg-type]
    for inputs in (np.ones(2), np.ones((0, 1)), np.ones((1, 1, 1)), [np.nan]):
        with pytest.raises(StateError):
            export_c(tmp_path, "f", program, signature, inputs)
    with pytest.raises(KernelBuildError, match="not finite"):
        export_c(tmp_path, "f", program, signature, [1.7e308])
    assert list(tmp_path.iterdir()) == []


def test_constant_beyond_float32() -> None:
    graph = Graph()
    x: Any = graph.inputs(1)
    program, signature = graph.program([x[0] * 1e60]), tiny()[1]
    c_source(program, signature, "f")
    with pytest.raises(KernelBuildError, match="1e\\+60"):
        c_source(program, signature, "f", dtype="float32")


# ---- files -------------------------------------------------------------------------------


def test_foreign_files_are_neither_lost_nor_overwritten(tmp_path: Path) -> None:
    program, signature = tiny()
    (tmp_path / "notes.txt").write_text("mine")
    export_c(tmp_path, "f", program, signature, [1.0])
    export_c(tmp_path, "f", program, signature, [2.0])  # our own files: replaced
    (tmp_path / "g.c").write_text("int mine;")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    with pytest.raises(KernelBuildError, match="not written by dynsys"):
        export_c(tmp_path, "g", program, signature, [1.0])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    export_c(tmp_path, "g", program, signature, [1.0], overwrite=True)
    assert "Generated by dynsys" in (tmp_path / "g.c").read_text()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_folder_or_file_in_the_way(tmp_path: Path) -> None:
    program, signature = tiny()
    (tmp_path / "file").write_text("")
    with pytest.raises(KernelBuildError, match="not a folder"):
        export_c(tmp_path / "file", "f", program, signature, [1.0])
    with pytest.raises(KernelBuildError, match="cannot write"):
        export_c(tmp_path / "file" / "below", "f", program, signature, [1.0])
    (tmp_path / "c" / "f.h").mkdir(parents=True)
    with pytest.raises(KernelBuildError, match="is a folder"):
        export_c(tmp_path / "c", "f", program, signature, [1.0], overwrite=True)


@pytest.mark.parametrize("exists", [False, True])
def test_all_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    program, signature = tiny()
    folder = tmp_path / "new" / "c"
    if exists:
        export_c(folder, "f", program, signature, [1.0])
    before = {path.name: path.read_text() for path in folder.glob("*")}
    real_rename = os.rename

    def rename(source: Any, target: Any) -> None:
        placing = Path(target).parent == folder and Path(source).parent.name != "old"
        if not exists or (placing and Path(target).name == "CMakeLists.txt"):
            raise OSError(28, "No space left on device")
        real_rename(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(KernelBuildError, match="No space"):
        export_c(folder, "f", program, signature, [2.0])
    assert {path.name: path.read_text() for path in folder.glob("*")} == before
    assert not list((tmp_path / "new").rglob(".dynsys*"))


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    program, signature = tiny()
    before = os.umask(0o022)
    try:
        paths = export_c(tmp_path / "c", "f", program, signature, [1.0])
    finally:
        os.umask(before)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o644}
