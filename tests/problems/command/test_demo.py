"""The demo: its steps agree with the truth and the twins, its log can be made again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from problems import Estimation
from problems.command import demo
from problems.command import main as cli
from problems.command.demo_log import bundled, demo_log, demo_problem


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, demo.DemoResult]]:
    """All steps of one run, whose search is short, each with what was known after it."""
    steps: list[tuple[str, demo.DemoResult]] = []
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "EVALUATIONS", 20)
        demo.tour(states=2, output=folder, tell=lambda *told: steps.append(told))
    return steps


@pytest.mark.slow
def test_bundled_log_is_what_its_module_makes() -> None:
    made, kept = demo_log(demo_problem()), np.load(bundled("humanoid_log.npz"))
    assert set(made) == set(kept.files)
    for name, values in made.items():
        scale = max(1.0, float(np.abs(values).max()))
        np.testing.assert_allclose(kept[name], values, atol=1e-6 * scale, err_msg=name)
    assert bundled("humanoid_log.npz").stat().st_size < 1_000_000


@pytest.mark.slow
def test_motion_stands_on_its_feet() -> None:
    problem, log = demo_problem(), np.load(bundled("humanoid_log.npz"))
    robot = problem.tree
    assert np.abs(log["truth.torque"][:, robot.v_slice("root")]).max() < 1e-3
    lower, upper = robot.position_limits
    assert (log["q"] >= lower - 1e-9).all() and (log["q"] <= upper + 1e-9).all()
    force = sum(log[f"truth.external_wrench.{foot}"][0, 3:] for foot in ("l_foot", "r_foot"))
    assert np.linalg.norm(force) == pytest.approx(9.81 * robot.total_mass, rel=0.35)


@pytest.mark.slow
def test_sensors_of_the_plan_just_suffice() -> None:
    problem = demo_problem()
    system = Estimation(problem.tree, demo.just_enough(problem)).system
    assert system.shape[0] == system.shape[1]


@pytest.mark.slow
def test_tour_tells_every_step_and_writes_the_report(
    capsys: pytest.CaptureFixture[str],
    tour: list[tuple[str, demo.DemoResult]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def again(*, tell: Callable[[str, demo.DemoResult], None], **_: object) -> demo.DemoResult:
        for name, result in tour:
            tell(name, result)
        return tour[-1][1]

    monkeypatch.setattr(demo, "tour", again)
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    steps = re.findall(r"^(\d)\. ", out, flags=re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5"]
    for word in ("over-determined", "operations", "95.4% expected", "hybrid", "same answers"):
        assert word in out
    report = tour[-1][1].report
    assert f"wrote {report}" in out and report.endswith("dynsys_demo.html")
    page = Path(report).read_text(encoding="utf-8")
    assert "✓ yes: over-determined" in page and "l_knee" in page
    assert "estimate minus truth" in page
    assert not re.search(r"https?://", page)


@pytest.mark.slow
def test_json_holds_what_the_tour_found(
    capsys: pytest.CaptureFixture[str],
    tour: list[tuple[str, demo.DemoResult]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "tour", lambda **_: tour[-1][1])
    assert cli.main(["demo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agrees"] is True
    assert [row["problem"] for row in told["rows"]] == ["inverse", "forward", "hybrid"]
    assert all(max(row["difference"], row["residual"]) < 1e-9 for row in told["rows"])
    assert told["verdict"]["status"] == "over-determined"
    assert told["poorer"]["well_posed"] is False and told["poorer"]["repairs"]
    assert told["plan"]["found"] <= told["plan"]["constructive"]
    assert 0.93 < told["inside"] < 0.97
    push = told["push"]
    assert abs(push["estimate"] - push["truth"]) < 4 * push["std"]
    assert set(told["seconds"]) == {name for name, _ in tour}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["difference", "residual", "pinocchio_difference"])
@pytest.mark.parametrize("wrong", [1e-3, math.nan])
def test_no_number_that_is_wrong_or_missing_agrees(what: str, wrong: float) -> None:
    row = demo.DemoRow("inverse", "rnea", 1, 1, 0.0, 0.0, 1, 1.0, 1.0)
    assert row.agrees
    assert not replace(row, **{what: wrong}).agrees


@pytest.mark.slow
def test_disagreement_is_the_answer_no(
    tour: list[tuple[str, demo.DemoResult]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = tour[-1][1]
    wrong = [replace(result.rows[0], difference=1e-3), *result.rows[1:]]
    monkeypatch.setattr(demo, "tour", lambda **_: replace(result, rows=wrong))
    assert cli.main(["demo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["agrees"] is False
