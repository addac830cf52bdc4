"""A long log on two cores: speed, memory, and a Dask cluster that loses a worker midway.

    python -m experiments.long_log                    one hour at 1 kHz: 3.6 million samples
    python -m experiments.long_log --seconds 10       the same in small
    python -m experiments.long_log --json             figures for machines

Simulates a log of the bundled humanoid (30 joints counting the floating base) with load cells,
inertial unit and joint accelerations, solves it in worker processes, and again on a local Dask
cluster of as many workers, one of which is killed when half of the chunks are done. Reports
samples per second (and per second of processor time, which other work on the machine does not
change), the peak of the memory of all processes together (proportional set size, so
that shared pages count once), and whether both outputs are the same to the last byte. Needs
about 7 GiB of disk for the whole hour, in a temporary folder that goes at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dynsys.resumable import local_cluster
from problems.log_jobs import CHUNK, Done, SimulateJob, SolveJob, run_job
from problems.terminal import show_table

__all__ = ["Report", "main", "measure"]

GIB = 2**30
MEMORY = 2.0
"""GiB that solving may take."""


@dataclass(frozen=True)
class Report:
    """What was measured."""

    samples: int
    numbers_per_sample: int
    simulated_per_second: float
    solved_per_second: float
    dask_per_second: float
    simulated_per_cpu_second: float
    solved_per_cpu_second: float
    peak_simulation_gib: float
    peak_gib: float
    peak_dask_gib: float
    killed_workers: int
    same_bytes: bool
    log_mib: float
    output_mib: float
    seconds: float

    @property
    def passes(self) -> bool:
        """Whether memory stays below 2 GiB and the lost worker changes no byte."""
        peak = max(self.peak_gib, self.peak_dask_gib)
        return self.same_bytes and self.killed_workers == 1 and peak < MEMORY


def _cpu_seconds() -> float:
    """Processor time of this process and of all that it has started and that have ended."""
    usages = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class PeakMemory:
    """Largest sum of the memory of this process and all it has started, while in the block."""

    def __init__(self, period: float = 0.2) -> None:
        self.bytes = 0
        self._period = period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.bytes = max(self.bytes, sum(_memory(pid) for pid in _family(os.getpid())))
            self._stop.wait(self._period)


def _family(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # gone meanwhile
            continue
        for child in children:
            found += _family(int(child))
    return found


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def measure(
    folder: Path,
    *,
    problem: str,
    seconds: float,
    rate: float,
    outputs: Sequence[str],
    workers: int,
    chunk: int,
) -> Report:
    """Simulate, solve, solve again on Dask with a worker killed; see the module."""
    begin = time.perf_counter()
    log = folder / "log.npz"
    simulate = SimulateJob(problem, str(log), duration=seconds, rate=rate, chunk=chunk)
    start = _cpu_seconds()
    with PeakMemory() as simulating:
        simulated = run_job(simulate, workers=workers)
    between = _cpu_seconds()
    job = SolveJob(problem, str(log), str(folder / "out.npz"), tuple(outputs), chunk)
    with PeakMemory() as solving:
        solved = run_job(job, workers=workers)
    end = _cpu_seconds()
    again = SolveJob(problem, str(log), str(folder / "dask.npz"), tuple(outputs), chunk)
    killer = _Killer()
    distributed: Any = import_module("distributed")
    with (
        local_cluster(workers) as cluster,
        distributed.Client(cluster) as client,
        PeakMemory() as on_cluster,
    ):
        killer.pids = list(client.run(os.getpid).values())
        on_dask = run_job(again, scheduler=cluster.scheduler_address, progress=killer.start)
    return Report(
        samples=solved.n_samples,
        numbers_per_sample=sum(len(group.columns) for group in simulate.groups()),
        simulated_per_second=simulated.n_samples / simulated.seconds,
        solved_per_second=solved.n_samples / solved.seconds,
        dask_per_second=on_dask.n_samples / on_dask.seconds,
        simulated_per_cpu_second=simulated.n_samples / (between - start),
        solved_per_cpu_second=solved.n_samples / (end - between),
        peak_simulation_gib=simulating.bytes / GIB,
        peak_gib=solving.bytes / GIB,
        peak_dask_gib=on_cluster.bytes / GIB,
        killed_workers=killer.killed,
        same_bytes=_digest(Path(job.output)) == _digest(Path(again.output)),
        log_mib=log.stat().st_size / 2**20,
        output_mib=Path(job.output).stat().st_size / 2**20,
        seconds=time.perf_counter() - begin,
    )


class _Killer:
    """Kills the first worker when half of the chunks are done."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.killed = 0

    def start(self, done: int, total: int) -> Done:
        count = done

        def advance(more: int) -> None:
            nonlocal count
            count += more
            if 2 * count >= total and not self.killed:
                os.kill(self.pids[0], signal.SIGKILL)
                self.killed += 1

        return advance


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 1 if the outputs differ or memory exceeds 2 GiB."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problem", default="catalogue:nao_slippery")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--outputs", default="torque")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--folder", help="where the logs go; the temporary folder by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        report = measure(
            Path(folder),
            problem=args.problem,
            seconds=args.seconds,
            rate=args.rate,
            outputs=args.outputs.split(","),
            workers=args.workers,
            chunk=args.chunk,
        )
    if args.json:
        print(json.dumps(asdict(report), indent=2))
    else:
        _show(report)
    return 0 if report.passes else 1


def _show(report: Report) -> None:
    rates = (report.simulated_per_second, report.solved_per_second, report.dask_per_second)
    cpu = (report.simulated_per_cpu_second, report.solved_per_cpu_second, None)
    peaks = (report.peak_simulation_gib, report.peak_gib, report.peak_dask_gib)
    sizes = (report.log_mib, report.output_mib, report.output_mib)
    steps = ("simulate", "solve, local processes", "solve, Dask, a worker killed")
    columns = ("step", "samples/s", "samples/CPU s", "seconds", "peak GiB", "file MiB")
    show_table(
        columns,
        [
            (
                step,
                f"{rate:.0f}",
                "" if own is None else f"{own:.0f}",
                f"{report.samples / rate:.1f}",
                f"{peak:.2f}",
                f"{size:.0f}",
            )
            for step, rate, own, peak, size in zip(steps, rates, cpu, peaks, sizes, strict=True)
        ],
        right=columns[1:],
    )
    same = "the same bytes" if report.same_bytes else "DIFFERENT bytes"
    print(
        f"{report.samples} samples of {report.numbers_per_sample} numbers;"
        f" {report.killed_workers} worker killed, {same}; {report.seconds:.0f} s in all"
    )


if __name__ == "__main__":
    raise SystemExit(main())
