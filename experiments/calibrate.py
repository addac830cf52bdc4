"""Times per unit of the cost models behind ``method="auto"``, fitted on this machine.

    python -m experiments.calibrate

Prints, per method, the seconds per unit that fit the measured times best (non-negative least
squares of relative errors), the tables to put into ``dynsys/loops/inverse_inertia.py`` and
``dynsys/operational/methods/auto.py``, and how much the choice they lead to loses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import get_args

import numpy as np
from scipy.optimize import nnls

from dynsys.loops import inverse_inertia as inverse_costs
from dynsys.loops.inverse_inertia import InverseInertia, Method
from dynsys.loops.tree_state import TreeState
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.operational import OperationalSpace
from dynsys.operational.method import AbstractMethod
from dynsys.operational.methods import auto as costs
from dynsys.types import Array
from experiments.peers.timing import seconds, with_one_blas_thread

__all__ = ["Case", "fit", "inverse_cases", "loss", "main", "operational_cases"]

Case = tuple[dict[str, dict[str, float]], dict[str, float]]
"""Features and measured seconds by method, of one computation."""


def robots(largest: int) -> list[KinematicTree]:
    """Chains, trees and centipedes up to about ``largest`` freedoms."""
    made = [
        *(synthetic.chain(n) for n in (7, 30, 100, 300)),
        synthetic.humanoid30(),
        synthetic.asimo(),
        *(synthetic.balanced_tree(m) for m in (5, 7, 9)),
        *(synthetic.centipede(k) for k in (3, 12, 40)),
        synthetic.side_branches(80),
    ]
    return [robot for robot in made if robot.nv <= largest]


def inverse_cases(largest: int = 600) -> list[Case]:
    """M^-1, and M^-1 R for 1 to 150 columns."""
    cases = []
    for robot in robots(largest):
        q, sizes = robot.random_configuration(0), inverse_costs.Sizes.of(robot)
        for columns in (0, 1, 6, 30, 150):
            inverse = columns == 0
            R = np.random.default_rng(0).normal(size=(robot.nv, columns))
            runs = {}
            for method in get_args(Method)[1:]:
                solver = InverseInertia(robot, method)
                runs[method] = (
                    partial(solver.matrix, q) if inverse else partial(solver.times, q, R)
                )
            count = inverse_costs.features(sizes, columns or robot.nv, inverse=inverse)
            cases.append((count, seconds(runs)))
    return cases


def operational_cases(largest: int = 600) -> list[Case]:
    """Lambda^-1 of 1 to 60 bodies spread over the robot."""
    cases = []
    for robot in robots(largest):
        q = robot.random_configuration(0)
        for wanted in (1, 2, 4, 12, 60):
            if wanted > robot.n_bodies:
                continue
            bodies = np.unique(np.linspace(0, robot.n_bodies - 1, wanted + 1).astype(int))[1:]
            spaces = {m: OperationalSpace(robot, bodies.tolist(), m) for m in costs.UNITS}
            runs = {m: partial(_lambda_inv, space.method, q) for m, space in spaces.items()}
            count = costs.features(spaces["y_factor"].space)
            cases.append((count, seconds(runs)))
    return cases


def _lambda_inv(method: AbstractMethod, q: Array) -> Array:
    return method.lambda_inv(TreeState(method.robot, q))


def fit(cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Seconds per unit of every method."""
    units = {}
    for method in cases[0][1]:
        names = list(cases[0][0][method])
        A = np.array([[count[method][name] for name in names] for count, _ in cases])
        taken = np.array([times[method] for _, times in cases])
        x, _ = nnls(A / taken[:, None], np.ones(len(taken)))
        units[method] = {name: float(f"{v:.2g}") for name, v in zip(names, x, strict=True)}
    return units


def loss(cases: Sequence[Case], units: dict[str, dict[str, float]]) -> tuple[float, float]:
    """Mean and worst of (time of the chosen method) / (time of the fastest)."""
    ratios = []
    for counts, times in cases:
        expected = {m: sum(units[m][u] * c for u, c in counts[m].items()) for m in times}
        ratios.append(times[min(expected, key=expected.__getitem__)] / min(times.values()))
    return float(np.mean(ratios)), float(np.max(ratios))


def main() -> int:
    """Fit and print both tables."""
    for title, cases, stored in (
        ("dynsys/loops/inverse_inertia.py", inverse_cases(), inverse_costs.UNITS),
        ("dynsys/operational/methods/auto.py", operational_cases(), costs.UNITS),
    ):
        units = fit(cases)
        print(title)
        for method, table in units.items():
            print(f"    {method!r}: {table},")
        for name, table_of in (("stored", stored), ("fitted", units)):
            mean, worst = loss(cases, table_of)
            print(f"  {name}: chosen / fastest = {mean:.3f} on average, {worst:.2f} at worst")
    return 0


if __name__ == "__main__":
    sys.exit(with_one_blas_thread("experiments.calibrate", main))
