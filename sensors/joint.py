"""Sensors of a joint: torque and acceleration, on the link's or on the motor's side; mimic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.model.parameters import SMOOTHING, friction_torque
from dynsys.system.equations import Kinematics, Term
from dynsys.system.equations import Values as BiasFunction
from dynsys.system.unknowns import UnknownBlock, UnknownLayout
from dynsys.types import ScalarArray
from sensors.parameters import Freedom, JointName, Number, Positive, Values
from sensors.sensor import AbstractConstraint, AbstractSensor, KnownSensor, SensorRows

__all__ = [
    "JointAcceleration",
    "JointTorque",
    "MimicConstraint",
    "MotorAcceleration",
    "MotorTorque",
]


TORQUE, ACCELERATION = ("N m", "N"), ("rad/s^2", "m/s^2")
"""Units of a freedom that turns, and of one that slides."""


@final
@dataclass(frozen=True, eq=False)
class _Freedoms:
    """Freedoms ``seen`` of joint number ``i``: what a sensor at a joint measures."""

    unknowns: UnknownLayout
    i: int
    seen: list[int]

    @staticmethod
    def of(unknowns: UnknownLayout, joint: str, component: int | None = None) -> _Freedoms:
        """All freedoms of the named joint, or one of them."""
        i = unknowns.robot.joint_index(joint)
        nv = unknowns.robot.joints[i].nv
        if nv == 0:
            raise ValueError(f"joint {joint!r} has no freedom")
        if component is not None and component >= nv:
            raise ValueError(
                f"joint {joint!r} has freedoms 0..{nv - 1}, no component {component}"
            )
        return _Freedoms(unknowns, i, list(range(nv)) if component is None else [component])

    @property
    def ratio(self) -> float:
        """Of the joint to its leader where it is coupled, else 1."""
        coupling = self.unknowns.robot.bodies[self.i].coupling
        return 1.0 if coupling is None else coupling.ratio

    @property
    def has_friction(self) -> bool:
        """Whether the joint's torque holds friction of its own."""
        robot = self.unknowns.robot
        body = robot.bodies[self.i]
        stated = (body.damping, body.friction, body.friction_minus)
        return (
            robot.joint_friction is not None
            and body.coupling is None
            and any(value is not None and np.any(value) for value in stated)
        )

    def acceleration(self, factor: float = 1.0) -> Term:
        """Factor times the joint's own acceleration: ratio * qdd of its leader if coupled."""
        unknown = self.unknowns.block("qdd", self.i)
        return Term.constant(unknown, factor * (self.ratio * np.eye(unknown.size)[self.seen]))

    def torque(self, gear: float = 1.0) -> Term:
        """Torque in front of a gear; of a coupled joint S^T f: its torque is no own unknown."""
        robot, i = self.unknowns.robot, self.i
        if robot.bodies[i].coupling is None:
            unknown = self.unknowns.block("torque", i)
            return Term.constant(unknown, np.eye(unknown.size)[self.seen] / gear)
        wrench = self.unknowns.block("joint_wrench", i)
        return Term.constant(wrench, robot.joints[i].S.T[self.seen] / gear)

    def rows(
        self,
        what: str,
        units: tuple[str, str],
        terms: Sequence[Term],
        bias: BiasFunction | None = None,
        dual: UnknownBlock | None = None,
    ) -> SensorRows:
        """Rows called ``what``, numbered where the joint has several freedoms."""
        joint = self.unknowns.robot.joints[self.i]
        return SensorRows(
            tuple(what if joint.nv == 1 else f"{what}[{k}]" for k in self.seen),
            tuple(units[0] if joint.S[:3, k].any() else units[1] for k in self.seen),
            self.i,
            tuple(terms),
            bias,
            dual,
        )


@dataclass(frozen=True)
class _JointQuantity(KnownSensor):
    """Torque or acceleration of a joint, measured or known.

    Parameters
    ----------
    joint : its name.
    component : one of its freedoms, counted from 0; None for all of them.
    value : what it is known to be, so that no data are needed; exact unless ``std`` is given.
    """

    joint: JointName
    component: Freedom = None
    value: Values = None


@final
@dataclass(frozen=True)
class JointTorque(_JointQuantity):
    """Torque (force, for sliding joints) of a joint.

    y = tau_i

    tau is what the drive puts into link and rotor, friction already taken off; of a robot with
    friction in its equations (``friction="file"``) it is all that the drive gives. For a joint
    coupled to another (mimic) it is S^T f_i, the part of its own wrench along its freedom.

    Parameters
    ----------
    joint : its name.
    component : one of its freedoms, counted from 0; None for all of them.
    value : what it is known to be, so that no data are needed; exact unless ``std`` is given.
    """

    kind: ClassVar[str] = "joint_torque"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        at = _Freedoms.of(unknowns, self.joint, self.component)
        term = at.torque()
        whole = term.unknown.kind == "torque" and len(at.seen) == term.unknown.size
        return at.rows("torque", TORQUE, [term], dual=term.unknown if whole else None)


