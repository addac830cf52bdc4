"""Kernels and C whose deviations count noise of q and qd, against the general path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sensors
from dynsys import KernelBuildError, KinematicTree, synthetic
from dynsys.model.spatial import Transform
from dynsys.model.tree import Frame
from dynsys.plan import estimator
from dynsys.plan.estimator import estimator_program, planned_estimator
from dynsys.plan.operations import program_operations
from dynsys.program import derivatives
from dynsys.types import Array
from problems import Estimation
from problems.estimation.compiled import CompiledEstimator, EstimatorOutputs
from problems.estimation.derivatives import EstimatorSlopes
from problems.estimation.outputs import parse_outputs
from problems.live.estimator import LiveEstimator
from problems.measured.measured_system import QUANTITIES
from sensors import Layout
from tests.kernel.exported_c import call, compile_and_check, needs_compiler
from tests.problems.estimation.estimation_cases import (
    inverse_dynamics,
    noisy,
    readings,
    small,
    truth,
)

NOISE = {"position_std": 0.1, "velocity_std": 0.5}


def with_noise(problem: Estimation, **noise: object) -> Estimation:
    robot, layout = problem.robot, problem.layout
    made = Layout(robot, layout.sensors, layout.correlations, quiet=True, **(noise or NOISE))  # type: ignore[arg-type]
    return Estimation(robot, made)


def redundant() -> Estimation:
    return with_noise(small())


def square() -> Estimation:
    """As many readings as unknowns: LU; quaternions have noise too."""
    robot = synthetic.random_tree(4, seed=3)  # spherical, planar
    std = {
        name: [0.1] * (s.stop - s.start)
        for name, s in zip(robot.joint_names, robot.v_slices(), strict=True)
        if s.stop > s.start
    }
    return with_noise(
        Estimation(robot, inverse_dynamics(robot)), position_std=std, velocity_std=0.5
    )


def load_cells() -> Estimation:
    """The recursion with open parameters, and deviations by LU beside it."""
    robot = synthetic.chain(4)
    return with_noise(Estimation(robot, sensors.published.sie_friction(robot)))


CASES = {"redundant": redundant, "square": square, "load cells": load_cells}


def states(problem: Estimation, n: int) -> tuple[Array, Array, Array]:
    found = []
    for k in range(n):
        state = truth(problem, k)
        found.append((state.q, state.qd, noisy(problem, readings(problem, state), k)))
    q, qd, y = (np.array(x) for x in zip(*found, strict=True))
    return q, qd, y


def general(problem: Estimation, state: tuple[Array, Array, Array]) -> dict[str, Array]:
    """Deviations by pivoting and one solve for each number: the twin."""
    e = replace(problem, backend="superlu").solve(*state)
    return {kind: e.std[kind].array.ravel() for kind in QUANTITIES}


def assert_same(found: Array, exact: Array) -> None:
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_kernels_have_the_deviations_of_the_general_path(case: str) -> None:
    problem = CASES[case]()
    q, qd, y = states(problem, 8)
    exact = [general(problem, state) for state in zip(q, qd, y, strict=True)]
    kinds = ("torque", "joint_wrench")
    kernel = problem.compile(outputs=kinds, uncertainty=kinds)
    plain = with_noise(problem, position_std=0).compile(outputs=kinds, uncertainty=kinds)
    many, finite = kernel.batch(q, qd, y)
    assert finite
    for k, state in enumerate(zip(q, qd, y, strict=True)):
        one, finite = kernel.one(*state)
        without, _ = plain.one(*state)
        assert finite
        for i, kind in enumerate(kinds):
            assert_same(one[len(kinds) + i], exact[k][kind])
            assert_same(many[len(kinds) + i][k], exact[k][kind])
            assert_same(one[i], without[i])
        assert (one[len(kinds)] > 1.01 * without[len(kinds)]).any()


def test_few_numbers_are_followed_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep for each number instead of one for each freedom: fewer operations, the same."""
    robot = synthetic.chain(6)
    problem = with_noise(Estimation(robot, inverse_dynamics(robot)))
    outputs = EstimatorOutputs((), ("torque.link_2",))
    spec = CompiledEstimator.of(problem).spec(outputs)
    backward = estimator_program(spec)
    monkeypatch.setattr(derivatives, "BACKWARD", 100)
    forward = estimator_program(spec)
    assert program_operations(backward).total < program_operations(forward).total
    q, qd, y = states(problem, 3)
    rows = np.hstack([q, qd, y])
    exact = [general(problem, s)["torque"][1:2] for s in zip(q, qd, y, strict=True)]
    for program in (backward, forward):
        np.testing.assert_allclose(program.evaluate(rows), exact, rtol=1e-9)


