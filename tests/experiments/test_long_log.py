"""The long log in small: two ways to run, one worker killed, the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.long_log import measure


@pytest.mark.slow
@pytest.mark.trust
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    report = measure(
        tmp_path,
        problem="catalogue:panda",
        seconds=0.6,
        rate=1000,
        outputs=("torque", "std.torque", "chi_square"),
        workers=2,
        chunk=20,
    )
    assert (report.samples, report.killed_workers) == (600, 1)
    assert report.same_bytes
    assert 0 < report.peak_gib < 2
