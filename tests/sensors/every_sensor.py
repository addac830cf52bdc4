"""One of every kind of sensor on one robot, for tests that must hold for all of them."""

from __future__ import annotations

import numpy as np

from dynsys.model import synthetic
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Frame, KinematicTree, Weld
from sensors import (
    AbstractSensor,
    Accelerometer,
    ActionReaction,
    AngularAccelerometer,
    CentreOfMassAcceleration,
    CentroidalMomentumRate,
    ExternalWrench,
    FiveAxisPlate,
    ForceAlongDirection,
    ForceTorque,
    Gyroscope,
    Imu,
    JointAcceleration,
    JointTorque,
    LinearMeasurement,
    LoadCellPlate,
    LoopClosure,
    MimicConstraint,
    MotorAcceleration,
    MotorTorque,
    PureForce,
    RigidContact,
)
from tests.sensors.truth import SIDE


def robot() -> KinematicTree:
    tree = synthetic.random_tree(6, 5, joint_types=("revolute", "prismatic"))
    frames = {"tool": Frame(5, SIDE), "sole": Frame(2, SIDE), "wall": Frame(-1, SIDE)}
    children = tuple(int(j) for j in np.flatnonzero(tree.parent == 2))
    part = Inertia(0.1, np.array([0.1, 0.0, 0.0]), 0.001 * np.eye(3))
    weld = Weld("seam", "plate", 2, SIDE, Transform.identity(), part, children)
    return KinematicTree("tree", tree.bodies, frames, welds={"seam": weld, "plate": weld})


def sensors(of: KinematicTree) -> list[AbstractSensor]:
    joint, other = of.joint_names[1], of.joint_names[3]
    pose = {"xyz": (0.1, 0.2, 0.3), "rpy": (0.5, -0.2, 0.1)}
    return [
        JointTorque("torque", joint, std=0.5),
        JointAcceleration("acceleration", joint, 0),
        MotorTorque("motor", joint, 50.0, viscous=0.1, coulomb=0.2, rotor_inertia=1e-4),
        MotorAcceleration("encoder", joint, 50.0),
        MimicConstraint("mimic", joint, other, -2.0),
        Accelerometer("accelerometer", "tool", std=(0.1, 0.2, 0.3), **pose),
        Gyroscope("gyroscope", "tool", **pose),
        AngularAccelerometer("angular", "tool", **pose),
        Imu("imu", "wall", angular=True, std=(0.1, 0.2, 0.3), **pose),
        ForceTorque("ft", other, components=("fx", "tz"), measures="on_parent", **pose),
        ForceTorque("seam_ft", "seam", external="before", std=(0.1, 1.0)),
        ExternalWrench("contact", "tool", components=("fz", "tx"), value=(0.0, 1.0), **pose),
        LoadCellPlate("plate", "sole", covariance=np.diag([1.0, 2.0, 3.0]), **pose),
        FiveAxisPlate("five", "sole", **pose),
        PureForce("point", "tool", xyz=(0.1, 0.2, 0.3)),
        ForceAlongDirection("line", "tool", (1.0, 2.0, 3.0)),
        RigidContact("stand", "sole", holds="point"),
        LoopClosure("loop", "tool", "sole", ("x", "rz")),
        ActionReaction("grip", "tool", "sole"),
        CentreOfMassAcceleration("com"),
        CentroidalMomentumRate("momentum", "tool"),
        LinearMeasurement(
            "rows",
            {"torque": {joint: [1.0]}, "external_wrench": {"tool": [1, 0, 0, 0, 0, 2.0]}},
            bias=3.0,
        ),
    ]
