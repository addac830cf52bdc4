"""Sensors of a joint: torque and acceleration, on the link's or on the motor's side; mimic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.system.equations import Kinematics, Term
from dynsys.system.unknowns import UnknownLayout
from dynsys.types import Array, ScalarArray
from sensors.parameters import Freedom, JointName, Number, Positive, Values
from sensors.sensor import AbstractSensor, SensorRows

__all__ = [
    "JointAcceleration",
    "JointTorque",
    "MimicConstraint",
    "MotorAcceleration",
    "MotorTorque",
]


def _freedoms(robot: KinematicTree, joint: str, component: int | None) -> tuple[int, ...]:
    """Freedoms of the joint that a sensor sees."""
    nv = robot.joints[robot.joint_index(joint)].nv
    if nv == 0:
        raise ValueError(f"joint {joint!r} has no freedom")
    if component is not None and component >= nv:
        raise ValueError(f"joint {joint!r} has freedoms 0..{nv - 1}, no component {component}")
    return tuple(range(nv)) if component is None else (component,)


def _check_value(value: float | Sequence[float] | None, seen: tuple[int, ...]) -> None:
    if isinstance(value, Sequence) and len(value) != len(seen):
        raise ValueError(f"value has {len(value)} numbers, not {len(seen)}")


def _turns(robot: KinematicTree, joint: str, freedoms: tuple[int, ...]) -> list[bool]:
    """Tell for each freedom whether it turns (else it slides)."""
    S = robot.joints[robot.joint_index(joint)].S
    return [bool(S[:3, k].any()) for k in freedoms]


def _labels(what: str, robot: KinematicTree, joint: str, seen: tuple[int, ...]) -> list[str]:
    single = robot.joints[robot.joint_index(joint)].nv == 1
    return [what if single else f"{what}[{k}]" for k in seen]


def _acceleration_term(unknowns: UnknownLayout, joint: str, seen: tuple[int, ...]) -> Term:
    """Acceleration of the joint itself: ratio * qdd of its leader where it is coupled."""
    i = unknowns.robot.joint_index(joint)
    coupling = unknowns.robot.bodies[i].coupling
    ratio = 1.0 if coupling is None else coupling.ratio
    unknown = unknowns.block("qdd", i)
    return Term.constant(unknown, ratio * np.eye(unknown.size)[list(seen)])


def _torque_term(unknowns: UnknownLayout, joint: str, seen: tuple[int, ...]) -> Term:
    """Torque of the joint; S^T f where it is coupled: its torque is no unknown of its own."""
    i = unknowns.robot.joint_index(joint)
    if unknowns.robot.bodies[i].coupling is None:
        unknown = unknowns.block("torque", i)
        return Term.constant(unknown, np.eye(unknown.size)[list(seen)])
    S = unknowns.robot.joints[i].S
    return Term.constant(unknowns.block("joint_wrench", i), S.T[list(seen)])


@final
@dataclass(frozen=True)
class JointTorque(AbstractSensor):
    """Torque (force, for sliding joints) of a joint.

    y = tau_i

    tau is what the drive puts into link and rotor, friction already taken off. For a joint
    coupled to another (mimic) it is S^T f_i, the part of its own wrench along its freedom.

    Parameters
    ----------
    joint : its name.
    component : one of its freedoms, counted from 0; None for all of them.
    value : what it is known to be, so that no data are needed; exact unless ``std`` is given.
    """

    kind: ClassVar[str] = "joint_torque"
    joint: JointName
    component: Freedom = None
    value: Values = None

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot, i = unknowns.robot, unknowns.robot.joint_index(self.joint)
        seen = _freedoms(robot, self.joint, self.component)
        _check_value(self.value, seen)
        term = _torque_term(unknowns, self.joint, seen)
        whole = term.unknown.kind == "torque" and len(seen) == term.unknown.size
        return SensorRows(
            labels=tuple(_labels("torque", robot, self.joint, seen)),
            units=tuple("N m" if turn else "N" for turn in _turns(robot, self.joint, seen)),
            body=i,
            terms=(term,),
            dual=term.unknown if whole else None,
        )

    def constant(self, size: int) -> Array | None:
        return None if self.value is None else np.broadcast_to(self.value, (size,)).copy()


@final
@dataclass(frozen=True)
class JointAcceleration(AbstractSensor):
    """Acceleration of a joint.

    y = qdd_i

    Parameters
    ----------
    joint : its name.
    component : one of its freedoms, counted from 0; None for all of them.
    value : what it is known to be, so that no data are needed; exact unless ``std`` is given.
    """

    kind: ClassVar[str] = "joint_acceleration"
    joint: JointName
    component: Freedom = None
    value: Values = None

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot, i = unknowns.robot, unknowns.robot.joint_index(self.joint)
        seen = _freedoms(robot, self.joint, self.component)
        _check_value(self.value, seen)
        term = _acceleration_term(unknowns, self.joint, seen)
        whole = term.unknown.body == i and len(seen) == term.unknown.size
        turns = _turns(robot, self.joint, seen)
        return SensorRows(
            labels=tuple(_labels("acceleration", robot, self.joint, seen)),
            units=tuple("rad/s^2" if turn else "m/s^2" for turn in turns),
            body=i,
            terms=(term,),
            dual=unknowns.block("torque", i) if whole else None,
        )

    def constant(self, size: int) -> Array | None:
        return None if self.value is None else np.broadcast_to(self.value, (size,)).copy()


@final
@dataclass(frozen=True)
class MotorTorque(AbstractSensor):
    """Torque of a motor in front of its gear, friction known.

    y = (tau + viscous qd + coulomb s(qd)) / gear_ratio + rotor_inertia gear_ratio qdd

    with the smooth sign s(v) = v / sqrt(v^2 + smoothing^2). Friction depends on qd alone and is
    part of the bias. Give ``rotor_inertia`` only where the robot's armature does not hold it:
    tau already drives the armature.

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
    smoothing: Positive = 0.01
    rotor_inertia: Number = 0.0

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot, i = unknowns.robot, unknowns.robot.joint_index(self.joint)
        seen = _freedoms(robot, self.joint, self.component)
        _check_ratio(self.gear_ratio)
        torque = _torque_term(unknowns, self.joint, seen)
        terms = [Term.constant(torque.unknown, _value(torque) / self.gear_ratio)]
        if self.rotor_inertia:
            qdd = _acceleration_term(unknowns, self.joint, seen)
            inertia = self.rotor_inertia * self.gear_ratio
            terms.append(Term.constant(qdd.unknown, inertia * _value(qdd)))
        coupling = robot.bodies[i].coupling
        ratio = 1.0 if coupling is None else coupling.ratio
        freedoms = np.arange(unknowns.freedoms[i].start, unknowns.freedoms[i].stop)[list(seen)]

        def friction(kin: Kinematics) -> ScalarArray:
            v = ratio * kin.qd[freedoms]
            dry = v / np.sqrt(v * v + self.smoothing**2)
            loss: ScalarArray = self.viscous * v + self.coulomb * dry
            return loss / self.gear_ratio

        return SensorRows(
            labels=tuple(_labels("motor_torque", robot, self.joint, seen)),
            units=tuple("N m" if turn else "N" for turn in _turns(robot, self.joint, seen)),
            body=i,
            terms=tuple(terms),
            bias=friction if self.viscous or self.coulomb else None,
        )


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
        robot, i = unknowns.robot, unknowns.robot.joint_index(self.joint)
        seen = _freedoms(robot, self.joint, self.component)
        _check_ratio(self.gear_ratio)
        qdd = _acceleration_term(unknowns, self.joint, seen)
        turns = _turns(robot, self.joint, seen)
        return SensorRows(
            labels=tuple(_labels("motor_acceleration", robot, self.joint, seen)),
            units=tuple("rad/s^2" if turn else "m/s^2" for turn in turns),
            body=i,
            terms=(Term.constant(qdd.unknown, self.gear_ratio * _value(qdd)),),
        )


