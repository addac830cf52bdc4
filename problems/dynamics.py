"""Forward dynamics through the linear system."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import WrenchInput
from dynsys.types import Array, ArrayLike
from problems.problem import AbstractDynamics, Backend
from problems.solution import Solution

__all__ = [
    "ForwardDynamics",
    "HybridDynamics",
    "InverseDynamics",
]


@final
@dataclass(frozen=True, eq=False)
class ForwardDynamics(AbstractDynamics):
    """Accelerations under known torques: laws plus tau_i = y, f^x_i = y ([NORI] eq. 15).

    Examples
    --------
    >>> import dynsys, problems
    >>> robot = dynsys.synthetic.chain(3)
    >>> problem = problems.ForwardDynamics(robot)
    >>> problem.solve(robot.neutral(), [0, 0, 0], [1, 0, 0]).qdd.shape
    (3,)
    """

    robot: KinematicTree
    backend: Backend = "auto"
    given: ClassVar[str] = "torque"
    answers: ClassVar[tuple[str, ...]] = ("qdd",)

    @property
    def accelerated_joints(self) -> Set[int]:
        return frozenset()

    def solve(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        torque: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        out: Array | None = None,
    ) -> Solution:
        """Torques, accelerations and wrenches at one state; compiles on first use.

        Parameters
        ----------
        q, qd, torque : position (nq,), velocity (nv,), joint torque (nv,).
        f_ext : external wrenches: (n_bodies, 6) in body coordinates, or a mapping from body or
            frame names to wrenches (6,), each in the coordinates of what names it.
        out : qdd (nv,) to write into.

        Raises
        ------
        StateError
            if a vector has a wrong length or a value that is not finite.
        SingularSystemError
            naming the joints whose acceleration the torques do not determine.
        """
        if f_ext is None:
            qdd = np.empty(self.robot.nv) if out is None else out
            if self._fast(q, qd, torque, qdd):
                state = (q.tobytes(), qd.tobytes(), None)  # type: ignore[union-attr]
                return Solution(self, state, torque.tobytes(), None, qdd)  # type: ignore[union-attr]
        return self._solve(q, qd, torque, f_ext, None if out is None else (out,))

    def solve_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        torque: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        threads: int = 1,
        out: Array | None = None,
    ) -> Solution:
        """Solve N states: q (N, nq), qd and torque (N, nv); answers have a leading axis N.

        ``f_ext`` is as in :meth:`solve` for all states, or has a leading axis N itself. Rows
        are shared among ``threads``.
        """
        return self._solve_batch(q, qd, torque, f_ext, threads, None if out is None else (out,))


# ----------------------------------------------------------------------
# Inverse dynamics through the linear system.


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


# ----------------------------------------------------------------------
# Hybrid dynamics through the linear system: some accelerations known, the other torques.


@final
@dataclass(frozen=True, eq=False)
class HybridDynamics(AbstractDynamics):
    """Joints with known acceleration, the others with known torque ([RBDA] section 9.2).

    Parameters
    ----------
    robot : the robot.
    known_acceleration : names of the joints whose acceleration is known (all freedoms of each);
        of all other joints the torque is known. All joints named: inverse dynamics; none:
        forward dynamics. A floating base's joint is called ``root``.

    Raises
    ------
    ModelError
        if a name is no joint of the robot, or one that follows another (mimic).

    Examples
    --------
    >>> import dynsys, problems
    >>> robot = dynsys.synthetic.chain(3)
    >>> problem = problems.HybridDynamics(robot, known_acceleration=robot.joint_names[:1])
    >>> sol = problem.solve(robot.neutral(), [0, 0, 0], [1.0, 0.0, 0.0])  # qdd_1, tau_2, tau_3
    >>> sol.qdd[0].item()
    1.0
    """

    robot: KinematicTree
    given: ClassVar[str] = "known"
    answers: ClassVar[tuple[str, ...]] = ("torque", "qdd")
    known_acceleration: Sequence[str]
    backend: Backend = "auto"

    def __post_init__(self) -> None:
        names = self.known_acceleration
        if isinstance(names, str):
            raise ModelError(f"known_acceleration must list joint names, got {names!r}")
        object.__setattr__(self, "known_acceleration", tuple(names))
        for name in self.known_acceleration:
            coupling = self.robot.bodies[self.robot.joint_index(name)].coupling
            if coupling is not None:
                leader = self.robot.joint_names[coupling.leader]
                raise ModelError(
                    f"robot {self.robot.name!r}: joint {name!r} follows joint {leader!r} and"
                    f" has no acceleration of its own; name {leader!r}"
                )

    @cached_property
    def accelerated_joints(self) -> Set[int]:
        return frozenset(self.robot.joint_index(name) for name in self.known_acceleration)

    def solve(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        known: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        out: tuple[Array, Array] | None = None,
    ) -> Solution:
        """Torques, accelerations and wrenches at one state; compiles on first use.

        Parameters
        ----------
        q, qd : position (nq,), velocity (nv,).
        known : (nv,), each entry what is known of that freedom: its acceleration if its joint
            is one of ``known_acceleration``, else its torque.
        f_ext : external wrenches: (n_bodies, 6) in body coordinates, or a mapping from body or
            frame names to wrenches (6,), each in the coordinates of what names it.
        out : torque and qdd (nv,) each to write into.

        Raises
        ------
        StateError
            if a vector has a wrong length or a value that is not finite.
        SingularSystemError
            naming the joints whose acceleration is not determined.
        """
        if f_ext is None:
            nv = self.robot.nv
            answers = (np.empty(nv), np.empty(nv)) if out is None else out
            if self._fast(q, qd, known, *answers):
                state = (q.tobytes(), qd.tobytes(), None)  # type: ignore[union-attr]
                return Solution(self, state, b"", *answers)
        return self._solve(q, qd, known, f_ext, out)

    def solve_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        known: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        threads: int = 1,
        out: tuple[Array, Array] | None = None,
    ) -> Solution:
        """Solve N states: q (N, nq), qd and known (N, nv); answers have a leading axis N.

        ``f_ext`` is as in :meth:`solve` for all states, or has a leading axis N itself. Rows
        are shared among ``threads``.
        """
        return self._solve_batch(q, qd, known, f_ext, threads, out)
