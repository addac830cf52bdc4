"""Size: the sum of the magnitudes of all terms that a number is the sum of.

    number = sum of terms,   size = sum of |terms|,   |number| << size: nothing but rounding

At special postures (right angles, a stretched leg, a sensor in the axis of a joint) whole rows
of numbers cancel, and what is left of them, 1e-16 instead of nothing, is no knowledge. So every
question of the kind "is this zero?" (rank, verdict, contradiction, repeated rows) compares with
the size, never with what cancellation left.

Sizes are carried along with the numbers, from term to term, over lengths of vectors: a rotation
changes no length, so it changes no size, however small some of its entries are. With w, l the
sizes of the angular and linear part, r the way from body to body and I the inertia

    motion    w = w_parent + |S| |qdd|      l = l_parent + |r| w_parent + |S| |qdd|
    wrench    f = sum of f_children + ...   n = sum of (n + |r| f)_children + |I| (w, l)

(norms of 3 by 3 blocks). They grow with the length of a chain, not with the number of turns in
it; products of |entries| would grow by up to sqrt(3) per joint. They bound sums of magnitudes
from above, and depend on the posture by sliding joints only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.system.equations import EquationBlock, Kinematics, Term, vector_size
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import Array, IntArray

__all__ = ["CONTRADICTION", "ROUNDING", "LawSizes", "reading_sizes", "without_rounding"]

ROUNDING = 1e-13
"""Numbers below this part of their size are zero."""

CONTRADICTION = 1e-8
"""Exact rows that miss each other by more than this part of their size contradict."""


def without_rounding(numbers: Array, size: Array) -> Array:
    """Numbers, zero where they are but the rounding of terms of that size."""
    return np.where(np.abs(numbers) > ROUNDING * size, numbers, 0.0)


# ---- the laws -------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class LawSizes:
    """Sizes of all unknowns d = T z + d_0 of a robot, z = (qdd, external wrenches).

    Found in the order of inverse dynamics, as T and d_0 are (:mod:`dynsys.system.response`).
    Cost O(n size of z).
    """

    system: LinearSystem

    def at(self, kinematics: Kinematics) -> Array:
        """Sizes (unknowns, size of z + 1) of [T, d_0] at a state."""
        bias = self._carried(np.zeros((self.system.unknowns.size, 1)), kinematics, bias=True)
        return np.hstack([self._of_T(kinematics), bias])

    def _of_T(self, kinematics: Kinematics) -> Array:
        robot = self.system.robot
        carried = zip(robot.parent.tolist(), robot.motion_subspace, strict=True)
        if any(parent >= 0 and S[3:].any() for parent, S in carried):
            return self._carried(self._units, kinematics, bias=False)
        return self._at_every_posture

    @cached_property
    def _at_every_posture(self) -> Array:
        robot = self.system.robot
        kinematics = Kinematics.at(robot, robot.neutral(), np.zeros(robot.nv))
        return self._carried(self._units, kinematics, bias=False)

    @cached_property
    def _units(self) -> Array:
        """Size one of every entry of z: (unknowns, size of z); of a vector, all of it."""
        columns = self.system.open_columns
        units = np.zeros((self.system.unknowns.size, len(columns)))
        for k, column in enumerate(columns.tolist()):
            block = self.system.unknowns.at(column)
            first = block.start + (column - block.start) // 3 * 3
            units[slice(first, first + 3) if block.is_vector else column, k] = 1.0
        return units

    @cached_property
    def _steps(self) -> list[tuple[UnknownBlock, EquationBlock, list[tuple[Term, Array]]]]:
        """Unknown, its law, and the law's other terms with their sizes where constant."""
        return [
            (target, law, [(t, _size(t, target)) for t in law.terms if t.unknown is not target])
            for law, target in self.system.inverse_dynamics
        ]

    def _carried(self, given: Array, kinematics: Kinematics, *, bias: bool) -> Array:
        sizes = given.copy()
        for target, law, terms in self._steps:
            rows = _firsts(target)
            total = np.zeros((len(rows), sizes.shape[1]))
            for term, constant in terms:
                columns = _firsts(term.unknown)
                size = constant if term.size is None else term.size_at(kinematics)
                total += size[np.ix_(rows, columns)] @ sizes[term.unknown.start + columns]
            if bias and law.bias is not None:
                total[:, -1] += _law_bias(law, kinematics)
            sizes[target.slice] = np.repeat(total, 3, axis=0) if target.is_vector else total
        return sizes


def _size(term: Term, target: UnknownBlock) -> Array:
    """Sizes of a constant coefficient of the law that gives ``target``."""
    if callable(term.value):
        return np.zeros((0, 0))
    return vector_size(term.value, target.is_vector, term.unknown.is_vector)


def _firsts(block: UnknownBlock) -> IntArray:
    """First entry of each vector of an unknown; all entries of torques and qdd."""
    return np.array([0, 3]) if block.is_vector else np.arange(block.size)


def _law_bias(law: EquationBlock, kinematics: Kinematics) -> Array:
    """Sizes (2,) of what velocities and gravity add to a law: v x S qd, -g, v x* I v."""
    robot, i = kinematics.robot, law.body
    w, linear = kinematics.speeds[i]
    if law.kind == "acceleration":
        turning, sliding = kinematics.joint_speeds[i]
        gravity = float(np.linalg.norm(robot.gravity)) if robot.parent[i] < 0 else 0.0
        return np.array([w * turning, w * sliding + linear * turning + gravity])
    moment, force = _inertia_size(robot.bodies[i].inertia.matrix()) @ (w, linear)
    return np.array([w * moment + linear * force, w * force])


def _inertia_size(inertia: Array) -> Array:
    return vector_size(inertia)[::3, ::3]


# ---- the readings ----------------------------------------------------------------------------


def reading_sizes(
    blocks: Iterable[EquationBlock], kinematics: Kinematics, sizes: Array
) -> Array:
    """Sizes (rows, k + 1) of [Y T, Y d_0 + b_Y] from those of [T, d_0]."""
    parts = [np.zeros((0, sizes.shape[1]))]
    for block in blocks:
        part = np.zeros((block.size, sizes.shape[1]))
        for term in block.terms:
            columns = _firsts(term.unknown)
            size = term.size_at(kinematics)[:, columns]
            part += size @ sizes[term.unknown.start + columns]
        part[:, -1] += _reading_bias(block, kinematics)
        parts.append(part)
    return np.concatenate(parts)


def _reading_bias(block: EquationBlock, kinematics: Kinematics) -> Array:
    """Sizes (rows,) of b_Y: of what it is, and of the speeds and the weight it comes from."""
    if block.bias is None:
        return np.zeros(block.size)
    bias = np.abs(block.bias(kinematics)).astype(np.float64)
    robot, speeds = kinematics.robot, kinematics.speeds
    w, linear = speeds[block.body] if block.body >= 0 else speeds.max(axis=0)
    motion = float(np.linalg.norm(robot.gravity)) + w * linear
    natural = {"rad/s": w, "rad/s^2": w * w, "m/s^2": motion}
    natural |= dict.fromkeys(("N", "N m"), robot.total_mass * motion)
    speed = np.array([natural.get(unit, 0.0) for unit in block.units] or [0.0])
    return np.asarray(bias + _lengths(bias, block.units) + speed)


def _lengths(bias: Array, units: Sequence[str]) -> Array:
    """Length of all entries of the same unit, for each of them; the entries without units."""
    if not units:
        return bias
    same = np.array(units)[:, None] == np.array(units)
    return np.asarray(np.sqrt(same @ bias**2))
