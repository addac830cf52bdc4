"""Priors, repeated statements, rows without unknowns: every well-posed layout has a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import dynsys
import sensors
from dynsys import KernelBuildError, PlanMismatchError
from dynsys.errors import NoOrderError
from dynsys.types import Array
from problems import ContradictionError, Estimate, Estimation, Prior
from problems.estimation.compiled import CompiledEstimator, EstimatorOutputs
from problems.measured.measured_system import Quantity


def states(problem: Estimation, n: int) -> tuple[Array, Array, Array]:
    """Random states and readings that disagree."""
    rng = np.random.default_rng(1)
    q = np.array([problem.robot.random_configuration(rng) for _ in range(n)])
    y = rng.normal(size=(n, problem.layout.size))
    known = problem.layout.constants
    return q, rng.normal(size=(n, problem.robot.nv)), np.where(np.isnan(known), y, known)


def assert_same(fast: Estimate, slow: Estimate) -> None:
    """Values, deviations and agreement by both ways."""
    for quantity in ("torque", "qdd", "external_wrench"):
        expected = getattr(slow, quantity).array
        np.testing.assert_allclose(
            getattr(fast, quantity).array, expected, atol=1e-9 * (1 + np.abs(expected).max())
        )
    np.testing.assert_allclose(fast.std.torque.array, slow.std.torque.array, rtol=1e-8)
    np.testing.assert_allclose(fast.chi_square, slow.chi_square, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(fast.degrees_of_freedom, slow.degrees_of_freedom)
    for name, residual in slow.residual.items():
        np.testing.assert_allclose(fast.residual[name], residual, rtol=1e-7, atol=1e-7)


# ---- priors --------------------------------------------------------------------------------


def believed(mean: float = 0.3) -> Estimation:
    """No reading sees the last body's wrench; a prior does."""
    robot = dynsys.synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot, [robot.body_names[-1]]),
        ],
    )
    prior = Prior({"external_wrench": 3.0, "qdd": 5.0}, {"qdd": mean})
    return Estimation(robot, layout, prior, backend="llvm")


def test_beliefs_are_measurements_whose_means_are_constants() -> None:
    compiled = believed()
    q, qd, y = states(compiled, 5)
    fast = compiled.solve_batch(q, qd, y, uncertainty="torque")
    slow = replace(compiled, backend="dense").solve_batch(q, qd, y, uncertainty="torque")
    assert fast.method == "llvm"
    assert_same(fast, slow)
    kernel = compiled.compile()
    assert kernel.signature.inputs[-1] == ("y", compiled.layout.size)
    (torque,), finite = kernel.one(q[0], qd[0], y[0])
    assert finite
    np.testing.assert_allclose(torque, slow.torque.array[0], rtol=1e-9)


def test_missing_readings_leave_the_beliefs() -> None:
    compiled = believed()
    q, qd, y = states(compiled, 10)
    y[1:, 0] = np.nan
    fast = compiled.solve_batch(q, qd, y, uncertainty="torque")
    slow = replace(compiled, backend="dense").solve_batch(q, qd, y, uncertainty="torque")
    assert fast.method == ("llvm", *["reduced"] * 9)
    assert_same(fast, slow)


def test_a_plan_belongs_to_its_beliefs() -> None:
    plan = believed().plan()
    kernel = believed().compile(plan)
    assert kernel.operations == plan.operations  # type: ignore[attr-defined]
    with pytest.raises(PlanMismatchError, match="prior"):
        believed(0.4).compile(plan)


# ---- rows that others imply ----------------------------------------------------------------


def stated_twice(*more: sensors.AbstractSensor, std: float = 0.0) -> Estimation:
    """The last body's wrench is zero, and zero again in another frame."""
    robot = dynsys.synthetic.chain(3)
    last = robot.body_names[-1]
    again = sensors.ExternalWrench(
        "again", last, xyz=(0.1, 0.2, 0.3), rpy=(0.4, 0.5, 0.6), std=std
    )
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.2)[1:],
            *sensors.zero_external_wrench_except(robot),
            again,
            *more,
        ],
    )
    return Estimation(robot, layout, backend="llvm")


def agreeing(problem: Estimation, n: int = 4) -> tuple[Array, Array, Array]:
    q, qd, y = states(problem, n)
    y[:, problem.layout.slice("again")] = 0.0
    return q, qd, y


def both_ways(problem: Estimation, q: Array, qd: Array, y: Array) -> tuple[Estimate, Estimate]:
    fast = problem.solve_batch(q, qd, y, uncertainty="torque")
    slow = replace(problem, backend="dense").solve_batch(q, qd, y, uncertainty="torque")
    return fast, slow


def test_exact_rows_that_repeat_others_are_left_out() -> None:
    problem = stated_twice()
    fast, slow = both_ways(problem, *agreeing(problem))
    assert fast.method == "llvm"
    for quantity in ("torque", "qdd", "external_wrench"):
        expected = getattr(slow, quantity).array
        np.testing.assert_allclose(getattr(fast, quantity).array, expected, atol=1e-9)
    np.testing.assert_allclose(fast.std.torque.array, slow.std.torque.array, rtol=1e-8)
    np.testing.assert_allclose(fast.chi_square, slow.chi_square, rtol=1e-8)


