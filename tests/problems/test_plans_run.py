"""A plan is what runs: its steps are executed as they stand, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
from dynsys.errors import KernelBuildError, PlanMismatchError
from dynsys.model import synthetic
from dynsys.plan.symmetric import SymmetricStep
from problems.problem import AbstractDynamics
from tests.model.test_tree import coupled_arm

PROBLEMS = ("inverse", "forward", "hybrid")
ROBOT = synthetic.random_tree(6, seed=3)


def problem(kind: str) -> AbstractDynamics:
    if kind == "hybrid":
        return problems.HybridDynamics(ROBOT, known_acceleration=ROBOT.joint_names[1:3])
    return {"inverse": problems.InverseDynamics, "forward": problems.ForwardDynamics}[kind](ROBOT)


def state(seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return ROBOT.random_configuration(rng), *rng.normal(size=(2, ROBOT.nv))


@pytest.mark.parametrize("kind", PROBLEMS)
def test_kernel_executes_what_the_plan_states(kind: str, tmp_path: Path) -> None:
    given = problem(kind)
    plan = given.plan()
    plan.save(tmp_path / "p.json")
    kernel = given.compile(dynsys.Plan.load(tmp_path / "p.json"))
    assert kernel.operations == plan.operations == given.compile().operations  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda steps: steps[::-1], "comes"),
        (lambda steps: (), "is missing"),
        (lambda steps: steps[1:], "is missing"),
        (lambda steps: (*steps, steps[0]), "twice"),
        (lambda steps: (*steps, SymmetricStep("joint pair", 99)), "99"),
        (lambda steps: (*steps, SymmetricStep("row", 0)), "row of body"),
    ],
    ids=["reversed", "emptied", "cut", "repeated", "foreign", "unknown"],
)
def test_steps_that_cannot_be_executed_are_refused(kind: str, change, message: str) -> None:  # type: ignore[no-untyped-def]
    given = problem(kind)
    plan = given.plan()
    with pytest.raises(PlanMismatchError, match=message):
        given.compile(replace(plan, steps=change(plan.steps)))
    with pytest.raises(PlanMismatchError, match=message):
        given.plan(steps=change(plan.steps))


def late_pivots(steps: tuple[SymmetricStep, ...]) -> tuple[SymmetricStep, ...]:
    """Every pivot behind the link pair of its body: correct, and more work."""
    moved: list[SymmetricStep] = []
    for step in steps:
        if step.kind == "link pair" and moved[-1].kind == "pivot":
            moved.insert(len(moved) - 1, step)
        else:
            moved.append(step)
    return tuple(moved)


@pytest.mark.parametrize("kind", ["forward", "hybrid"])
def test_another_order_is_executed_at_its_own_cost(kind: str) -> None:
    given = problem(kind)
    usual = given.plan()
    late = given.plan(steps=late_pivots(usual.steps))
    assert late.operations.total > usual.operations.total
    kernel = given.compile(late)
    assert kernel.operations == late.operations  # type: ignore[attr-defined]
    inputs = state()
    found, finite = kernel.one(*inputs)
    expected, _ = given.compile().one(*inputs)
    assert finite
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["forward", "hybrid"])
def test_a_changed_order_whose_cost_is_not_stated_is_refused(kind: str) -> None:
    given = problem(kind)
    plan = given.plan()
    with pytest.raises(PlanMismatchError, match="its steps execute"):
        given.compile(replace(plan, steps=late_pivots(plan.steps)))


def test_branches_may_be_eliminated_in_any_order() -> None:
    robot = synthetic.humanoid30()
    given = problems.ForwardDynamics(robot)
    steps = given.plan().steps
    leg = {robot.n_bodies - 1}
    while len(robot.children[parent := int(robot.parent[min(leg)])]) == 1:
        leg.add(parent)
    first = [step for step in steps if step.body not in leg and step.body > min(leg) - 3]
    rest = [step for step in steps if step not in first]
    other = given.plan(steps=(*first, *rest))
    rng = np.random.default_rng(0)
    q, (qd, torque) = robot.random_configuration(rng), rng.normal(size=(2, robot.nv))
    (qdd,), _ = given.compile(other).one(q, qd, torque)
    np.testing.assert_allclose(qdd, dynsys.aba(robot, q, qd, torque), rtol=1e-8)


def test_coupled_joints_keep_their_place() -> None:
    given = problems.ForwardDynamics(coupled_arm())
    plan = given.plan()
    assert given.compile(plan).operations == plan.operations  # type: ignore[attr-defined]
    with pytest.raises(PlanMismatchError, match="pivot of body"):
        given.compile(replace(plan, steps=late_pivots(plan.steps)))


def test_other_backends_execute_no_plan() -> None:
    given = problem("forward")
    for backend in ("loops", "reference"):
        with pytest.raises(KernelBuildError, match="executes no plan"):
            given.compile(given.plan(), backend=backend)  # type: ignore[arg-type]


def test_exported_c_executes_the_plan(tmp_path: Path) -> None:
    given = problem("forward")
    late = given.plan(steps=late_pivots(given.plan().steps))
    given.export_c(tmp_path / "usual")
    given.export_c(tmp_path / "late", late)
    sizes = [
        sum(f.stat().st_size for f in (tmp_path / x).glob("*.c")) for x in ("usual", "late")
    ]
    assert sizes[0] < sizes[1]
    with pytest.raises(PlanMismatchError, match="is missing"):
        given.export_c(tmp_path / "cut", replace(late, steps=()))
    assert not (tmp_path / "cut").exists()
