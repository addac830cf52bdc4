"""Solution of a problem: torques, accelerations and wrenches by name. Read-only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.tree import Frame, KinematicTree
from dynsys.system.unknowns import UnknownKind, UnknownLayout
from dynsys.types import Array

__all__ = ["NamedVectors", "Solution"]


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
    array : all vectors (n_bodies, 6), or (N, n_bodies, 6), in body coordinates (read-only).
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
        if self.per == "joint" and name in self.robot.joint_names:
            return self.robot.frame(self.robot.joint_index(str(name)))
        return self.robot.frame(name)

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
@dataclass(frozen=True, eq=False)
class Solution:
    """What a problem answers; with a leading axis N where a batch was asked for.

    Attributes
    ----------
    torque, qdd : joint torques and accelerations (nv,), in the order of qd.
    acceleration : proper spatial acceleration of each body (gravity as motion of the base).
    joint_wrench : wrench each joint transmits from its parent, by joint (or body) name.
    external_wrench : wrench of the environment on each body.
    residual : largest |D d + b|, relative to the largest (|D| |d| + |b|) of any equation.
    """

    torque: Array
    qdd: Array
    acceleration: NamedVectors
    joint_wrench: NamedVectors
    external_wrench: NamedVectors
    residual: float | Array

    @staticmethod
    def of_unknowns(unknowns: UnknownLayout, d: Array, residual: float | Array) -> Solution:
        """Sort the unknowns d (columns,) or (N, columns) of a system by name."""

        def part(kind: UnknownKind) -> Array:
            values = d[..., unknowns.columns(kind)]
            values.setflags(write=False)
            return values

        robot = unknowns.robot
        return Solution(
            torque=part("torque"),
            qdd=part("qdd"),
            acceleration=NamedVectors(robot, part("acceleration"), is_wrench=False),
            joint_wrench=NamedVectors(robot, part("joint_wrench"), is_wrench=True, per="joint"),
            external_wrench=NamedVectors(robot, part("external_wrench"), is_wrench=True),
            residual=residual,
        )
