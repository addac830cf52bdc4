"""Plans: what they say and fit, files that come back, and files that must not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynsys import KinematicTree, Plan, PlanMismatchError, synthetic
from dynsys.errors import PlanFileError
from dynsys.plan.fingerprint import (
    Fingerprint,
    fingerprint_parts,
    fingerprint_problem,
    fingerprint_robot,
)
from dynsys.plan.operations import Operations
from dynsys.plan.orders.orders import OrderingContext
from dynsys.plan.orders.recursive_orders import LeafToRoot
from dynsys.plan.pivots import PlannedPivot, planned_pivots, symmetric_pivots
from dynsys.plan.symmetric import symmetric_steps
from tests.plan.systems import changed
from tests.systems import forward_system, inverse_system

# ---- plans --------------------------------------------------------------------------------


@pytest.fixture
def robot() -> KinematicTree:
    return synthetic.chain(3)


@pytest.fixture
def lu_plan(robot: KinematicTree) -> Plan:
    system = forward_system(robot)
    context = OrderingContext.sampled(system, 4)
    order = LeafToRoot().order(system.pattern(), context)
    return Plan(
        method="lu",
        robot=fingerprint_robot(robot),
        problem=fingerprint_problem("forward dynamics", system),
        operations=Operations(10, 20, 3),
        pivots=planned_pivots(system, order, context),
        layout=fingerprint_parts("layout 'feet'", {"sensor 'imu'": [1.0, "x"]}),
        order=order,
        options={"frames": True, "weight": 0.5, "name": "a"},
        ordering="leaf to root",
    )


@pytest.fixture
def symmetric_plan(robot: KinematicTree) -> Plan:
    steps = symmetric_steps(robot, np.zeros(3, dtype=bool))
    system = forward_system(robot)
    return Plan(
        method="symmetric",
        robot=fingerprint_robot(robot),
        problem=fingerprint_problem("forward dynamics", system),
        operations=Operations(1, 2, 3),
        pivots=symmetric_pivots(robot, np.zeros(3, dtype=bool), steps),
        steps=steps,
    )


def same(a: Plan, b: Plan) -> bool:
    keys = (*("method", "robot", "problem", "layout", "operations", "pivots", "steps"),)
    rest = ("order", "options", "ordering", "versions", "digest")
    return all(getattr(a, key) == getattr(b, key) for key in (*keys, *rest))


def test_plans_come_back(lu_plan: Plan, symmetric_plan: Plan, tmp_path: Path) -> None:
    for plan in (lu_plan, symmetric_plan):
        plan.save(tmp_path / "plan.json")
        assert same(Plan.load(tmp_path / "plan.json"), plan)
        assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.finding("P-12", "tests that cannot fail")
def test_what_a_plan_says_of_itself(lu_plan: Plan, symmetric_plan: Plan) -> None:
    assert lu_plan.is_safe_by_argument
    assert symmetric_plan.is_safe_by_argument
    assert not lu_plan.checked_pivots
    assert "safe by argument 3, by sampling 0" in str(symmetric_plan)
    assert "inertia of joint 'link_3'" in symmetric_plan.pivots[0].name
    doubtful = replace(lu_plan, pivots=(PlannedPivot(0, "x", "sampling", 0.1),))
    assert len(doubtful.checked_pivots) == 1 and not doubtful.is_safe_by_argument
    mixed = replace(lu_plan, pivots=(*symmetric_plan.pivots, *doubtful.pivots))
    assert mixed.checked_pivots == doubtful.pivots and not mixed.is_safe_by_argument
    with pytest.raises(ValueError, match="pivot order"):
        replace(lu_plan, order=None)


def test_a_plan_fits_what_it_was_made_for(robot: KinematicTree, lu_plan: Plan) -> None:
    problem = fingerprint_problem("forward dynamics", forward_system(robot))
    lu_plan.check(robot, problem, lu_plan.layout)
    renamed = KinematicTree("another name", robot.bodies)
    lu_plan.check(renamed, problem, lu_plan.layout)


def test_mismatches_say_what_differs(robot: KinematicTree, lu_plan: Plan) -> None:
    layout = lu_plan.layout
    problem = fingerprint_problem("forward dynamics", forward_system(robot))
    other = changed(robot, 2, armature=[0.3])
    with pytest.raises(PlanMismatchError, match=r"another robot.*body 'link_3': armature"):
        lu_plan.check(other, problem, layout)
    with pytest.raises(PlanMismatchError, match=r"robot 'chain4' now.*'link_4'.* is new"):
        lu_plan.check(synthetic.chain(4), problem, layout)
    inverse = fingerprint_problem("inverse dynamics", inverse_system(robot))
    with pytest.raises(
        PlanMismatchError, match=r"'forward dynamics', not .*'inverse dynamics'"
    ):
        lu_plan.check(robot, inverse, layout)
    hybrid = fingerprint_problem("forward dynamics", inverse_system(robot))
    with pytest.raises(PlanMismatchError, match=r"another problem.*known_qdd"):
        lu_plan.check(robot, hybrid, layout)
    moved = fingerprint_parts("layout 'feet'", {"sensor 'imu'": [2.0, "x"]})
    with pytest.raises(PlanMismatchError, match=r"another layout.*sensor 'imu' has changed"):
        lu_plan.check(robot, problem, moved)
    with pytest.raises(PlanMismatchError, match="with the layout 'feet', but none"):
        lu_plan.check(robot, problem)
    with pytest.raises(PlanMismatchError, match="order of its parts"):
        swapped = dict(reversed(list(problem.parts.items())))
        lu_plan.check(robot, Fingerprint(problem.subject, swapped), layout)


def test_gravity_is_part_of_the_robot(robot: KinematicTree, lu_plan: Plan) -> None:
    moon = KinematicTree(robot.name, robot.bodies, gravity=(0, 0, -1.6))
    with pytest.raises(PlanMismatchError, match="gravity has changed"):
        lu_plan.check(moon)


# ---- hostile files ------------------------------------------------------------------------


def rewrite(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the plan in a file and make its checksum fit again: damage by intent."""
    document = json.loads(path.read_text())
    edit(document["plan"])
    text = json.dumps(document["plan"], sort_keys=True, separators=(",", ":"))
    document["sha256"] = sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(document))


