"""Runs behind ``experiments.drumwright2012``: executed operations, errors, times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.linalg import lapack

from dynsys.jit import Loop
from dynsys.loops import drumwright
from dynsys.loops.drumwright import Freedoms, gather_impulses, update_velocities
from dynsys.loops.tree_state import TreeState
from dynsys.model import synthetic
from dynsys.model.expanded import depths, expanded_parent
from dynsys.model.tree import KinematicTree
from dynsys.recursive.sparse_factors import ltl_in_situ
from dynsys.types import Array, IntArray, ScalarArray
from experiments.counting import OperationCount, Tally
from experiments.drumwright2012 import printed
from experiments.drumwright2012.counts import inverse_count
from experiments.peers.timing import seconds

__all__ = [
    "FOUR",
    "ONE",
    "TWO",
    "branched",
    "crossing",
    "executed_counts",
    "inverse_times",
    "rates",
    "relative_error",
    "thread_times",
]

ONE, TWO, FOUR = (f"Theta(n^2), {k} thread{'s' * (k > 1)}" for k in (1, 2, 4))


def solve_globally(
    robot: KinematicTree, q: Array, scalars: Callable[[Any], ScalarArray] = np.array
) -> tuple[ScalarArray, ScalarArray, ScalarArray]:
    """Axes, gains and D in the global frame, as [DRUM] computes them."""
    links = printed.links_of(robot, q, scalars)
    s = np.array([printed.axis(link) for link in links])
    inertia = np.array([printed.isolated(link).matrix(scalars) for link in links])
    gain, D = np.empty_like(s), scalars(robot.armature)
    articulate_globally(robot.parent, inertia, s, gain, D)
    return s, gain, D


@Loop
def articulate_globally(
    parent: IntArray, inertia: ScalarArray, s: ScalarArray, gain: ScalarArray, D: ScalarArray
) -> None:
    """Fill gain (n, 6) and D (n,) from isolated inertias (n, 6, 6), all in one frame.

    Only the upper triangle of the symmetric inertias is read and written. D starts as armature.
    """
    for k in range(len(parent) - 1, -1, -1):
        U = gain[k]
        for r in range(6):
            U[r] = inertia[k, 0, r] * s[k, 0]
            for c in range(1, 6):
                U[r] = U[r] + inertia[k, min(c, r), max(c, r)] * s[k, c]
        for r in range(6):
            D[k] = D[k] + s[k, r] * U[r]
        for r in range(6):
            scaled = U[r] / D[k]
            for c in range(r, 6):
                if parent[k] >= 0:
                    p = parent[k]
                    inertia[p, r, c] = inertia[p, r, c] + inertia[k, r, c] - scaled * U[c]
            U[r] = scaled


def executed_counts(n: int) -> tuple[dict[str, OperationCount], float]:
    """Operations executed for M^-1 of a chain, by step, and the relative error of the result.

    Columns go one by one, each from its own freedom on; rows of one triangle are computed.
    """
    robot = synthetic.chain(n)
    q, parent = robot.random_configuration(0), np.array(robot.parent)
    tally = Tally()
    s, gain, D = solve_globally(robot, q, tally.scalars)
    inverse = np.zeros((n, n))
    on_plain_zeros = OperationCount(0, 6 * (n - 1))  # Y_parent + Y_k = 0 + 0: no tally sees it
    given = printed.executed(n)["table 1"]
    steps = {step: given[step] for step in ("spatial axes", "isolated inertias")}
    steps |= {
        "articulated inertias": tally.count - sum(steps.values(), OperationCount()),
        "impulse propagation": on_plain_zeros,
        "velocity updates": OperationCount(),
    }
    for k in range(n):
        R = np.zeros((n, 1), dtype=object)
        R[k] = 1.0
        Y, v = np.zeros((n, 6, 1), dtype=object), np.zeros((k + 1, 6, 1), dtype=object)
        x, before = np.zeros((k + 1, 1), dtype=object), tally.count
        gather_impulses(parent, s, gain, R, Y, np.arange(n) == k, 0)
        between = tally.count
        update_velocities(parent, s, gain, D, R, v, x, 0)
        steps["impulse propagation"] += between - before
        steps["velocity updates"] += tally.count - between
        inverse[: k + 1, k] = inverse[k, : k + 1] = x[:, 0].astype(np.float64)
    H = inertia_matrix_of(robot, q)
    return steps, relative_error(inverse, H)


def inertia_matrix_of(robot: KinematicTree, q: Array) -> Array:
    """Joint-space inertia matrix by the compiled loop."""
    return TreeState(robot, q).H


def relative_error(inverse: Array, H: Array) -> float:
    """Largest element of (inverse H - 1), relative to the sizes of its products."""
    size = np.abs(inverse) @ np.abs(H)
    return float(np.max(np.abs(inverse @ H - np.eye(len(H))) / size))


def frame_errors(n: int) -> dict[str, float]:
    """Error of M^-1 of a chain, inertias gathered in the global frame or in body frames."""
    robot = synthetic.chain(n)
    q = robot.random_configuration(0)
    state = TreeState(robot, q)
    H = state.H
    s, gain, D = solve_globally(robot, q)
    parent = state.tree.freedom_parent
    return {
        "global frame": relative_error(
            drumwright.inverse(Freedoms(parent, s, gain, D, np.zeros(3)), base=False), H
        ),
        "body frames": relative_error(drumwright.inverse(Freedoms.at(state), base=False), H),
        "LAPACK": relative_error(_lapack_inverse(H.copy()), H),  # in its place
    }


# ---- times -------------------------------------------------------------------------------


def branched(n: int, seed: int = 0) -> KinematicTree:
    """Chain of expected depth n/2 ([DRUM] section 6.1).

    A link is added, with probability 1/2, as sibling of another one instead of at the end of
    the chain; no link has more than two children.
    """
    rng, parents, tip = np.random.default_rng(seed), [-1], 0
    single: list[int] = []  # links with one child
    for i in range(1, n):
        if single and rng.random() < 0.5:
            parents.append(single.pop(int(rng.integers(len(single)))))
        else:
            parents.append(tip)
            single.append(tip)
            tip = i
    links = zip(synthetic.chain(n).bodies, parents, strict=True)
    return KinematicTree(f"branched{n}", [replace(body, parent=p) for body, p in links])


def _lapack_factor(H: Array) -> Array:
    """Cholesky factor in the place of H, which is symmetric: its transpose is no copy."""
    L, _ = lapack.dpotrf(H.T, lower=1, clean=0, overwrite_a=1)
    return np.asarray(L)


def _lapack_inverse(H: Array) -> Array:
    lower, _ = lapack.dpotri(_lapack_factor(H), lower=1, overwrite_c=1)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


@cache
def inverse_times(n: int, passes: int) -> dict[str, float]:
    """CPU seconds per state, kinematics included, for the curves of figure 2 and one more."""
    robot, tree = synthetic.chain(n), branched(n)
    q = robot.random_configuration(0)
    parent, branches = expanded_parent(robot), expanded_parent(tree)

    def form(of: KinematicTree) -> Array:
        return TreeState(of, q).H

    runs: dict[str, Callable[[], Any]] = {
        "LAPACK Cholesky": lambda: _lapack_factor(form(robot)),
        "LTL, serial": lambda: ltl_in_situ(form(robot), parent),
        "LTL, branched": lambda: ltl_in_situ(form(tree), branches),
        "Theta(n^2) inverse": lambda: drumwright.inverse(
            Freedoms.at(TreeState(robot, q)), base=False
        ),
        "LAPACK inverse": lambda: _lapack_inverse(form(robot)),
    }
    return seconds(runs, passes)


@cache
def rates(n: int, passes: int) -> tuple[float, float]:
    """Multiplications per second of LAPACK's factorisation, and of both passes of the inverse.

    Forming H, and what the passes start from, is taken off.
    """
    robot = synthetic.chain(n)
    q = robot.random_configuration(0)
    taken = seconds(
        {
            "formed": lambda: TreeState(robot, q).H,
            "factor": lambda: _lapack_factor(TreeState(robot, q).H),
            "prepared": lambda: Freedoms.at(TreeState(robot, q)),
            "inverse": lambda: drumwright.inverse(Freedoms.at(TreeState(robot, q)), base=False),
        },
        passes,
    )
    both = (inverse_count(n)[step] for step in ("impulse propagation", "velocity updates"))
    multiplied = sum(both, OperationCount()).divisions_as_multiplications.multiplications
    factor = n**3 / 6 / (taken["factor"] - taken["formed"])
    return factor, multiplied / (taken["inverse"] - taken["prepared"])


@cache
def thread_times(n: int, passes: int) -> dict[str, float]:
    """Seconds on the wall per state for the curves of figure 3, a chain."""
    robot = synthetic.chain(n)
    q = robot.random_configuration(0)

    def invert(threads: int) -> Array:
        return drumwright.inverse(Freedoms.at(TreeState(robot, q)), False, threads)

    def factor() -> Array:
        return _lapack_factor(TreeState(robot, q).H)

    runs: dict[str, Callable[[], Any]] = {
        "LAPACK Cholesky": factor,
        ONE: partial(invert, 1),
        TWO: partial(invert, 2),
        FOUR: partial(invert, 4),
    }
    return seconds(runs, passes, wall=True)


def crossing(sizes: list[int], slow: list[float], fast: list[float]) -> float | None:
    """Size from which ``fast`` stays below ``slow``; None: within these sizes it does not.

    The split of the sizes that the log ratios contradict least, so that one outlier does not
    move it; there interpolated between the two sizes, both logarithmic.
    """
    ratio = np.log(np.array(fast) / np.array(slow))
    contradiction = [
        np.maximum(-ratio[:k], 0).sum() + np.maximum(ratio[k:], 0).sum()
        for k in range(len(sizes) + 1)
    ]
    k = int(np.argmin(contradiction))
    if k == 0:
        return float(sizes[0])
    if k == len(sizes):
        return None
    before, after = max(ratio[k - 1], 0.0), min(ratio[k], 0.0)
    part = before / (before - after) if before > after else 0.5
    return float(sizes[k - 1] * (sizes[k] / sizes[k - 1]) ** part)


def mean_depth(robot: KinematicTree) -> float:
    """Largest depth over number of joints."""
    return float(depths(robot.parent).max() / robot.n_bodies)
