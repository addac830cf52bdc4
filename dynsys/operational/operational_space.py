"""dynsys.operational_space: Lambda^-1 and what follows from it, by any method.

Lambda^-1 = J H^-1 J^T      Jbar = H^-1 J^T Lambda      N = 1 - Jbar J      [OSI] eq. 7, 9, 10
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from dynsys.errors import SingularSystemError
from dynsys.loops.tree_state import TreeState
from dynsys.model.tree import KinematicTree
from dynsys.operational.method import AbstractMethod, make_method
from dynsys.operational.tasks import Task, TaskSpace, as_tasks
from dynsys.types import Array, ArrayLike

__all__ = ["OperationalInertia", "OperationalSpace", "operational_space"]

SMALLEST = 1e-13
"""Eigenvalue of Lambda^-1, its diagonal scaled to ones, below which it has no inverse."""


def operational_space(
    robot: KinematicTree, q: ArrayLike, bodies: Task | Sequence[Task], method: str = "y_factor"
) -> OperationalInertia:
    """Operational-space inertia of some bodies of a robot at q.

    Parameters
    ----------
    robot : the robot.
    q : position (nq,).
    bodies : what the operational coordinates are, in order: names (or numbers) of bodies and
        frames, six coordinates each, in their own frame and angular first; or tasks:
        ``BodyMotion``, ``RelativeMotion(a, b)``, ``CentreOfMass()``.
    method : all give the same numbers; which is fastest depends on n freedoms, depth d of the
        tree and m operational bodies:

        - "y_factor" ([OSI]): O(n d^2 + m d^2 + m^2 d). Robots of up to a hundred or so
          freedoms, and larger ones with short branches. Its factors also serve Jbar and N.
        - "chang_khatib" ([CK]): O(n m). Long chains with few operational bodies.
        - "pv_osimr" (PV-OSIMr): O(n + m^2). Long chains with any number of them.
        - "auto": one of these three, whichever is expected to be fastest here by measured
          costs ("dense" with coupled joints). Robots whose size you do not know.
        - "rjk" ([ROD], [OSI] appendix B): O(n + m^2 d). For comparison; never the fastest.
        - "dense": J H^-1 J^T with plain matrices, O(n^3). The reference, and the only one that
          takes coupled (mimic) joints.

        Modules put into ``dynsys.operational.methods`` are found by name, too. For one robot
        and fixed bodies, thousands of times per second, machine code is faster than any:
        ``dynsys.specialise(robot, "operational_space_inverse", bodies=[...])``.

    Returns
    -------
    Lambda_inv (m, m) and, computed when asked for, Lambda, J, Jbar and N.
    For many q make an :class:`OperationalSpace` once and call its ``at(q)``.

    Raises
    ------
    StateError
        if q has a wrong length or a value that is not finite.
    ModelError
        for an unknown body or method, or a robot with coupled joints (only "dense" takes them).

    Examples
    --------
    >>> import dynsys
    >>> from dynsys.operational import operational_space
    >>> robot = dynsys.synthetic.humanoid30()
    >>> x = operational_space(robot, robot.neutral(), ["left_leg_6", "right_arm_6"])
    >>> x.Lambda_inv.shape, x.Jbar.shape, x.N.shape
    ((12, 12), (30, 12), (30, 30))
    """
    return OperationalSpace(robot, bodies, method).at(q)


@final
class OperationalSpace:
    """An operational space of one robot, analysed once; ``at(q)`` gives its inertia."""

    def __init__(
        self, robot: KinematicTree, bodies: Task | Sequence[Task], method: str = "y_factor"
    ) -> None:
        self.robot = robot
        self.space = TaskSpace(robot, as_tasks(bodies))
        self.method = make_method(method, robot, self.space)

    def at(self, q: ArrayLike) -> OperationalInertia:
        """Operational-space inertia at q (nq,)."""
        return OperationalInertia(self.method, TreeState(self.robot, self.robot.check_q(q)))


@final
class OperationalInertia:
    """Lambda_inv (m, m) at one q; Lambda, J, Jbar, N are computed when first asked for."""

    def __init__(self, method: AbstractMethod, state: TreeState) -> None:
        self._method, self._state = method, state
        self.Lambda_inv: Array = method.lambda_inv(state)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every operational coordinate."""
        return self._method.space.names

    @cached_property
    def J(self) -> Array:
        """Task Jacobian (m, nv): xd = J qd."""
        return self._method.jacobian(self._state)

    @cached_property
    def Lambda(self) -> Array:
        """Operational-space inertia (m, m).

        Raises
        ------
        SingularSystemError
            if Lambda_inv has no inverse, naming the coordinates that cannot move freely.
        """
        diagonal = np.diagonal(self.Lambda_inv)
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(self.Lambda_inv / np.outer(scale, scale))
        if values[0] <= SMALLEST * len(values):
            raise SingularSystemError(self._immobile(np.abs(vectors[:, 0])))
        return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))

    @cached_property
    def Jbar(self) -> Array:
        """Dynamically consistent inverse of J (nv, m): J Jbar = 1 ([OSI] eq. 9)."""
        return self._method.jbar(self._state, self.J, self.Lambda)

    @cached_property
    def N(self) -> Array:
        """Null-space projection (nv, nv): torques N^T t0 move no coordinate ([OSI] eq. 10)."""
        return self._method.null_space(self.J, self.Jbar)

    def _immobile(self, direction: Array) -> str:
        largest = np.argsort(-direction, kind="stable")[:3]
        names = [self.names[k] for k in largest if direction[k] > 0.1]
        return (
            f"robot {self._state.robot.name!r}: Lambda_inv ({len(self.names)} coordinates,"
            f" {self._state.robot.nv} freedoms) is singular here, it has no Lambda; no torque"
            f" accelerates some combination, mainly of {', '.join(names)}: leave one of these"
            " out, or move away from the singular configuration"
        )
