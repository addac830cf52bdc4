"""What robots and their sensors say, by their documentation alone: it shares no code with them.

Newton and Euler body by body, in world axes with classical accelerations; what a sensor reads,
as the documentation of its class puts it; least squares by singular values. Of the library only
data are read: of the robot masses, lengths, axes and parents, of a sensor its parameters.

A quantity that depends on the motion is an array (rows, size of z + 1) that is multiplied by
(z, 1), z = (qdd, external wrenches in body coordinates).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.spatial.transform import Rotation

import problems
import sensors
from dynsys.model.joints import AbstractJoint
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, BoolArray
from sensors.sensor import AbstractConstraint, AbstractSensor

__all__ = ["Minimum", "World", "covariance", "minimum", "prior_rows", "reading"]

WRENCH = ("tx", "ty", "tz", "fx", "fy", "fz")
MOTION = ("rx", "ry", "rz", "x", "y", "z")
SEEN, ROUNDING = 1e-8, 1e-12
"""Singular values of unit rows above the first are seen, below the second they are rounding;
so are entries of rows in units of SI."""


def crossing(v: Array) -> Array:
    """Matrix (3, 3) of the product v x."""
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


# ---- joints: the table in the documentation of dynsys.model.joints ---------------------------


def _directions(axis: Array) -> tuple[Array, Array]:
    """e1 and e2 of a planar joint."""
    follows = np.eye(3)[(int(np.argmax(np.abs(axis))) + 1) % 3]
    e1 = follows - axis * (axis @ follows)
    e1 = e1 / np.linalg.norm(e1)
    return e1, np.cross(axis, e1)


def joint_place(joint: Any, q: Array) -> tuple[Array, Array]:
    """Rotation child -> joint's frame and origin of the child there."""
    still, here = np.eye(3), np.zeros(3)
    match joint.kind:
        case "fixed":
            return still, here
        case "spherical":
            return Rotation.from_quat(q).as_matrix(), here
        case "free":
            return Rotation.from_quat(q[3:]).as_matrix(), q[:3]
        case "prismatic":
            return still, joint.axis * q[0]
    turned = Rotation.from_rotvec(joint.axis * q[0]).as_matrix()
    match joint.kind:
        case "revolute":
            return turned, here
        case "helical":
            return turned, joint.axis * joint.pitch * q[0]
        case "cylindrical":
            return turned, joint.axis * q[1]
        case "planar":
            e1, e2 = _directions(joint.axis)
            return turned, e1 * q[1] + e2 * q[2]
    raise AssertionError(joint.kind)


def joint_velocity(joint: Any) -> tuple[Array, Array]:
    """Angular and linear velocity (3, nv) of the child in its own axes, of unit speeds."""
    one, none = getattr(joint, "axis", np.zeros(3)), np.zeros(3)
    match joint.kind:
        case "fixed":
            return np.zeros((3, 0)), np.zeros((3, 0))
        case "spherical":
            return np.eye(3), np.zeros((3, 3))
        case "free":
            return np.eye(6)[:3], np.eye(6)[3:]
        case "revolute":
            columns = [(one, none)]
        case "prismatic":
            columns = [(none, one)]
        case "helical":
            columns = [(one, one * joint.pitch)]
        case "cylindrical":
            columns = [(one, none), (none, one)]
        case "planar":
            e1, e2 = _directions(one)
            columns = [(one, none), (none, e1), (none, e2)]
        case _:
            raise AssertionError(joint.kind)
    return np.column_stack([w for w, _ in columns]), np.column_stack([v for _, v in columns])


# ---- bodies in world axes --------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Place:
    """A frame on a body (-1: the base): its axes R -> world, its origin p in the world."""

    body: int
    R: Array
    p: Array


