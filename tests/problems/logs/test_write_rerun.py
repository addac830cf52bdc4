"""Solved logs as recordings of rerun, read back with its own reader (where it is installed)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from problems.log_jobs import run_job
from problems.logs.write_rerun import entity_of
from tests.problems.command.command_line import run
from tests.problems.logs.log_cases import simulated, solving


def test_entities_are_legal_and_all_different() -> None:
    names = ["torque.a", "std.torque.a", "torque.a[0]", "torque.a b", "residual.x/y.z"]
    found = [entity_of(name) for name in names]
    assert found == [
        "/torque/a",
        "/torque/a/std",
        "/torque/a/0",
        "/torque/a_b",
        "/residual/x/y/z",
    ]
    assert len(set(found)) == len(names)


def test_a_recording_holds_every_number(problem_file: Path) -> None:
    chunk = pytest.importorskip("rerun.chunk", reason="no rerun-sdk (170 MB), or an older one")
    simulated(problem_file)
    outputs = ("torque", "std.torque", "chi_square")
    for output in ("out.npz", "out.rrd"):
        run_job(solving(problem_file, output, outputs=outputs))
    solved = np.load(problem_file.parent / "out.npz")
    found: dict[str, dict[int, float]] = {}
    for part in chunk.RrdReader(problem_file.parent / "out.rrd").stream().to_chunks():
        if "time" in part.timeline_names:
            batch = part.to_record_batch()
            times = batch.column("time").cast("int64").to_pylist()
            values = [v for (v,) in batch.column("Scalars:scalars").to_pylist()]
            found.setdefault(part.entity_path, {}).update(zip(times, values, strict=True))
    times = [round(t * 1e9) for t in solved["time"]]
    assert sorted(found["/chi_square"]) == times
    values = [found["/chi_square"][t] for t in times]
    np.testing.assert_array_equal(values, solved["chi_square"])
    assert len(found) == 2 * solved["torque"].shape[1] + 1
    assert sum(path.endswith("/std") for path in found) == solved["torque"].shape[1]


def test_a_package_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, problem_file: Path
) -> None:
    log = simulated(problem_file)
    monkeypatch.setitem(sys.modules, "rerun", None)
    out = problem_file.parent / "out.rrd"
    status, _, err = run(capsys, "solve", problem_file, log, "-o", out)
    assert status == 2 and "pip install 'dynsys-robotics[rerun]'" in err and not out.exists()
