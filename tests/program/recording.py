"""Record an algorithm on the expression graph; admissible random inputs for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynsys import KinematicTree
from dynsys.plan.record import sample_states
from dynsys.program.graph import Graph
from dynsys.program.program import Program
from dynsys.types import ScalarArray

__all__ = ["admissible_inputs", "recorded"]


def recorded(
    robot: KinematicTree,
    algorithm: Callable[[ScalarArray, ScalarArray, ScalarArray], ScalarArray],
) -> Program:
    """Program of ``algorithm(q, qd, third)``; the third input has length nv."""
    graph = Graph()
    x = graph.inputs(robot.nq + 2 * robot.nv)
    n, m = robot.nq, robot.nv
    return graph.program(list(algorithm(x[:n], x[n : n + m], x[n + m :])))


def admissible_inputs(robot: KinematicTree, count: int, seed: int) -> ScalarArray:
    """Random (count, nq + 2 nv) extended-precision inputs with unit quaternions."""
    return sample_states(robot, count, seed, np.ones(robot.nv))