class World:
    """All bodies of a robot at a state.

    Attributes
    ----------
    R, p, w, v : of each body rotation to the world, origin, angular and linear velocity.
    alpha, a : angular and classical linear acceleration of each body, against the base.
    force, moment : through each joint, on the child, moment about the child's origin.
    net_force, net_moment : what moves each body, the same way.
    torque : (nv, size of z + 1).
    """

    def __init__(self, robot: KinematicTree, q: Array, qd: Array) -> None:
        self.robot, self.q, self.qd = robot, q, qd
        self.size = robot.nv + 6 * robot.n_bodies
        self.R: list[Array] = []
        self.p: list[Array] = []
        self.w: list[Array] = []
        self.v: list[Array] = []
        self.alpha: list[Array] = []
        self.a: list[Array] = []
        for i in range(robot.n_bodies):
            self._move(i)
        moving = [self.inertial(i, body.inertia) for i, body in enumerate(robot.bodies)]
        self.net_force = [force for force, _ in moving]
        self.net_moment = [moment for _, moment in moving]
        self.force, self.moment = list(self.net_force), list(self.net_moment)
        self.torque = np.zeros((robot.nv, self.size + 1))
        for i in reversed(range(robot.n_bodies)):
            self._hold(i)

    def z(self, where: slice) -> Array:
        """Entries of z."""
        return np.eye(self.size + 1)[where]

    def constant(self, x: Array) -> Array:
        """Numbers that depend on no motion."""
        return np.column_stack([np.zeros((len(x), self.size)), x])

    def _joint(self, i: int) -> tuple[AbstractJoint, float, float, slice]:
        """Joint, its ratio to its leader and offset from it, its freedoms."""
        body = self.robot.bodies[i]
        law = body.coupling
        ratio, offset = (1.0, 0.0) if law is None else (law.ratio, law.offset)
        return body.joint, ratio, offset, self.robot.v_slices()[i]

    def _move(self, i: int) -> None:
        joint, ratio, offset, freedoms = self._joint(i)
        body = self.robot.bodies[i]
        position = self.q[self.robot.q_slices()[i]]
        turn, shift = joint_place(joint, ratio * position + offset)
        frame = Place(-1, np.eye(3), np.zeros(3))
        if body.parent >= 0:
            frame = Place(body.parent, self.R[body.parent], self.p[body.parent])
        origin = frame.p + frame.R @ np.asarray(body.placement.r)
        axes = frame.R @ np.asarray(body.placement.E).T
        w_0, v_0, alpha_0, a_0 = self.motion(Place(body.parent, axes, origin))
        R, arm = axes @ turn, axes @ shift
        turning, sliding = (R @ columns * ratio for columns in joint_velocity(joint))
        w_rel, v_rel = turning @ self.qd[freedoms], sliding @ self.qd[freedoms]
        qdd = self.z(freedoms)
        self.R.append(R)
        self.p.append(origin + arm)
        self.w.append(w_0 + w_rel)
        self.v.append(v_0 + np.cross(w_0, arm) + v_rel)
        self.alpha.append(alpha_0 + turning @ qdd + self.constant(np.cross(w_0, w_rel)))
        # v_rel is constant in axes that turn with w_0 + w_rel, and starts at an arm in w_0's
        drift = np.cross(w_0, np.cross(w_0, arm)) + np.cross(2 * w_0 + w_rel, v_rel)
        self.a.append(a_0 - crossing(arm) @ alpha_0 + sliding @ qdd + self.constant(drift))

    def motion(self, at: Place) -> tuple[Array, Array, Array, Array]:
        """Angular and linear velocity, angular and classical linear acceleration of a place."""
        i = at.body
        if i < 0:
            none = np.zeros((3, self.size + 1))
            return np.zeros(3), np.zeros(3), none, none
        arm, w = at.p - self.p[i], self.w[i]
        a = self.a[i] - crossing(arm) @ self.alpha[i]
        a = a + self.constant(np.cross(w, np.cross(w, arm)))
        return w, self.v[i] + np.cross(w, arm), self.alpha[i], a

    def inertial(self, i: int, inertia: Any) -> tuple[Array, Array]:
        """Force and moment about the body's origin that move a mass fixed to body i."""
        R, gravity = self.R[i], self.constant(np.asarray(self.robot.gravity))
        arm, about = R @ inertia.com, R @ inertia.about_com @ R.T
        w, _, alpha, a = self.motion(Place(i, R, self.p[i] + arm))
        force = inertia.mass * (a - gravity)
        spin = about @ alpha + self.constant(np.cross(w, about @ w))
        return force, spin + crossing(arm) @ force

    def external(self, i: int) -> tuple[Array, Array]:
        """External force and its moment about the body's origin."""
        start = self.robot.nv + 6 * i
        told = self.z(slice(start, start + 6))
        return self.R[i] @ told[3:], self.R[i] @ told[:3]

    def _hold(self, i: int) -> None:
        """Balance body i; hand on what its joint carries."""
        joint, ratio, _, freedoms = self._joint(i)
        body, robot = self.robot.bodies[i], self.robot
        force, moment = self.external(i)
        self.force[i], self.moment[i] = self.force[i] - force, self.moment[i] - moment
        if body.parent >= 0:
            arm = crossing(self.p[i] - self.p[body.parent])
            up = body.parent
            self.moment[up] = self.moment[up] + self.moment[i] + arm @ self.force[i]
            self.force[up] = self.force[up] + self.force[i]
        self.torque[freedoms] += ratio * self.joint_force(i)
        given = 0.0 if body.armature is None else np.asarray(body.armature)
        rotors = np.broadcast_to(given, (joint.nv,))
        self.torque[freedoms] += (ratio**2 * rotors)[:, None] * self.z(freedoms)
        if robot.joint_friction is not None:
            self.torque[freedoms, -1] += ratio * _friction(body, ratio * self.qd[freedoms])

    def joint_force(self, i: int) -> Array:
        """What a joint's wrench does along its freedoms: S^T f."""
        turning, sliding = (self.R[i] @ x for x in joint_velocity(self.robot.bodies[i].joint))
        return turning.T @ self.moment[i] + sliding.T @ self.force[i]

    # ---- quantities --------------------------------------------------------------------------

    def quantity(self, kind: str) -> Array:
        """All numbers of a kind, in the order of an estimate's."""
        if kind in ("torque", "qdd"):
            return self.torque if kind == "torque" else self.z(slice(0, self.robot.nv))
        return np.vstack([self.spatial(kind, i) for i in range(self.robot.n_bodies)])

    def spatial(self, kind: str, i: int, at: Place | None = None) -> Array:
        """Acceleration or wrench (6,) of a body, in its coordinates or those of a place."""
        at = at or Place(i, self.R[i], self.p[i])
        if kind == "acceleration":
            w, v, alpha, a = self.motion(at)
            moving = np.cross(w, v) + np.asarray(self.robot.gravity)
            return np.vstack([at.R.T @ alpha, at.R.T @ (a - self.constant(moving))])
        force, moment = {
            "joint_wrench": (self.force[i], self.moment[i]),
            "net_wrench": (self.net_force[i], self.net_moment[i]),
            "external_wrench": self.external(i),
        }[kind]
        return self.wrench(i, force, moment, at)

    def wrench(self, i: int, force: Array, moment: Array, at: Place) -> Array:
        """Moment and force (6,) about a place and in its axes; given about body i's origin."""
        arm = crossing(at.p - self.p[i])
        return np.vstack([at.R.T @ (moment - arm @ force), at.R.T @ force])

    def place(
        self,
        frame: Any,
        xyz: Sequence[float] = (0.0, 0.0, 0.0),
        rpy: Sequence[float] = (0.0, 0.0, 0.0),
        axes: Any = "frame",
    ) -> Place:
        """A frame moved by xyz and turned by rpy; with axes of another, turned from these."""
        found = self.robot.frame(frame)
        E, r = np.asarray(found.transform.E), np.asarray(found.transform.r)
        R, p = np.eye(3), np.zeros(3)
        if found.body >= 0:
            R, p = self.R[found.body], self.p[found.body]
        told_in = R @ E.T
        if axes == "world":
            told_in = np.eye(3)
        elif axes != "frame":
            told_in = self.place(axes).R
        turned = Rotation.from_euler("xyz", np.asarray(rpy)).as_matrix()
        origin = p + R @ (r + E.T @ np.asarray(xyz, dtype=np.float64))
        return Place(found.body, told_in @ turned, origin)


