"""A Dask cluster that loses a worker, all workers, its scheduler."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from dynsys.errors import DynsysError
from experiments.trust.faults_common import Outcome, Skipped, with_wrong
from problems.log_jobs import SimulateJob, SolveJob, run_job

__all__ = ["killed_scheduler", "killed_workers"]

PATIENCE = 90.0
"""Seconds within which a dead cluster must be noticed."""


@contextlib.contextmanager
def _cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Address and processes, the scheduler's first, of a cluster of our own, all at work."""
    distributed = import_module("distributed")
    place = folder / f"scheduler{time.monotonic_ns()}.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def start(what: str, *options: str) -> subprocess.Popen[bytes]:
        program = f"from distributed.cli.dask_{what} import main; main()"
        common = ["--no-dashboard", "--scheduler-file", str(place)]
        return subprocess.Popen(
            [sys.executable, "-c", program, *options, *common],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    processes = [start("scheduler", "--port", "0", "--host", "127.0.0.1")]
    try:
        _wait_for(place.exists)
        processes += [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(workers)]
        address = json.loads(place.read_text())["address"]
        with distributed.Client(address) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the Dask cluster did not start")
        time.sleep(0.05)


def _prepared(folder: Path, samples: int) -> tuple[str, bytes]:
    log, expected = str(folder / "log.npz"), str(folder / "expected.npz")
    run_job(SimulateJob("catalogue:panda", log, duration=samples / 1000))
    run_job(SolveJob("catalogue:panda", log, expected, ("torque",), 20))
    return log, Path(expected).read_bytes()


def _killing(
    victims: list[subprocess.Popen[bytes]], after: int
) -> Callable[[int, int], Callable[[int], None]]:
    """Progress that kills -9 when so many chunks are done."""

    def start(done: int, total: int) -> Callable[[int], None]:
        count = done

        def advance(more: int) -> None:
            nonlocal count
            count += more
            if count >= after:
                while victims:
                    victims.pop().send_signal(signal.SIGKILL)

        return advance

    return start


def _assert_killed(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    if process.returncode != -signal.SIGKILL:
        raise Skipped("the work was over before Dask's process was killed")


def killed_workers(folder: Path, samples: int = 600) -> Outcome:
    """One of two workers dies midway: the other finishes, same bytes."""
    log, expected = _prepared(folder, samples)
    output = folder / "out.npz"
    with _cluster(folder, 2) as (address, processes):
        job = SolveJob("catalogue:panda", log, str(output), ("torque",), 20)
        run_job(job, scheduler=address, progress=_killing([processes[1]], 5))
        _assert_killed(processes[1])
    meaning = "the other worker does its chunks; same bytes"
    return Outcome("killed Dask worker", 1, int(output.read_bytes() == expected), meaning)


def killed_scheduler(folder: Path, samples: int = 600) -> Outcome:
    """The scheduler dies midway: an error of ours in bounded time, and the next run goes on."""
    log, expected = _prepared(folder, samples)
    output = folder / "out.npz"
    job = SolveJob("catalogue:panda", log, str(output), ("torque",), 20)
    wrong = []
    with _cluster(folder, 1) as (address, processes):
        begin = time.monotonic()
        try:
            run_job(job, scheduler=address, progress=_killing([processes[0]], 5))
            wrong.append("nothing was raised")
        except DynsysError:
            pass
        except BaseException as error:
            wrong.append(f"raised {error!r}")
        seconds = time.monotonic() - begin
        _assert_killed(processes[0])
    if seconds > PATIENCE:
        wrong.append(f"took {seconds:.0f} s")
    if output.exists():
        wrong.append("left an output")
    finished = run_job(job)
    if not finished.resumed or output.read_bytes() != expected:
        wrong.append("did not go on where it stopped")
    meaning = f"an error that says so after {seconds:.0f} s; the next run goes on, same bytes"
    return Outcome("killed Dask scheduler", 1, int(not wrong), with_wrong(meaning, wrong))
