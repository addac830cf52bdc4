"""Real measurements, where they are at hand: what they say stays what it was, and is drawn."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from experiments.figures import save
from experiments.real_data import parts as real_data
from experiments.real_data import pictures as real_pictures

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real logs are not here")


@needs_data
def test_a_plate_under_a_person_is_predicted_without_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = real_data.human(DATA).told
    assert told["mean_vertical_force"] == pytest.approx(604.92, abs=0.01)
    before, after = told["plate_rms_from_motion"], told["plate_rms_identified"]
    assert before[5] < 1.1 and after[5] < 1.15  # fz, of 605 N
    assert after[3] < 1.3  # fx; 2.56 by the accelerations of the file, which are too small
    assert all(x < y for x, y in zip(after[:5], before[:5], strict=True))
    assert max(told["chest_rms_aligned"]) < 0.7 * max(told["chest_rms"])
    mass = told["identified"]["mass of the torso by itself"]
    assert abs(mass["mass"] - 61.69) < 3 * mass["mass_std"] < 0.3


@needs_data
@pytest.mark.slow
def test_torques_of_arms_are_drawn(tmp_path: Path) -> None:
    real_data.main(["--data", str(DATA), "--only", "arms", "--pictures", str(tmp_path)])
    assert {p.name for p in tmp_path.iterdir()} == {"ur10_torques.png", "panda_torques.png"}


# ---- pictures of made-up numbers: no data needed ---------------------------------------------


def series(rng, n: int, size: int) -> np.ndarray:
    return rng.normal(size=(n, size)).cumsum(axis=0)


def made_up() -> dict[str, real_pictures.Drawn]:
    rng, n = np.random.default_rng(0), 60
    time = np.arange(n) / 10
    y = series(rng, n, 3)
    arm = {"time": time, "measured": y, "model": y + 1, "found": y + 0.1, "low": y - 1}
    arm |= {"high": y + 1, "joints": ["a", "b", "c"], "trained": 6.0}
    rates = {"seen": 1.0, "link_right": 0.5, "link_among": 1.0, "momentum_observer": 1.0}
    pushes = [{"newton": 1.0, **rates, "seen": 0.0, "link_right": None}]
    pushes += [{"newton": size, **rates} for size in (2.0, 5.0)]
    alarm = {"per_hour": 600.0, "on": "second half", "promised": 2.0, "counted": 3}
    detection = {"time": time, "free": np.ones(n), "pushed": np.full(n, 30.0)}
    detection |= {"threshold": 20.0, "pushes": [(1.0, 2.0)], "events": [(1.1, 2.0)]}
    detection |= {"top": 60.0, "newton": 5.0, "seconds": 1.0, "per_hour": 600.0}
    detection |= {"alarms": [alarm], "rows": dict.fromkeys(real_data.PLACES, pushes)}
    force = {"force": series(rng, n, 3), "std": np.ones((n, 3))}
    six, three = (dict.fromkeys(("measured", "before", "after"), y[:, [0] * k]) for k in (6, 3))
    feet = {"time": time, "left": y[:, 0], "right": y[:, 1], "expected": y[:, 2]}
    return {
        "arms": {"robot": arm},
        "contact": {"time": time, "urdf": force, "identified": force, "detection": detection},
        "human": {"time": time, "plate": six, "chest": three},
        "icub": {"weight": 10.0, "logs": {"walking": feet | {"correlation": 0.1}}},
    }


@pytest.mark.parametrize("part", list(real_data.PARTS))
def test_every_part_has_pictures_with_units_on_their_axes(part: str, tmp_path: Path) -> None:
    figures = real_pictures.pictures_of(part, made_up()[part])
    written = save(tmp_path, figures, dpi=40)
    assert written and all(path.stat().st_size > 2000 for path in written)
    for figure in figures.values():
        panels = [panel for panel in figure.axes if panel.get_visible()]
        labels = [panel.get_ylabel() or panel.get_title() for panel in panels]
        said = [any(c in text for c in "[-") or "alarms" in text for text in labels]
        assert all(said), labels


def test_a_picture_says_the_rms_that_it_shows() -> None:
    (figure,) = real_pictures.pictures_of("arms", made_up()["arms"]).values()
    titles = [panel.get_title() for panel in figure.axes if panel.get_visible()]
    assert all("rms 1.00 → 0.10 N m, 100% in the band" in title for title in titles)
    assert len(titles) == 3
