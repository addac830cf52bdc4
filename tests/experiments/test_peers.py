"""The comparison with the peers runs, agrees with them, and reports what it measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pinocchio")

from dynsys import ModelError, synthetic
from dynsys.recursive import aba, crba, rnea
from experiments.peers.build import Builder, Compiler, find_compilers
from experiments.peers.dynamics import (
    Built,
    RobotReport,
    compare,
    plot,
    results,
    show,
)
from experiments.peers.pinocchio import reference
from experiments.peers.robots import ROBOTS, PeerRobot, peer_robot, robot_file, to_pinocchio
from experiments.peers.timing import (
    TASKS,
    Contender,
    Effort,
    Timing,
    cores,
    largest_difference,
    measure,
    symmetric_from_upper,
    write_json,
)

TINY = Effort(states=3, batch=5, passes=2, seconds_per_run=1e-6)


@pytest.fixture(scope="module")
def ur5() -> PeerRobot:
    return peer_robot("ur5")


@pytest.mark.parametrize("name", ROBOTS)
def test_both_libraries_hold_the_same_robot(name: str) -> None:
    peer = peer_robot(name)
    states = peer.states(2)
    answers = reference(peer, states)
    for k, (q, v, qdd, torque) in enumerate(
        zip(states.q, states.v, states.qdd, states.torque, strict=True)
    ):
        own = {
            "ID": rnea(peer.robot, q, v, qdd),
            "FD": aba(peer.robot, q, v, torque),
            "CRBA": crba(peer.robot, q),
            "Minverse": np.linalg.inv(crba(peer.robot, q)),
        }
        for task in TASKS:
            # icub's inertia is ill-conditioned: Pinocchio's own two ABA differ by 5e-6
            tolerance = 1e-11 if task in ("ID", "CRBA") else 1e-4 if name == "icub" else 1e-8
            assert largest_difference(own[task][None], answers[task][k : k + 1]) < tolerance


@pytest.mark.slow
def test_comparison_of_one_robot(ur5: PeerRobot) -> None:
    report = compare(ur5, Built(), TINY, core=_any_core())
    modes = {(t.who, t.task, t.mode) for t in report.timings}
    for task in TASKS:
        for mode in ("one state", "python", "batch", "two threads"):
            assert ("ours", task, mode) in modes
    for task in ("ID", "FD"):
        assert ("pinocchio wheel", task, "one state") in modes
        assert set(report.ratios(task)) == {
            "one / wheel", "batch / wheel", "python", "threads", "second core"
        }  # fmt: skip
    assert all(t.difference < 1e-10 and t.median_ns > 0 for t in report.timings)


def test_report_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("COLUMNS", "200")
    timings = [
        Timing("ours", "ID", "one state", 50.0, 49.0, 1e-15, None),
        Timing("casadi c", "ID", "one state", 60.0, 59.0, 1e-15, None),
        Timing("pinocchio c++ local", "CRBA", "one state", 90.0, 80.0, 1e-15, None),
        Timing("pinocchio c++ world", "CRBA", "one state", 70.0, 65.0, 1e-15, None),
    ]
    reports = [RobotReport("ur5", 6, timings)]
    show(reports)
    shown = capsys.readouterr().out
    assert "50 (1e-15)" in shown and "1.20!" in shown
    best = reports[0].find("pinocchio c++", "CRBA", "one state")
    assert best is not None and best.median_ns == 70.0
    write_json(tmp_path / "peers.json", results({"core": 0}, reports))
    written = json.loads((tmp_path / "peers.json").read_text())["robots"]["ur5"]
    assert written["ratios"]["ID"] == {"one / casadi": 1.2}
    assert written["required"]["ID"]["one / casadi"] == 1.5
    plot(tmp_path / "peers.png", reports)
    assert (tmp_path / "peers.png").stat().st_size > 0


def test_required_ratios_of_generic_chains_are_lower() -> None:
    assert RobotReport("chain30_generic", 30).bars("FD")["one / wheel"] == 3.5
    assert RobotReport("talos", 50).bars("FD")["one / wheel"] == 4.5
    assert RobotReport("chain30", 30).bars("FD") == {}


def test_contenders_take_turns() -> None:
    turns: list[str] = []

    def contender(name: str) -> Contender:
        return Contender(
            name, "ID", "batch", 1, lambda r: turns.append(name), lambda: np.ones(1)
        )

    times = measure([contender("a"), contender("b")], passes=3, seconds_per_run=1e-9)
    assert turns[-6:] == ["a", "b"] * 3
    assert all(median >= low >= 0 for median, low in times)


def test_symmetric_from_upper() -> None:
    H = np.array([[[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]]])
    assert np.array_equal(symmetric_from_upper(np.array([[1.0, 2, 3, 4, 5, 6]]), 3), H)


def test_robot_file_has_one_line_per_joint(ur5: PeerRobot) -> None:
    lines = robot_file(ur5.model).splitlines()
    assert len(lines) == 6
    assert all(len(line.split()) == 2 + 3 + 9 + 3 + 1 + 3 + 9 for line in lines)


def test_joints_outside_the_comparison_are_refused() -> None:
    with pytest.raises(ModelError, match="spherical"):
        to_pinocchio(synthetic.random_tree(2, 0, joint_types=["spherical"]))
    with pytest.raises(ModelError, match="no robot 'ur6'"):
        peer_robot("ur6")


def test_long_builds_only_on_request(tmp_path: Path) -> None:
    compiler = Compiler("no-such-cc", "no-such-cxx", "none 0")
    pytest.importorskip("casadi")
    builder = Builder([compiler], build=False, say=lambda _: None, folder=tmp_path)
    assert builder.pinocchio_loops() is None
    assert builder.casadi_functions("ur5", "") == []
    assert list(tmp_path.iterdir()) == []


def test_small_products_are_built_once(tmp_path: Path) -> None:
    compilers = find_compilers()
    if not compilers:
        pytest.skip("no C compiler")
    builder = Builder(compilers, build=False, say=lambda _: None, folder=tmp_path)
    first = builder.casadi_loop()
    stamp = first.stat().st_mtime_ns
    assert builder.casadi_loop() == first and first.stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def _any_core() -> int:
    return min(cores())
