"""How a way to compute Lambda^-1 looks from outside, and how one is found by name.

Every module of :mod:`dynsys.operational.methods` is a method: its name is the module's, and it
defines a class ``Method``. To add one, add a module; nothing else changes.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from importlib import import_module

import numpy as np

from dynsys.errors import ModelError, nearest_name
from dynsys.loops.drumwright import TreeArrays
from dynsys.model.tree import KinematicTree
from dynsys.operational import methods
from dynsys.operational.tasks import TaskSpace, TreeState
from dynsys.operational.y_factor import Supports, mul_JT, yd_factors
from dynsys.recursive.sparse_factors import solve_L
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = [
    "AbstractMethod",
    "inertia_weighted_inverse",
    "make_method",
    "method_names",
    "null_space_projection",
]


class AbstractMethod(ABC):
    """One way to compute Lambda^-1; made once per robot and task space, then used at any q."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        self.robot = robot
        self.space = space
        self.arrays = TreeArrays(robot)
        self.tree = self.arrays.tree

    @abstractmethod
    def lambda_inv(self, state: TreeState) -> Array:
        """Lambda^-1 (m, m)."""

    def state(self, q: Array) -> TreeState:
        """State of the robot at q (nq,), for the other calls."""
        return TreeState(self.robot, q, self.arrays)

    def jacobian(self, state: TreeState) -> Array:
        """Task Jacobian J (m, nv)."""
        return self.space.jacobian(state)

    def jbar(self, state: TreeState, J: Array, Lambda: Array) -> Array:
        """H^-1 J^T Lambda (nv, m) ([OSI] eq. 33)."""
        (L, diag), supports = state.ltdl, self.space.supports
        parent = self.tree.freedom_parent
        _, YD = yd_factors(J, L, diag, supports, parent)
        return inertia_weighted_inverse(YD, L, Lambda, supports, parent, unit=True)

    def null_space(self, J: Array, Jbar: Array) -> Array:
        """1 - Jbar J (nv, nv) ([OSI] eq. 10)."""
        return np.asarray(null_space_projection(J, Jbar, self.space.supports))


def method_names() -> tuple[str, ...]:
    """Names of all methods there are."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(methods.__path__)))


def make_method(name: str, robot: KinematicTree, space: TaskSpace) -> AbstractMethod:
    """Return the named method, prepared for a robot and its task space.

    Raises
    ------
    ModelError
        if there is no method of that name.
    """
    known = method_names()
    if name not in known:
        hint = nearest_name(name, known)
        raise ModelError(
            f"no operational-space method {name!r}{hint}; there are: {', '.join(known)}"
        )
    module = import_module(f"{methods.__name__}.{name}")
    method: AbstractMethod = module.Method(robot, space)
    return method


# ----------------------------------------------------------------------
# Jbar and N from the sparse factors ([OSI] section 8).
#
# Jbar = Ld^-1 (YD^T Lambda)    eq. 33      Jbar = L^-1 (Y^T Lambda)    eq. 32
# N = 1 - Jbar J                eq. 10


def inertia_weighted_inverse(
    Y: ArrayLike,
    L: ArrayLike,
    Lambda: ArrayLike,
    supports: Supports,
    parent: IntArray,
    *,
    unit: bool,
) -> ScalarArray:
    """Jbar (n, m): eq. 33 for YD and the unit factor of LTDL, eq. 32 for Y and that of LTL."""
    return solve_L(L, parent, mul_JT(Y, supports, Lambda), unit=unit)


def null_space_projection(J: ArrayLike, Jbar: ArrayLike, supports: Supports) -> ScalarArray:
    """N (n, n) = 1 - Jbar J; its transpose projects torques onto those that do not move xdd."""
    N: ScalarArray = -mul_JT(J, supports, np.asarray(Jbar).T).T
    for k in range(len(N)):
        N[k, k] = 1 + N[k, k]
    return N
