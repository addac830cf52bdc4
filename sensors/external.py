"""The external wrench of a body or contact: known, zero, or any linear part of it.

A frame within the body may be named: the wrench is then the body's, with its moment about the
frame's origin and in the frame's coordinates, or in axes of the world. All links folded into
one body share one wrench; contacts (``contacts`` of a layout file, ``robot.with_contacts``)
have wrenches of their own beside it, each found by the contact's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array
from sensors.force_torque import wrench_units
from sensors.mounting import Mount, MountedSensor
from sensors.parameters import (
    AXES,
    Components,
    Direction,
    FrameName,
    Values,
    Vector3,
    WrenchAxes,
)
from sensors.sensor import AbstractConstraint, KnownSensor, SensorRows

__all__ = [
    "ExternalWrench",
    "FiveAxisPlate",
    "ForceAlongDirection",
    "LoadCellPlate",
    "PureForce",
    "load_cell_sums",
]

ZERO = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class _Plate(MountedSensor):
    """A sensor of some components of a wrench."""

    axes: WrenchAxes = "frame"

    def mount(self, unknowns: UnknownLayout) -> Mount:
        return Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy, self.axes)


def _part(mount: Mount, unknowns: UnknownLayout, components: Sequence[str]) -> SensorRows:
    """Rows that see some components of the wrench at ``mount``."""
    names = tuple(components)
    select = np.eye(6)[[AXES.index(name) for name in names]]
    term = mount.external_wrench(unknowns, select)
    dual = term.unknown if len(names) == 6 else None
    return SensorRows(names, wrench_units(names), mount.body, (term,), dual=dual)


@final
@dataclass(frozen=True)
class ExternalWrench(KnownSensor):
    """Components of the wrench that the environment exerts on a body.

    y = (X^-T f^x) at the chosen components

    Parameters
    ----------
    frame : body or frame within it.
    components : which of tx ty tz fx fy fz.
    xyz, rpy : pose of the measuring frame within ``frame``, m and rad.
    value : what it is known to be (one number for all, or one each), so that no data are
        needed; zero states that nothing touches the body. Exact unless ``std`` is given.
    axes : ``world``, or another frame, for components in its axes, about the origin of the
        measuring frame all the same; ``rpy`` then turns from these axes (a ramp).
    touched : frames that may be touched instead, where the statement is one of
        ``zero_external_wrench_except``; no part of the equations, see :mod:`sensors.sides`.
    """

    kind: ClassVar[str] = "external_wrench"
    frame: FrameName
    components: Components = AXES
    xyz: Vector3 = ZERO
    rpy: Vector3 = ZERO
    value: Values = None
    axes: WrenchAxes = "frame"
    touched: tuple[str, ...] = field(default=(), kw_only=True, repr=False, compare=False)

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy, self.axes)
        return _part(mount, unknowns, self.components)


@final
@dataclass(frozen=True)
class LoadCellPlate(_Plate):
    """Plate or sole on load cells: force normal to it and the two moments in its plane.

    y = (tx, ty, fz) of X^-T f^x                                              [NORI] eq. (18)

    z is the normal. Single cells are summed by :func:`load_cell_sums`. The wrench is the one
    the ground exerts on the body.

    Parameters
    ----------
    frame, xyz, rpy : frame of the plate on the body that stands on it.
    axes : ``world`` for a plate at rest, whose axes do not turn with the body (or another
        frame); ``rpy`` then turns from these axes.
    """

    kind: ClassVar[str] = "load_cell_plate"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        return _part(self.mount(unknowns), unknowns, ("tx", "ty", "fz"))


def load_cell_sums(positions: Sequence[Sequence[float]]) -> Array:
    """M (3, n) with  (tx, ty, fz) = M (normal force of each of n cells).

    tx = sum y_k f_k,   ty = -sum x_k f_k,   fz = sum f_k

    Independent cells of standard deviation s give the plate the covariance s^2 M M^T.

    Parameters
    ----------
    positions : x and y (n, 2) of the cells in the frame of the plate, m.
    """
    xy = np.asarray(positions, dtype=np.float64)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise ValueError(f"positions must have shape (n, 2), got {xy.shape}")
    return np.stack([xy[:, 1], -xy[:, 0], np.ones(len(xy))])


@final
@dataclass(frozen=True)
class FiveAxisPlate(_Plate):
    """All of a contact wrench but its torsion about the normal z.

    y = (tx, ty, fx, fy, fz) of X^-T f^x                                      [NORI] eq. (23)

    On a slippery floor fx and fy are zero, and the other three come from load cells.

    Parameters
    ----------
    frame, xyz, rpy : frame of the plate on the body that stands on it.
    axes : ``world`` for a plate at rest, whose axes do not turn with the body (or another
        frame); ``rpy`` then turns from these axes.
    """

    kind: ClassVar[str] = "five_axis_plate"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        return _part(self.mount(unknowns), unknowns, ("tx", "ty", "fx", "fy", "fz"))


@final
@dataclass(frozen=True)
class PureForce(AbstractConstraint):
    """Contact at a known point: an unknown force, no moment about the point.

    y = moment of f^x about the point = 0

    Parameters
    ----------
    frame, xyz : the point.
    """

    kind: ClassVar[str] = "pure_force"
    aliases: ClassVar[tuple[str, ...]] = ("point_contact",)
    frame: FrameName
    xyz: Vector3 = ZERO

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz)
        return _part(mount, unknowns, AXES[:3])


@final
@dataclass(frozen=True)
class ForceAlongDirection(AbstractConstraint):
    """Contact at a known point whose force has a known line of action.

    y = (moment of f^x about the point, two components of force across the direction) = 0

    Parameters
    ----------
    frame, xyz : the point.
    direction : along the force, in coordinates of ``frame``; its sign does not matter.
    axes : ``world``, or another frame, for a direction in its coordinates.
    """

    kind: ClassVar[str] = "force_along_direction"
    frame: FrameName
    direction: Direction
    xyz: Vector3 = ZERO
    axes: WrenchAxes = "frame"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz, axes=self.axes)
        across = np.zeros((2, 6))
        across[:, 3:] = _perpendicular(np.asarray(self.direction))
        term = mount.external_wrench(unknowns, np.vstack([np.eye(6)[:3], across]))
        labels = ("tx", "ty", "tz", "f_across_1", "f_across_2")
        return SensorRows(labels, wrench_units(labels), mount.body, (term,))


def _perpendicular(direction: Array) -> Array:
    """Two unit vectors (2, 3) across a direction; frame axes where it is one."""
    d = direction / np.linalg.norm(direction)
    k = int(np.argmax(np.abs(d)))
    first = np.eye(3)[(k + 1) % 3]
    first = first - d * float(d @ first)
    first = first / np.linalg.norm(first)
    second = np.cross(d, first)
    return np.stack([first, second])
