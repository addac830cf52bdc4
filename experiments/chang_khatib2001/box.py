"""Two arms hold one box and put it on the floor ([CK] section 4, figures 5 and 6).

The grasps are rigid: hands at v_h = R v_o, R (12, 6) constant, each in its own coordinates. The
closed chain then moves like one *augmented object* ([CK] reference 13),

    F_o = (I_o + R^T Lambda R) a_o + bias          Lambda (12, 12) of both hands, [CK] table 1

The hands give the box the wrench p = I_o a_o + v_o x* I_o v_o - weight, half each, and add an
internal wrench s that moves nothing, p/2 + s and p/2 - s, all at the box. With h (12,) these
shares at the hands,

    torque = J^T (Lambda R a_o + mu + rho + h) + N^T posture

The simulated tree has robot and box side by side, 30 freedoms; two closures of six rows hold
the grasps, the plane holds the corners of the box. The controller knows the robot and the box
and nothing of the simulator: that the grasps carry h, and the floor the rest, must come out.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import final

import numpy as np

import dynsys
import problems
from dynsys import FrameConstraint
from dynsys.errors import SimulationWarning
from dynsys.model.joints import Free
from dynsys.model.spatial import Transform, cross
from dynsys.model.synthetic import box_inertia
from dynsys.model.tree import Body, Frame, KinematicTree
from dynsys.operational import OperationalSpace, RelativeMotion
from dynsys.simulation import (
    Closure,
    ContactPoints,
    Ground,
    Record,
    Simulation,
    SimulationState,
)
from dynsys.types import Array, BoolArray
from experiments.chang_khatib2001.runs import HANDS, humanoid24

__all__ = [
    "SERVO",
    "SQUEEZE",
    "Controller",
    "PutDown",
    "Scene",
    "Task",
    "instant_errors",
    "put_down",
    "scene",
]

SERVO = 300
"""Rate of the controller, Hz ([CK] section 4)."""
STEPS = 4
"""Steps of the simulator in each of its periods."""
MASS, DEEP, HIGH = 3.0, 0.3, 0.2
"""Of the box: kg, edges along x and z, m. [CK] gives none of them."""
SQUEEZE = 25.0
"""Force with which the hands press the box, N."""
INSIDE = np.array([0.0, 0.0, 0.0, 0.0, -SQUEEZE, 0.0])
"""The internal wrench s: the left hand pushes to the right, along y of the box."""
STIFF, DAMP = 100.0, 20.0
"""Gains of the box, 1/s^2 and 1/s."""
TRUNK = (0.0, 0.6, -1.2, 0.7, 0.0, 0.0, 0.0, 0.2, 0.0, 0.1)
LEFT = (2.3, 0.1, 0.0, -1.2, 0.0, 0.4, 0.2)
RIGHT = (2.3, -0.1, 0.0, -1.2, 0.0, 0.4, -0.2)
POSTURE = np.array([*TRUNK, *LEFT, *RIGHT])
"""Joints at the start, knees and elbows bent, left and right alike."""


@final
@dataclass(frozen=True, eq=False)
class Scene:
    """A robot and a box, each by itself and together, and how the hands hold it.

    ``grasp`` : transforms box -> hand, constant.
    """

    robot: KinematicTree
    box: KinematicTree
    together: KinematicTree
    grasp: tuple[Transform, Transform]
    corners: Array
    q: Array

    @staticmethod
    def of(robot: KinematicTree, posture: Array) -> Scene:
        """The box lies between the hands where they are, its edges along the axes."""
        hands = [dynsys.forward_kinematics(robot, posture, hand) for hand in HANDS]
        middle = 0.5 * (hands[0].r + hands[1].r)
        size = np.array([DEEP, abs(hands[0].r[1] - hands[1].r[1]), HIGH])
        body = Body(
            "box", -1, Free(), inertia=box_inertia(MASS, size.tolist(), (0.0, 0.0, 0.0))
        )
        place = Transform(np.eye(3), middle)
        left, right = (place.inverse().then(hand) for hand in hands)
        frames = {
            "box_left": Frame(robot.n_bodies, left),
            "box_right": Frame(robot.n_bodies, right),
        }
        return Scene(
            robot,
            KinematicTree("box", [body]),
            KinematicTree(
                "two arms, one box", [*robot.bodies, body], {**robot.frames, **frames}
            ),
            (left, right),
            np.array(list(product((-0.5, 0.5), repeat=3))) * size,
            np.concatenate([posture, middle, [0.0, 0.0, 0.0, 1.0]]),
        )

    @cached_property
    def R(self) -> Array:
        """(12, 6): hands' velocities, own coordinates, per velocity of the box."""
        return np.vstack([transform.matrix() for transform in self.grasp])

    @cached_property
    def closures(self) -> tuple[Closure, Closure]:
        """Both grasps, all six directions."""
        return Closure("left", HANDS[0], "box_left"), Closure("right", HANDS[1], "box_right")

    @cached_property
    def dynamics(self) -> problems.ForwardDynamics:
        """Forward dynamics of the closed chain."""
        grasps = [FrameConstraint(c.name, c.first, c.second) for c in self.closures]
        return problems.ForwardDynamics(self.together, constraints=grasps)

    def share(self, wrench: Array, internal: Array) -> Array:
        """h (12,): what the hands give a box that takes a wrench (6,), with s inside."""
        parts = 0.5 * wrench + internal, 0.5 * wrench - internal
        return np.concatenate(
            [g.inverse().force_back(f) for g, f in zip(self.grasp, parts, strict=True)]
        )

    # ---- inertia of the augmented object, three routes ---------------------------------------

    def augmented_inertia(self, q: Array, method: str = "chang_khatib") -> Array:
        """I_o + R^T Lambda R (6, 6), Lambda of the two hands by the recursion."""
        Lambda = OperationalSpace(self.robot, HANDS, method).at(q[: self.robot.nq]).Lambda
        return self._own + self.R.T @ Lambda @ self.R

    def inertia_by_relative_motion(self, q: Array) -> Array:
        """The same: one hand's inertia while the other does not move against it, and I_o."""
        held = RelativeMotion(HANDS[1], HANDS[0])
        space = OperationalSpace(self.robot, [HANDS[0]], contacts=[held])
        X = self.grasp[0].matrix()
        return np.asarray(self._own + X.T @ space.at(q[: self.robot.nq]).Lambda @ X)

    def inertia_by_closures(self, q: Array) -> Array:
        """The same: of the box in the tree of both, its grasps held."""
        held = [RelativeMotion(c.first, c.second) for c in self.closures]
        return OperationalSpace(self.together, ["box"], contacts=held).at(q).Lambda

    @cached_property
    def _own(self) -> Array:
        return self.box.bodies[0].inertia.matrix()


