"""States and readings for the tests of identification; see also experiments.identification."""

from __future__ import annotations

import numpy as np

import sensors
from dynsys import KinematicTree
from dynsys.types import Array
from problems.measured.simulated_readings import TrueReadings
from sensors import Layout

FEW = 8
"""States that are not worth a kernel."""


def random_states(robot: KinematicTree, count: int, seed: int) -> tuple[Array, Array, Array]:
    """Random q, qd, qdd, a row each."""
    rng = np.random.default_rng(seed)
    q = np.array([robot.random_configuration(rng) for _ in range(count)])
    return q, rng.normal(size=(count, robot.nv)), rng.normal(size=(count, robot.nv))


def readings(
    layout: Layout,
    robot: KinematicTree,
    states: tuple[Array, ...],
    f_ext: Array | None = None,
) -> Array:
    """What the layout's sensors would read on another robot, without noise."""
    frictionless = robot.with_friction(False)
    wrenches = np.zeros((len(states[0]), robot.n_bodies, 6)) if f_ext is None else f_ext
    true = TrueReadings(Layout(frictionless, layout.sensors))
    if len(wrenches) <= FEW:
        each = zip(*states, wrenches, strict=True)
        y = np.array([true.reference(*state)[1] for state in each])
    else:
        y = true.at(*states, wrenches)[1]
    lost = robot.friction_torque(states[1])
    for sensor in layout.sensors:
        if isinstance(sensor, sensors.JointTorque):
            y[:, layout.slice(sensor.name)] += lost[:, robot.v_slice(sensor.joint)]
    return y
