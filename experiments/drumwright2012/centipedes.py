"""Centipedes on a plane ([DRUM] section 6.3): timed steps and walks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np

from dynsys.model import synthetic
from dynsys.simulation import Drives, Integrator, Record, Route, Simulation, SimulationState
from dynsys.simulation.centipede import Gait, feet, standing
from dynsys.types import Array
from experiments.peers.timing import seconds

__all__ = ["Walk", "flight_drift", "paper_run", "step_seconds", "walk"]

PAPER_STEP = 1e-5
"""Explicit Euler, s ([DRUM] section 6.3); one thousand steps."""
KP, KD = 10.0, 0.1


@cache
def step_seconds(segments: int, route: Route, steps: int) -> float:
    """CPU seconds per step of the paper's simulation, all included; median of three runs."""
    robot = synthetic.centipede(segments)
    sim = Simulation(
        robot,
        feet(robot),
        PAPER_STEP,
        route=route,
        integrator="explicit",
        drives=Drives(robot, KP, KD),
    )
    gait = Gait(robot)
    state, _ = sim.run(sim.start(standing(robot)), 2, gait)
    run = {"steps": lambda: sim.run(state, steps, gait)}
    return seconds(run, passes=3)["steps"] / steps


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
        joints = self.simulation.arrays.joints
        poses = joints.poses(*joints.transforms(state.q))
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
