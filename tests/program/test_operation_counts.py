"""Operation counts of the compiled dynamics: below the recursions' and the published ones."""

from __future__ import annotations

import numpy as np
import pytest

from dynsys import KinematicTree, synthetic
from dynsys.plan.operations import Operations, program_operations
from dynsys.plan.record import SAMPLES, DynamicsSpec, dynamics_program, sample_states
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.simplify import simplify
from dynsys.recursive.aba import aba_scalars


def counted(robot: KinematicTree, task: str) -> Operations:
    known = np.full(robot.nv, task == "ID")
    outputs = ("torque",) if task == "ID" else ("qdd",)
    program = dynamics_program(DynamicsSpec(robot, known, "given", outputs))
    return program_operations(program)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10, 30])
def test_generic_chains_cost_less_than_published(n: int) -> None:
    """[BIS] section 6 for RNEA, Brandl, Johanni and Otter for ABA; n = 100 in experiments."""
    robot = synthetic.chain(n, generic=True)
    inverse, forward = counted(robot, "ID"), counted(robot, "FD")
    assert inverse.multiplications < 93 * n - 69 and inverse.additions < 81 * n - 66
    assert forward.multiplications + forward.divisions < 250 * n - 222
    assert forward.additions < 220 * n - 198


@pytest.mark.slow
@pytest.mark.parametrize(
    "robot",
    [synthetic.chain(8), synthetic.humanoid30(), synthetic.random_tree(8, 1)],
    ids=lambda robot: robot.name,
)
def test_elimination_of_d_costs_no_more_than_aba(robot: KinematicTree) -> None:
    """The same graph, frames, masses and simplification: D eliminated, ABA recorded."""
    graph = Graph()
    q, qd, torque = (graph.inputs(n) for n in (robot.nq, robot.nv, robot.nv))
    recursion = graph.program(list(aba_scalars(reframe(robot), q, qd, torque)))
    samples = sample_states(robot, SAMPLES, 0, np.ones(robot.nv))
    aba = program_operations(simplify(recursion, samples))
    ours = counted(robot, "FD")
    assert ours.multiplications <= aba.multiplications
    assert ours.additions <= aba.additions and ours.divisions <= aba.divisions
