"""The compiled estimator gives what the reference path gives, at every state of a batch."""

from __future__ import annotations

import numpy as np
import pytest

import sensors
from dynsys.errors import KernelBuildError
from dynsys.model import synthetic
from dynsys.recursive.rnea import rnea
from problems import Estimation


def over_determined() -> tuple[Estimation, Estimation]:
    robot = synthetic.chain(4)
    layout = sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.2),
            *sensors.zero_external_wrench_except(robot),
        ],
    )
    return Estimation(robot, layout, backend="llvm"), Estimation(robot, layout)


def test_batch_agrees_with_the_reference_path() -> None:
    compiled, reference = over_determined()
    robot = compiled.robot
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, 5, 4))
    torque = np.array([rnea(robot, *state) for state in zip(q, qd, qdd, strict=True)])
    readings = {}
    for k, name in enumerate(robot.joint_names):
        for sensor in compiled.layout.sensors:
            if getattr(sensor, "joint", None) == name:
                truth = torque if sensor.kind == "joint_torque" else qdd
                readings[sensor.name] = truth[:, k] + 0.1 * rng.normal(size=5)
    fast = compiled.solve_batch(q, qd, readings, uncertainty="torque")
    slow = reference.solve_batch(q, qd, readings, uncertainty="torque")
    assert fast.method == "llvm" and slow.method != "llvm"
    for quantity in ("torque", "qdd", "acceleration", "joint_wrench", "external_wrench"):
        expected = getattr(slow, quantity).array
        np.testing.assert_allclose(
            getattr(fast, quantity).array, expected, atol=1e-9 * (1 + np.abs(expected).max())
        )
    np.testing.assert_allclose(fast.std.torque.array, slow.std.torque.array, rtol=1e-8)
    one = compiled.solve(q[0], qd[0], {name: value[0] for name, value in readings.items()})
    assert one.method == "llvm"
    np.testing.assert_allclose(one.torque.array, fast.torque.array[0], rtol=1e-9)
    np.testing.assert_allclose(one.chi_square, np.ravel(slow.chi_square)[0], rtol=1e-8)


def test_missing_readings_go_to_the_reference_path() -> None:
    compiled, reference = over_determined()
    y = np.zeros(compiled.layout.size)
    y[0] = np.nan
    state = (np.ones(4), np.zeros(4), y)
    answer = compiled.solve(*state)
    assert answer.method != "llvm"
    np.testing.assert_allclose(answer.torque.array, reference.solve(*state).torque.array)


def test_layouts_without_a_kernel_say_so() -> None:
    robot = synthetic.chain(3)
    layout = sensors.Layout(robot, sensors.all_joint_torques(robot, std=0.1))
    state = (np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(KernelBuildError):
        Estimation(robot, layout, backend="llvm").solve_batch(*state)
