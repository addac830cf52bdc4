"""Inverse dynamics through the linear system."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import WrenchInput
from dynsys.types import Array, ArrayLike
from problems.problem import AbstractDynamics, Backend
from problems.solution import Solution

__all__ = ["InverseDynamics"]


@final
@dataclass(frozen=True, eq=False)
class InverseDynamics(AbstractDynamics):
    """Torques that give known accelerations: laws plus qdd_i = y, f^x_i = y ([NORI] eq. 9).

    Examples
    --------
    >>> import dynsys, problems
    >>> robot = dynsys.synthetic.chain(3)
    >>> problem = problems.InverseDynamics(robot)
    >>> problem.solve(robot.neutral(), [0, 0, 0], [1, 0, 0]).torque.shape
    (3,)
    """

    robot: KinematicTree
    backend: Backend = "auto"
    given: ClassVar[str] = "qdd"
    answers: ClassVar[tuple[str, ...]] = ("torque",)

    @property
    def accelerated_joints(self) -> Set[int]:
        return frozenset(range(self.robot.n_bodies))

    def solve(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        out: Array | None = None,
    ) -> Solution:
        """Torques, accelerations and wrenches at one state; compiles on first use.

        Parameters
        ----------
        q, qd, qdd : position (nq,), velocity (nv,), acceleration (nv,).
        f_ext : external wrenches: (n_bodies, 6) in body coordinates, or a mapping from body or
            frame names to wrenches (6,), each in the coordinates of what names it.
        out : torque (nv,) to write into.

        Raises
        ------
        StateError
            if a vector has a wrong length or a value that is not finite.
        """
        if f_ext is None:
            torque = np.empty(self.robot.nv) if out is None else out
            if self._fast(q, qd, qdd, torque):
                state = (q.tobytes(), qd.tobytes(), None)  # type: ignore[union-attr]
                return Solution(self, state, qdd.tobytes(), torque, None)  # type: ignore[union-attr]
        return self._solve(q, qd, qdd, f_ext, None if out is None else (out,))

    def solve_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        qdd: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        threads: int = 1,
        out: Array | None = None,
    ) -> Solution:
        """Solve N states: q (N, nq), qd and qdd (N, nv); answers have a leading axis N.

        ``f_ext`` is as in :meth:`solve` for all states, or has a leading axis N itself. Rows
        are shared among ``threads``.
        """
        return self._solve_batch(q, qd, qdd, f_ext, threads, None if out is None else (out,))
