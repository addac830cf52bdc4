"""Every field of a plan decides what runs, or may not be changed: none is there for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import FrameConstraint, PlanMismatchError, synthetic
from dynsys.plan.estimator_spec import block_digests
from dynsys.system.equations import EquationBlock, Kinematics, Term
from dynsys.system.unknowns import UnknownLayout
from problems import AbstractDynamics
from problems.planning import PlanRequest
from sensors import AbstractSensor, SensorRows, sensor
from sensors.parameters import JointName
from tests.plan.test_plan import rewrite
from tests.problems.test_plans_run import PLANNED, planned

Problem = AbstractDynamics | problems.Estimation
Step = str | int
FEW = 1
"""Entries of a list that are changed beside its last, evenly spread."""


def case(kind: str) -> tuple[Problem, dynsys.Plan]:
    if kind != "held":
        return planned(kind)
    tip = FrameConstraint("tip", "link_4", components=("x", "z"))
    held = problems.ForwardDynamics(synthetic.chain(4, generic=True), constraints=[tip])
    return held, held.plan()


def places(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Places of all that is in some data, of long lists a few."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for k in sorted({*range(0, len(value), max(1, len(value) // FEW)), len(value) - 1}):
            if k >= 0:
                yield from places(value[k], (*path, k))


def others(value: Any) -> list[Any]:
    """Values of the same kind that are not this one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, 0 if value else 1, 10**400]
    if isinstance(value, str):
        return [f"{value}x", "", "\ud800"] if value else ["x"]
    if isinstance(value, list):
        return [value[::-1], value[1:], [*value, *value[:1]], []]
    if isinstance(value, dict):
        return [{**value, "more": 1}, {}]
    return [0, "x", [], {}]


def put(path: tuple[Step, ...], new: Any) -> Callable[[dict[str, Any]], None]:
    def edit(plan: Any) -> None:
        for step in path[:-1]:
            plan = plan[step]
        plan[path[-1]] = new

    return edit


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*PLANNED, "held"])
@pytest.mark.finding("Z-P3")
def test_no_field_of_a_file_is_changed_in_silence(kind: str, tmp_path: Path) -> None:
    """Its checksum made to fit: refused, or other operations; nothing in between."""
    given, plan = case(kind)
    path, changed = tmp_path / "p.json", tmp_path / "changed.json"
    plan.save(path)
    usual: Any = given.compile(dynsys.Plan.load(path))
    assert usual.operations == plan.operations
    content = json.loads(path.read_text())["plan"]
    every = list(places(content))
    assert {step for step, *_ in every} == set(content) == {x.name for x in fields(plan)}
    for place in every:
        value = content
        for step in place:
            value = value[step]
        for new in others(value):
            if new == value:
                continue
            changed.write_bytes(path.read_bytes())
            rewrite(changed, put(place, new))
            try:
                kernel: Any = given.compile(dynsys.Plan.load(changed))
            except PlanMismatchError:
                continue
            assert kernel.operations != usual.operations, (place, value, new)


@pytest.mark.parametrize("kind", [*PLANNED, "held"])
@pytest.mark.finding("Z-P1")
def test_no_field_of_a_plan_is_replaced_in_silence(kind: str) -> None:
    """The same in memory, where there is no file to be checked."""
    given, plan = case(kind)
    for name, new in {
        "pivots": plan.pivots[1:] if plan.pivots else case("held")[1].pivots,
        "robot": replace(plan.robot, subject="robot 'another'"),
        "problem": replace(plan.problem, subject="problem 'another'"),
        "options": {**plan.options, "more": 1},
        "ordering": f"not {plan.ordering}",
        "versions": {**plan.versions, "numpy": "0"},
    }.items():
        with pytest.raises(PlanMismatchError, match=r"not as it was made|'another'"):
            given.compile(replace(plan, **{name: new}))


# ---- what a plan is for --------------------------------------------------------------------


