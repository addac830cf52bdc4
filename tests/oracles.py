"""Dense, obvious twins of the algorithms, to test them against.

Nothing here shares code with what it checks: joint poses come from scipy's rotations, bodies
are placed by homogeneous (4, 4) matrices, and the equations of motion are written with (6, 6)
matrices projected by dense Jacobians. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy.spatial.transform import Rotation

from dynsys import KinematicTree
from dynsys.model.joints import AbstractJoint, Planar
from dynsys.types import Array

__all__ = [
    "body_poses",
    "central_difference",
    "forward_dynamics",
    "freedom_owners",
    "inverse_dynamics",
    "jacobian",
    "jacobian_by_differences",
    "joint_pose",
    "kinetic_energy",
    "mass_matrix",
    "momentum_rate_by_differences",
    "motion_cross",
    "motion_matrix",
    "pose",
    "potential_energy",
    "power_by_differences",
    "skew_matrix",
    "velocity_between",
]

_Value = TypeVar("_Value", float, Array)

# ---- geometry ----------------------------------------------------------------------------


def skew_matrix(v: Array) -> Array:
    """[v]x (3, 3), column by column from numpy's cross product."""
    return np.column_stack([np.cross(v, e) for e in np.eye(3)])


def pose(rotation: Array, position: Array) -> Array:
    """Homogeneous matrix (4, 4): child coordinates -> parent coordinates."""
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = rotation, position
    return T


def joint_pose(joint: AbstractJoint, q: Array) -> Array:
    """Pose (4, 4) of the child in the joint's frame, from the definition of each joint."""
    axis = getattr(joint, "axis", np.zeros(3))
    turned = Rotation.from_rotvec(axis * q[0]).as_matrix() if len(q) else np.eye(3)
    match joint.kind:
        case "fixed":
            return np.eye(4)
        case "revolute":
            return pose(turned, np.zeros(3))
        case "prismatic":
            return pose(np.eye(3), axis * q[0])
        case "helical":
            return pose(turned, axis * getattr(joint, "pitch") * q[0])  # noqa: B009
        case "cylindrical":
            return pose(turned, axis * q[1])
        case "planar":
            assert isinstance(joint, Planar)
            e1, e2 = joint.directions
            return pose(turned, e1 * q[1] + e2 * q[2])
        case "spherical":
            return pose(Rotation.from_quat(q).as_matrix(), np.zeros(3))
        case "free":
            return pose(Rotation.from_quat(q[3:]).as_matrix(), q[:3])
    raise AssertionError(f"no oracle for joint kind {joint.kind!r}")


def freedom_owners(robot: KinematicTree) -> list[int]:
    """Body whose joint holds each freedom, for robots without coupled joints."""
    return [i for i, joint in enumerate(robot.joints) for _ in range(joint.nv)]


def body_poses(robot: KinematicTree, q: Array) -> list[Array]:
    """Pose (4, 4) of every body in the base, by multiplying homogeneous matrices."""
    poses: list[Array] = []
    for i, body in enumerate(robot.bodies):
        where = robot.q_slices()[i]
        q_joint = q[where]
        if body.coupling is not None:
            q_joint = body.coupling.ratio * q_joint + body.coupling.offset
        above = poses[body.parent] if body.parent >= 0 else np.eye(4)
        placed = pose(np.asarray(body.placement.E).T, np.asarray(body.placement.r))
        poses.append(above @ placed @ joint_pose(body.joint, q_joint))
    return poses


def motion_matrix(T: Array) -> Array:
    """Motion transform X (6, 6) parent -> child for the child's pose T (4, 4) in the parent."""
    E, r = T[:3, :3].T, T[:3, 3]
    return np.block([[E, np.zeros((3, 3))], [-E @ skew_matrix(r), E]])


def motion_cross(v: Array) -> Array:
    """v x as a (6, 6) matrix on motion vectors; on force vectors it is minus its transpose."""
    w, u = skew_matrix(v[:3]), skew_matrix(v[3:])
    return np.block([[w, np.zeros((3, 3))], [u, w]])


def velocity_between(before: Array, after: Array, dt: float) -> Array:
    """Body velocity (6,) that leads from one pose (4, 4) to a near one, to first order."""
    step = np.linalg.inv(before) @ after
    turn = Rotation.from_matrix(step[:3, :3]).as_rotvec()
    return np.concatenate([turn, step[:3, 3]]) / dt


# ---- kinematics --------------------------------------------------------------------------


def jacobian(robot: KinematicTree, q: Array, body: int) -> Array:
    """Body Jacobian (6, nv): v_body = J qd, each supporting joint's S carried to the body."""
    poses = body_poses(robot, q)
    J = np.zeros((6, robot.nv))
    i = body
    while i >= 0:
        X = motion_matrix(np.linalg.inv(poses[i]) @ poses[body])
        coupling = robot.bodies[i].coupling
        ratio = 1.0 if coupling is None else coupling.ratio
        J[:, robot.v_slices()[i]] += ratio * (X @ robot.bodies[i].joint.S)
        i = int(robot.parent[i])
    return J


def jacobian_by_differences(
    robot: KinematicTree, q: Array, body: int, step: float = 1e-6
) -> Array:
    """Body Jacobian (6, nv) from central differences of the body's pose."""
    here = body_poses(robot, q)[body]
    columns = []
    for e in np.eye(robot.nv):
        ahead = body_poses(robot, robot.integrate(q, e, step))[body]
        behind = body_poses(robot, robot.integrate(q, e, -step))[body]
        columns.append(
            0.5 * (velocity_between(here, ahead, step) - velocity_between(here, behind, step))
        )
    return np.column_stack(columns) if columns else np.zeros((6, 0))


