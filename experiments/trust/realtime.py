"""Real-time behaviour: 1 kHz loops, each on one core, by Python and by the exported C.

    python -m experiments.trust.realtime --seconds 600 --json FILE --png FILE

Every tick solves inverse and forward dynamics of a humanoid and of talos (and, in Python, an
estimation). Measured apart: how late the loop wakes up, which is the operating system's doing,
and how long each computation takes. Allocation after warm-up is checked, not assumed: every
malloc of the process is counted (100 000 calls per problem in Python, the loop itself in C),
Python's own memory blocks, and the page faults of the loop.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import problems
from experiments.trust.realtime_python import N_STATES, robot_of, states_of

__all__ = ["in_c", "in_python", "main", "summary"]

SOURCES = Path(__file__).with_name("realtime_c")
FLAGS = ("-O2", "-march=native", "-std=gnu11")


def summary(nanoseconds: np.ndarray) -> dict[str, float]:
    """Percentiles in microseconds."""
    points = {"median": 50, "p99": 99, "p99_99": 99.99, "worst": 100}
    return {
        name: round(float(np.percentile(nanoseconds, q)) / 1000, 2)
        for name, q in points.items()
    }


def _report(names: Sequence[str], times: np.ndarray, told: dict[str, Any]) -> dict[str, Any]:
    period = told.pop("period_us")
    return {
        "ticks": len(times),
        "wake_up_us": summary(times[:, 0]),
        "compute_us": {name: summary(times[:, k]) for k, name in enumerate(names, 1)},
        "ticks_over_period": int((times.sum(axis=1) / 1000 > period).sum()),
        **told,
    }


# ---- Python ----------------------------------------------------------------------------------


def _compiler(*arguments: str | Path) -> None:
    command = [os.environ.get("CC", "gcc"), *FLAGS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr[-2000:]}")


def in_python(
    robots: Sequence[str], seconds: float, rate: int, core: int, fifo: bool
) -> tuple[dict[str, Any], np.ndarray]:
    """The loop in a Python process with malloc counted: report and times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counter, result = folder / "counter.so", folder / "times.npz"
        _compiler("-shared", "-fPIC", SOURCES / "malloc_counter.c", "-o", counter)
        root = str(Path(__file__).parents[2])
        paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        more = {"LD_PRELOAD": str(counter), "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "experiments.trust.realtime_python", ",".join(robots),
             str(seconds), str(rate), str(core), str(int(fifo)), str(result)],
            env=os.environ | more, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise OSError(done.stderr[-2000:])
        told = json.loads(done.stdout.splitlines()[-1])
        with np.load(result) as file:
            times, names = file["times"], [str(name) for name in file["names"]]
    return _report(names, times, told | {"period_us": 1e6 / rate}), times


# ---- C ---------------------------------------------------------------------------------------


