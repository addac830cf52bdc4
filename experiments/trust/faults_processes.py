"""Threads, forks, spawned processes, kill -9 at any moment, a dying cluster, a long soak."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import dynsys
import problems
from dynsys.errors import DynsysError
from dynsys.kernel.cache import KernelCache, fingerprint
from dynsys.plan.search.campaign import Campaign, CampaignTask
from dynsys.types import Array
from experiments.trust.faults_common import (
    Outcome,
    Skipped,
    killed_at_work,
    own_cache,
    undisturbed,
    with_wrong,
)
from problems.log_jobs import SimulateJob, SolveJob, run_job
from problems.planning import plan_task
from problems.robots import read_robot

__all__ = [
    "forked",
    "killed_cache_writers",
    "killed_compilations",
    "killed_log_processing",
    "killed_plan_search",
    "killed_scheduler",
    "killed_workers",
    "resident_bytes",
    "shared_by_threads",
    "soak",
    "spawned",
]


def _problem(seed: int = 0) -> tuple[problems.ForwardDynamics, tuple[Array, Array, Array]]:
    robot = dynsys.synthetic.random_tree(6, seed)
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(600)])
    return problems.ForwardDynamics(robot), (q, *rng.normal(size=(2, 600, robot.nv)))


# ---- sharing ---------------------------------------------------------------------------------


def shared_by_threads(folder: Path, threads: int = 16, rounds: int = 5) -> Outcome:
    """Threads that begin together with one problem nobody has compiled: same bits as alone."""
    expected_problem, states = _problem()
    expected = expected_problem.solve_batch(*states).qdd
    alone = [expected_problem.solve(*row).qdd for row in zip(*states, strict=True)]
    wrong: list[str] = []

    def work(problem: problems.ForwardDynamics, barrier: threading.Barrier, k: int) -> None:
        try:
            barrier.wait()
            for row in range(k, len(states[0]), 29):
                if not np.array_equal(problem.solve(*(x[row] for x in states)).qdd, alone[row]):
                    wrong.append(f"one state, row {row}")
            found = problem.solve_batch(*states, threads=2)
            if not np.array_equal(found.qdd, expected) or not np.all(found.residual < 1e-12):
                wrong.append("batch")
        except Exception as error:
            wrong.append(repr(error))

    bad = 0
    with own_cache(folder / "cache"):
        for _ in range(rounds):
            problem = problems.ForwardDynamics(expected_problem.robot)
            barrier, before = threading.Barrier(threads), len(wrong)
            group = [
                threading.Thread(target=work, args=(problem, barrier, k))
                for k in range(threads)
            ]
            for thread in group:
                thread.start()
            for thread in group:
                thread.join()
            bad += len(wrong) > before
    meaning = f"{threads} threads compile and solve one problem: the bits of one thread"
    return Outcome(
        "many threads share a problem", rounds, rounds - bad, with_wrong(meaning, wrong)
    )


def forked(folder: Path, children: int = 10, patience: float = 30.0) -> Outcome:
    """Fork while worker threads wait and a thread computes: the child computes the same."""
    problem, states = _problem()
    expected = problem.solve_batch(*states, threads=2).qdd
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            problem.solve_batch(*states, threads=2)

    thread = threading.Thread(target=busy)
    thread.start()
    survived = 0
    try:
        for _ in range(children):
            pid = os.fork()
            if pid == 0:
                same = np.array_equal(problem.solve_batch(*states, threads=2).qdd, expected)
                os._exit(0 if same else 1)
            survived += _exit_status(pid, patience) == 0
    finally:
        stop.set()
        thread.join()
    meaning = "a child forked amid a threaded batch solves the same batch, same bits, no hang"
    return Outcome("fork", children, survived, meaning)


def _exit_status(pid: int, patience: float) -> int:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -1


def spawned(folder: Path, children: int = 4) -> Outcome:
    """Problems pickled to spawned processes give the same bits."""
    problem, states = _problem()
    expected = problem.solve_batch(*states).qdd
    pickle.loads(pickle.dumps(problem))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = [pool.submit(_solve_here, problem, states) for _ in range(children)]
        survived = sum(np.array_equal(future.result(120), expected) for future in found)
    meaning = "a used problem, pickled to a fresh process, gives the same bits"
    return Outcome("spawn", children, survived, meaning)


def _solve_here(problem: problems.ForwardDynamics, states: tuple[Array, ...]) -> Array:
    return problem.solve_batch(*states, threads=2).qdd


# ---- kill -9 ---------------------------------------------------------------------------------


def _delays(kills: int, longest: float, seed: int = 0) -> list[float]:
    """Moments spread over the whole of the work."""
    rng = np.random.default_rng(seed)
    return [float(longest * (k + rng.uniform()) / kills) for k in range(kills)]


def _compile(seed: int) -> None:
    problem, states = _problem(seed)
    problem.solve(*(x[0] for x in states))


def killed_compilations(folder: Path, kills: int = 20) -> Outcome:
    """Kill while a kernel is recorded, compiled, stored: the next process is right."""
    problem, states = _problem(7)
    with own_cache(folder / "expected"):
        expected = problem.solve_batch(*states).qdd
    with own_cache(folder / "timing"):
        longest = undisturbed(_compile, (7,))
    survived = 0

    def fresh() -> tuple[int]:
        KernelCache().clear()
        return (7,)

    with own_cache(folder / "cache"):
        for delay in _delays(kills, longest):
            killed_at_work(_compile, fresh, delay)
            again = problems.ForwardDynamics(problem.robot)
            survived += np.array_equal(again.solve_batch(*states).qdd, expected)
    meaning = "the next solve has the same bits"
    return Outcome("kill -9 during compile", kills, survived, meaning)


def _payload(number: int) -> bytes:
    return bytes([number % 251]) * 300_000


def _write_entries(folder: str) -> None:
    cache = KernelCache(folder)
    for number in range(10**9):
        cache.put(fingerprint("entry", number % 3), _payload(number % 3), {"number": number})


def killed_cache_writers(folder: Path, kills: int = 30) -> Outcome:
    """Kill a process that does nothing but write entries: all are whole or absent."""
    cache = KernelCache(folder / "cache")
    survived = 0
    for delay in _delays(kills, 0.3):
        killed_at_work(_write_entries, lambda: (str(cache.folder),), delay)
        found = [cache.get(fingerprint("entry", number)) for number in range(3)]
        whole = [entry is None or entry.payload == _payload(k) for k, entry in enumerate(found)]
        survived += all(whole) and cache.status().rejected == 0
    cache.clear()
    left = [path.name for path in (folder / "cache").iterdir()]
    meaning = "every entry whole or absent, none rejected; leftovers go with clear()"
    return Outcome("kill -9 during cache write", kills, survived if not left else 0, meaning)


def _campaign(folder: str) -> Campaign:
    tasks = tuple(
        CampaignTask(
            {
                "robot": f"synthetic:chain:{n}",
                "problem": "published:sie_friction_fy",
                "floating_base": False,
                "seed": seed,
                "evaluations": 10,
            }
        )
        for n in (3, 4)
        for seed in range(3)
    )
    return Campaign(Path(folder), tasks)


def _search(folder: str) -> None:
    _campaign(folder).run(plan_task)


def killed_plan_search(folder: Path, kills: int = 10) -> Outcome:
    """Kill a campaign of plan searches: going on gives the results of an undisturbed one."""
    longest = undisturbed(_search, (str(folder / "undisturbed"),))
    expected = _results(_campaign(str(folder / "undisturbed")))
    survived, places = 0, (str(folder / f"campaign{k}") for k in count())
    for delay in _delays(kills, longest):
        (place,) = killed_at_work(_search, lambda: (next(places),), delay)
        summary = _campaign(place).run(plan_task)
        survived += (
            summary.open == summary.failed == 0 and _results(_campaign(place)) == expected
        )
    meaning = "run again, it finishes what is open; results as undisturbed"
    return Outcome("kill -9 during plan search", kills, survived, meaning)


def _results(campaign: Campaign) -> list[Any]:
    return [{**(o.result or {}), "seconds": 0} for o in campaign.outcomes()]


def _solve_log(problem: str, log: str, output: str) -> None:
    run_job(SolveJob(problem, log, output, ("torque",), 50))


def killed_log_processing(folder: Path, kills: int = 10, samples: int = 1000) -> Outcome:
    """Kill `dynsys solve`: no output or a whole one; going on gives the same bytes."""
    problem, log = "catalogue:panda", str(folder / "log.npz")
    run_job(SimulateJob(problem, log, duration=samples / 1000))
    expected = folder / "expected.npz"
    _solve_log(problem, log, str(expected))  # its kernels are cached from now on
    longest = undisturbed(_solve_log, (problem, log, str(folder / "undisturbed.npz")))
    survived, wrong = 0, list[str]()
    outputs = (str(folder / f"out{k}.npz") for k in count())
    for delay in _delays(kills, longest):
        *_, name = killed_at_work(_solve_log, lambda: (problem, log, next(outputs)), delay)
        output = Path(name)
        before = len(wrong)
        if output.exists() and output.read_bytes() != expected.read_bytes():
            wrong.append("half an output")
        _solve_log(problem, log, str(output))
        if output.read_bytes() != expected.read_bytes():
            wrong.append("other bytes")
        left = [p for p in folder.iterdir() if output.name in p.name and p != output]
        wrong += [f"left {path.name}" for path in left]
        survived += len(wrong) == before
    meaning = "no output or the whole one; run again, it ends with the same bytes"
    return Outcome("kill -9 during log processing", kills, survived, with_wrong(meaning, wrong))


# ---- long soak: many batch states, memory flat ---------------------------------------------

BATCH = 20_000
ALLOWED = 4 * 2**20
"""Bytes by which memory may differ between the first and the last tenth of a soak."""


def resident_bytes() -> int:
    """Memory of this process."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def soak(folder: Path, states: float = 1e8) -> Outcome:
    """Inverse and forward dynamics of the humanoid by turns, batches of fresh answers."""
    robot = read_robot("example:humanoid", floating_base=True).robot
    rng = np.random.default_rng(0)
    q = np.array([robot.random_configuration(rng) for _ in range(BATCH)])
    qd, qdd = rng.normal(size=(2, BATCH, robot.nv))
    inverse, forward = problems.InverseDynamics(robot), problems.ForwardDynamics(robot)
    expected: np.ndarray | None = None
    sizes: list[int] = []
    wrong = 0
    rounds = max(round(states / (2 * BATCH)), 10)
    begin = time.perf_counter()
    for k in range(-3, rounds):  # the first warm up
        torque = inverse.solve_batch(q, qd, qdd, threads=2).torque
        found = forward.solve_batch(q, qd, torque, threads=2).qdd
        expected = found if expected is None else expected
        wrong += not np.array_equal(found, expected)
        if k >= 0:
            sizes.append(resident_bytes())
    gc.collect()
    tenth = max(len(sizes) // 10, 1)
    growth = int(np.median(sizes[-tenth:]) - np.median(sizes[:tenth]))
    rate = rounds * 2 * BATCH / (time.perf_counter() - begin)
    meaning = (
        f"{rounds * 2 * BATCH:.3g} states, {rate / 1e6:.1f} million per second; memory"
        f" {sizes[0] / 2**20:.0f} MiB, change {growth / 2**20:+.2f} MiB; same bits every time"
    )
    bad = wrong > 0 or abs(growth) > ALLOWED
    return Outcome("soak", 1, int(not bad), meaning)


# ---- a Dask cluster that loses a worker, all workers, its scheduler ------------------------

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

    anywhere = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
    processes = [start("scheduler", *anywhere)]
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