def gauge(
    gain: Callable[[Kinematics], Any], noise: float = 0.01, offset: float = 0.0
) -> type[AbstractSensor]:
    """A class of the user's own, as it is today: what it computes is no parameter of it."""

    @dataclass(frozen=True)
    class Gauge(AbstractSensor):
        kind: ClassVar[str] = "gauge"
        joint: JointName

        def rows(self, unknowns: UnknownLayout) -> SensorRows:
            at = unknowns.robot.joint_index(self.joint)
            block, entry = unknowns.block("torque", at), np.ones((1, 1), dtype=bool)
            term = Term(block, entry, lambda kin: gain(kin) * np.ones((1, 1)))
            bias = None if not offset else lambda kin: np.array([offset])
            return SensorRows(("strain",), ("N m",), at, (term,), bias)

        def noise(self, rows: SensorRows) -> Any:
            return noise * np.eye(rows.size)

    return Gauge


def gauged(*now: Any) -> problems.Estimation:
    robot = synthetic.chain(3)
    others = [
        *sensors.all_joint_accelerations(robot, std=0.1),
        *sensors.zero_external_wrench_except(robot),
    ]
    strain: Any = gauge(*now)
    layout = sensors.Layout(robot, [strain("strain", "link_2"), *others])
    return problems.Estimation(robot, layout)


OTHER_ROWS: dict[str, tuple[Any, ...]] = {
    "gain": (lambda kin: 3.0,),
    "twice the gain": (lambda kin: 2.0,),
    "small gain": (lambda kin: 1.0 + 1e-6,),
    "gain of the state": (lambda kin: 1.0 + kin.q[1],),
    "noise": (lambda kin: 1.0, 0.02),
    "offset": (lambda kin: 1.0, 0.01, 0.5),
}


@pytest.mark.parametrize("change", OTHER_ROWS)
@pytest.mark.finding("Z-P4")
def test_plans_know_sensors_by_what_they_compute(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class of a sensor may have other rows tomorrow, under the same name."""
    monkeypatch.setattr(sensor, "_KINDS", dict(sensors.sensor_kinds()))
    then, again, now = (
        gauged(*how) for how in ((lambda kin: 1.0,), (lambda kin: 1.0,), OTHER_ROWS[change])
    )
    assert repr(then.layout.sensors[0]) == repr(now.layout.sensors[0])
    then.plan().save(tmp_path / "p.json")
    plan = dynsys.Plan.load(tmp_path / "p.json")
    assert again.compile(plan).operations == plan.operations  # type: ignore[attr-defined]
    with pytest.raises(PlanMismatchError, match=r"sensor 'strain' has changed"):
        now.compile(plan)
    contents = [PlanRequest("", each).content for each in (then, again, now)]
    assert contents[0] == contents[1] != contents[2]


@pytest.mark.finding("Z-P5")
def test_plans_know_beliefs_to_the_last_digit() -> None:
    """Arrays print a few of their digits, and of long ones a few entries."""
    est = planned("redundant")[0]
    assert isinstance(est, problems.Estimation)

    def believing(std: float) -> problems.Estimation:
        wrench = np.full(6, std)
        return problems.Estimation(est.robot, est.layout, {"external_wrench": wrench})

    plan = believing(0.5).plan()
    believing(0.5).compile(plan)
    with pytest.raises(PlanMismatchError, match="prior has changed"):
        believing(0.5 + 1e-12).compile(plan)
    with pytest.raises(PlanMismatchError, match="is gone"):
        est.compile(plan)


@pytest.mark.finding("Z-P4")
def test_rows_are_the_same_on_machines_that_round_otherwise() -> None:
    robot = synthetic.chain(4, generic=True)
    imu = sensors.Imu("tip", "link_4", xyz=(0.1, 0, 0), std=0.1)
    exact = imu.blocks(UnknownLayout(robot, net_wrench=True))

    def there(block: EquationBlock, by: float) -> EquationBlock:
        rng = np.random.default_rng(0)

        def moved(x: Any) -> Any:
            return x + by * rng.uniform(-1, 1, np.shape(x))

        terms = [replace(t, value=lambda kin, t=t: moved(t.at(kin))) for t in block.terms]
        return replace(block, terms=tuple(terms), bias=lambda kin: moved(block.bias_at(kin)))

    here = block_digests(robot, exact, 24)
    assert block_digests(robot, [there(b, 4e-16) for b in exact], 24) == here
    assert block_digests(robot, [there(b, 1e-5) for b in exact], 24) != here
    assert block_digests(robot, [there(b, 4e-16) for b in exact]) != block_digests(robot, exact)
