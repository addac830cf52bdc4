"""Seconds until the first answer: compiled for the first time, and from the cache after that.

python -m experiments.start_up [--json FILE]
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

ROBOTS = ("synthetic:chain:7", "synthetic:humanoid30", "synthetic:chain:30:generic=true")
PROBLEMS = ("InverseDynamics", "ForwardDynamics")
ASK = """
import time, sys, problems
from problems.robots import read_robot
robot = read_robot(sys.argv[1]).robot
problem = getattr(problems, sys.argv[2])(robot)
start = time.perf_counter()
problem.compile()
print(time.perf_counter() - start)
"""


def measure() -> list[dict[str, str | float]]:
    """Seconds to compile and to load, each in a process of its own."""
    found: list[dict[str, str | float]] = []
    for robot in ROBOTS:
        for problem in PROBLEMS:
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "DYNSYS_CACHE": cache}
                first, again = (
                    float(
                        subprocess.run(
                            [sys.executable, "-c", ASK, robot, problem],
                            env=environment,
                            capture_output=True,
                            text=True,
                            check=True,
                        ).stdout
                    )
                    for _ in range(2)
                )
            found.append(
                {"robot": robot, "problem": problem, "first_s": first, "again_s": again}
            )
    return found


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
