"""Runs behind ``experiments.chang_khatib2001``: its humanoid, times over n and m."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from dynsys.loops.tree_state import TreeState
from dynsys.model import synthetic
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, Frame, KinematicTree
from dynsys.operational import OperationalSpace
from dynsys.operational.method import AbstractMethod
from dynsys.types import Array
from experiments.peers.timing import seconds

__all__ = [
    "HANDS",
    "METHODS",
    "Scaling",
    "dense_route",
    "humanoid24",
    "linear_fit",
    "passes",
    "points_times",
    "scaling",
    "two_branches",
]

METHODS = ("y_factor", "rjk", "chang_khatib", "pv_osimr", "auto")
HANDS = ("left_hand", "right_hand")


def passes(quick: bool) -> int:
    """How often everything is timed."""
    return 1 if quick else 9


def humanoid24() -> KinematicTree:
    """Humanoid of figure 2: fixed feet, 24 one-freedom joints, an operational point per hand.

    Legs and trunk carry it as one chain of 10, two arms of 7 each branch off; the points are at
    the tips of the last links.
    """
    rng, bodies = np.random.default_rng(24), []
    axes = np.eye(3)

    def limb(name: str, parent: int, order: str, root: Sequence[float]) -> int:
        for k, letter in enumerate(order):
            offset = np.array(root if k == 0 else (0.0, 0.0, 0.12))
            joint = Revolute(axes["xyz".index(letter)])
            placement = Transform(np.eye(3), offset)
            bodies.append(Body(f"{name}_{k + 1}", parent, joint, placement, cloud_inertia(rng)))
            parent = len(bodies) - 1
        return parent

    chest = limb("trunk", -1, "xyyyxzxyzy", (0.0, 0.0, 0.1))
    tips = {}
    for hand, y in zip(HANDS, (0.2, -0.2), strict=True):
        wrist = limb(hand.removesuffix("_hand") + "_arm", chest, "yxzyzyx", (0.0, y, 0.2))
        tips[hand] = Frame(wrist, Transform(np.eye(3), np.array([0.0, 0.0, 0.1])))
    return KinematicTree("humanoid24", bodies, tips)


def dense_route(method: AbstractMethod, q: Array) -> Array:
    """Lambda^-1 = J H^-1 J^T: CRBA by compiled loops, LAPACK's Cholesky, O(n^3)."""
    state = TreeState(method.robot, q)
    J = method.jacobian(state)
    L, _ = lapack.dpotrf(state.H.T, lower=1, clean=0, overwrite_a=1)  # in place: H is symmetric
    W, _ = lapack.dtrtrs(L, J.T, lower=1)
    return np.asarray(W.T @ W)


class Scaling(NamedTuple):
    """CPU seconds by size for the recursions and for the dense route."""

    sizes: list[int]
    times: dict[str, list[float]]
    dense: list[float]


@cache
def scaling(quick: bool) -> Scaling:
    """CPU time of Lambda^-1 of two branches' tips, n = 24 .. 2000 links, m = 2."""
    sizes = [24, 60, 120] if quick else [24, 50, 100, 200, 400, 700, 1000, 1400, 2000]
    times: dict[str, list[float]] = {"chang_khatib": [], "pv_osimr": [], "rjk": []}
    dense = []
    for n in sizes:
        robot, tips = two_branches(n)
        q = robot.random_configuration(0)
        methods = {name: OperationalSpace(robot, tips, name).method for name in times}
        runs = {name: partial(_lambda_inv, method, q) for name, method in methods.items()}
        runs["dense"] = partial(dense_route, methods["rjk"], q)
        found = seconds(runs, passes(quick))
        dense.append(found.pop("dense"))
        for name, value in found.items():
            times[name].append(value)
    return Scaling(sizes, times, dense)


def _lambda_inv(method: AbstractMethod, q: Array) -> Array:
    return method.lambda_inv(TreeState(method.robot, q))


def two_branches(n: int) -> tuple[KinematicTree, list[int]]:
    """Trunk of n/3 links and two arms of n/3 each, and the tips of the arms."""
    third = n // 3
    links = list(synthetic.chain(n).bodies)
    fork = third - 1
    first = n - third  # where the second arm starts
    link = links[first]
    links[first] = Body(link.name, fork, link.joint, link.placement, link.inertia)
    return KinematicTree(f"two_branches{n}", links), [first - 1, n - 1]


def linear_fit(sizes: Sequence[int], times: Sequence[float]) -> tuple[float, float, float]:
    """Seconds per link, exponent of a power law over the upper half, and R^2 of the line.

    The line's relative errors are least in squares: noise grows with the times.
    """
    x, y = np.array(sizes, dtype=np.float64), np.array(times)
    slope, start = np.polyfit(x, y, 1, w=1 / y)
    rest = y - (slope * x + start)
    half = len(x) // 2
    exponent = np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0]
    return float(slope), float(exponent), float(1 - rest.var() / y.var())


@cache
def points_times(quick: bool) -> dict[str, dict[int, float]]:
    """CPU seconds over the number of operational bodies, a balanced tree's leaves."""
    levels, counts = (5, (1, 4, 16)) if quick else (9, (1, 2, 4, 8, 16, 32, 64, 128, 256))
    robot = synthetic.balanced_tree(levels)
    q = robot.random_configuration(0)
    leaves = list(range(robot.n_bodies // 2, robot.n_bodies))
    out: dict[str, dict[int, float]] = {name: {} for name in METHODS}
    for m in counts:
        tips = leaves[:: len(leaves) // m]
        methods = {name: OperationalSpace(robot, tips, name).method for name in METHODS}
        runs = {name: partial(_lambda_inv, method, q) for name, method in methods.items()}
        for name, value in seconds(runs, passes(quick)).items():
            out[name][m] = value
    return out
