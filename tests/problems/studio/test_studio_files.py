"""Files of the studio: layouts saved and opened inside one folder, logs played."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynsys
import sensors
from dynsys import DynsysError, LayoutError
from dynsys.errors import RefusedError
from problems.command import main as cli
from problems.problem_file import load_problem
from problems.studio.files import LAYOUTS, Folder
from tests.problems.studio.studio_cases import CHAIN, act, session_on, work

# ---- files -----------------------------------------------------------------------------------


def test_saved_layouts_have_the_same_verdict_for_dynsys_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = session_on(tmp_path)
    for joint in ("link_1", "link_3"):
        act(session, "add", kind="joint_torque", place=joint)
    act(session, "add", kind="imu", place="link_2")
    view = work(session)
    assert act(session, "save", file="mine", overwrite=False)["saved"] == "mine.yaml"
    status = cli.main(["check", str(tmp_path / "mine.yaml"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == view["tasks"]["verdict"]["status"]
    assert status == (0 if view["tasks"]["verdict"]["well_posed"] else 1)
    assert (
        str(load_problem(tmp_path / "mine.yaml").estimation.verdict())
        == (view["tasks"]["verdict"]["text"])
    )
    with pytest.raises(RefusedError, match="there already"):
        act(session, "save", file="mine.yaml", overwrite=False)
    act(session, "save", file="mine.yaml", overwrite=True)
    other = session_on(tmp_path)
    opened = act(other, "open", file="mine.yaml")
    assert [s["name"] for s in opened["sensors"]] == [s["name"] for s in view["sensors"]]
    assert opened["scene"]["name"] == session.robot.name


def test_a_plain_layout_file_is_opened_on_the_robot_shown(tmp_path: Path) -> None:
    robot = dynsys.synthetic.chain(3)
    sensors.Layout(robot, [sensors.Imu("hand", "link_3", std=0.1)]).save(tmp_path / "l.yaml")
    session = session_on(tmp_path)
    assert [s["name"] for s in act(session, "open", file="l.yaml")["sensors"]] == ["hand"]


def test_no_file_outside_the_folder_is_opened(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "secret.yaml"
    folder.mkdir()
    outside.write_text(f"robot: {CHAIN}\nlayout: {{sensors: []}}\n")
    (folder / "link.yaml").symlink_to(outside)
    (folder / "robot.yaml").write_text("robot: ../arm.urdf\nlayout: {sensors: []}\n")
    (folder / "layout.yaml").write_text(f"robot: {CHAIN}\nlayout: ../secret.yaml\n")
    session = session_on(folder)
    for name in ("../secret.yaml", "link.yaml", str(outside), "robot.yaml", "layout.yaml"):
        with pytest.raises(RefusedError):
            act(session, "open", file=name)
    for name in ("../new.yaml", "a/b.yaml", ".hidden.yaml", "..", "nul\0.yaml"):
        with pytest.raises(DynsysError):
            act(session, "save", file=name, overwrite=True)
    with pytest.raises(RefusedError, match="link"):
        act(session, "save", file="link.yaml", overwrite=True)
    listed = ["layout.yaml", "robot.yaml"]
    assert act(session, "files")["files"] == {"layouts": listed, "logs": []}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "secret.yaml"]


@pytest.mark.slow
@given(st.text(max_size=30))
def test_names_stay_in_the_folder(name: str) -> None:
    folder = Folder(Path(__file__).parent)
    try:
        path = folder.file(name, LAYOUTS)
    except RefusedError:
        return
    assert path.resolve().parent == folder.path


def test_a_broken_file_is_told_and_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("sensors: [{kind: imu, name: x, frame: nose}]")
    session = session_on(tmp_path)
    before = session.layout
    with pytest.raises(LayoutError, match="nose"):
        act(session, "open", file="broken.yaml")
    assert session.layout is before


# ---- log -------------------------------------------------------------------------------------


def test_a_log_that_cannot_be_shown_changes_nothing(tmp_path: Path) -> None:
    q = np.zeros((4, 3))
    np.savez(tmp_path / "good.npz", time=np.arange(4.0), q=q, qd=q)
    np.savez(tmp_path / "gap.npz", time=np.arange(4.0), q=q + np.nan, qd=q)
    np.savez(tmp_path / "none.npz", time=np.zeros(0), q=q[:0], qd=q[:0])
    session = session_on(tmp_path)
    act(session, "open_log", file="good.npz")
    for wrong in ("gap.npz", "none.npz"):
        with pytest.raises(DynsysError):
            act(session, "open_log", file=wrong)
        assert act(session, "look")["log"]["name"] == "good.npz"


def test_a_log_is_played_with_its_wrenches(tmp_path: Path) -> None:
    problem = tmp_path / "p.yaml"
    problem.write_text(
        f"robot: {CHAIN}\nlayout:\n  sensors:\n"
        "    - {kind: force_torque, name: ft, at: link_3, std: 0.01}\n"
        "    - all_joint_torques: {std: 0.1}\n    - all_joint_accelerations: {std: 0.1}\n"
        "    - zero_external_wrench_except: [link_3]\n"
    )
    log = tmp_path / "log.npz"
    simulate = ["simulate", str(problem), "-o", str(log), "--duration", "0.2", "--rate", "50"]
    assert cli.main([*simulate, "--truth", "--json"]) == 0
    session = session_on(tmp_path)
    act(session, "open", file="p.yaml")
    view = act(session, "open_log", file="log.npz")
    assert view["log"]["samples"] == 10
    view = act(session, "seek", sample=7)
    (wrench,) = view["estimate"]["wrenches"]
    truth = np.load(log)
    force = truth["truth.external_wrench.link_3"][7][3:]
    pose = dynsys.forward_kinematics(session.robot, truth["q"][7], "link_3")
    np.testing.assert_allclose(wrench["force"], pose.E.T @ force, atol=1.0)
    np.testing.assert_allclose(view["estimate"]["torques"], truth["truth.torque"][7], atol=0.5)
    act(session, "remove", name="ft")
    act(session, "add", kind="imu", place="link_2")
    view = act(session, "seek", sample=8)
    assert view["log"]["without_data"] == ["link_2/imu"]
    with pytest.raises(RefusedError, match="samples 0 to 9"):
        act(session, "seek", sample=10)
    assert act(session, "close_log")["log"] is None
    with pytest.raises(RefusedError, match="no log"):
        act(session, "seek", sample=0)
