"""The robot as a whole: acceleration of its centre of mass, rate of its centroidal momentum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.model.spatial import Transform, cross_force
from dynsys.system.equations import (
    Kinematics,
    Term,
    Values,
    carrying_size,
    product_size,
    vector_size,
)
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors.mounting import Mount, generic_states, varying_term
from sensors.parameters import Flag, FrameName
from sensors.sensor import AbstractSensor, SensorRows

__all__ = ["CentreOfMassAcceleration", "CentroidalMomentumRate"]

View = Callable[[Kinematics, int], ScalarArray]
"""Matrix (rows, 6) that takes a wrench on body i, in its coordinates, to what is measured."""


def _momentum_rate(
    unknowns: UnknownLayout, view: View, view_size: View
) -> tuple[tuple[Term, ...], Values]:
    """Terms and bias of  sum over bodies  view_i (I_i a_i + v_i x* I_i v_i)."""
    robot = unknowns.robot
    if robot.total_mass <= 0:
        raise ValueError("the robot has no mass")
    states = generic_states(robot)
    heavy = [i for i, body in enumerate(robot.bodies) if body.inertia.matrix().any()]
    inertia = {i: robot.bodies[i].inertia.matrix() for i in heavy}

    def coefficient(i: int) -> Values:
        return lambda kin: view(kin, i) @ inertia[i]

    def size(i: int) -> Values:
        return lambda kin: product_size(view_size(kin, i), vector_size(inertia[i]))

    def bias(kin: Kinematics) -> ScalarArray:
        total: ScalarArray = np.zeros(1)
        for i in heavy:
            v = kin.velocity[i]
            total = total + view(kin, i) @ cross_force(v, inertia[i] @ v)
        return total

    terms = tuple(
        varying_term(states, unknowns.block("acceleration", i), coefficient(i), size(i))
        for i in heavy
    )
    return terms, bias


@final
@dataclass(frozen=True)
class CentreOfMassAcceleration(AbstractSensor):
    """Acceleration of the centre of mass of all bodies, in base coordinates.

    y = (1/M) sum over bodies  E_i^T [0 1] (I_i a_i + v_i x* I_i v_i)  +  g

    Parameters
    ----------
    proper : True leaves g out: zero in free fall, -g at rest.
    """

    kind: ClassVar[str] = "centre_of_mass_acceleration"
    proper: Flag = False

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot = unknowns.robot
        lower = np.eye(6)[3:]

        def view(kin: Kinematics, i: int) -> ScalarArray:
            return np.asarray(kin.poses[i].E.T @ lower) / robot.total_mass

        def view_size(kin: Kinematics, i: int) -> Array:
            return carrying_size(0.0)[3:] / robot.total_mass

        terms, rate = _momentum_rate(unknowns, view, view_size)
        gravity = np.zeros(3) if self.proper else robot.gravity
        return SensorRows(
            labels=("ax", "ay", "az"),
            units=("m/s^2",) * 3,
            body=-1,
            terms=terms,
            bias=lambda kin: rate(kin) + gravity,
        )


@final
@dataclass(frozen=True)
class CentroidalMomentumRate(AbstractSensor):
    """Rate of the momentum of all bodies, angular part about their centre of mass.

    y = sum over bodies  X_Gi^T (I_i a_i + v_i x* I_i v_i)  +  (0, M g)

    G has its origin in the centre of mass and the axes of the base: the rates of the components
    in the non-rotating base. With ``axes`` the same two vectors, in the axes that the named
    frame has at this instant.

    Parameters
    ----------
    axes : frame whose axes are used; -1 for the base's.
    """

    kind: ClassVar[str] = "centroidal_momentum_rate"
    axes: FrameName = -1

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot = unknowns.robot
        frame = Mount.of(robot, self.axes)

        def centroidal(kin: Kinematics) -> Transform:
            return Transform(frame.pose(kin).E, kin.centre_of_mass)

        def view(kin: Kinematics, i: int) -> ScalarArray:
            to_body = centroidal(kin).inverse().then(kin.poses[i])
            return to_body.matrix().T

        def view_size(kin: Kinematics, i: int) -> Array:
            return carrying_size(2.0 * float(kin.reach.max())).T

        terms, rate = _momentum_rate(unknowns, view, view_size)
        weight = robot.total_mass * robot.gravity

        def bias(kin: Kinematics) -> ScalarArray:
            turned = centroidal(kin).E @ weight
            return np.asarray(rate(kin) + np.concatenate([np.zeros(3), turned]))

        return SensorRows(
            labels=("kx", "ky", "kz", "lx", "ly", "lz"),
            units=("N m",) * 3 + ("N",) * 3,
            body=-1,
            terms=terms,
            bias=bias,
        )
