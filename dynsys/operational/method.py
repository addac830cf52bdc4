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
from dynsys.loops.flat import flat_robot
from dynsys.loops.tree_state import TreeState
from dynsys.model.tree import KinematicTree
from dynsys.operational import methods
from dynsys.operational.sparse_jacobian import (
    inertia_weighted_inverse,
    null_space_projection,
    yd_factors,
)
from dynsys.operational.tasks import TaskSpace
from dynsys.types import Array

__all__ = ["AbstractMethod", "make_method", "method_names"]


class AbstractMethod(ABC):
    """One way to compute Lambda^-1; made once per robot and task space, then used at any q."""

    def __init__(self, robot: KinematicTree, space: TaskSpace) -> None:
        self.robot = robot
        self.space = space
        self.tree = flat_robot(robot).tree

    @abstractmethod
    def lambda_inv(self, state: TreeState) -> Array:
        """Lambda^-1 (m, m)."""

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
