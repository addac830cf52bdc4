"""Robots, layouts and logs for the tests of identification."""

from __future__ import annotations

import numpy as np

import sensors
from dynsys.model.parameters import BODY_PARAMETERS, inertial_values
from dynsys.model.spatial import cross_force, cross_motion, skew
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import transforms
from dynsys.types import Array
from problems.logs.simulate import Trajectory
from problems.measured.simulated_readings import TrueReadings
from sensors import Layout


def torque_layout(robot: KinematicTree, std: float = 0.1) -> Layout:
    """A torque sensor at every joint."""
    return Layout(robot, sensors.all_joint_torques(robot, std=std))


def mixed_layout(robot: KinematicTree, seed: int, contact: bool = False) -> Layout:
    """Some torques, some force/torque sensors, an inertial unit; perhaps a touched body."""
    rng = np.random.default_rng(seed)
    joints = [n for n, b in zip(robot.joint_names, robot.bodies, strict=True) if b.joint.nv]
    some = [n for n in joints if rng.random() < 0.6] or joints[:1]
    found: list[sensors.AbstractSensor] = [
        sensors.JointTorque(f"torque {n}", n, std=0.1) for n in some
    ]
    for n in rng.permutation(robot.joint_names)[:2]:
        found.append(sensors.ForceTorque(f"ft {n}", str(n), std=[0.1, 1.0]))
    found.append(sensors.Imu("imu", robot.body_names[-1], std=0.1))
    if contact:
        last = robot.body_names[-1]
        found.append(sensors.ExternalWrench("sole", last, components=("tx", "fz"), std=0.5))
    return Layout(robot, found)


def random_states(robot: KinematicTree, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Random q, qd, qdd, a row each."""
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    return q, rng.normal(size=(count, robot.nv)), rng.normal(size=(count, robot.nv))


def changed(robot: KinematicTree, seed: int, size: float = 0.3) -> KinematicTree:
    """The same robot with other inertias, friction, rotors and offsets."""
    rng = np.random.default_rng(seed)
    values = {}
    for i, body in enumerate(robot.bodies):
        factor, name = float(np.exp(size * rng.normal())), body.name
        ten = inertial_values(body.inertia) * factor
        for kind, x in zip(BODY_PARAMETERS, ten, strict=True):
            values[f"{name}.{kind}"] = float(x)
        if robot.joints[i].nv == 1 and body.coupling is None:
            joint = robot.joint_names[i]
            values |= {f"{joint}.viscous": rng.uniform(0.2, 1.0)}
            values |= {f"{joint}.coulomb": rng.uniform(0.2, 1.0)}
            values |= {f"{joint}.armature": rng.uniform(0.01, 0.05)}
            values |= {f"{joint}.offset": 0.3 * rng.normal()}
    return robot.with_parameters(values)


def motion(robot: KinematicTree, seconds: float, rate: float, seed: int) -> tuple[Array, ...]:
    """A smooth random motion: q, qd, qdd, a row for each sample."""
    time = np.arange(round(seconds * rate)) / rate
    return Trajectory.random(robot, seconds, seed=seed).at(time)


def readings(
    layout: Layout,
    robot: KinematicTree,
    states: tuple[Array, ...],
    f_ext: Array | None = None,
) -> Array:
    """What the layout's sensors would read on another robot, without noise."""
    frictionless = robot.with_friction(False)
    wrenches = np.zeros((len(states[0]), robot.n_bodies, 6)) if f_ext is None else f_ext
    y = TrueReadings(Layout(frictionless, layout.sensors)).at(*states, wrenches)[1]
    lost = robot.friction_torque(states[1])
    for sensor in layout.sensors:
        if isinstance(sensor, sensors.JointTorque):
            y[:, layout.slice(sensor.name)] += lost[:, robot.v_slice(sensor.joint)]
    return y


def correlated(rng: np.random.Generator, shape: tuple[int, int], memory: float) -> Array:
    """Noise of unit deviation whose correlation falls by ``memory`` from sample to sample."""
    noise = rng.normal(size=shape)
    out = np.empty(shape)
    out[0] = noise[0]
    for t in range(1, len(out)):
        out[t] = memory * out[t - 1] + np.sqrt(1 - memory**2) * noise[t]
    return out


def carried_up(robot: KinematicTree, q: Array, qd: Array, qdd: Array) -> Array:
    """Joint wrenches (n_bodies, 6, 10 n_bodies) by unit parameter: blocks carried tip to root.

    The slow twin of the regressor, which carries rows from root to tip.
    """
    n = robot.n_bodies
    X, a, v = transforms(robot, q), [], []
    F = np.zeros((n, 6, 10 * n))
    for i, (parent, where) in enumerate(zip(robot.parent, robot.v_slices(), strict=True)):
        S = robot.motion_subspace[i]
        before = np.zeros(6) if parent < 0 else v[parent]
        v.append(X[i].motion(before) + S @ qd[where])
        gravity = np.concatenate([np.zeros(3), -robot.gravity])
        a.append(X[i].motion(gravity if parent < 0 else a[parent]) + S @ qdd[where])
        a[i] = a[i] + cross_motion(v[i], S @ qd[where])
        for k in range(10):
            unit = np.zeros(10)
            unit[k] = 1.0
            M = spatial_inertia(unit)
            F[i, :, 10 * i + k] = M @ a[i] + cross_force(v[i], M @ v[i])
    for i in reversed(range(n)):
        if robot.parent[i] >= 0:
            F[robot.parent[i]] += X[i].matrix().T @ F[i]
    return F


def spatial_inertia(ten: Array) -> Array:
    """The 6 x 6 matrix that is linear in the ten parameters of a body."""
    mass, h = ten[0], skew(ten[1:4])
    about = np.zeros((3, 3))
    about[np.triu_indices(3)] = ten[4:]
    about = about + np.triu(about, 1).T
    return np.block([[about, h], [h.T, mass * np.eye(3)]])