def rows(plan: dict[str, Any]) -> list[Any]:
    """Row order in the data of a plan."""
    return plan["order"]["rows"]  # type: ignore[no-any-return]


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "not a permutation": lambda plan: rows(plan).__setitem__(0, rows(plan)[1]),
    "entry of 'columns'": lambda plan: plan["order"]["columns"].__setitem__(0, -1),
    "an entry of 'rows'": lambda plan: rows(plan).__setitem__(0, 1.0),
    "entry of 'rows'": lambda plan: rows(plan).__setitem__(0, True),
    "different lengths": lambda plan: rows(plan).remove(len(rows(plan)) - 1),
    "'rows' of the order is missing": lambda plan: plan["order"].pop("rows"),
    "'order' is missing": lambda plan: plan.pop("order"),
    "'pivots' of the order": lambda plan: plan.update(method="saddle"),
    "an order or steps": lambda plan: plan.update(method="symmetric"),
    "order or steps": lambda plan: plan["steps"].append(["pivot", 0]),
    "method 'exec'": lambda plan: plan.update(method="exec"),
    "'method' is missing": lambda plan: plan.update(method=["lu"]),
    "NaN": lambda plan: plan["pivots"][0].__setitem__(3, float("nan")),
    "ratio of pivot": lambda plan: plan["pivots"][0].__setitem__(3, -1.0),
    "the safety 'trust me'": lambda plan: plan["pivots"][0].__setitem__(2, "trust me"),
    "a pivot is not": lambda plan: plan["pivots"].append(7),
    "multiplications is": lambda plan: plan["operations"].update(multiplications=-1),
    "additions is": lambda plan: plan["operations"].update(additions=1e300),
    "'operations' is missing": lambda plan: plan.update(operations=[1, 2, 3]),
    "robot fingerprint": lambda plan: plan["robot"]["parts"].append([1, 2]),
    "'robot' is missing": lambda plan: plan.pop("robot"),
    "'subject' is missing": lambda plan: plan["problem"].pop("subject"),
    "a step is not": lambda plan: plan["steps"].append(["rm -rf", 0]),
    "the body of a step": lambda plan: plan["steps"].append(["pivot", -3]),
    "'digest' is empty": lambda plan: plan.update(digest=""),
    "'digest' is missing": lambda plan: plan.pop("digest"),
    "option 'evil'": lambda plan: plan["options"].update(evil={"a": 1}),
    "'numpy' is missing": lambda plan: plan["versions"].update(numpy=2),
    "'mine' holds something that no": lambda plan: plan.update(mine=1),
    "'operations' holds": lambda plan: plan["operations"].update(roots=1),
    "'order' holds": lambda plan: plan["order"].update(turned=[]),
    "'problem' holds": lambda plan: plan["problem"].update(kind="x"),
    "'robot' holds": lambda plan: plan["robot"]["parts"].append(plan["robot"]["parts"][0]),
    "'layout' is missing": lambda plan: plan.pop("layout"),
}


@pytest.mark.parametrize("message", HOSTILE)
@pytest.mark.finding("Z-P2")
def test_hostile_plans_are_refused(message: str, lu_plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    lu_plan.save(path)
    rewrite(path, HOSTILE[message])
    with pytest.raises(PlanFileError, match=message):
        Plan.load(path)


@pytest.mark.finding("Z-P2")
def test_damaged_files_are_refused(lu_plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    lu_plan.save(path)
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        whole.replace(b"argument", b"sampling", 1),
        b"",
        b"\x93NUMPY\x00\xff",
        b"[" * 100_000,
        b"[1, 2]",
        b'{"plan": {}}',
        whole.replace(b'plan":4', b'plan":5', 1),
        whole.replace(b'plan":4', b'plan":4.0', 1),
        whole.replace(b'"sha256"', b'"note":"mine","sha256"', 1),
        whole.replace(b'"ordering":', b'"ordering":"mine","ordering":', 1),
        b'{"dynsys plan": 4, "plan": {"x": Infinity}}',
        b'{"dynsys plan": 4, "plan": 3}',
        b'{"dynsys plan": 4, "plan": {"x": ' + b"[" * 900 + b"]" * 900 + b"}}",
    ):
        path.write_bytes(damaged)
        with pytest.raises(PlanFileError, match="is refused"):
            Plan.load(path)


def test_older_formats_are_to_be_made_again(lu_plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    lu_plan.save(path)
    text = path.read_text()
    for older in (1, 2, 3):
        path.write_text(text.replace('plan":4', f'plan":{older}', 1))
        with pytest.raises(PlanFileError, match=rf"format {older}, .* reads 4; make the plan"):
            Plan.load(path)


def test_huge_files_are_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(2**33)  # sparse: takes no space
    with pytest.raises(PlanFileError, match="bytes"):
        Plan.load(path)


def test_a_failed_save_leaves_the_old_plan(
    lu_plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    lu_plan.save(path)
    before = path.read_bytes()

    def fail(*arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(PlanFileError, match="disk full"):
        lu_plan.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
