"""Work through a log: chunks, workers, resumption, outputs."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dynsys.resumable import run_open
from dynsys.types import Array
from problems import ContradictionError
from problems.command.main import main
from problems.log_jobs import ChunkStore, SimulateJob, SolveJob, _meaning, forget, run_job
from problems.logs import LogError
from tests.problems.logs.log_cases import digest, simulated, solving
from tests.processes import dynsys_started


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


def test_chunks_of_another_shape_are_refused(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path, b"job", 10, 4, 1)
    with pytest.raises(LogError, match="chunk 2 has shape"):
        store.put(2, np.zeros((4, 1)))


@pytest.mark.slow
def test_a_killed_process_leaves_no_output_and_can_go_on(problem_file: Path) -> None:
    log = simulated(problem_file)
    output = problem_file.parent / "out.npz"
    arguments = ["solve", str(problem_file), str(log), "-o", str(output), "--chunk", "2"]
    with dynsys_started(*arguments, stdout=None, stderr=None) as process:
        while not list(problem_file.parent.glob("out.npz.partial/*/0*.chunk")):
            assert process.poll() is None
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


@pytest.mark.finding("Y-46")
def test_no_output_becomes_part_of_the_bag_it_is_made_from(problem_file: Path) -> None:
    """The run ended, all work done, with "has changed while it was read", again and again."""
    bag = problem_file.parent / "bag"
    bag.mkdir()
    simulated(problem_file, "log.mcap").rename(bag / "log.mcap")
    with pytest.raises(LogError, match="would become part of the log"):
        run_job(SolveJob(str(problem_file), str(bag), str(bag / "out.npz")))
    assert [path.name for path in bag.iterdir()] == ["log.mcap"]


# ---- what a run goes on with: its own work, whole, and nothing else -------------------------


def torques(problem: Path) -> SolveJob:
    """Solve for torques alone, which takes little."""
    return solving(problem, "out.npz", chunk=20, outputs=("torque",))


def interrupted(job: SolveJob | SimulateJob, after: int = 3) -> Path:
    """Run a job until so many chunks are done; the folder of these."""

    def stop(done: int, total: int) -> Callable[[int], None]:
        counted = [done]

        def advance(more: int) -> None:
            counted[0] += more
            if counted[0] >= after:
                raise KeyboardInterrupt

        return advance

    with pytest.raises(KeyboardInterrupt):
        run_job(job, progress=stop)
    (folder,) = Path(job.output + ".partial").glob("*/")
    assert len(list(folder.glob("*.chunk"))) == after
    return folder


def expected(job: SolveJob) -> bytes:
    """What the job writes when nothing happens to it."""
    other = replace(job, output=str(Path(job.output).with_name("undisturbed.npz")))
    run_job(other)
    return Path(other.output).read_bytes()


@pytest.mark.finding("P-1", "item 4")
def test_a_log_replaced_by_one_of_equal_size_and_time_is_another(problem_file: Path) -> None:
    """Identity was path, size and time: 720 of 2000 rows were those of the old log."""
    log = simulated(problem_file)
    before, stamp = log.read_bytes(), log.stat()
    job = torques(problem_file)
    interrupted(job)
    simulated(problem_file, seed=1)
    assert log.stat().st_size == stamp.st_size and log.read_bytes() != before
    os.utime(log, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert run_job(job).resumed == 0
    assert Path(job.output).read_bytes() == expected(job)
    log.write_bytes(before)  # and one that only moved in time is the same
    interrupted(job)
    os.utime(log)
    assert run_job(job).resumed == 60


def _zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def _short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(bytes(content))


def _swapped(file: Path) -> None:
    file.write_bytes(file.with_name("00000001.chunk").read_bytes())


def _a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [_zeroed, _short, _empty, _flipped, _swapped])
@pytest.mark.finding("P-2", "item 4")
def test_damaged_chunks_are_computed_again(
    problem_file: Path, damage: Callable[[Path], None]
) -> None:
    """A zeroed chunk gave wrong output with exit 0, a short one fewer rows."""
    simulated(problem_file)
    job = torques(problem_file)
    folder = interrupted(job)
    damage(folder / "00000000.chunk")
    assert run_job(job).resumed == 40
    assert Path(job.output).read_bytes() == expected(job)


def test_a_chunk_that_cannot_be_replaced_is_named(problem_file: Path) -> None:
    simulated(problem_file)
    job = torques(problem_file)
    _a_folder(interrupted(job) / "00000000.chunk")
    with pytest.raises(LogError, match="cannot be written"):
        run_job(job)
    run_job(job, fresh=True)
    assert Path(job.output).read_bytes() == expected(job)


def test_a_disk_that_loses_what_is_written_is_not_tried_for_ever(tmp_path: Path) -> None:
    class Lossy(list[int]):
        def __call__(self) -> list[int]:
            return [0]

    with pytest.raises(OSError, match="damaged as soon as they are written"):
        run_open(Lossy(), lambda k: k, lambda k, x: None)


@pytest.mark.finding("P-6")
def test_a_chunk_that_a_late_worker_of_another_job_writes_does_not_count(
    tmp_path: Path,
) -> None:
    """Workers outlive a killed run for a moment; what they write is of their own job."""
    ours, theirs = (ChunkStore(tmp_path, job, 8, 4, 1) for job in (b"ours", b"theirs"))
    ours.put(0, np.zeros((4, 1)))
    theirs.put(1, np.ones((4, 1)))
    assert ours.missing() == [1]
    with pytest.raises(LogError, match="damaged"):
        _ = [*ChunkStore(tmp_path, b"ours", 12, 4, 1)]


def _with(problem: Path, **changes: Any) -> Callable[[], None]:
    def change() -> None:
        content = yaml.safe_load(problem.read_text())
        problem.write_text(yaml.safe_dump(content | changes))

    return change


@pytest.mark.finding("P-11", "tests that cannot fail")
def test_every_change_of_the_problem_begins_anew(problem_file: Path) -> None:
    """Prior, differentiation and topics could change, and no test noticed."""
    simulated(problem_file)
    original = problem_file.read_text()
    job = torques(problem_file)
    window = {"log": {"differentiate": {"window": 0.05}}}
    changes: dict[str, tuple[SolveJob, Callable[[], None]]] = {
        "prior": (job, _with(problem_file, prior={"std": {"external_wrench": 100.0}})),
        "prior, in a late digit": (
            job,
            _with(problem_file, prior={"std": {"external_wrench": 100.0 + 1e-12}}),
        ),
        "differentiation": (job, _with(problem_file, **window)),
        "topics": (job, _with(problem_file, log={"topics": {"imu": "/imu"}})),
        "columns": (job, _with(problem_file, log={"columns": {"ft": "force"}})),
        "outputs": (replace(job, outputs=()), _with(problem_file, outputs=["torque", "qdd"])),
        "outputs asked for": (replace(job, outputs=("qdd",)), lambda: None),
        "missing": (replace(job, allow_missing=True), lambda: None),
        "chunk": (replace(job, chunk=10), lambda: None),
    }
    seen = {_meaning(job)}
    for other, change in changes.values():
        problem_file.write_text(original)
        change()
        forget()
        seen.add(_meaning(other))
    assert len(seen) == 1 + len(changes), "each differs from every other"
    problem_file.write_text(original)
    interrupted(job)
    changes["prior"][1]()
    assert run_job(job).resumed == 0
    assert Path(job.output).read_bytes() == expected(job)


def test_every_setting_of_a_simulation_begins_anew(problem_file: Path) -> None:
    job = SimulateJob(str(problem_file), str(problem_file.parent / "log.npz"), duration=0.1)
    seen = {_meaning(job)}
    for name, value in vars(job).items():
        if name not in ("problem", "output", "trajectory", "spool", "meant"):
            other = "x" if value == "" else not value if value is False else value + 1
            seen.add(_meaning(replace(job, **{name: other})))
    _with(problem_file, log={"topics": {"imu": "/imu"}})()
    seen.add(_meaning(job))
    assert len(seen) == 1 + len(vars(job)) - 5 + 1


@pytest.mark.finding("P-3", "item 4")
def test_two_runs_on_one_output_refuse(problem_file: Path) -> None:
    """They deleted each other's chunks."""
    simulated(problem_file)
    job = torques(problem_file)
    seen: list[str] = []

    def second(done: int, total: int) -> Callable[[int], None]:
        with pytest.raises(LogError, match="another run is writing it") as refused:
            run_job(replace(job, chunk=10), fresh=True)
        seen.append(str(refused.value))
        return lambda _: None

    assert run_job(job, progress=second).resumed == 0
    assert "out.npz" in seen[0]
    assert Path(job.output).read_bytes() == expected(job)
    names = {path.name for path in problem_file.parent.iterdir()}
    assert names == {problem_file.name, "log.npz", "out.npz", "undisturbed.npz"}


