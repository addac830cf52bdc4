"""What Pinocchio, MuJoCo and iDynTree say of a robot's motion, in dynsys' order and axes.

Every peer answers the same questions at a state (q, qd, qdd, f^x): ``inverse`` (torque),
``forward`` (qdd from that torque), and what ``accelerometer``, ``gyroscope``, ``force`` and
``torque`` sensors at the sites read, (sites, 3) each. Pinocchio also gives its mass, inertia
matrix and Jacobians. Two answers differ by :func:`differences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from dynsys.interop import MujocoMap, PinocchioMap
from dynsys.model.tree import KinematicTree
from dynsys.recursive.kinematics import forward_kinematics
from dynsys.types import Array, IntArray
from experiments.agreement.robots import KINDS, Site

__all__ = ["Answers", "Idyntree", "Mujoco", "Pinocchio", "State", "differences"]

Answers = Mapping[str, Array]


@final
@dataclass(frozen=True, eq=False)
class State:
    """A motion at one moment: q (nq,), qd and qdd (nv,), wrenches (n_bodies, 6)."""

    q: Array
    qd: Array
    qdd: Array
    wrenches: Array

    @staticmethod
    def random(robot: KinematicTree, rng: np.random.Generator) -> State:
        """Everything of the order of one, wrenches of ten."""
        q = robot.random_configuration(rng)
        qd, qdd = rng.normal(size=(2, robot.nv))
        return State(q, qd, qdd, 10 * rng.normal(size=(robot.n_bodies, 6)))


def differences(ours: Array, reference: Array) -> Array:
    """Largest difference at each state, relative to the reference's largest entry there."""
    axes = tuple(range(1, reference.ndim))
    scale = np.maximum(np.abs(reference).max(axis=axes), 1e-300)
    return np.asarray(np.abs(ours - reference).max(axis=axes, initial=0.0) / scale)


def _readings(
    sites: Sequence[Site], motions: Sequence[Array], wrenches: Sequence[Array]
) -> Answers:
    """Readings from, per body, (w, v, w', proper classical v') and the wrench that holds it.

    a_p = a + w' x p + w x (w x p): the schoolbook formula, not the library's.
    """
    found: dict[str, list[Array]] = {kind: [] for kind in KINDS}
    for site in sites:
        (w, _, wd, a), (n, f) = (
            motions[site.body].reshape(4, 3),
            wrenches[site.body].reshape(2, 3),
        )
        E, p = np.asarray(site.transform.E), np.asarray(site.transform.r)
        found["accelerometer"].append(E @ (a + np.cross(wd, p) + np.cross(w, np.cross(w, p))))
        found["gyroscope"].append(E @ w)
        found["force"].append(E @ f)
        found["torque"].append(E @ (n - np.cross(p, f)))
    return {kind: np.array(rows) for kind, rows in found.items()}


@final
class Pinocchio:
    """Pinocchio: rnea, aba, kinematics of the joints' frames."""

    name = "pin"

    def __init__(self, robot: KinematicTree, model: Any, sites: Sequence[Site]) -> None:
        import pinocchio as pin

        self._pin, self._model, self._data = pin, model, model.createData()
        self._to, self._sites = PinocchioMap(robot, model), sites
        names = ["root_joint" if name == "root" else name for name in robot.joint_names]
        if "root" in model.names:
            names = list(robot.joint_names)
        self._joints = [model.getJointId(name) for name in names]

    def answers(self, state: State) -> Answers:
        """Everything at one state; see the module."""
        pin, model, data, to = self._pin, self._model, self._data, self._to
        q, v, a = to.q_to_pin(state.q), to.v_to_pin(state.qd), to.v_to_pin(state.qdd)
        acting = pin.StdVec_Force()
        for _ in range(model.njoints):
            acting.append(pin.Force.Zero())
        for joint, wrench in zip(self._joints, state.wrenches, strict=True):
            acting[joint] = pin.Force(np.concatenate([wrench[3:], wrench[:3]]))
        torque = np.array(pin.rnea(model, data, q, v, a, acting))
        wrenches = [_angular_first(data.f[j].vector) for j in self._joints]
        pin.forwardKinematics(model, data, q, v, a)
        motions = [self._motion(j) for j in self._joints]
        qdd = np.array(pin.aba(model, data, q, v, torque, acting))
        return {
            "inverse": to.tau_from_pin(torque),
            "forward": to.v_from_pin(qdd),
            **_readings(self._sites, motions, wrenches),
        }

    @property
    def mass(self) -> float:
        """Of the whole robot, kg."""
        return float(self._pin.computeTotalMass(self._model))

    def inertia(self, q: Array) -> Array:
        """H (nv, nv) at q."""
        upper = self._pin.crba(self._model, self._data, self._to.q_to_pin(q))
        return np.asarray(
            (np.triu(upper) + np.triu(upper, 1).T)[np.ix_(self._order, self._order)]
        )

    def jacobians(self, q: Array) -> Array:
        """Body Jacobians (n_bodies, 6, nv) of all joints at q, angular rows first."""
        pin, model, data = self._pin, self._model, self._data
        pin.computeJointJacobians(model, data, self._to.q_to_pin(q))
        local = pin.ReferenceFrame.LOCAL
        found = np.array([pin.getJointJacobian(model, data, j, local) for j in self._joints])
        return found[:, [3, 4, 5, 0, 1, 2]][:, :, self._order]

    @property
    def _order(self) -> IntArray:
        """Pinocchio's number of each of our velocities."""
        return self._to.v_from_pin(np.arange(self._model.nv, dtype=np.float64)).astype(np.intp)

    def _motion(self, joint: int) -> Array:
        v, R = self._data.v[joint], self._data.oMi[joint].rotation
        a = self._pin.getClassicalAcceleration(
            self._model, self._data, joint, self._pin.ReferenceFrame.LOCAL
        )
        proper = a.linear - R.T @ self._model.gravity.linear
        return np.concatenate([v.angular, v.linear, a.angular, proper])


