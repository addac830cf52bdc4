"""Times of computations that are to be compared, and the machine they were taken on.

Every contender runs in every pass, one after the other, so that noise hits all alike; what
counts is the median over the passes. Dynamics, operational space and estimation are measured
by :func:`sample` with one :class:`Effort` each, the experiments of the papers by
:func:`seconds`. :func:`machine` says what a result was measured on.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.distribution import required
from dynsys.kernel.llvm.target import host
from dynsys.types import Array
from experiments.peers.build import Compiler
from problems.report.build import installed_versions, processor_name

__all__ = [
    "COLUMNS",
    "ONE_LOOP",
    "ONE_THREAD",
    "TASKS",
    "TWO_LOOPS",
    "TWO_THREADS",
    "Contender",
    "Effort",
    "StateLoop",
    "Timing",
    "command_line",
    "cores",
    "largest_difference",
    "machine",
    "measure",
    "one_core",
    "pinned",
    "python_loop",
    "sample",
    "seconds",
    "summary",
    "symmetric_from_upper",
    "with_one_blas_thread",
    "write_json",
]

TASKS = ("ID", "FD", "CRBA", "Minverse")
ONE_THREAD, TWO_THREADS = "one thread", "two threads"
ONE_LOOP, TWO_LOOPS = "one loop", "two loops"
_OURS = {"ours": "one state", "ours, batch": "batch", "ours, one thread": ONE_THREAD}
_OURS |= {
    "ours, two threads": TWO_THREADS,
    "ours, two loops": TWO_LOOPS,
    "ours, Python": "python",
}
_WHEEL = {"Pinocchio wheel": "one state", "Pinocchio wheel, batch": "batch"}
COLUMNS = {
    **{column: ("ours", mode) for column, mode in _OURS.items()},
    "Pinocchio C++": ("pinocchio c++", "one state"),
    **{column: ("pinocchio wheel", mode) for column, mode in _WHEEL.items()},
    "Pinocchio Python": ("pinocchio python", "python"),
    "CasADi C": ("casadi", "one state"),
}
"""Columns of tables of timings: the contender's name begins with, mode."""
_ON_THE_WALL = (ONE_THREAD, TWO_THREADS, ONE_LOOP, TWO_LOOPS)
_own_time = time.process_time_ns


@final
@dataclass(frozen=True, eq=False)
class Contender:
    """One way to compute ``task`` for all states.

    ``run(r)`` goes r times over the states; ``result()`` gives the answers of all of them in
    dynsys order, (n, nv) or (n, nv, nv). ``mode`` is "one state" (a loop in machine code, one
    state at a time, answers written to one place as in a control loop), "batch", "python" (one
    call from Python per state), or "one thread" and "two threads": the batch once more, both
    against the clock on the wall; likewise "one loop" and "two loops": one state at a time, by
    one thread or by two that share nothing at all, which shows what the machine's second core
    is worth.
    """

    who: str
    task: str
    mode: str
    n_states: int
    run: Callable[[int], None]
    result: Callable[[], Array]


@final
@dataclass(frozen=True)
class Timing:
    """Median and tenth percentile, ns per state, and how good the answers are.

    ``difference`` is the largest relative difference from Pinocchio's wheel, ``error`` that
    from extended precision (None where it is not computed). ``gain``, for two threads: times
    faster than one, the median over passes that ran both one after the other.
    """

    who: str
    task: str
    mode: str
    median_ns: float
    p10_ns: float
    difference: float
    error: float | None
    gain: float | None = None


@final
@dataclass(frozen=True)
class Effort:
    """How long to measure: states one at a time, states (or matrices) at once, passes.

    What is computed one state at a time should fit in the second-level cache.
    """

    states: int
    batch: int
    passes: int = 61
    seconds_per_run: float = 1e-3


