"""What a layout determines, said before any data, in names of the robot."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

import sensors
from dynsys import KinematicTree, LayoutError, synthetic
from dynsys.model.joints import Free, Revolute
from dynsys.model.spatial import Inertia
from dynsys.model.tree import Body
from problems import Estimation
from problems.verdict.posture import PostureRank
from problems.verdict.repairs import MANY_FEET, point_feet, usual_groups
from problems.verdict.verdict import Status
from sensors import AbstractSensor, Layout, published
from sensors.yaml_input import parse_yaml
from tests.problems.estimation.estimation_cases import FEET


def two_feet(
    robot: KinematicTree, plate: type[AbstractSensor], *more: AbstractSensor
) -> Layout:
    return Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1, free=True),
            sensors.JointTorque("root/torque", "root", value=0.0),
            *sensors.zero_external_wrench_except(robot, FEET),
            plate("l_plate", "l_sole"),
            plate("r_plate", "r_sole"),
            *more,
        ],
    )


# ---- the paper's examples --------------------------------------------------------------------


@pytest.mark.slow
def test_two_feet_on_load_cells_leave_an_internal_force_unseen(humanoid) -> None:
    verdict = Estimation(humanoid, two_feet(humanoid, sensors.LoadCellPlate)).verdict()
    assert verdict.status == "singular" and not verdict.is_well_posed and not verdict
    assert verdict.nullity == 1 and verdict.rank == verdict.unknowns - 1
    assert verdict.structural_rank == verdict.unknowns
    (direction,) = verdict.directions
    assert "a pair of opposite forces on 'l_foot' and 'r_foot'" in direction.words
    assert "planes (x, y) of l_sole and r_sole meet" in direction.words
    assert "is seen by no sensor" in direction.words
    assert {part.name for part in direction.parts if part.quantity == "external_wrench"} == set(
        FEET
    )
    assert set(verdict.undetermined) == {"torque", "joint_wrench", "external_wrench"}
    assert "l_knee" in verdict.undetermined["torque"]
    assert "l_elbow" in verdict.determined["torque"]
    assert verdict.undetermined["external_wrench"].keys() == set(FEET)
    assert verdict.determined["qdd"] == tuple(
        n for n, j in zip(humanoid.joint_names, humanoid.joints, strict=True) if j.nv
    )
    assert len(verdict.repairs) >= 1


def test_flat_feet_lose_two_more_directions(humanoid) -> None:
    verdict = Estimation(humanoid, two_feet(humanoid, sensors.LoadCellPlate)).verdict(
        search=False
    )
    (drop,) = verdict.rank_drops
    assert drop.where == "in the neutral posture" and drop.lost == 2
    text = str(verdict)
    assert "in the neutral posture, 2 more are not seen, 3 in all; there:" in text
    assert "in the common plane (x, y) of l_sole and r_sole" in text
    assert "a pair of opposite torques on 'l_foot' and 'r_foot'" in text
    assert len(drop.repairs) > 1 and text.count("repair there:") == 1  # the first, by itself


@pytest.mark.finding("W3")
def test_the_first_line_tells_the_posture_where_not_everything_is_determined(humanoid) -> None:
    """One torque sees the force between the feet, but not what flat feet lose beside it."""
    hip = sensors.JointTorque("hip", "l_hip_roll", std=0.1)
    estimation = Estimation(humanoid, two_feet(humanoid, sensors.LoadCellPlate, hip))
    verdict = estimation.verdict(search=False, samples=4)
    assert verdict.is_well_posed and verdict.rank_drops[0].lost == 2
    first = (
        "over-determined: every quantity is determined at almost every posture, and readings"
        " check each other; in the neutral posture, 2 directions are not seen"
    )
    assert str(verdict).splitlines()[0].endswith(first) and verdict.headline.endswith(first)
    assert (
        first in verdict._repr_html_() and "almost every" in type(verdict).is_well_posed.__doc__
    )


@pytest.mark.finding("F9")
def test_docs_call_the_statuses_what_verdicts_call_them() -> None:
    page = (Path(__file__).parents[3] / "docs/howto/estimate.md").read_text(encoding="utf-8")
    for status in get_args(Status):
        assert f"| {status} |" in page


@pytest.mark.slow
def test_every_repair_repairs(humanoid) -> None:
    verdict = Estimation(humanoid, two_feet(humanoid, sensors.LoadCellPlate)).verdict(
        search=False
    )
    for repair in verdict.repairs:
        layout = two_feet(humanoid, sensors.LoadCellPlate, *repair.sensors)
        posture = PostureRank(
            Estimation(humanoid, layout).measured, humanoid.random_configuration(77)
        )
        assert posture.rank.nullity == 0, repair.words
    drop = verdict.rank_drops[0]
    fixed = two_feet(humanoid, sensors.LoadCellPlate, *drop.repairs[0].sensors)
    assert PostureRank(Estimation(humanoid, fixed).measured, drop.q).rank.nullity == 0


def test_repairs_can_be_pasted(humanoid, tmp_path) -> None:
    layout = two_feet(humanoid, sensors.LoadCellPlate)
    repair = Estimation(humanoid, layout).verdict(search=False, samples=4).repairs[0]
    path = tmp_path / "layout.yaml"
    layout.save(path)
    path.write_text(path.read_text() + repair.yaml)
    assert Layout.load(path, humanoid).names[-1] == repair.sensors[0].name
    assert eval(repair.python, {"sensors": sensors}) == repair.sensors[0]


@pytest.mark.slow
def test_slippery_feet_are_well_posed(humanoid) -> None:
    """All but the torsion at both feet ([NORI] eq. 23)."""
    verdict = Estimation(humanoid, two_feet(humanoid, sensors.FiveAxisPlate)).verdict()
    assert verdict.is_well_posed and verdict.status == "over-determined"
    assert not verdict.directions and not verdict.repairs and not verdict.undetermined
    # but two soles side by side have parallel normals: torsions about them cancel
    assert "opposite torques" in str(verdict.rank_drops[0].directions[0])


@pytest.mark.parametrize("n", [6, 8, 12])
def test_published_sets_have_their_published_ranks(n) -> None:
    robot = synthetic.auto_tree(n, 1, 1.5, 1)
    ranks = [
        Estimation(robot, layout(robot)).verdict(search=False).rank
        for layout in (published.sie, published.sie_friction, published.sie_friction_fy)
    ]
    assert ranks == [26 * n - 1, 26 * n, 26 * n - 1]


def test_plain_published_set_names_the_line(humanoid) -> None:
    robot = synthetic.auto_tree(6, 1, 1.5, 1)
    verdict = Estimation(robot, published.sie(robot)).verdict(search=False)
    assert verdict.status == "singular" and verdict.structural_rank == 26 * 6
    words = verdict.directions[0].words
    assert "a pair of opposite forces on 'link_6' and the base" in words
    assert "planes (x, y) of link_6 and link_1 meet" in words


def test_a_force_between_two_points_is_along_the_line_joining_them(humanoid) -> None:
    """Point contacts at both feet: nothing tells how hard they pull at each other."""
    layout = Layout(
        humanoid,
        [
            *sensors.all_joint_accelerations(humanoid, free=True),
            sensors.JointTorque("root/torque", "root", value=0.0),
            *sensors.zero_external_wrench_except(humanoid, FEET),
            sensors.PureForce("l_toe", "l_sole"),
            sensors.PureForce("r_toe", "r_sole"),
        ],
    )
    verdict = Estimation(humanoid, layout).verdict(search=False)
    assert verdict.nullity == 1
    assert "along the line joining l_sole and r_sole" in verdict.directions[0].words
    torques = {p.name for p in verdict.directions[0].parts if p.quantity == "torque"}
    legs = [name for name in humanoid.joint_names if re.match("[lr]_(hip|knee|ankle)", name)]
    assert torques == set(legs)  # the legs take it up; nothing is left for the base or the arms


def test_a_line_in_the_plane_of_one_sole_is_not_said_to_be_in_both(humanoid) -> None:
    """The left foot on load cells, of the right one nothing known: it can push anywhere."""
    layout = Layout(
        humanoid,
        [
            *sensors.all_joint_accelerations(humanoid, free=True),
            sensors.JointTorque("root/torque", "root", value=0.0),
            *sensors.zero_external_wrench_except(humanoid, FEET),
            sensors.LoadCellPlate("l_plate", "l_sole"),
        ],
    )
    verdict = Estimation(humanoid, layout).verdict(search=False)
    forces = [d.words for d in verdict.directions if "opposite forces" in d.words]
    assert verdict.nullity == 3 and len(forces) == 2
    assert all("'l_foot' and 'r_foot', along one line, is seen" in words for words in forces)


# ---- other verdicts --------------------------------------------------------------------------


def test_as_many_readings_as_needed() -> None:
    robot = synthetic.chain(4)
    layout = Layout(
        robot,
        [*sensors.all_joint_torques(robot), *sensors.zero_external_wrench_except(robot)],
    )
    verdict = Estimation(robot, layout).verdict()
    assert verdict.status == "well posed" and verdict.checks == 0
    assert verdict.rank == verdict.unknowns == 26 * 4


def test_too_few_readings_are_named_with_the_set_that_repairs_them() -> None:
    robot = synthetic.chain(4)
    layout = Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, exclude=("link_2",)),
            *sensors.zero_external_wrench_except(robot, ["link_3"]),
        ],
    )
    verdict = Estimation(robot, layout).verdict(search=False)
    assert verdict.status == "under-determined" and verdict.nullity == 7
    assert verdict.structural_rank == verdict.unknowns - 7
    (repair,) = verdict.repairs
    added = Layout(robot, [*layout.sensors, *repair.sensors])
    assert Estimation(robot, added).verdict(search=False).is_well_posed
    assert " and " in repair.words


def test_states_where_the_rank_drops_are_found() -> None:
    robot = synthetic.auto_tree(6, 1, 1.5, 1)
    problem = Estimation(robot, published.sie_friction(robot))
    drops = problem.verdict().rank_drops
    found = [drop for drop in drops if drop.where.startswith("near")]
    assert found
    singular = PostureRank(problem.measured, found[0].q).rank.singular
    assert singular[-1] < 1e-5 * singular[0]
    assert found[0].directions and found[0].condition > 1e5
    names = re.findall(r"link_\d", found[0].where)
    assert names and "link_1" not in names  # the first joint turns everything alike


def test_a_text_for_people_and_one_for_machines(humanoid) -> None:
    verdict = Estimation(humanoid, sensors.catalogue.load("nao", humanoid)).verdict(
        search=False
    )
    text = str(verdict)
    assert text.startswith("humanoid: singular: ")
    for words in (
        "not seen by any sensor:",
        "not determined:",
        "any one of these would repair it:",
    ):
        assert words in text
    assert not re.search(r"\b(row|column|index|unknown) \d", text)
    record = json.loads(json.dumps(verdict.to_json()))
    assert record["well_posed"] is False and record["repairs"][0]["yaml"].startswith("- {kind:")
    assert record["unseen"][0]["parts"][0]["quantity"] == "external_wrench"


def test_condition_numbers_are_percentiles(humanoid) -> None:
    verdict = Estimation(humanoid, two_feet(humanoid, sensors.FiveAxisPlate)).verdict(
        search=False
    )
    assert np.all(np.diff(verdict.condition) >= 0) and verdict.condition[0] >= 1


def test_what_a_layout_forgot_is_offered_as_lines_that_repair_it(humanoid) -> None:
    """The statement that nothing touches the robot, joints by the group: short, whole, true."""
    robot = humanoid
    ankles = [sensors.ForceTorque(s, f"{s}_ankle_roll", std=0.1) for s in ("l", "r")]
    imu = sensors.Imu("imu", frame="pelvis_imu", std=0.1)
    some = sensors.all_joint_accelerations(robot, std=1.0, free=False)
    held = sensors.zero_external_wrench_except(robot, ["l_sole", "r_sole"])
    for given, expected in (
        ([imu, *ankles, *some], ("zero_external_wrench_except",)),
        ([imu, *ankles], ("zero_external_wrench_except", "all_joint_accelerations")),
        ([imu, *ankles, *held], ("no drive", "all_joint_accelerations")),
        ([imu, *ankles, *held, *some[:9]], ("no drive", "every other joint")),
    ):
        verdict = Estimation(robot, Layout(robot, given)).verdict(search=False)
        repair = verdict.repairs[0]
        assert all(word in repair.words for word in expected)
        assert len(repair.groups) == len(expected)
        added = eval(f"[{repair.python}]", {"sensors": sensors, "robot": robot})
        assert [s.name for s in added] == [s.name for s in repair.sensors]
        content = yaml.safe_load(repair.yaml)
        read = Layout.read(parse_yaml(yaml.safe_dump({"sensors": content}), "repair"), robot)
        assert list(read.names) == [s.name for s in repair.sensors]
        mended = Estimation(robot, Layout(robot, [*given, *added]))
        assert mended.verdict(search=False).is_well_posed
        assert repair.yaml.strip().splitlines()[-1].strip() in str(verdict)
        assert max(map(len, str(verdict).splitlines())) < 260


def test_feet_of_a_tripod_are_offered_as_points_also_the_one_it_is_rooted_at() -> None:
    """A robot may be read from any of its links, so the first body may be a foot."""
    foot = Inertia(1.0, np.zeros(3), np.eye(3))
    bodies = [Body("foot_0", -1, Free(), inertia=foot)]
    for k, axis in ((1, [1, 0, 0]), (2, [0, 1, 0])):
        bodies.append(Body(f"foot_{k}", 0, Revolute(axis), inertia=foot))
    robot = KinematicTree("tripod", bodies)
    groups = usual_groups(Estimation(robot, Layout(robot, [])).measured)
    assert "the feet 'foot_0', 'foot_1', 'foot_2' are points" in " ".join(
        group.words for group in groups
    )


def test_what_many_parts_share_is_said_once(humanoid) -> None:
    robot = humanoid
    imu = sensors.Imu("imu", frame="pelvis_imu", std=0.1)
    text = str(Estimation(robot, Layout(robot, [imu])).verdict(search=False))
    assert text.count("external wrenches on") == 1
    assert "qdd: of every joint" in text and "external wrench: of every body" in text


def foot_on_ice() -> Estimation:
    """An arm whose hand may touch: what holds then, and what holds while it does not."""
    robot = synthetic.chain(3)
    return Estimation(
        robot,
        Layout(
            robot,
            [
                *sensors.all_joint_accelerations(robot, std=0.1),
                sensors.JointTorque("knee", robot.joint_names[1], std=0.1),
                *sensors.zero_external_wrench_except(robot, [robot.body_names[2]]),
                sensors.ExternalWrench("hand_free", robot.body_names[2], value=0.0, std=0.01),
                sensors.PureForce("hand_touches", robot.body_names[2], xyz=(0.1, 0, 0)),
            ],
        ),
    )


@pytest.mark.finding("Z-W1")
def test_what_is_lost_where_a_statement_does_not_hold_is_told() -> None:
    """As the estimate without it says: NaN for what is not determined."""
    problem = foot_on_ice()
    verdict = problem.verdict(search=False)
    told = {statement.name: statement for statement in verdict.statements}
    names = {"hand_free", "hand_touches", "link_1/no_contact", "link_2/no_contact"}
    assert verdict.is_well_posed and set(told) == names
    q, qd = problem.layout.configurations(1, 5)[0], np.zeros(3)
    links = np.array(problem.robot.body_names)
    y = np.nan_to_num(problem.layout.constants)
    for name, statement in told.items():
        e = problem.solve(q, qd, y, active={name: False})
        for kind in ("torque", "qdd", "joint_wrench", "external_wrench"):
            known = np.isfinite(e.values[kind].array).reshape(3, -1).all(axis=1)
            assert statement.undetermined.get(kind, ()) == tuple(links[~known])
    assert told["hand_touches"].lost == 0 and told["hand_free"].lost == 2
    words = str(verdict)
    assert "while these 4 statements hold" in words
    assert "where 'hand_free' does not, no longer determined: torque of link_1" in words
    kept = json.loads(json.dumps(verdict.to_json()))["statements"]
    assert {one["name"]: one["lost"] for one in kept}["link_1/no_contact"] == 6


def test_a_layout_is_judged_without_what_does_not_hold() -> None:
    problem = foot_on_ice()
    lifted = problem.verdict(search=False, active={"hand_touches": False, "hand_free": True})
    assert lifted.is_well_posed and lifted.without == ("hand_touches",)
    open_now = problem.verdict(search=False, active={"hand_free": np.False_})
    assert not open_now.is_well_posed and "without hand_free:" in open_now.headline
    assert open_now.to_json()["without"] == ["hand_free"]
    assert "link_1" in open_now.undetermined["torque"]  # what is open anyway is not lost
    assert not any("link_1" in s.undetermined.get("torque", ()) for s in open_now.statements)
    for wrong in ({"hand_fre": False}, {"hand_free": 2}, ["hand_free"]):
        with pytest.raises(LayoutError, match=r"hand_free|active"):
            problem.verdict(search=False, active=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("frames", [(1,), (0, 1), ("link_1", "link_2")])
@pytest.mark.finding("E-7")
def test_bodies_by_number_and_robots_touched_everywhere_are_judged(frames) -> None:
    """One ended in "no body or frame '1'", the others in ValueError of NumPy."""
    robot = synthetic.chain(2)
    plates = [sensors.LoadCellPlate(f"plate {x}", x, std=1.0) for x in frames]
    verdict = Estimation(robot, sensors.Layout(robot, plates)).verdict(search=False)
    assert not verdict.is_well_posed and verdict.repairs
    for repair in verdict.repairs:
        repaired = sensors.Layout(robot, [*plates, *repair.sensors], quiet=True)
        assert Estimation(robot, repaired).verdict(search=False).is_well_posed
        assert ("but 'link_2'" in repair.words) == ("nothing touches" in repair.words)


def test_what_moves_most_comes_first_whichever_way(humanoid) -> None:
    problem = Estimation(humanoid, two_feet(humanoid, sensors.LoadCellPlate))
    (direction,) = problem.verdict(search=False, samples=2).directions
    amounts = [part.amount for part in direction.parts]
    assert amounts == sorted(amounts, key=lambda amount: -abs(amount))
    assert min(amounts) < 0 < max(amounts)


def test_repairs_are_shown_whole(humanoid) -> None:
    """Each in words, the first as lines of the file."""
    layout = Layout(humanoid, sensors.zero_external_wrench_except(humanoid, FEET))
    verdict = Estimation(humanoid, layout).verdict(search=False, samples=2)
    told = [line.strip() for line in str(verdict).splitlines()]
    lines = [line.strip() for line in verdict.repairs[0].yaml.strip().splitlines()]
    assert len(lines) > 1
    at = told.index(lines[0])
    assert told[at : at + len(lines)] == lines
    assert {f"- {repair.words}" for repair in verdict.repairs} <= set(told)


def test_feet_are_points_where_they_are_many() -> None:
    feet = [f"leg_{k}_foot" for k in range(MANY_FEET)]
    assert point_feet(feet[:-1]) == ()
    assert [sensor.frame for sensor in point_feet([*feet, "hand"])] == feet
