"""Inertial sensors on a body, the base, or any named frame.

Accelerations are proper: a sensor at rest reads -g, in its own coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import ScalarArray
from sensors.mounting import Mount, add_bias
from sensors.parameters import Flag, FrameName, Vector3
from sensors.sensor import AbstractSensor, SensorRows

__all__ = ["Accelerometer", "AngularAccelerometer", "Gyroscope", "Imu"]

ANGULAR, LINEAR = np.eye(6)[:3], np.eye(6)[3:]


@final
@dataclass(frozen=True)
class Accelerometer(AbstractSensor):
    """Proper linear acceleration of a point, three axes.

    y = [0 1] X a_body + omega x v,   (omega, v) = X v_body

    Parameters
    ----------
    frame : body or named frame that carries it (-1: the base, where it sees -g and nothing
        unknown).
    xyz, rpy : pose of the sensor within that frame, m and rad (fixed-axis roll, pitch, yaw).
    """

    kind: ClassVar[str] = "accelerometer"
    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    rpy: Vector3 = (0.0, 0.0, 0.0)

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy)
        terms, bias = mount.acceleration(unknowns, LINEAR)
        return SensorRows(
            labels=("ax", "ay", "az"),
            units=("m/s^2",) * 3,
            body=mount.body,
            terms=terms,
            bias=add_bias(bias, mount.centripetal),
        )


@final
@dataclass(frozen=True)
class Gyroscope(AbstractSensor):
    """Angular velocity, three axes. A check of q and qd only.

    y = [1 0] X v_body

    It touches no unknown: the velocity is known from q and qd, so the reading carries no
    information on accelerations or forces, only on whether qd is right.

    Parameters
    ----------
    frame, xyz, rpy : as for :class:`Accelerometer`.
    """

    kind: ClassVar[str] = "gyroscope"
    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    rpy: Vector3 = (0.0, 0.0, 0.0)

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy)
        return SensorRows(
            labels=("wx", "wy", "wz"),
            units=("rad/s",) * 3,
            body=mount.body,
            terms=(),
            bias=lambda kin: mount.velocity(kin)[:3],
        )


@final
@dataclass(frozen=True)
class AngularAccelerometer(AbstractSensor):
    """Angular acceleration, three axes.

    y = [1 0] X a_body

    Parameters
    ----------
    frame, xyz, rpy : as for :class:`Accelerometer`.
    """

    kind: ClassVar[str] = "angular_accelerometer"
    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    rpy: Vector3 = (0.0, 0.0, 0.0)

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy)
        terms, bias = mount.acceleration(unknowns, ANGULAR)
        return SensorRows(
            labels=("wdx", "wdy", "wdz"),
            units=("rad/s^2",) * 3,
            body=mount.body,
            terms=terms,
            bias=bias,
        )


@final
@dataclass(frozen=True)
class Imu(AbstractSensor):
    """Accelerometer, gyroscope and, with ``angular``, angular accelerometer in one housing.

    y = (linear acceleration, angular velocity[, angular acceleration]), as the single sensors

    The gyroscope's three rows touch no unknown, see :class:`Gyroscope`.

    Parameters
    ----------
    frame, xyz, rpy : as for :class:`Accelerometer`.
    angular : True adds three rows of angular acceleration.
    """

    kind: ClassVar[str] = "imu"
    frame: FrameName
    xyz: Vector3 = (0.0, 0.0, 0.0)
    rpy: Vector3 = (0.0, 0.0, 0.0)
    angular: Flag = False

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = Mount.of(unknowns.robot, self.frame, self.xyz, self.rpy)
        extra = 3 if self.angular else 0
        coefficient = np.vstack([LINEAR, np.zeros((3, 6)), ANGULAR[:extra]])
        terms, base = mount.acceleration(unknowns, coefficient)

        def velocities(kin: Kinematics) -> ScalarArray:
            omega = mount.velocity(kin)[:3]
            return np.concatenate([mount.centripetal(kin), omega, np.zeros(extra)])

        labels = ("ax", "ay", "az", "wx", "wy", "wz", "wdx", "wdy", "wdz")
        units = ("m/s^2",) * 3 + ("rad/s",) * 3 + ("rad/s^2",) * extra
        return SensorRows(
            labels[: 6 + extra], units, mount.body, terms, add_bias(base, velocities)
        )
