"""What users call, beside what it could cost: the verbs, batches, a first answer.

python -m experiments.calls [--json FILE]

    rnea, aba, crba, jacobian   beside the call of Pinocchio's wheel, by robot
    solve_batch of ID and FD    beside ``kernel.batch`` of the same problem, by states
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

import dynsys
import problems
from dynsys.jit import CACHE_VARIABLE
from experiments.peers.robots import PeerRobot, peer_robot
from problems.terminal import show_table

__all__ = ["batches", "first_answer", "main", "verbs"]

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
            kernel, kind = problem.compile(), type(problem).__name__
            for n in sizes:
                rows = [np.resize(x, (n, x.shape[1])) for x in (some.q, some.v, some.qdd)]
                pair = (lambda k=kernel, x=rows: k.batch(*x),
                        lambda p=problem, x=rows: p.solve_batch(*x))  # fmt: skip
                direct, solved = _in_turns(pair, max(turns, 20_000 // n), 1)
                row = {"robot": peer.name, "problem": kind, "states": n}
                row |= {"kernel_ns": 1e9 * direct / n, "solve_batch_ns": 1e9 * solved / n}
                found.append(row | {"times": solved / direct})
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
        "batches": batches([peer_robot(name) for name in BATCH_ROBOTS]),
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
