"""Natural units of a robot: those in which what moves and pushes it is about one.

    length L    the longest way between joints, or radius of gyration
    mass M      the mean of the bodies that have one
    energy M L^2             of a turn of one radian per second
    turns 1, slides L        and what drives them by it: moments M L^2, forces M L

A robot of millimetres and milligrams, an arm and a crane are alike in these units. Seconds are
as good as any, since all of these have them alike. Powers of two change no digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import norm  # of vectors: does not square what it sums, nor overflow

from dynsys.model.constraints import Constraint, FrameConstraint
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray

__all__ = ["NaturalUnits", "power_of_two", "unusual"]

USUAL = 8
"""Units within 2^8 of that of SI are as good as this one."""

SMALLEST, LARGEST = 1e-300, 1e300
"""Energies between which those of a robot lie."""

LIGHT = 2.0**-24
"""A joint that carries less than this part of the robot's inertia has a unit of its own."""


def power_of_two(units: Array) -> Array:
    """The nearest power of two of each."""
    return np.asarray(np.exp2(np.round(np.log2(units))))


def unusual(units: Array) -> Array:
    """Units as powers of two, but one where that of SI is as good: of almost every robot."""
    exponents = np.round(np.log2(units))
    return np.asarray(np.exp2(np.where(np.abs(exponents) <= USUAL, 0.0, exponents)))


@final
@dataclass(frozen=True, eq=False)
class NaturalUnits:
    """Natural units of one robot; see the module.

    Examples
    --------
    >>> import dynsys
    >>> units = NaturalUnits(dynsys.synthetic.chain(3))
    >>> units.motion.tolist(), bool((units.drive == units.wrench[0]).all())
    ([1.0, 1.0, 1.0], True)
    """

    robot: KinematicTree

    @cached_property
    def mass(self) -> float:
        """M, kg; 1 of a robot without mass."""
        heavy = sum(body.inertia.mass > 0 for body in self.robot.bodies)
        return self.robot.total_mass / heavy if heavy else 1.0

    @cached_property
    def length(self) -> float:
        """L, m; 1 of a robot without any."""
        bodies = self.robot.bodies
        heavy = [body.inertia for body in bodies if body.inertia.mass > 0]
        radii = [np.sqrt(norm(one.about_origin.ravel()) / one.mass) for one in heavy]
        ways = [norm(body.placement.r) for body in bodies]
        return float(max([*ways, *radii])) or 1.0

    @property
    def energy(self) -> float:
        """M L^2, within what float64 holds."""
        return float(np.clip(self.mass * self.length * self.length, SMALLEST, LARGEST))

    @cached_property
    def positions(self) -> Array:
        """Units (nq,) of q: L of what slides."""
        units = np.ones(self.robot.nq)
        for joint, where in zip(self.robot.joints, self.robot.q_slices(), strict=True):
            slides = joint.reach == 1.0
            units[where.start : where.start + len(slides)][slides] = self.length
        return units

    @cached_property
    def _turns(self) -> BoolArray:
        """Freedoms (nv,) that turn something."""
        found = np.zeros(self.robot.nv, dtype=bool)
        subspaces = self.robot.motion_subspace
        for S, where in zip(subspaces, self.robot.v_slices(), strict=True):
            found[where] |= S[:3].any(axis=0)
        return found

    @cached_property
    def motion(self) -> Array:
        """Units (nv,) of qd and qdd."""
        return np.where(self._turns, 1.0, self.length)

    @cached_property
    def drive(self) -> Array:
        """Units (nv,) of torques; less for joints that carry almost nothing."""
        return self.energy / self.motion * self._carried

    @cached_property
    def _carried(self) -> Array:
        """Part (nv,) of the robot's inertia that a freedom moves; 1 unless it is very light."""
        robot, slices = self.robot, self.robot.v_slices()
        mass = np.array([body.inertia.mass for body in robot.bodies])
        energy = np.array([norm(body.inertia.about_origin.ravel()) for body in robot.bodies])
        moved = robot.armature.copy()
        for i in reversed(range(robot.n_bodies)):
            moved[slices[i]] += np.where(self._turns[slices[i]], energy[i], mass[i])
            if (parent := robot.parent[i]) >= 0:
                mass[parent] += mass[i]
                way = robot.bodies[i].placement.r
                energy[parent] += energy[i] + mass[i] * (way @ way)
        share = moved * self.motion**2 / self.energy
        return np.where((share > 0) & (share < LIGHT), share, 1.0)

    @property
    def twist(self) -> Array:
        """Units (6,) of spatial accelerations."""
        return np.repeat([1.0, self.length], 3)

    @property
    def wrench(self) -> Array:
        """Units (6,) of spatial forces."""
        return self.energy / self.twist

    def rows(self, constraint: Constraint) -> Array:
        """Units (rows,) of the accelerations that a constraint holds."""
        if isinstance(constraint, FrameConstraint):
            return self.twist[constraint.held]
        return self.motion[[constraint.freedoms(self.robot)[0]]]
