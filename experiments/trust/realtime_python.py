"""The loop in Python: run by realtime.py in a process of its own, with malloc counted.

python -m experiments.trust.realtime_python ROBOT,... SECONDS RATE CORE FIFO RESULT.npz
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dynsys
import problems
import sensors
from dynsys.model.tree import KinematicTree
from dynsys.types import Array
from experiments.example_robots import load_quietly, robot_path
from problems.robots import read_robot

__all__ = ["N_STATES", "allocations", "main", "robot_of", "solvers", "states_of"]

# ---- robots and states of the real-time loops ----------------------------------------------

N_STATES = 256


def robot_of(name: str) -> KinematicTree:
    """The bundled humanoid, a synthetic chain (``chain6``), or talos."""
    if name == "humanoid":
        return read_robot("example:humanoid", floating_base=True).robot
    if name.startswith("chain"):
        return dynsys.synthetic.chain(int(name.removeprefix("chain")))
    return load_quietly(robot_path("talos_data/robots/talos_full_v2.urdf"), True)


def states_of(robot: KinematicTree) -> list[tuple[Array, Array, Array]]:
    """States (q, qd, third) that loops go round."""
    rng = np.random.default_rng(0)
    return [
        (robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv))
        for _ in range(N_STATES)
    ]


Solver = Callable[[int], object]


def solvers(robots: list[str]) -> dict[str, Solver]:
    """Inverse and forward dynamics of the robots; for the humanoid also an estimation."""
    found: dict[str, Solver] = {}
    for name in robots:
        robot = robot_of(name)
        for word, problem in (
            ("ID", problems.InverseDynamics(robot)),
            ("FD", problems.ForwardDynamics(robot)),
        ):
            found[f"{name} {word}"] = _dynamics(problem, states_of(robot))
    if "humanoid" in robots:
        found["humanoid estimation"] = _estimator()
    return found


def _dynamics(problem: Any, states: list[tuple[Any, ...]]) -> Solver:
    out = np.empty(problem.robot.nv)

    def solve(k: int) -> object:
        return problem.solve(*states[k], out=out)

    solve(0)
    return solve


def _estimator() -> Solver:
    """Machine code from readings to torques, as a controller calls it."""
    robot = read_robot("example:humanoid", floating_base=True).robot
    layout = sensors.catalogue.load("nao_slippery", robot)
    kernel = problems.Estimation(robot, layout).compile(outputs=["torque"])
    states = states_of(robot)
    y = np.where(np.isnan(layout.constants), 0.0, layout.constants)
    out = [np.empty(robot.nv)]

    def solve(k: int) -> object:
        return kernel.one(states[k][0], states[k][1], y, out=out)

    solve(0)
    return solve


def allocations(solve: Solver, calls: int) -> dict[str, int]:
    """Calls of malloc, and Python's memory blocks gained, over many solves after warm-up.

    Raises
    ------
    OSError
        if nothing counts the calls of malloc.
    """
    count = _malloc_counter()
    for k in range(2000):
        solve(k % N_STATES)
    blocks, mallocs = sys.getallocatedblocks(), count()
    for k in range(calls):
        solve(k % N_STATES)
    mallocs, blocks = count() - mallocs, sys.getallocatedblocks() - blocks
    return {"calls": calls, "malloc_calls": mallocs, "blocks_gained": blocks}


def _malloc_counter() -> Callable[[], int]:
    try:
        counter = ctypes.CDLL(None).malloc_calls
    except AttributeError:
        raise OSError("malloc_counter.c is not preloaded: nothing would be counted") from None
    counter.restype = ctypes.c_long
    return lambda: int(counter())


def _loop(solve: list[Solver], ticks: int, period: int) -> np.ndarray:
    """Lateness of every wake-up, and time of every solve, ns (ticks, 1 + solvers)."""
    times = np.zeros((ticks, 1 + len(solve)), dtype=np.int64)
    clock = time.perf_counter_ns
    start = clock() + period
    for k in range(ticks):
        due = start + k * period
        left = due - clock()
        if left > 0:
            time.sleep(left * 1e-9)
        row = times[k]
        row[0] = clock() - due
        for j, one in enumerate(solve, 1):
            begin = clock()
            one(k % N_STATES)
            row[j] = clock() - begin
    return times


def main(arguments: list[str]) -> int:
    """Run the loop and write its times; what was allocated goes to stdout."""
    robots, seconds, rate, core, fifo, result = arguments
    named = solvers(robots.split(","))
    told = {name: allocations(solve, 100_000) for name, solve in named.items()}
    os.sched_setaffinity(0, {int(core)})
    real_time = False
    if int(fifo):
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            real_time = True
        except OSError:
            pass
    gc.collect()
    gc.freeze()
    gc.disable()
    for solve in named.values():
        for k in range(N_STATES):
            solve(k)
    before = resource.getrusage(resource.RUSAGE_SELF)
    times = _loop(list(named.values()), int(float(seconds) * int(rate)), 10**9 // int(rate))
    after = resource.getrusage(resource.RUSAGE_SELF)
    np.savez(Path(result), times=times, names=np.array(list(named)))
    print(
        json.dumps(
            {
                "allocations": told,
                "page_faults": after.ru_minflt
                + after.ru_majflt
                - before.ru_minflt
                - before.ru_majflt,
                "preempted": after.ru_nivcsw - before.ru_nivcsw,
                "fifo": real_time,
            }
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
