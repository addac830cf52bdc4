"""What users call, beside what it could cost: the verbs, batches, a first answer.

python -m experiments.calls [--json FILE]

    rnea, aba, crba, jacobian   beside the call of Pinocchio's wheel, by robot
    solve_batch of ID and FD    beside ``kernel.batch`` of the same problem, by states
    solve_batch of torques      from the sensors of the catalogue, and of the arm on two load
                                cells of the README, beside ``kernel.batch``
    first forward dynamics      of a tree of 300 bodies, from nothing and from the cache

Both of a pair run in turns, in one process, medians over the turns. All times are those of the
processor: others may be using the machine. The cache is an empty one: first and second calls of
the verbs include what they compile. Robots need example-robot-data.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

import dynsys
import problems
from dynsys.private_folder import CACHE_VARIABLE
from dynsys.types import Array
from experiments.peers.robots import PeerRobot, peer_robot
from problems.terminal import show_table
from sensors import Layout, catalogue, published

__all__ = ["batches", "estimations", "first_answer", "layouts", "main", "verbs"]

VERB_ROBOTS = ("solo12", "panda", "icub", "talos")
BATCH_ROBOTS = ("panda", "icub", "talos")
SIZES = (64, 512, 2048, 8192, 65536)
Row = dict[str, Any]


def _in_turns(calls: Sequence[Callable[[], object]], turns: int, each: int) -> list[float]:
    """Median seconds of processor time per call, each called so often in every turn."""
    found = np.empty((len(calls), turns))
    for turn in range(turns):
        for k, call in enumerate(calls):
            start = time.thread_time_ns()
            for _ in range(each):
                call()
            found[k, turn] = (time.thread_time_ns() - start) * 1e-9 / each
    return [float(x) for x in np.median(found, axis=1)]


@contextmanager
def _empty_cache() -> Iterator[str]:
    before = os.environ.get(CACHE_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        try:
            yield folder
        finally:
            del os.environ[CACHE_VARIABLE]
            if before is not None:
                os.environ[CACHE_VARIABLE] = before


def verbs(peers: Sequence[PeerRobot], turns: int = 31, each: int = 200) -> list[Row]:
    """Microseconds of each verb and of Pinocchio's, and milliseconds of the first calls."""
    found: list[Row] = []
    for peer in peers:
        with _empty_cache():
            for verb, ours, theirs in _pairs(peer):
                first = []
                for _ in range(2):
                    start = time.process_time()
                    ours()
                    first.append(1e3 * (time.process_time() - start))
                mine, other = _in_turns((ours, theirs), turns, each)
                row = {"robot": peer.name, "verb": verb, "ours_us": 1e6 * mine}
                row |= {"pinocchio_us": 1e6 * other, "times": mine / other}
                found.append(row | {"first_ms": first[0], "second_ms": first[1]})
    return found


Pair = tuple[str, Callable[[], object], Callable[[], object]]


def _pairs(peer: PeerRobot) -> Iterator[Pair]:
    robot, model, data = peer.robot, peer.model, peer.model.createData()
    mine = peer.states(1)
    q, v, a, t = (x[0].copy() for x in (mine.q, mine.v, mine.qdd, mine.torque))
    its = peer.to_pinocchio(mine)
    pq, pv, pa, pt = (x[0].copy() for x in (its.q, its.v, its.qdd, its.torque))
    body = robot.body_names[-1]
    frame = model.getFrameId(body) if model.existFrame(body) else model.nframes - 1
    yield "rnea", lambda: dynsys.rnea(robot, q, v, a), lambda: pin.rnea(model, data, pq, pv, pa)
    yield "aba", lambda: dynsys.aba(robot, q, v, t), lambda: pin.aba(model, data, pq, pv, pt)
    yield "crba", lambda: dynsys.crba(robot, q), lambda: pin.crba(model, data, pq)
    yield (
        "jacobian",
        lambda: dynsys.jacobian(robot, q, body),
        lambda: pin.computeFrameJacobian(model, data, pq, frame),
    )