# ---- the clock -----------------------------------------------------------------------------


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    """Keep the calling thread on ``cores``; where the system cannot, do nothing."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measure(
    contenders: Sequence[Contender], passes: int, seconds_per_run: float
) -> list[tuple[float, float]]:
    """Median and tenth percentile of each contender, ns per state; see :func:`sample`."""
    return summary(sample(contenders, passes, seconds_per_run))


def summary(samples: Array) -> list[tuple[float, float]]:
    """Median and tenth percentile of each column."""
    low, median = np.quantile(samples, [0.1, 0.5], axis=0)
    return list(zip(median.tolist(), low.tolist(), strict=True))


def sample(contenders: Sequence[Contender], passes: int, seconds_per_run: float) -> Array:
    """Times (passes, contenders), ns per state; each pass runs all of them in turn.

    On one core the clock is the processor time of the whole process, whatever else the machine
    does meanwhile; for threads it is the clock on the wall, after a first run that wakes them.
    """
    repeats = [_repeats(contender, seconds_per_run) for contender in contenders]
    samples = np.empty((passes, len(contenders)))
    for row in samples:
        for k, contender in enumerate(contenders):
            clock = _own_time
            if contender.mode in _ON_THE_WALL:
                clock = time.perf_counter_ns
                contender.run(1)
            start = clock()
            contender.run(repeats[k])
            row[k] = (clock() - start) / (repeats[k] * contender.n_states)
    return samples


def _repeats(contender: Contender, seconds: float) -> int:
    contender.run(1)
    start = time.perf_counter()
    contender.run(1)
    once = max(time.perf_counter() - start, 1e-7)
    return max(1, round(seconds / once))


def python_loop(
    call: Callable[..., Any], rows: Sequence[Sequence[Any]]
) -> Callable[[int], None]:
    """Loop in Python: ``call(*row)`` for every row."""

    def run(repeats: int) -> None:
        for _ in range(repeats):
            for row in rows:
                call(*row)

    return run


# ---- answers -------------------------------------------------------------------------------


def largest_difference(result: Array, reference: Array) -> float:
    """Largest over all states of max |result - reference| / max |reference|."""
    n = len(reference)
    error = np.abs(result - reference).reshape(n, -1).max(axis=1)
    scale = np.abs(reference).reshape(n, -1).max(axis=1)
    return float((error / np.maximum(scale, np.finfo(float).tiny)).max())


def symmetric_from_upper(triangles: Array, nv: int) -> Array:
    """Symmetric matrices (n, nv, nv) of upper triangles by rows (n, nv (nv + 1) / 2)."""
    rows, columns = np.triu_indices(nv)
    out = np.zeros((len(triangles), nv, nv))
    out[:, rows, columns] = triangles
    out[:, columns, rows] = triangles
    return out


# ---- a few functions in turn, on one core, with one BLAS thread ----------------------------

SECONDS_PER_RUN = 2e-3


def seconds(
    runs: Mapping[str, Callable[[], Any]], passes: int = 9, *, wall: bool = False
) -> dict[str, float]:
    """Median seconds of one call of each; every pass calls all of them in turn.

    What counts is processor time on one core, whatever else the machine does meanwhile; for
    threads ``wall=True`` takes the clock on the wall, on any core.
    """
    mode = ONE_THREAD if wall else "one state"
    contenders = [
        Contender(name, "", mode, 1, python_loop(run, [()]), _no_result)
        for name, run in runs.items()
    ]
    with nullcontext() if wall else one_core():
        times = measure(contenders, passes, SECONDS_PER_RUN)
    return {name: 1e-9 * median for name, (median, _) in zip(runs, times, strict=True)}


def _no_result() -> Any:
    raise NotImplementedError("only the time of this contender is of interest")


def one_core() -> AbstractContextManager[None]:
    """Context in which the calling thread stays on one core, the last that it may use."""
    return pinned([max(cores())])


def with_one_blas_thread(module: str, main: Callable[[], int]) -> int:
    """Run ``main`` with one BLAS thread, if need be by starting ``module`` anew.

    BLAS reads its number of threads when it is loaded.
    """
    if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
        return main()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])


# ---- a loop in machine code over the states of a one-state kernel: no Python in between ----


@final
class StateLoop:
    """Calls ``void kernel(row of array 0, row of array 1, ...)`` for every state.

    Parameters
    ----------
    kernel : address of the function.
    arrays : inputs and outputs (n, size) in the order of its arguments, C-contiguous float64.
        Outputs of a single row are written again by every state, as in a control loop.
    """

    def __init__(self, kernel: int, arrays: Sequence[Array]) -> None:
        self._keep = tuple(arrays)
        self._kernel, self._n = kernel, len(arrays[0])
        strides = [array.shape[1] if len(array) == self._n else 0 for array in arrays]
        llvm = required("llvmlite.binding", "a loop of machine code")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_ir(_loop_text(strides))
        self._code = (builder.export_symbol("state_loop").link(jit, "state_loop"), jit)
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, *[ctypes.c_int64] * 2, *[ctypes.c_void_p] * len(arrays)
        )
        self._function = kind(self._code[0]["state_loop"])
        self._arguments = [array.ctypes.data for array in arrays]

    def __call__(self, repeats: int) -> None:
        """Go ``repeats`` times over all states."""
        self._function(self._kernel, self._n, repeats, *self._arguments)


def _loop_text(strides: Sequence[int]) -> str:
    """LLVM text: ``repeats`` times, for every state k, the kernel on row k of each array."""
    names = range(len(strides))
    parameters = ", ".join(f"ptr %p{i}" for i in names)
    rows = "\n".join(
        f"  %o{i} = mul i64 %k, {stride}\n  %a{i} = getelementptr double, ptr %p{i}, i64 %o{i}"
        for i, stride in enumerate(strides)
    )
    arguments = ", ".join(f"ptr %a{i}" for i in names)
    return f"""
define void @state_loop(ptr %kernel, i64 %n, i64 %repeats, {parameters}) {{
entry:
  br label %pass
pass:
  %r = phi i64 [ 0, %entry ], [ %r.next, %pass.end ]
  br label %state
state:
  %k = phi i64 [ 0, %pass ], [ %k.next, %state ]
{rows}
  call void %kernel({arguments})
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %n
  br i1 %k.more, label %state, label %pass.end
pass.end:
  %r.next = add i64 %r, 1
  %r.more = icmp ult i64 %r.next, %repeats
  br i1 %r.more, label %pass, label %done
done:
  ret void
}}
"""


# ---- what a comparison is asked for, was measured on, and gave -----------------------------


def command_line(
    name: str, robots: Sequence[str], description: str | None = None
) -> argparse.ArgumentParser:
    """Options that comparisons share."""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{name}", description=description
    )
    parser.add_argument("--robots", nargs="+", choices=robots, default=list(robots))
    parser.add_argument("--quick", action="store_true", help="fewer states and passes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a figure (PNG)")
    parser.add_argument("--core", type=int, default=max(cores()), help="core to run on")
    return parser


def write_json(path: Path, content: Any, indent: int = 1) -> None:
    """Write what was measured."""
    path.write_text(json.dumps(content, indent=indent) + "\n")


def cores() -> set[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def machine(compilers: Sequence[Compiler], core: int) -> dict[str, Any]:
    """Processor (its name, what LLVM takes it for), core, versions of what was used."""
    target = host()
    seen = f"{target.cpu}, vectors of {target.vector_bits} bits"
    return {
        "processor": f"{processor_name()} ({seen})",
        "core": core,
        "python": platform.python_version(),
        "packages": installed_versions(("pin", "casadi", "numpy", "llvmlite")),
        "compilers": [compiler.version for compiler in compilers],
    }
