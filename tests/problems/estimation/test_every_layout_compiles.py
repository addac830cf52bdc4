"""Priors, repeated statements, rows without unknowns: every well-posed layout has a kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynsys
import sensors
from dynsys.errors import PlanMismatchError
from dynsys.types import Array
from problems import Estimate, Estimation, Prior


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
    q, qd, y = states(compiled, 3)
    y[1:, 0] = np.nan
    fast = compiled.solve_batch(q, qd, y, uncertainty="torque")
    slow = replace(compiled, backend="dense").solve_batch(q, qd, y, uncertainty="torque")
    assert fast.method == "llvm"
    assert_same(fast, slow)


def test_a_plan_belongs_to_its_beliefs() -> None:
    plan = believed().plan()
    kernel = believed().compile(plan)
    assert kernel.operations == plan.operations  # type: ignore[attr-defined]
    with pytest.raises(PlanMismatchError, match="prior"):
        believed(0.4).compile(plan)
