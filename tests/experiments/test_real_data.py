"""Real measurements, where they are at hand: what they say stays what it was."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from experiments import real_data

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real logs are not here")


@needs_data
def test_a_plate_under_a_person_is_predicted_without_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = real_data.human(DATA)
    assert told["mean_vertical_force"] == pytest.approx(604.92, abs=0.01)
    before, after = told["plate_rms_from_motion"], told["plate_rms_identified"]
    assert before[5] < 1.5 and after[5] < 1.5  # fz, of 605 N
    assert all(x < y for x, y in zip(after, before, strict=True))
    assert max(told["chest_rms_aligned"]) < 0.7 * max(told["chest_rms"])