def batches(
    peers: Sequence[PeerRobot], sizes: Sequence[int] = SIZES, turns: int = 41
) -> list[Row]:
    """Nanoseconds a state of ``solve_batch`` and of ``kernel.batch``."""
    found: list[Row] = []
    for peer in peers:
        some = peer.states(64)
        for problem in (
            problems.InverseDynamics(peer.robot),
            problems.ForwardDynamics(peer.robot),
        ):
            states = some.q, some.v, some.qdd
            ways = problem.compile().batch, problem.solve_batch
            named = {"robot": peer.name, "problem": type(problem).__name__}
            found += [named | row for row in _by_size(ways, states, sizes, turns)]
    return found


def estimations(
    layouts: Mapping[str, Layout], sizes: Sequence[int] = SIZES, turns: int = 41
) -> list[Row]:
    """The same of torques estimated from sensors, at states that need no pivoting; by robot."""
    found: list[Row] = []
    for name, layout in layouts.items():
        problem = problems.Estimation(layout.robot, layout, backend="llvm")
        rng, robot = np.random.default_rng(1), layout.robot
        q = np.array([robot.random_configuration(rng) for _ in range(64)])
        y = np.where(np.isnan(layout.constants), 0.01, layout.constants)
        drawn = q, rng.uniform(-1.0, 1.0, (64, robot.nv)), np.tile(y, (64, 1))
        kernel = problem.compile(outputs=("torque",))
        answered = np.isfinite(kernel.batch(*drawn)[0][0]).all(axis=1)
        states = [x[answered] for x in drawn]
        ways = kernel.batch, partial(problem.solve_batch, outputs=("torque",))
        named = {"robot": name, "problem": "Estimation"}
        found += [named | row for row in _by_size(ways, states, sizes, turns)]
    return found


def _by_size(
    ways: tuple[Callable[..., object], Callable[..., object]],
    states: Sequence[Array],
    sizes: Sequence[int],
    turns: int,
) -> Iterator[Row]:
    """Kernel and solve_batch in turns, at so many of these states."""
    for n in sizes:
        rows = [np.resize(x, (n, x.shape[1])) for x in states]
        pair = [partial(way, *rows) for way in ways]
        direct, solved = _in_turns(pair, max(turns, 20_000 // n), 1)
        row = {"states": n, "kernel_ns": 1e9 * direct / n, "solve_batch_ns": 1e9 * solved / n}
        yield row | {"times": solved / direct}


def layouts() -> dict[str, Layout]:
    """The arm of the README, and the sensors of the catalogue."""
    arm = dynsys.synthetic.chain(8)
    found = {"arm on load cells": published.sie_friction(arm)}
    for name in BATCH_ROBOTS:
        found[name] = catalogue.load(name, peer_robot(name).robot)
    return found


FIRST = """
import sys, time, dynsys, problems
import numpy as np
robot = dynsys.synthetic.random_tree(int(sys.argv[1]), 1)
q, v = robot.random_configuration(0), np.ones(robot.nv)
start = time.process_time()
problems.ForwardDynamics(robot).solve(q, v, v)
print(time.process_time() - start)
"""


def first_answer(bodies: int = 300) -> Row:
    """Seconds to the first forward dynamics of a tree, from nothing and from the cache."""
    with _empty_cache():
        command = [sys.executable, "-c", FIRST, str(bodies)]
        first, again = (
            float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(2)
        )
    return {"bodies": bodies, "first_s": first, "again_s": again}


def _show(rows: Sequence[Row], names: Sequence[str], numbers: Sequence[str]) -> None:
    lines = [
        [str(r[key]) for key in names] + [f"{r[key]:.3g}" for key in numbers] for r in rows
    ]
    show_table((*names, *numbers), lines, right=numbers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show the tables, or write the numbers as well."""
    parser = argparse.ArgumentParser(prog="python -m experiments.calls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {
        "verbs": verbs([peer_robot(name) for name in VERB_ROBOTS]),
        "batches": batches([peer_robot(name) for name in BATCH_ROBOTS])
        + estimations(layouts()),
        "first": first_answer(),
    }
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    of_verbs = ("ours_us", "pinocchio_us", "times", "first_ms", "second_ms")
    _show(found["verbs"], ("robot", "verb"), of_verbs)
    _show(
        found["batches"],
        ("robot", "problem", "states"),
        ("kernel_ns", "solve_batch_ns", "times"),
    )
    first = found["first"]
    print(
        f"first forward dynamics of {first['bodies']} bodies: {first['first_s']:.1f} s,", end=""
    )
    print(f" from the cache {first['again_s']:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
