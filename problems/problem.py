"""What problems share: a robot, its linear system, the way from a state to a solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from functools import cached_property

import numpy as np

from dynsys.errors import SingularSystemError, StateError
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import WrenchInput, external_wrenches
from dynsys.system.known import known_inputs
from dynsys.system.linear_system import LinearSystem
from dynsys.types import Array, ArrayLike, IntArray
from problems.reference import residual, solve_square
from problems.solution import Solution

__all__ = ["AbstractDynamics", "AbstractProblem"]


class AbstractProblem(ABC):
    """A question about a robot that a linear system D(q) d + b(q, qd) = 0 answers."""

    robot: KinematicTree

    @property
    @abstractmethod
    def system(self) -> LinearSystem:
        """The laws of the robot and the equations that make the question definite."""


class AbstractDynamics(AbstractProblem):
    """Dynamics with every external wrench known and, per joint, its acceleration or torque."""

    @property
    @abstractmethod
    def accelerated_joints(self) -> Set[int]:
        """Numbers of the joints whose acceleration is known; torque is known of the others."""

    @cached_property
    def system(self) -> LinearSystem:
        """Laws plus known quantities: as many equations as unknowns ([NORI] eq. 9 and 15)."""
        laws = LinearSystem(self.robot)
        return laws.with_equations(known_inputs(laws.unknowns, self.accelerated_joints))

    def _solve(
        self, q: ArrayLike, qd: ArrayLike, inputs: ArrayLike, what: str, f_ext: WrenchInput
    ) -> Solution:
        d, error = self._unknowns(q, qd, inputs, what, f_ext)
        return Solution.of_unknowns(self.system.unknowns, d, error)

    def _solve_batch(
        self, q: ArrayLike, qd: ArrayLike, inputs: ArrayLike, what: str, f_ext: WrenchInput
    ) -> Solution:
        given = (
            ("q", q, self.robot.nq),
            ("qd", qd, self.robot.nv),
            (what, inputs, self.robot.nv),
        )
        states = [_matrix(*item) for item in given]
        n = len(states[0])
        for (name, _, _), array in zip(given, states, strict=True):
            if len(array) != n:
                raise StateError(f"{name} has {len(array)} states, but q has {n}")
        d = np.zeros((n, self.system.unknowns.size))
        errors = np.zeros(n)
        for k, (q_k, qd_k, inputs_k) in enumerate(zip(*states, strict=True)):
            try:
                wrenches = _wrenches_of_state(f_ext, k, n)
                d[k], errors[k] = self._unknowns(q_k, qd_k, inputs_k, what, wrenches)
            except (StateError, SingularSystemError) as error:
                raise type(error)(f"state {k} of the batch: {error}") from None
        return Solution.of_unknowns(self.system.unknowns, d, errors)

    def _unknowns(
        self, q: ArrayLike, qd: ArrayLike, inputs: ArrayLike, what: str, f_ext: WrenchInput
    ) -> tuple[Array, float]:
        """All unknowns d (columns,) at a state, and the residual."""
        wrench_places, input_places = self._y_places
        y = np.zeros(len(self.system.measured_rows))
        y[input_places] = self.robot.check_v(inputs, what)
        wrenches = external_wrenches(self.robot, f_ext)
        if wrenches is not None:
            y[wrench_places] = wrenches
        D, b = self.system.assemble(q, qd, y)
        d = solve_square(self.system, D, b)
        return d, residual(D, d, b)

    @cached_property
    def _y_places(self) -> tuple[IntArray, IntArray]:
        """Places in y of the external wrenches (n_bodies, 6) and of the joint inputs (nv,)."""
        system, robot = self.system, self.robot
        rows = {(block.kind, block.body): system.rows(block) for block in system.equations}
        wrenches = np.array([rows["known_external_wrench", i] for i in range(robot.n_bodies)])
        inputs = np.zeros(robot.nv, dtype=np.intp)
        for joint in system.unknowns.driven:
            kind = "known_qdd" if joint in self.accelerated_joints else "known_torque"
            inputs[system.unknowns.freedoms[joint]] = rows[kind, joint]
        order = system.measured_rows  # ascending
        return np.searchsorted(order, wrenches), np.searchsorted(order, inputs)


def _matrix(what: str, x: ArrayLike, size: int) -> Array:
    try:
        out = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} is not numeric: {error}") from None
    if out.ndim != 2 or out.shape[1] != size:
        raise StateError(f"{what} of a batch must have shape (N, {size}), got {out.shape}")
    return out


def _wrenches_of_state(f_ext: WrenchInput, k: int, n: int) -> WrenchInput:
    """External wrenches of state k; what has no leading axis N holds for all states."""
    if f_ext is None:
        return None
    if isinstance(f_ext, Mapping):
        return {name: _of_state(value, k, n, 1) for name, value in f_ext.items()}
    return _of_state(f_ext, k, n, 2)


def _of_state(value: ArrayLike, k: int, n: int, ndim: int) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == ndim:
        return array
    if array.ndim != ndim + 1 or len(array) != n:
        raise StateError(f"f_ext has shape {array.shape}; its leading axis must be {n} states")
    return np.asarray(array[k])
