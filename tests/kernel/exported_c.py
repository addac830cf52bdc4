"""Exported C: robots to export, and what the compiled function answers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dynsys import KinematicTree
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from tests.processes import LIMIT

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror -Wconversion -Wshadow".split()
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="no C compiler")


def compile_and_check(
    folder: Path, name: str, compiler: str = "", flags: Sequence[str] = ("-O1",)
) -> str:
    """Compile strictly, run the self-test, return what it prints."""
    command = [compiler or COMPILERS[0], *STRICT, *flags, f"{name}.c", f"{name}_selftest.c"]
    subprocess.run([*command, "-lm", "-o", "selftest"], cwd=folder, check=True, timeout=LIMIT)
    done = subprocess.run([folder / "selftest"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def call(
    folder: Path, name: str, signature: Signature, inputs: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """Outputs of the compiled function at each state, through ctypes."""
    library = folder / f"{name}.so"
    command = [COMPILERS[0], *STRICT, "-O1", "-shared", "-fPIC", f"{name}.c", "-lm"]
    subprocess.run([*command, "-o", str(library)], cwd=folder, check=True, timeout=LIMIT)
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
