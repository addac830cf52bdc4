"""Seconds until the first answer: planned and compiled, and from the cache after that.

    python -m experiments.start_up [--json FILE]

The answer is one of machine code, at a random state: a posture as special as the neutral one
may be left to pivoting. Reading the robot and imports are not counted. Real robots and the
layouts of the catalogue need example-robot-data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from problems.terminal import show_table

__all__ = ["main", "measure"]

ROBOTS = (
    "synthetic:chain:7",
    "synthetic:humanoid30",
    "synthetic:chain:30:generic=true",
    "synthetic:chain:100:generic=true",
    "talos_data/robots/talos_full_v2.urdf",
)
"""Words for ``read_robot``, or a file of example-robot-data (floating base)."""
PROBLEMS = ("InverseDynamics", "ForwardDynamics")
LAYOUTS = ("panda", "icub", "talos")
"""Of the catalogue: the first ``est.solve(q, qd, y).torque.array``."""
STATE = """
import time, sys, numpy as np, problems
def state(robot):
    return robot.random_configuration(1), np.random.default_rng(0).normal(size=robot.nv)
"""
ASK = f"""{STATE}
name, problem, known = sys.argv[1:]
if name.endswith(".urdf"):
    from experiments.example_robots import load_quietly, robot_path
    robot = load_quietly(robot_path(name), floating=True)
else:
    from problems.robots import read_robot
    robot = read_robot(name).robot
problem, (q, v) = getattr(problems, problem)(robot), state(robot)
start = time.perf_counter()
kernel = problem.compile(None if known == "known" else problem.plan())
_, finite = kernel.one(q, v, v)
print(time.perf_counter() - start)
assert finite
"""
ESTIMATE = f"""{STATE}
from problems.problem_file import load_problem
est = load_problem("catalogue:" + sys.argv[1]).estimation
q, v = state(est.robot)
y = np.where(np.isnan(est.layout.constants), 0.1, est.layout.constants)
start = time.perf_counter()
found = est.solve(q, v, y)
torque = found.torque.array
print(time.perf_counter() - start)
assert np.isfinite(torque).all() and found.method == "llvm", found.method
"""


def measure(
    robots: Sequence[str] = ROBOTS, layouts: Sequence[str] = LAYOUTS
) -> list[dict[str, str | float]]:
    """Seconds to plan and compile, and to load, each in a process of its own."""
    asked = [(ASK, robot, problem) for robot in robots for problem in PROBLEMS]
    asked += [(ESTIMATE, layout, "Estimation") for layout in layouts]
    found: list[dict[str, str | float]] = []
    for question, name, problem in asked:
        with tempfile.TemporaryDirectory() as cache:
            first, again = (
                _seconds(question, name, problem, known, cache) for known in ("new", "known")
            )
        row = {"robot": Path(name).name, "problem": problem}
        found.append(row | {"first_s": first, "again_s": again})
    return found


def _seconds(question: str, name: str, problem: str, known: str, cache: str) -> float:
    answer = subprocess.run(
        [sys.executable, "-c", question, name, problem, known],
        env={**os.environ, "DYNSYS_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(answer.stdout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show a table, or write the numbers."""
    parser = argparse.ArgumentParser(prog="python -m experiments.start_up")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    options = parser.parse_args(arguments)
    found = measure()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    columns = ("robot", "problem", "first time [s]", "from the cache [s]")
    rows = [
        (str(r["robot"]), str(r["problem"]), f"{r['first_s']:.2f}", f"{r['again_s']:.3f}")
        for r in found
    ]
    show_table(columns, rows, right=columns[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
