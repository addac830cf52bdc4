"""What sensors must read, from nothing but positions over time and Newton's law for points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynsys import KinematicTree, LinearSystem, forward_kinematics
from dynsys.model.spatial import Transform, rotation_from_rpy
from dynsys.model.tree import Frame
from dynsys.recursive.rnea import rnea
from dynsys.system.equations import Kinematics
from dynsys.types import Array
from problems import InverseDynamics
from sensors import AbstractSensor

STEP = 2e-3
TOLERANCE = 3e-6

XYZ, RPY = (0.1, -0.2, 0.3), (0.4, -0.5, 1.2)
OFFSET = Transform(rotation_from_rpy(np.array(RPY)), np.array(XYZ))
"""Where sensors sit in their frames."""
SIDE = Transform(rotation_from_rpy(np.array([0.3, 0.1, -0.7])), np.array([0.2, 0.0, -0.1]))
"""Where frames are on their bodies."""


def with_frames(tree: KinematicTree, **bodies: int) -> KinematicTree:
    """The robot under another gravity, with frames at SIDE of these bodies; -1 is the base."""
    frames = {name: Frame(body, SIDE) for name, body in bodies.items()}
    return KinematicTree("mixed", tree.bodies, frames, (1.0, -2.0, -9.0))


@dataclass(frozen=True, eq=False)
class Motion:
    """A robot at one moment of a motion under random external wrenches."""

    robot: KinematicTree
    q: Array
    qd: Array
    qdd: Array
    wrenches: Array

    @staticmethod
    def random(robot: KinematicTree, seed: int) -> Motion:
        rng = np.random.default_rng(seed)
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=robot.nv), rng.normal(size=robot.nv)
        return Motion(robot, q, qd, qdd, 5 * rng.normal(size=(robot.n_bodies, 6)))

    @cached_property
    def kinematics(self) -> Kinematics:
        return Kinematics.at(self.robot, self.q, self.qd)

    @cached_property
    def torque(self) -> Array:
        return rnea(self.robot, self.q, self.qd, self.qdd, self.wrenches)

    @cached_property
    def d(self) -> Array:
        """All unknowns, by inverse dynamics."""
        problem = InverseDynamics(self.robot, backend="reference")
        solution = problem.solve(self.q, self.qd, self.qdd, self.wrenches)
        unknowns = LinearSystem(self.robot).unknowns
        d = np.zeros(unknowns.size)
        d[unknowns.columns("torque")], d[unknowns.columns("qdd")] = self.torque, self.qdd
        d[unknowns.columns("acceleration")] = solution.acceleration.array
        d[unknowns.columns("joint_wrench")] = solution.joint_wrench.array
        d[unknowns.columns("external_wrench")] = self.wrenches
        return d

    def reading(self, sensor: AbstractSensor) -> Array:
        """Return what the sensor's rows say: Y d + b."""
        system = LinearSystem(self.robot)
        (block,) = sensor.blocks(system.unknowns)
        D, b = system.with_equations([block]).assemble(self.q, self.qd)
        rows = slice(system.shape[0], None)
        return np.asarray((D @ self.d + b)[rows])

    # ---- positions over time -------------------------------------------------------------

    def at(self, t: float) -> Array:
        """Position at time t: velocity qd and acceleration qdd at t = 0, exactly."""
        return self.robot.integrate(self.q, self.qd * t + 0.5 * self.qdd * t * t, 1.0)

    def rate(self, of: Callable[[Array], Array]) -> Array:
        """First derivative at t = 0 of a function of q."""
        f = [of(self.at(k * STEP)) for k in (-2, -1, 1, 2)]
        return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * STEP)

    def second_rate(self, of: Callable[[Array], Array]) -> Array:
        """Second derivative at t = 0 of a function of q."""
        f = [of(self.at(k * STEP)) for k in (-2, -1, 0, 1, 2)]
        return (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * STEP**2)

    def pose(self, q: Array, frame: str | int, offset: Transform | None = None) -> Transform:
        """Transform base -> frame (moved by ``offset``)."""
        if frame == -1:
            return offset or Transform.identity()
        pose = forward_kinematics(self.robot, q, frame)
        return pose if offset is None else pose.then(offset)

    def turning(self, rotation: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Angular velocity and acceleration of E(q), in the frame that E turns from."""
        E, E1, E2 = (f(rotation) for f in (lambda r: r(self.q), self.rate, self.second_rate))
        W = E1.T @ E  # d/dt(R) R^T = [w]x for R = E^T
        Wd = E2.T @ E + E1.T @ E1
        return _vee(W), _vee(Wd)

    # ---- Newton --------------------------------------------------------------------------

    def points(self, bodies: list[int]) -> list[tuple[float, int, Array]]:
        """Point masses (mass, body, place in it) with the inertia of the bodies."""
        found = []
        for i in bodies:
            inertia = self.robot.bodies[i].inertia
            if inertia.mass == 0:
                continue
            central = 0.5 * np.trace(inertia.about_com) * np.eye(3) - inertia.about_com
            sizes, axes = np.linalg.eigh(central)
            for size, axis in zip(np.maximum(sizes, 0.0), axes.T, strict=True):
                for sign in (-1.0, 1.0):
                    place = inertia.com + sign * np.sqrt(3 * size / inertia.mass) * axis
                    found.append((inertia.mass / 6, i, place))
        return found

    def momentum_rate(self, bodies: list[int], about: Array, gravity: bool) -> Array:
        """(6,) sum of m r'' (less m g) of all points, moment about ``about``; base frame."""
        total = np.zeros(6)
        for mass, i, place in self.points(bodies):

            def position(q: Array, i: int = i, place: Array = place) -> Array:
                return np.asarray(self.pose(q, i).point(place))

            force = mass * self.second_rate(position)
            if gravity:
                force = force - mass * self.robot.gravity
            total[3:] += force
            total[:3] += np.cross(position(self.q) - about, force)
        return total

    def subtree(self, body: int) -> list[int]:
        return [i for i in range(self.robot.n_bodies) if body in self.robot.support(i)]


def _vee(W: Array) -> Array:
    return 0.5 * np.array([W[2, 1] - W[1, 2], W[0, 2] - W[2, 0], W[1, 0] - W[0, 1]])
