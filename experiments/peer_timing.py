"""Interleaved timing: every contender runs in every pass, so that noise hits all alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.types import Array

__all__ = [
    "ONE_LOOP",
    "ONE_THREAD",
    "TASKS",
    "TWO_LOOPS",
    "TWO_THREADS",
    "Contender",
    "Timing",
    "largest_difference",
    "measure",
    "pinned",
    "sample",
    "summary",
    "symmetric_from_upper",
]

TASKS = ("ID", "FD", "CRBA", "Minverse")
ONE_THREAD, TWO_THREADS = "one thread", "two threads"
ONE_LOOP, TWO_LOOPS = "one loop", "two loops"
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
    from extended precision (None where it was not computed). ``gain``, for two threads: times
    faster than one, the median over passes that ran both one after the other.
    """

    who: str
    task: str
    mode: str
    median_ns: float
    p10_ns: float
    difference: float
    error: float | None = None
    gain: float | None = None


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
