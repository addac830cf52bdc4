"""[CK] reproduced: K.-S. Chang and O. Khatib, operational-space inertia in O(n m), 2001.

    python -m experiments.chang_khatib2001 [--json] [--plot FOLDER] [--quick]

The paper has one algorithm (table 1), one claim, linear time in n at fixed m, and one
experiment: a humanoid of 24 links with two operational points, in less than 1 ms on a 266 MHz
Pentium II. Times are of this machine, one BLAS thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from dynsys.branch.articulated import TreeArrays
from dynsys.branch.inertia_matrix import inertia_matrix
from dynsys.model import synthetic
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, Frame, KinematicTree
from dynsys.operational import OperationalSpace, operational_space
from dynsys.operational.gather import compiled_state
from dynsys.operational.methods.chang_khatib import plan_recursion
from dynsys.recursive.rnea import rnea
from dynsys.types import Array
from experiments import paper_rows
from experiments.box_task import BoxMotion, put_box_down
from experiments.calibrate import seconds
from experiments.paper_rows import Row, row

__all__ = ["figures", "humanoid24", "linear_fit", "main", "rows", "scaling"]

TITLE = "Chang and Khatib 2001: recursive operational-space inertia"
NOTES = (
    "The paper gives neither joint axes nor masses of its humanoid (figure 2): ours has its 24"
    " one-freedom joints and two hands, with general inertias.",
    "The dense route is the strongest we have: H by compiled loops, LAPACK's Cholesky.",
)
METHODS = ("y_factor", "rjk", "chang_khatib", "pv_osimr", "auto")
HANDS = ("left_hand", "right_hand")


def rows(quick: bool = False) -> list[Row]:
    """All numbers of the paper, beside ours."""
    return [
        *humanoid_rows(quick),
        *complexity_rows(),
        *scaling_rows(quick),
        *points_rows(quick),
        *box_rows(quick),
    ]


# ---- section 4: the humanoid -------------------------------------------------------------


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


def dense_route(arrays: TreeArrays, space: OperationalSpace, q: Array) -> Array:
    """Lambda^-1 = J H^-1 J^T: CRBA by compiled loops, LAPACK's Cholesky, O(n^3)."""
    state = compiled_state(arrays, q)
    J = space.space.jacobian(state)
    L, _ = lapack.dpotrf(inertia_matrix(arrays.tree, state.X), lower=1)
    W, _ = lapack.dtrtrs(L, J.T, lower=1)
    return np.asarray(W.T @ W)


def humanoid_rows(quick: bool) -> list[Row]:
    """n = 24, two operational points: agreement of all methods, and times."""
    robot = humanoid24()
    q, repeats = robot.random_configuration(0), 1 if quick else 5
    exact = operational_space(robot, q, HANDS, "dense").Lambda_inv
    where, scale = "humanoid, two hands", float(np.abs(exact).max())
    out = [
        row("section 4", where, "links n", 24, robot.n_bodies),
        row("section 4", where, "operational points m", 2, len(HANDS)),
    ]
    for method in METHODS:
        found = OperationalSpace(robot, HANDS, method)
        error = float(np.abs(found.at(q).Lambda_inv - exact).max()) / scale
        out.append(row("section 4", f"{where}, {method}", "error against dense", None, error))
    for method in METHODS:
        space = OperationalSpace(robot, HANDS, method)
        value = 1e3 * seconds(partial(space.at, q), repeats)
        paper = "less than 1 (266 MHz Pentium II)" if method == "chang_khatib" else None
        out.append(row("section 4", f"{where}, {method}", "Lambda^-1, ms", paper, value))
    space = OperationalSpace(robot, HANDS, "chang_khatib")
    value = 1e3 * seconds(lambda: space.at(q).Lambda, repeats)
    paper = "less than 1 (266 MHz Pentium II)"
    out.append(row("section 4", f"{where}, chang_khatib", "Lambda, ms", paper, value))
    return out


# ---- section 3.3: complexity -------------------------------------------------------------


def complexity_rows() -> list[Row]:
    """Blocks that step 4 computes: O(n m) on any tree, here at the worst seen of many."""
    worst = 0.0
    for seed in range(20):
        robot = synthetic.random_tree(60, seed, ["revolute"])
        rng = np.random.default_rng(seed)
        for m in (2, 5, 20):
            bodies = sorted(rng.choice(60, m, replace=False).tolist())
            worst = max(worst, len(plan_recursion(robot.parent, bodies).body) / (60 * m))
    where = "random trees, n = 60, m = 2, 5, 20"
    return [row("section 3.3", where, "blocks / (n m), worst", "O(1)", worst)]


class Scaling(NamedTuple):
    """CPU seconds by size for the recursions and for the dense route (its own sizes)."""

    sizes: list[int]
    times: dict[str, list[float]]
    dense_sizes: list[int]
    dense: list[float]


@cache
def scaling(quick: bool) -> Scaling:
    """CPU time of Lambda^-1 of two branches' tips, n = 24 .. 2000 links, m = 2."""
    sizes = [24, 60, 120] if quick else [24, 50, 100, 200, 400, 700, 1000, 1400, 2000]
    repeats = 1 if quick else 5
    times: dict[str, list[float]] = {"chang_khatib": [], "pv_osimr": [], "rjk": []}
    dense = []
    for n in sizes:
        robot, tips = two_branches(n)
        q, arrays = robot.random_configuration(0), TreeArrays(robot)
        for name, taken in times.items():
            method = OperationalSpace(robot, tips, name).method
            run = partial(_lambda_inv, method, arrays, q)
            taken.append(seconds(run, repeats, clock=time.process_time))
        space = OperationalSpace(robot, tips, "chang_khatib")
        run = partial(dense_route, arrays, space, q)
        dense.append(seconds(run, min(repeats, 3), clock=time.process_time))
    return Scaling(sizes, times, sizes, dense)