@final
@dataclass(frozen=True)
class MimicConstraint(AbstractSensor):
    """A joint that follows another one: position = ratio * (position of leader) + offset.

    y = qdd_joint - ratio qdd_leader = 0

    For joints that were loaded as independent; their torques stay separate unknowns.
    """

    kind: ClassVar[str] = "mimic_constraint"
    joint: JointName
    leader: JointName
    ratio: Number = 1.0

    def rows(self, unknowns: UnknownLayout) -> SensorRows:
        robot = unknowns.robot
        follower, leader = (
            _acceleration_term(unknowns, name, _freedoms(robot, name, None))
            for name in (self.joint, self.leader)
        )
        if follower.unknown is leader.unknown:
            raise ValueError("the two joints move as one already")
        if follower.pattern.shape[0] != leader.pattern.shape[0]:
            raise ValueError("the two joints have different numbers of freedoms")
        seen = tuple(range(follower.pattern.shape[0]))
        turns = _turns(robot, self.joint, seen)
        return SensorRows(
            labels=tuple(_labels("slip", robot, self.joint, seen)),
            units=tuple("rad/s^2" if turn else "m/s^2" for turn in turns),
            body=robot.joint_index(self.joint),
            terms=(follower, Term.constant(leader.unknown, -self.ratio * _value(leader))),
        )

    def constant(self, size: int) -> Array:
        return np.zeros(size)


def _value(term: Term) -> Array:
    assert not callable(term.value)
    return term.value


def _check_ratio(ratio: float) -> None:
    if ratio == 0:
        raise ValueError("gear_ratio must not be zero")
