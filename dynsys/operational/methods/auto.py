"""Lambda^-1 by the method expected to be fastest for the robot and its operational space.

Which that is follows from counts and measured times per unit.
"""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.loops.inverse_inertia import cheapest
from dynsys.loops.tree_state import TreeState
from dynsys.model.expanded import depths, expanded_parent
from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod, make_method
from dynsys.operational.methods.chang_khatib import plan_recursion
from dynsys.operational.methods.pv_osimr import reduce_tree
from dynsys.operational.omega import wanted_bodies
from dynsys.operational.tasks import TaskSpace
from dynsys.recursive.sparse_factors import tree_sums
from dynsys.types import Array

__all__ = ["UNITS", "Method", "choose", "features"]


@final
class Method(AbstractMethod):
    """The method ``chosen`` for this robot and space."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        self.robot, self.space = robot, space
        self.chosen = choose(space)
        self._method = make_method(self.chosen, robot, space)

    def jacobian(self, state: TreeState) -> Array:
        return self._method.jacobian(state)

    def lambda_inv(self, state: TreeState) -> Array:
        return self._method.lambda_inv(state)

    def jbar(self, state: TreeState, J: Array, Lambda: Array) -> Array:
        return self._method.jbar(state, J, Lambda)

    def null_space(self, J: Array, Jbar: Array) -> Array:
        return self._method.null_space(J, Jbar)


UNITS: dict[str, dict[str, float]] = {
    "y_factor": {
        "call": 8.1e-5,
        "body": 5.5e-7,
        "task": 1.9e-5,
        "D1": 2.2e-8,
        "D2": 1.9e-9,
        "row x body": 1.5e-8,
        "Y": 2.5e-9,
        "product": 1.4e-9,
    },
    "chang_khatib": {
        "call": 4.6e-5,
        "body": 9.4e-7,
        "task": 1.7e-5,
        "element": 5.5e-9,
        "block": 9.0e-8,
    },
    "pv_osimr": {
        "call": 5.0e-5,
        "body": 9.4e-7,
        "task": 1.7e-5,
        "element": 5.5e-9,
        "block": 9.5e-8,
    },
}
"""Seconds per unit of :func:`features`, fitted by ``python -m experiments.calibrate`` on one
core of a Zen 3. Only ratios matter, and only near a crossing: there the methods are equally
good and a wrong choice costs little. RJK does what Chang and Khatib's recursion does with more
blocks and is never expected to win."""


def features(space: TaskSpace) -> dict[str, dict[str, float]]:
    """Counts that the time of each method grows with, for a robot without coupled joints."""
    robot = space.robot
    parent = expanded_parent(robot)
    sums, inside = tree_sums(parent), space.supports.mask(len(parent)).astype(np.int64)
    same = {"call": 1.0, "body": float(robot.n_bodies), "task": float(len(space.tasks))}
    bodies = wanted_bodies(space)
    recursion = plan_recursion(robot.parent, bodies)
    products = len(recursion.body) + int(recursion.square.sum())
    reduced = reduce_tree(robot.parent, bodies)
    below = np.diff(reduced.start)[reduced.parent >= 0].sum()
    size = len(reduced.body)
    recursive = {**same, "element": float(space.m * _pieces(space) * 6)}
    return {
        "y_factor": {
            **same,
            "D1": float(sums.n + sums.D1),
            "D2": float(sums.D2),
            "row x body": float(space.m * robot.n_bodies),
            "Y": float((inside @ (depths(parent) - 1)).sum()),
            "product": float(np.tril(inside @ inside.T).sum()),
        },
        "chang_khatib": {**recursive, "block": float(products)},
        "pv_osimr": {
            **recursive,
            "block": float(2 * len(reduced.chain) + below + size * (size - 1) / 2),
        },
    }


def _pieces(space: TaskSpace) -> int:
    return sum(len(bodies) for bodies in space.bodies)


def choose(space: TaskSpace) -> str:
    """Name of the method expected to be fastest for an operational space."""
    if space.robot.is_coupled:
        return "dense"
    return cheapest(UNITS, features(space))
