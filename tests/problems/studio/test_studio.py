"""Sessions of the studio without a browser: what actions change, what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import splu

import dynsys
import sensors
from dynsys import DynsysError, KinematicTree, LayoutError
from dynsys.errors import RefusedError
from dynsys.system.equations import Kinematics
from problems import Estimation
from problems.problem_file import ProblemFile, load_problem
from problems.studio import palette
from problems.studio.background import job_of, run_task
from problems.studio.contacts import declared_frames
from problems.studio.palette import with_usual_noise
from problems.studio.server import ACTIONS
from problems.studio.shapes import MOST_TRIANGLES
from tests.problems.studio.studio_cases import UNTOUCHED, act, session_on, torques, work
from tests.robots import robot_path


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


def sensor(view: dict[str, Any], name: str) -> Any:
    (found,) = [s for s in view["sensors"] if s["name"] == name]
    return found


def test_a_moved_sensor_keeps_its_name_and_is_placed_within_its_link(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    act(session, "add", kind="imu", place="link_3")
    somewhere = {"xyz": [0.1, 0.0, -0.2], "rpy": [0.0, 0.5, 0.0]}
    imu = sensor(act(session, "place", name="link_3/imu", **somewhere), "link_3/imu")
    assert imu["pose"] == somewhere and imu["at"] == somewhere["xyz"]
    assert session.layout["link_3/imu"].rpy == (0.0, 0.5, 0.0)  # type: ignore[attr-defined]
    view = act(session, "move", name="link_3/imu", body="link_1")
    assert view["selected"] == "link_3/imu"  # logs know it by that
    imu = sensor(view, "link_3/imu")
    assert imu["place"] == "link_1" and imu["body"] == 0 and imu["at"] == [0.0, 0.0, 0.0]
    with pytest.raises(DynsysError, match="link_9"):
        act(session, "move", name="link_3/imu", body="link_9")
    view = act(session, "add", kind="joint_torque", place="link_2")
    assert sensor(view, "link_2/torque")["pose"] == {}
    with pytest.raises(LayoutError, match="sits on a joint"):
        act(session, "place", name="link_2/torque", **somewhere)
    act(session, "add", kind="pure_force", place="link_2")
    with pytest.raises(LayoutError, match="no angles"):
        act(session, "place", name="link_2/pure_force", **somewhere)
    act(session, "add", kind="force_torque", place="link_2")
    view = act(session, "place", name="link_2/force_torque", **somewhere)
    assert sensor(view, "link_2/force_torque")["at"] == somewhere["xyz"]


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


def test_what_compiling_costs_is_told_before(tmp_path: Path) -> None:
    layout = {"sensors": ["all_joint_torques", *UNTOUCHED["sensors"]]}
    session = session_on(tmp_path, layout=layout)
    price = work(session)["tasks"]["price"]
    act(session, "compile")
    compiled = work(session)["tasks"]["compile"]
    assert price["operations"] == compiled["operations"]
    assert 0.1 < price["seconds"] < 2 and 0.5 < price["microseconds"] < 10
    act(session, "remove", name="link_2/torque")
    assert "do not determine" in work(session)["tasks"]["price"]["refused"]


def test_a_search_tells_its_progress_and_its_plan_is_saved_and_run(tmp_path: Path) -> None:
    layout = {
        "sensors": [
            {"kind": "imu", "name": "hand", "frame": "link_3", "std": 0.1},
            "all_joint_accelerations",
            "all_joint_torques",
            *UNTOUCHED["sensors"],
        ]
    }
    session = session_on(tmp_path, layout=layout)
    background: Any = session.background
    work(session)
    act(session, "search", seconds=0.5)
    (_, _, told), seen = background.waiting["s/search"], []
    told({"seconds": 0.1, "operations": 7})
    assert act(session, "look")["tasks"]["search"]["operations"] == 7

    def listen(facts: dict[str, Any]) -> None:
        seen.append(facts)
        told(facts)

    job, done, _ = background.waiting["s/search"]
    background.waiting["s/search"] = job, done, listen
    found = work(session)["tasks"]["search"]
    assert found["state"] == "done" and found["operations"] <= found["before"]
    assert seen[-1]["operations"] <= seen[0]["before"] == found["before"]
    assert seen[-1]["wanted"] == 0.5
    act(session, "compile")
    compiled = work(session)["tasks"]["compile"]
    assert compiled["operations"] == found["operations"] and compiled["searched"]
    saved = act(session, "save", file="planned", overwrite=False)["saved"]
    assert saved == "planned.yaml and planned.plan.json"
    problem = load_problem(tmp_path / "planned.yaml")
    assert problem.planned.executes is not None
    assert problem.planned.executes.operations.total == found["operations"]
    act(session, "stop")
    assert background.stopped == ["s/search"]
    # the plan is of these sensors: with others it is not offered
    act(session, "remove", name="hand")
    assert act(session, "save", file="other", overwrite=False)["saved"] == "other.yaml"


def test_a_sensor_whose_side_is_not_known_is_refused(tmp_path: Path) -> None:
    """The foot's mounting plate carries no sole: a sensor there does not feel the ground."""
    for touched, side in (("l_foot", None), ("l_sole", "before"), ("l_foot_ft", "beyond")):
        layout = {"sensors": [{"zero_external_wrench_except": [touched]}]}
        session = session_on(tmp_path, "example:humanoid", layout, floating=True)
        before = session.layout
        if side is None:
            with pytest.raises(LayoutError, match="'l_foot' is the whole body"):
                act(session, "add", kind="force_torque", place="l_foot_ft")
            assert session.layout is before
        else:
            act(session, "add", kind="force_torque", place="l_foot_ft")
            assert session.layout["l_foot_ft/force_torque"].external == side


