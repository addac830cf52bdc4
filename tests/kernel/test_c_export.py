"""Exported C in use: builds, headers, what is refused; no other file is harmed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynsys import KernelBuildError, StateError, synthetic
from dynsys.kernel.c.source import c_source, export_c
from dynsys.kernel.c.text import Code
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.rnea import rnea_scalars
from tests.kernel.exported_c import COMPILERS, compile_and_check, dynamics, needs_compiler
from tests.processes import LIMIT

needs_cmake = pytest.mark.skipif(
    not (COMPILERS and shutil.which("cmake") and shutil.which("make")),
    reason="no CMake or make",
)
needs_cpp = pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")


# ---- building ----------------------------------------------------------------------------


@pytest.mark.slow
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["ctest"], cwd=build, capture_output=True, text=True, timeout=LIMIT)
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
        subprocess.run(command, cwd=tmp_path, check=True, timeout=LIMIT)


USE_ARRAYS = """
#include "chain_id.hpp"
#include "chain_id.hpp"
#include <cstdio>
#include <cstdlib>
#include <new>

void *operator new(std::size_t) { std::abort(); }

int main()
{
    namespace kernel = dynsys_kernels::chain_id;
    kernel::Inputs in;
    in.q = {{0.1, -0.7, 2.0}};
    in.qdd[1] = 3.0;
    const kernel::Outputs out = kernel::evaluate(in);
    for (double x : out.torque) std::printf("%.17g\\n", x);
#if __cplusplus >= 202002L
    double torque[3];
    kernel::evaluate(in.q, in.qd, in.qdd, torque);
    for (int k = 0; k < 3; ++k) if (torque[k] != out.torque[std::size_t(k)]) return 1;
#endif
    std::printf("%s\\n", kernel::names::torque[2]);
}
"""


@needs_cpp
@needs_compiler
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_arrays_and_spans_of_cpp(tmp_path: Path, standard: str) -> None:
    program, signature, states = dynamics(synthetic.chain(3), rnea_scalars, "qdd", "torque")
    labels = {"torque": ["a", "??/", 'é "*/\\\n']}
    export_c(tmp_path, "chain_id", program, signature, states, labels=labels)
    (tmp_path / "use.cpp").write_text(USE_ARRAYS)
    strict = "-Wall -Wextra -Werror -pedantic -Wconversion -Wshadow".split()
    for command in (
        [COMPILERS[0], "-std=c99", "-O1", "-c", "chain_id.c"],
        ["g++", f"-std={standard}", *strict, "use.cpp", "chain_id.o", "-o", "use"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, timeout=LIMIT)
    done = subprocess.run(
        ["./use"], cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT
    )
    *numbers, label, rest = done.stdout.decode().split("\n", 4)
    want = program.evaluate(np.array([0.1, -0.7, 2.0, 0, 0, 0, 0, 3.0, 0]))
    assert np.allclose([float(x) for x in numbers], want, rtol=1e-13)
    assert f"{label}\n{rest}" == labels["torque"][2] + "\n"


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
    text = c_source(Code(graph.program(list(graph.inputs(1))), Pair(), "f"))
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
        Code(program, Signature(((name, 1),), (("y", 1),)), "f")


def test_bad_arguments(tmp_path: Path) -> None:
    program, signature = tiny()
    with pytest.raises(KernelBuildError, match="1 outputs, the program"):
        Code(program, Signature((("x", 2),), (("y", 1),)), "f")
    with pytest.raises(KernelBuildError, match="labels"):
        Code(program, signature, "f", labels={"x": ["a", "b"]})
    with pytest.raises(KernelBuildError, match="unknown"):
        Code(program, signature, "f", labels={"z": ["a"]})
    with pytest.raises(KernelBuildError, match="float16"):
        Code(program, signature, "f", dtype="float16")  # type: ignore[arg-type]
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
    Code(program, signature, "f")
    with pytest.raises(KernelBuildError, match="1e\\+60"):
        Code(program, signature, "f", dtype="float32")


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