def _friction(body: Any, speed: Array) -> Array:
    """Viscous, dry and constant torque of a joint."""

    def stated(value: Any) -> Array:
        return np.broadcast_to(0.0 if value is None else np.asarray(value), speed.shape)

    forwards = stated(body.friction)
    backwards = forwards if body.friction_minus is None else stated(body.friction_minus)
    s = speed / np.sqrt(speed**2 + 0.01**2)
    dry = (forwards + backwards) / 2 * s + (forwards - backwards) / 2 * s**2
    return stated(body.damping) * speed + dry + stated(body.offset)


# ---- what sensors read: one sentence each of their documentation -----------------------------


def reading(sensor: AbstractSensor, world: World) -> Array:
    """Rows (size, size of z + 1) of a sensor without noise."""
    robot = world.robot
    match sensor:
        case sensors.JointTorque():
            return _seen(_joint_torque(world, sensor.joint), sensor.component)
        case sensors.JointAcceleration():
            return _seen(_joint_acceleration(world, sensor.joint), sensor.component)
        case sensors.MotorAcceleration():
            own = _joint_acceleration(world, sensor.joint)
            return sensor.gear_ratio * _seen(own, sensor.component)
        case sensors.MotorTorque():
            gear = sensor.gear_ratio
            rotor = sensor.rotor_inertia * gear * _joint_acceleration(world, sensor.joint)
            told = _joint_torque(world, sensor.joint) / gear + rotor
            _, ratio, _, freedoms = world._joint(robot.joint_index(sensor.joint))
            speed = ratio * world.qd[freedoms]
            dry = sensor.coulomb * speed / np.sqrt(speed**2 + sensor.smoothing**2)
            told[:, -1] += (sensor.viscous * speed + dry) / gear
            return _seen(told, sensor.component)
        case sensors.MimicConstraint():
            leads = _joint_acceleration(world, sensor.leader)
            return _joint_acceleration(world, sensor.joint) - sensor.ratio * leads
        case sensors.Accelerometer() | sensors.Gyroscope() | sensors.AngularAccelerometer():
            proper, velocity, angular = _inertial(world, sensor)
            felt = {"accelerometer": proper, "gyroscope": velocity}
            return felt.get(sensor.kind, angular)
        case sensors.Imu():
            return np.vstack(_inertial(world, sensor)[: 3 if sensor.angular else 2])
        case sensors.ForceTorque():
            return _through(world, sensor)[[WRENCH.index(c) for c in sensor.components]]
        case sensors.ExternalWrench():
            whole = _on(world, sensor, sensor.rpy, sensor.axes)
            return whole[[WRENCH.index(c) for c in sensor.components]]
        case sensors.LoadCellPlate():
            return _on(world, sensor, sensor.rpy, sensor.axes)[[0, 1, 5]]
        case sensors.FiveAxisPlate():
            return _on(world, sensor, sensor.rpy, sensor.axes)[[0, 1, 3, 4, 5]]
        case sensors.PureForce():
            return _on(world, sensor)[:3]
        case sensors.ForceAlongDirection():
            whole = _on(world, sensor, axes=sensor.axes)
            line = np.asarray(sensor.direction) / np.linalg.norm(sensor.direction)
            first = np.eye(3)[(int(np.argmax(np.abs(line))) + 1) % 3]
            first = first - line * (line @ first)
            first = first / np.linalg.norm(first)
            across = np.stack([first, np.cross(line, first)])
            return np.vstack([whole[:3], across @ whole[3:]])
        case sensors.RigidContact():
            at = world.place(sensor.frame, sensor.xyz)
            _, _, alpha, a = world.motion(at)
            R = np.eye(3) if sensor.axes == "world" else at.R
            told = np.vstack([R.T @ alpha, R.T @ a])
            allowed = MOTION if sensor.holds == "pose" else MOTION[3:]
            return told[[MOTION.index(c) for c in sensor.components if c in allowed]]
        case sensors.LoopClosure():
            return _closing(world, sensor)[[MOTION.index(c) for c in sensor.components]]
        case sensors.ActionReaction():
            one, other = world.place(sensor.frame_a), world.place(sensor.frame_b)
            pushed = world.spatial("external_wrench", other.body, one)
            return world.spatial("external_wrench", one.body, one) + pushed
        case sensors.CentreOfMassAcceleration():
            rate = sum(world.net_force[1:], start=world.net_force[0])
            gravity = np.zeros(3) if sensor.proper else np.asarray(robot.gravity)
            return rate / _mass(robot) + world.constant(gravity)
        case sensors.CentroidalMomentumRate():
            return _momentum_rate(world, world.place(sensor.axes).R)
        case sensors.LinearMeasurement():
            return _linear(world, sensor)
    raise AssertionError(sensor.kind)


