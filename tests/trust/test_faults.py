"""Faults in small: the injections of experiments/trust/faults.py, a few times each.

The regression tests of what the large campaigns found are here too.
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import DynsysError, resumable
from dynsys.errors import CampaignError, LogError, PlanFileError
from dynsys.plan.search.campaign import Campaign, CampaignTask
from experiments.trust.faults import FAULTS, inject
from experiments.trust.faults_common import Outcome, forks, killed_at_work, undisturbed
from problems.command import detect
from problems.command.main import main
from problems.log_jobs import ChunkStore, SimulateJob, run_chunks, run_job
from problems.robots import read_robot
from tests.processes import LIMIT, started

SMALL: dict[str, dict[str, Any]] = {
    "threads": {"threads": 6, "rounds": 1},
    "fork": {"children": 2},
    "spawn": {"children": 1},
    "kill_compile": {"kills": 2},
    "kill_cache": {"kills": 4},
    "kill_log": {"kills": 2, "samples": 200},
    "kill_plan": {"kills": 1},
    "full_disk_cache": {},
    "full_disk_output": {},
    "read_only_cache": {},
    "clock": {},
    "soak": {"states": 4e5},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_fault_is_survived(name: str) -> None:
    outcome = inject(name, **SMALL[name])
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.injected > 0
    assert outcome.ok, outcome.meaning


def test_every_fault_is_tried_here_or_elsewhere() -> None:
    """Dask's are in tests/problems and tests/ordering, and below; they start clusters."""
    assert set(FAULTS) - set(SMALL) == {"dask_worker", "dask_scheduler"}


def test_an_outcome_that_lost_something_is_not_ok() -> None:
    assert not Outcome("x", 3, 2, "").ok


def _note_and_work(file: str, seconds: float) -> None:
    with open(file, "a") as stream:
        stream.write("begun\n")
    time.sleep(seconds)
    with open(file, "a") as stream:
        stream.write("over\n")


@pytest.mark.slow
def test_only_kills_of_a_process_at_work_count(tmp_path: Path) -> None:
    """A kill after the end of the work once counted as an injection that was survived."""
    files = [str(tmp_path / str(k)) for k in range(3)]
    waiting = iter(zip(files, (0.0, 0.0, 600.0), strict=True))
    (hit, _) = killed_at_work(_note_and_work, lambda: next(waiting), 4.0)
    assert hit == files[2]
    assert ["over" in Path(file).read_text() for file in files] == [True, True, False]


def test_work_that_fails_by_itself_is_no_injection(tmp_path: Path) -> None:
    folder = str(tmp_path)
    with pytest.raises(RuntimeError, match="unkilled"):
        killed_at_work(_note_and_work, lambda: (folder, 0.0), 20.0)
    with pytest.raises(RuntimeError, match="unkilled"):
        undisturbed(_note_and_work, (folder, 0.0))


# ---- what was found ----------------------------------------------------------------


@pytest.mark.finding("H-2")
def test_robots_layouts_problems_and_plans_travel_by_pickle(
    humanoid: dynsys.KinematicTree,
) -> None:
    """H-2: a spawned process or a cluster could not be handed a problem."""
    layout = sensors.catalogue.load("nao", humanoid)
    forward = problems.ForwardDynamics(humanoid)
    q, v = humanoid.random_configuration(0), np.ones(humanoid.nv)
    expected = forward.solve(q, v, v).qdd  # holds machine code now
    robot, again, estimation, hybrid, plan = pickle.loads(
        pickle.dumps(
            (
                humanoid,
                layout,
                problems.Estimation(humanoid, layout),
                problems.HybridDynamics(humanoid, ["l_knee"]),
                forward.plan(),
            )
        )
    )
    assert robot.body_names == humanoid.body_names
    assert list(robot.frames) == list(humanoid.frames)
    assert not robot.bodies[0].inertia.com.flags.writeable
    assert again.fingerprint() == layout.fingerprint()
    assert estimation.layout.names == layout.names
    assert hybrid.known.sum() == 1
    assert str(plan) == str(forward.plan())
    solved = pickle.loads(pickle.dumps(forward)).solve(q, v, v)
    np.testing.assert_array_equal(solved.qdd, expected)


def _no_space(*_: object, **__: object) -> None:
    raise OSError(28, os.strerror(28))


