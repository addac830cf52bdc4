"""A plan is what runs: its steps are executed as they stand, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys.errors import KernelBuildError, PlanMismatchError
from dynsys.model import synthetic
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.symmetric import SymmetricStep
from problems.problem import AbstractDynamics
from tests.model.test_tree import coupled_arm

PROBLEMS = ("inverse", "forward", "hybrid")
ROBOT = synthetic.random_tree(6, seed=3)


def problem(kind: str) -> AbstractDynamics:
    if kind == "hybrid":
        return problems.HybridDynamics(ROBOT, known_acceleration=ROBOT.joint_names[1:3])
    return {"inverse": problems.InverseDynamics, "forward": problems.ForwardDynamics}[kind](
        ROBOT
    )


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


# ---- as many readings as unknowns ----------------------------------------------------------


def load_cells(n: int) -> problems.Estimation:
    robot = synthetic.chain(n)
    return problems.Estimation(robot, sensors.published.sie_friction(robot))


def textbook_arm() -> problems.Estimation:
    """Force/torque sensor at the wrist, joint accelerations, an unknown wrench at the tool."""
    robot = synthetic.chain(6)
    tool = robot.body_names[-1]
    layout = [
        sensors.ForceTorque("wrist", robot.joint_names[-1]),
        *sensors.all_joint_accelerations(robot, std=0.1),
        *sensors.zero_external_wrench_except(robot, [tool]),
    ]
    return problems.Estimation(robot, sensors.Layout(robot, layout))


SQUARE = {"load cells, 4": partial(load_cells, 4), "load cells, 8": partial(load_cells, 8)}
SQUARE |= {"textbook arm": textbook_arm}


def states(est: problems.Estimation, n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    q = np.array([est.robot.random_configuration(rng) for _ in range(n)])
    y = rng.normal(size=(n, est.layout.size))
    given = est.layout.constants
    return q, rng.normal(size=(n, est.robot.nv)), np.where(np.isnan(given), y, given)


@pytest.mark.parametrize("layout", SQUARE)
def test_square_layouts_have_a_kernel(layout: str) -> None:
    est = SQUARE[layout]()
    assert est.verdict(search=False).is_well_posed
    plan = est.plan()
    kernel = est.compile(plan)
    assert kernel.operations == plan.operations  # type: ignore[attr-defined]
    q, qd, y = states(est, 64)
    (torque,), _ = kernel.batch(q, qd, y)
    exact = problems.Estimation(est.robot, est.layout, backend="superlu")
    for k in np.flatnonzero(np.isfinite(torque).all(axis=1)):
        expected = exact.solve(q[k], qd[k], y[k]).torque.array
        scale = np.abs(expected).max()
        np.testing.assert_allclose(torque[k], expected, rtol=0, atol=1e-8 * scale)
    assert np.isfinite(torque).all(axis=1).mean() > 0.9


def test_order_of_lu_is_executed_as_it_stands(tmp_path: Path) -> None:
    est = load_cells(6)
    plan = est.plan()
    assert plan.method == "lu" and plan.order is not None
    plan.save(tmp_path / "p.json")
    again = dynsys.Plan.load(tmp_path / "p.json")
    assert est.compile(again).operations == plan.operations  # type: ignore[attr-defined]
    est.export_c(tmp_path / "c", again)
    backwards = PivotOrder(plan.order.row_order[::-1], plan.order.col_order[::-1])
    with pytest.raises(PlanMismatchError, match=r"cannot be executed|its order executes"):
        est.compile(replace(plan, order=backwards))
    other = PivotOrder(*(np.roll(x, 1) for x in (plan.order.row_order, plan.order.col_order)))
    with pytest.raises(PlanMismatchError, match=r"cannot be executed|its order executes"):
        est.compile(replace(plan, order=other))
    with pytest.raises(PlanMismatchError, match="pivots"):
        est.compile(replace(plan, order=PivotOrder([0], [0])))
    with pytest.raises(PlanMismatchError, match="its order executes"):
        est.compile(replace(plan, operations=plan.operations + plan.operations))


@pytest.mark.slow
def test_search_finds_a_cheaper_order_and_it_is_what_runs() -> None:
    est = load_cells(6)
    constructed, searched = est.plan(), est.plan(search_seconds=3)
    assert searched.operations.total < constructed.operations.total
    assert "search" in searched.ordering
    kernel = est.compile(searched)
    assert kernel.operations == searched.operations  # type: ignore[attr-defined]
    q, qd, y = states(est, 64)
    (found,), _ = kernel.batch(q, qd, y)
    (expected,), _ = est.compile(constructed).batch(q, qd, y)
    both = np.isfinite(found).all(axis=1) & np.isfinite(expected).all(axis=1)
    assert both.mean() > 0.9
    np.testing.assert_allclose(found[both], expected[both], rtol=1e-7, atol=1e-7)


def test_states_that_a_watched_pivot_refuses_are_solved_by_pivoting() -> None:
    """Stretched, a chain hides from its load cells what bent it shows: NaN, never nonsense."""
    est = load_cells(4)
    q, qd, y = states(est, 300)
    q[1::2] = 1e-7 * q[1::2]
    found = est.solve_batch(q, qd, y, outputs=["torque"])
    exact = problems.Estimation(est.robot, est.layout, backend="dense")
    assert set(found.method) - {"llvm"}
    for k in range(0, 300, 25):
        e = exact.solve(q[k], qd[k], y[k])
        determined = e.determined.torque
        scale = np.nanmax(np.abs(e.torque.array), initial=1.0)
        got = found.torque.array[k]
        np.testing.assert_allclose(
            got[determined.array], e.torque.array[determined.array], atol=1e-6 * scale
        )