def test_a_log_that_changes_while_it_is_read_is_refused(problem_file: Path) -> None:
    log = simulated(problem_file)
    job = torques(problem_file)

    def change(done: int, total: int) -> Callable[[int], None]:
        log.write_bytes(log.read_bytes())
        return lambda _: None

    with pytest.raises(LogError, match="changed while it was read"):
        run_job(job, progress=change)
    assert not Path(job.output).exists() and run_job(job).resumed == 0


def test_a_problem_that_changes_before_a_worker_reads_it_is_refused(problem_file: Path) -> None:
    simulated(problem_file)
    job = replace(solving(problem_file, "out.npz"), meant="of another problem")
    with pytest.raises(LogError, match="has changed since this run began"):
        job.work(0)


# ---- samples that cannot be solved ----------------------------------------------------------


@pytest.mark.finding("P-7", "item 10")
def test_one_sample_that_overflows_is_missing_and_named(problem_file: Path) -> None:
    """It ended the whole job, as 'state 50' for sample 65."""
    log = simulated(problem_file)
    arrays = dict(np.load(log))
    job = solving(problem_file, "out.npz", chunk=30, outputs=("torque", "chi_square"))
    run_job(job)
    before = dict(np.load(job.output))
    arrays["qd"][65, 1] = 1e200
    np.savez(log, **arrays)
    with np.errstate(all="ignore"):
        finished = run_job(job)
    after = dict(np.load(job.output))
    assert (finished.failed, finished.missing_rows) == (1, 1)
    assert f"{log}, sample 65 ({arrays['time'][65]:.6g} s): the eq" in finished.why
    assert "state" not in finished.why.split("the equations")[0]
    for name in after:
        others = np.delete(np.arange(100), 65)
        np.testing.assert_allclose(after[name][others], before[name][others], rtol=1e-9)
        assert name == "time" or np.isnan(after[name][65]).all()


