"""Solution of a problem: torques, accelerations and wrenches by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.errors import ModelError, nearest_name
from dynsys.model.constraints import Constraint, JointConstraint, row_slices
from dynsys.model.tree import Frame, KinematicTree
from dynsys.types import Array

if TYPE_CHECKING:
    from problems.problem import AbstractDynamics
    from problems.trust import Trust

__all__ = ["Details", "NamedForces", "NamedVectors", "Solution", "State"]

State: TypeAlias = tuple[Array, Array, Array | None]
"""q, qd and external wrenches (or None for none), of one state or N."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class NamedVectors:
    """One spatial vector (6,) per body, looked up by name; leading axis N for a batch.

    A body's own name gives the vector in body coordinates. A frame fixed to a body (a link that
    was folded into it, say) gives the same vector moved to that frame: the acceleration of the
    frame, or the wrench with its moment about the frame's origin, in the frame's coordinates.
    Accelerations of frames on the fixed base are that of the base, -g.

    Attributes
    ----------
    array : all vectors (n_bodies, 6), or (N, n_bodies, 6), in body coordinates.
    is_wrench : True for wrenches, False for accelerations.
    per : ``joint`` if the names of joints come first (then those of bodies and frames).
    """

    robot: KinematicTree
    array: Array
    is_wrench: bool
    per: Literal["body", "joint"] = "body"

    def __getitem__(self, name: str | int) -> Array:
        frame = self._frame(name)
        if frame.body < 0 and self.is_wrench:
            raise ModelError(
                f"robot {self.robot.name!r}: {name!r} is fixed to the base, whose wrenches are"
                " no unknowns of the system"
            )
        if frame.body < 0:
            base = np.concatenate([np.zeros(3), -self.robot.gravity])
            vectors = np.broadcast_to(base, (*self.array.shape[:-2], 6))
        else:
            vectors = self.array[..., frame.body, :]
        if not self.is_wrench:
            return np.asarray(vectors @ frame.transform.matrix().T)
        return np.asarray(vectors @ frame.transform.inverse().matrix())  # X^-T f

    def _frame(self, name: str | int) -> Frame:
        return (self.robot.joint_frame if self.per == "joint" else self.robot.frame)(name)

    def __contains__(self, name: object) -> bool:
        return name in self.robot.frames or (
            self.per == "joint" and name in self.robot.joint_names
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.robot.joint_names if self.per == "joint" else self.robot.body_names)

    def __len__(self) -> int:
        return self.robot.n_bodies

    def __repr__(self) -> str:
        what = "wrenches" if self.is_wrench else "accelerations"
        return f"NamedVectors({what} per {self.per}, array of shape {self.array.shape})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class NamedForces:
    """Forces that hold a robot, looked up by the names of constraints; leading axis N.

    Of a frame the wrench (6,) on it, moment first, about its origin and in the constraint's
    axes, zero along directions that are free; its ``other`` feels the opposite. Of a joint that
    follows another its torque (1,).

    Attributes
    ----------
    array : all forces (rows,), or (N, rows), one for each direction that is held.
    """

    constraints: tuple[Constraint, ...]
    array: Array

    def __getitem__(self, name: str) -> Array:
        for constraint, where in zip(
            self.constraints, row_slices(self.constraints), strict=True
        ):
            if constraint.name == name:
                if isinstance(constraint, JointConstraint):
                    return self.array[..., where]
                wrench = np.zeros((*self.array.shape[:-1], 6))
                wrench[..., constraint.held] = self.array[..., where]
                return wrench
        hint = nearest_name(str(name), list(self))
        raise ModelError(f"there is no constraint {name!r} among {list(self)}{hint}")

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter([constraint.name for constraint in self.constraints])

    def __len__(self) -> int:
        return len(self.constraints)

    def __repr__(self) -> str:
        return f"NamedForces({list(self)}, array of shape {self.array.shape})"


class Details(NamedTuple):
    """What a solution has beyond torque and qdd: (..., n_bodies, 6) each, and the residual."""

    acceleration: Array
    joint_wrench: Array
    external_wrench: Array
    residual: float | Array


