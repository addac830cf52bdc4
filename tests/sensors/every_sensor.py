"""One of every kind of sensor on one robot, for tests that must hold for all of them."""

from __future__ import annotations

import numpy as np

import sensors as kinds
from dynsys import KinematicTree, synthetic
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Frame, Weld
from tests.sensors.truth import SIDE


def robot() -> KinematicTree:
    tree = synthetic.random_tree(6, 5, joint_types=("revolute", "prismatic"))
    frames = {"tool": Frame(5, SIDE), "sole": Frame(2, SIDE), "wall": Frame(-1, SIDE)}
    children = tuple(int(j) for j in np.flatnonzero(tree.parent == 2))
    part = Inertia(0.1, np.array([0.1, 0.0, 0.0]), 0.001 * np.eye(3))
    weld = Weld("seam", "plate", 2, SIDE, Transform.identity(), part, children)
    return KinematicTree("tree", tree.bodies, frames, welds={"seam": weld, "plate": weld})


def sensors(of: KinematicTree) -> list[kinds.AbstractSensor]:
    joint, other = of.joint_names[1], of.joint_names[3]
    pose = {"xyz": (0.1, 0.2, 0.3), "rpy": (0.5, -0.2, 0.1)}
    return [
        kinds.JointTorque("torque", joint, std=0.5),
        kinds.JointAcceleration("acceleration", joint, 0),
        kinds.MotorTorque("motor", joint, 50.0, viscous=0.1, coulomb=0.2, rotor_inertia=1e-4),
        kinds.MotorAcceleration("encoder", joint, 50.0),
        kinds.MimicConstraint("mimic", joint, other, -2.0),
        kinds.Accelerometer("accelerometer", "tool", std=(0.1, 0.2, 0.3), **pose),
        kinds.Gyroscope("gyroscope", "tool", **pose),
        kinds.AngularAccelerometer("angular", "tool", **pose),
        kinds.Imu("imu", "wall", angular=True, std=(0.1, 0.2, 0.3), **pose),
        kinds.ForceTorque("ft", other, components=("fx", "tz"), measures="on_parent", **pose),
        kinds.ForceTorque("seam_ft", "seam", external="before", std=(0.1, 1.0)),
        kinds.ExternalWrench(
            "contact", "tool", components=("fz", "tx"), value=(0.0, 1.0), **pose
        ),
        kinds.LoadCellPlate("plate", "sole", covariance=np.diag([1.0, 2.0, 3.0]), **pose),
        kinds.FiveAxisPlate("five", "sole", **pose),
        kinds.ExternalWrench("ramp", "tool", axes="world", std=(0.1, 1.0), **pose),
        kinds.LoadCellPlate("scale", "sole", axes="world"),
        kinds.ForceAlongDirection("plumb", "tool", (0.0, 0.1, 1.0), axes="world"),
        kinds.RigidContact("ice", "sole", components=("z",), axes="world"),
        kinds.LoopClosure("slot", "tool", "sole", ("z", "ry"), "world"),
        kinds.PureForce("point", "tool", xyz=(0.1, 0.2, 0.3)),
        kinds.ForceAlongDirection("line", "tool", (1.0, 2.0, 3.0)),
        kinds.RigidContact("stand", "sole", holds="point"),
        kinds.LoopClosure("loop", "tool", "sole", ("x", "rz")),
        kinds.ActionReaction("grip", "tool", "sole"),
        kinds.CentreOfMassAcceleration("com"),
        kinds.CentroidalMomentumRate("momentum", "tool"),
        kinds.LinearMeasurement(
            "rows",
            {"torque": {joint: [1.0]}, "external_wrench": {"tool": [1, 0, 0, 0, 0, 2.0]}},
            bias=3.0,
        ),
    ]
