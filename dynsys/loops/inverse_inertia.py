"""dynsys.inverse_inertia: M^-1, and M^-1 R without forming it, by any method.

| method     | how                                                 | cost of M^-1 R, m columns |
|------------|-----------------------------------------------------|---------------------------|
| drumwright | articulated bodies, column by column ([DRUM])       | n m                       |
| ltdl       | CRBA, sparse factors H = L^T D L and solves ([BIS]) | n d^2 + n d m             |
| dense      | CRBA, LAPACK's Cholesky factorisation and solves    | n^3 + n^2 m               |
| auto       | the one expected to be fastest                      |                           |

d is the depth of the tree. Robots with coupled (mimic) joints have no tree sparsity: "dense".
What a method is expected to take is a sum of counts times measured seconds per count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, NamedTuple, final, get_args

import numpy as np
from scipy.linalg import lapack

from dynsys.errors import ModelError, SingularSystemError, StateError, nearest_name
from dynsys.loops import drumwright
from dynsys.loops.drumwright import Freedoms
from dynsys.loops.flat import flat_robot
from dynsys.loops.tree_state import TreeState
from dynsys.model.expanded import expanded_parent
from dynsys.model.tree import KinematicTree
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.sparse_factors import (
    as_columns,
    solve_L_in_situ,
    solve_LT_in_situ,
    tree_sums,
)
from dynsys.types import Array, ArrayLike, float_array

__all__ = [
    "UNITS",
    "InverseInertia",
    "Sizes",
    "cheapest",
    "choose",
    "features",
    "inverse_inertia",
    "inverse_inertia_times",
]

Method = Literal["auto", "drumwright", "ltdl", "dense"]


def inverse_inertia(
    robot: KinematicTree, q: ArrayLike, method: Method = "auto", threads: int = 1
) -> Array:
    """M^-1 (nv, nv), the inverse of the joint-space inertia matrix at q.

    Parameters
    ----------
    robot : the robot.
    q : position (nq,).
    method : "drumwright", "ltdl", "dense", or "auto" for the one expected to be fastest.
    threads : over columns, for "drumwright".

    Raises
    ------
    StateError
        if q has a wrong length or a value that is not finite.
    ModelError
        for an unknown method, or a sparse one and a robot with coupled joints.
    SingularSystemError
        naming a joint that moves no inertia.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> from dynsys.loops.inverse_inertia import inverse_inertia
    >>> robot = dynsys.synthetic.humanoid30()
    >>> q = robot.random_configuration(0)
    >>> bool(np.allclose(inverse_inertia(robot, q) @ dynsys.crba(robot, q), np.eye(30)))
    True
    """
    return InverseInertia(robot, method, threads).matrix(q)


def inverse_inertia_times(
    robot: KinematicTree, q: ArrayLike, R: ArrayLike, method: Method = "auto", threads: int = 1
) -> Array:
    """M^-1 R for R (nv,) or (nv, m): velocity changes by joint impulses, without M^-1.

    Parameters and errors are those of :func:`inverse_inertia`.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> from dynsys.loops.inverse_inertia import inverse_inertia_times
    >>> robot = dynsys.synthetic.chain(3)
    >>> q, impulse = robot.neutral(), np.array([0.0, 0.0, 1.0])
    >>> step = inverse_inertia_times(robot, q, impulse)
    >>> (dynsys.crba(robot, q) @ step).round(9).tolist()
    [0.0, 0.0, 1.0]
    """
    return InverseInertia(robot, method, threads).times(q, R)


@final
class InverseInertia:
    """M^-1 of one robot, its arrays made once, at any q."""

    def __init__(self, robot: KinematicTree, method: Method = "auto", threads: int = 1) -> None:
        known = get_args(Method)
        if method not in known:
            raise ModelError(
                f"no method {method!r} for the inverse inertia{nearest_name(method, known)};"
                f" there are: {', '.join(known)}"
            )
        if threads < 1:
            raise ModelError(f"threads must be a whole number >= 1, got {threads!r}")
        self.robot, self.method, self.threads = robot, method, threads
        dense = robot.is_coupled and method in ("auto", "dense")
        self._tree = None if dense else flat_robot(robot).tree
        self._base = self._tree is not None and drumwright.floating_base(self._tree)

    @cached_property
    def _sizes(self) -> Sizes:
        return Sizes.of(self.robot)

    def matrix(self, q: ArrayLike) -> Array:
        """M^-1 (nv, nv) at q (nq,)."""
        state, n = TreeState(self.robot, self.robot.check_q(q)), self.robot.nv
        method = self._chosen(n, inverse=True)
        if method == "drumwright":
            return drumwright.inverse(Freedoms.at(state), self._base, self.threads)
        if method == "ltdl":
            return self._by_ltdl(state, np.eye(n))
        return self._densely(state, lambda L: _symmetric(lapack.dpotri(L, lower=1)[0]))

    def times(self, q: ArrayLike, R: ArrayLike) -> Array:
        """M^-1 R (nv,) or (nv, m) at q (nq,)."""
        state = TreeState(self.robot, self.robot.check_q(q))
        try:
            given = float_array(R)
        except (TypeError, ValueError) as error:
            raise StateError(f"R is not numeric: {error}") from None
        columns, shape = as_columns(given, self.robot.nv, "R")
        B = columns.copy()
        if not np.isfinite(B).all():
            i, j = (int(k) for k in np.argwhere(~np.isfinite(B))[0])
            raise StateError(f"R[{i}, {j}] is {B[i, j]}: finite numbers are wanted")
        method = self._chosen(B.shape[1], inverse=False)
        if method == "drumwright":
            freedoms = Freedoms.at(state)
            x = drumwright.multiply_inverse(freedoms, B, self._base, self.threads)
        elif method == "ltdl":
            x = self._by_ltdl(state, B)
        else:
            x = self._densely(state, lambda L: lapack.dpotrs(L, B, lower=1)[0])
        return x.reshape(shape)

    def _chosen(self, columns: int, *, inverse: bool) -> str:
        if self.robot.nv == 0:
            return "ltdl"  # LAPACK takes no matrix without rows
        if self.method != "auto":
            return self.method
        if self._tree is None:
            return "dense"
        return choose(self._sizes, columns, inverse=inverse)

    def _by_ltdl(self, state: TreeState, B: Array) -> Array:
        """Replace B (nv, m) by H^-1 B with the factors H = L^T D L."""
        (L, diag), parent = state.ltdl, state.tree.freedom_parent
        solve_LT_in_situ(L, parent, B, True)
        B /= diag[:, None]
        solve_L_in_situ(L, parent, B, True)
        return B

    def _densely(self, state: TreeState, finish: Callable[[Array], Array]) -> Array:
        coupled = self._tree is None
        H = np.asarray(crba_scalars(self.robot, state.q)) if coupled else state.H
        L, failed = lapack.dpotrf(H, lower=1)
        if failed:
            raise SingularSystemError(
                f"robot {self.robot.name!r}: its inertia matrix is not positive definite here;"
                " some joint moves no inertia: give its bodies mass or the joint armature"
            )
        return np.ascontiguousarray(finish(L))


def _symmetric(lower: Array) -> Array:
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


# ---- what M^-1 and M^-1 R are expected to take -------------------------------------------


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
"""Seconds per unit of :func:`features`, fitted by ``python -m experiments.calibrate`` on one
core of a Zen 3 with OpenBLAS. Only ratios matter, and only near a crossing: there the methods
are equally good and a wrong choice costs little."""


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
    return cheapest(UNITS, features(sizes, columns, inverse=inverse))


def cheapest(units: dict[str, dict[str, float]], counts: dict[str, dict[str, float]]) -> str:
    """Name of the method whose counts, each times the seconds of its unit, sum to the least."""
    seconds = {
        method: sum(units[method][unit] * count for unit, count in of_method.items())
        for method, of_method in counts.items()
    }
    return min(seconds, key=seconds.__getitem__)