def _lambda_inv(method: Any, arrays: TreeArrays, q: Array) -> Array:
    found: Array = method.lambda_inv(compiled_state(arrays, q))
    return found


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
    """Seconds per link, exponent of a power law over the upper half, and R^2 of the line."""
    x, y = np.array(sizes, dtype=np.float64), np.array(times)
    slope, start = np.polyfit(x, y, 1)
    rest = y - (slope * x + start)
    half = len(x) // 2
    exponent = np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)[0]
    return float(slope), float(exponent), float(1 - rest.var() / y.var())


def scaling_rows(quick: bool) -> list[Row]:
    """Times over n at m = 2, with linear fits, against the dense route."""
    found = scaling(quick)
    out = []
    for name, times in found.times.items():
        for n, value in zip(found.sizes, times, strict=True):
            out.append(
                row("section 3.3", f"{name}, n = {n}, m = 2", "CPU ms", None, 1e3 * value)
            )
        slope, exponent, fit = linear_fit(found.sizes, times)
        where = f"{name}, n up to {found.sizes[-1]}, m = 2"
        out += [
            row("section 3.3", where, "microseconds per link", None, 1e6 * slope),
            row("section 3.3", where, "exponent of n, upper half", "1", exponent),
            row("section 3.3", where, "R^2 of the linear fit", None, fit),
        ]
    for n, value in zip(found.dense_sizes, found.dense, strict=True):
        out.append(row("section 3.3", f"dense, n = {n}, m = 2", "CPU ms", None, 1e3 * value))
    _, exponent, _ = linear_fit(found.dense_sizes, found.dense)
    ratio = found.dense[-1] / found.times["chang_khatib"][-1]
    last = found.sizes[-1]
    return [
        *out,
        row("section 3.3", "dense", "exponent of n, upper half", "3 for large n", exponent),
        row("section 3.3", f"dense / chang_khatib, n = {last}", "times slower", None, ratio),
    ]


@cache
def points_times(quick: bool) -> dict[str, dict[int, float]]:
    """Seconds over the number of operational bodies, a balanced tree's leaves."""
    levels, counts = (5, (1, 4, 16)) if quick else (9, (1, 2, 4, 8, 16, 32, 64, 128, 256))
    robot = synthetic.balanced_tree(levels)
    q, arrays = robot.random_configuration(0), TreeArrays(robot)
    leaves = list(range(robot.n_bodies // 2, robot.n_bodies))
    out: dict[str, dict[int, float]] = {}
    for name in METHODS:
        out[name] = {}
        for m in counts:
            tips = leaves[:: len(leaves) // m]
            method = OperationalSpace(robot, tips, name).method
            run = partial(_lambda_inv, method, arrays, q)
            out[name][m] = seconds(run, 1 if quick else 3)
    return out


def points_rows(quick: bool) -> list[Row]:
    """Times over m at fixed n."""
    return [
        row("section 3.3", f"{name}, balanced tree, m = {m}", "ms", None, 1e3 * value)
        for name, times in points_times(quick).items()
        for m, value in times.items()
    ]


# ---- figures 5 and 6: a box on the floor -------------------------------------------------


def box_motion(quick: bool) -> BoxMotion:
    """The task, short or as long as its figure needs."""
    return put_box_down(0.5, 5e-3) if quick else put_box_down(2.0, 1e-3)


def box_rows(quick: bool) -> list[Row]:
    """Tracking, decoupling of the posture, and the rate a controller could run at."""
    motion, robot = box_motion(quick), humanoid24()
    q, space = robot.random_configuration(0), OperationalSpace(robot, HANDS, "chang_khatib")
    zero = np.zeros(robot.nv)

    def control() -> None:
        _ = space.at(q).N
        rnea(robot, q, zero, zero)

    where = "two hands put a box down"
    rate = 1 / seconds(control, 1 if quick else 5)
    return [
        row("figure 6", where, "largest error of height, m", None, float(motion.error.max())),
        row("figure 5", where, "posture moves, rad", None, float(motion.posture.max())),
        row("figure 5", where, "hands by posture torque, m/s^2", "0", motion.coupling),
        row("section 4", "Lambda, Jbar, N, C, from Python", "servo rate, Hz", "300", rate),
    ]


def figures(folder: Path, quick: bool = False) -> list[Path]:
    """Write the tree, its recursions and the times as PNG files and return their paths."""
    from experiments import chang_khatib2001_figures

    return chang_khatib2001_figures.write(folder, quick)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--quick", action="store_true")
    options, rest = parser.parse_known_args(argv)
    quick = bool(options.quick)
    return paper_rows.main(
        TITLE, partial(rows, quick), partial(figures, quick=quick), NOTES, rest
    )


if __name__ == "__main__":
    if "OPENBLAS_NUM_THREADS" not in os.environ:  # BLAS reads it when it is loaded
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        module = "experiments.chang_khatib2001"
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
    sys.exit(main())