@pytest.mark.finding("H-3")
def test_plans_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-3: a full disk or a missing folder was an OSError with a traceback."""
    plan = problems.InverseDynamics(dynsys.synthetic.chain(2)).plan()
    with pytest.raises(PlanFileError, match="No such file"):
        plan.save(tmp_path / "nowhere" / "arm.plan")
    monkeypatch.setattr(os, "replace", _no_space)
    with pytest.raises(PlanFileError, match="No space left"):
        plan.save(tmp_path / "arm.plan")
    assert list(tmp_path.iterdir()) == []


def _robot(file: Path) -> None:
    dynsys.synthetic.chain(2).to_urdf(file)


def _layout(file: Path) -> None:
    robot = dynsys.synthetic.chain(2)
    sensors.Layout(robot, sensors.all_joint_torques(robot, std=1.0)).save(file)


def _contacts(file: Path) -> None:
    detect._write(file, {}, [])


@pytest.mark.parametrize(
    ("write", "name"),
    [(_robot, "r.urdf"), (_layout, "l.yaml"), (_contacts, "c.csv"), (_contacts, "c.json")],
)
@pytest.mark.finding("Y-41")
def test_files_are_written_whole_or_stay_as_they_were(
    tmp_path: Path, write: Callable[[Path], None], name: str
) -> None:
    """A full disk left half a robot in the place of the old one; others were OSErrors."""
    file = tmp_path / name
    file.write_text("what was there")
    small = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, small))
    try:
        with pytest.raises(DynsysError, match=f"{name}: cannot be written.* File too large"):
            write(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (small, small))
        signal.signal(signal.SIGXFSZ, before)
    assert [x.name for x in tmp_path.iterdir()] == [name]
    assert file.read_text() == "what was there"
    with pytest.raises(DynsysError, match=r"cannot be written: .* No such file"):
        write(tmp_path / "nowhere" / name)
    write(file)
    assert file.read_text() != "what was there"


def test_writers_of_one_file_do_not_write_into_each_other(tmp_path: Path) -> None:
    """Threads of one process shared the place of their unfinished files."""
    file = tmp_path / "file"
    with resumable.replacing(file) as first:
        first.write_text("first")
        with resumable.replacing(file) as second:
            second.write_text("second")
        assert (file.read_text(), first.read_text()) == ("second", "first")
    assert file.read_text() == "first" and list(tmp_path.iterdir()) == [file]


@pytest.mark.finding("H-4")
def test_chunks_that_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-4: a disk that filled up under a running log was an OSError with a traceback."""
    store = ChunkStore(tmp_path, b"job", 10, 5, 2)
    store.put(0, np.zeros((5, 2)))
    monkeypatch.setattr(os, "replace", _no_space)
    with pytest.raises(LogError, match="No space left"):
        store.put(1, np.zeros((5, 2)))
    assert store.missing() == [1]
    assert [path.name for path in store.folder.iterdir()] == ["00000000.chunk"]


def test_chunks_have_the_bytes_of_numpy(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path, b"job", 4, 4, 3)
    rows = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    store.put(0, rows)
    np.testing.assert_array_equal(next(iter(store)), rows)


@pytest.mark.finding("H-5")
def test_campaigns_that_cannot_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-5: a full disk under a campaign was an OSError, and left a temporary file."""
    task = CampaignTask({"x": 1})
    (tmp_path / "file").touch()
    with pytest.raises(CampaignError, match="cannot be used"):
        Campaign(tmp_path / "file", (task,)).run(dict)
    monkeypatch.setattr(os, "replace", _no_space)
    with pytest.raises(CampaignError, match="No space left"):
        Campaign(tmp_path / "campaign", (task,)).run(dict)
    assert not list((tmp_path / "campaign").glob(".*"))


def test_the_command_says_that_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["plan", "synthetic:chain:2", "-o", str(tmp_path / "nowhere" / "x.plan")])
    assert status == 2
    assert "cannot be written" in capsys.readouterr().err


def _dies_with_the_output_in_hand(job: SimulateJob) -> None:
    replace = os.replace

    def die(source: Path, target: Path) -> None:
        if target == Path(job.output):
            os._exit(9)
        replace(source, target)

    os.replace = die
    run_job(job)


@pytest.mark.finding("H-10")
def test_a_run_killed_at_its_end_leaves_nothing_behind(tmp_path: Path) -> None:
    """H-10: the output as far as it was written stayed beside it, whatever ran later."""
    job = SimulateJob("catalogue:panda", str(tmp_path / "log.npz"), duration=0.01)
    process = forks().Process(target=_dies_with_the_output_in_hand, args=(job,), daemon=True)
    process.start()
    process.join(LIMIT)
    assert process.exitcode == 9
    assert [path.name for path in tmp_path.iterdir()] == ["log.npz.partial"]
    run_job(job)
    assert [path.name for path in tmp_path.iterdir()] == ["log.npz"]


class _LostCluster(Executor):
    """A cluster whose scheduler is gone."""

    at_once = 2

    def submit(self, *_: Any, **__: Any) -> Any:
        raise type("CommClosedError", (OSError,), {})("connection reset by peer")


WORKERS = """
import os, time
from dynsys.resumable import executor
if __name__ == "__main__":
    with executor(2) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        time.sleep(600)
"""


@pytest.mark.finding("Y-43")
def test_workers_end_with_a_run_that_is_killed(tmp_path: Path) -> None:
    """They waited for tasks for ever, and held what the run had opened."""
    (tmp_path / "run.py").write_text(WORKERS)
    with started(
        [sys.executable, tmp_path / "run.py"],
        env=os.environ | {"PYTHONPATH": str(Path(dynsys.__file__).parents[1])},
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        worker = int(run.stdout.readline())
        run.kill()
        try:
            # the pipe ends when nobody holds it any more
            ended, _, _ = select.select([run.stdout], [], [], 120.0)
            assert ended and not run.stdout.read()
        finally:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


@pytest.mark.finding("H-6")
def test_a_lost_cluster_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H-6: a killed Dask scheduler was Dask's CommClosedError with a traceback."""
    monkeypatch.setattr(resumable, "executor", lambda *_: nullcontext(_LostCluster()))
    store = ChunkStore(tmp_path, b"job", 10, 5, 2)
    with pytest.raises(LogError, match="cluster was lost"):
        run_chunks(store, lambda k: np.zeros((5, 2)), lambda _: None, scheduler="tcp://gone:1")


def test_outputs_handed_in_take_the_fast_way() -> None:
    """H-7: ``solve(..., out=)`` converted, copied and allocated; the answer was right."""
    robot = read_robot("example:humanoid", floating_base=True).robot
    q, v, out = robot.random_configuration(0), np.ones(robot.nv), np.empty(robot.nv)
    inverse = problems.InverseDynamics(robot)
    expected = inverse.solve(q, v, v).torque
    kept = inverse.solve(q, v, v, out=out)
    assert kept.torque is out
    np.testing.assert_array_equal(out, expected)
    assert isinstance(kept._q, bytes)  # q: not the array the careful way copies
    with pytest.raises(DynsysError, match="out"):
        inverse.solve(q, v, v, out=np.empty(3))
