"""``dynsys plan`` and ``dynsys compare``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from dynsys import KernelBuildError, LayoutError, Plan, synthetic
from dynsys.plan.search.search import Search
from problems import Estimation, order_comparison
from problems.command.main import main
from problems.order_comparison import compare
from problems.planning import plan_task, read_request
from sensors import Layout, published

ARM = """<robot name="arm"><link name="base"/><link name="rod"><inertial><mass value="{mass}"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/></joint></robot>
"""
LINKAGE = """<mujoco><worldbody><body name="a"><joint axis="0 1 0"/><geom size="0.1"/>
<body name="b" pos="1 0 0"><joint axis="0 1 0"/><geom size="0.1"/></body></body></worldbody>
<equality><connect name="pin" body1="b" body2="world" anchor="1 0 0"/></equality></mujoco>"""
CELLS = ["synthetic:auto_tree:5:1:1.5:1", "--problem", "published:sie_friction"]


def output(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_dynamics_need_no_search(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert (
        main(["plan", "synthetic:chain:4", "--problem", "id", "-o", str(path), "--json"]) == 0
    )
    told = output(capsys)
    assert (
        told["method"] == "symmetric" and told["operations"] == Plan.load(path).operations.total
    )


@pytest.mark.slow
def test_search_is_repeatable_and_saved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = []
    for name in ("a", "b"):
        path = tmp_path / name
        search = ["--evaluations", "60", "--seed", "2", "-o", str(path), "--json"]
        assert main(["plan", *CELLS, *search]) == 0
        told.append(output(capsys))
    assert told[0] == told[1]
    assert told[0]["method"] == "recursion" and told[0]["evaluations"] == 60
    first, second = (Plan.load(tmp_path / name) for name in ("a", "b"))
    assert first.order == second.order and first.layout is not None


@pytest.mark.slow
def test_plan_for_people_and_pictures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    assert main(["plan", *CELLS, "--plot", str(tmp_path)]) == 0
    assert "operations without search" in capsys.readouterr().out
    assert (tmp_path / "plan.png").stat().st_size > 10_000


def test_layout_files_are_problems(tmp_path: Path) -> None:
    robot = synthetic.auto_tree(5, 1, 1.5, 1.0)
    path = tmp_path / "layout.yaml"
    published.sie_friction(robot).save(path)
    request = read_request("synthetic:auto_tree:5:1:1.5:1", str(path))
    assert request.system.shape == (100, 100) and request.dynamics is None
    few = Layout(robot, published.sie_friction(robot).sensors[:-1])
    few.save(path)
    request = read_request("synthetic:auto_tree:5:1:1.5:1", str(path))
    with pytest.raises(LayoutError, match="95 equations for 100 unknowns"):
        compare(request, states=2, seed=0, timed=False)
    with pytest.raises(KernelBuildError, match="do not determine everything"):
        request.plan(Search())


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("nonsense", "no problem 'nonsense'"),
        ("published:sie_frictio", "did you mean"),
        ("hybrid:nojoint", "nojoint"),
    ],
)
def test_bad_problems_are_one_line(
    problem: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "synthetic:chain:5", "--problem", problem]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.slow
def test_campaign_resumes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = [
        "plan", "synthetic:auto_tree:4:1:1.5:1", "synthetic:auto_tree:5:1:1.5:1", "--problem",
        "published:sie_friction", "--problem", "fd", "--seeds", "2", "--evaluations", "6",
        "--campaign", str(tmp_path), "--json",
    ]  # fmt: skip
    assert main(asked) == 0
    told = output(capsys)
    summary = told["summary"]
    assert isinstance(summary, dict) and (summary["before"], summary["computed"]) == (0, 8)
    assert main(asked) == 0
    again = output(capsys)["summary"]
    assert isinstance(again, dict) and (again["before"], again["computed"]) == (8, 0)
    assert len(list(tmp_path.glob("*.json"))) == 8
    assert main([*asked[:-2], str(tmp_path)]) == 0
    assert "8 known before" in capsys.readouterr().out


@pytest.mark.finding("P-5")
def test_a_campaign_tells_files_from_others_of_the_same_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A robot that had changed kept its old results."""
    robot, folder = tmp_path / "arm.urdf", str(tmp_path / "results")
    asked = ["plan", str(robot), "--evaluations", "1", "--campaign", folder, "--json"]
    for mass, computed in ((1, 1), (1, 0), (2, 1)):
        robot.write_text(ARM.format(mass=mass))
        assert main(asked) == 0
        summary = output(capsys)["summary"]
        assert isinstance(summary, dict) and summary["computed"] == computed
    payload = {"robot": "synthetic:chain:2", "problem": "fd", "floating_base": False}
    with pytest.raises(LayoutError, match="has changed since this task was made"):
        plan_task({**payload, "seed": 0, "evaluations": 1, "content": "of another"})


