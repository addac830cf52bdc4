"""A plan is what runs: its steps are executed as they stand, or it is refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import KernelBuildError, PlanMismatchError, synthetic
from dynsys.errors import PlanFileError
from dynsys.plan import estimator
from dynsys.plan.lu_program import lu_estimator
from dynsys.plan.methods import SaddleOrder
from dynsys.plan.operations import program_operations
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.saddle_elimination import PivotRule
from dynsys.plan.saddle_program import saddle_estimator, saddle_order, saddle_program
from dynsys.plan.search.search import Search
from dynsys.plan.symmetric import SymmetricStep
from problems import AbstractDynamics
from problems.estimation.compiled import CompiledEstimator, EstimatorOutputs, check_cost
from tests.backends import COMPILED
from tests.kernel.exported_c import COMPILERS, compile_and_check
from tests.model.test_tree import coupled_arm
from tests.plan.test_plan import rewrite
from tests.processes import LIMIT

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


def anew(plan: dynsys.Plan, **changes: Any) -> dynsys.Plan:
    """A plan changed and signed anew: only its execution can tell."""
    return replace(plan, **changes, digest="")


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
        given.compile(anew(plan, steps=change(plan.steps)))
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


@pytest.mark.finding("Z-P6")
def test_plans_of_steps_say_who_ordered_them() -> None:
    given = problem("forward")
    steps = given.plan().steps
    assert given.plan(steps=steps).ordering == given.plan().ordering
    assert "as given" in given.plan(steps=late_pivots(steps)).ordering


@pytest.mark.parametrize("kind", ["forward", "hybrid"])
def test_a_changed_order_whose_cost_is_not_stated_is_refused(kind: str) -> None:
    given = problem(kind)
    plan = given.plan()
    with pytest.raises(PlanMismatchError, match="its steps execute"):
        given.compile(anew(plan, steps=late_pivots(plan.steps)))


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
    np.testing.assert_allclose(qdd, dynsys.recursive.aba(robot, q, qd, torque), rtol=1e-8)


def test_coupled_joints_keep_their_place() -> None:
    given = problems.ForwardDynamics(coupled_arm())
    plan = given.plan()
    assert given.compile(plan).operations == plan.operations  # type: ignore[attr-defined]
    with pytest.raises(PlanMismatchError, match="pivot of body"):
        given.compile(anew(plan, steps=late_pivots(plan.steps)))


def test_other_backends_execute_no_plan() -> None:
    given = problem("forward")
    for backend in ("loops", "reference"):
        with pytest.raises(KernelBuildError, match="executes no plan"):
            given.compile(given.plan(), backend=backend)  # type: ignore[arg-type]


@pytest.mark.finding("Z-P7")
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
        given.export_c(tmp_path / "cut", anew(late, steps=()))
    for plan in (late, given.plan()):  # which lie about their cost
        false = anew(plan, operations=plan.operations + plan.operations)
        with pytest.raises(PlanMismatchError, match="its steps execute"):
            given.export_c(tmp_path / "cut", false, outputs=["acceleration"])
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


def lu_plan(est: problems.Estimation, search: Search | None = None) -> dynsys.Plan:
    """Plan of method "lu", which costs more than the recursion with open parameters."""
    spec = CompiledEstimator.of(est).spec(EstimatorOutputs.of("torque", ()))
    found = lu_estimator(spec, "float64", search)
    return anew(
        est.plan(),
        method="lu",
        order=found.order,
        operations=program_operations(found.program),
        pivots=found.pivots,
        ordering=found.ordering,
    )


def test_agreement_is_asked_beside_the_order_of_a_plan() -> None:
    """dynsys solve asks for chi-square with every plan; the recursion says nothing of it."""
    est, rng = load_cells(4), np.random.default_rng(0)
    plan = est.plan()
    assert plan.method == "recursion"
    planned = problems.Estimation(est.robot, est.layout, plan=plan)
    q, qd, y = (rng.normal(size=(3, n)) for n in (4, 4, est.layout.size))
    asked = {"outputs": ("torque", "chi_square"), "uncertainty": "torque"}
    e = planned.solve_batch(q, qd, y, **asked)
    pivoting = problems.Estimation(est.robot, est.layout, backend="superlu")
    expected = pivoting.solve_batch(q, qd, y, **asked)
    assert e.method == COMPILED and (e.chi_square == 0).all()
    np.testing.assert_allclose(e.torque.array, expected.torque.array, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(e.std.torque.array, expected.std.torque.array, rtol=1e-7)


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
    plan = lu_plan(est)
    assert isinstance(plan.order, PivotOrder)
    plan.save(tmp_path / "p.json")
    again = dynsys.Plan.load(tmp_path / "p.json")
    assert est.compile(again).operations == plan.operations  # type: ignore[attr-defined]
    est.export_c(tmp_path / "c", again)
    backwards = PivotOrder(plan.order.row_order[::-1], plan.order.col_order[::-1])
    with pytest.raises(PlanMismatchError, match=r"cannot be executed|its order executes"):
        est.compile(anew(plan, order=backwards))
    other = PivotOrder(*(np.roll(x, 1) for x in (plan.order.row_order, plan.order.col_order)))
    with pytest.raises(PlanMismatchError, match=r"cannot be executed|its order executes"):
        est.compile(anew(plan, order=other))
    with pytest.raises(PlanMismatchError, match="pivots"):
        est.compile(anew(plan, order=PivotOrder([0], [0])))
    with pytest.raises(PlanMismatchError, match="its order executes"):
        est.compile(anew(plan, operations=plan.operations + plan.operations))


@pytest.mark.slow
def test_search_finds_a_cheaper_order_and_it_is_what_runs() -> None:
    est = load_cells(6)
    constructed, searched = lu_plan(est), lu_plan(est, Search(evaluations=2000))
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
    assert set(found.method) - {COMPILED}
    for k in range(0, 300, 25):
        e = exact.solve(q[k], qd[k], y[k])
        determined = e.determined.torque
        scale = np.nanmax(np.abs(e.torque.array), initial=1.0)
        got = found.torque.array[k]
        np.testing.assert_allclose(
            got[determined.array], e.torque.array[determined.array], atol=1e-6 * scale
        )


# ---- more readings than unknowns -----------------------------------------------------------


def redundant() -> problems.Estimation:
    """A branched robot with inertial units, torques, a cell: noisy, one statement exact."""
    robot = synthetic.random_tree(4, seed=3)
    layout = [
        *sensors.all_joint_accelerations(robot, std=0.1),
        *sensors.all_joint_torques(robot, std=0.2),
        *sensors.zero_external_wrench_except(robot, [robot.body_names[-1]]),
        sensors.Accelerometer("imu", robot.body_names[2], std=0.05),
        sensors.ForceTorque("cell", robot.joint_names[-1], std=0.3),
    ]
    return problems.Estimation(robot, sensors.Layout(robot, layout))


ASKED: tuple[dict[str, list[str]], ...] = (
    {},
    {"outputs": ["qdd", "external_wrench"]},
    {"outputs": ["residual", "multiplier"]},
    {"uncertainty": ["torque", "external_wrench"]},
    {"switchable": ["cell", "imu"]},
)


def test_order_of_the_saddle_system_is_executed_whatever_is_asked(tmp_path: Path) -> None:
    """One order for all questions: the answers are those of SuperLU, the default cost too."""
    est = redundant()
    plan = est.plan()
    assert plan.method == "saddle" and plan.order is not None
    plan.save(tmp_path / "p.json")
    plan = dynsys.Plan.load(tmp_path / "p.json")
    exact = problems.Estimation(est.robot, est.layout, backend="superlu")
    q, qd, y = (x[0] for x in states(est, 1))
    e = exact.solve(q, qd, y)
    for asked in ASKED:
        kernel = est.compile(plan, **asked)  # type: ignore[arg-type]
        weight = [np.ones(est.layout.size)] if "switchable" in asked else []
        found, finite = kernel.one(q, qd, y, *weight)
        assert finite
        names = [name for name, _ in kernel.signature.outputs]
        for name, array in zip(names, found, strict=True):
            if name in ("torque", "qdd", "external_wrench"):
                expected = getattr(e, name).array.ravel()
            elif name.startswith("std_"):
                expected = getattr(e.std, name.removeprefix("std_")).array.ravel()
            else:
                continue
            np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-10)
        if not asked:
            assert kernel.operations == plan.operations == est.compile().operations  # type: ignore[attr-defined]


def test_square_systems_keep_their_order_with_noise() -> None:
    """Exact pairs of a square system have a noisy diagonal where deviations are asked for."""
    robot = synthetic.random_tree(4, seed=5)
    layout = [
        *sensors.all_joint_accelerations(robot, std=0.1),
        *sensors.zero_external_wrench_except(robot),
    ]
    est = problems.Estimation(robot, sensors.Layout(robot, layout))
    plan = est.plan()
    assert plan.method == "recursion"  # and deviations beside it, by the saddle system
    spec = CompiledEstimator.of(est).spec(EstimatorOutputs.of("torque", ()))
    saddle = saddle_estimator(spec)
    cost = program_operations(saddle.program)
    assert plan.operations.total < cost.total
    q, qd, y = (x[0] for x in states(est, 1))
    e = problems.Estimation(robot, est.layout, backend="superlu").solve(q, qd, y)
    for way in (anew(plan, method="saddle", order=saddle.order, operations=cost), plan):
        kernel = est.compile(way, uncertainty=["torque"])
        (torque, std), _ = kernel.one(q, qd, y)
        np.testing.assert_allclose(torque, e.torque.array, rtol=1e-10)
        np.testing.assert_allclose(std, e.std.torque.array, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pivots: pivots[:-1], "leaves"),
        (lambda pivots: (), "leaves"),
        (lambda pivots: (*pivots, ("torque(nothing)[0]",)), "is no line of"),
        (lambda pivots: (pivots[-1], *pivots[:-1]), "executed|executes|half"),
        (lambda pivots: tuple((x,) for pivot in pivots for x in pivot), "is zero"),
    ],
    ids=["cut", "emptied", "foreign", "last first", "unpaired"],
)
def test_saddle_orders_that_cannot_be_executed_are_refused(  # type: ignore[no-untyped-def]
    change, message: str, tmp_path: Path
) -> None:
    est = redundant()
    plan = est.plan()
    other = anew(plan, order=replace(plan.order, pivots=change(plan.order.pivots)))  # type: ignore[type-var, union-attr]
    with pytest.raises(PlanMismatchError, match=message):
        est.compile(other)
    with pytest.raises(PlanMismatchError, match=message):
        est.export_c(tmp_path / "c", other)
    assert not (tmp_path / "c").exists()


def test_turned_joints_belong_to_the_order() -> None:
    est = redundant()
    plan = est.plan()
    order = plan.order
    assert isinstance(order, SaddleOrder)
    foreign = replace(order, turned=(("joint_wrench", "nothing"),))
    with pytest.raises(PlanMismatchError, match="'nothing'"):
        est.compile(anew(plan, order=foreign))
    staged = [i for i, p in enumerate(est.robot.parent) if p >= 0 and est.robot.joints[i].nv]
    names = [("acceleration", est.robot.joint_names[i]) for i in staged]
    turned = replace(
        order, turned=(*order.turned, next(x for x in names if x not in order.turned))
    )
    with pytest.raises(PlanMismatchError, match=r"executed|its order executes"):
        est.compile(anew(plan, order=turned))


def test_another_rule_gives_another_order_at_its_own_cost() -> None:
    """What a search does: orders of other rules are priced by executing them."""
    est = redundant()
    spec = CompiledEstimator.of(est).spec(EstimatorOutputs(("torque",)))
    rng = np.random.default_rng(0)
    rules = [
        PivotRule(),
        PivotRule(place=lambda body: -body),
        PivotRule(place=lambda body: 0),
        PivotRule(rank=lambda c: (*c[:2], c.updates * rng.uniform(0.5, 2.0))),
        PivotRule(peel=False),
    ]
    q, qd, y = (x[0] for x in states(est, 1))
    (expected,), _ = est.compile().one(q, qd, y)
    prices = []
    for rule in rules:
        program = saddle_program(spec, saddle_order(spec, rule))
        prices.append(program_operations(program).total)
        found = program.evaluate(np.concatenate([q, qd, y]))
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert prices[0] == est.plan().operations.total
    assert len(set(prices)) >= 4


# ---- an estimation that has a plan ---------------------------------------------------------


def late_plan(est: problems.Estimation) -> dynsys.Plan:
    """An honest plan of a poorer order: a third of the pivots comes late."""
    plan = est.plan()
    if plan.method == "recursion":
        plan = lu_plan(est)
    if isinstance(plan.order, PivotOrder):
        pivots = plan.order.pivots
        order: PivotOrder | SaddleOrder = PivotOrder.of(pull_late(pivots) or pivots)
    else:
        assert isinstance(plan.order, SaddleOrder)
        entries = list(plan.order.pivots)
        order = replace(plan.order, pivots=tuple(pull_late(entries) or entries))
    return est.plan(order=order)


@pytest.mark.parametrize("kind", ["square", "redundant"])
def test_everything_executes_the_plan_of_the_problem(kind: str, tmp_path: Path) -> None:
    plain = KINDS[kind]()
    assert isinstance(plain, problems.Estimation)
    late = late_plan(plain)
    est = problems.Estimation(plain.robot, plain.layout, plan=late)
    assert est.compile().operations == late.operations  # type: ignore[attr-defined]
    assert late.operations.total > 1.2 * plain.plan().operations.total
    exact = problems.Estimation(plain.robot, plain.layout, backend="superlu")
    q, qd, y = states(est, 5)
    batch = est.solve_batch(q, qd, y, outputs=["torque"])
    for k in range(5):
        e, expected = est.solve(q[k], qd[k], y[k]), exact.solve(q[k], qd[k], y[k]).torque.array
        assert e.method == COMPILED
        scale = np.abs(expected).max()
        for found in (e.torque.array, batch.torque.array[k]):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * scale)
        close = 1e-9 * max(1.0, float(np.abs(e.qdd.array).max()))
        np.testing.assert_allclose(
            e.qdd.array, exact.solve(q[k], qd[k], y[k]).qdd.array, rtol=0, atol=close
        )
    for asked in (["torque"], ["qdd"]):
        priced = plain.plan(outputs=asked, order=late.order).operations
        assert est.compile(outputs=asked).operations == priced
    usual, written = plain.export_c(tmp_path / "usual"), est.export_c(tmp_path / "late")
    sizes = [sum(f.stat().st_size for f in files) for files in (usual, written)]
    assert sizes[1] > 1.1 * sizes[0]
    if COMPILERS:
        compile_and_check(tmp_path / "late", "estimation")


def test_plans_of_something_else_are_refused_at_once() -> None:
    est = redundant()
    plan = est.plan()
    with pytest.raises(PlanMismatchError, match="sensor 'cell' has changed"):
        fewer = [replace(s, std=0.4) if s.name == "cell" else s for s in est.layout]  # type: ignore[type-var]
        problems.Estimation(est.robot, sensors.Layout(est.robot, fewer), plan=plan)
    with pytest.raises(PlanMismatchError, match="another robot"):
        other = synthetic.random_tree(4, seed=4)
        layout = sensors.Layout(other, sensors.all_joint_torques(other, std=1.0))
        problems.Estimation(other, layout, plan=plan)
    with pytest.raises(PlanMismatchError):
        problems.Estimation(est.robot, est.layout, plan=problem("forward").plan())
    with pytest.raises(PlanMismatchError, match="no order"):
        bare = anew(plan, method="symmetric", order=None)
        problems.Estimation(est.robot, est.layout, plan=bare)
    with pytest.raises(KernelBuildError, match=r"Plan.load reads"):
        problems.Estimation(est.robot, est.layout, plan="p.json")  # type: ignore[arg-type]
    with pytest.raises(KernelBuildError, match="executes no plan"):
        problems.Estimation(est.robot, est.layout, backend="superlu", plan=plan)


def test_what_the_order_cannot_be_executed_for_is_said_and_solved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An order that loses its digits for deviations: no kernel of them, but an answer."""
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path))
    usual = estimator.failures
    monkeypatch.setattr(
        estimator, "failures", lambda p, spec: 256 if spec.uncertainty else usual(p, spec)
    )
    plain = redundant()
    est = problems.Estimation(plain.robot, plain.layout, plan=plain.plan())
    for error in (PlanMismatchError, KernelBuildError):
        with pytest.raises(error, match=r"plan\(outputs="):
            est.compile(uncertainty=["torque"])
    q, qd, y = (x[0] for x in states(est, 1))
    exact = problems.Estimation(plain.robot, plain.layout, backend="superlu").solve(q, qd, y)
    e = est.solve(q, qd, y, uncertainty="torque")
    np.testing.assert_allclose(e.torque.array, exact.torque.array, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(e.std.torque.array, exact.std.torque.array, rtol=1e-8)


@pytest.mark.parametrize("change", ["cut", "late"])
def test_a_changed_order_solves_nothing(change: str) -> None:
    """Neither an order that cannot be executed, nor one where it states another cost."""
    plain = redundant()
    plan = plain.plan()
    assert isinstance(plan.order, SaddleOrder)
    pivots = list(plan.order.pivots)
    CHANGES[change](pivots)
    changed = anew(plan, order=replace(plan.order, pivots=tuple(pivots)))
    q, qd, y = states(plain, 300)
    other = [["qdd", "torque", "chi_square"]] if change == "cut" else []
    for outputs in (["torque"], *other):
        est = problems.Estimation(plain.robot, plain.layout, plan=changed)
        with pytest.raises(PlanMismatchError):
            _ = est.solve(q[0], qd[0], y[0]).torque
        with pytest.raises(PlanMismatchError):
            est.solve_batch(q, qd, y, outputs=outputs)


def test_the_plan_travels_with_the_problem() -> None:
    plain = redundant()
    plan = plain.plan()
    est = problems.Estimation(plain.robot, plain.layout, plan=plan)
    there = pickle.loads(pickle.dumps(est))
    assert there.executes.order == plan.order and there.compile().operations == plan.operations
    assert replace(est, prior=None).executes is plan
    assert "SaddleOrder" not in repr(est)


# ---- orders changed in the file ------------------------------------------------------------

KINDS: dict[str, Callable[[], AbstractDynamics | problems.Estimation]] = {
    **{kind: partial(problem, kind) for kind in PROBLEMS},
    "square": partial(load_cells, 4),
    "square, wrist": textbook_arm,
    "redundant": redundant,
}


def sequences(plan: dict[str, Any]) -> list[list[Any]]:
    """Lists in the data of a plan that hold its order."""
    order = plan["order"]
    if order is None:
        return [plan["steps"]]
    return [order[key] for key in ("rows", "columns", "pivots") if order.get(key)]


def pull_late(entries: list[Any]) -> None:
    """First entries last."""
    entries[:] = entries[len(entries) // 3 :] + entries[: len(entries) // 3]


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "reversed": list.reverse,
    "cut": list.pop,
    "emptied": list.clear,
    "repeated": lambda entries: entries.append(entries[0]),
    "late": pull_late,
    "last first": lambda entries: entries.insert(0, entries.pop()),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_order_changed_in_the_file_is_refused_or_costs_what_it_does(
    kind: str, change: str, tmp_path: Path
) -> None:
    """Signed anew, so that only its execution can tell: never the old kernel in silence."""
    given, plan = planned(kind)
    path = tmp_path / "p.json"
    plan.save(path)
    with pytest.raises(PlanFileError, match="checksum"):
        path.with_suffix(".unsigned").write_text(path.read_text().replace("0", "1", 1))
        dynsys.Plan.load(path.with_suffix(".unsigned"))
    rewrite(path, lambda plan: [CHANGES[change](entries) for entries in sequences(plan)])
    with pytest.raises(PlanMismatchError):
        given.compile(dynsys.Plan.load(path))
    if kind != "square, wrist":  # whose few pivots do not touch each other
        with pytest.raises(PlanMismatchError):
            given.compile(anew(dynsys.Plan.load(path)))


@pytest.mark.parametrize("kind", ["square", "redundant"])
def test_an_order_changed_in_the_file_changes_the_kernel(kind: str, tmp_path: Path) -> None:
    """Asked for other outputs than those it states the cost of, the changed order runs."""
    est, plan = planned(kind)
    path = tmp_path / "p.json"
    plan.save(path)
    usual = est.compile(dynsys.Plan.load(path), outputs=["qdd"])
    rewrite(path, lambda plan: [pull_late(entries) for entries in sequences(plan)])
    with pytest.raises(PlanMismatchError, match="not as it was made"):
        est.compile(dynsys.Plan.load(path), outputs=["qdd"])
    late = est.compile(anew(dynsys.Plan.load(path)), outputs=["qdd"])
    assert late.operations.total > usual.operations.total  # type: ignore[attr-defined]
    assert isinstance(est, problems.Estimation)
    inputs = [x[0] for x in states(est, 1)]
    ((found,), _), ((expected,), _) = late.one(*inputs), usual.one(*inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("kind", ["square", "square, LU", "redundant"])
def test_an_order_of_ones_own_is_priced_described_and_executed(
    kind: str, tmp_path: Path
) -> None:
    est, plan = planned(kind)
    assert isinstance(est, problems.Estimation)
    again = est.plan(order=plan.order)
    assert again.operations == plan.operations and again.pivots == plan.pivots
    assert again.options == plan.options and again.ordering == "as given"
    plan.save(tmp_path / "p.json")
    rewrite(tmp_path / "p.json", lambda data: [pull_late(x) for x in sequences(data)])
    edited = dynsys.Plan.load(tmp_path / "p.json")
    with pytest.raises(PlanMismatchError, match=r"plan\(order=...\) of an estimation"):
        est.compile(edited)
    late = est.plan(order=edited.order)
    assert est.compile(late).operations == late.operations != plan.operations  # type: ignore[attr-defined]
    assert est.compile(est.plan(order=edited.order, uncertainty=["torque"])) is not None
    with pytest.raises(PlanMismatchError):
        other = load_cells(5)
        other.plan(order=edited.order)
    for no_order in (5, "leaf to root", plan, [1, 2]):
        with pytest.raises(PlanMismatchError, match="must be an order of elimination"):
            est.plan(order=no_order)  # type: ignore[arg-type]


@cache
def planned(kind: str) -> tuple[AbstractDynamics | problems.Estimation, dynsys.Plan]:
    if kind == "square, LU":
        est = load_cells(4)
        return est, lu_plan(est)
    given = KINDS[kind]()
    return given, given.plan()


PLANNED = (*KINDS, "square, LU")


def exchanges(n: int) -> Iterator[list[int]]:
    """0..n-1 in other sequences: neighbours exchanged (20 where long), any two, reversed."""
    rng = np.random.default_rng(0)
    neighbours = [(k, k + 1) for k in rng.permutation(n - 1)[:20].tolist()]
    for i, j in (*neighbours, *(rng.choice(n, 2, replace=False).tolist() for _ in range(6))):
        yield [{i: j, j: i}.get(k, k) for k in range(n)]
    yield list(range(n))[::-1]


def tampered(plan: dict[str, Any]) -> Iterator[Callable[[dict[str, Any]], object]]:
    """Edits of the data of a plan: pivots exchanged; the two lines of one; its other lists."""

    def exchange(numbers: list[int]) -> Callable[[dict[str, Any]], object]:
        def edit(plan: dict[str, Any]) -> None:
            for entries in sequences(plan):
                entries[:] = [entries[k] for k in numbers]

        return edit

    yield from map(exchange, exchanges(len(sequences(plan)[0])))
    order = plan["order"] or {}
    pairs = [k for k, pivot in enumerate(order.get("pivots", ())) if len(pivot) == 2]
    for k in pairs[:: max(1, len(pairs) // 5)] if plan["method"] == "saddle" else ():
        yield lambda plan, k=k: plan["order"]["pivots"][k].reverse()  # type: ignore[misc]
    for key in ("turned", "substituted", "anchors"):
        if len(order.get(key, ())) > 1:
            yield lambda plan, key=key: plan["order"][key].reverse()  # type: ignore[misc]


@pytest.mark.parametrize("kind", PLANNED)
def test_no_exchange_in_a_file_goes_unnoticed(kind: str, tmp_path: Path) -> None:
    """Pivots that do not touch each other cost the same in any sequence: still not in silence,
    whatever is asked for."""
    given, plan = planned(kind)
    path, changed = tmp_path / "p.json", tmp_path / "changed.json"
    plan.save(path)
    other = ["acceleration"] if isinstance(given, AbstractDynamics) else ["qdd", "torque"]
    asked: list[dict[str, Any]] = [{}, {"outputs": other}]
    usual = [given.compile(dynsys.Plan.load(path), **x).operations for x in asked]  # type: ignore[attr-defined]
    assert usual[0] == plan.operations
    edits = list(tampered(json.loads(path.read_text())["plan"]))
    length = len(plan.steps) or len(plan.order.pivots)  # type: ignore[union-attr]
    assert len(edits) >= min(length - 1, 20) + 7
    for edit in edits:
        changed.write_bytes(path.read_bytes())
        rewrite(changed, edit)
        for what, operations in zip(asked, usual, strict=True):
            try:
                kernel = given.compile(dynsys.Plan.load(changed), **what)
            except PlanMismatchError:
                continue
            assert kernel.operations != operations  # type: ignore[attr-defined]
    with pytest.raises(PlanMismatchError):
        given.export_c(tmp_path / "c", dynsys.Plan.load(changed))
    if isinstance(given, problems.Estimation):
        with pytest.raises(PlanMismatchError):
            problems.Estimation(given.robot, given.layout, plan=dynsys.Plan.load(changed))
    assert not (tmp_path / "c").exists()


def test_files_are_accepted_in_other_processes(tmp_path: Path) -> None:
    """What tells the order is the same in every process, whatever its hashes."""
    for kind in PLANNED:
        planned(kind)[1].save(tmp_path / f"{kind}.json")
    code = (
        "import sys, dynsys; from tests.problems.test_plans_run import PLANNED, planned\n"
        "for kind in PLANNED:\n"
        "    plan = dynsys.Plan.load(f'{sys.argv[1]}/{kind}.json')\n"
        "    assert planned(kind)[0].compile(plan).operations == plan.operations\n"
        "    assert planned(kind)[1].digest == plan.digest\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, check=True, timeout=LIMIT
    )


FOOT = """<robot name="leg"><link name="base"/><link name="left foot"><inertial>
  <origin xyz="0.1 0 0.3"/><mass value="2"/>
  <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <joint name="hip" type="continuous"><parent link="base"/><child link="left foot"/>
  <axis xyz="0 1 0"/></joint></robot>"""


@pytest.mark.finding("Y-45")
def test_plans_know_outputs_whose_names_hold_blanks(tmp_path: Path) -> None:
    (tmp_path / "leg.urdf").write_text(FOOT)
    robot = dynsys.load(tmp_path / "leg.urdf")
    given = [
        *sensors.all_joint_accelerations(robot, std=0.2),
        sensors.ExternalWrench("plate", "left foot", std=0.1),
    ]
    est = problems.Estimation(robot, sensors.Layout(robot, given))
    outputs = ("torque", "external_wrench.left foot", "std.external_wrench.left foot")
    est.plan(outputs=outputs).save(tmp_path / "plan.json")
    plan = dynsys.Plan.load(tmp_path / "plan.json")
    check_cost(est, plan)
    assert est.compile(plan, outputs=outputs).operations == plan.operations  # type: ignore[attr-defined]
    wrong = anew(plan, operations=replace(plan.operations, additions=0))
    with pytest.raises(PlanMismatchError, match="its order executes"):
        check_cost(est, wrong)
    with pytest.raises(PlanMismatchError, match="its order executes"):
        est.compile(wrong, outputs=outputs)
    with pytest.raises(PlanMismatchError, match="no names"):
        check_cost(est, anew(plan, options={"outputs": "torque 'qdd"}))
