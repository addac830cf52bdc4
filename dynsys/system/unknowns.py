"""The unknowns d of the linear system: named blocks of columns, one set per body.

Natural order of the columns, that of the scripts behind [NORI]:

    d = [dx_1 .. dx_N, dy_1 .. dy_N],  dx_i = [a_i, (f^B_i), f_i, tau_i],  dy_i = [f^x_i, qdd_i]

| [NORI]  | kind              | size | meaning (body coordinates)                              |
|---------|-------------------|------|---------------------------------------------------------|
| a_i     | `acceleration`    | 6    | proper spatial acceleration (gravity as base motion)    |
| f^B_i   | `net_wrench`      | 6    | rate of momentum, only with ``net_wrench=True``         |
| f_i     | `joint_wrench`    | 6    | wrench from the parent through joint i                  |
| tau_i   | `torque`          | nv_i | force of the joint's drive                              |
| f^x_i   | `external_wrench` | 6    | wrench from the environment                             |
| qdd_i   | `qdd`             | nv_i | acceleration of the joint                               |

Constraints, where there are any, come last, each with the forces of its rows: kind
`constraint_wrench`, numbered by constraint in place of a body.

A joint without freedom, and one coupled to another (mimic), has no torque and qdd of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.constraints import Constraint
from dynsys.model.tree import KinematicTree
from dynsys.types import IntArray

__all__ = ["UnknownBlock", "UnknownKind", "UnknownLayout"]

UnknownKind: TypeAlias = Literal[
    "acceleration",
    "net_wrench",
    "joint_wrench",
    "torque",
    "external_wrench",
    "qdd",
    "constraint_wrench",
]

_OF_JOINTS = ("joint_wrench", "torque", "qdd")
_WORDS: dict[str, str] = {
    "acceleration": "acceleration of body",
    "net_wrench": "net wrench on body",
    "external_wrench": "external wrench on body",
    "joint_wrench": "wrench through joint",
    "torque": "torque of joint",
    "qdd": "acceleration of joint",
    "constraint_wrench": "wrench of constraint",
}


@final
@dataclass(frozen=True)
class UnknownBlock:
    """Columns ``start : start + size`` of D: the unknown of one kind at one body."""

    kind: UnknownKind
    body: int
    name: str
    start: int
    size: int

    @property
    def columns(self) -> IntArray:
        """Columns of D (size,)."""
        return np.arange(self.start, self.start + self.size)

    @property
    def slice(self) -> slice:
        """Columns of D, as a slice."""
        return slice(self.start, self.start + self.size)

    @property
    def is_vector(self) -> bool:
        """True for spatial vectors, False for what has one number per freedom of a joint."""
        return self.kind not in ("torque", "qdd", "constraint_wrench")

    def __str__(self) -> str:
        return f"{_WORDS[self.kind]} {self.name!r}"


@final
@dataclass(frozen=True, eq=False)
class UnknownLayout:
    """All unknowns of a robot, in the module's natural order.

    Parameters
    ----------
    robot : the robot.
    net_wrench : True adds f^B_i as unknowns of their own (26 instead of 20 columns per body of
        one freedom).
    constraints : what holds the robot, if anything.
    """

    robot: KinematicTree
    net_wrench: bool = False
    constraints: tuple[Constraint, ...] = ()

    @cached_property
    def blocks(self) -> tuple[UnknownBlock, ...]:
        """Blocks in the order of their columns."""
        dx: tuple[UnknownKind, ...] = ("acceleration", "joint_wrench", "torque")
        if self.net_wrench:
            dx = ("acceleration", "net_wrench", "joint_wrench", "torque")
        dy: tuple[UnknownKind, ...] = ("external_wrench", "qdd")
        blocks: list[UnknownBlock] = []
        start = 0
        for kinds in (dx, dy):
            for i, body in enumerate(self.robot.bodies):
                for kind in kinds:
                    size = 6
                    if kind in ("torque", "qdd"):
                        size = body.joint.nv if body.coupling is None else 0
                    if size:
                        blocks.append(UnknownBlock(kind, i, self._name(kind, i), start, size))
                    start += size
        for c, held in enumerate(self.constraints):
            block = UnknownBlock("constraint_wrench", c, held.name, start, held.size)
            blocks.append(block)
            start += held.size
        return tuple(blocks)

    @cached_property
    def driven(self) -> dict[int, tuple[int, ...]]:
        """For each joint with freedoms of its own, the joints those move: itself, followers."""
        driven: dict[int, list[int]] = {}
        for i, joint in enumerate(self.robot.joints):
            if joint.nv:
                driven.setdefault(self._leader(i), []).append(i)
        return {leader: tuple(driven[leader]) for leader in sorted(driven)}

    @cached_property
    def freedoms(self) -> tuple[slice, ...]:
        """Where each joint, or its leader, sits in qd, qdd and torque."""
        return self.robot.v_slices()

    def _leader(self, i: int) -> int:
        coupling = self.robot.bodies[i].coupling
        return i if coupling is None else coupling.leader

    def _name(self, kind: UnknownKind, body: int) -> str:
        names = self.robot.joint_names if kind in _OF_JOINTS else self.robot.body_names
        return names[body]

    @cached_property
    def size(self) -> int:
        """Number of scalar unknowns, columns of D."""
        return self.blocks[-1].start + self.blocks[-1].size

    @cached_property
    def _by_key(self) -> dict[tuple[str, int], UnknownBlock]:
        return {(block.kind, block.body): block for block in self.blocks}

    def block(self, kind: UnknownKind, body: int) -> UnknownBlock:
        """Return the unknown of ``kind`` at ``body``.

        Torque and qdd of a coupled joint are those of its leader.
        """
        if kind in ("torque", "qdd"):
            body = self._leader(body)
        if (kind, body) not in self._by_key:
            reason = "it has no freedom"
            if kind == "net_wrench":
                reason = "build the system with net_wrench=True"
            raise ModelError(
                f"robot {self.robot.name!r}: the {_WORDS[kind]}"
                f" {self._name(kind, body)!r} is no unknown of the system; {reason}"
            )
        return self._by_key[kind, body]

    def columns(self, kind: UnknownKind) -> IntArray:
        """Columns of one kind: (n_bodies, 6); torque and qdd (nv,) in the order of qd; rows."""
        if kind not in self._columns:
            found = self._columns_of(kind)
            found.flags.writeable = False
            self._columns[kind] = found
        return self._columns[kind]

    @cached_property
    def _columns(self) -> dict[UnknownKind, IntArray]:
        return {}

    def _columns_of(self, kind: UnknownKind) -> IntArray:
        if kind == "constraint_wrench":
            found = [block.columns for block in self.blocks if block.kind == kind]
            return np.concatenate([np.zeros(0, dtype=np.intp), *found])
        if kind not in ("torque", "qdd"):
            bodies = range(self.robot.n_bodies)
            return np.array([self.block(kind, i).columns for i in bodies], dtype=np.intp)
        columns = np.zeros(self.robot.nv, dtype=np.intp)
        for leader in self.driven:
            columns[self.freedoms[leader]] = self.block(kind, leader).columns
        return columns

    def at(self, column: int) -> UnknownBlock:
        """Return the block that holds a column of D."""
        return self.blocks[bisect_right(self.blocks, column, key=lambda b: b.start) - 1]
