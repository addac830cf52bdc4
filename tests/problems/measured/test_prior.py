"""What a prior of one number for all bodies counts, against the normal equations by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dynsys
import problems
import sensors
from dynsys import Contact, FrameConstraint, LayoutError, synthetic
from dynsys.types import Array
from sensors import Layout

ARM = synthetic.chain(3, generic=True)
Q, STILL = np.array([0.3, -0.4, 0.2]), np.zeros(3)
TOE = Contact("toe", "link_2", (0.2, 0.1, 0.0))
INSOLE = Contact("insole", "toe", (0.0, 0.0, 0.1))


def estimate(robot: dynsys.KinematicTree, prior: Any, *more: sensors.AbstractSensor) -> Any:
    untouched = sensors.zero_external_wrench_except(robot)
    layout = Layout(robot, [sensors.JointTorque("t", "link_3", std=0.1), *untouched, *more])
    y = {"t": np.ones(1)} | {sensor.name: np.zeros(6) for sensor in untouched}
    return problems.Estimation(robot, layout, prior).solve(Q, STILL, y)


def by_hand() -> tuple[Array, Array]:
    """Qdd and its std from torque 3 and  a_i = 0 with std 5, body by body, at rest."""
    torque = dynsys.crba(ARM, Q)[2:] / 0.1
    rows, right = [torque], [(np.ones(1) - dynsys.rnea(ARM, Q, STILL, STILL)[2:]) / 0.1]
    for name in ARM.body_names:
        rows.append(dynsys.jacobian(ARM, Q, name) / 5.0)
        up = dynsys.forward_kinematics(ARM, Q, name).E @ ARM.gravity
        right.append(np.concatenate([np.zeros(3), up]) / 5.0)  # a_i = J qdd - (0, E g)
    A, b = np.vstack(rows), np.concatenate(right)
    covariance = np.linalg.inv(A.T @ A)
    return covariance @ A.T @ b, np.sqrt(np.diag(covariance))


@pytest.mark.finding("F4")
@pytest.mark.parametrize(
    "contacts", [[], [TOE], [TOE, INSOLE], [Contact("plate", -1)]], ids=lambda c: str(len(c))
)
def test_an_acceleration_is_believed_once_for_every_body(contacts: list[Contact]) -> None:
    robot = ARM
    for contact in contacts:
        robot = robot.with_contacts([contact])
    e = estimate(robot, {"acceleration": 5.0})
    qdd, std = by_hand()
    np.testing.assert_allclose(e.qdd.array, qdd, rtol=1e-8)
    np.testing.assert_allclose(e.std.qdd.array, std, rtol=1e-8)


@pytest.mark.finding("F4")
@pytest.mark.parametrize("kind", ["acceleration", "net_wrench", "joint_wrench"])
def test_an_untouched_contact_tells_nothing(kind: str) -> None:
    prior = problems.Prior({kind: 5.0}, {kind: 0.3})
    e, other = (estimate(robot, prior) for robot in (ARM, ARM.with_contacts([TOE])))
    np.testing.assert_allclose(other.qdd.array, e.qdd.array, rtol=1e-8)
    np.testing.assert_allclose(other.std.qdd.array, e.std.qdd.array, rtol=1e-8)
    assert other.degrees_of_freedom == e.degrees_of_freedom
    assert other.p_value == pytest.approx(e.p_value, rel=1e-8)


@pytest.mark.finding("F4")
def test_a_contact_that_is_named_is_believed() -> None:
    robot = ARM.with_contacts([TOE])
    every = {"acceleration": dict.fromkeys(robot.body_names, 5.0)}
    twice = estimate(robot, every).std.qdd.array
    assert (twice < estimate(robot, {"acceleration": 5.0}).std.qdd.array - 1e-3).any()
    mean = problems.Prior({"acceleration": 5.0}, {"acceleration": {"toe": 1.0}})
    with pytest.raises(LayoutError, match="'toe' has a mean but no std"):
        estimate(robot, mean)


@pytest.mark.finding("F4")
@pytest.mark.parametrize("other", [None, "link_1", -1])
def test_the_wrench_of_a_constraint_is_believed_once(other: str | int | None) -> None:
    """Nothing reads it: what is known of it is what was believed."""
    robot = synthetic.chain(4)
    pin = FrameConstraint("pin", "link_4", other, components=("x", "y", "z"))
    untouched = sensors.zero_external_wrench_except(robot)
    plain = Layout(robot, [*untouched, *sensors.all_joint_accelerations(robot, std=0.1)])
    prior = {"external_wrench": 20.0}
    est = problems.Estimation(robot, plain, prior, constraints=[pin])
    q, qd, y = np.array([0.3, 0.4, 0.5, 0.6]), np.zeros(4), np.zeros(est.layout.size)
    e = est.solve(q, qd, y)
    np.testing.assert_allclose(e.std.external_wrench["pin"], [0, 0, 0, 20, 20, 20], atol=1e-9)
    held = est.layout
    again = problems.Estimation(held.robot, Layout(held.robot, held.sensors), prior)
    np.testing.assert_allclose(
        again.solve(q, qd, y).std.external_wrench["pin"],
        e.std.external_wrench["pin"],
        atol=1e-9,
    )
