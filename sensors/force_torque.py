"""Six-axis force/torque sensor at a joint, or in a fixed joint within a body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import numpy as np

from dynsys.model.spatial import Transform, cross_force
from dynsys.model.tree import Weld
from dynsys.system.equations import (
    Kinematics,
    Term,
    Values,
    carrying_size,
    product_size,
    vector_size,
)
from dynsys.system.size import without_rounding
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors.mounting import Mount, add_bias, offset, wrench_matrix
from sensors.parameters import AXES, Components, JointOrWeld, Vector3, choice
from sensors.sensor import AbstractSensor, SensorRows

__all__ = ["TOUCHED", "ForceTorque", "wrench_units"]

TOUCHED = "touched"
"""The side on which the layout says that the body is touched."""


def wrench_units(components: tuple[str, ...]) -> tuple[str, ...]:
    """Unit of each component of a wrench."""
    return tuple("N m" if component.startswith("t") else "N" for component in components)


@final
@dataclass(frozen=True)
class ForceTorque(AbstractSensor):
    """Wrench through a joint, moment about the sensor's origin, in the sensor's coordinates.

    y = X^-T f_joint
    y = X^-T (I_P a + v x* I_P v - f^x + sum over children of P  X_j^T f_j)   at a fixed joint

    The second form cuts a body at a fixed joint that its reader folded away: P is the part of
    the body beyond the cut, f^x the body's external wrench if it acts on that part: a layout
    finds that from the frames it names (:mod:`sensors.sides`). Contacts of the robot beyond the
    cut are children of P.

    Parameters
    ----------
    at : joint, fixed joint, or the link a fixed joint carries.
    components : which of tx ty tz fx fy fz are measured.
    xyz, rpy : pose of the sensor in the frame of the link beyond the joint, m and rad.
    measures : ``on_child``: the wrench that the side of the base exerts on the side beyond, as
        ``joint_wrench`` (a hand hanging still reads its weight upwards); ``on_parent``: its
        reaction.
    external : at a fixed joint, whether the external wrench of the body acts ``beyond`` the
        sensor (a foot, a hand) or ``before`` it; ``touched``: where the layout names the frame
        that is touched. Contacts (``contacts`` of a layout) act where their links are: where
        both can happen, name one on each side.
    """

    kind: ClassVar[str] = "force_torque"
    at: JointOrWeld
    components: Components = AXES
    xyz: Vector3 = (0.0, 0.0, 0.0)
    rpy: Vector3 = (0.0, 0.0, 0.0)
    measures: Annotated[str, choice("on_child", "on_parent")] = "on_child"
    external: Annotated[str, choice(TOUCHED, "beyond", "before")] = TOUCHED

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot, components = unknowns.robot, tuple(self.components)
        if self.at in robot.joint_names:
            body = robot.joint_index(self.at)
            select = self._select(offset(self.xyz, self.rpy))
            terms = [Term.constant(unknowns.block("joint_wrench", body), select)]
            bias = None
        else:
            weld = robot.welds[self.at]
            body = weld.body
            select = self._select(weld.transform.then(offset(self.xyz, self.rpy)))
            terms, bias = self._cut(unknowns, weld, select)
        return SensorRows(components, wrench_units(components), body, tuple(terms), bias)

    def _select(self, to_sensor: Transform) -> Array:
        """Rows of +-X^-T (size, 6) that the sensor gives."""
        sign = 1.0 if self.measures == "on_child" else -1.0
        size = carrying_size(float(np.linalg.norm(to_sensor.r))).T
        whole = sign * without_rounding(wrench_matrix(to_sensor), size)
        return whole[[AXES.index(c) for c in self.components]]

    def _cut(
        self, unknowns: UnknownLayout, weld: Weld, select: Array
    ) -> tuple[list[Term], Values | None]:
        """Balance of the part beyond a fixed joint, in body coordinates, seen by ``select``."""
        inertia = weld.inertia.matrix()
        body = Mount(weld.body, Transform.identity())
        own, gravity = body.acceleration(unknowns, select @ inertia)
        terms = list(own)
        if self.external != "before" and weld.body >= 0:
            terms.append(body.external_wrench(unknowns, -select))
        terms.extend(_child_wrench(unknowns, j, select) for j in weld.children)

        def gyroscopic(kin: Kinematics) -> ScalarArray:
            v = body.velocity(kin)
            wrench: ScalarArray = select @ cross_force(v, inertia @ v)
            return wrench

        return terms, add_bias(gravity, gyroscopic)


def _child_wrench(unknowns: UnknownLayout, j: int, select: Array) -> Term:
    """Select X_j^T f_j: the wrench that holds child j."""
    pattern = (select != 0) @ unknowns.robot.transform_pattern[j].T

    def value(kin: Kinematics) -> ScalarArray:
        return np.asarray(select @ kin.X_up[j].T)

    def size(kin: Kinematics) -> Array:
        return product_size(vector_size(select, rows=False), carrying_size(kin.arms[j]).T)

    return Term(unknowns.block("joint_wrench", j), pattern, value, size)