def test_guards_stay_where_deviations_stand_alone() -> None:
    """What a state must not be answered by is NaN, also where no value is asked for."""
    problem = square()
    kernel = problem.compile(outputs=["std.torque"])
    q, qd, y = (x[0] for x in states(problem, 1))
    (std,), finite = kernel.one(q, qd, y)
    assert finite and len(std) == problem.robot.nv
    long = q.copy()
    long[problem.robot.quaternion_slices[0]] *= 1.01
    (std,), finite = kernel.one(long, qd, y)
    assert np.isnan(std[0]) and not finite


def test_multipliers_and_parts_keep_their_meaning() -> None:
    """Residuals judge readings alone; parts at frames are rows of the same variance."""
    problem = redundant()
    q, qd, y = (x[0] for x in states(problem, 1))
    kernel = problem.compile(
        outputs=["torque", "std.multiplier", "std.torque.link_3", "std.external_wrench.link_3"]
    )
    (_, multiplier, knee, wrench), finite = kernel.one(q, qd, y)
    alone = with_noise(problem, position_std=0).compile(outputs=["std.multiplier"])
    (expected,), _ = alone.one(q, qd, y)
    exact = general(problem, (q, qd, y))
    assert finite
    np.testing.assert_allclose(multiplier, expected, rtol=1e-9)
    assert_same(knee, exact["torque"][2:3])
    assert_same(wrench, exact["external_wrench"][-6:])


def test_plans_are_executed_and_state_what_they_cost() -> None:
    for problem, method in ((redundant(), "saddle"), (load_cells(), "recursion")):
        plan = problem.plan(outputs=("torque", "std.torque"))
        kernel = problem.compile(plan, outputs=("torque", "std.torque"))
        assert kernel.operations == plan.operations
        values = problem.plan()
        assert values.method == method
        q, qd, y = (x[0] for x in states(problem, 1))
        executed = problem.compile(values, outputs=("torque", "std.torque"))
        (_, std), finite = executed.one(q, qd, y)
        assert finite
        assert_same(std, general(problem, (q, qd, y))["torque"])


def test_switched_sensors_and_parameters() -> None:
    problem = redundant()
    q, qd, y = (x[0] for x in states(problem, 1))
    weight = np.ones(len(y))
    weight[problem.layout.slice("tip")] = 0.0
    kernel = problem.compile(outputs=["std.torque"], switchable=["tip"])
    missing = np.where(weight == 0, np.nan, y)
    assert_same(
        kernel.one(q, qd, y, weight)[0][0], general(problem, (q, qd, missing))["torque"]
    )
    mass = "link_3.mass"
    kernel = problem.compile(outputs=["std.torque"], parameters=[mass])
    heavy = problem.robot.with_parameters({mass: 3.0})
    other = Estimation(
        heavy, Layout(heavy, problem.layout.sensors, problem.layout.correlations, **NOISE)
    )  # type: ignore[arg-type]
    assert_same(kernel.one(q, qd, y, [3.0])[0][0], general(other, (q, qd, y))["torque"])


@needs_compiler
@pytest.mark.parametrize("case", ["redundant", "square"])
def test_exported_c_has_these_deviations(case: str, tmp_path: Path) -> None:
    problem = CASES[case]()
    problem.export_c(tmp_path, outputs=["torque", "std.torque"])
    compile_and_check(tmp_path, "estimation")
    q, qd, y = states(problem, 4)
    spec = CompiledEstimator.of(problem).spec(EstimatorOutputs(("torque",), ("torque",)))
    found = call(tmp_path, "estimation", spec.signature, np.hstack([q, qd, y]))
    for k, state in enumerate(zip(q, qd, y, strict=True)):
        assert_same(found[k, problem.robot.nv :], general(problem, state)["torque"])


def test_solve_uses_a_kernel_that_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Made by compile or a batch; else, and where readings are missing, the general path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    problem = redundant()
    q, qd, y = states(problem, 300)
    asked: list[int] = []
    at = EstimatorSlopes.at
    monkeypatch.setattr(EstimatorSlopes, "at", lambda *x: asked.append(1) or at(*x))
    first = problem.solve(q[0], qd[0], y[0]).std.torque.array
    before = problem.solve(q[0], qd[0], y[0], uncertainty="torque").std.torque.array
    assert len(asked) == 2
    problem.compile(outputs=["torque", "std.torque"])
    e = problem.solve(q[0], qd[0], y[0])
    assert_same(e.std.torque.array, first)
    assert_same(problem.solve(q[0], qd[0], y[0], uncertainty="torque").std.torque.array, before)
    again = Estimation(problem.robot, problem.layout)  # from the cache
    assert_same(again.solve(q[0], qd[0], y[0]).std.torque.array, first)
    assert len(asked) == 2 and e.method == "llvm"
    y[0, 0] = np.nan
    many = problem.solve_batch(q, qd, y, uncertainty=("torque",)).std.torque.array
    assert len(asked) == 3
    for k in (0, 299):
        assert_same(many[k], general(problem, (q[k], qd[k], y[k]))["torque"])


