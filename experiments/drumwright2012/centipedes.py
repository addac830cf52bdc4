"""Centipedes on a plane ([DRUM] section 6.3): feet, gait, timed steps and walks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import NamedTuple, final

import numpy as np

from dynsys.loops.flat import flat_robot
from dynsys.loops.tree_state import TreeState
from dynsys.model import synthetic
from dynsys.model.expanded import last_freedom
from dynsys.model.tree import KinematicTree
from dynsys.simulation import (
    ROUTES,
    ContactInertia,
    ContactPoints,
    Drives,
    Integrator,
    Record,
    Route,
    Simulation,
    SimulationState,
)
from dynsys.types import Array, IntArray
from experiments.peers.timing import seconds

__all__ = [
    "Contacts",
    "Gait",
    "Walk",
    "contacts_of",
    "feet",
    "flight_drift",
    "inertia_seconds",
    "paper_run",
    "standing",
    "step_seconds",
    "walk",
]

PAPER_STEP = 1e-5
"""Explicit Euler, s ([DRUM] section 6.3); one thousand steps."""
KP, KD = 10.0, 0.1
LEG_LENGTH = 0.08
"""From the knee to the foot, m: :func:`dynsys.synthetic.centipede`."""


@lru_cache(maxsize=16)
def feet(robot: KinematicTree) -> ContactPoints:
    """Tips of all lower legs."""
    legs = [name for name in robot.body_names if "_lower_leg_" in name]
    return ContactPoints(robot, legs, np.tile([0.0, 0.0, -LEG_LENGTH], (len(legs), 1)))


class Contacts(NamedTuple):
    """Feet at a plane: J (3 c, nv), the freedom that each moves with (c,), positions (c, 3)."""

    J: Array
    tip: IntArray
    positions: Array


def contacts_of(robot: KinematicTree, q: Array, near: float = np.inf) -> Contacts:
    """Those feet that are ``near`` (m) the plane z = 0."""
    points, poses = feet(robot), TreeState(robot, q).poses
    positions = points.positions(poses)
    active = np.flatnonzero(positions[:, 2] < near)
    J = points.jacobian(flat_robot(robot).tree, poses, positions, active)
    tip = last_freedom(robot)[points.body[active]].astype(np.intp)
    return Contacts(J, tip, positions[active])


@cache
def inertia_seconds(
    segments: int, passes: int
) -> tuple[dict[Route, float], dict[Route, float]]:
    """CPU seconds of J M^-1 J^T of all feet by every route, and errors, relative to "dense".

    The same call of each, from q on: kinematics, what is factorised or propagated, A.
    """
    robot = synthetic.centipede(segments)
    rng = np.random.default_rng(0)
    q = robot.integrate(standing(robot), 0.3 * rng.normal(size=robot.nv), 1.0)
    contacts, flat = contacts_of(robot, q), flat_robot(robot)
    spaces = {route: ContactInertia(flat, route) for route in ROUTES}
    A = {route: space.at(q, *contacts).A for route, space in spaces.items()}
    exact = A["dense"]
    errors = {r: float(np.abs(A[r] - exact).max() / exact.max()) for r in ROUTES}
    runs = {route: partial(space.at, q, *contacts) for route, space in spaces.items()}
    taken = seconds({str(route): run for route, run in runs.items()}, passes)
    return {route: taken[route] for route in ROUTES}, errors


def standing(robot: KinematicTree) -> Array:
    """Position q (nq,) with all feet on the plane z = 0, legs vertical."""
    q = robot.neutral()
    q[robot.q_slice("root")][2] = LEG_LENGTH
    return q


@final
@dataclass(frozen=True)
class Gait:
    """A wave of steps that runs along the body; sides half a period apart.

    In stance (``duty`` of a period) a leg sweeps back by 2 ``sweep`` (rad) about the vertical,
    then it is lifted by ``lift`` (rad) and carried forward. Legs of neighbouring segments are
    ``wave`` periods apart. The amplitude grows over the first period.
    """

    robot: KinematicTree
    frequency: float = 1.5
    sweep: float = 0.35
    lift: float = 0.35
    wave: float = 0.125
    duty: float = 0.65

    def __call__(self, time: float) -> Array:
        """Position q (nq,) for the drives at a time."""
        q = self._rest.copy()
        segments = self.robot.n_bodies // 5
        grown = min(1.0, time * self.frequency)
        for side, sign in ((0, 1.0), (1, -1.0)):
            shift = 0.5 * side + self.wave * np.arange(segments)
            phase = (time * self.frequency + shift) % 1.0
            swing = np.clip((phase - self.duty) / (1 - self.duty), 0.0, 1.0)
            reach = np.where(
                phase < self.duty, 1 - 2 * phase / self.duty, -np.cos(np.pi * swing)
            )
            yaw = -sign * grown * self.sweep * reach
            roll = sign * grown * self.lift * np.sin(np.pi * swing)
            q[self._hips[side]] = _turned(yaw, roll)
        return q

    @cached_property
    def _rest(self) -> Array:
        return standing(self.robot)

    @cached_property
    def _hips(self) -> tuple[IntArray, ...]:
        """Places (segments, 4) of each side's hip quaternions in q."""
        starts = np.array([q.start for q in self.robot.q_slices()], dtype=np.intp)
        return tuple(starts[1 + 2 * side :: 5, None] + np.arange(4) for side in (0, 1))


