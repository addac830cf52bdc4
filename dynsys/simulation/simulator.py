"""Time stepping of a robot with contact: velocities first, impulses at the velocity level.

    v' = v + dt qdd(q, v, torque) + M^-1 J^T x           x: contact impulses (contacts.py)
    q' = integrate(q, v', dt)    semi_implicit           q' = integrate(q, v, dt)    explicit

``integrate`` follows the exponential map of free and spherical joints, so that quaternions keep
their norm whatever the step. The energy balance is kept: what the drives and the contacts did
to the robot is added up, and what is missing from the change of its energy is the drift of the
integrator.

Position drives (PD) are stable at any gain:

    torque = kp (target - q) - kd qd        at the end of the step

With q and qd of the end of the step the drive is implicit; to first order it adds
kd dt + kp dt^2 to the inertia of its own freedom and nothing to any other: an armature, which
every algorithm here takes. Free joints are not driven.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, final, get_args

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.jit import Loop
from dynsys.loops import LoopKernel
from dynsys.loops.flat import TreeArrays, flat_robot
from dynsys.loops.tree_state import Poses, TreeState, integrate
from dynsys.model.joints import Helical, Prismatic, Revolute, Spherical
from dynsys.model.tree import KinematicTree
from dynsys.simulation.contacts import (
    ContactInertia,
    ContactPoints,
    Ground,
    Route,
    solve_contacts,
)
from dynsys.types import Array, ArrayLike, IntArray

__all__ = [
    "Drives",
    "Integrator",
    "Record",
    "Simulation",
    "SimulationState",
    "kinetic_energy",
    "potential_energy",
]

Integrator = Literal["semi_implicit", "explicit"]
Target = Callable[[float], Array]


@final
@dataclass(frozen=True, eq=False)
class SimulationState:
    """Position q (nq,), velocity v (nv,), time, and the impulses (K, 3) of the last step."""

    q: Array
    v: Array
    time: float
    impulses: Array


@final
@dataclass(eq=False)
class Record:
    """What happened, one entry per step.

    Energy (J) and penetration (m, the deepest point's) are those at the start of the step,
    works (J) those done in it by drives, contacts and friction of joints; number of contacts
    that push, and sweeps of the solver.
    """

    time: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    drive_work: list[float] = field(default_factory=list)
    contact_work: list[float] = field(default_factory=list)
    friction_work: list[float] = field(default_factory=list)
    penetration: list[float] = field(default_factory=list)
    contacts: list[int] = field(default_factory=list)
    sweeps: list[int] = field(default_factory=list)

    @property
    def drift(self) -> Array:
        """Energy (steps - 1,) that came from nowhere, J, after every step but the last."""
        work = np.cumsum(
            np.sum([self.drive_work, self.contact_work, self.friction_work], axis=0)
        )
        return np.asarray(np.array(self.energy)[1:] - self.energy[0] - work[:-1])


@final
class Simulation:
    """A robot over a plane, its arrays made once.

    Parameters
    ----------
    robot : the robot, without coupled joints. Friction in its equations is that at the start of
        a step: dt must be short beside inertia * smoothing / dry friction.
    points : those of its points that may touch the ground.
    dt : step, s.
    ground : the plane.
    route : to the contact-space inertia: "drumwright", "dense" or "ltl".
    integrator : "semi_implicit" or "explicit".
    drives : position drives, or None for a limp robot.

    Raises
    ------
    ModelError
        for a step, route or integrator that cannot be.
    """

    def __init__(
        self,
        robot: KinematicTree,
        points: ContactPoints,
        dt: float,
        ground: Ground | None = None,
        route: Route = "drumwright",
        integrator: Integrator = "semi_implicit",
        drives: Drives | None = None,
    ) -> None:
        if not (dt > 0 and np.isfinite(dt)):
            raise ModelError(f"dt must be a positive number of seconds, got {dt!r}")
        if integrator not in get_args(Integrator):
            raise ModelError(
                f"no integrator {integrator!r}; there are: {', '.join(get_args(Integrator))}"
            )
        self.robot, self.points, self.dt = robot, points, float(dt)
        self.ground = ground or Ground()
        self.integrator, self.drives = integrator, drives
        self._tree = flat_robot(robot).tree  # of the robot itself: energies
        driven = robot
        if drives is not None:
            driven = robot.with_armature(robot.armature + drives.inertia(dt))
        self._inertia = ContactInertia(flat_robot(driven), route)
        none_known = np.zeros(robot.nv, dtype=bool)
        self._forward = LoopKernel(driven, none_known, "torque", ("qdd",))

    def start(self, q: ArrayLike, v: ArrayLike | None = None) -> SimulationState:
        """State at time zero."""
        velocity = np.zeros(self.robot.nv) if v is None else self.robot.check_v(v, "v")
        rest = np.zeros((len(self.points.body), 3))
        return SimulationState(self.robot.check_q(q), velocity, 0.0, rest)

    def run(
        self, state: SimulationState, steps: int, target: Target | None = None
    ) -> tuple[SimulationState, Record]:
        """State after ``steps`` steps and a record; ``target(time)`` gives q for the drives."""
        record = Record()
        for _ in range(steps):
            state = self.step(state, target, record)
        return state, record

    def step(
        self, state: SimulationState, target: Target | None = None, record: Record | None = None
    ) -> SimulationState:
        """Advance by one step of dt.

        Raises
        ------
        StateError
            if the motion is no longer finite: the step is too long for the forces.
        """
        dt, q, v = self.dt, state.q, state.v
        torque, added = np.zeros(self.robot.nv), np.zeros(self.robot.nv)
        if self.drives is not None and target is not None:
            wanted = target(state.time + dt)
            torque = self.drives.torque(q, v, wanted, dt)
            added = self.drives.inertia(dt)
        (qdd,), finite = self._forward.one(q, v, torque)
        if not finite:
            raise StateError(
                f"robot {self.robot.name!r}: the simulation is no longer finite at"
                f" t = {state.time:.6g} s; shorten dt = {dt:g} s or soften the drives"
            )
        poses = TreeState(self.robot, q).poses
        new_v, impulses, done = self._contact(state, poses, v + dt * qdd, record)
        moved = new_v if self.integrator == "semi_implicit" else v
        new_q = integrate(self.robot, q, moved, dt)
        if record is not None:
            mean = 0.5 * (v + new_v)
            record.time.append(state.time)
            record.energy.append(self.energy(state))
            record.drive_work.append(float((dt * torque - added * (new_v - v)) @ mean))
            record.contact_work.append(float(done @ mean))
            record.friction_work.append(float(-dt * self.robot.friction_torque(v) @ mean))
        return SimulationState(new_q, new_v, state.time + dt, impulses)

    def energy(self, state: SimulationState) -> float:
        """Kinetic and potential energy, J."""
        here = TreeState(self.robot, state.q)
        kinetic = kinetic_energy(self._tree, here.X, state.v)
        return kinetic + potential_energy(self._tree, here.poses, self.robot.gravity)

    def _contact(
        self, state: SimulationState, poses: Poses, free: Array, record: Record | None
    ) -> tuple[Array, Array, Array]:
        """Velocity after contact, impulses (K, 3), and the same as joint impulses (nv,)."""
        ground, dt = self.ground, self.dt
        positions = self.points.positions(poses)
        gap = positions[:, 2] - ground.height
        impulses, joint_impulse = np.zeros_like(state.impulses), np.zeros(self.robot.nv)
        near: IntArray = np.flatnonzero(gap < 1e-3)
        sweeps = 0
        if len(near):
            tree = self._inertia.tree
            J = self.points.jacobian(tree, poses, positions, near)
            tips = tree.last[self.points.body[near]]
            space = self._inertia.at(state.q, J, tips, positions[near])
            b = J @ free
            b[::3] += self._allowance(gap[near]) / dt
            found = solve_contacts(space.A, b, ground.friction, state.impulses[near].ravel())
            joint_impulse = J.T @ found.x
            free = free + space.respond(joint_impulse)
            impulses[near], sweeps = found.x.reshape(-1, 3), found.sweeps
        if record is not None:
            record.penetration.append(float(max(0.0, -gap.min(initial=0.0))))
            record.contacts.append(int((impulses[:, 0] > 0).sum()))
            record.sweeps.append(sweeps)
        return free, impulses, joint_impulse

    def _allowance(self, gap: Array) -> Array:
        """Distance (c,) a contact may close in a step; negative where it must open."""
        ground = self.ground
        depth = np.maximum(0.0, -gap - ground.slop) * ground.correction
        return np.where(gap > 0, gap, -np.minimum(depth, ground.speed_limit * self.dt))


@final
class Drives:
    """Equal gains ``kp`` (Nm/rad), ``kd`` (Nms/rad) at all one-freedom and spherical joints."""

    def __init__(self, robot: KinematicTree, kp: float, kd: float) -> None:
        if not (kp >= 0 and kd >= 0):
            raise ModelError(f"gains must be >= 0, got kp = {kp!r}, kd = {kd!r}")
        self.kp, self.kd = float(kp), float(kd)
        q0 = np.array([q.start for q in robot.q_slices()], dtype=np.intp)
        v0 = flat_robot(robot).tree.first[:-1]
        screw = [isinstance(joint, (Revolute, Prismatic, Helical)) for joint in robot.joints]
        ball = [isinstance(joint, Spherical) for joint in robot.joints]
        self._screw_q, self._screw_v = q0[screw], v0[screw]
        self._ball_q = q0[ball][:, None] + np.arange(4)
        self._ball_v = v0[ball][:, None] + np.arange(3)
        self.driven = np.zeros(robot.nv, dtype=bool)
        self.driven[self._screw_v] = True
        self.driven[self._ball_v] = True

    def inertia(self, dt: float) -> Array:
        """What the drives add to the inertia of each freedom (nv,) over a step dt."""
        return np.where(self.driven, self.kd * dt + self.kp * dt * dt, 0.0)

    def torque(self, q: Array, qd: Array, target: Array, dt: float) -> Array:
        """Torque (nv,) at the start of a step; the rest is :meth:`inertia` times qdd."""
        damping = np.where(self.driven, self.kd + self.kp * dt, 0.0)
        return np.asarray(self.kp * self.error(q, target) - damping * qd)

    def error(self, q: Array, target: Array) -> Array:
        """Velocity (nv,) that takes the driven joints from q to target in unit time."""
        out = np.zeros(len(self.driven))
        out[self._screw_v] = target[self._screw_q] - q[self._screw_q]
        a, b = q[self._ball_q], target[self._ball_q]
        xyz = a[:, 3:] * b[:, :3] - b[:, 3:] * a[:, :3] - np.cross(a[:, :3], b[:, :3])
        w = np.sum(a * b, axis=1)
        size = np.linalg.norm(xyz, axis=1)
        angle = 2 * np.arctan2(size, np.abs(w)) * np.where(w < 0, -1.0, 1.0)
        out[self._ball_v] = xyz * (angle / np.maximum(size, 1e-300))[:, None]
        return out


# ---- energy ------------------------------------------------------------------------------


def kinetic_energy(tree: TreeArrays, X: Array, v: Array) -> float:
    """1/2 v^T M v from body velocities; X (N, 6, 6) parent -> body, v (nv,)."""
    velocity = np.zeros((len(X), 6))
    body_velocities(tree.parent, tree.first, X, tree.S, v, velocity)
    momentum = np.einsum("ijk,ik->ij", tree.inertia, velocity)
    return float(0.5 * np.sum(velocity * momentum) + 0.5 * np.sum(tree.armature * v * v))


def potential_energy(tree: TreeArrays, poses: Poses, gravity: Array) -> float:
    """-sum m g . c over all bodies, zero at the base's origin."""
    mass = tree.inertia[:, 3, 3]
    moment = tree.inertia[:, [2, 0, 1], [4, 5, 3]]  # m c, from the block m [c]x
    centres = mass[:, None] * poses.r + np.einsum("kji,kj->ki", poses.E, moment)
    return float(-(centres.sum(axis=0) @ gravity))


@Loop
def body_velocities(
    parent: IntArray, first: IntArray, X: Array, S: Array, v: Array, velocity: Array
) -> None:
    """Spatial velocity (N, 6) of every body, body coordinates; zeros at first."""
    for i in range(len(parent)):
        for r in range(6):
            if parent[i] >= 0:
                for c in range(6):
                    velocity[i, r] += X[i, r, c] * velocity[parent[i], c]
            for k in range(first[i], first[i + 1]):
                velocity[i, r] += S[k, r] * v[k]
