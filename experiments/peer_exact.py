"""Extended-precision answers, the judge where a robot is so ill-conditioned that peers differ.

The recursions of dynsys, unsimplified and evaluated in long double. They hold for the numbers
in our robot; the errors of peers include what their own URDF reader rounds differently.
"""

from __future__ import annotations

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.program.graph import Graph
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array
from experiments.peer_robots import States

__all__ = ["exact_answers"]


def exact_answers(robot: KinematicTree, states: States) -> dict[str, Array]:
    """Torque of ID and qdd of FD (n, nv) at all states, rounded from long double."""
    nq, nv = robot.nq, robot.nv
    answers = {}
    for task, algorithm, x in (
        ("ID", rnea_scalars, states.qdd),
        ("FD", aba_scalars, states.torque),
    ):
        graph = Graph()
        inputs = graph.inputs(nq + 2 * nv)
        outputs = algorithm(robot, inputs[:nq], inputs[nq : nq + nv], inputs[nq + nv :])
        program = graph.program(list(outputs))
        rows = np.hstack([states.q, states.v, x]).astype(np.longdouble)
        answers[task] = program.evaluate(rows).astype(np.float64)
    return answers