def test_a_log_of_which_no_sample_can_be_solved_is_refused(problem_file: Path) -> None:
    log = simulated(problem_file)
    arrays = dict(np.load(log))
    arrays["qd"][:, 1] = 1e200
    np.savez(log, **arrays)
    with np.errstate(all="ignore"), pytest.raises(LogError, match="no sample can be solved"):
        run_job(torques(problem_file))


def test_a_contradiction_names_the_sample_of_the_log(problem_file: Path) -> None:
    joint = yaml.safe_load(problem_file.read_text())["layout"]["sensors"][2]["at"]
    twins = [{"kind": "joint_torque", "name": name, "joint": joint, "std": 0} for name in "ab"]
    layout = {"sensors": [{"all_joint_accelerations": {"std": 0.1}}, *twins]}
    _with(problem_file, layout=layout, outputs=["torque"])()
    log = simulated(problem_file)
    arrays = dict(np.load(log))
    arrays["b"][65] += 1.0
    np.savez(log, **arrays)
    with pytest.raises(ContradictionError, match=r"sample 65 \(0\.325 s\): "):
        run_job(solving(problem_file, "out.npz", chunk=30))


@pytest.mark.finding("P-4")
def test_unpacked_messages_are_those_of_the_bag_and_whole(problem_file: Path) -> None:
    """A bag replaced by another was solved from what had been unpacked of the old one."""
    pytest.importorskip("mcap_ros2")
    bag, output = simulated(problem_file, "log.mcap"), problem_file.parent / "out.npz"
    job = SolveJob(str(problem_file), str(bag), str(output), ("torque",), 20)
    folder = interrupted(job)
    for file in folder.glob("spool/*.f8"):
        file.write_bytes(bytes(file.stat().st_size))
    assert run_job(job).resumed == 60
    assert output.read_bytes() == expected(job)
    interrupted(job)
    simulated(problem_file, "log.mcap", seed=1)
    assert run_job(job).resumed == 0
    assert output.read_bytes() == expected(job)


def test_the_rate_of_a_resumed_job_counts_what_was_done(
    problem_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = simulated(problem_file)
    job = solving(problem_file, "out.npz", chunk=1)
    interrupted(job, after=90)
    assert main(["solve", str(problem_file), str(log), "-o", job.output, "--chunk", "1"]) in (
        0,
        1,
    )
    told = capsys.readouterr().out
    assert "90 of them from an interrupted run" in told
    seconds, rate = map(float, re.findall(r"100 samples in (\S+) s \((\d+) per s\)", told)[0])
    assert (seconds - 0.05) * (rate - 0.5) < 10
