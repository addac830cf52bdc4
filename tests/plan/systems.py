"""What the ordering tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dynsys import KinematicTree, LinearSystem
from dynsys.plan.orders.orders import Pattern, PivotOrder
from dynsys.system.equations import EquationBlock, Term
from dynsys.system.laws import known

SEEN = [0, 1, 3, 4, 5]
"""Components a load cell on a slippery floor gives: all but the moment about z."""


def load_cell_system(robot: KinematicTree) -> LinearSystem:
    """Load cells at both ends of a chain and four joint accelerations unknown (figure 2)."""
    laws = LinearSystem(robot)
    unknowns, n = laws.unknowns, robot.n_bodies
    cells = []
    for name, block in (
        ("base cell", unknowns.block("joint_wrench", 0)),
        ("tip cell", unknowns.block("external_wrench", n - 1)),
    ):
        term = Term.constant(block, np.eye(6)[SEEN])
        cells.append(EquationBlock(name, "load_cell", block.body, 5, (term,), measured=True))
    wrenches = [known(unknowns, "external_wrench", i) for i in range(n - 1)]
    accelerations = [known(unknowns, "qdd", i) for i in range(2, n - 2)]
    return laws.with_equations([*wrenches, *accelerations, *cells])


def changed(robot: KinematicTree, i: int, **changes: Any) -> KinematicTree:
    """The robot with another body i."""
    bodies = list(robot.bodies)
    bodies[i] = replace(bodies[i], **changes)
    return KinematicTree(robot.name, bodies, gravity=robot.gravity)


def shuffled(pattern: Pattern, seed: int) -> Pattern:
    rng = np.random.default_rng(seed)
    rows, cols = rng.permutation(pattern.shape[0]), rng.permutation(pattern.shape[1])
    return PivotOrder(rows, cols).apply_pattern(pattern)