@final
@dataclass(frozen=True)
class Task:
    """Lower the box by ``drop`` (m) in ``lowering`` s, wait, hand it to the floor, rest."""

    drop: float
    lowering: float = 1.6
    waiting: float = 0.1
    giving: float = 0.4
    resting: float = 0.6

    @property
    def duration(self) -> float:
        """All of it, s."""
        return self.lowering + self.waiting + self.giving + self.resting

    def way(self, time: float) -> Array:
        """Height above the start, its rate and acceleration (3,): a cubic spline ([CK] 4)."""
        T, s = self.lowering, min(1.0, time / self.lowering)
        moving = 6 - 12 * s if s < 1 else 0.0
        return -self.drop * np.array([s * s * (3 - 2 * s), 6 * s * (1 - s) / T, moving / T**2])

    def carried(self, time: float) -> float:
        """Share of weight and squeeze that the hands have, 1 to 0."""
        s = (time - self.lowering - self.waiting) / self.giving
        return 1 - min(1.0, max(0.0, s))


@final
class Controller:
    """Torque (30,) of the tree of both from its state; the box has no drive."""

    def __init__(self, scene: Scene, task: Task, servo: int = SERVO) -> None:
        self.scene, self.task, self.servo = scene, task, servo
        self.space = OperationalSpace(scene.robot, HANDS, "chang_khatib")
        self.coupling = 0.0
        """Largest acceleration of a hand by the posture torque so far, m/s^2, rad/s^2."""
        self._rest, self._at, self._torque = scene.q, -1, np.zeros(scene.together.nv)

    def __call__(self, state: SimulationState) -> Array:
        """New at every period of the servo, the same between."""
        sample = int(state.time * self.servo + 1e-6)
        if sample != self._at:
            self._at, self._torque = sample, self.torque(state.q, state.v, state.time)
        return self._torque

    def torque(self, q: Array, v: Array, time: float) -> Array:
        """The law of the module at one state."""
        scene, n = self.scene, self.scene.robot.nv
        a_o = self.box_acceleration(q[n:], v[n:], time)
        wrench = dynsys.rnea(scene.box, q[n:], v[n:], a_o)
        x = self.space.at(q[:n], v[:n])
        posture = self._posture(q[:n], v[:n])
        torque = x.torque(scene.R @ a_o, posture) + x.J.T @ self.hand_wrenches(wrench, time)
        self._watch(x.J, x.N, posture, q[:n])
        return np.concatenate([torque, np.zeros(6)])

    def hand_wrenches(self, wrench: Array, time: float) -> Array:
        """h (12,): the box's wrench and the squeeze, as far as the hands still have them."""
        return self.task.carried(time) * self.scene.share(wrench, INSIDE)

    def box_acceleration(self, q: Array, v: Array, time: float) -> Array:
        """Wanted a_o (6,) in coordinates of the box; on the floor it is only damped."""
        E = dynsys.forward_kinematics(self.scene.box, q, "box").E
        rate, acceleration = (E[:, 2] * x for x in self.task.way(time)[1:])
        still = np.concatenate([np.zeros(3), acceleration - cross(v[:3], v[3:])])
        brake = DAMP * (np.concatenate([np.zeros(3), rate]) - v)
        if self.task.carried(time) < 1:
            return np.asarray(still + brake)
        goal = self._rest[self.scene.robot.nq :].copy()
        goal[2] += self.task.way(time)[0]
        return np.asarray(still + brake + STIFF * self.scene.box.difference(q, goal))

    def _posture(self, q: Array, v: Array) -> Array:
        """Weight and Coriolis torques, and a spring to the advised posture."""
        robot = self.scene.robot
        return dynsys.rnea(robot, q, v, 10.0 * (self._rest[: robot.nq] - q) - 6.0 * v)

    def _watch(self, J: Array, N: Array, posture: Array, q: Array) -> None:
        moved = J @ np.linalg.solve(dynsys.crba(self.scene.robot, q), N.T @ posture)
        self.coupling = max(self.coupling, float(np.abs(moved).max()))


