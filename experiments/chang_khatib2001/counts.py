"""What the steps of [CK] table 1 execute, counted, and which powers of n and m are in it.

Robots are made of axial screws (:class:`~experiments.featherstone2005.axial_screws.ScrewRobot`)
on a base that stands; sines, cosines and their products are taken as known, so that step 1, the
transforms, costs nothing of its own. Counts of stars (a trunk, m limbs of l links each, n links
in all) are sums of a few terms in n, m and l; the coefficients are found in exact arithmetic
and fit every star counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple, final

import numpy as np

from dynsys.model.spatial import Transform
from dynsys.operational.methods.chang_khatib import plan_recursion
from dynsys.recursive.aba import factor_ldl, solve_ldl
from dynsys.types import Array, ScalarArray
from experiments.counting import OperationCount, Tally, exact_fit, written_out
from experiments.featherstone2005.axial_screws import ScrewRobot, general_motion
from experiments.featherstone2010.runs import dense_run

__all__ = [
    "DENSE",
    "STEPS",
    "TIP",
    "TRUNK",
    "Growth",
    "dense_growth",
    "growth",
    "recursion",
    "star",
    "terms_of",
]

STEPS = ("steps 1, 2", "step 3", "step 4", "step 5", "step 6")
DENSE = "dense"
TRUNK = 4
TIP = Transform(np.eye(3), np.array([0.1, 0.2, 0.3]))
"""Operational points, seen from the links that carry them."""


# ---- table 1 over counting scalars ---------------------------------------------------------


def recursion(
    robot: ScrewRobot, bodies: Sequence[int]
) -> tuple[Array, dict[str, OperationCount]]:
    """Lambda (6 m, 6 m) of points on the given bodies, and what each step executed.

    Body 0 of the robot is the base that stands: Omega_root,root = 0.
    """
    tally, plan = Tally(), plan_recursion(robot.parent, bodies)
    counts = dict.fromkeys(STEPS, OperationCount())

    def count(step: str) -> None:
        counts[step] += tally.count - sum(counts.values(), OperationCount())

    screws, zero = robot.known_screws(), np.zeros((6, 6), dtype=object)
    tau, inverse, base = robot.articulate(tally.scalars, screws, lambda _: zero)
    count("steps 1, 2")
    blocks: list[ScalarArray] = []
    for i, source, square in zip(
        plan.body.tolist(), plan.source.tolist(), plan.square, strict=True
    ):
        if source == -1:
            blocks.append(base)
            continue
        known = blocks[source] if source >= 0 else blocks[-2 - source].T
        if square:
            blocks.append(robot.diagonal(i, screws[i], known, tau[i], inverse[i]))
        else:
            blocks.append(robot.carry_rows(i, screws[i], known, tau[i]))
        count("step 3" if square else "step 4")
    m = 6 * len(bodies)
    mobility = np.empty((m, m), dtype=object)
    for a, i in enumerate(bodies):
        for b, j in enumerate(bodies[: a + 1]):
            k = plan.find(i, j)
            block = _at_tips(blocks[k] if k >= 0 else blocks[-2 - k].T)
            rows, columns = slice(6 * a, 6 * a + 6), slice(6 * b, 6 * b + 6)
            mobility[columns, rows], mobility[rows, columns] = block.T, block
    count("step 5")
    Lambda = _inverse(mobility)
    count("step 6")
    return Lambda.astype(np.float64), counts


def _at_tips(block: ScalarArray) -> ScalarArray:
    """X Omega X^T (6, 6), X from a link to its operational point."""
    for _ in range(2):
        rows = [general_motion(row, TIP.E, TIP.inverse().r) for row in block]
        block = np.array(rows).T
    return block


def _inverse(A: ScalarArray) -> ScalarArray:
    F = factor_ldl(A)
    out: ScalarArray = np.array([solve_ldl(F, column) for column in np.eye(len(A))])
    return out


# ---- powers of n and m ---------------------------------------------------------------------


@final
class Growth(NamedTuple):
    """Operations as a sum of coefficients times ``names``."""

    names: Sequence[str]
    coefficients: Sequence[Fraction]

    @property
    def powers(self) -> set[str]:
        """Terms that are there."""
        return {name for name, c in zip(self.names, self.coefficients, strict=True) if c}

    def leads(self, *terms: str) -> bool:
        """Whether all of these terms are there, with more operations the larger they are."""
        found = dict(zip(self.names, self.coefficients, strict=True))
        return all(found[term] > 0 for term in terms)

    def at(self, values: Mapping[str, float]) -> float:
        """Operations at values of the terms."""
        pairs = zip(self.names, self.coefficients, strict=True)
        return float(sum(float(c) * values[name] for name, c in pairs))

    def __str__(self) -> str:
        return written_out(self.names, self.coefficients)


def star(m: int, length: int) -> tuple[list[int], list[int]]:
    """Parent array and tips of a star on the base, body 0: n = TRUNK + m length links."""
    parent, tips = list(range(-1, TRUNK)), []
    for _ in range(m):
        parent += [TRUNK, *range(len(parent), len(parent) + length - 1)]
        tips.append(len(parent) - 1)
    return parent, tips


def terms_of(n: float, m: float, length: float) -> dict[str, float]:
    """Values of the terms in n, m and l = length that counts are written in."""
    both = {"nm": n * m, "m^3": m**3, "m^2": m**2, "n": n, "l": length, "m": m, "": 1}
    return both | {"n^3": n**3, "n^2m": n * n * m, "nm^2": n * m * m, "n^2": n * n}


@cache
def growth() -> dict[str, Growth]:
    """Operations of each step and of all together, on stars of two limbs and more."""
    names = ("nm", "m^3", "m^2", "n", "l", "m", "")
    samples, counts = [], []
    for m in range(2, 7):
        for length in range(6, 9):
            parent, tips = star(m, length)
            values = terms_of(len(parent) - 1, m, length)
            samples.append([int(values[name]) for name in names])
            counts.append(recursion(ScrewRobot(parent, base_frames=False), tips)[1])
    totals = {step: [one[step].total for one in counts] for step in STEPS}
    totals["all steps"] = [sum(column) for column in zip(*totals.values(), strict=True)]
    return {step: Growth(names, exact_fit(samples, total)) for step, total in totals.items()}


@cache
def dense_growth() -> Growth:
    """Operations of Lambda from H and J without any zeros: LTDL, Y, Y Y^T, inverse."""
    names = ("n^3", "n^2m", "nm^2", "m^3", "n^2", "nm", "m^2", "n", "m", "")
    samples, counts = [], []
    for m in range(1, 5):
        tally = Tally()
        _inverse(tally.scalars(np.eye(6 * m)))
        for n in (4, 6, 8, 10, 12):
            ran = dense_run(6 * m, n)
            whole = ran["LTDL"] + ran["Y"] + ran["Lambda^-1"] + tally.count
            values = terms_of(n, m, 0)
            samples.append([int(values[name]) for name in names])
            counts.append(whole.total)
    return Growth(names, exact_fit(samples, counts))
