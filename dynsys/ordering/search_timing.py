"""Measured time of a solve under a pivot order: its program as machine code, many states."""

from __future__ import annotations

import time

import numpy as np

from dynsys.codegen.kernel import build_kernel
from dynsys.ordering.orders import PivotOrder
from dynsys.ordering.search_problem import SearchProblem
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.types import Array

__all__ = ["program_nanoseconds", "solve_nanoseconds"]

ROUNDS, SECONDS = 5, 0.01


def solve_nanoseconds(problem: SearchProblem, order: PivotOrder) -> float:
    """Nanoseconds per state of the compiled program, best of a few rounds."""
    return program_nanoseconds(problem.program(order), problem.samples.astype(np.float64))


def program_nanoseconds(program: Program, states: Array) -> float:
    """Nanoseconds per state of any program, at admissible inputs (n, n_inputs), in a batch."""
    signature = Signature((("x", program.n_inputs),), (("out", len(program.outputs)),))
    kernel = build_kernel(program, signature)
    inputs = np.ascontiguousarray(np.tile(states, (22, 1))[:256])
    best = np.inf
    for _ in range(ROUNDS):
        calls, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < SECONDS:
            kernel.batch(inputs)
            calls += 1
        best = min(best, spent / (calls * len(inputs)))
    return float(best * 1e9)