@final
@dataclass(frozen=True)
class JointAcceleration(_JointQuantity):
    """Acceleration of a joint.

    y = qdd_i

    Parameters
    ----------
    joint, component, value : as for :class:`JointTorque`.
    """

    kind: ClassVar[str] = "joint_acceleration"

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        at = _Freedoms.of(unknowns, self.joint, self.component)
        term = at.acceleration()
        whole = term.unknown.body == at.i and len(at.seen) == term.unknown.size
        dual = unknowns.block("torque", at.i) if whole else None
        return at.rows("acceleration", ACCELERATION, [term], dual=dual)


@final
@dataclass(frozen=True)
class MotorTorque(AbstractSensor):
    """Torque of a motor in front of its gear, friction known.

    y = (tau + viscous qd + coulomb s(qd)) / gear_ratio + rotor_inertia gear_ratio qdd

    with the smooth sign s(v) = v / sqrt(v^2 + smoothing^2). Friction depends on qd alone and is
    part of the bias. Give ``rotor_inertia`` and friction only where the robot's equations do
    not hold them: tau already drives the armature, and overcomes the friction of a robot that
    has it (``friction="file"``).

    Parameters
    ----------
    joint, component : as for :class:`JointTorque`.
    gear_ratio : turns of the motor per turn of the joint; negative if they turn oppositely.
    viscous : viscous friction at the joint, N m s/rad.
    coulomb : dry friction at the joint, N m.
    smoothing : speed below which dry friction fades, rad/s.
    rotor_inertia : of the rotor about its own axis, kg m^2.
    """

    kind: ClassVar[str] = "motor_torque"
    joint: JointName
    gear_ratio: Number
    component: Freedom = None
    viscous: Number = 0.0
    coulomb: Number = 0.0
    smoothing: Positive = SMOOTHING
    rotor_inertia: Number = 0.0

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        at = _Freedoms.of(unknowns, self.joint, self.component)
        _check_ratio(self.gear_ratio)
        if (self.viscous or self.coulomb) and at.has_friction:
            raise ValueError(
                f"friction of joint {self.joint!r} is in the equations of robot"
                f" {unknowns.robot.name!r} already and must not count twice; give the sensor"
                " none, or take it out of the robot: friction: ignore, with_friction(False)"
            )
        terms = [at.torque(self.gear_ratio)]
        if self.rotor_inertia:
            terms.append(at.acceleration(self.rotor_inertia * self.gear_ratio))
        freedoms = unknowns.freedoms[at.i].start + np.array(at.seen)

        def friction(kin: Kinematics) -> ScalarArray:
            loss: ScalarArray = friction_torque(
                at.ratio * kin.qd[freedoms],
                *(self.viscous, self.coulomb, self.coulomb, 0.0, self.smoothing),
            )
            return loss / self.gear_ratio

        bias = friction if self.viscous or self.coulomb else None
        return at.rows("motor_torque", TORQUE, terms, bias)


@final
@dataclass(frozen=True)
class MotorAcceleration(AbstractSensor):
    """Acceleration of a motor in front of its gear.

    y = gear_ratio qdd_i

    Parameters
    ----------
    joint, component : as for :class:`JointAcceleration`.
    gear_ratio : turns of the motor per turn of the joint.
    """

    kind: ClassVar[str] = "motor_acceleration"
    joint: JointName
    gear_ratio: Number
    component: Freedom = None

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        at = _Freedoms.of(unknowns, self.joint, self.component)
        _check_ratio(self.gear_ratio)
        return at.rows("motor_acceleration", ACCELERATION, [at.acceleration(self.gear_ratio)])


@final
@dataclass(frozen=True)
class MimicConstraint(AbstractConstraint):
    """A joint that follows another one, whatever its offset from it is.

    y = qdd_joint - ratio qdd_leader = 0

    For joints that were loaded as independent; their torques stay separate unknowns.
    """

    kind: ClassVar[str] = "mimic_constraint"
    joint: JointName
    leader: JointName
    ratio: Number = 1.0

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        follower, leader = (_Freedoms.of(unknowns, name) for name in (self.joint, self.leader))
        terms = [follower.acceleration(), leader.acceleration(-self.ratio)]
        if terms[0].unknown is terms[1].unknown:
            raise ValueError("the two joints move as one already")
        if len(follower.seen) != len(leader.seen):
            raise ValueError("the two joints have different numbers of freedoms")
        return follower.rows("slip", ACCELERATION, terms)


def _check_ratio(ratio: float) -> None:
    if ratio == 0:
        raise ValueError("gear_ratio must not be zero")
