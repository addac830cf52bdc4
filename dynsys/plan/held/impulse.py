"""Impulses: what constraints do to velocities when they begin to hold, by the same plan.

    H (v+ - v-) = J^T impulse        J v+ = - restitution J v-

The elimination is that of forward dynamics (:mod:`dynsys.plan.symmetric`,
:mod:`.multipliers`), step by step, with velocities in the place of accelerations: no bias, no
torque, no gravity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dynsys.plan.held.holding import rows_on
from dynsys.plan.held.multipliers import LIMIT, HeldBy, smallest_solution
from dynsys.plan.record import SAMPLES, sample_states
from dynsys.plan.step_order import staged_steps
from dynsys.plan.symmetric import HeldRows, SymmetricStep, solve_symmetric, symmetric_steps
from dynsys.program.frames import reframe
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.constraint_rows import closed_configurations
from dynsys.recursive.kinematics import transforms
from dynsys.types import ScalarArray

__all__ = ["ImpulseSpec", "impulse_program"]


@final
@dataclass(frozen=True, eq=False)
class ImpulseSpec:
    """Velocities after an impact: of q, v (nv,) and the restitution of each constraint."""

    held: HeldBy
    steps: Sequence[SymmetricStep] | None = None

    @property
    def signature(self) -> Signature:
        """Inputs and outputs by name."""
        robot, constraints = self.held.robot, self.held.constraints
        inputs = (("q", robot.nq), ("v", robot.nv), ("restitution", len(constraints)))
        rows = sum(constraint.size for constraint in constraints)
        return Signature(inputs, (("v_after", robot.nv), ("impulse", rows)))

    def admissible(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs) at which the constraints hold, as far as found."""
        held = self.held
        states = sample_states(held.robot, count, seed, np.ones(len(held.constraints)))
        for k, q in enumerate(closed_configurations(held.robot, held.constraints, count, seed)):
            states[k, : held.robot.nq] = q
        if held.redundant:  # rows that say the same of one velocity bounce alike
            states[:, -len(held.constraints) :] = 0.0
        return states


def impulse_program(spec: ImpulseSpec, dtype: str = "float64") -> Program:
    """Program of velocities after an impact and impulses (rows,); NaN where guarded."""
    held, robot, graph = spec.held, spec.held.robot, Graph()
    steps = held.steps if spec.steps is None else spec.steps
    tree, kept, redundant = held.split(steps)
    q, v = graph.inputs(robot.nq), graph.inputs(robot.nv)
    restitution = graph.inputs(len(held.constraints))
    mechanism = reframe(robot, regroup="solid")
    X_up, none = transforms(mechanism, q), 0 * v
    rows = []
    for c, constraint in enumerate(held.constraints):
        found = rows_on(mechanism, constraint, (q, v, none), X_up)
        bounce = (1 + restitution[c]) * found.velocity
        rows.append(HeldRows(found.wrenches, found.torques, bounce))
    watched: list[object] = []
    impulse: list[ScalarArray] = []

    def solve(
        Lambda_inv: ScalarArray, velocity: ScalarArray, _: ScalarArray, __: ScalarArray
    ) -> ScalarArray:
        solution = smallest_solution(Lambda_inv, -velocity, kept, redundant, held.floors)
        watched.extend([*solution.shares, *solution.contradictions, *solution.sizes])
        impulse.append(solution.x)
        return solution.x

    staged = staged_steps(mechanism, tree or symmetric_steps(robot, held.known))
    bias = [np.zeros(6)] * mechanism.n_bodies
    change = solve_symmetric(mechanism, X_up, bias, none, held.known, staged, rows, solve)[0]
    outputs = [*(v + change), *impulse[0], *watched]
    samples = sample_states(robot, SAMPLES, 0, np.ones(len(rows)))
    program = simplify(graph.program(outputs), samples)
    limits, quaternions = [LIMIT] * len(kept), robot.quaternion_slices
    n, checks = spec.signature.n_inputs, len(redundant)
    return guarded(program, quaternions, dtype, limits, n_finite=n, n_checks=checks)
