"""Offsets of sensors from a log."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import sensors
from dynsys import LayoutError, synthetic
from experiments.identification import correlated, motion
from problems import Estimation, calibrate_offsets, estimate_noise
from problems.measured.simulated_readings import TrueReadings
from sensors import Layout
from tests.problems.estimation.estimation_cases import (
    FEET,
    noisy,
    on_force_sensors,
    readings,
    small,
    truth,
)


def test_offsets_are_found_from_a_log() -> None:
    problem, n = small(), 60
    rng = np.random.default_rng(2)
    true = {
        "link_2/torque": np.array([0.8]),
        "push": np.array([0.1, -0.2, 0.1, 2.0, 1.0, -3.0]),
    }
    q, qd, y = [], [], []
    for k in range(n):
        state = truth(problem, k, ["link_3"])
        sample = noisy(problem, readings(problem, state), 100 + k)
        for name, offset in true.items():
            sample[problem.layout.slice(name)] += offset
        q.append(state.q)
        qd.append(state.qd)
        y.append(sample)
    y[5][problem.layout.slice("push")] = np.nan
    y[int(rng.integers(n))][problem.layout.slice("tip")] = np.nan
    found = calibrate_offsets(problem, q, qd, np.array(y), ["link_2/torque"])
    one = calibrate_offsets(problem, q, qd, np.array(y), ["push", "link_2/torque"])
    assert found.samples == n
    assert not found.unobservable
    for name, offset in true.items():
        error = np.abs(one.offset[name] - offset)[one.observable[name]]
        assert (error < 4.5 * one.std[name][one.observable[name]]).all()


def test_offsets_that_cannot_be_told_are_named(humanoid) -> None:
    problem = Estimation(
        humanoid, on_force_sensors(humanoid)
    )  # square: nothing checks anything
    state = truth(problem, 0, FEET)
    y = readings(problem, state)
    found = calibrate_offsets(problem, [state.q], [state.qd], y[None], ["l_ft"])
    assert not found.observable["l_ft"].any() and np.isnan(found.offset["l_ft"]).all()
    assert len(found.unobservable) == 6 and "l_ft.fz" in " ".join(found.unobservable)
    assert "not observable" in str(found)
    with pytest.raises(LayoutError, match="without noise"):
        calibrate_offsets(problem, [state.q], [state.qd], y[None], ["l_hand/no_contact"])


def test_offset_of_the_difference_of_two_sensors() -> None:
    """Two torque sensors on one joint: only the difference of their offsets can be told."""
    robot = synthetic.chain(2)
    layout = Layout(
        robot,
        [
            *sensors.zero_external_wrench_except(robot),
            sensors.JointAcceleration("a", "link_1", value=0.0),
            sensors.JointAcceleration("b", "link_2", std=1.0),
            sensors.JointTorque("left", "link_2", std=0.1),
            sensors.JointTorque("right", "link_2", std=0.1),
        ],
    )
    problem = Estimation(robot, layout)
    state = truth(problem, 0)
    y = np.array([readings(problem, state)])
    y[0, layout.slice("a")] = 0.0
    found = calibrate_offsets(problem, [state.q], [state.qd], y, ["left", "right", "b"])
    assert not found.observable["left"][0]
    assert len(found.unobservable) == 1


@pytest.mark.parametrize("memory", [0.0, 0.9])
@pytest.mark.finding("A-9")
def test_deviations_hold_where_noise_lasts(memory: float) -> None:
    """33 % lay within two deviations where ten samples were worth hardly more than one."""
    robot = synthetic.random_tree(3, seed=1, joint_types=("revolute",))
    layout = Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *sensors.all_joint_accelerations(robot, std=0.5),
            *sensors.zero_external_wrench_except(robot, []),
            sensors.ForceTorque("wrench", robot.joint_names[1], std=[0.05, 0.5]),
        ],
    )
    problem, true, off = Estimation(robot, layout), TrueReadings(layout), []
    std = np.where(np.isnan(layout.constants), layout.std, 0.0)
    for seed in range(8):
        rng, states = np.random.default_rng(seed), motion(robot, 4.0, 50.0, seed)
        y = true.at(*states, np.zeros((len(states[0]), 3, 6)))[1]
        y = y + std * correlated(rng, y.shape, memory)
        found = calibrate_offsets(problem, *states[:2], y)
        for name, seen in found.observable.items():
            off += (found.offset[name] / found.std[name])[seen].tolist()
    assert len(off) > 60 and 0.8 < np.sqrt(np.mean(np.square(off))) < 1.4


@pytest.mark.parametrize("claimed", [1e-3, 1e-7])
@pytest.mark.finding("Y-22")
def test_how_precise_a_sensor_claims_to_be_hides_no_offset_and_shows_none(claimed) -> None:
    """An offset is known as well as the others check it; that of a pair is not one's alone."""
    robot, n = synthetic.chain(2), 70
    layout = Layout(
        robot,
        [
            sensors.JointTorque("precise", "link_1", std=claimed),
            *(sensors.JointTorque(f"crude {k}", "link_1", std=1.0) for k in range(3)),
            *sensors.zero_external_wrench_except(robot, []),
            sensors.JointTorque("other", "link_2", std=1.0),
        ],
    )
    problem = Estimation(robot, layout)
    states = [truth(problem, k) for k in range(n)]
    q, qd = [s.q for s in states], [s.qd for s in states]
    y = np.array([noisy(problem, readings(problem, s), k) for k, s in enumerate(states)])
    y[:, 0] += 50.0
    y[3, 1] = np.nan
    found = calibrate_offsets(problem, q, qd, y, ["precise"])
    weight = 3 * (n - 1) + 2  # of the readings that are there
    assert found.std["precise"][0] == pytest.approx(weight**-0.5, rel=1e-4)
    assert found.offset["precise"][0] == pytest.approx(50.0, abs=4 * weight**-0.5)
    few = calibrate_offsets(problem, q[:9], qd[:9], y[:9], ["precise"])
    assert few.std["precise"][0] == pytest.approx((3 * 8 + 2) ** -0.5, rel=1e-4)
    both = calibrate_offsets(problem, q, qd, y)
    assert not any(truths.any() for truths in both.observable.values())
    assert len(both.unobservable) == 2 and all(map(np.isnan, both.offset["crude 0"]))


@pytest.mark.parametrize("std", [0.0, None])
@pytest.mark.parametrize("find", [calibrate_offsets, estimate_noise])
@pytest.mark.finding("Z-E7")
def test_layouts_without_noise_are_refused_in_words(
    find: Callable[..., object], std: float | None
) -> None:
    """Exact sensors only, or none: errors of zip and argmax."""
    robot = synthetic.chain(2)
    exact = [] if std is None else sensors.all_joint_torques(robot, std=std)
    problem = Estimation(robot, Layout(robot, exact))
    q, y = np.zeros((3, 2)), np.zeros((3, problem.layout.size))
    with pytest.raises(LayoutError, match=r"robot 'chain2': no sensor.*give one a std"):
        find(problem, q, q, y)
