"""Median times of computations to be compared: in turn, on one core, with one BLAS thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from experiments.peer_timing import ONE_THREAD, Contender, measure, pinned

__all__ = ["one_core", "seconds", "with_one_blas_thread"]

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
        Contender(name, "", mode, 1, _repeated(run), _no_result) for name, run in runs.items()
    ]
    with nullcontext() if wall else one_core():
        times = measure(contenders, passes, SECONDS_PER_RUN)
    return {name: 1e-9 * median for name, (median, _) in zip(runs, times, strict=True)}


def _repeated(run: Callable[[], Any]) -> Callable[[int], None]:
    def repeat(times: int) -> None:
        for _ in range(times):
            run()

    return repeat


def _no_result() -> Any:
    raise NotImplementedError("only the time of this contender is of interest")


def one_core() -> AbstractContextManager[None]:
    """Context in which the calling thread stays on one core, the last that it may use."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    return pinned([max(cores)])


def with_one_blas_thread(module: str, main: Callable[[], int]) -> int:
    """Run ``main`` with one BLAS thread, if need be by starting ``module`` anew.

    BLAS reads its number of threads when it is loaded.
    """
    if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
        return main()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