def _seen(rows: Array, component: int | None) -> Array:
    return rows if component is None else rows[[component]]


def _joint_torque(world: World, joint: str) -> Array:
    """Torque of a joint; of a coupled one the part of its own wrench along its freedom."""
    i = world.robot.joint_index(joint)
    if world.robot.bodies[i].coupling is not None:
        return world.joint_force(i)
    return world.torque[world.robot.v_slices()[i]].copy()


def _joint_acceleration(world: World, joint: str) -> Array:
    _, ratio, _, freedoms = world._joint(world.robot.joint_index(joint))
    return ratio * world.z(freedoms)


def _inertial(world: World, sensor: Any) -> tuple[Array, Array, Array]:
    """Proper acceleration, angular velocity and angular acceleration in a sensor's axes."""
    at = world.place(sensor.frame, sensor.xyz, sensor.rpy)
    w, _, alpha, a = world.motion(at)
    proper = a - world.constant(np.asarray(world.robot.gravity))
    return at.R.T @ proper, world.constant(at.R.T @ w), at.R.T @ alpha


def _on(world: World, sensor: Any, rpy: Any = (0.0, 0.0, 0.0), axes: Any = "frame") -> Array:
    """External wrench of a body, about a place and in its axes."""
    at = world.place(sensor.frame, sensor.xyz, rpy, axes)
    return world.spatial("external_wrench", at.body, at)