def test_contacts_are_told_at_the_frames_that_are_declared(tmp_path: Path) -> None:
    """Of the layout, of an output, of a sensor; and they outlive saving."""
    layout = {"sensors": ["all_joint_torques", {"zero_external_wrench_except": ["l_sole"]}]}
    outputs = ("torque", "external_wrench.r_hand")
    session = session_on(tmp_path, "example:humanoid", layout, floating=True, outputs=outputs)
    (contact,) = act(session, "hello")["glance"]["wrenches"]
    pose = dynsys.forward_kinematics(session.robot, session.q, "l_sole")
    assert contact["frame"] == "l_sole"
    np.testing.assert_allclose(contact["point"], pose.r, atol=1e-5)
    assert "external wrench at l_sole" in act(session, "look")["glance"]["words"]
    view = act(session, "remove", name="r_hand/no_contact")
    assert {w["frame"] for w in view["glance"]["wrenches"]} == {"l_sole", "r_hand"}
    view = act(session, "add", kind="load_cell_plate", place="l_foot_ft")
    assert {w["frame"] for w in view["glance"]["wrenches"]} == {"l_foot_ft", "r_hand"}
    act(session, "undo")
    act(session, "save", file="kept", overwrite=False)
    kept = load_problem(tmp_path / "kept.yaml")
    text = (tmp_path / "kept.yaml").read_text()
    assert "no_contact" not in text and "l_sole" in text
    assert kept.sensors.names == session.layout.names
    assert declared_frames(kept) == ("l_sole", "r_hand")


