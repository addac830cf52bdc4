"""Times of answers: the first ones, those of threads, those without the extra ``fast``."""

from __future__ import annotations

import pytest

from dynsys import synthetic
from experiments import threads
from experiments.plain import table
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


def test_times_with_and_without_machine_code_stand_beside_each_other() -> None:
    fast = {"dynamics": [0.1, 9e-7, 1.5e-5], "search": 1500}
    plain = {"dynamics": [0.03, 1.2e-5, 4.4e-4], "search": 24}
    assert table(fast, plain).splitlines()[2:] == [
        "| dynamics | 100 ms / 30 ms | 900 ns / 12 us | 15 us / 440 us |",
        "| search: orders priced | | | 1500 / 24 |",
    ]
