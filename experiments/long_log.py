"""A long log on two cores: speed, memory, and a Dask cluster that loses a worker midway.

    python -m experiments.long_log                    one hour at 1 kHz: 3.6 million samples
    python -m experiments.long_log --seconds 10       the same in small

Simulates a log of the bundled humanoid (30 joints counting the floating base) with load cells,
inertial unit and joint accelerations, solves it in worker processes, and again on a local Dask
cluster of as many workers, one of which is killed when half of the chunks are done. Reports
samples per second, the peak of the memory of all processes together (proportional set size, so
that shared pages count once), and whether both outputs are the same to the last byte.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from problems.logs.chunks import Done
from problems.logs.jobs import CHUNK, SimulateJob, SolveJob
from problems.logs.run import run_job

__all__ = ["Report", "main", "measure"]

GIB = 2**30


@dataclass(frozen=True)
class Report:
    """What was measured."""

    samples: int
    readings_per_sample: int
    simulated_per_second: float
    solved_per_second: float
    peak_gib: float
    peak_simulation_gib: float
    dask_per_second: float
    killed_workers: int
    same_bytes: bool
    output_mib: float


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
    log = folder / "log.npz"
    simulate = SimulateJob(problem, str(log), duration=seconds, rate=rate, chunk=chunk)
    with PeakMemory() as simulating:
        simulated = run_job(simulate, workers=workers)
    job = SolveJob(problem, str(log), str(folder / "out.npz"), tuple(outputs), chunk)
    with PeakMemory() as solving:
        solved = run_job(job, workers=workers)
    again = SolveJob(problem, str(log), str(folder / "dask.npz"), tuple(outputs), chunk)
    killer = _Killer()
    distributed: Any = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        killer.pids = list(client.run(os.getpid).values())
        on_dask = run_job(again, scheduler=cluster.scheduler_address, progress=killer.start)
    return Report(
        samples=solved.n_samples,
        readings_per_sample=sum(len(group.columns) for group in simulate.groups()),
        simulated_per_second=simulated.n_samples / simulated.seconds,
        solved_per_second=solved.n_samples / solved.seconds,
        peak_gib=solving.bytes / GIB,
        peak_simulation_gib=simulating.bytes / GIB,
        dask_per_second=on_dask.n_samples / on_dask.seconds,
        killed_workers=killer.killed,
        same_bytes=_digest(Path(job.output)) == _digest(Path(again.output)),
        output_mib=Path(job.output).stat().st_size / 2**20,
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
    parser.add_argument("--folder", help="for the logs; a temporary one by default")
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
    print(json.dumps(asdict(report), indent=2))
    return 0 if report.same_bytes and report.peak_gib < 2.0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
