"""Answers in extended precision, to judge those in float64 by.

They are the readable recursions of dynsys, not simplified, in long double, at the states as
they are. They hold for the numbers in our robot; the errors of peers include what their own
URDF reader rounds differently.

icub's light links make M so ill-conditioned that no library knows M^-1 to more than a few
digits; what can be asked is that M^-1 M = 1 to rounding. Where its hip axes almost align, the
same is true of Lambda^-1: such states are found by ``kept``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.model.expanded import expanded_parent
from dynsys.model.tree import KinematicTree
from dynsys.operational.tasks import TaskSpace, as_tasks
from dynsys.program.graph import Graph
from dynsys.recursive.aba import aba_scalars
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.kinematics import transforms
from dynsys.recursive.rnea import rnea_scalars
from dynsys.recursive.sparse_factors import ltdl_scalars
from dynsys.types import Array, BoolArray, ScalarArray
from experiments.peers.robots import States

__all__ = [
    "Exact",
    "exact_answers",
    "exact_matrices",
    "product_error",
    "residual",
    "scaled_error",
]


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


# ---- Lambda^-1 and M^-1, and how far float64 answers are from the truth --------------------


@final
@dataclass(frozen=True, eq=False)
class Exact:
    """H (n, nv, nv), Lambda^-1 (n, m, m) of n states; the least share of H_ii a joint kept.

    A joint's inertia with all others free to move, over that with all others held: ``kept``
    (n,). The digits lost to rounding are those of 1 / kept.
    """

    H: ScalarArray
    Lambda_inv: ScalarArray
    kept: ScalarArray

    def of(self, states: BoolArray) -> Exact:
        """The same for some of the states."""
        return Exact(self.H[states], self.Lambda_inv[states], self.kept[states])


def exact_matrices(robot: KinematicTree, frames: Sequence[str], q: Array) -> Exact:
    """H = L^T D L at states q (n, nq), Lambda^-1 = Y D^-1 Y^T with Y = J L^-1."""
    space, parent = TaskSpace(robot, as_tasks(frames)), expanded_parent(robot)
    found = []
    for state in q.astype(np.longdouble):
        H = crba_scalars(robot, state)
        L, diag = ltdl_scalars(H, parent)
        Y = space.jacobian_scalars(transforms(robot, state)) @ _unit_inverse(L)
        found.append((H, (Y / diag) @ Y.T, (diag / np.diagonal(H)).min()))
    return Exact(*(np.array(matrices) for matrices in zip(*found, strict=True)))


def _unit_inverse(L: ScalarArray) -> ScalarArray:
    """Inverse of a unit lower triangular matrix, row by row."""
    out = np.eye(len(L), dtype=L.dtype)
    for i in range(1, len(L)):
        out[i, :i] = -(L[i, :i] @ out[:i, :i])
    return out


def scaled_error(found: Array, exact: ScalarArray) -> float:
    """Largest error of an element over sqrt(diagonal of its row x of its column)."""
    diagonal = np.sqrt(np.diagonal(exact, axis1=1, axis2=2))
    error = np.abs(found - exact) / (diagonal[:, :, None] * diagonal[:, None, :])
    return float(error.max())


def residual(inverse: Array, H: ScalarArray) -> float:
    """Largest element of H^-1 H - 1, over the sizes of the products it is a sum of."""
    product = inverse.astype(np.longdouble) @ H
    size = np.abs(inverse) @ np.abs(H)
    return float((np.abs(product - np.eye(H.shape[1])) / size).max())


def product_error(product: Array, H: Array) -> float:
    """Largest error of L^T D L over the largest element of its H."""
    error = np.abs(product - H).max(axis=(1, 2)) / np.abs(H).max(axis=(1, 2))
    return float(error.max())
