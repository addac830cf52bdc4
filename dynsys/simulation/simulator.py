"""Time stepping of a robot with contact: velocities first, impulses at the velocity level.

    v' = v + dt qdd(q, v, torque) + M^-1 J^T x           x: contact impulses (friction.py)
    q' = integrate(q, v', dt)    semi_implicit           q' = integrate(q, v, dt)    explicit

``integrate`` follows the exponential map of free and spherical joints, so that quaternions keep
their norm whatever the step. The energy balance is kept: what the drives and the contacts did
to the robot is added up, and what is missing from the change of its energy is the drift of the
integrator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, final, get_args

import numpy as np

from dynsys.errors import ModelError, StateError
from dynsys.loops import LoopKernel
from dynsys.loops.drumwright import TreeArrays, motion_matrices
from dynsys.loops.packed import Poses
from dynsys.model.tree import KinematicTree
from dynsys.simulation.contact_inertia import ContactInertia, Route
from dynsys.simulation.contacts import ContactPoints, Ground
from dynsys.simulation.drives import Drives
from dynsys.simulation.energy import kinetic_energy, potential_energy
from dynsys.simulation.friction import solve_contacts
from dynsys.types import Array, ArrayLike, IntArray

__all__ = ["Integrator", "Record", "Simulation", "SimulationState"]

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
    works (J) those done in it by drives and contacts; number of contacts that push, and sweeps
    of the solver.
    """

    time: list[float] = field(default_factory=list)
    energy: list[float] = field(default_factory=list)
    drive_work: list[float] = field(default_factory=list)
    contact_work: list[float] = field(default_factory=list)
    penetration: list[float] = field(default_factory=list)
    contacts: list[int] = field(default_factory=list)
    sweeps: list[int] = field(default_factory=list)

    @property
    def drift(self) -> Array:
        """Energy (steps - 1,) that came from nowhere, J, after every step but the last."""
        work = np.cumsum(np.add(self.drive_work, self.contact_work))
        return np.asarray(np.array(self.energy)[1:] - self.energy[0] - work[:-1])


@final
class Simulation:
    """A robot over a plane, its arrays made once.

    Parameters
    ----------
    robot : the robot, without coupled joints.
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
        self.arrays = TreeArrays(robot)  # the robot itself: energies
        driven = robot
        if drives is not None:
            driven = robot.with_armature(robot.armature + drives.inertia(dt))
        self._inertia = ContactInertia(TreeArrays(driven), route)
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
        self,
        state: SimulationState,
        target: Target | None = None,
        record: Record | None = None,
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
        poses = self.arrays.joints.poses(*self.arrays.joints.transforms(q))
        new_v, impulses, done = self._contact(state, poses, v + dt * qdd, record)
        moved = new_v if self.integrator == "semi_implicit" else v
        new_q = self.arrays.joints.integrate(q, moved, dt)
        if record is not None:
            mean = 0.5 * (v + new_v)
            record.time.append(state.time)
            record.energy.append(self.energy(state))
            record.drive_work.append(float((dt * torque - added * (new_v - v)) @ mean))
            record.contact_work.append(float(done @ mean))
        return SimulationState(new_q, new_v, state.time + dt, impulses)

    def energy(self, state: SimulationState) -> float:
        """Kinetic and potential energy, J."""
        tree, joints = self.arrays.tree, self.arrays.joints
        E_up, r_up = joints.transforms(state.q)
        poses = joints.poses(E_up, r_up)
        kinetic = kinetic_energy(tree, motion_matrices(E_up, r_up), state.v)
        return kinetic + potential_energy(tree, poses, self.robot.gravity)

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
            tree = self._inertia.arrays.tree
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