def _through(world: World, sensor: sensors.ForceTorque) -> Array:
    """Wrench through a joint, or through a fixed one within a body."""
    robot = world.robot
    turned = Rotation.from_euler("xyz", np.asarray(sensor.rpy)).as_matrix()
    xyz = np.asarray(sensor.xyz, dtype=np.float64)
    weld = robot.welds.get(sensor.at) if sensor.at not in robot.joint_names else None
    if weld is None:
        i = robot.joint_index(sensor.at)
        R, p, force, moment = world.R[i], world.p[i], world.force[i], world.moment[i]
    else:
        i, link = weld.body, weld.transform
        R, p = world.R[i] @ np.asarray(link.E).T, world.p[i] + world.R[i] @ np.asarray(link.r)
        force, moment = world.inertial(i, weld.inertia)
        if sensor.external != "before":
            own_force, own_moment = world.external(i)
            force, moment = force - own_force, moment - own_moment
        for j in weld.children:
            arm = crossing(world.p[j] - world.p[i])
            moment = moment + world.moment[j] + arm @ world.force[j]
            force = force + world.force[j]
    sign = 1.0 if sensor.measures == "on_child" else -1.0
    return sign * world.wrench(i, force, moment, Place(i, R @ turned, p + R @ xyz))


def _closing(world: World, sensor: sensors.LoopClosure) -> Array:
    """Rate of the velocity of B against A, in axes that may turn."""
    one, other = world.place(sensor.frame_a), world.place(sensor.frame_b)
    (w_a, v_a, alpha_a, a_a), (w_b, v_b, alpha_b, a_b) = map(world.motion, (one, other))
    way, w = other.p - one.p, w_b - w_a
    v = v_b - v_a - np.cross(w_a, way)
    still = np.eye(3), np.zeros(3)
    R, turning = {"a": (one.R, w_a), "b": (other.R, w_b), "world": still}[sensor.axes]
    alpha = alpha_b - alpha_a - world.constant(np.cross(turning, w))
    a = a_b - a_a + crossing(way) @ alpha_a
    a = a - world.constant(np.cross(w_a, v_b - v_a) + np.cross(turning, v))
    return np.vstack([R.T @ alpha, R.T @ a])


