"""Layouts of sensors, from square to far more than needed, and the backends that solve them."""

from __future__ import annotations

import numpy as np

import sensors
from dynsys import KinematicTree, synthetic
from dynsys.cholmod import has_cholmod
from problems import Estimation
from sensors import AbstractSensor, Layout
from tests.problems.estimation.estimation_cases import FEET

BACKENDS = ["dense", "superlu"] + (["cholmod"] if has_cholmod() else [])


def inverse_dynamics(robot: KinematicTree) -> Layout:
    return Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *(sensors.ExternalWrench(f"{n}/wrench", n, std=1.0) for n in robot.body_names),
        ],
    )


def forward_dynamics(robot: KinematicTree) -> Layout:
    return Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1),
            *(sensors.ExternalWrench(f"{n}/wrench", n, std=1.0) for n in robot.body_names),
        ],
    )


def on_force_sensors(robot: KinematicTree) -> Layout:
    """Accelerations, and the feet's wrenches through sensors inside the legs: square."""
    return Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            sensors.ForceTorque("l_ft", "l_foot_ft_fixed", external="beyond", std=(0.02, 0.5)),
            sensors.ForceTorque("r_ft", "r_ankle_roll", std=(0.02, 0.5)),
            *sensors.zero_external_wrench_except(robot, FEET),
        ],
    )


def generous(robot: KinematicTree, *more: AbstractSensor) -> Layout:
    """Far more than needed: noise of many sizes, exact rows, correlated sensors."""
    return Layout(
        robot,
        [
            *on_force_sensors(robot).sensors,
            *sensors.all_joint_torques(robot, std=0.5, exclude=("root",)),
            sensors.JointTorque("root/torque", "root", value=0.0, std=0.1),
            sensors.Imu("chest", "chest_imu", angular=True, std=(0.05, 0.01, 0.2)),
            sensors.Accelerometer("head", "camera", std=0.05),
            sensors.LoadCellPlate("l_plate", "l_sole", std=(0.1, 2.0)),
            sensors.ExternalWrench("r_plate", "r_sole", std=(0.1, 2.0)),
            *more,
        ],
        correlations=[("chest", "head", 1e-3 * np.eye(9, 3))],
    )


SQUARE = [inverse_dynamics, forward_dynamics, on_force_sensors]


def small() -> Estimation:
    """A chain of three links that is pushed at its tip: six rows more than needed."""
    robot = synthetic.chain(3)
    layout = Layout(
        robot,
        [
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.all_joint_torques(robot, std=0.5),
            sensors.Accelerometer("tip", "link_3", std=0.2),
            sensors.ExternalWrench("push", "link_3", std=(0.1, 1.0)),
            *sensors.zero_external_wrench_except(robot, ["link_3"]),
        ],
        correlations=[("link_1/torque", "link_2/torque", [[0.1]])],
    )
    return Estimation(robot, layout)
