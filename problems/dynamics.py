"""Inverse, forward and hybrid dynamics: one linear system, different quantities known.

    D(q) d + b(q, qd) = 0,      d = accelerations, wrenches, torques and qdd of the robot

The laws of motion (dynsys.system.laws) leave open the external wrench of each body, and
qdd or torque of each joint. Dynamics knows all wrenches and, joint by joint, qdd or torque:
rows "unknown = what is given" make D square. The three problems differ in nothing else. What
they share (problems.problem): ``plan``, the order of elimination (dynsys.plan.symmetric);
``compile``, which executes it once on the expression graph of the robot and makes a kernel of
what that records (dynsys.kernel.kernel); ``solve``, which hands states to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import final

from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import WrenchInput
from dynsys.types import Array, ArrayLike
from problems.inputs import joints_of_their_own
from problems.problem import AbstractDynamics, Backend
from problems.solution import Solution

__all__ = ["ForwardDynamics", "HybridDynamics", "InverseDynamics"]


@final
@dataclass(frozen=True, eq=False)
class InverseDynamics(AbstractDynamics):
    """Torques that give known accelerations: laws plus qdd_i = y, f^x_i = y ([NORI] eq. 9)."""

    robot: KinematicTree
    backend: Backend = "auto"
    given = "qdd"
    answers = ("torque",)

    @property
    def accelerated_joints(self) -> Set[int]:
        return frozenset(range(self.robot.n_bodies))

    def solve(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, f_ext: WrenchInput = None,
              *, out: Array | None = None) -> Solution:  # fmt: skip
        return self._solve(q, qd, qdd, f_ext, out)

    def solve_batch(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                    f_ext: WrenchInput = None, *, threads: int = 1,
                    out: Array | None = None) -> Solution:  # fmt: skip
        return self._solve_batch(q, qd, qdd, f_ext, threads, out)


@final
@dataclass(frozen=True, eq=False)
class ForwardDynamics(AbstractDynamics):
    """Accelerations under known torques: laws plus tau_i = y, f^x_i = y ([NORI] eq. 15)."""

    robot: KinematicTree
    backend: Backend = "auto"
    given = "torque"
    answers = ("qdd",)

    @property
    def accelerated_joints(self) -> Set[int]:
        return frozenset()

    def solve(self, q: ArrayLike, qd: ArrayLike, torque: ArrayLike, f_ext: WrenchInput = None,
              *, out: Array | None = None) -> Solution:  # fmt: skip
        return self._solve(q, qd, torque, f_ext, out)

    def solve_batch(self, q: ArrayLike, qd: ArrayLike, torque: ArrayLike,
                    f_ext: WrenchInput = None, *, threads: int = 1,
                    out: Array | None = None) -> Solution:  # fmt: skip
        return self._solve_batch(q, qd, torque, f_ext, threads, out)


@final
@dataclass(frozen=True, eq=False)
class HybridDynamics(AbstractDynamics):
    """Joints with known acceleration, the others with known torque ([RBDA] section 9.2).

    Parameters
    ----------
    known_acceleration : names of the joints whose acceleration is known (all freedoms of each);
        of all other joints the torque is known. A floating base's joint is called ``root``.
        ModelError if a name is no joint, or one that follows another (mimic).
    """

    robot: KinematicTree
    known_acceleration: Sequence[str]
    backend: Backend = "auto"
    given = "known"
    answers = ("torque", "qdd")

    def __post_init__(self) -> None:
        names = joints_of_their_own(self.robot, self.known_acceleration)
        object.__setattr__(self, "known_acceleration", names)

    @cached_property
    def accelerated_joints(self) -> Set[int]:
        return frozenset(self.robot.joint_index(name) for name in self.known_acceleration)

    def solve(self, q: ArrayLike, qd: ArrayLike, known: ArrayLike, f_ext: WrenchInput = None,
              *, out: tuple[Array, Array] | None = None) -> Solution:  # fmt: skip
        return self._solve(q, qd, known, f_ext, out)

    def solve_batch(self, q: ArrayLike, qd: ArrayLike, known: ArrayLike,
                    f_ext: WrenchInput = None, *, threads: int = 1,
                    out: tuple[Array, Array] | None = None) -> Solution:  # fmt: skip
        return self._solve_batch(q, qd, known, f_ext, threads, out)