def _angular_first(x: Any) -> Array:
    return np.concatenate([np.asarray(x)[3:], np.asarray(x)[:3]])


@final
class Mujoco:
    """MuJoCo: mj_inverse, mj_forward with that force applied, and its own sensors at sites."""

    name = "mujoco"

    def __init__(self, robot: KinematicTree, mjcf: str, sites: Sequence[Site]) -> None:
        import mujoco

        self._mj, self._robot, self._sites = mujoco, robot, sites
        self.model = mujoco.MjModel.from_xml_string(mjcf)
        self._data = mujoco.MjData(self.model)
        self.map = MujocoMap(robot, self.model)
        self._bodies = [self.model.body(name).id for name in robot.body_names]

    def answers(self, state: State) -> Answers:
        """Everything at one state; see the module."""
        mj, model, data, to = self._mj, self.model, self._data, self.map
        data.qpos[:] = to.q_to_mujoco(state.q)
        data.qvel[:] = to.v_to_mujoco(state.q, state.qd)
        data.qacc[:] = to.a_to_mujoco(state.q, state.qd, state.qdd)
        data.xfrc_applied[:] = 0
        mj.mj_kinematics(model, data)
        for body, wrench in zip(self._bodies, state.wrenches, strict=True):
            R = data.xmat[body].reshape(3, 3)
            arm = data.xipos[body] - data.xpos[body]
            force = R @ wrench[3:]
            data.xfrc_applied[body, :3] = force
            data.xfrc_applied[body, 3:] = R @ wrench[:3] - np.cross(arm, force)
        mj.mj_inverse(model, data)
        needed = np.array(data.qfrc_inverse)
        for body in self._bodies:  # mj_inverse leaves applied forces in its answer
            mj.mj_applyFT(
                model,
                data,
                -data.xfrc_applied[body, :3],
                -data.xfrc_applied[body, 3:],
                data.xipos[body],
                body,
                needed,
            )
        data.qfrc_applied[:] = needed
        mj.mj_forward(model, data)
        return {
            "inverse": to.tau_from_mujoco(state.q, needed),
            "forward": to.a_from_mujoco(state.q, state.qd, np.array(data.qacc)),
            **{kind: self._sensor(kind) for kind in KINDS},
        }

    def _sensor(self, kind: str) -> Array:
        return np.array([self._data.sensor(f"{kind}_{site.body}").data for site in self._sites])


