"""Accuracy of the compiled kernels against extended precision, over many random states.

    python -m experiments.accuracy [--states 10000] [--robots NAME ...] [--json FILE]

The reference is the plain recursion (RNEA, ABA) in link coordinates, on the file's numbers,
with a 64-bit mantissa; its float64 evaluation, constants rounded, stands beside ours. Errors
are relative per state: largest error of an entry over the largest entry. The worst pivot is the
least share of its composite inertia H_ii that a joint inertia kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import problems
from dynsys.model.tree import KinematicTree
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.record import sample_states
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array, ScalarArray
from experiments.peers.robots import ROBOTS, peer_robot

CHUNK = 250


def recursion(robot: KinematicTree, algorithm: Callable[..., ScalarArray]) -> Program:
    """Plain program of RNEA or ABA in link coordinates: nothing re-chosen or simplified."""
    graph = Graph()
    q, qd, x = graph.inputs(robot.nq), graph.inputs(robot.nv), graph.inputs(robot.nv)
    return graph.program(list(algorithm(reframe(robot, own_frames=True), q, qd, x)))


def relative_errors(x: ScalarArray, reference: ScalarArray) -> Array:
    """Largest error of each row relative to the row's largest entry."""
    scale = np.abs(reference).max(axis=1)
    return np.asarray(np.abs(x - reference).max(axis=1) / scale, dtype=np.float64)


def measure(robot: KinematicTree, task: str, states: int) -> dict[str, float]:
    """Worst and median errors of our kernel and of the recursion in float64."""
    inverse = task == "ID"
    problem: Any = (problems.InverseDynamics if inverse else problems.ForwardDynamics)(robot)
    program = recursion(robot, rnea_scalars if inverse else aba_scalars)
    ours, plain = [], []
    for start in range(0, states, CHUNK):
        exact = sample_states(robot, min(CHUNK, states - start), start + 1, np.ones(robot.nv))
        x = exact.astype(np.float64)
        reference = program.evaluate(x.astype(np.longdouble))
        q, qd, given = np.split(x, [robot.nq, robot.nq + robot.nv], axis=1)
        solution = problem.solve_batch(q, qd, given)
        answer = solution.torque if inverse else solution.qdd
        ours.append(relative_errors(answer, reference))
        plain.append(relative_errors(program.evaluate(x), reference))
    own, twin = np.concatenate(ours), np.concatenate(plain)
    known = np.full(robot.nv, inverse)
    shares = [pivot.worst_share for pivot in pivot_safety(robot, known)]
    return {
        "worst": float(own.max()),
        "median": float(np.median(own)),
        "worst of the recursion in float64": float(twin.max()),
        "worst pivot": min(shares, default=1.0),
    }


def main() -> None:
    """Measure all robots and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--robots", nargs="*", default=list(ROBOTS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name in track(options.robots, "robots", console=Console(stderr=True)):
        robot = peer_robot(name).robot
        for task in ("ID", "FD"):
            rows.append({"robot": name, "task": task, **measure(robot, task, options.states)})
    table = Table(title=f"relative error against extended precision, {options.states} states")
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("robot", "task") else "right")
    for row in rows:
        table.add_row(*(v if isinstance(v, str) else f"{v:.1e}" for v in row.values()))
    Console(width=120).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
