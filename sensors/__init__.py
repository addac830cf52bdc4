"""Sensors: one class per kind of measurement, each adding rows to the linear system.

y = Y(q) d + b_Y(q, qd) + noise, on the unknowns d of :mod:`dynsys.system`. A :class:`Layout`
holds the sensors of one robot; :mod:`sensors.catalogue` has those of real robots.
"""

from sensors import catalogue, published
from sensors.constraints import ActionReaction, LoopClosure, RigidContact
from sensors.correlations import Correlation
from sensors.external import (
    ExternalWrench,
    FiveAxisPlate,
    ForceAlongDirection,
    LoadCellPlate,
    PureForce,
    load_cell_sums,
)
from sensors.force_torque import ForceTorque
from sensors.groups import (
    all_joint_accelerations,
    all_joint_torques,
    zero_external_wrench_except,
)
from sensors.inertial import Accelerometer, AngularAccelerometer, Gyroscope, Imu
from sensors.joint import (
    JointAcceleration,
    JointTorque,
    MimicConstraint,
    MotorAcceleration,
    MotorTorque,
)
from sensors.layout import Layout
from sensors.linear import LinearMeasurement
from sensors.mjcf_sensors import from_mjcf
from sensors.momentum import CentreOfMassAcceleration, CentroidalMomentumRate
from sensors.schema import layout_schema
from sensors.sensor import AbstractSensor, SensorRows, sensor_kinds
from sensors.urdf_sensors import from_urdf

__all__ = [
    "AbstractSensor",
    "Accelerometer",
    "ActionReaction",
    "AngularAccelerometer",
    "CentreOfMassAcceleration",
    "CentroidalMomentumRate",
    "Correlation",
    "ExternalWrench",
    "FiveAxisPlate",
    "ForceAlongDirection",
    "ForceTorque",
    "Gyroscope",
    "Imu",
    "JointAcceleration",
    "JointTorque",
    "Layout",
    "LinearMeasurement",
    "LoadCellPlate",
    "LoopClosure",
    "MimicConstraint",
    "MotorAcceleration",
    "MotorTorque",
    "PureForce",
    "RigidContact",
    "SensorRows",
    "all_joint_accelerations",
    "all_joint_torques",
    "catalogue",
    "from_mjcf",
    "from_urdf",
    "layout_schema",
    "load_cell_sums",
    "published",
    "sensor_kinds",
    "zero_external_wrench_except",
]
