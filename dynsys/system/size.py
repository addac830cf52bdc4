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

Sizes of different unknowns are compared in natural units (:func:`natural_units`): an angular
acceleration and a moment have a ratio, and a rank, only by the mass and length of the robot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.model.natural import NaturalUnits, power_of_two
from dynsys.system.equations import (
    EquationBlock,
    Kinematics,
    Term,
    carrying_size,
    vector_size,
)
from dynsys.system.linear_system import LinearSystem
from dynsys.system.unknowns import UnknownBlock, UnknownLayout
from dynsys.types import Array, BoolArray, IntArray

__all__ = [
    "CONTRADICTION",
    "ROUNDING",
    "LawSizes",
    "natural_units",
    "reading_sizes",
    "reading_units",
    "unknown_units",
    "without_rounding",
]

ROUNDING = 1e-13
"""Numbers below this part of their size are zero."""

CONTRADICTION = 1e-8
"""Exact rows that miss each other by more than this part of their size contradict."""


KEPT = 16
"""Ways that joints slide whose sizes are kept."""


def without_rounding(numbers: Array, size: Array) -> Array:
    """Numbers, zero where they are but the rounding of terms of that size."""
    return np.where(np.abs(numbers) > ROUNDING * size, numbers, 0.0)


def natural_units(system: LinearSystem) -> Array:
    """Natural unit (size of z,) of each entry of z = (qdd, external wrenches), a power of two.

    Of the robot's mass and length, see :mod:`dynsys.model.natural`.
    """
    return power_of_two(unknown_units(system.unknowns)[system.open_columns])


def unknown_units(unknowns: UnknownLayout) -> Array:
    """Natural units (unknowns,) of all of them."""
    natural = NaturalUnits(unknowns.robot)
    found = np.ones(unknowns.size)
    for block in unknowns.blocks:
        if block.kind in ("qdd", "torque"):
            one = natural.motion if block.kind == "qdd" else natural.drive
            found[block.slice] = one[unknowns.freedoms[block.body]]
        elif block.kind == "constraint_wrench":
            held = unknowns.constraints[block.body]
            found[block.slice] = natural.energy / natural.rows(held)
        else:
            moves = block.kind == "acceleration"
            found[block.slice] = natural.twist if moves else natural.wrench
    return found


def reading_units(
    unknowns: UnknownLayout, equations: Sequence[EquationBlock], kinematics: Kinematics
) -> Array:
    """Natural units (rows,) of readings Y d + b: the largest of their terms at a state."""
    units, found = unknown_units(unknowns), [np.zeros(0)]
    for block in equations:
        sizes = [np.abs(block.bias_at(kinematics))[:, None]]
        for term in block.terms:
            own = unknowns.block(term.unknown.kind, term.unknown.body)
            sizes.append(np.abs(term.at(kinematics)) * term.pattern * units[own.slice])
        largest = np.hstack(sizes).max(axis=1)
        found.append(np.where(largest > 0, largest, 1.0))
    return np.concatenate(found)