@final
class Idyntree:
    """iDynTree: inverse dynamics with internal wrenches; qdd from its mass matrix and bias."""

    name = "idyntree"

    def __init__(self, robot: KinematicTree, urdf: Path, sites: Sequence[Site]) -> None:
        import idyntree.swig as idt

        self._idt, self._robot, self._sites = idt, robot, sites
        self._dynamics = idt.KinDynComputations()
        loader = idt.ModelLoader()
        if not loader.loadModelFromFile(str(urdf)):
            raise OSError(f"iDynTree cannot read {urdf}")
        self._keep = loader, loader.model()
        if not self._dynamics.loadRobotModel(loader.model()):
            raise OSError(f"iDynTree cannot use {urdf}")
        self._dynamics.setFrameVelocityRepresentation(idt.BODY_FIXED_REPRESENTATION)
        model = self._dynamics.model()
        self._floating = robot.joint_names[0] == "root"
        self._moving = [i for i in range(robot.n_bodies) if robot.joint_names[i] != "root"]
        self._dof = [
            model.getJoint(model.getJointIndex(robot.joint_names[i])).getDOFsOffset()
            for i in self._moving
        ]
        self._own = [robot.v_slices()[i].start for i in self._moving]
        self._links = [self._link(model, name) for name in robot.body_names]
        self._n = model.getNrOfDOFs()

    def _link(self, model: Any, name: str) -> int:
        """Number of a link; a weightless root is only a frame there, of the link it carries."""
        if not model.isFrameNameUsed(name):
            raise ValueError(f"iDynTree's model has no link {name!r}")
        frame = model.getFrameIndex(name)
        if frame < model.getNrOfLinks():
            return int(frame)
        if not np.allclose(
            model.getFrameTransform(frame).asHomogeneousTransform().toNumPy(), np.eye(4)
        ):
            raise ValueError(f"iDynTree's link differs from {name!r} by a pose")
        return int(model.getFrameLink(frame))

    def _joint_vector(self, values: Array) -> Any:
        out = np.zeros(self._n)
        out[self._dof] = values
        return out

    def answers(self, state: State) -> Answers:
        """Everything at one state; see the module."""
        idt, robot = self._idt, self._robot
        q = state.q[[robot.q_slices()[i].start for i in self._moving]]
        base = self._base(state.q)
        twist, acceleration = (self._base_vector(x) for x in (state.qd, state.qdd))
        gravity = idt.Vector3.FromPython(list(map(float, robot.gravity)))
        self._dynamics.setRobotState(
            base,
            idt.VectorDynSize.FromPython(self._joint_vector(q)),
            idt.Twist.FromPython(twist),
            idt.VectorDynSize.FromPython(self._joint_vector(state.qd[self._own])),
            gravity,
        )
        qdd = idt.VectorDynSize.FromPython(self._joint_vector(state.qdd[self._own]))
        base_acceleration = idt.Vector6.FromPython(acceleration)
        torque, held = self._inverse(base_acceleration, qdd, state.wrenches)
        motions = [self._motion(link, base_acceleration, qdd) for link in self._links]
        return {
            "inverse": torque,
            "forward": self._forward(torque, state.wrenches),
            **_readings(self._sites, motions, held),
        }

    def _base(self, q: Array) -> Any:
        idt = self._idt
        if not self._floating:
            return idt.Transform.Identity()
        pose = forward_kinematics(self._robot, q, 0)
        rotation = idt.Rotation.FromPython(np.asarray(pose.E).T)
        return idt.Transform(rotation, idt.Position.FromPython(np.asarray(pose.r)))

    def _base_vector(self, v: Array) -> Array:
        return _angular_first(v[:6]) if self._floating else np.zeros(6)

    def _wrenches(self, wrenches: Array) -> Any:
        idt = self._idt
        acting = idt.LinkWrenches(self._dynamics.model())
        acting.zero()
        for link, wrench in zip(self._links, wrenches, strict=True):
            there = acting(link)  # a reference: the bindings cannot assign
            for k, value in enumerate(_angular_first(wrench)):
                there.setVal(k, float(value))
        return acting

    def _inverse(self, base: Any, qdd: Any, wrenches: Array) -> tuple[Array, list[Array]]:
        idt, model = self._idt, self._dynamics.model()
        out = idt.FreeFloatingGeneralizedTorques(model)
        inner = idt.LinkWrenches(model)
        self._dynamics.inverseDynamicsWithInternalJointForceTorques(
            base, qdd, self._wrenches(wrenches), out, inner
        )
        joints = out.jointTorques().toNumPy()[self._dof]
        torque = np.zeros(self._robot.nv)
        torque[self._own] = joints
        if self._floating:
            torque[:6] = _angular_first(out.baseWrench().toNumPy())
        held = [_angular_first(inner(link).toNumPy()) for link in self._links]
        if self._floating:  # what holds the base is no internal wrench there
            held[0] = torque[:6]
        return torque, held

    def _forward(self, torque: Array, wrenches: Array) -> Array:
        """Qdd = M^-1 (torque - h - J^T f)."""
        idt, model = self._idt, self._dynamics.model()
        M = idt.MatrixDynSize()
        self._dynamics.getFreeFloatingMassMatrix(M)
        h = idt.FreeFloatingGeneralizedTorques(model)
        self._dynamics.generalizedBiasForces(h)
        e = idt.FreeFloatingGeneralizedTorques(model)
        self._dynamics.generalizedExternalForces(self._wrenches(wrenches), e)
        rest = np.concatenate(
            [
                h.baseWrench().toNumPy() + e.baseWrench().toNumPy(),
                h.jointTorques().toNumPy() + e.jointTorques().toNumPy(),
            ]
        )
        force = np.zeros(6 + self._n)
        force[[6 + k for k in self._dof]] = torque[self._own]
        if self._floating:
            force[:6] = _angular_first(torque[:6])
        first = 0 if self._floating else 6
        qdd = np.linalg.solve(M.toNumPy()[first:, first:], (force - rest)[first:])
        out = np.zeros(self._robot.nv)
        out[self._own] = qdd[[6 - first + k for k in self._dof]]
        if self._floating:
            out[:6] = _angular_first(qdd[:6])
        return out

    def _motion(self, link: int, base: Any, qdd: Any) -> Array:
        v = _angular_first(self._dynamics.getFrameVel(link).toNumPy())
        a = _angular_first(self._dynamics.getFrameAcc(link, base, qdd).toNumPy())
        R = self._dynamics.getWorldTransform(link).getRotation().toNumPy()
        classical = a[3:] + np.cross(v[:3], v[3:])
        return np.concatenate([v, a[:3], classical - R.T @ self._robot.gravity])