def _mass(robot: KinematicTree) -> float:
    return float(sum(body.inertia.mass for body in robot.bodies))


def _momentum_rate(world: World, R: Array) -> Array:
    """Rate of the momentum of all bodies, about their centre of mass, in axes R."""
    robot, mass, centre = world.robot, _mass(world.robot), np.zeros(3)
    for body, R_i, p in zip(robot.bodies, world.R, world.p, strict=True):
        centre += body.inertia.mass / mass * (p + R_i @ body.inertia.com)
    at = Place(-1, R, centre)
    rate = np.zeros((6, world.size + 1))
    for i in range(robot.n_bodies):
        rate += world.wrench(i, world.net_force[i], world.net_moment[i], at)
    rate[3:, -1] += R.T @ (mass * np.asarray(robot.gravity))
    return rate


def _linear(world: World, sensor: sensors.LinearMeasurement) -> Array:
    """Rows with constant coefficients on named quantities."""
    robot = world.robot
    parts = []
    for kind, named in sensor.coefficients.items():
        for name, rows in named.items():
            if kind in ("torque", "qdd"):
                own = robot.v_slices()[robot.joint_index(name)]
                found = world.quantity(kind)[own]
            elif kind == "joint_wrench":
                found = world.spatial(kind, robot.joint_index(name))
            else:
                at = world.place(name)
                found = world.spatial(kind, at.body, at)
            parts.append(np.asarray(rows) @ found)
    total = np.asarray(sum(parts[1:], start=parts[0]))
    total[:, -1] += np.asarray(sensor.bias or 0.0)
    return total


# ---- noise -----------------------------------------------------------------------------------


def covariance(layout: sensors.Layout, sizes: Mapping[str, int]) -> Array:
    """Covariance of all readings; ``sizes`` has the number of rows of every sensor."""
    ends = np.cumsum([0, *sizes.values()]).tolist()
    at = {name: slice(*ends[k : k + 2]) for k, name in enumerate(sizes)}
    C = np.zeros((ends[-1], ends[-1]))
    for sensor in layout.sensors:
        C[at[sensor.name], at[sensor.name]] = _own_noise(sensor, sizes[sensor.name])
    for one, other, shared in layout.correlations:
        C[at[one], at[other]], C[at[other], at[one]] = shared, np.asarray(shared).T
    return C


def _own_noise(sensor: AbstractSensor, size: int) -> Array:
    if sensor.covariance is not None:
        return np.asarray(sensor.covariance)
    is_known = isinstance(sensor, AbstractConstraint) or hasattr(sensor, "value")
    is_known = is_known and getattr(sensor, "value", 0.0) is not None
    assumed = 0.0 if is_known else 1.0
    given = np.atleast_1d(np.asarray(assumed if sensor.std is None else sensor.std))
    if len(given) not in (1, size):
        given = given[_groups(sensor)]
    return np.diag(np.broadcast_to(given, (size,)) ** 2)


def _groups(sensor: Any) -> list[int]:
    """Number of the group of rows of one unit that each row of a sensor is in."""
    if isinstance(sensor, sensors.Imu):
        return [0] * 3 + [1] * 3 + [2] * 3 * sensor.angular
    plates = {"load_cell_plate": ("tx", "ty", "fz"), "five_axis_plate": WRENCH[:2] + WRENCH[3:]}
    names = plates.get(sensor.kind) or sensor.components
    is_linear = [name[0] not in "tr" for name in names]
    return [int(each and not all(is_linear)) for each in is_linear]


def prior_rows(prior: problems.Prior | None, world: World) -> tuple[Array, Array, Array]:
    """Rows on (z, 1), means and deviations of what is believed."""
    rows, means, stds = [np.zeros((0, world.size + 1))], [np.zeros(0)], [np.zeros(0)]
    for kind, given in {} if prior is None else prior.std.items():
        assert prior is not None and not isinstance(given, Mapping)
        found = world.quantity(kind)
        rows.append(found)
        stds.append(np.full(len(found), float(np.asarray(given))))
        means.append(np.full(len(found), float(np.asarray(prior.mean.get(kind, 0.0)))))
    return np.vstack(rows), np.concatenate(means), np.concatenate(stds)


