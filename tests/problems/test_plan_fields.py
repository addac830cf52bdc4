"""Every field of a plan decides what runs, or may not be changed: none is there for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import dynsys
import problems
from dynsys.errors import PlanMismatchError
from dynsys.model import synthetic
from dynsys.model.constraints import FrameConstraint
from problems.problem import AbstractDynamics
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