def in_c(
    robots: Sequence[str], seconds: float, rate: int, core: int, fifo: bool
) -> tuple[dict[str, Any], np.ndarray]:
    """The loop in C around exported kernels, malloc counted: report and times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names, last = _export(robots, folder)
        loop, result, ticks = folder / "loop", folder / "times", int(seconds * rate)
        _compiler(
            "-I", folder, SOURCES / "loop.c", SOURCES / "malloc_counter.c",
            *sorted(folder.glob("k[0-9].c")), "-lm", "-o", loop,
        )  # fmt: skip
        done = subprocess.run(
            [loop, folder / "states", result, str(ticks), str(rate), str(core), str(int(fifo))],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        told = json.loads(done.stdout)
        data = result.read_bytes()
        sums = np.frombuffer(data[-8 * len(names) :])
        times = np.frombuffer(data[: -8 * len(names)], np.int64).reshape(ticks, -1)
    rounds = np.bincount(np.arange(ticks) % N_STATES, minlength=N_STATES) + 1.0
    expected = np.array([rounds @ values for values in last])
    told["same_answers"] = bool(np.allclose(sums, expected, rtol=1e-6, atol=1e-6 * ticks))
    return _report(names, times, told | {"period_us": 1e6 / rate}), times


def _export(robots: Sequence[str], folder: Path) -> tuple[list[str], list[np.ndarray]]:
    """Write kernels, their list and states; names, and the last output at every state."""
    names: list[str] = []
    rows, last, blocks = [], [], []
    for robot_name in robots:
        robot = robot_of(robot_name)
        states = states_of(robot)
        q, qd, third = (np.array(x) for x in zip(*states, strict=True))
        for word, problem in (
            ("ID", problems.InverseDynamics(robot)),
            ("FD", problems.ForwardDynamics(robot)),
        ):
            k = len(names)
            problem.export_c(folder / f"c{k}", name=f"k{k}")
            for file in (folder / f"c{k}").glob(f"k{k}.[ch]"):
                file.rename(folder / file.name)
            names.append(f"{robot_name} {word}")
            rows.append(f"X(k{k}, {robot.nq}, {robot.nv}, {k})")
            solution = problem.solve_batch(q, qd, third)
            last.append((solution.torque if word == "ID" else solution.qdd)[:, -1])
            blocks.append(np.hstack([q, qd, third]))
    includes = "".join(f'#include "k{k}.h"\n' for k in range(len(names)))
    listed = f"#define N_STATES {N_STATES}\n#define KERNELS(X) {' '.join(rows)}\n"
    (folder / "kernels.h").write_text(includes + listed)
    (folder / "states").write_bytes(b"".join(block.tobytes() for block in blocks))
    return names, last


# ---- figure and command ----------------------------------------------------------------------


def figure(found: dict[str, tuple[dict[str, Any], np.ndarray]], path: Path) -> None:
    """Histograms of the computations and the wake-ups, one panel per loop."""
    from matplotlib.figure import Figure

    size = (10, 3.4 * len(found))
    drawn = Figure(figsize=size, layout="constrained")
    panels = np.atleast_1d(drawn.subplots(len(found), 1, sharex=True))
    every = [np.maximum(times, 1) / 1000 for _, times in found.values()]
    ends = (min(x.min() for x in every), max(x.max() for x in every))
    bins = np.geomspace(0.9 * ends[0], 1.1 * ends[1], 200)
    for panel, us, (way, (report, _)) in zip(panels, every, found.items(), strict=True):
        for k, name in enumerate(("wake-up", *report["compute_us"])):
            label = f"{name}, worst {us[:, k].max():.0f} µs"
            panel.hist(us[:, k], bins, histtype="step", label=label)
        panel.set(xscale="log", yscale="log", ylabel="ticks", title=f"{way}: 1 kHz loop")
        panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        panel.grid(alpha=0.3)
    panels[-1].set_xlabel("time [µs]")
    drawn.savefig(path, dpi=120, metadata={"Software": None})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both loops; 1 if a loop in C allocates or a solve in Python calls malloc."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--robots", default="humanoid,talos")
    parser.add_argument("--no-fifo", action="store_true", help="leave the scheduler as it is")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--png", type=Path)
    options = parser.parse_args(arguments)
    fifo = not options.no_fifo
    found = dict(_both(options.robots.split(","), options.seconds, options.rate, fifo))
    report = {way: told for way, (told, _) in found.items()}
    report["seconds"] = options.seconds
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.png:
        figure(found, options.png)
    return 0 if allocation_free(report) else 1


def _both(
    robots: Sequence[str], seconds: float, rate: int, fifo: bool
) -> Iterator[tuple[str, tuple[dict[str, Any], np.ndarray]]]:
    """Both loops, side by side if there are two cores, one after the other if not."""
    cores = sorted(os.sched_getaffinity(0))
    ways = {"Python": in_python, "C": in_c}
    with ThreadPoolExecutor(min(len(ways), len(cores))) as pool:
        running = {
            way: pool.submit(run, robots, seconds, rate, cores[k % len(cores)], fifo)
            for k, (way, run) in enumerate(ways.items())
        }
        for way, future in running.items():
            yield way, future.result()


def allocation_free(report: Mapping[str, Any]) -> bool:
    """Whether neither C nor the dynamics in Python allocate after warm-up."""
    python = report["Python"]["allocations"].values()
    c = report["C"]
    return (
        c["malloc_calls"] == 0
        and c["same_answers"]
        and all(row["malloc_calls"] == 0 and row["blocks_gained"] <= 16 for row in python)
    )


if __name__ == "__main__":
    raise SystemExit(main())
