"""What the search adds to constructive orders: load cells, mixed sensors, proofs by exhaustion.

Every system is square: laws, and as many measurements as are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.plan.orders.orders import PivotOrder
from dynsys.plan.search.price import SearchProblem
from dynsys.plan.search.search import Search, constructive, search_order
from dynsys.system.laws import known, known_inputs
from dynsys.system.linear_system import LinearSystem
from experiments.nori2017.counts import chain, load_cell_system
from experiments.nori2017.exhaustive import estimate, least_operations
from sensors import Accelerometer, ExternalWrench, ForceTorque, JointAcceleration, Layout

__all__ = ["Improved", "Proved", "improve", "mixed_system", "prove", "small_systems", "systems"]


@final
@dataclass(frozen=True)
class Improved:
    """Operations of the whole program before and after the search, and the order found."""

    name: str
    constructive: int
    found: int
    evaluations: int
    order: PivotOrder

    @property
    def saved(self) -> float:
        """Part of the operations that the search saved."""
        return 1.0 - self.found / self.constructive


@final
@dataclass(frozen=True)
class Proved:
    """Best constructive order and the least of all orders, by the same estimate."""

    name: str
    constructive: int
    least: int
    matrices: int


def mixed_system(robot: KinematicTree) -> LinearSystem:
    """Force-torque sensor at joint 1, accelerometer on the last body, the rest known.

    Open are the external wrench on the last body and the accelerations of the three joints
    before its own on the way to the base.
    """
    names, joints = robot.body_names, robot.joint_names
    last = robot.n_bodies - 1
    way = [last]
    while robot.parent[way[-1]] >= 0:
        way.append(int(robot.parent[way[-1]]))
    opened = set(way[1:4])
    layout = Layout(
        robot,
        [
            *(ExternalWrench(f"{b}/wrench", b) for b in names[:last]),
            *(JointAcceleration(f"{j}/acceleration", j) for i, j in enumerate(joints)
              if i not in opened),
            ForceTorque("base", joints[0]),
            Accelerometer("tip", names[last]),
        ],
    )  # fmt: skip
    laws = LinearSystem(robot)
    return laws.with_equations(layout.equations(laws.unknowns))


def systems(quick: bool) -> dict[str, LinearSystem]:
    """Systems to search on, by name."""
    sizes = (6,) if quick else (8, 12)
    found = {
        f"load cells, N = {n}": load_cell_system(chain(n, taper=1.0), net_wrench=False)
        for n in sizes
    }
    for n, branching in ((5, 1.0),) if quick else ((8, 1.0), (12, 1.5)):
        kind = "chain" if branching == 1.0 else "tree"
        found[f"mixed sensors, {kind}, N = {n}"] = mixed_system(chain(n, branching, 1.0))
    return found


def improve(name: str, system: LinearSystem, search: Search) -> Improved:
    """Search, outputs torque."""
    result = search_order(SearchProblem.of(system, ("torque",)), search, system)
    before, after = result.constructive.operations.total, result.best.operations.total
    return Improved(name, before, after, result.evaluations, result.best.order)


def small_systems(quick: bool) -> dict[str, LinearSystem]:
    """Systems small enough to try all orders, by name."""
    found = {}
    for n in (2, 3):
        laws = LinearSystem(chain(n, taper=1.0))
        u = laws.unknowns
        found[f"load cell at the base, N = {n}"] = laws.with_equations(
            [
                *(known(u, "external_wrench", i) for i in range(n - 1)),
                *(known(u, "qdd", i) for i in range(n)),
                known(u, "joint_wrench", 0),
            ]
        )
        hybrid = laws.with_equations(known_inputs(u, set(range(n - 1))))
        found[f"hybrid, last torque known, N = {n}"] = hybrid
        if n == 2 and not quick:
            found["forward dynamics, N = 2"] = laws.with_equations(known_inputs(u, ()))
    return found


def prove(name: str) -> Proved:
    """Exhaustive search of a small system."""
    system = small_systems(quick=False)[name]
    problem = SearchProblem.of(system)
    estimates = [estimate(problem, c.order) for c in constructive(problem, Search(), system)]
    optimum = least_operations(problem)
    best = int(np.min([e for e in estimates if e is not None]))
    return Proved(name, best, optimum.operations, optimum.matrices)
