"""Two workers against one: the same search, the same result, about half the time.

    python -m experiments.search_workers [--json] [--evaluations N] [--bodies N] [--seed N]

Load cells at both ends of a chain, torques wanted; a fixed number of evaluations. Exit status 1
if the results differ, or if two workers take more than 0.65 of the time of one.

Beside the times on the clock stands the processor time that all processes together spent. Two
workers cannot take less than half of theirs on the clock; what they take more is waiting: for
the start of processes, for the last run of a generation, or for a machine that does other work
(``load`` of the last minute, the search included).
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.search import Progress, Search, search_order
from dynsys.system.linear_system import LinearSystem
from experiments.nori2017.counts import chain, load_cell_system
from problems import terminal

__all__ = ["Timed", "main", "same_result", "timed_search"]

LIMIT = 0.65
BODIES, EVALUATIONS = 8, 48_000
"""About 50 s for one worker."""


@final
@dataclass(frozen=True)
class Timed:
    """A search: seconds on the clock, seconds of processors, and what it found.

    ``load`` is the mean number of processes that wanted a processor in the last minute.
    """

    workers: int
    seconds: float
    processor_seconds: float
    load: float
    evaluations: int
    constructive: int
    cost: int
    order: PivotOrder

    def as_json(self) -> dict[str, Any]:
        """Everything but the order."""
        return {name: value for name, value in vars(self).items() if name != "order"}


def timed_search(
    system: LinearSystem, problem: SearchProblem, evaluations: int, seed: int, workers: int
) -> Timed:
    """Search once, with a bar on a terminal."""
    with terminal.progress_bar(f"{workers} worker{'s' * (workers > 1)}") as start:
        advance, done = start(0, evaluations), 0

        def show(now: Progress) -> None:
            nonlocal done
            advance(now.evaluations - done)
            done = now.evaluations

        search = Search(evaluations=evaluations, seed=seed, workers=workers, progress=show)
        before = _processor_seconds()
        result = search_order(problem, search, system)
        while multiprocessing.active_children():  # their time counts once they have ended
            time.sleep(0.02)
        spent = _processor_seconds() - before
    return Timed(
        workers,
        result.seconds,
        spent,
        os.getloadavg()[0],
        result.evaluations,
        result.constructive.operations.total,
        result.best.operations.total,
        result.best.order,
    )


def _processor_seconds() -> float:
    """Processor time of this process and of its children that have ended."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def same_result(one: Timed, two: Timed) -> bool:
    """Whether two searches found the same order at the same cost."""
    return one.cost == two.cost and one.order == two.order


def main(argv: Sequence[str] | None = None) -> int:
    """Run both; 0 if the result is the same and two workers took at most 0.65 of the time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--evaluations", type=int, default=EVALUATIONS)
    parser.add_argument("--bodies", type=int, default=BODIES)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    system = load_cell_system(chain(options.bodies, taper=1.0), net_wrench=False)
    problem = SearchProblem.of(system, ("torque",))
    problem.counted(search_order(problem, Search(), system).best.order)  # compiled from here
    one, two = (
        timed_search(system, problem, options.evaluations, options.seed, workers)
        for workers in (1, 2)
    )
    ratio, same = two.seconds / one.seconds, same_result(one, two)
    if options.json:
        told = {"one": one.as_json(), "two": two.as_json()}
        terminal.show_json(told | {"ratio": ratio, "limit": LIMIT, "same_result": same})
    else:
        _show(one, two, ratio, same)
    return 0 if same and ratio <= LIMIT else 1


def _show(one: Timed, two: Timed, ratio: float, same: bool) -> None:
    columns = ("workers", "seconds", "processor seconds", "load", "evaluations", "operations")
    rows = [
        (
            str(t.workers),
            f"{t.seconds:.1f}",
            f"{t.processor_seconds:.1f}",
            f"{t.load:.1f}",
            str(t.evaluations),
            f"{t.cost} (best constructive order {t.constructive})",
        )
        for t in (one, two)
    ]
    terminal.show_table(columns, rows, right=columns[:-1])
    terminal.show_line(
        f"{'the same order' if same else 'DIFFERENT ORDERS'}; two workers took {ratio:.2f} of"
        f" the time of one (at most {LIMIT}), {'yes' if ratio <= LIMIT else 'NO'}"
    )


if __name__ == "__main__":
    sys.exit(main())
