"""Nothing in a log is too short for its report: all samples are judged, and drawn per pixel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sensors
from dynsys.types import Array
from problems import Estimation
from problems.report import build_report, estimation_subject, render
from problems.report.estimates import PIXELS, Extremes, log_part, solve_log
from tests.problems.logs.test_judge import ARM, ARM_PROBLEM, LINKS, PUSH, N, content

N_LONG = 12_000


def long_log(push: float, folder: Path) -> Path:
    """The log of a push of 40 ms in 12 s, the rest repeated."""
    short, calm = content(push), content()
    parts = [calm] * 5 + [short] + [calm] * 4
    arrays = {k: np.concatenate([part[k] for part in parts]) for k in calm}
    arrays["time"] = np.arange(N_LONG) / 1000.0
    np.savez(folder / "long.npz", **arrays)  # type: ignore[arg-type]
    return folder / "long.npz"


@pytest.mark.parametrize("n", [1, 7, PIXELS, 3 * PIXELS + 17])
def test_extremes_of_every_pixel_are_kept(n) -> None:
    rng = np.random.default_rng(n)
    values: Array = rng.normal(size=(n, 3))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    values[n // 3 : n // 2, 1] = np.nan
    found = Extremes(n, 3)
    for start in range(0, n, 50):
        found.take(values[start : start + 50], start)
    pixel = np.arange(n) * found.pixels // n
    for k in range(3):
        where, drawn = found.series(k)
        np.testing.assert_array_equal(drawn, values[where, k])
        assert (np.diff(where) > 0).all() and where[0] == 0 and where[-1] == n - 1
        for p in range(found.pixels):
            of_pixel, shown = values[pixel == p, k], drawn[pixel[where] == p]
            if np.isfinite(of_pixel).any():
                assert np.nanmin(shown) == np.nanmin(of_pixel)
                assert np.nanmax(shown) == np.nanmax(of_pixel)
            else:
                assert len(shown) and np.isnan(shown).all()


@pytest.mark.finding("N-7", "item 3")
def test_a_push_nobody_expects_is_named_in_the_report(tmp_path) -> None:
    subject = estimation_subject("arm.yaml", ARM_PROBLEM)
    log = log_part(subject, solve_log(subject, long_log(60.0, tmp_path)))
    assert log.solved == log.judgement.samples == N_LONG
    (event,) = log.judgement.events
    assert event.first == 5 * N + PUSH.start and event.last - event.first == 40
    page = render(build_report(subject, log=tmp_path / "long.npz", timed=False))
    assert f"The readings disagree, 6.7 to 6.739 s (40 samples): suspect {LINKS[1]}/no" in page
    assert "contradict the model (p &lt; 0.01)" in page


def test_a_push_that_is_estimated_is_seen_and_named(tmp_path) -> None:
    """The second link may be touched: no contradiction, but a peak of 40 ms in 12 s."""
    others = [s for s in ARM_PROBLEM.layout if not s.name.startswith(f"{LINKS[1]}/no")]
    problem = Estimation(ARM, sensors.Layout(ARM, others))
    arrays = dict(np.load(long_log(60.0, tmp_path)))
    rows = [ARM_PROBLEM.layout.labels.index(label) for label in problem.layout.labels]
    arrays["y"] = arrays["y"][:, rows]
    np.savez(tmp_path / "touched.npz", **arrays)
    subject = estimation_subject("arm.yaml", problem)
    log = log_part(subject, solve_log(subject, tmp_path / "touched.npz"))
    assert not log.judgement.events
    body, force, time = log.peaks[0]
    assert body == LINKS[1] and force == pytest.approx(60, rel=0.1) and 6.7 <= time < 6.74
    (series,) = [s for s in log.wrenches if s.name == f"{LINKS[1]} fy"]
    assert np.nanmax(np.abs(series.value)) == pytest.approx(60, rel=0.1)
    assert len(series.time) <= 2 * PIXELS + 2
    page = render(build_report(subject, log=tmp_path / "touched.npz", timed=False))
    assert f"N on {LINKS[1]} at 6.7" in page
