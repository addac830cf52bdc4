"""Inertial sensors on a body, the base, or any named frame.

Accelerations are proper: a sensor at rest reads -g, in its own coordinates. X is the transform
from the body to the sensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.system.equations import Kinematics
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import ScalarArray
from sensors.mounting import MountedSensor, add_bias
from sensors.parameters import Flag
from sensors.sensor import SensorRows

__all__ = ["Accelerometer", "AngularAccelerometer", "Gyroscope", "Imu"]

ANGULAR, LINEAR = np.eye(6)[:3], np.eye(6)[3:]


@final
@dataclass(frozen=True)
class Accelerometer(MountedSensor):
    """Proper linear acceleration of a point, three axes.

    y = [0 1] X a_body + omega x v,   (omega, v) = X v_body

    Parameters
    ----------
    frame : body or named frame that carries it (-1: the base, where it sees -g and nothing
        unknown).
    xyz, rpy : pose of the sensor within that frame, m and rad (fixed-axis roll, pitch, yaw).
    """

    kind: ClassVar[str] = "accelerometer"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = self.mount(unknowns)
        terms, bias = mount.acceleration(unknowns, LINEAR)
        bias = add_bias(bias, mount.centripetal)
        return SensorRows(("ax", "ay", "az"), ("m/s^2",) * 3, mount.body, terms, bias)


@final
@dataclass(frozen=True)
class Gyroscope(MountedSensor):
    """Angular velocity, three axes. A check of q and qd only.

    y = [1 0] X v_body

    It touches no unknown: the velocity is known from q and qd, so the reading carries no
    information on accelerations or forces, only on whether qd is right.

    Parameters
    ----------
    frame, xyz, rpy : as for :class:`Accelerometer`.
    """

    kind: ClassVar[str] = "gyroscope"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = self.mount(unknowns)
        return SensorRows(
            ("wx", "wy", "wz"),
            ("rad/s",) * 3,
            mount.body,
            (),
            lambda kin: mount.velocity(kin)[:3],
        )


@final
@dataclass(frozen=True)
class AngularAccelerometer(MountedSensor):
    """Angular acceleration, three axes.

    y = [1 0] X a_body

    Parameters
    ----------
    frame, xyz, rpy : as for :class:`Accelerometer`.
    """

    kind: ClassVar[str] = "angular_accelerometer"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = self.mount(unknowns)
        terms, bias = mount.acceleration(unknowns, ANGULAR)
        return SensorRows(("wdx", "wdy", "wdz"), ("rad/s^2",) * 3, mount.body, terms, bias)


@final
@dataclass(frozen=True)
class Imu(MountedSensor):
    """Accelerometer, gyroscope and, with ``angular``, angular accelerometer in one housing.

    y = (linear acceleration, angular velocity[, angular acceleration]), as the single sensors

    The gyroscope's three rows touch no unknown, see :class:`Gyroscope`.

    Parameters
    ----------
    frame, xyz, rpy : as for :class:`Accelerometer`.
    angular : True adds three rows of angular acceleration.
    """

    kind: ClassVar[str] = "imu"
    angular: Flag = False

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        mount = self.mount(unknowns)
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