@final
@dataclass(frozen=True, eq=False)
class PutDown:
    """What happened: the simulator's record beside what was commanded, T samples."""

    scene: Scene
    task: Task
    simulation: Simulation
    record: Record
    coupling: float

    @property
    def time(self) -> Array:
        """(T,) s."""
        return self.record.sample_time

    @cached_property
    def wanted(self) -> Array:
        """Height of the box that was commanded (T,), m."""
        start = self.scene.q[self.scene.robot.nq + 2]
        return np.array([start + self.task.way(t)[0] for t in self.time])

    @property
    def place(self) -> Array:
        """Position of the box (T, 3)."""
        n = self.scene.robot.nq
        return self.record.q[:, n : n + 3]

    @cached_property
    def in_the_air(self) -> BoolArray:
        """(T,) until a corner first touches the floor."""
        return np.asarray(np.cumsum(self.record.contacts) == 0)

    @cached_property
    def wrenches(self) -> Array:
        """What each hand does to the box (2, T, 6), at the box and in its coordinates."""
        found = self.record.closure_wrenches
        out = np.zeros((2, len(self.time), 6))
        for k, q in enumerate(self.record.q):
            box = self._pose(q, "box").inverse()
            for side, closure in enumerate(self.scene.closures):  # hands as they are, not R
                hand = box.then(self._pose(q, closure.first))
                out[side, k] = hand.force_back(-found[closure.name][k])
        return out

    def _pose(self, q: Array, frame: str | int) -> Transform:
        return dynsys.forward_kinematics(self.scene.together, q, frame)

    @property
    def internal(self) -> Array:
        """s (T, 6), half the difference of the two."""
        return np.asarray(0.5 * (self.wrenches[0] - self.wrenches[1]))

    @property
    def commanded(self) -> Array:
        """s (T, 6) as the controller wants it."""
        return np.outer([self.task.carried(t) for t in self.time], INSIDE)

    @cached_property
    def floor(self) -> Array:
        """Wrench of the floor on the box (T, 6), at the box and in its coordinates."""
        total = np.zeros((len(self.time), 6))
        forces = list(self.record.forces.values())
        for k, q in enumerate(self.record.q):
            E = self._pose(q, "box").E
            for corner, each in zip(self.scene.corners, forces, strict=True):
                force = E @ each[k]
                total[k] += np.concatenate([cross(corner, force), force])
        return total

    @cached_property
    def imbalance(self) -> float:
        """Largest component of (rate of momentum - hands - floor - weight), N and N m."""
        n, r = self.scene.robot.nv, self.record
        taken = [
            dynsys.rnea(self.scene.box, q[n:], v[n:], a[n:])
            for q, v, a in zip(r.q, r.qd, r.qdd, strict=True)
        ]
        return float(np.abs(taken - self.wrenches.sum(axis=0) - self.floor).max())


