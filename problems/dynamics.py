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
from typing import Any, TypeAlias, final

from numpy import empty

from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import WrenchInput
from dynsys.types import ArrayLike
from problems.constrained import ConstraintInput, Gains, as_constraints
from problems.inputs import joints_of_their_own
from problems.problem import AbstractDynamics, Backend
from problems.solution import Solution

__all__ = ["ForwardDynamics", "HybridDynamics", "InverseDynamics"]

Constraints: TypeAlias = "Sequence[ConstraintInput] | str"


@final
@dataclass(frozen=True, eq=False)
class InverseDynamics(AbstractDynamics):
    """Torques that give known accelerations: laws plus qdd_i = y, f^x_i = y ([NORI] eq. 9).

    Parameters
    ----------
    robot : the robot.
    backend : what answers: ``llvm``, ``numpy``, ``loops``, ``reference`` or ``auto``, as in
        ``compile``.
    constraints : what holds the robot, or ``"file"`` for what its file says
        (:mod:`problems.constrained`). Their forces carry joints without a drive, the smallest
        that do; the torque of these joints is zero.
    undriven : names of the joints without a drive; by default a floating base's.
    """

    robot: KinematicTree
    backend: Backend = "auto"
    constraints: Constraints = ()
    undriven: Sequence[str] | None = None
    given = "qdd"
    answers = ("torque",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constraints", as_constraints(self.robot, self.constraints))
        if self.undriven is not None:
            names = joints_of_their_own(self.robot, self.undriven, "undriven")
            object.__setattr__(self, "undriven", names)

    @property
    def accelerated_joints(self) -> Set[int]:
        return frozenset(range(self.robot.n_bodies))

    def solve(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, f_ext: WrenchInput = None,
              *, out: Any = None, gains: Gains = None,
              target: ArrayLike | None = None) -> Solution:  # fmt: skip
        if self.constraints or gains is not None or target is not None:
            return self._solve_held(q, qd, qdd, f_ext, out, gains, target)
        return self._solve(q, qd, qdd, f_ext, out)

    def solve_batch(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike,
                    f_ext: WrenchInput = None, *, threads: int = 1, out: Any = None,
                    gains: Gains = None,
                    target: ArrayLike | None = None) -> Solution:  # fmt: skip
        return self._solve_batch(q, qd, qdd, f_ext, threads, out, gains, target)


@final
@dataclass(frozen=True, eq=False)
class ForwardDynamics(AbstractDynamics):
    """Accelerations under known torques: laws plus tau_i = y, f^x_i = y ([NORI] eq. 15).

    Parameters
    ----------
    robot : the robot.
    backend : what answers: ``llvm``, ``numpy``, ``loops``, ``reference`` or ``auto``, as in
        ``compile``.
    constraints : what holds the robot, or ``"file"`` for what its file says
        (:mod:`problems.constrained`): ``solution.constraint_wrench`` has their forces by name.

    Examples
    --------
    An arm whose tip is held at a point: gravity is carried there.

    >>> import dynsys, problems
    >>> robot = dynsys.synthetic.chain(3)
    >>> tip = dynsys.FrameConstraint("tip", robot.body_names[-1], components=("x", "y", "z"))
    >>> problem = problems.ForwardDynamics(robot, constraints=[tip])
    >>> held = problem.solve([0.1, 0.7, 0.5], [0, 0, 0], [0, 0, 0])
    >>> held.constraint_wrench["tip"].shape, bool(held.residual < 1e-14)
    ((6,), True)
    """

    robot: KinematicTree
    backend: Backend = "auto"
    constraints: Constraints = ()
    given = "torque"
    answers = ("qdd",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constraints", as_constraints(self.robot, self.constraints))

    @property
    def accelerated_joints(self) -> Set[int]:
        return frozenset()

    def solve(self, q: ArrayLike, qd: ArrayLike, torque: ArrayLike, f_ext: WrenchInput = None,
              *, out: Any = None, gains: Gains = None,
              target: ArrayLike | None = None) -> Solution:  # fmt: skip
        if self.constraints or gains is not None or target is not None:
            if f_ext is None and out is None and gains is None and target is None:
                call, first, more = self._packed_call  # here: another call takes its time
                qdd, packed = empty(first), empty(more)
                if call(q, qd, torque, qdd, packed):
                    return Solution(self, None, qdd, packed)
            return self._solve_held(q, qd, torque, f_ext, out, gains, target)
        return self._solve(q, qd, torque, f_ext, out)

    def solve_batch(self, q: ArrayLike, qd: ArrayLike, torque: ArrayLike,
                    f_ext: WrenchInput = None, *, threads: int = 1, out: Any = None,
                    gains: Gains = None,
                    target: ArrayLike | None = None) -> Solution:  # fmt: skip
        return self._solve_batch(q, qd, torque, f_ext, threads, out, gains, target)


@final
@dataclass(frozen=True, eq=False)
class HybridDynamics(AbstractDynamics):
    """Joints with known acceleration, the others with known torque ([RBDA] section 9.2).

    Parameters
    ----------
    robot : the robot.
    known_acceleration : names of the joints whose acceleration is known (all freedoms of each);
        of all other joints the torque is known. A floating base's joint is called ``root``.
        ModelError if a name is no joint, or one that follows another (mimic).
    backend : what answers: ``llvm``, ``numpy``, ``loops``, ``reference`` or ``auto``, as in
        ``compile``.
    constraints : what holds the robot, or ``"file"`` for what its file says.
    """

    robot: KinematicTree
    known_acceleration: Sequence[str]
    backend: Backend = "auto"
    constraints: Constraints = ()
    given = "known"
    answers = ("torque", "qdd")

    def __post_init__(self) -> None:
        names = joints_of_their_own(self.robot, self.known_acceleration)
        object.__setattr__(self, "known_acceleration", names)
        object.__setattr__(self, "constraints", as_constraints(self.robot, self.constraints))

    @cached_property
    def accelerated_joints(self) -> Set[int]:
        return frozenset(self.robot.joint_index(name) for name in self.known_acceleration)

    def solve(self, q: ArrayLike, qd: ArrayLike, known: ArrayLike, f_ext: WrenchInput = None,
              *, out: Any = None, gains: Gains = None,
              target: ArrayLike | None = None) -> Solution:  # fmt: skip
        if self.constraints or gains is not None or target is not None:
            return self._solve_held(q, qd, known, f_ext, out, gains, target)
        return self._solve(q, qd, known, f_ext, out)

    def solve_batch(self, q: ArrayLike, qd: ArrayLike, known: ArrayLike,
                    f_ext: WrenchInput = None, *, threads: int = 1, out: Any = None,
                    gains: Gains = None,
                    target: ArrayLike | None = None) -> Solution:  # fmt: skip
        return self._solve_batch(q, qd, known, f_ext, threads, out, gains, target)