@final
class Solution:
    """What a problem answers; with a leading axis N where a batch was asked for.

    Torque and qdd are there at once. Body accelerations, wrenches and the residual follow from
    them through the equations of D and are computed when first asked for.

    Vectors come as arrays or as their bytes: the cheapest copy there is, made into numbers when
    first looked at. Or all but the answer come as one array, in place of q, without a qd: the
    problem cuts it when one of them is first looked at.

    Attributes
    ----------
    fallback : True if the compiled kernel met a state it could not answer and the pivoting
        solver of the `reference` backend did.
    """

    __slots__ = (
        "_details",
        "_forces",
        "_problem",
        "_q",
        "_qd",
        "_qdd",
        "_torque",
        "_wrenches",
        "fallback",
    )

    def __init__(
        self,
        problem: AbstractDynamics,
        torque: Array | bytes | None,
        qdd: Array | bytes | None,
        q: Array | bytes,
        qd: Array | bytes | None = None,
        wrenches: Array | None = None,
        fallback: bool = False,
        forces: Array | None = None,
    ) -> None:
        self._problem = problem
        self._torque = torque
        self._qdd = qdd
        self._q = q
        self._qd = qd
        self._wrenches = wrenches
        self._forces = forces
        self._details: Details | None = None
        self.fallback = fallback

    @property
    def torque(self) -> Array:
        """Joint torques (nv,), in the order of qd."""
        torque = self._torque
        if torque is None or isinstance(torque, bytes):
            self._cut()
            self._torque = torque = self._numbers(self._torque)
        return torque

    @property
    def qdd(self) -> Array:
        """Joint accelerations (nv,), in the order of qd."""
        qdd = self._qdd
        if qdd is None or isinstance(qdd, bytes):
            self._cut()
            self._qdd = qdd = self._numbers(self._qdd)
        return qdd

    def _cut(self) -> None:
        """Cut what came as one array, if it did."""
        if self._qd is None:
            answer = self._torque if self._qdd is None else self._qdd
            assert isinstance(answer, np.ndarray) and isinstance(self._q, np.ndarray)
            parts = self._problem.cut_packed(self._q, answer)
            self._torque, self._qdd = parts["torque"], parts["qdd"]
            self._q, self._qd = parts["q"], parts["qd"]
            self._forces = parts["constraint_wrench"]

    def _all(self) -> Details:
        if self._details is None:
            where = self._where
            self._details = self._problem.details(where, self.torque, self.qdd, self._forces)
        return self._details

    @property
    def _where(self) -> State:
        self._cut()
        return self._numbers(self._q), self._numbers(self._qd), self._wrenches

    def _numbers(self, vector: Array | bytes | None) -> Array:
        """Numbers of a vector; torque or qdd was computed, and has the shape of the batch."""
        assert vector is not None
        if not isinstance(vector, bytes):
            return vector
        computed = self._qdd if isinstance(self._torque, bytes) else self._torque
        batch = computed.shape[:-1] if isinstance(computed, np.ndarray) else ()
        return np.frombuffer(vector).copy().reshape(*batch, -1)

    def trust(self) -> Trust:
        """Bounds on the errors of torque and qdd, from a check in extended precision.

        Takes milliseconds per state, and nothing of those who do not ask.
        """
        return self._problem.trust(self._where, self.torque, self.qdd)

    @property
    def _robot(self) -> KinematicTree:
        return self._problem.robot

    @property
    def acceleration(self) -> NamedVectors:
        """Proper spatial acceleration of each body (gravity as motion of the base)."""
        return NamedVectors(self._robot, self._all().acceleration, is_wrench=False)

    @property
    def joint_wrench(self) -> NamedVectors:
        """Wrench each joint transmits from its parent, by joint (or body) name."""
        return NamedVectors(self._robot, self._all().joint_wrench, is_wrench=True, per="joint")

    @property
    def external_wrench(self) -> NamedVectors:
        """Wrench of the environment on each body."""
        return NamedVectors(self._robot, self._all().external_wrench, is_wrench=True)

    @property
    def constraint_wrench(self) -> NamedForces:
        """Force of each constraint, by name; none where nothing holds the robot."""
        self._cut()
        batch = self.qdd.shape[:-1]
        forces = np.zeros((*batch, 0)) if self._forces is None else self._forces
        return NamedForces(self._problem.constraints, forces)

    @property
    def residual(self) -> float | Array:
        """Largest |D d + b|, relative to the largest (|D| |d| + |b|) of any equation."""
        return self._all().residual

    def __repr__(self) -> str:
        return f"Solution({self._robot.name!r}, torque and qdd of shape {self.torque.shape})"
