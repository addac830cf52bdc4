"""Times with and without the extra ``fast``, side by side, as a table in Markdown.

    python -m experiments.plain --without .venv-plain/bin/python [--json FILE]

The same questions are asked by this Python and by one of an environment without extras (that of
``make plain``): the first answer, nothing in a cache; one state from Python; a thousand.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynsys
import problems
import sensors
from dynsys.plan.search.search import Progress, Search

__all__ = ["Times", "main", "measure", "table"]

STATES = 1000
SECONDS = 10.0
"""Of the search."""
MEASURE = "import json; from experiments.plain import measure; print(json.dumps(measure()))"


class Times(NamedTuple):
    """Seconds: the first answer, nothing compiled; a state later; a thousand states later."""

    first: float
    one: float
    many: float


def measure() -> dict[str, Times | int]:
    """All times in this environment; for the search the number of orders it priced."""
    found: dict[str, Times | int] = {}
    for name, solve, batch in _questions():
        began = time.perf_counter()
        solve()
        first = time.perf_counter() - began
        batch()
        found[name] = Times(first, _best(solve, 200), _best(batch, 5))
    arm, layout = _redundant()
    est, priced = problems.Estimation(arm, layout), [0]

    def told(progress: Progress) -> None:
        priced[0] = progress.evaluations

    est.plan(search_seconds=1.0)  # loops are compiled
    est.plan(search=Search(seconds=SECONDS, progress=told))
    found[f"search of {SECONDS:.0f} s, chain(8) with a torque sensor more"] = priced[0]
    return found


def _questions() -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    rng = np.random.default_rng(0)
    for robot in (dynsys.synthetic.chain(7), dynsys.synthetic.humanoid30()):
        q = np.array([robot.random_configuration(k) for k in range(STATES)])
        qd, x = rng.normal(size=(2, STATES, robot.nv))
        for words, kind in (
            ("inverse", problems.InverseDynamics),
            ("forward", problems.ForwardDynamics),
        ):
            yield f"{words} dynamics, {robot.name}", *_asked(kind(robot), q, qd, x)
    arm = dynsys.synthetic.chain(8)
    layout = sensors.published.sie_friction(arm)
    q = np.array([arm.random_configuration(k) for k in range(STATES)])
    est, y = problems.Estimation(arm, layout), rng.normal(size=(STATES, layout.size))
    qd = np.zeros((STATES, arm.nv))
    yield (
        "estimate of all torques, chain(8), as many readings as needed",
        lambda: est.solve(q[0], qd[0], y[0]).torque.array,
        lambda: est.solve_batch(q, qd, y, outputs=["torque"]),
    )


def _asked(
    problem: Any, q: Any, qd: Any, x: Any
) -> tuple[Callable[[], object], Callable[[], object]]:
    return lambda: problem.solve(q[0], qd[0], x[0]), lambda: problem.solve_batch(q, qd, x)


def _redundant() -> tuple[dynsys.KinematicTree, sensors.Layout]:
    """Sensors of which one is more than needed: a saddle system, whose search counts orders."""
    arm = dynsys.synthetic.chain(8)
    more = sensors.JointTorque("more", arm.joint_names[2], std=0.1)
    return arm, sensors.Layout(arm, [*sensors.published.sie_friction(arm).sensors, more])


def _best(work: Callable[[], object], count: int) -> float:
    best = float("inf")
    for _ in range(count):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def table(fast: dict[str, Any], plain: dict[str, Any]) -> str:
    """Both, each beside the other."""
    lines = ["| | first answer | one state | 1000 states |", "| --- | --: | --: | --: |"]
    for name, times in fast.items():
        if isinstance(times, int):
            lines.append(f"| {name}: orders priced | | | {times} / {plain[name]} |")
            continue
        cells = [
            f"{_seconds(a)} / {_seconds(b)}" for a, b in zip(times, plain[name], strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= unit:
            return f"{value / unit:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure here and there, write the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.plain")
    parser.add_argument(
        "--without", metavar="PYTHON", required=True, help="Python without the extra fast"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers, too")
    given = parser.parse_args(arguments)
    alone = {**os.environ, "DYNSYS_CACHE": "off", "OMP_NUM_THREADS": "1"}
    command = ["-W", "ignore", "-c", MEASURE]
    told = []
    for python in (sys.executable, given.without):
        done = subprocess.run(
            [python, *command], env=alone, stdout=subprocess.PIPE, text=True, check=True
        )
        told.append(json.loads(done.stdout))
    if given.json:
        given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(table(told[0], told[-1]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