# ---- dynamics ----------------------------------------------------------------------------


def mass_matrix(robot: KinematicTree, q: Array) -> Array:
    """H = sum_i J_i^T I_i J_i + armature, (nv, nv)."""
    H = np.diag(robot.armature).astype(np.float64)
    for i, body in enumerate(robot.bodies):
        J = jacobian(robot, q, i)
        H = H + J.T @ body.inertia.matrix() @ J
    return H


def inverse_dynamics(
    robot: KinematicTree, q: Array, qd: Array, qdd: Array, f_ext: Array | None = None
) -> Array:
    """Torque (nv,) by projecting every body's equation of motion on the freedoms.

        tau = sum_i J_i^T (I_i a_i + v_i x* I_i v_i - f_i) + armature qdd

    with a_i = X a_parent + S qdd + v_i x S qd and a_base = -g ([RBDA] eqs. 5.8 to 5.10).
    ``f_ext`` (n_bodies, 6): wrench on each body, in the body's coordinates.
    """
    poses = body_poses(robot, q)
    a: list[Array] = []
    torque = robot.armature * qdd
    for i, body in enumerate(robot.bodies):
        J = jacobian(robot, q, i)
        above = poses[body.parent] if body.parent >= 0 else np.eye(4)
        a_above = (
            a[body.parent]
            if body.parent >= 0
            else np.concatenate([np.zeros(3), -robot.gravity])
        )
        where = robot.v_slices()[i]
        ratio = 1.0 if body.coupling is None else body.coupling.ratio
        S = ratio * body.joint.S
        v = J @ qd
        X = motion_matrix(np.linalg.inv(above) @ poses[i])
        a.append(X @ a_above + S @ qdd[where] + motion_cross(v) @ (S @ qd[where]))
        inertia = body.inertia.matrix()
        net = inertia @ a[i] - motion_cross(v).T @ (inertia @ v)
        torque = torque + J.T @ (net - (0.0 if f_ext is None else f_ext[i]))
    return torque


def forward_dynamics(
    robot: KinematicTree, q: Array, qd: Array, torque: Array, f_ext: Array | None = None
) -> Array:
    """Acceleration qdd (nv,) = H^-1 (tau - C), by a dense solve."""
    bias = inverse_dynamics(robot, q, qd, np.zeros(robot.nv), f_ext)
    return np.asarray(np.linalg.solve(mass_matrix(robot, q), torque - bias))


def momentum_rate_by_differences(
    robot: KinematicTree, q: Array, qd: Array, qdd: Array, body: int, step: float = 1e-4
) -> Array:
    """Wrench (6,) that moves a body against gravity: d/dt of its momentum, in its coordinates.

    The momentum about the base's origin, in base coordinates, is differentiated along q(t),
    qd + qdd t; the weight is taken off as a force at the centre of mass.
    """
    inertia = robot.bodies[body].inertia

    def momentum(t: float) -> Array:
        q_t = robot.integrate(q, qd + 0.5 * t * qdd, t)
        T = body_poses(robot, q_t)[body]
        v = jacobian(robot, q_t, body) @ (qd + t * qdd)
        R, w = T[:3, :3], v[:3]
        linear = inertia.mass * R @ (v[3:] + np.cross(w, inertia.com))
        centre = R @ inertia.com + T[:3, 3]
        return np.concatenate([np.cross(centre, linear) + R @ (inertia.about_com @ w), linear])

    rate = np.asarray(central_difference(momentum, step))
    T = body_poses(robot, q)[body]
    weight = inertia.mass * robot.gravity
    rate[:3] -= np.cross(T[:3, :3] @ inertia.com + T[:3, 3], weight)
    rate[3:] -= weight
    return np.asarray(np.linalg.inv(motion_matrix(T)).T @ rate)


# ---- energy ------------------------------------------------------------------------------


def kinetic_energy(robot: KinematicTree, q: Array, qd: Array) -> float:
    """Sum over bodies of m |velocity of the centre|^2 / 2 + w . I w / 2, plus the rotors'."""
    energy = 0.5 * float(robot.armature @ (qd * qd))
    for i, body in enumerate(robot.bodies):
        v = jacobian(robot, q, i) @ qd
        w, at_com = v[:3], v[3:] + np.cross(v[:3], body.inertia.com)
        energy += 0.5 * body.inertia.mass * float(at_com @ at_com)
        energy += 0.5 * float(w @ body.inertia.about_com @ w)
    return energy


def potential_energy(robot: KinematicTree, q: Array) -> float:
    """Sum over bodies of -m g . (position of the centre of mass)."""
    return -sum(
        body.inertia.mass * float(robot.gravity @ (T[:3, :3] @ body.inertia.com + T[:3, 3]))
        for T, body in zip(body_poses(robot, q), robot.bodies, strict=True)
    )


def power_by_differences(
    robot: KinematicTree, q: Array, qd: Array, qdd: Array, step: float = 1e-5
) -> float:
    """d/dt (kinetic + potential energy) along q(t), qd + qdd t: equals torque . qd."""

    def energy(t: float) -> float:
        # dq/dt = qd + qdd t, to second order in t
        q_t = robot.integrate(q, qd + 0.5 * t * qdd, t)
        return kinetic_energy(robot, q_t, qd + t * qdd) + potential_energy(robot, q_t)

    return central_difference(energy, step)


def central_difference(function: Callable[[float], _Value], step: float) -> _Value:
    """Derivative at 0 of a function of one number, error O(step^4)."""
    near = function(step) - function(-step)
    far = function(2 * step) - function(-2 * step)
    return (8 * near - far) / (12 * step)