def _turned(yaw: Array, roll: Array) -> Array:
    """Quaternions (k, 4) of a turn about z by yaw, then about the turned x by roll."""
    cz, sz, cx, sx = np.cos(yaw / 2), np.sin(yaw / 2), np.cos(roll / 2), np.sin(roll / 2)
    return np.column_stack([cz * sx, sz * sx, sz * cx, cz * cx])


@cache
def step_seconds(segments: int, steps: int) -> dict[Route, float]:
    """CPU seconds per step by route, all included, impulses by projected Gauss-Seidel.

    Median of five runs, the routes in turn.
    """
    robot = synthetic.centipede(segments)
    gait, drives = Gait(robot), Drives(robot, KP, KD)
    runs: dict[str, Callable[[], object]] = {}
    for route in ROUTES:
        sim = Simulation(
            robot,
            feet(robot),
            PAPER_STEP,
            route=route,
            integrator="explicit",
            drives=drives,
            solver="gauss_seidel",
            tolerance=1e-5,
        )
        state, _ = sim.run(sim.start(standing(robot)), 2, gait)
        runs[route] = partial(sim.run, state, steps, gait)
    taken = seconds(runs, passes=5)
    return {route: taken[route] / steps for route in ROUTES}


@cache
def paper_run(segments: int, steps: int) -> Record:
    """Explicit Euler with the paper's step, by the Theta(n^2) route."""
    robot = synthetic.centipede(segments)
    drives = Drives(robot, KP, KD)
    sim = Simulation(robot, feet(robot), PAPER_STEP, integrator="explicit", drives=drives)
    return sim.run(sim.start(standing(robot)), steps, Gait(robot))[1]


@final
@dataclass(frozen=True, eq=False)
class Walk:
    """States at equal intervals of a walk, and its record."""

    simulation: Simulation
    states: list[SimulationState]
    record: Record

    @property
    def distance(self) -> float:
        """Way of the first segment along x, m."""
        return float(self.states[-1].q[0] - self.states[0].q[0])

    def points(self, state: SimulationState) -> Array:
        """Origins (N, 3) of all bodies; below them the feet (K, 3) and the end of the tail."""
        poses = TreeState(self.simulation.robot, state.q).poses
        tail = poses.r[-5] - 0.1 * poses.E[-5, 0]
        return np.vstack([poses.r, self.simulation.points.positions(poses), tail])


@cache
def walk(segments: int, duration: float, dt: float = 1e-3, pictures: int = 4) -> Walk:
    """Walk for ``duration`` seconds, semi-implicit Euler."""
    robot = synthetic.centipede(segments)
    sim = Simulation(robot, feet(robot), dt, drives=Drives(robot, KP, KD))
    gait, record = Gait(robot), Record()
    states = [sim.start(standing(robot))]
    steps = round(duration / dt / (pictures - 1))
    for _ in range(pictures - 1):
        state = states[-1]
        for _ in range(steps):
            state = sim.step(state, gait, record)
        states.append(state)
    return Walk(sim, states, record)


def flight_drift(dt: float, integrator: Integrator, duration: float = 0.02) -> float:
    """Relative change of energy of a limp tumbling centipede, of which there should be none."""
    robot = synthetic.centipede(4)
    sim = Simulation(robot, feet(robot), dt, integrator=integrator)
    q = standing(robot)
    q[2] = 10.0
    spin = np.random.default_rng(0).normal(size=robot.nv)
    start = sim.start(q, spin)
    end, _ = sim.run(start, round(duration / dt))
    return (sim.energy(end) - sim.energy(start)) / abs(sim.energy(start))
