"""The time until the first answer is measured in processes of their own."""

from __future__ import annotations

import pytest

from dynsys.model import synthetic
from experiments import threads
from experiments.start_up import PROBLEMS, measure


@pytest.mark.slow
def test_planned_and_compiled_then_loaded() -> None:
    found = measure(["synthetic:chain:2"], layouts=())
    assert [row["problem"] for row in found] == list(PROBLEMS)
    for row in found:
        assert row["robot"] == "synthetic:chain:2"
        assert min(float(row["first_s"]), float(row["again_s"])) > 0


def test_threads_are_timed_in_turns() -> None:
    rows = threads.measure({"arm": synthetic.chain(2)}, (0.05,), turns=3)
    assert [row["task"] for row in rows] == ["ID", "FD"]
    assert all(row["states"] > 1 and row["times_faster"] > 0 for row in rows)