def test_several_problems_need_a_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "synthetic:chain:3", "synthetic:chain:4"]) == 2
    assert "--campaign" in capsys.readouterr().err
    assert main(["plan", "synthetic:chain:3", "--campaign", "x"]) == 2
    assert "--evaluations" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "beside"),
    [("id", ["RNEA, the recursion"]), ("fd", ["ABA, the recursion", "CRBA + LTDL"])],
)
def test_compare_beside_the_recursions(
    problem: str, beside: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    asked = ["compare", "synthetic:chain:3", "--problem", problem, "--no-time", "--json"]
    assert main([*asked, "--plot", str(tmp_path)]) == 0
    told = output(capsys)
    rows = told["rows"]
    assert isinstance(rows, list)
    by_name = {row["name"]: row for row in rows}
    assert set(beside) <= set(by_name)
    assert by_name["peeled, Markowitz (fill)"]["fill"] is not None
    if problem == "id":
        assert by_name["leaf to root"]["fill"] == 0
    ours = by_name["symmetric pairs (ours)"]["executed"]
    assert ours <= min(by_name[name]["executed"] for name in beside[:1])
    pictures = told["pictures"]
    assert isinstance(pictures, list) and pictures
    assert all(Path(picture).stat().st_size > 5000 for picture in pictures)


def test_compare_has_the_plan_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The README's operations were in no row."""
    cells = ["synthetic:chain:4", "--problem", "published:sie_friction"]
    assert main(["compare", *cells, "--states", "2", "--json"]) == 0
    rows = output(capsys)["rows"]
    assert isinstance(rows, list)
    first = rows[0]
    assert main(["plan", *cells, "--json"]) == 0
    plan = output(capsys)
    assert first["name"] == f"{plan['method']} (ours)" and first["nanoseconds"] > 0
    robot = synthetic.chain(4)
    planned = Estimation(robot, published.sie_friction(robot)).plan()
    assert first["executed"] == planned.operations.total <= min(r["executed"] for r in rows[1:])


def test_what_holds_is_compared_too(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "linkage.xml"
    path.write_text(LINKAGE)
    request = read_request(str(path), "fd+constraints")
    first = compare(request, states=2, seed=0, timed=False)[0]
    assert first.executed == request.problem.plan().operations.total
    assert first.executed > read_request(str(path), "fd").problem.plan().operations.total


@pytest.mark.slow
def test_compare_for_people_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "synthetic:chain:2", "--problem", "id"]) == 0
    text = capsys.readouterr().out
    assert "published rules" in text and "worst pivot" in text


def test_joint_that_moves_no_inertia_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(
        "<robot name='arm'><link name='base'/><link name='tip'/>"
        "<joint name='wrist' type='continuous'><parent link='base'/><child link='tip'/></joint>"
        "</robot>"
    )
    for command in (["plan"], ["compare", "--no-time", "--states", "2"]):
        assert main([command[0], str(path), *command[1:]]) == 2
        assert "the acceleration of joint 'wrist' is not determined" in capsys.readouterr().err


def test_a_search_without_success_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "synthetic:chain:2", "--problem", "fd"]
    assert main([*asked, "--evaluations", "2"]) == 0
    assert "no better order found" in capsys.readouterr().out
    assert main(asked) == 0
    assert "no better order found" not in capsys.readouterr().out


def test_compare_measures_the_processor_not_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sleeper:
        def batch(self, x: np.ndarray) -> None:
            time.sleep(2e-3)

    monkeypatch.setattr(order_comparison, "ROUND_SECONDS", 2e-4)
    measured = order_comparison._batch_nanoseconds(Sleeper(), np.zeros((1, 1)))
    assert measured < 1e6
