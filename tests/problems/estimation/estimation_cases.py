"""Robots in known motion, what their sensors read, and the dense answer; layouts of sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

import sensors
from dynsys import KinematicTree, synthetic
from dynsys.cholmod import has_cholmod
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from problems import Estimate, Estimation, InverseDynamics
from problems.measured.measured_system import QUANTITIES
from sensors import AbstractSensor, Layout

FEET = ("l_foot", "r_foot")


@dataclass(frozen=True, eq=False)
class Truth:
    """A state with all unknowns d of a problem's system."""

    q: Array
    qd: Array
    d: Array


def truth(problem: Estimation, seed: int, touched: Sequence[str] = ()) -> Truth:
    """Random state and motion; random wrenches on the ``touched`` bodies only."""
    rng = np.random.default_rng(seed)
    robot = problem.robot
    q, qd = robot.random_configuration(rng), rng.normal(size=robot.nv)
    qdd = rng.normal(size=robot.nv)
    wrenches = np.zeros((robot.n_bodies, 6))
    for name in touched:
        wrenches[robot.body_index(name)] = 30 * rng.normal(size=6)
    return moving(problem, q, qd, qdd, wrenches)


def moving(problem: Estimation, q: Array, qd: Array, qdd: Array, wrenches: Array) -> Truth:
    """All unknowns of a motion."""
    solution = InverseDynamics(problem.robot, backend="reference").solve(q, qd, qdd, wrenches)
    unknowns = problem.system.unknowns
    d = np.zeros(unknowns.size)
    d[unknowns.columns("torque")] = solution.torque
    d[unknowns.columns("qdd")] = qdd
    d[unknowns.columns("acceleration")] = solution.acceleration.array
    d[unknowns.columns("joint_wrench")] = solution.joint_wrench.array
    d[unknowns.columns("external_wrench")] = wrenches
    return Truth(q, qd, d)


def readings(problem: Estimation, state: Truth) -> Array:
    """Exact readings y of all sensors."""
    kinematics = Kinematics.at(problem.robot, state.q, state.qd)
    _, (Y, b) = problem.measured.at(kinematics)
    return np.asarray(Y @ state.d + b)[: problem.layout.size]


def noisy(problem: Estimation, y: Array, seed: int) -> Array:
    """Readings y with noise of the layout's covariance."""
    rng = np.random.default_rng(seed)
    C = problem.layout.covariance().toarray()
    values, axes = np.linalg.eigh(C)
    return np.asarray(y + axes @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(y))))


def standing(robot: KinematicTree, seed: int, feet: Sequence[str]) -> tuple[Array, ...]:
    """Random motion of a floating robot with wrenches on its feet that carry it.

    The first foot takes what the others leave: the root has no drive.
    """
    rng = np.random.default_rng(seed)
    q, qd = robot.random_configuration(rng), 0.3 * rng.normal(size=robot.nv)
    qdd = rng.normal(size=robot.nv)
    wrenches = np.zeros((robot.n_bodies, 6))
    for name in feet[1:]:
        wrenches[robot.body_index(name)] = 30 * rng.normal(size=6)
    free = InverseDynamics(robot, backend="reference").solve(q, qd, qdd, wrenches).torque[:6]
    foot = robot.body_index(feet[0])
    root, here = Kinematics.at(robot, q, qd).poses[0], Kinematics.at(robot, q, qd).poses[foot]
    to_foot = root.inverse().then(here).matrix()
    wrenches[foot] = np.linalg.solve(to_foot.T.astype(float), free)
    return q, qd, qdd, wrenches


def values(problem: Estimation, estimate: Estimate) -> Array:
    """All unknowns d of an estimate; NaN where undetermined."""
    unknowns = problem.system.unknowns
    d = np.full(unknowns.size, np.nan)
    for kind in QUANTITIES:
        d[unknowns.columns(kind)] = getattr(estimate, kind).array
    return d


def relative(found: Array, expected: Array) -> float:
    """Largest error beside the largest value."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@dataclass(frozen=True, eq=False)
class Dense:
    """Minimiser d and its covariance by the null-space method, everything dense."""

    d: Array
    covariance: Array
    chi_square: float


def dense(problem: Estimation, q: Array, qd: Array, y: Array) -> Dense:
    """Constrained weighted least squares, as a textbook has it; NaN rows left out."""
    measured = problem.measured
    (D, b), (Y, b_y) = measured.at(Kinematics.at(problem.robot, q, qd))
    rows = np.concatenate([y, measured.prior_rows.mean])
    present = np.isfinite(rows)
    C = measured.covariance.toarray()[np.ix_(present, present)]
    M, c = Y.toarray()[present], (rows - b_y)[present]
    exact = np.diag(C) == 0
    A, a = np.vstack([D.toarray(), M[exact]]), np.concatenate([-b, c[exact]])
    left, size, right = svd(A)
    rank = int((size > 1e-12 * size[0]).sum())
    start, free = right[:rank].T @ (left.T[:rank] @ a / size[:rank]), right[rank:].T
    W = np.linalg.inv(np.linalg.cholesky(C[np.ix_(~exact, ~exact)]))
    B, target = W @ M[~exact] @ free, W @ (c[~exact] - M[~exact] @ start)
    Q, R = np.linalg.qr(B)
    spread = free @ np.linalg.inv(R)
    d = start + free @ np.linalg.solve(R, Q.T @ target)
    residual = W @ (c[~exact] - M[~exact] @ d)
    return Dense(d, spread @ spread.T, float(residual @ residual))


# ---- layouts, from square to far more than needed, and the backends that solve them ----------

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
