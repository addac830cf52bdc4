"""What a second thread is worth: batches of growing length on one thread and on two.

python -m experiments.threads [--json FILE]

One and two threads take turns of some calls; *times faster* is the median over the turns. A
batch that takes less than a millisecond runs on one thread whatever is asked for. Measure on a
quiet machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import problems
from dynsys.kernel.calls import AbstractKernel
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path, robots_folder
from problems.terminal import show_table

__all__ = ["main", "measure"]

MILLISECONDS = (0.1, 0.5, 1.0, 2.0, 5.0, 20.0)
TURNS = 7
CALLS = 9
"""Calls of a turn, one after the other."""
REAL = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "talos": "talos_data/robots/talos_full_v2.urdf",
}
NUMBERS = ("one_thread_ms", "times_faster")
TASKS = {"ID": problems.InverseDynamics, "FD": problems.ForwardDynamics}


def measure(
    robots: dict[str, KinematicTree],
    milliseconds: Sequence[float] = MILLISECONDS,
    turns: int = TURNS,
) -> list[dict[str, Any]]:
    """Rows with the time on one thread, and how many times faster two are."""
    rows: list[dict[str, Any]] = []
    for name, robot in robots.items():
        for task, kind in TASKS.items():
            kernel = kind(robot).compile()
            per_row = _turns(kernel, _states(robot, 1000), 3)[0] / 1000
            for length in milliseconds:
                states = _states(robot, max(1, round(length * 1e-3 / per_row)))
                one, gain = _turns(kernel, states, turns)
                batch = {"robot": name, "task": task, "states": len(states[0])}
                rows.append(batch | {"one_thread_ms": 1e3 * one, "times_faster": gain})
    return rows


def _states(robot: KinematicTree, count: int) -> tuple[Array, ...]:
    """So many rows from 64 random states."""
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(64)])
    rest = rng.normal(size=(2, 64, robot.nv))
    return tuple(np.resize(x, (count, x.shape[1])) for x in (q, *rest))


def _turns(
    kernel: AbstractKernel, states: tuple[Array, ...], turns: int
) -> tuple[float, float]:
    """Median seconds of a call on one thread, and median over the turns of one over two."""
    out = [np.empty((len(states[0]), size)) for _, size in kernel.signature.outputs]

    def seconds(threads: int) -> float:
        times = []
        for _ in range(CALLS):
            start = perf_counter()
            kernel.batch(*states, out=out, threads=threads)
            times.append(perf_counter() - start)
        return float(np.median(times))

    seconds(2)  # finds out how long a row takes
    one, two = np.array([[seconds(threads) for threads in (1, 2)] for _ in range(turns)]).T
    return float(np.median(one)), float(np.median(one / two))


def main(arguments: Sequence[str] | None = None) -> int:
    """Show a table, or write the numbers."""
    parser = argparse.ArgumentParser(prog="python -m experiments.threads")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    args = parser.parse_args(arguments)
    robots = {"humanoid30": synthetic.humanoid30()}
    if robots_folder() is not None:
        floating = {"talos"}
        robots |= {
            name: load_quietly(robot_path(file), floating=name in floating)
            for name, file in REAL.items()
        }
    rows = measure(robots)
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    columns = ("robot", "task", "states", "one thread [ms]", "times faster")
    cells = [
        [*(str(r[name]) for name in columns[:3]), *(f"{r[x]:.2f}" for x in NUMBERS)]
        for r in rows
    ]
    show_table(columns, cells, right=columns[2:])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