def test_robots_with_meshes_are_shown_with_them(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    path = str(robot_path("ur_description/urdf/ur5_robot.urdf"))
    session = session_on(tmp_path, path)
    view = act(session, "hello")
    assert view["looks"] == {"state": "pending", "meshes": 0}
    view = work(session)
    assert view["looks"]["meshes"] == 7 and view["looks"]["notes"] == []
    assert "shapes" not in view["looks"]  # every answer would carry them
    shapes = act(session, "looks")["shapes"]
    assert {shape["body"] for shape in shapes} == set(range(-1, 6))
    assert sum(len(shape["triangles"]) for shape in shapes) / 3 < MOST_TRIANGLES
    # the forearm of a UR5 is 0.39 m long
    (forearm,) = [s for s in shapes if s["body"] == session.robot.body_index("forearm_link")]
    extent = np.ptp(np.reshape(forearm["points"], (-1, 3)), axis=0) * session.scene()["grain"]
    assert 0.4 < extent.max() < 0.6
    assert max(forearm["triangles"]) < len(forearm["points"]) / 3
    plain = session_on(tmp_path)
    assert work(plain)["looks"] == {"state": "done", "meshes": 0}
    assert act(plain, "looks")["shapes"] == []


def test_without_a_reader_of_meshes_the_page_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trimesh", None)
    session = session_on(tmp_path, str(robot_path("ur_description/urdf/ur5_robot.urdf")))
    looks = work(session)["looks"]
    assert looks["meshes"] == 0 and "dynsys-robotics[meshes]" in looks["missing"]


def test_answers_to_an_older_layout_are_dropped(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    background: Any = session.background
    old = dict(background.waiting)
    act(session, "add", kind="joint_torque", place="link_1")
    for _, done, _ in old.values():
        done({"status": "of another layout", "plan": "of another layout"})
    assert act(session, "look")["tasks"]["verdict"] == {"state": "pending"}
    assert act(session, "save", file="it", overwrite=False)["saved"] == "it.yaml"


def test_of_two_equal_questions_the_last_is_answered(tmp_path: Path) -> None:
    session = session_on(tmp_path)
    background: Any = session.background
    act(session, "search", seconds=1)
    _, first, _ = background.waiting["s/search"]
    act(session, "search", seconds=2)
    first({"operations": 1, "plan": "the first"})
    assert act(session, "look")["tasks"]["search"] == {"state": "pending"}
    assert act(session, "save", file="it", overwrite=False)["saved"] == "it.yaml"
    background.waiting["s/search"][1]({"operations": 2, "plan": "the last"})
    assert act(session, "look")["tasks"]["search"] == {"state": "done", "operations": 2}


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
            "seconds": 0.1,
            "xyz": rng.normal(size=3).tolist(),
            "rpy": choice([0.0, 0.0, 0.0], [0.1, 0.2, 0.3]),
        }
        action = choice(*ACTIONS)
        try:
            view = act(session, action, **{key: values[key] for key in ACTIONS[action]})
        except DynsysError:
            continue
        done += 1
        json.dumps(view, allow_nan=False)
    assert done > 20


def test_usual_noise_of_some_components() -> None:
    some = sensors.ExternalWrench("some", "link_1", components=("fx", "ty", "fz"))
    assert with_usual_noise(some).std == (0.5, 0.05, 0.5)


def test_operations_of_a_sparse_solve_are_those_of_its_factors() -> None:
    robot = dynsys.synthetic.chain(20)  # many unknowns are left by exact rows
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.5),
            *(sensors.ExternalWrench(f"{n} felt", n, std=0.2) for n in robot.body_names),
        ],
    )
    file = ProblemFile("synthetic:chain:20", layout.content())
    facts = run_task(job_of(file, layout.content(), "cost"))
    assert facts["method"] in ("superlu", "cholmod")
    measured = Estimation(robot, layout).measured
    q = robot.random_configuration(0)
    (D, _), (Y, _) = measured.at(Kinematics.at(robot, q, np.zeros(robot.nv)))
    present = np.ones(layout.size, dtype=bool)
    factors = splu(measured.saddle().at(D.data, Y.data, present).matrix)
    L, U = factors.L.toarray() != 0, factors.U.toarray() != 0
    count = 2 * int(factors.L.nnz + factors.U.nnz)
    for k in range(len(L)):  # a division, and a product and a sum for each entry to the right
        count += int(L[k + 1 :, k].sum()) * (1 + 2 * int(U[k, k + 1 :].sum()))
    assert facts["operations"] == count
