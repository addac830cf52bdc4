"""Studio without a browser: glances, sessions, files, messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynsys
import sensors
from dynsys.errors import DynsysError, LayoutError, StateError
from dynsys.model.tree import KinematicTree
from problems import Estimation, cli
from problems.prior import Prior
from problems.problem_file import load_problem
from problems.studio import palette, posture, shapes
from problems.studio.background import ProcessBackground
from problems.studio.folder import LAYOUTS, Folder, RefusedError
from problems.studio.glance import Onlooker
from problems.studio.messages import ACTIONS, MOST_BYTES, parse_message
from problems.studio.tasks import Job
from tests.problems.studio_cases import CHAIN, UNTOUCHED, act, session_on, torques, work

# ---- glance ----------------------------------------------------------------------------------


def layouts(robot: KinematicTree) -> list[sensors.Layout]:
    nao = sensors.catalogue.load("nao", robot)
    more = [*nao.sensors, sensors.JointTorque("extra", "l_hip_yaw", std=0.2)]
    return [nao, sensors.Layout(robot, more), sensors.Layout(robot, nao.sensors[2:])]


def test_glance_is_what_the_estimator_says(humanoid: KinematicTree) -> None:
    onlooker = Onlooker(humanoid)
    for seed, layout in enumerate(layouts(humanoid)):
        q = humanoid.random_configuration(seed)
        seen = onlooker.look(layout, q)
        readings = {
            s.name: np.zeros(layout.sizes[s.name]) for s in layout if s.constant(1) is None
        }
        estimate = Estimation(humanoid, layout, backend="dense").solve(
            q, np.zeros(humanoid.nv), readings
        )
        torque = np.asarray(estimate.std.torque)
        wrench = np.asarray(estimate.std.external_wrench)
        np.testing.assert_array_equal(seen.torque_open, np.isnan(torque))
        np.testing.assert_array_equal(seen.wrench_open, np.isnan(wrench))
        known, felt = ~seen.torque_open, ~seen.wrench_open
        np.testing.assert_allclose(seen.torque_std[known], torque[known], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(seen.wrench_std[felt], wrench[felt], rtol=1e-7, atol=1e-9)


def test_what_is_kept_changes_nothing(humanoid: KinematicTree) -> None:
    used = Onlooker(humanoid)
    q = humanoid.random_configuration(5)
    for layout in layouts(humanoid):
        for position in (q, humanoid.neutral(), q):
            again, fresh = (
                used.look(layout, position),
                Onlooker(humanoid).look(layout, position),
            )
            assert again.nullity == fresh.nullity and again.checks == fresh.checks
            np.testing.assert_allclose(again.torque_std, fresh.torque_std, rtol=1e-9)


def test_a_prior_counts_and_contradictions_are_told() -> None:
    robot = dynsys.synthetic.chain(2)
    layout = sensors.Layout(robot, sensors.zero_external_wrench_except(robot))
    q = robot.random_configuration(0)
    assert Onlooker(robot).look(layout, q).nullity == 2
    with_prior = Onlooker(robot, Prior({"qdd": 10.0})).look(layout, q)
    assert with_prior.is_complete and not with_prior.contradicts
    twice = [sensors.JointTorque(str(x), "link_1", value=x) for x in (0.0, 1.0)]
    contradictory = sensors.Layout(robot, [*layout.sensors, *twice])
    assert Onlooker(robot).look(contradictory, q).contradicts


def test_unseen_forces_point_where_no_sensor_looks(humanoid: KinematicTree) -> None:
    """On two load-cell soles, equal and opposite forces on the feet stay unseen."""
    layout = sensors.catalogue.load("nao", humanoid)
    seen = Onlooker(humanoid).look(layout, humanoid.random_configuration(1))
    feet = [humanoid.body_index(name) for name in ("l_foot", "r_foot")]
    forces = [
        np.asarray(seen.kinematics.poses[i].E).T @ seen.wrench_unseen[i, 3:, 0] for i in feet
    ]
    assert np.linalg.norm(forces[0]) > 0
    np.testing.assert_allclose(forces[0], -forces[1], atol=1e-7 * np.abs(forces[0]).max())


# ---- shapes and postures ---------------------------------------------------------------------


ROBOTS = ("humanoid30", "asimo", "chain", "random_tree")


@pytest.mark.parametrize("name", ROBOTS)
def test_every_body_can_be_drawn(name: str) -> None:
    build = getattr(dynsys.synthetic, name)
    robot = build(*{"chain": (4,), "random_tree": (12, 3)}.get(name, ()))
    scene = shapes.scene(robot)
    json.dumps(scene, allow_nan=False)
    for body in scene["bodies"]:
        assert body["balls"] and all(ball[3] > 0 for ball in body["balls"])


@pytest.mark.parametrize("seed", range(3))
def test_sliders_and_positions_are_the_same_posture(seed: int) -> None:
    robot = dynsys.synthetic.random_tree(
        8, seed, joint_types=("revolute", "prismatic", "spherical", "free", "planar")
    )
    q = robot.random_configuration(seed)
    again = posture.from_sliders(robot, posture.to_sliders(robot, q))
    for body in robot.body_names:
        here = dynsys.forward_kinematics(robot, q, body)
        there = dynsys.forward_kinematics(robot, again, body)
        np.testing.assert_allclose(here.E, there.E, atol=1e-9)
        np.testing.assert_allclose(here.r, there.r, atol=1e-9)
    robot.check_q(posture.first_posture(robot))
    with pytest.raises(StateError, match="sliders"):
        posture.from_sliders(robot, [0.0])


# ---- session ---------------------------------------------------------------------------------


def test_adding_sensors_determines_torques_step_by_step(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    view = act(session, "hello")
    assert set(torques(view).values()) == {None}
    assert "3 directions are seen by no sensor" in view["glance"]["words"]
    for left, joint in ((2, "link_1"), (1, "link_2"), (0, "link_3")):
        view = act(session, "add", kind="joint_torque", place=joint)
        assert view["glance"]["nullity"] == left
        assert torques(view)[joint] == pytest.approx(0.1)
    assert view["glance"]["complete"]
    assert "Everything is determined" in view["glance"]["words"]
    view = act(session, "noise", name="link_2/torque", std=[0.7])
    assert torques(view)["link_2"] == pytest.approx(0.7)
    view = act(session, "remove", name="link_2/torque")
    assert torques(view)["link_2"] is None


def test_moving_keeps_the_kind_and_renames_after_the_place(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    act(session, "add", kind="imu", place="link_3")
    view = act(session, "move", name="link_3/imu", body="link_1")
    assert view["selected"] == "link_1/imu"
    (imu,) = [s for s in view["sensors"] if s["kind"] == "imu"]
    assert imu["place"] == "link_1" and imu["body"] == 0
    with pytest.raises(DynsysError, match="link_9"):
        act(session, "move", name="link_1/imu", body="link_9")


def test_what_is_refused_changes_nothing(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    before = session.layout
    for kind, place in (
        ("joint_torque", "nose"),
        ("imu", "nose"),
        ("loop_closure", "link_1"),
        ("no_such_kind", "link_1"),
    ):
        with pytest.raises(LayoutError):
            act(session, "add", kind=kind, place=place)
    with pytest.raises(LayoutError, match="no sensor"):
        act(session, "remove", name="link_1/torque")
    with pytest.raises(RefusedError, match="nothing to undo"):
        act(session, "undo")
    assert session.layout is before


def test_undo_and_redo(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    act(session, "add", kind="joint_torque", place="link_1")
    act(session, "add", kind="joint_torque", place="link_2")
    assert act(session, "undo")["glance"]["nullity"] == 2
    view = act(session, "undo")
    assert view["glance"]["nullity"] == 3 and not view["can_undo"]
    assert act(session, "redo")["glance"]["nullity"] == 2
    act(session, "add", kind="imu", place="link_1")
    with pytest.raises(RefusedError, match="again"):
        act(session, "redo")


def test_posture_changes_what_is_seen(humanoid: KinematicTree, tmp_path: Path) -> None:
    session = session_on(tmp_path, "example:humanoid", "catalogue:nao", floating=True)
    assert act(session, "posture", which="random")["glance"]["nullity"] == 1
    view = act(session, "posture", which="neutral")
    assert view["glance"]["nullity"] == 3  # soles parallel
    moved = [x + 0.1 for x in view["values"]]
    assert act(session, "pose", values=moved)["values"] == pytest.approx(moved, abs=1e-4)
    with pytest.raises(RefusedError, match="no such posture"):
        act(session, "drop", number=0)
    drops = work(session)["tasks"]["verdict"]["rank_drops"]
    assert drops[0]["where"] == "in the neutral posture"
    assert act(session, "drop", number=0)["glance"]["nullity"] == 1 + drops[0]["lost"]


def test_verdict_repairs_and_their_adoption(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    act(session, "add", kind="joint_torque", place="link_1")
    act(session, "add", kind="joint_torque", place="link_2")
    view = work(session)
    verdict = view["tasks"]["verdict"]
    assert verdict["state"] == "done" and not verdict["well_posed"]
    assert any("link_3" in words for words in verdict["unseen"])
    view = act(session, "repair", number=0)
    assert view["tasks"]["verdict"] == {"state": "pending"}
    assert view["glance"]["complete"] and "added" not in view["selected"]
    view = work(session)
    assert view["tasks"]["verdict"]["well_posed"]
    cost = view["tasks"]["cost"]
    assert cost["operations"] > 0 and cost["microseconds"] > 0
    with pytest.raises(RefusedError, match="no such repair"):
        act(session, "repair", number=0)


def test_suggestions_lower_the_uncertainty(tmp_path: Path) -> None:
    layout = {"sensors": ["all_joint_accelerations", *UNTOUCHED["sensors"]]}
    session = session_on(tmp_path, layout=layout)
    before = torques(act(session, "suggest", goal="torque", budget=2))
    view = work(session)
    found = view["tasks"]["suggest"]
    assert found["std_after"] < found["std_before"] and found["cost"] <= 2
    after = torques(act(session, "adopt"))
    assert sum(x or 0 for x in after.values()) < sum(x or 0 for x in before.values())
    with pytest.raises(RefusedError, match="no suggestion"):
        act(session, "adopt")


def test_compiled_cost_and_refusal_to_compile(tmp_path: Path) -> None:
    layout = {"sensors": ["all_joint_torques", *UNTOUCHED["sensors"]]}
    session = session_on(tmp_path, layout=layout)
    act(session, "compile")
    compiled = work(session)["tasks"]["compile"]
    assert compiled["operations"] > 10 and 0 < compiled["microseconds"] < 1e4
    act(session, "remove", name="link_2/torque")
    act(session, "compile")
    assert "do not determine" in work(session)["tasks"]["compile"]["refused"]


def test_answers_to_an_older_layout_are_dropped(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    background: Any = session.background
    old = dict(background.waiting)
    act(session, "add", kind="joint_torque", place="link_1")
    for _, done in old.values():
        done({"status": "of another layout"})
    assert act(session, "look")["tasks"]["verdict"] == {"state": "pending"}


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


# ---- messages --------------------------------------------------------------------------------


BAD_MESSAGES = (
    b"",
    b"[]",
    b"nonsense",
    b"\xff\xfe",
    b"[" * 60_000,
    b"{}",
    b'{"action": "destroy"}',
    b'{"action": ["add"]}',
    b'{"action": "add"}',
    b'{"action": "add", "kind": "imu", "place": "x", "more": 1}',
    b'{"action": "add", "kind": 3, "place": "x"}',
    b'{"action": "add", "kind": "imu", "place": ""}',
    b'{"action": "add", "kind": "imu", "place": "a\\u0000b"}',
    b'{"action": "pose", "values": [NaN]}',
    b'{"action": "pose", "values": [1e999]}',
    b'{"action": "pose", "values": [true]}',
    b'{"action": "pose", "values": []}',
    b'{"action": "seek", "sample": -1}',
    b'{"action": "seek", "sample": 1.5}',
    b'{"action": "save", "file": "x", "overwrite": "yes"}',
    b'{"action": "suggest", "goal": "__class__", "budget": 1}',
    b'{"action": "hello", "session": 5}',
    b" " * (MOST_BYTES + 1),
)


@pytest.mark.parametrize("body", BAD_MESSAGES, ids=lambda body: repr(body[:40]))
def test_bad_messages_are_refused(body: bytes) -> None:
    with pytest.raises(RefusedError):
        parse_message(body)


@given(
    st.fixed_dictionaries(
        {"action": st.sampled_from(sorted(ACTIONS))},
        optional={
            key: st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
            for fields in ACTIONS.values()
            for key in fields
        },
    )
)
def test_any_message_is_done_or_refused(message: dict[str, Any]) -> None:
    try:
        _, action, fields = parse_message(json.dumps(message).encode())
    except RefusedError:
        return
    assert set(fields) == set(ACTIONS[action])


def test_every_kind_that_is_offered_can_be_added() -> None:
    robot = dynsys.synthetic.chain(3)
    layout = sensors.Layout(robot, [])
    for kind in palette.offered_kinds():
        sensor = palette.make_sensor(layout, kind.word, "link_2")
        facts = palette.sensor_facts(sensors.Layout(robot, [sensor]), sensor)
        assert facts["body"] == 1 and facts["rows"] >= 1 and facts["movable"]


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_actions_is_done_or_refused(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    layout = [UNTOUCHED, {"sensors": []}, {"sensors": ["all_joint_torques"]}][seed]
    session = session_on(tmp_path, f"synthetic:random_tree:4:seed={seed}", layout)

    def choice(*options: Any) -> Any:
        return options[int(rng.integers(len(options)))]

    done = 0
    for _ in range(80):
        somewhere = choice(*session.robot.body_names, *session.robot.joint_names, "nose")
        values = {
            "kind": choice(*sensors.sensor_kinds(), "no_contact", "nothing"),
            "place": somewhere,
            "body": somewhere,
            "name": choice(*session.layout.names, "nobody"),
            "std": [choice(0.0, 1e-9, 0.1, 1e9, -1.0) for _ in range(choice(1, 2, 6))],
            "values": rng.uniform(-9, 9, len(session.scene()["sliders"])).tolist(),
            "which": choice("first", "neutral", "random"),
            "number": choice(0, 3),
            "sample": choice(0, 3),
            "goal": "torque",
            "budget": 1.0,
            "file": choice("a.yaml", "../a.yaml", "log.npz"),
            "overwrite": True,
        }
        action = choice(*ACTIONS)
        try:
            view = act(session, action, **{key: values[key] for key in ACTIONS[action]})
        except DynsysError:
            continue
        done += 1
        json.dumps(view, allow_nan=False)
    assert done > 20


# ---- the other process -----------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_background_process_answers_gives_up_and_survives() -> None:
    from queue import Queue
    from time import sleep

    told: Queue[dict[str, Any]] = Queue()
    background = ProcessBackground()
    good = Job("cost", CHAIN, False, UNTOUCHED)
    try:
        background.submit("a", Job("verdict", "synthetic:nothing", False, UNTOUCHED), told.put)
        assert "nothing" in told.get(timeout=60)["failed"]
        background.submit("b", Job("no_such_task", CHAIN, False, UNTOUCHED), told.put)
        assert "KeyError" in told.get(timeout=60)["failed"]
        background.submit("c", good, told.put)
        assert told.get(timeout=60)["method"] == "dense"
        process: Any = background._process
        process.kill()
        background.submit("d", good, told.put)
        assert "ended" in told.get(timeout=60)["failed"]
        background.submit("e", Job("verdict", "synthetic:chain:40", False, UNTOUCHED), told.put)
        while background._running != "e":
            sleep(0.01)
        background.cancel("e")
        background.submit("f", good, told.put)
        assert told.get(timeout=60)["method"] == "dense"
    finally:
        background.close()
    assert told.empty()