# ---- least squares ---------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Minimum:
    """The z that fits noisy rows best while exact ones hold, by singular values.

    Attributes
    ----------
    z, deviation : one minimiser, and a factor of its covariance.
    unseen : basis of what no row sees; ``unit`` (size of z,) the size of each entry there.
    chi_square, degrees_of_freedom : of the noisy rows.
    contradiction : by how much exact rows miss each other, in parts of their size.
    even : smallest part of the largest singular value that is seen, rows at their noise.
    doubtful : whether a singular value of unit rows is neither seen nor rounding.
    """

    z: Array
    deviation: Array
    unseen: Array
    unit: Array
    chi_square: float
    degrees_of_freedom: int
    contradiction: float
    even: float
    doubtful: bool

    def determined(self, rows: Array) -> BoolArray:
        """Which quantities, rows (k, size of z + 1), are the same for all minimisers."""
        T = rows[:, :-1]
        reach = np.linalg.norm(T * self.unit, axis=1)
        return np.asarray(np.linalg.norm(T @ self.unseen, axis=1) <= SEEN * reach + ROUNDING)


def minimum(rows: Array, y: Array, C: Array) -> Minimum:
    """Best z for rows (m, size of z + 1) that read y (m,) with noise of covariance C."""
    B, c = np.where(np.abs(rows) > ROUNDING, rows, 0.0)[:, :-1], y - rows[:, -1]
    std = np.sqrt(np.diag(C))
    size = np.where(std > 0, std, _norms(B))
    spread, axes = np.linalg.eigh(C / np.outer(size, size))
    is_noisy = spread > ROUNDING
    turned, told = axes.T @ (B / size[:, None]), axes.T @ (c / size)
    weight = 1.0 / np.sqrt(spread[is_noisy])
    N, n = weight[:, None] * turned[is_noisy], weight * told[is_noisy]
    E, e = turned[~is_noisy], told[~is_noisy]
    E, e = E / _norms(E)[:, None], e / _norms(E)
    unit = 1.0 / _norms(np.vstack([E, N / _norms(N)[:, None]]).T)
    E, N = E * unit, N * unit
    everything = np.vstack([E / _norms(E)[:, None], N / _norms(N)[:, None]])
    rank, _, V, seen = _singular(everything)
    fixed, U, W, held = _singular(E / _norms(E)[:, None])
    x = W[:fixed].T @ (U[:, :fixed].T @ (e / _norms(E)) / held[:fixed])
    missed = np.abs(E @ x - e) / (np.abs(E) @ np.abs(x) + np.abs(e) + _norms(E))
    left, free = W[fixed:].T, rank - fixed
    U, s, Vt = np.linalg.svd(N @ left, full_matrices=False)
    w = Vt[:free].T @ ((U[:, :free].T @ (n - N @ x)) / s[:free])
    residual = n - N @ (x + left @ w)
    others = np.concatenate([seen[rank:], held[fixed:]])
    least = min(seen[:rank].min(initial=1.0), held[:fixed].min(initial=1.0))
    even = s[:free].min(initial=1.0) / s[:free].max(initial=1.0)
    return Minimum(
        z=unit * (x + left @ w),
        deviation=unit[:, None] * (left @ (Vt[:free].T / s[:free])),
        unseen=unit[:, None] * V[rank:].T,
        unit=unit,
        chi_square=float(residual @ residual),
        degrees_of_freedom=len(n) - free,
        contradiction=float(missed.max(initial=0.0)),
        even=float(min(least, even)),
        doubtful=bool(others.max(initial=0.0) > ROUNDING or least < SEEN),
    )


def _norms(rows: Array) -> Array:
    """Length of every row, one for a row of zeros."""
    norms = np.linalg.norm(rows, axis=1)
    return np.where(norms > 0, norms, 1.0)


def _singular(rows: Array) -> tuple[int, Array, Array, Array]:
    """Rank, U, V^T and the singular values."""
    U, s, Vt = np.linalg.svd(rows, full_matrices=True)
    largest = max(float(s.max(initial=0.0)), 1.0)
    return int((s > SEEN * largest).sum()), U, Vt, s
