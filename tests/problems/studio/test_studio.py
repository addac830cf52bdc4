"""Sessions of the studio without a browser: what actions change, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import sensors
from dynsys.errors import DynsysError, LayoutError, RefusedError
from dynsys.model.tree import KinematicTree
from problems.studio import palette
from problems.studio.server import ACTIONS
from tests.problems.studio.studio_cases import UNTOUCHED, act, session_on, torques, work


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


@pytest.mark.slow
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