# ---- the laws -------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class LawSizes:
    """Sizes of all unknowns d = T z + d_0 of a robot, z = (qdd, external wrenches).

    Found in the order of inverse dynamics, as T and d_0 are (:mod:`dynsys.system.response`),
    for unit sizes of every entry of z and of the bias of every law. That depends on the posture
    by the way that joints slide only, which is rounded up to a power of two: it is found once,
    and a state costs one product of a matrix and a vector.
    """

    system: LinearSystem

    def at(self, kinematics: Kinematics) -> Array:
        """Sizes (unknowns, size of z + 1) of [T, d_0] at a state."""
        n, carried = len(self.system.open_columns), self._carried_over(kinematics.arms)
        bias = carried[:, n:] @ self._biases(kinematics)
        return np.column_stack([carried[:, :n], bias])

    def _carried_over(self, arms: Array) -> Array:
        rounded = np.where(self._slides, np.exp2(np.ceil(np.log2(arms + 1e-30))), arms)
        key = rounded[self._slides].tobytes()
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[key] = self._carried(rounded)
        return self._kept[key]

    @cached_property
    def _kept(self) -> dict[bytes, Array]:
        return {}

    @cached_property
    def _slides(self) -> BoolArray:
        return np.array([bool(S[3:].any()) for S in self.system.robot.motion_subspace])

    @cached_property
    def _steps(self) -> list[tuple[UnknownBlock, EquationBlock]]:
        """Unknowns with the laws that give them."""
        return [(target, law) for law, target in self.system.inverse_dynamics]

    def _carried(self, arms: Array) -> Array:
        """Sizes (unknowns, size of z + those of biases) for unit sizes of these.

        A bias has two sizes, of its vectors; that of a torque one for each freedom.
        """
        columns = self.system.open_columns
        biases = sum(
            len(_firsts(target)) for target, law in self._steps if law.bias is not None
        )
        sizes = np.zeros((self.system.unknowns.size, len(columns) + biases))
        for k, column in enumerate(columns.tolist()):
            block = self.system.unknowns.at(column)
            first = block.start + (column - block.start) // 3 * 3
            sizes[slice(first, first + 3) if block.is_vector else column, k] = 1.0
        place = len(columns)
        for target, law in self._steps:
            rows = _firsts(target)
            total = np.zeros((len(rows), sizes.shape[1]))
            for term in law.terms:
                if term.unknown is not target:
                    firsts = _firsts(term.unknown)
                    size = _law_term(term, target, arms)[np.ix_(rows, firsts)]
                    total += size @ sizes[term.unknown.start + firsts]
            if law.bias is not None:
                total[:, place : place + len(rows)] += np.eye(len(rows))
                place += len(rows)
            sizes[target.slice] = np.repeat(total, 3, axis=0) if target.is_vector else total
        return sizes

    @cached_property
    def _biased(self) -> list[EquationBlock]:
        """Laws with a bias, in the order of inverse dynamics."""
        return [law for _, law in self._steps if law.bias is not None]

    @cached_property
    def _inertias(self) -> Array:
        """Sizes (n_bodies, 2, 2) of the inertias."""
        matrices = [body.inertia.matrix() for body in self.system.robot.bodies]
        return np.array([vector_size(matrix)[::3, ::3] for matrix in matrices])

    def _biases(self, kinematics: Kinematics) -> Array:
        """Sizes of what velocities and gravity add: v x S qd, -g, v x* I v; friction."""
        robot, (w, linear) = self.system.robot, kinematics.speeds.T
        turning, sliding = kinematics.joint_speeds.T
        gravity = np.where(robot.parent < 0, np.linalg.norm(robot.gravity), 0.0)
        moment, force = np.einsum("nij,nj->in", self._inertias, kinematics.speeds)
        sizes = {
            "acceleration": (w * turning, w * sliding + linear * turning + gravity),
            "momentum": (w * moment + linear * force, w * force),
        }
        found: list[Array] = []
        for law in self._biased:
            if law.kind == "torque" and robot.joint_friction is not None:
                freedoms = robot.v_slices()[law.body]
                found.append(robot.joint_friction.magnitude(kinematics.qd)[freedoms])
            else:
                angular, straight = sizes.get(law.kind, sizes["momentum"])
                found.append(np.array([angular[law.body], straight[law.body]]))
        return np.concatenate(found)


def _law_term(term: Term, target: UnknownBlock, arms: Array) -> Array:
    """Sizes of a term of the law that gives ``target``; what varies carries over an arm."""
    if not callable(term.value):
        return vector_size(term.value, target.is_vector, term.unknown.is_vector)
    motion = target.kind == "acceleration"
    carrying = carrying_size(arms[target.body if motion else term.unknown.body])
    return carrying if motion else carrying.T


def _firsts(block: UnknownBlock) -> IntArray:
    """First entry of each vector of an unknown; all entries of torques and qdd."""
    return np.array([0, 3]) if block.is_vector else np.arange(block.size)


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
    for unit in dict.fromkeys(block.units):  # entries of one unit are parts of one vector
        same = np.array([other == unit for other in block.units])
        bias[same] += natural.get(unit, 0.0) + np.sqrt(bias[same] @ bias[same])
    return bias
