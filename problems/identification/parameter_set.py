"""The parameters that are sought: names, the model's values, natural sizes, rows of sensors.

What data cannot tell stays at the model's value, and what they tell weakly is held near it by
the natural size of a parameter, one standard deviation of what may be expected of a model:

    mass              its own, at least a hundredth of the robot's
    first moment      mass times LENGTH of the robot's natural length, its longest way between
                      joints or radius of gyration (dynsys/model/natural.py)
    inertia           mass times that length squared
    friction, offset  a tenth of the joint's largest torque; without one, of the torque that
                      holds the robot stretched out, for viscous friction at 1 rad/s
    rotor             inertia that the joint moves in the neutral position
    sensor offset     ten times the sensor's standard deviation
    sensor gain       a fifth

A gain multiplies other parameters, so rows with gains are linear about some values only: the
model's before a fit, and those found so far within one (Gauss and Newton).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np

from dynsys.errors import LayoutError, ModelError, nearest_name
from dynsys.model.contacts import is_contact
from dynsys.model.joints import Free
from dynsys.model.natural import NaturalUnits
from dynsys.model.parameters import BODY_PARAMETERS, Parameter, joint_parameter_names
from dynsys.model.tree import KinematicTree
from dynsys.recursive.crba import crba
from dynsys.system.equations import EquationBlock
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, IntArray
from problems.identification.regressor import MotionRows, Regressor, RowBlocks
from sensors.layout import Layout

__all__ = ["Choice", "ParameterSet"]

Choice: TypeAlias = bool | Sequence[str]
"""All, none, or the named ones."""

LENGTH = 0.2
"""A centre of mass may be wrong by this part of the robot's natural length."""
LIGHT = 0.01
"""A mass may be wrong by this part of the robot's, however light it is."""
FRICTION = 0.1
"""Friction and offset, in the largest torque of the joint."""
OFFSETS = 10.0
"""Offset of a sensor, in its standard deviations."""
GAINS = 0.2
"""Gain of a sensor, off one."""