@pytest.mark.parametrize("error", [1e-3, 1e-6])
def test_exact_rows_that_contradict_each_other_are_not_left_out_in_silence(
    error: float,
) -> None:
    problem = stated_twice()
    q, qd, y = agreeing(problem)
    y[:, problem.layout.slice("again").start] = error
    _, finite = problem.compile().one(q[0], qd[0], y[0])
    assert not finite
    with pytest.raises(ContradictionError, match="again"):
        problem.solve(q[0], qd[0], y[0])


def test_noisy_rows_that_exact_ones_imply_stand_aside() -> None:
    problem = stated_twice(std=0.5)
    spec = CompiledEstimator.of(problem).spec(EstimatorOutputs.of("torque", ()))
    again = problem.layout.slice("again")
    assert spec.aside.tolist() == list(range(again.start, again.stop))
    assert_same(*both_ways(problem, *states(problem, 4)))


def test_kernels_of_repeated_rows_come_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reference states whose readings contradict each other would be NaN, and never agree."""
    monkeypatch.setenv("DYNSYS_CACHE", str(tmp_path))
    first = stated_twice().compile(backend="llvm")
    monkeypatch.setattr("dynsys.kernel.build.estimator_program", None)
    assert stated_twice().compile(backend="llvm").operations == first.operations


# ---- as many readings as unknowns ----------------------------------------------------------


def square(*more: sensors.AbstractSensor, touched: bool = True) -> Estimation:
    """Wrist sensor, joint accelerations, unknown wrench at the tool, by noisy readings."""
    robot = dynsys.synthetic.chain(4)
    tool = [robot.body_names[-1]] if touched else []
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot, tool, std=0.3),
            *([sensors.ForceTorque("wrist", robot.joint_names[2], std=0.2)] if touched else []),
            *more,
        ],
    )
    return Estimation(robot, layout, backend="llvm")


def test_square_layouts_have_deviations_by_sums_of_squares() -> None:
    problem = square()
    assert problem.plan(uncertainty=["torque"]).method == "lu"
    assert_same(*both_ways(problem, *states(problem, 4)))
    outputs = ("torque", "residual", "multiplier")
    kernel = problem.compile(outputs=outputs, uncertainty=["torque", "multiplier"])
    (_, residual, multiplier, _, spread), finite = kernel.one(
        *(x[0] for x in states(problem, 1))
    )
    assert finite
    for array in (residual, multiplier, spread):
        assert not array.any()


def test_rows_without_unknowns_stand_aside() -> None:
    """A gyroscope checks the motion; nothing else does."""
    problem = square(sensors.Gyroscope("gyro", "link_3", std=0.4))
    fast, slow = both_ways(problem, *states(problem, 4))
    assert (fast.degrees_of_freedom == 3).all() and (np.asarray(fast.chi_square) > 0).all()
    assert_same(fast, slow)


@pytest.mark.parametrize("deviations", [(), ("torque",)])
def test_rows_without_unknowns_correct_what_they_are_correlated_with(
    deviations: tuple[Quantity, ...],
) -> None:
    alone = square(sensors.Gyroscope("gyro", "link_3", std=0.4))
    shared = 0.02 * np.random.default_rng(0).normal(size=(6, 3))
    layout = sensors.Layout(alone.robot, alone.layout.sensors, [("wrist", "gyro", shared)])
    problem = replace(alone, layout=layout)
    q, qd, y = states(problem, 4)
    fast = problem.solve_batch(q, qd, y, outputs=("torque",), uncertainty=deviations)
    slow = replace(problem, backend="dense").solve_batch(q, qd, y)
    assert fast.method == "llvm"
    assert np.abs(fast.torque.array - alone.solve_batch(q, qd, y).torque.array).max() > 1e-3
    assert_same(fast, slow)


# ---- layouts without a kernel --------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 8])
def test_ill_posed_layouts_are_refused_in_the_words_of_the_verdict(n: int) -> None:
    robot = dynsys.synthetic.chain(n)
    problem = Estimation(robot, sensors.published.sie(robot))
    verdict = problem.verdict(search=False)
    for ask in (problem.plan, problem.compile):
        with pytest.raises(KernelBuildError) as refusal:
            ask()
        text = str(refusal.value)
        assert verdict.headline in text and "do not determine" in text
        assert verdict.open_words and all(line in text for line in verdict.open_words)
    assert "\n  ".join(("not determined:", *verdict.open_words)) in str(verdict)


def test_well_posed_layouts_are_never_said_to_leave_something_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise NoOrderError("robot 'x': no pivot is safe at every state for torque")

    monkeypatch.setattr("dynsys.plan.estimator.saddle_estimator", refuse)
    monkeypatch.setattr("dynsys.plan.estimator.lu_estimator", refuse)
    monkeypatch.setattr("dynsys.plan.estimator.recursion_estimator", refuse)
    problem = square(sensors.Gyroscope("gyro", "link_2", std=0.37))
    with pytest.raises(KernelBuildError) as refusal:
        problem.plan()
    text = str(refusal.value)
    assert problem.verdict(search=False).headline in text
    assert "do not determine" not in text and "no pivot is safe" in text