def test_live_samples_go_through_a_kernel() -> None:
    problem = redundant()
    live = LiveEstimator(problem, parse_outputs(problem, ["torque", "std.torque"]))
    live.prepare()
    q, qd, y = (x[0] for x in states(problem, 1))
    live.solve(q, qd, y)
    assert live.method == "llvm"
    assert_same(live.row[problem.robot.nv :], general(problem, (q, qd, y))["torque"])


def test_values_and_layouts_without_that_noise_have_the_programs_they_had() -> None:
    quiet, loud = small(), redundant()
    values, both = EstimatorOutputs(("torque",)), EstimatorOutputs(("torque",), ("torque",))
    for problem, outputs in ((loud, values), (with_noise(loud, position_std=0), both)):
        spec = CompiledEstimator.of(problem).spec(outputs)
        expected = CompiledEstimator.of(quiet).spec(outputs)
        assert spec.fingerprint == expected.fingerprint and not spec.followed
        found, same = planned_estimator(spec).program, planned_estimator(expected).program
        for part in ("op", "left", "right", "constants", "outputs"):
            assert np.array_equal(getattr(found, part), getattr(same, part))
    spec = CompiledEstimator.of(loud).spec(both)
    assert spec.fingerprint != CompiledEstimator.of(quiet).spec(both).fingerprint


@pytest.mark.slow
def test_too_many_operations_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "LONGEST", 2000)
    problem = redundant()
    with pytest.raises(KernelBuildError, match=r"'chain3'.*noise of q and qd.*solve_batch"):
        problem.compile(outputs=["std.torque"])
    q, qd, y = states(problem, 300)
    found = problem.solve_batch(q, qd, y, uncertainty=("torque",)).std.torque.array
    assert_same(found[0], general(problem, (q[0], qd[0], y[0]))["torque"])


# ---- where something is open -----------------------------------------------------------------


def touched() -> Estimation:
    """An arm whose first link may be touched, its last one at a point; q and qd have noise."""
    tree = synthetic.chain(3)
    tip = Frame(2, Transform(np.eye(3), np.array([0.3, 0.1, 0.0])))
    robot = KinematicTree("arm", tree.bodies, {"tip": tip})
    return Estimation(
        robot,
        Layout(
            robot,
            [
                *sensors.all_joint_accelerations(robot, std=0.1),
                *sensors.zero_external_wrench_except(robot),
                sensors.PureForce("point", "tip", std=0.2),
            ],
            position_std=0.01,
            velocity_std=0.02,
        ),
    )


def resting(problem: Estimation) -> Array:
    said = problem.layout.constants
    return np.where(np.isnan(said), 0.5, said)


@pytest.mark.finding("E-5")
def test_what_is_open_takes_no_deviation_from_the_rest() -> None:
    """The torques beyond a touched link are what they are if nothing touches it."""
    problem, rng = touched(), np.random.default_rng(0)
    y = resting(problem)
    for q in (np.zeros(3), rng.normal(size=3), rng.normal(size=3)):
        e = problem.solve(q, [0.1, 0.2, 0.3], y, active={"link_1/no_contact": False})
        expected = problem.solve(q, [0.1, 0.2, 0.3], y).std.torque.array
        assert np.isnan(e.torque.array[0]) and np.isnan(e.std.torque.array[0])
        assert_same(e.std.torque.array[1:], expected[1:])
        free = problem.solve(q, [0.1, 0.2, 0.3], y, active={"link_3/no_contact": False})
        at_tip = free.std.external_wrench["tip"]  # of the body no component is determined
        assert np.isnan(free.external_wrench["link_3"][:3]).any()
        np.testing.assert_allclose(at_tip[:3], 0.2)
        assert np.isnan(at_tip[3:]).all()
    many = problem.solve_batch(
        *np.zeros((2, 300, 3)),
        np.tile(y, (300, 1)),
        active={"link_1/no_contact": np.arange(300) > 0},
        uncertainty="torque",
    )
    assert_same(many.std.torque.array[0, 1:], many.std.torque.array[1, 1:])


@pytest.mark.finding("E-3")
def test_deviations_at_a_frame_may_be_all_that_a_batch_is_asked() -> None:
    problem = touched()
    y = resting(problem)
    many = problem.solve_batch(
        *np.zeros((2, 300, 3)), np.tile(y, (300, 1)), uncertainty=["external_wrench.tip"]
    )
    one = problem.solve(np.zeros(3), np.zeros(3), y)
    assert_same(many.std.external_wrench["tip"][7], one.std.external_wrench["tip"])