def instant_errors(controller: Controller, states: Sequence[tuple[Array, Array]]) -> Array:
    """|a_o - commanded| and |h - commanded|, largest (2,): by constrained forward dynamics.

    At a state, without steps of time: what the torque makes of box and grasps.
    """
    held, worst = controller.scene, np.zeros(2)
    dynamics, n = held.dynamics, held.robot.nv
    for near, moving in states:
        q = dynamics.close(near)
        v = dynamics.impulse(q, moving).v  # such that the grasps hold
        found = dynamics.solve(q, v, controller.torque(q, v, 0.1))
        a_o = controller.box_acceleration(q[n:], v[n:], 0.1)
        h = controller.hand_wrenches(dynsys.rnea(held.box, q[n:], v[n:], a_o), 0.1)
        on_hands = np.concatenate([found.constraint_wrench[c.name] for c in held.closures])
        errors = np.abs(found.qdd[n:] - a_o).max(), np.abs(on_hands + h).max()
        worst = np.maximum(worst, errors)
    return worst


@cache
def scene() -> Scene:
    """The humanoid of [CK] figure 2 and a box in its hands."""
    return Scene.of(humanoid24(), POSTURE)


@cache
def put_down(quick: bool, servo: int = SERVO) -> PutDown:
    """All the way to the floor, or (quick) to a shelf just below."""
    held = scene()
    height = held.q[held.robot.nq + 2] - 0.5 * HIGH
    task = Task(0.05, 0.3, 0.05, 0.1, 0.1) if quick else Task(height)
    controller = Controller(held, task, servo)
    corners = ContactPoints(held.together, ["box"] * len(held.corners), held.corners)
    sim = Simulation(
        held.together,
        corners,
        1 / (STEPS * servo),
        Ground(height=height - task.drop),
        closures=held.closures,
    )
    steps = round(task.duration * STEPS * servo)
    with warnings.catch_warnings():  # some steps of the landing: a row of the paper tells them
        warnings.simplefilter("ignore", SimulationWarning)
        _, record = sim.run(sim.start(held.q), steps, controller=controller)
    return PutDown(held, task, sim, record, controller.coupling)
