"""Square systems of a robot: inverse and forward dynamics, and the y of what is known."""

from __future__ import annotations

import numpy as np

from dynsys import KinematicTree, LinearSystem
from dynsys.system.laws import known_inputs
from dynsys.types import Array


def inverse_system(robot: KinematicTree, *, net_wrench: bool = False) -> LinearSystem:
    laws = LinearSystem(robot, net_wrench=net_wrench)
    return laws.with_equations(known_inputs(laws.unknowns, range(robot.n_bodies)))


def forward_system(robot: KinematicTree, *, net_wrench: bool = False) -> LinearSystem:
    laws = LinearSystem(robot, net_wrench=net_wrench)
    return laws.with_equations(known_inputs(laws.unknowns, ()))


def known_values(system: LinearSystem, kind: str, values: Array) -> Array:
    """y with ``values`` of all joints in the rows of a kind, zero in the others."""
    y = np.zeros(len(system.measured_rows))
    for block in system.equations:
        if block.kind == kind:
            place = np.searchsorted(system.measured_rows, system.rows(block))
            y[place] = values[system.robot.v_slices()[block.body]]
    return y