@final
@dataclass(frozen=True, eq=False)
class ParameterSet:
    """What is sought of a robot and its layout.

    Attributes
    ----------
    regressor : rows of the layout on the parameters of bodies and joints.
    offsets, gains : rows of the layout whose constant error, or factor, is sought as well.
    """

    regressor: Regressor
    offsets: tuple[int, ...] = ()
    gains: tuple[int, ...] = ()

    @staticmethod
    def of(
        robot: KinematicTree,
        layout: Layout,
        bodies: Choice,
        joints: Mapping[str, Choice],
        sensors: Mapping[str, Choice],
        contacts: Sequence[str],
    ) -> ParameterSet:
        """Parameters by what is asked for: names of bodies; joints and sensors by kind.

        True stands for all bodies, for all joints whose torque some reading sees, for all
        sensors that need data. ``contacts`` are touched by something unknown, beside those that
        the layout says are.
        """
        for part, wanted in ((robot, KinematicTree), (layout, Layout)):
            if not isinstance(part, wanted):
                raise LayoutError(
                    "an identification needs a robot and its sensors.Layout, got"
                    f" {part!r:.80}; write Layout(robot, sensors)"
                )
        if not layout.size:
            raise LayoutError("a layout without sensors tells nothing about parameters")
        unknowns = UnknownLayout(robot, net_wrench=True)
        blocks = layout.equations(unknowns)
        names = robot.body_names
        massive = [name for i, name in enumerate(names) if not is_contact(robot, i)]
        chosen = _chosen(bodies, massive, names, "body", robot.name)
        columns = [Parameter(i, kind) for i in chosen for kind in BODY_PARAMETERS]
        touched = _bodies(blocks, "torque")
        seen = [
            robot.joint_names[j]
            for leader, driven in unknowns.driven.items()
            for j in driven
            if leader in touched and not isinstance(robot.joints[leader], Free)
        ]
        for kind, asked in joints.items():
            for j in _chosen(asked, seen, robot.joint_names, "joint", robot.name):
                columns += [Parameter(j, kind, k) for k in range(robot.joints[j].nv)]
        needs_data = [s.name for s in layout.sensors if s.constant(1) is None]
        rows = {
            kind: tuple(
                row
                for k in _chosen(asked, needs_data, layout.names, "sensor", robot.name)
                for row in range(layout.size)[layout.slice(layout.names[k])]
            )
            for kind, asked in sensors.items()
        }
        touching = _chosen(contacts, (), names, "body", robot.name)
        layout.require_sides(touching)
        about = _contacts(layout, blocks) | set(touching)
        if not (columns or rows["offset"] or rows["gain"]):
            raise ModelError(f"robot {robot.name!r}: no parameter is sought; ask for some")
        regressor = Regressor(robot, layout, tuple(columns), tuple(sorted(about)))
        for row in rows["gain"]:
            if regressor.sees_contact(row):
                raise LayoutError(
                    f"reading {layout.labels[row]!r} depends on a contact: its gain cannot be"
                    " told from the unknown wrench there"
                )
        return ParameterSet(regressor, rows["offset"], rows["gain"])

    # ---- names and places ----------------------------------------------------------------

    @property
    def robot(self) -> KinematicTree:
        """The robot as the model has it."""
        return self.regressor.robot

    @property
    def layout(self) -> Layout:
        """The sensors."""
        return self.regressor.layout

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the columns."""
        robot, found = self.robot, []
        for at in self.regressor.columns:
            body = robot.bodies[at.body]
            if at.of_joint:
                found.append(joint_parameter_names(body, at.kind)[at.freedom])
            else:
                found.append(f"{body.name}.{at.kind}")
        for kind, rows in (("offset", self.offsets), ("gain", self.gains)):
            for row in rows:
                sensor = self.layout.labels[row].rpartition(".")[0]
                where = self.layout.slice(sensor)
                one = where.stop - where.start == 1
                found.append(f"{sensor}.{kind}" + ("" if one else f"[{row - where.start}]"))
        return tuple(found)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @cached_property
    def bodies(self) -> dict[int, IntArray]:
        """Places (10,) of the ten of each body that is sought."""
        found: dict[int, list[int]] = {}
        for k, column in enumerate(self.regressor.columns):
            if not column.of_joint:
                found.setdefault(column.body, []).append(k)
        return {body: np.array(places) for body, places in found.items()}

    @cached_property
    def not_negative(self) -> IntArray:
        """Places of friction and rotor inertias."""
        kinds = ("viscous", "coulomb", "coulomb_minus", "armature")
        columns = enumerate(self.regressor.columns)
        return np.array([k for k, c in columns if c.kind in kinds], dtype=np.intp)

    # ---- the model's values and natural sizes -----------------------------------------------

    @cached_property
    def model(self) -> Array:
        """Values (p,) of the model; offsets of sensors are zero, gains one."""
        values = [at.value(self.robot.bodies) for at in self.regressor.columns]
        return np.array(values + [0.0] * len(self.offsets) + [1.0] * len(self.gains))

    @cached_property
    def scale(self) -> Array:
        """Natural sizes (p,), see the module."""
        robot = self.robot
        least = LIGHT * (robot.total_mass or 1.0)
        length = LENGTH * NaturalUnits(robot).length
        strength, moved = _strength(robot), _moved_inertia(robot)
        found: list[float] = []
        for at in self.regressor.columns:
            body = robot.bodies[at.body]
            mass = max(body.inertia.mass, least)
            freedom = robot.v_slices()[at.body].start + at.freedom
            if at.kind == "armature":
                found.append(moved[freedom])
            elif at.of_joint:
                found.append(FRICTION * strength[freedom])
            else:
                power = min(BODY_PARAMETERS.index(at.kind) + 2, 6) // 3
                found.append(mass * length**power)
        std = self.layout.std
        found += [OFFSETS * (float(std[row]) or 1.0) for row in self.offsets]
        return np.array(found + [GAINS] * len(self.gains))

    def scaled(self, sizes: Mapping[str, float]) -> Array:
        """Natural sizes (p,) with some given by name.

        Raises
        ------
        ModelError
            naming the nearest parameter.
        """
        if not isinstance(sizes, Mapping):
            raise ModelError(f"sizes are given by names of parameters, got {sizes!r:.60}")
        scale = self.scale.copy()
        for name, size in sizes.items():
            if name not in self.names:
                hint = nearest_name(name, self.names)
                raise ModelError(f"no parameter {name!r} is sought{hint}")
            if not isinstance(size, (int, float, np.number)) or not 0 < size < np.inf:
                raise ModelError(f"the size of {name} must be positive, got {size!r}")
            scale[self.names.index(name)] = size
        return scale

    # ---- rows --------------------------------------------------------------------------------

    def rows(
        self,
        q: Array,
        qd: Array,
        qdd: Array,
        *,
        plain: bool = False,
        about: Array | None = None,
    ) -> MotionRows:
        """Rows at one state or many; columns of sensors behind those of the robot.

        ``plain`` computes them without a kernel; ``about`` (p,) are the values about which
        gains are linear, by default the model's.
        """
        regressor = self.regressor
        if self.offsets or self.gains:
            many = (np.atleast_2d(x) for x in (q, qd, qdd))
            found = self.blocks(*many, plain=plain, about=about).whole(self.size)
            if q.ndim == 1:
                return MotionRows(found.theta[0], found.contact[0], found.known[0])
            return found
        if q.ndim == 1:
            return (regressor.at if plain else regressor.one)(q, qd, qdd)
        return (regressor.each if plain else regressor.batch)(q, qd, qdd)

    def blocks(
        self,
        q: Array,
        qd: Array,
        qdd: Array,
        *,
        plain: bool = False,
        about: Array | None = None,
    ) -> RowBlocks:
        """The same at many states, each row on its own parameters."""
        found = self.regressor.blocks(q, qd, qdd, plain=plain)
        if not (self.offsets or self.gains):
            return found
        columns, theta, known = list(found.columns), list(found.theta), found.known.copy()
        values = self.model if about is None else about
        count = len(self.regressor.columns)
        one = np.ones((len(known), 1))
        for k, row in enumerate(self.offsets):
            columns[row] = np.append(columns[row], count + k)
            theta[row] = np.hstack([theta[row], one])
        for k, row in enumerate(self.gains):  # y = gain (R theta + c) + offset, about values
            place = count + len(self.offsets) + k
            own = columns[row] < count
            gain, part = float(values[place]), theta[row]
            inner = part[:, own] @ values[columns[row][own]] + known[:, row]
            known[:, row] = gain * (known[:, row] - inner)
            columns[row] = np.append(columns[row], place)
            theta[row] = np.hstack([np.where(own, gain, 1.0) * part, inner[:, None]])
        return RowBlocks(tuple(columns), tuple(theta), found.contact, known)


def _bodies(blocks: Sequence[EquationBlock], kind: str) -> set[int]:
    """Bodies whose unknown of a kind some equation touches."""
    return {t.unknown.body for b in blocks for t in b.terms if t.unknown.kind == kind}


def _contacts(layout: Layout, blocks: Sequence[EquationBlock]) -> set[int]:
    """Bodies whose external wrench is unknown at every sample.

    Those that some reading or statement is about, unless it says that nothing touches them.
    Where a layout says so of some bodies, the others are open; else nothing touches them.
    """
    untouched: set[int] = set()
    start = 0
    for block in blocks:
        rows = slice(start, start + block.size)
        start += block.size
        if len(block.terms) != 1 or block.bias is not None:
            continue
        (term,), zero = block.terms, bool((layout.constants[rows] == 0).all())
        if term.unknown.kind == "external_wrench" and not callable(term.value) and zero:
            whole = np.linalg.matrix_rank(term.value) == 6
            if whole and layout.exact[rows].all():
                untouched.add(term.unknown.body)
    every = set(range(layout.robot.n_bodies))
    return (every if untouched else _bodies(blocks, "external_wrench")) - untouched


def _chosen(
    asked: Choice, default: Sequence[str], names: Sequence[str], what: str, robot: str
) -> list[int]:
    """Numbers of what is asked for, among names."""
    if isinstance(asked, str) or not isinstance(asked, (bool, Iterable)):
        raise ModelError(f"give a list of {what} names, got {asked!r}")
    asked = (default if asked else ()) if isinstance(asked, bool) else tuple(asked)
    for k, name in enumerate(asked):
        if name in asked[:k]:
            raise ModelError(f"{what} {name!r} is asked for twice")
        if name not in names:
            raise ModelError(
                f"robot {robot!r} has no {what} {name!r}{nearest_name(name, names)}"
            )
    return [names.index(name) for name in asked]


def _strength(robot: KinematicTree) -> Array:
    """Largest torque (nv,) of each freedom, or what holds the robot stretched out."""
    natural = NaturalUnits(robot)
    pull = max(float(np.linalg.norm(robot.gravity)), natural.length)
    stretched = (robot.total_mass or 1.0) * pull * natural.length / natural.motion
    given = robot.effort_limit
    return np.where(np.isfinite(given) & (given > 0), given, stretched)


def _moved_inertia(robot: KinematicTree) -> Array:
    """Inertia (nv,) that each freedom moves in the neutral position."""
    natural = NaturalUnits(robot)
    H = np.asarray(crba(robot, robot.neutral()))
    energy = H.diagonal() * natural.motion**2
    least = 1e-3 * (float(energy.max(initial=0.0)) or natural.energy)
    return np.asarray(np.maximum(energy, least) / natural.motion**2)
