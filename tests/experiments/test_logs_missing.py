"""Logs with readings missing in small: machine code answers as the dense posterior does."""

from __future__ import annotations

import pytest

from experiments.logs_missing import CASES, measure


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case != "complete"])
def test_a_log_is_answered_as_the_dense_posterior_does(case: str) -> None:
    report = measure("solo12", case, 300)
    assert report.passes and report.methods.get("dense", 0) < 6
    assert report.methods["reduced"] > 100
    assert (report.open_samples > 0) == (case == "20 % missing")
