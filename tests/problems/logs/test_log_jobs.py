"""Work through a log: chunks, workers, resumption, outputs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dynsys.types import Array
from problems.log_jobs import ChunkStore, SimulateJob, SolveJob, run_job
from problems.logs import LogError
from tests.problems.logs.log_cases import digest, simulated, solving


@pytest.mark.slow
def test_all_ways_to_run_give_the_same_bytes(problem_file: Path) -> None:
    simulated(problem_file, missing=0.02)
    jobs = [solving(problem_file, f"{name}.npz", chunk=30) for name in "abc"]
    run_job(jobs[0])
    run_job(jobs[1], workers=2)
    run_job(jobs[2], workers=2, scheduler="local")
    assert len({digest(Path(job.output)) for job in jobs}) == 1


@pytest.mark.slow
def test_an_interrupted_run_resumes(
    problem_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated(problem_file)
    whole = solving(problem_file, "whole.npz", chunk=20)
    run_job(whole)
    job = solving(problem_file, "out.npz", chunk=20)
    original = SolveJob.work

    def failing(self: SolveJob, k: int) -> Array:
        if k == 3:
            raise KeyboardInterrupt
        return original(self, k)

    monkeypatch.setattr(SolveJob, "work", failing)
    with pytest.raises(KeyboardInterrupt):
        run_job(job)
    assert not Path(job.output).exists()
    monkeypatch.setattr(SolveJob, "work", original)
    finished = run_job(job)
    assert (finished.resumed, finished.n_samples) == (60, 100)
    assert digest(Path(job.output)) == digest(Path(whole.output))


def test_another_job_does_not_resume(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "out.npz", 10, 4, 1)
    assert store.prepare({"log": 1}) == 0
    store.put(0, np.zeros((4, 1)))
    assert store.prepare({"log": 1}) == 1
    assert store.prepare({"log": 2}) == 0
    with pytest.raises(LogError, match="chunk 2 has shape"):
        store.put(2, np.zeros((4, 1)))


@pytest.mark.slow
def test_a_killed_process_leaves_no_output_and_can_go_on(problem_file: Path) -> None:
    log = simulated(problem_file)
    output = problem_file.parent / "out.npz"
    arguments = ["solve", str(problem_file), str(log), "-o", str(output), "--chunk", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "problems.command.main", *arguments]
    ) as process:
        deadline = time.monotonic() + 120
        while not list(problem_file.parent.glob("out.npz.partial/0*.npy")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert not output.exists()
    assert run_job(solving(problem_file, "out.npz", chunk=2)).resumed > 0
    assert output.exists()


def test_outputs_that_cannot_be_written(problem_file: Path) -> None:
    simulated(problem_file)
    for name, message in (("out.xls", "unknown kind of log"), ("no/out.npz", "no folder")):
        with pytest.raises(LogError, match=message):
            run_job(solving(problem_file, name))
    with pytest.raises(LogError, match="no Dask scheduler"):
        run_job(solving(problem_file, "o.npz"), scheduler="inproc://nowhere/1/1")


@pytest.mark.slow
def test_rows_without_position_are_missing_not_wrong(problem_file: Path) -> None:
    log = simulated(problem_file)
    arrays = dict(np.load(log))
    arrays["q"][7] = np.nan
    np.savez(log, **arrays)
    finished = run_job(solving(problem_file, "out.npz"))
    torque = np.load(problem_file.parent / "out.npz")["torque"]
    assert np.isnan(torque[7]).all() and np.isfinite(np.delete(torque, 7, axis=0)).all()
    assert finished.missing_rows >= 1


def test_no_output_replaces_the_log_it_is_made_from(problem_file: Path) -> None:
    log = simulated(problem_file)
    before = digest(log)
    for same in (log, log.parent / ".." / log.parent.name / log.name):
        with pytest.raises(LogError, match="would replace what it is made from"):
            run_job(SolveJob(str(problem_file), str(log), str(same)))
    with pytest.raises(LogError, match="would replace what it is made from"):
        run_job(SimulateJob(str(problem_file), str(log), trajectory=str(log)))
    assert digest(log) == before
