"""The real-time loops in small: nothing is allocated, what is measured is what is computed."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from experiments.trust.realtime import allocation_free, in_c, in_python, summary

needs_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="there is no gcc to build the loops with"
)


@pytest.mark.slow
@needs_compiler
def test_exported_c_allocates_nothing_and_computes_the_same() -> None:
    report, times = in_c(["chain6"], 0.1, 1000, 0, fifo=False)
    assert report["malloc_calls"] == 0
    assert report["same_answers"]
    assert times.shape == (100, 3)
    assert (times > 0).all()


@pytest.mark.slow
@needs_compiler
@pytest.mark.finding("H-7")
def test_python_solves_without_malloc_after_warm_up() -> None:
    report, times = in_python(["chain6"], 0.1, 1000, 0, fifo=False)
    assert set(report["compute_us"]) == {"chain6 ID", "chain6 FD"}
    assert len(times) == 100
    for row in report["allocations"].values():
        assert row["malloc_calls"] == 0
        assert row["blocks_gained"] <= 16


def test_percentiles_are_microseconds() -> None:
    told = summary(np.arange(1, 100_001) * 1000)
    assert told["median"] == pytest.approx(50000, abs=1)
    assert told["worst"] == 100000
    assert told["p99_99"] == pytest.approx(99990, abs=1)


def test_an_allocating_loop_is_told() -> None:
    quiet = {"calls": 1, "malloc_calls": 0, "blocks_gained": 0}
    c = {"malloc_calls": 0, "same_answers": True}
    assert allocation_free({"Python": {"allocations": {"ID": quiet}}, "C": c})
    for wrong in ({"malloc_calls": 1}, {"blocks_gained": 1000}):
        told = {"Python": {"allocations": {"ID": quiet | wrong}}, "C": c}
        assert not allocation_free(told)
    assert not allocation_free(
        {"Python": {"allocations": {"ID": quiet}}, "C": c | {"malloc_calls": 2}}
    )
