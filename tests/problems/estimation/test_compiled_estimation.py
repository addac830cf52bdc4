"""The compiled estimator gives what the reference path gives, at every state of a batch."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sensors
from dynsys import KernelBuildError, Plan, PlanMismatchError, StateError, synthetic
from dynsys.recursive.rnea import rnea
from dynsys.types import Array
from problems import Estimate, Estimation
from problems.measured.measured_system import Quantity
from tests.backends import COMPILED
from tests.processes import LIMIT


def over_determined() -> tuple[Estimation, Estimation]:
    robot = synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    reference = Estimation(robot, layout, backend="superlu")
    return Estimation(robot, layout, backend=COMPILED), reference


def test_outputs_are_asked_for_by_the_names_of_problem_files() -> None:
    compiled, _ = over_determined()
    named = compiled.plan(outputs=("torque", "std.torque"))
    apart = compiled.plan(outputs=("torque",), uncertainty=("torque",))
    assert named.operations == apart.operations != compiled.plan().operations
    kernel = compiled.compile(outputs=("torque", "std.torque"))
    q, y = np.zeros(3), np.nan_to_num(compiled.layout.constants)
    again = compiled.compile(outputs=("torque",), uncertainty=("torque",))
    for mine, other in zip(kernel.one(q, q, y), again.one(q, q, y), strict=True):
        np.testing.assert_array_equal(mine, other)
    with pytest.raises(KernelBuildError, match="nonsense"):
        compiled.compile(outputs=("std.nonsense",))


@pytest.mark.slow
def test_batch_agrees_with_the_reference_path() -> None:
    compiled, reference = over_determined()
    robot = compiled.robot
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, 5, 3))
    torque = np.array([rnea(robot, *state) for state in zip(q, qd, qdd, strict=True)])
    readings = {}
    for k, name in enumerate(robot.joint_names):
        for sensor in compiled.layout.sensors:
            if getattr(sensor, "joint", None) == name:
                truth = torque if sensor.kind == "joint_torque" else qdd
                readings[sensor.name] = truth[:, k] + 0.1 * rng.normal(size=5)
    fast = compiled.solve_batch(q, qd, readings, uncertainty="torque")
    slow = reference.solve_batch(q, qd, readings, uncertainty="torque")
    assert fast.method == COMPILED and slow.method != COMPILED
    for quantity in ("torque", "qdd", "acceleration", "joint_wrench", "external_wrench"):
        expected = getattr(slow, quantity).array
        np.testing.assert_allclose(
            getattr(fast, quantity).array, expected, atol=1e-9 * (1 + np.abs(expected).max())
        )
    np.testing.assert_allclose(fast.std.torque.array, slow.std.torque.array, rtol=1e-8)
    one = compiled.solve(q[0], qd[0], {name: value[0] for name, value in readings.items()})
    assert one.method == COMPILED
    np.testing.assert_allclose(one.torque.array, fast.torque.array[0], rtol=1e-9)
    np.testing.assert_allclose(one.chi_square, np.ravel(slow.chi_square)[0], rtol=1e-8)


def readings_of(problem: Estimation, n: int) -> tuple[Array, Array, Array]:
    """Random states and readings that disagree by some standard deviations."""
    rng = np.random.default_rng(1)
    q, qd = rng.normal(size=(2, n, problem.robot.nv))
    y = np.where(
        np.isnan(problem.layout.constants),
        rng.normal(size=(n, problem.layout.size)),
        problem.layout.constants,
    )
    return q, qd, y


def assert_same(fast: Estimate, slow: Estimate) -> None:
    """Everything an estimate says, by both ways."""
    np.testing.assert_allclose(fast.std.torque.array, slow.std.torque.array, rtol=1e-8)
    for quantity in ("torque", "qdd", "external_wrench"):
        expected = slow.values[quantity].array
        scale = 1 + np.nanmax(np.abs(expected), initial=0.0)
        np.testing.assert_allclose(fast.values[quantity].array, expected, atol=1e-8 * scale)
        np.testing.assert_array_equal(
            fast.determined[quantity].array, slow.determined[quantity].array
        )
    np.testing.assert_allclose(fast.chi_square, slow.chi_square, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(fast.degrees_of_freedom, slow.degrees_of_freedom)
    np.testing.assert_allclose(fast.p_value, slow.p_value, rtol=1e-6, atol=1e-12)
    for name, expected in slow.residual.items():
        np.testing.assert_allclose(fast.residual[name], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_missing_readings_have_no_weight() -> None:
    compiled, reference = over_determined()
    q, qd, y = readings_of(compiled, 12)
    y[1:4, 0] = y[2, 4] = y[4:9, 1] = y[9, :4] = np.nan
    fast = compiled.solve_batch(q, qd, y)
    assert fast.method == (COMPILED, *["reduced"] * 9, COMPILED, COMPILED)
    assert_same(fast, reference.solve_batch(q, qd, y))
    one = compiled.solve(q[2], qd[2], y[2])
    assert_same(one, reference.solve(q[2], qd[2], y[2]))


def test_states_without_an_answer_are_solved_one_by_one() -> None:
    compiled, reference = over_determined()
    q, qd, y = readings_of(compiled, 5)
    y[3, :4] = np.nan  # no torque, and no acceleration of the first joint
    fast = compiled.solve_batch(q, qd, y, uncertainty="torque")
    assert fast.method == (COMPILED, COMPILED, COMPILED, "dense", COMPILED)
    assert not fast.determined.torque.array[3].all()
    assert_same(fast, reference.solve_batch(q, qd, y, uncertainty="torque"))


@pytest.mark.slow
@pytest.mark.finding("K-1")
def test_residuals_stay_when_more_is_asked_for() -> None:
    compiled, reference = over_determined()
    q, qd, y = readings_of(compiled, 3)
    y[1, :4] = np.nan  # no kernel answers this state
    fast = compiled.solve_batch(q, qd, y, outputs=["residual"])
    assert fast.method == (COMPILED, "dense", COMPILED)
    assert_same(fast, reference.solve_batch(q, qd, y))  # residuals last


@pytest.mark.slow
def test_contacts_are_switched_without_a_new_analysis() -> None:
    robot = synthetic.chain(3)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot, [robot.body_names[2]]),
            sensors.ExternalWrench("tip", robot.body_names[2], std=0.5),
            sensors.ExternalWrench("nothing", robot.body_names[2], value=0.0),
        ],
    )
    compiled = Estimation(robot, layout, backend=COMPILED)
    reference = Estimation(robot, layout, backend="superlu")
    q, qd, y = readings_of(compiled, 20)
    active = {"nothing": np.arange(20) % 2 == 0}
    fast = compiled.solve_batch(q, qd, y, active=active)
    assert fast.method == (COMPILED, "reduced") * 10
    assert_same(fast, reference.solve_batch(q, qd, y, active=active))


def test_outputs_not_asked_for_are_found_later() -> None:
    compiled, reference = over_determined()
    q, qd, y = readings_of(compiled, 3)
    assert_same(
        compiled.solve_batch(q, qd, y, outputs=["torque"]), reference.solve_batch(q, qd, y)
    )


def test_layouts_without_a_kernel_say_so() -> None:
    robot = synthetic.chain(3)
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1))
    state = (np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    problem = Estimation(robot, layout, backend=COMPILED)
    lengths = []
    for _ in range(3):
        with pytest.raises(KernelBuildError) as refusal:
            problem.solve_batch(*state)
        lengths.append(len(refusal.traceback))
    assert lengths[1] == lengths[2]  # an error kept and raised again would keep every caller


def test_plan_compile_and_reference_belong_together(tmp_path: Path) -> None:
    compiled, _ = over_determined()
    plan = compiled.plan(outputs=["torque", "qdd"], uncertainty=["torque"])
    assert plan.operations.total > 0
    plan.save(tmp_path / "plan.json")
    plan = Plan.load(tmp_path / "plan.json")
    wanted = {"outputs": ["torque", "qdd"], "uncertainty": ["torque"]}
    kernel = compiled.compile(plan, **wanted)  # type: ignore[arg-type]
    slow = compiled.compile(backend="reference", **wanted)  # type: ignore[arg-type]
    assert kernel.signature == slow.signature
    state = readings_of(compiled, 3)
    for fast, expected in zip(kernel.batch(*state)[0], slow.batch(*state)[0], strict=True):
        np.testing.assert_allclose(fast, expected, rtol=1e-8, atol=1e-8)
    other = sensors.Layout(
        compiled.robot,
        [
            *sensors.all_joint_torques(compiled.robot, std=0.3),
            *sensors.zero_external_wrench_except(compiled.robot),
        ],
    )
    with pytest.raises(PlanMismatchError):
        Estimation(compiled.robot, other).compile(plan)


def test_the_reference_refuses_a_plan_it_would_not_execute() -> None:
    compiled, _ = over_determined()
    plan = compiled.plan()
    planned = Estimation(compiled.robot, compiled.layout, plan=plan)
    for problem, given in ((compiled, plan), (planned, None), (planned, plan)):
        with pytest.raises(KernelBuildError, match="'reference' executes no plan"):
            problem.compile(given, backend="reference")


def test_the_reference_names_a_wrong_argument() -> None:
    compiled, _ = over_determined()
    kernel = compiled.compile(backend="reference")
    q, qd, y = readings_of(compiled, 2)
    with pytest.raises(StateError, match="as many rows"):
        kernel.batch(q[:1], qd, y)
    with pytest.raises(StateError, match="state 1: qd"):
        kernel.batch(q, np.vstack([qd[:1], np.full_like(qd[:1], np.nan)]), y)
    with pytest.raises(StateError, match="out, torque"):
        kernel.one(q[0], qd[0], y[0], out=[np.zeros(1)])


def test_kernels_need_known_words() -> None:
    compiled, _ = over_determined()
    with pytest.raises(KernelBuildError, match="none of"):
        compiled.compile(outputs=["tork"])
    with pytest.raises(KernelBuildError, match="none of"):
        compiled.compile(backend="reference", outputs=["multiplier"])
    with pytest.raises(KernelBuildError, match="reference"):
        compiled.compile(backend="c")  # type: ignore[arg-type]


def test_header_of_exported_c_names_every_entry(tmp_path: Path) -> None:
    compiled, _ = over_determined()
    outputs: tuple[Quantity, ...] = ("torque", "joint_wrench", "acceleration")
    files = compiled.export_c(tmp_path, outputs=outputs, uncertainty=["torque"])
    header = next(f for f in files if f.suffix == ".h").read_text()
    sizes = re.findall(r"^ \* (?:in |out) \w+ +(\d+) x", header, re.MULTILINE)
    names = re.findall(r"^ \*       \[\d+\] .+$", header, re.MULTILINE)
    assert len(names) == sum(map(int, sizes))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_exported_c_passes_its_own_test(tmp_path: Path) -> None:
    compiled, _ = over_determined()
    files = compiled.export_c(tmp_path, outputs=["torque"], uncertainty=["torque"])
    sources = [str(f) for f in files if f.suffix == ".c"]
    program = tmp_path / "test"
    subprocess.run(
        ["cc", "-O1", "-o", str(program), *sources, "-lm"], check=True, timeout=LIMIT
    )
    subprocess.run([str(program)], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)


@pytest.mark.parametrize("backend", [COMPILED, "dense"])
@pytest.mark.finding("K-6")
def test_estimates_outlive_the_arrays_they_come_from(backend: str) -> None:
    """What is asked later belongs to the readings of then, whatever became of the arrays."""
    problem = replace(over_determined()[0], backend=backend)  # type: ignore[arg-type]
    robot = problem.robot
    q = np.array([robot.random_configuration(k) for k in range(3)])
    qd, constants = np.zeros((3, robot.nv)), problem.layout.constants
    y = np.tile(np.where(np.isnan(constants), 1.0, constants), (3, 1))
    expected = problem.solve_batch(q, qd, y).std.qdd.array.copy()
    later = problem.solve_batch(q, qd, y)
    single = problem.solve(q[0], qd[0], y[0])
    q[:] = [robot.random_configuration(k) for k in range(3, 6)]
    y[:] = 7.0
    np.testing.assert_allclose(later.std.qdd.array, expected)
    np.testing.assert_allclose(single.std.qdd.array, expected[0])


@pytest.mark.finding("Y-12")
def test_deviations_of_what_an_exact_statement_says_while_it_is_on() -> None:
    """Of the force of a foot that may be free: zero, not the root of what rounding leaves."""
    robot = synthetic.chain(3, generic=True)
    tip = robot.body_names[-1]
    free = sensors.ExternalWrench("free", tip, ("fx", "fy", "fz"), value=0.0)
    given = [
        *sensors.all_joint_torques(robot, std=0.1),
        *sensors.all_joint_accelerations(robot, std=0.5),
        sensors.PureForce("point", tip, xyz=(0.1, 0.2, 0.3)),
        sensors.Accelerometer("imu", tip, xyz=(0.3, 0.1, 0.2), std=0.05),
        *sensors.zero_external_wrench_except(robot, [tip]),
        free,
    ]
    problem = Estimation(robot, sensors.Layout(robot, given))
    asked = f"std.external_wrench.{tip}"
    kernel = problem.compile(outputs=["torque", asked], switchable=["free"])
    place, rng = problem.layout.slice("free"), np.random.default_rng(0)
    y = np.where(np.isnan(problem.layout.constants), 0.0, problem.layout.constants)
    for is_on in (True, False):
        weight = np.ones(problem.layout.size)
        weight[place] = is_on
        q = np.array([robot.random_configuration(k) for k in range(100)])
        qd = rng.normal(size=q.shape)
        answers = [kernel.one(*state, y, weight) for state in zip(q, qd, strict=True)]
        assert sum(finite for _, finite in answers) >= 90
        for k in range(4):
            e = problem.solve(q[k], qd[k], y, active={"free": is_on})
            found = answers[k][0][1]
            np.testing.assert_allclose(found, e.std.external_wrench[tip], rtol=1e-6, atol=1e-5)


def test_kernels_compute_what_is_named_in_that_order() -> None:
    kernel = over_determined()[0].compile(outputs=["residual", "torque"])
    assert [name for name, _ in kernel.signature.outputs] == ["residual", "torque"]


def test_what_is_open_is_nan_first_and_the_exported_files_say_so(tmp_path: Path) -> None:
    robot = synthetic.chain(2)
    torques = sensors.all_joint_torques(robot, std=0.1)
    free = sensors.zero_external_wrench_except(robot)
    problem = Estimation(robot, sensors.Layout(robot, [*torques, *free]))
    switchable = [torques[0].name]
    kernel = problem.compile(outputs=["torque", "qdd"], switchable=switchable)
    weight = np.ones(problem.layout.size)
    y = np.zeros(problem.layout.size)
    assert kernel.one(np.zeros(2), np.zeros(2), y, weight)[1]
    weight[problem.layout.slice(torques[0].name)] = 0.0
    (torque, _), finite = kernel.one(np.zeros(2), np.zeros(2), y, weight)
    assert np.isnan(torque[0]) and not finite
    problem.export_c(tmp_path, switchable=switchable)
    assert "the first output is NaN" in (tmp_path / "README.md").read_text()
