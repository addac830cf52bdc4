"""Disks that are full or read-only, clocks that jump."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np

import dynsys
import problems
from dynsys.errors import DynsysError
from dynsys.kernel.cache import KernelCache, fingerprint
from dynsys.plan.search.campaign import Campaign, CampaignTask
from dynsys.plan.search.search import Search
from experiments.trust.faults_common import Outcome, own_cache, small_disk, with_wrong
from problems.command.main import main
from problems.log_jobs import SimulateJob, SolveJob, run_job
from problems.planning import plan_task, read_request

__all__ = ["clock_jumps", "full_disk_for_cache", "full_disk_for_output", "read_only_cache"]

YEAR = 365 * 86400.0
PATIENCE = 300.0
"""Seconds for a search of 0.3 s: on a busy machine its first use compiles for long."""
SMALL = ("plan.save", "campaign")
"""Writers of less than a page or two."""


def _fresh() -> problems.InverseDynamics:
    return problems.InverseDynamics(dynsys.synthetic.random_tree(5, 1))


def _right(problem: problems.InverseDynamics) -> bool:
    """Whether torques are those of RNEA."""
    robot, rng = problem.robot, np.random.default_rng(0)
    q, (qd, qdd) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    expected = dynsys.recursive.rnea(robot, q, qd, qdd)
    return np.allclose(problem.solve(q, qd, qdd).torque, expected, rtol=1e-12, atol=1e-12)


def _fill(folder: Path) -> None:
    """Leave no byte free."""
    with (folder / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def full_disk_for_cache(folder: Path) -> Outcome:
    """The cache's disk is full: kernels are compiled, not stored, and answers are right."""
    disk = folder / "disk"
    with small_disk(disk, "64k"), own_cache(disk / "cache"):
        _fill(disk)
        right = [_right(_fresh()) for _ in range(2)]
        cache = KernelCache()
        cache.put(fingerprint("x"), bytes(1000))
        told = "cannot write" in str(cache.status())
        (disk / "filler").unlink()
        right.append(_right(_fresh()))
        left = list(disk.rglob("*.tmp"))
    meaning = "answers right, nothing raised, the cache says why; nothing half-written"
    checks = [*right, told, not left]
    return Outcome("full disk: cache", len(checks), sum(checks), meaning)


def read_only_cache(folder: Path) -> Outcome:
    """The cache's disk becomes read-only: known kernels are loaded, new ones compiled."""
    disk = folder / "disk"
    with small_disk(disk, "4m") as make_read_only, own_cache(disk / "cache"):
        right = [_right(_fresh())]
        make_read_only()
        right.append(_right(_fresh()))
        right.append(_right(problems.InverseDynamics(dynsys.synthetic.random_tree(4, 2))))
        status = KernelCache()
        status.put(fingerprint("x"), b"code")
        told = "cannot write" in str(status.status())
    checks = [*right, told]
    meaning = "known kernels load, new ones compile, answers right; the cache says why"
    return Outcome("read-only cache", len(checks), sum(checks), meaning)


def full_disk_for_output(folder: Path) -> Outcome:
    """The disk fills up under whatever writes files: an error of ours, and no half file."""
    disk = folder / "disk"
    log = str(folder / "log.npz")
    run_job(SimulateJob("catalogue:panda", log, duration=0.3))
    problem = _fresh()
    plan = problem.plan()

    def campaign() -> None:
        payload = {
            "robot": "synthetic:chain:4",
            "problem": "published:sie_friction_fy",
            "seed": 0,
        }
        task = CampaignTask(payload | {"floating_base": False, "evaluations": 5})
        Campaign(disk / "campaign", (task,)).run(plan_task)

    writers: dict[str, Callable[[], object]] = {
        "solve": lambda: run_job(
            SolveJob("catalogue:panda", log, str(disk / "out.npz"), ("torque",), 50)
        ),
        "simulate": lambda: run_job(
            SimulateJob("catalogue:panda", str(disk / "new.csv"), duration=1.0, chunk=100)
        ),
        "plan.save": lambda: plan.save(disk / "arm.plan"),
        "export_c": lambda: problem.export_c(disk / "c"),
        "campaign": campaign,
    }
    wrong: list[str] = []
    for name, write in writers.items():
        with small_disk(disk, "64k"):
            _fill(disk)
            if name not in SMALL:  # a little room: writing can begin
                filler = disk / "filler"
                os.truncate(filler, max(0, filler.stat().st_size - 16384))
            wrong += _refused(name, write, disk)
    wrong += _command_refused(folder, log)
    meaning = "an error of dynsys that says so, no half file; the command exits with 2"
    count = len(writers) + 1
    failed = len({text.split(":")[0] for text in wrong})
    return Outcome("full disk: outputs", count, count - failed, with_wrong(meaning, wrong))


def _refused(name: str, write: Callable[[], object], disk: Path) -> list[str]:
    try:
        write()
    except DynsysError as error:
        if "space" not in str(error):
            return [f"{name}: the message does not say why: {error}"]
    except Exception as error:
        return [f"{name}: raised {error!r}"]
    else:
        return [f"{name}: nothing was raised"]
    allowed = {"filler", "campaign", "out.npz.partial", "new.csv.partial"}
    left = [path.name for path in disk.iterdir() if path.name not in allowed]
    left += [path.name for path in disk.rglob("*.tmp")] + [p.name for p in disk.rglob("*.part")]
    return [f"{name}: left {left}"] if left else []


def _command_refused(folder: Path, log: str) -> list[str]:
    """The command line on a full disk: status 2 and one line."""
    disk = folder / "disk"
    with small_disk(disk, "64k"):
        _fill(disk)
        with mock.patch("sys.stderr") as stream:
            status = main(
                ["solve", "catalogue:panda", log, "-o", str(disk / "o.npz"), "--json"]
            )
        text = "".join(str(call.args[0]) for call in stream.write.call_args_list if call.args)
    return [] if status == 2 and "space" in text else [f"command: status {status}, {text!r}"]


def clock_jumps(folder: Path) -> Outcome:
    """The clock jumps by years, forth and back, under cache, search and campaign."""
    checks: list[tuple[str, bool]] = []
    real, real_ns = time.time, time.time_ns
    with own_cache(folder / "cache"):
        for jump in (10 * YEAR, -20 * YEAR, 0.0):
            patched = (
                mock.patch("time.time", lambda jump=jump: real() + jump),
                mock.patch("time.time_ns", lambda jump=jump: real_ns() + int(jump * 1e9)),
            )
            with patched[0], patched[1]:
                checks.append(("kernel", _right(_fresh())))
                cache = KernelCache(folder / "cache", limit_bytes=5000)
                for k in range(4):  # more than fits: something is removed, never the newest
                    cache.put(fingerprint("entry", k), bytes(2000))
                    kept = cache.get(fingerprint("entry", k)) is not None
                    checks.append((f"entry {k}", kept))
                begin = time.monotonic()
                request = read_request("synthetic:chain:4", "published:sie_friction_fy")
                request.plan(Search(seconds=0.3))
                seconds = time.monotonic() - begin
                checks.append((f"search took {seconds:.0f} s", seconds < PATIENCE))
    meaning = "kernels found and stored, the newest entry kept, searches end on time"
    wrong = [what for what, right in checks if not right]
    survived = len(checks) - len(wrong)
    return Outcome("clock jumps by years", len(checks), survived, with_wrong(meaning, wrong))
