"""Logs as they are: complete, with readings missing, with contacts that come and go, singular.

    python -m experiments.logs_missing                       all catalogue robots
    python -m experiments.logs_missing --robots icub talos --samples 1000 --json FILE

Readings of random motions at 1 kHz are simulated, with noise. Some then go missing at random,
or the bodies that may be touched lose contact in turn, another one every 0.3 s. Torques with
their standard deviations are asked for, one core. Every log is a process of its own with an
empty cache: seconds until the first answers (problem read, all code compiled), samples per
second after that, each also of processor time, which other work on the machine does not change.
The estimator answers some states again: are the same values determined, how far apart are
the numbers, beside the largest of the log.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import sensors
from dynsys.types import Array
from problems import Estimate, Estimation
from problems.logs.simulate import Simulation, Trajectory
from problems.measured.measured_system import Active
from problems.problem_file import load_problem
from problems.terminal import progress, show_table

__all__ = ["CASES", "Log", "Report", "main", "measure", "simulated"]

ROBOTS = ("panda", "solo12", "anymal", "human", "nao_slippery", "icub", "talos")
CASES = {"complete": 0.0, "2 % missing": 0.02, "20 % missing": 0.2, "contacts": 0.0}
"""Part of the readings that goes missing."""
SINGULAR = "nao"
RATE, PERIOD = 1000.0, 0.3
"""Samples per second; seconds between changes of contact."""
REPEATS = 3
COMPARED = 20
"""States that the estimator answers too."""


@dataclass(frozen=True, eq=False)
class Log:
    """An estimation, the samples of a log, and which statements hold."""

    estimation: Estimation
    q: Array
    qd: Array
    y: Array
    active: Active


@dataclass(frozen=True)
class Report:
    """What was measured of one log; ``*_cpu`` are of processor time."""

    robot: str
    case: str
    samples: int
    first_s: float
    first_cpu_s: float
    per_s: float
    per_cpu_s: float
    methods: Mapping[str, int]
    open_samples: int
    compared: int
    other_flags: int
    error: float

    @property
    def passes(self) -> bool:
        """Whether flags are those of the estimator, and numbers to eight digits."""
        return self.other_flags == 0 and self.error < 1e-8


def simulated(robot: str, case: str, samples: int, seed: int = 0) -> Log:
    """A log of a robot of the catalogue."""
    problem = load_problem(f"catalogue:{robot}")
    layout, tree = problem.sensors, problem.tree
    trajectory = Trajectory.random(tree, samples / RATE, seed=seed)
    simulation = Simulation(layout, trajectory, RATE, seed)
    time_of, q, qd, qdd, f = simulation.motion(0, samples)
    lifted: dict[str, Array] = {}
    if case == "contacts":
        stated = {s.name.removesuffix("/no_contact") for s in layout}
        touched = [name for name in tree.body_names if name not in stated]
        turn = (time_of / PERIOD).astype(int) % len(touched)
        lifted = {name: turn == k for k, name in enumerate(touched)}
        for name, is_up in lifted.items():
            f[is_up, tree.body_index(name)] = 0.0
    _, y = simulation.readings.at(q, qd, qdd, f)
    rng = np.random.default_rng([seed, 5])
    values, axes = np.linalg.eigh(layout.covariance().toarray())
    noise = axes * np.sqrt(np.maximum(values, 0.0)) @ axes.T
    given = np.isnan(layout.constants)
    y = np.where(given, y + rng.normal(size=y.shape) @ noise, layout.constants)
    gone = rng.uniform(size=y.shape) < CASES[case]
    y[gone & given] = np.nan
    more = [sensors.ExternalWrench(f"{name} lifted", name, value=0.0) for name in lifted]
    whole = sensors.Layout(tree, [*layout.sensors, *more])
    y = np.hstack([y, np.zeros((samples, whole.size - layout.size))])
    active = {f"{name} lifted": is_up for name, is_up in lifted.items()}
    return Log(replace(problem.estimation, layout=whole), q, qd, y, active)


def solved(log: Log) -> Estimate:
    """Torques with standard deviations, and how well the readings agree."""
    return log.estimation.solve_batch(
        log.q,
        log.qd,
        log.y,
        outputs=("torque", "chi_square"),
        uncertainty="torque",
        active=log.active,
    )


def measure(robot: str, case: str, samples: int) -> Report:
    """Solve one log for the first time in this process, then again and again."""
    log = simulated(robot, case, samples)
    wall, cpu = time.perf_counter(), time.process_time()
    e = solved(log)
    first, first_cpu = time.perf_counter() - wall, time.process_time() - cpu
    walls, cpus = [], []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        e = solved(log)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    methods = Counter([e.method] * samples if isinstance(e.method, str) else e.method)
    flags, error = compared(log, e)
    return Report(
        robot=robot,
        case=case,
        samples=samples,
        first_s=first,
        first_cpu_s=first_cpu,
        per_s=samples / min(walls),
        per_cpu_s=samples / min(cpus),
        methods=dict(methods),
        open_samples=int((~e.determined.torque.array.all(axis=1)).sum()),
        compared=COMPARED,
        other_flags=flags,
        error=error,
    )


def compared(log: Log, e: Estimate) -> tuple[int, float]:
    """Truth values that differ from those of the estimator, and the largest error."""
    slow = replace(log.estimation, backend="dense")
    flags, error = 0, 0.0
    for k in np.linspace(0, len(log.q) - 1, COMPARED).astype(int).tolist():
        on = {name: bool(np.asarray(is_up)[k]) for name, is_up in log.active.items()}
        one = slow.solve(log.q[k], log.qd[k], log.y[k], active=on)
        for here, there in ((e.values, one.values), (e.std, one.std)):
            found, expected = here.torque.array, there.torque.array
            flags += int((np.isnan(found[k]) != np.isnan(expected)).sum())
            scale = np.nanmax(np.abs(found), initial=1e-300)
            miss = np.nanmax(np.abs(found[k] - expected), initial=0.0)
            error = max(error, float(miss / scale))
        chi_square = np.ravel(e.chi_square)[k]
        error = max(error, float(abs(chi_square - one.chi_square) / (1.0 + chi_square)))
        flags += int(np.ravel(e.degrees_of_freedom)[k] != one.degrees_of_freedom)
    return flags, error


def _in_a_new_process(robot: str, case: str, samples: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__]
        answer = subprocess.run(
            [*command, "--one", robot, case, "--samples", str(samples)],
            env={**os.environ, "DYNSYS_CACHE": cache, "OPENBLAS_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Show a table, or write the numbers; 1 if an answer is not that of the estimator."""
    parser = argparse.ArgumentParser(prog="python -m experiments.logs_missing")
    parser.add_argument("--robots", nargs="+", default=[*ROBOTS, SINGULAR])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there")
    parser.add_argument("--one", nargs=2, metavar=("ROBOT", "CASE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        robot, case = options.one
        print(json.dumps(asdict(measure(robot, case, options.samples))))
        return 0
    logs = [(robot, case) for robot in options.robots for case in options.cases]
    found: list[Report] = []
    for log in progress(logs, "logs"):
        found.append(Report(**_in_a_new_process(*log, options.samples)))
        if options.json:
            options.json.write_text(json.dumps([asdict(r) for r in found], indent=1) + "\n")
    numbers = ("first [s]", "[CPU s]", "samples/s", "per CPU s", "open")
    columns = ("robot", "log", *numbers, "by", "other flags", "error")
    rows = [
        (
            r.robot,
            r.case,
            f"{r.first_s:.1f}",
            f"{r.first_cpu_s:.1f}",
            f"{r.per_s:.0f}",
            f"{r.per_cpu_s:.0f}",
            str(r.open_samples),
            ", ".join(f"{name} {n}" for name, n in r.methods.items()),
            str(r.other_flags),
            f"{r.error:.0e}",
        )
        for r in found
    ]
    show_table(columns, rows, right=numbers)
    return 0 if all(r.passes for r in found) else 1


if __name__ == "__main__":
    sys.exit(main())
