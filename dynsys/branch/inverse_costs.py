"""What M^-1 and M^-1 R are expected to take, by method: seconds from counts.

A count times the time one unit of it took: fitted by ``python -m experiments.calibrate``
on one core of a Zen 3 with OpenBLAS. Only ratios matter, and only near a crossing: there the
methods are equally good and a wrong choice costs little.
"""

from __future__ import annotations

from typing import NamedTuple

from dynsys.branch.counts import tree_sums
from dynsys.model.expanded import expanded_parent
from dynsys.model.tree import KinematicTree

__all__ = ["UNITS", "Sizes", "choose", "features"]


class Sizes(NamedTuple):
    """Bodies, freedoms, and the sums D1, D2 of [BIS] over the expanded graph."""

    bodies: int
    n: int
    D1: int
    D2: int

    @staticmethod
    def of(robot: KinematicTree) -> Sizes:
        """Sizes of a robot without coupled joints."""
        sums = tree_sums(expanded_parent(robot))
        return Sizes(robot.n_bodies, sums.n, sums.D1, sums.D2)


UNITS: dict[str, dict[str, float]] = {
    "drumwright": {"call": 1.0e-4, "body": 7.1e-7, "row x column": 1.1e-8},
    "ltdl": {
        "call": 4.0e-5,
        "body": 6.5e-7,
        "D1": 2.4e-8,
        "D2": 1.8e-9,
        "row x column": 1e-9,
        "D1 x column": 4.5e-10,
    },
    "dense": {
        "call": 3.6e-5,
        "body": 7.5e-7,
        "D1": 2.0e-8,
        "n^3": 3.5e-11,
        "n^2 x column": 1.0e-10,
    },
}
"""Seconds per unit; features of :func:`features`."""


def features(sizes: Sizes, columns: int, *, inverse: bool) -> dict[str, dict[str, float]]:
    """Counts that the time of each method grows with."""
    bodies, n, D1, D2 = sizes
    same = {"call": 1.0, "body": float(bodies)}
    form = {**same, "D1": float(n + D1)}
    return {
        "drumwright": {**same, "row x column": float(n * columns)},
        "ltdl": {
            **form,
            "D2": float(D2),
            "row x column": float(n * columns),
            "D1 x column": float(D1 * columns),
        },
        "dense": {
            **form,
            "n^3": n**3 * (3.0 if inverse else 1.0),
            "n^2 x column": 0.0 if inverse else float(n * n * columns),
        },
    }


def choose(sizes: Sizes, columns: int, *, inverse: bool) -> str:
    """Name of the method expected to be fastest for ``columns`` columns of R."""
    counts = features(sizes, columns, inverse=inverse)
    seconds = {
        method: sum(UNITS[method][unit] * count for unit, count in count_of.items())
        for method, count_of in counts.items()
    }
    return min(seconds, key=seconds.__getitem__)
