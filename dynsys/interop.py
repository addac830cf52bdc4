"""Conversion of q, v, torque and acceleration to and from Pinocchio's and MuJoCo's orders.

| joint     | dynsys q; v             | Pinocchio q; v             | MuJoCo q; v              |
|-----------|-------------------------|----------------------------|--------------------------|
| 1 freedom | q; qd                   | q, unbounded cos, sin; qd  | q; qd                    |
| spherical | x y z w; w              | x y z w; w                 | w x y z; w               |
| planar    | angle, x, y; wz, vx, vy | x, y, cos, sin; vx, vy, wz | -                        |
| free      | p, x y z w; w, v (body) | p, x y z w; v, w (body)    | p, w x y z; v (world), w |

Joints are paired by name; the floating base "root" answers to ``root_joint`` and to the only
free joint of a MuJoCo model. All conversions take leading batch axes. MuJoCo's free joint has
the linear velocity in world axes, hence its acceleration is the classical one:

    v_world = R v,    a_world = R (vdot + w x v),    torque likewise (R f, n).
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.joints import AbstractJoint, Free, Planar, Prismatic, Revolute, Spherical
from dynsys.model.readers.mjcf import BALL, FREE, HINGE, SLIDE, joint_names
from dynsys.model.readers.pinocchio import (
    ROOT_JOINT,
    Pair,
    batch,
    from_pinocchio,
    pair_up,
    pinocchio_subspace,
    velocity_maps,
    velocity_order,
)
from dynsys.model.spatial import quaternion_to_rotation
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array, ArrayLike

__all__ = ["MujocoMap", "PinocchioMap", "from_pinocchio"]


@final
class PinocchioMap:
    """Vectors of ``robot`` in the order of a ``pinocchio.Model`` and back.

    Parameters
    ----------
    robot : the dynsys robot.
    model : the Pinocchio model of the same robot, joints in any order.

    Raises
    ------
    ModelError
        if the joints differ in names, types or axes.
    """

    def __init__(self, robot: KinematicTree, model: Any) -> None:
        names = list(model.names)[1:]
        numbers = pair_up(robot, "Pinocchio", names, (ROOT_JOINT,))
        pairs: list[Pair] = []
        places = zip(robot.bodies, robot.q_slices(), robot.v_slices(), strict=True)
        for (body, q, v), k in zip(places, numbers, strict=True):
            joint = model.joints[k + 1]
            if joint.nv > 0 or body.coupling is None:
                _check_pinocchio_joint(body, joint, names[k])
                their_q = slice(joint.idx_q, joint.idx_q + joint.nq)
                their_v = slice(joint.idx_v, joint.idx_v + joint.nv)
                pairs.append(Pair(body, q, v, their_q, their_v))
        self._pairs = tuple(pairs)
        self._nq, self._nv = robot.nq, robot.nv
        self._their_nq, self._their_nv = int(model.nq), int(model.nv)
        self._T, self._V = velocity_maps(pairs, self._nv, self._their_nv)

    def q_to_pin(self, q: ArrayLike) -> Array:
        """Position (..., nq) in Pinocchio's order (..., model.nq)."""
        ours = batch(q, self._nq, "q")
        out = np.empty((*ours.shape[:-1], self._their_nq))
        for pair in self._pairs:
            out[..., pair.their_q] = _to_pinocchio(pair, pair.position(ours))
        return out

    def q_from_pin(self, q: ArrayLike) -> Array:
        """Position (..., nq) from Pinocchio's; angles of (cos, sin) in (-pi, pi]."""
        theirs = batch(q, self._their_nq, "Pinocchio's q")
        out = np.empty((*theirs.shape[:-1], self._nq))
        for pair in self._pairs:
            if pair.leads:
                out[..., pair.q] = _from_pinocchio(pair, theirs[..., pair.their_q])
        return out

    def v_to_pin(self, v: ArrayLike) -> Array:
        """Velocity or acceleration (..., nv) in Pinocchio's order."""
        return batch(v, self._nv, "v") @ self._T.T

    def v_from_pin(self, v: ArrayLike) -> Array:
        """Velocity or acceleration (..., nv) from Pinocchio's; followers are left out."""
        return batch(v, self._their_nv, "Pinocchio's v") @ self._V.T

    def tau_to_pin(self, tau: ArrayLike) -> Array:
        """Torque (..., nv) in Pinocchio's order; coupled followers get none."""
        return batch(tau, self._nv, "tau") @ self._V

    def tau_from_pin(self, tau: ArrayLike) -> Array:
        """Torque (..., nv) from Pinocchio's; a leader feels its followers by their ratio."""
        return batch(tau, self._their_nv, "Pinocchio's tau") @ self._T


def _check_pinocchio_joint(body: Body, joint: Any, name: str) -> None:
    sizes = {(body.joint.nq, body.joint.nv)}
    if isinstance(body.joint, Revolute):
        sizes.add((2, 1))
    if isinstance(body.joint, Planar):
        sizes = {(4, 3)}
    if (joint.nq, joint.nv) not in sizes:
        raise ModelError(
            f"joint {name!r} is {body.joint.kind} here but {joint.shortname()} in Pinocchio"
        )
    S = body.joint.S[:, velocity_order(body.joint)]
    if not np.allclose(pinocchio_subspace(joint), S, rtol=0.0, atol=1e-6):
        raise ModelError(
            f"joint {name!r}: its {body.joint.kind} axis differs from Pinocchio's"
            f" {joint.shortname()} (which reads every planar joint as normal to z)"
        )


def _to_pinocchio(pair: Pair, q: Array) -> Array:
    if isinstance(pair.body.joint, Planar):
        angle = q[..., 0]
        return np.stack([q[..., 1], q[..., 2], np.cos(angle), np.sin(angle)], axis=-1)
    if pair.their_q.stop - pair.their_q.start == 2:
        return np.concatenate([np.cos(q), np.sin(q)], axis=-1)
    return q


def _from_pinocchio(pair: Pair, q: Array) -> Array:
    if isinstance(pair.body.joint, Planar):
        return np.stack([np.arctan2(q[..., 3], q[..., 2]), q[..., 0], q[..., 1]], axis=-1)
    if pair.their_q.stop - pair.their_q.start == 2:
        return np.arctan2(q[..., 1:], q[..., :1])
    return q


_MUJOCO_TYPE: dict[type[AbstractJoint], int] = {
    Free: FREE,
    Spherical: BALL,
    Prismatic: SLIDE,
    Revolute: HINGE,
}
_WXYZ, _XYZW = [3, 0, 1, 2], [1, 2, 3, 0]


@final
class MujocoMap:
    """Vectors of ``robot`` in the order of a ``mujoco.MjModel`` and back.

    ``q`` in the arguments is always the dynsys position: MuJoCo's free joints move in world
    axes, so that velocities depend on it. Joints are expected to have q = qpos, which holds
    for robots read from MJCF and, without ``ref``, from URDF.

    Parameters
    ----------
    robot : the dynsys robot.
    model : the compiled MuJoCo model of the same robot.

    Raises
    ------
    ModelError
        if the joints differ in names or types, or a free joint does not sit on the base.
    """

    def __init__(self, robot: KinematicTree, model: Any) -> None:
        names = joint_names(model)
        free = [name for name, kind in zip(names, model.jnt_type, strict=True) if kind == FREE]
        numbers = pair_up(robot, "MuJoCo", names, free if len(free) == 1 else ())
        pairs: list[Pair] = []
        places = zip(robot.bodies, robot.q_slices(), robot.v_slices(), strict=True)
        for (body, q, v), j in zip(places, numbers, strict=True):
            if _MUJOCO_TYPE.get(type(body.joint)) != int(model.jnt_type[j]):
                raise ModelError(
                    f"joint {names[j]!r} is {body.joint.kind} here but of type"
                    f" {int(model.jnt_type[j])} (mjtJoint) in MuJoCo"
                )
            _check_free_on_base(body, names[j])
            start, at = int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])
            their_q = slice(start, start + body.joint.nq)
            pairs.append(Pair(body, q, v, their_q, slice(at, at + body.joint.nv)))
        self._pairs = tuple(pairs)
        self._nq, self._nv = robot.nq, robot.nv
        self._their_nq, self._their_nv = int(model.nq), int(model.nv)
        self._T, self._V = velocity_maps(pairs, self._nv, self._their_nv)

    def q_to_mujoco(self, q: ArrayLike) -> Array:
        """Position (..., nq) as MuJoCo's qpos."""
        ours = batch(q, self._nq, "q")
        out = np.empty((*ours.shape[:-1], self._their_nq))
        for pair in self._pairs:
            out[..., pair.their_q] = _reordered(pair.body.joint, pair.position(ours), _WXYZ)
        return out

    def q_from_mujoco(self, qpos: ArrayLike) -> Array:
        """Position (..., nq) from MuJoCo's qpos; quaternions are normalised."""
        theirs = batch(qpos, self._their_nq, "qpos")
        out = np.empty((*theirs.shape[:-1], self._nq))
        for pair in self._pairs:
            if pair.leads:
                own = _reordered(pair.body.joint, theirs[..., pair.their_q], _XYZW)
                if own.shape[-1] >= 4:
                    own[..., -4:] /= np.linalg.norm(own[..., -4:], axis=-1, keepdims=True)
                out[..., pair.q] = own
        return out

    def v_to_mujoco(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Velocity (..., nv) as MuJoCo's qvel."""
        return self._turned(q, batch(v, self._nv, "v") @ self._T.T, to_world=True)

    def v_from_mujoco(self, q: ArrayLike, qvel: ArrayLike) -> Array:
        """Velocity (..., nv) from MuJoCo's qvel."""
        theirs = batch(qvel, self._their_nv, "qvel")
        return self._turned(q, theirs, to_world=False) @ self._V.T

    def a_to_mujoco(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Acceleration qdd (..., nv) as MuJoCo's qacc."""
        ours = batch(a, self._nv, "a") + self._carried(v)
        return self._turned(q, ours @ self._T.T, to_world=True)

    def a_from_mujoco(self, q: ArrayLike, v: ArrayLike, qacc: ArrayLike) -> Array:
        """Acceleration qdd (..., nv) from MuJoCo's qacc; ``v`` is the dynsys velocity."""
        theirs = batch(qacc, self._their_nv, "qacc")
        return self._turned(q, theirs, to_world=False) @ self._V.T - self._carried(v)

    def tau_to_mujoco(self, q: ArrayLike, tau: ArrayLike) -> Array:
        """Torque (..., nv) as MuJoCo's qfrc; coupled followers get none."""
        return self._turned(q, batch(tau, self._nv, "tau") @ self._V, to_world=True)

    def tau_from_mujoco(self, q: ArrayLike, qfrc: ArrayLike) -> Array:
        """Torque (..., nv) from MuJoCo's qfrc; a leader feels its followers by their ratio."""
        theirs = batch(qfrc, self._their_nv, "qfrc")
        return self._turned(q, theirs, to_world=False) @ self._T

    def _free(self) -> list[Pair]:
        return [pair for pair in self._pairs if isinstance(pair.body.joint, Free)]

    def _turned(self, q: ArrayLike, theirs: Array, *, to_world: bool) -> Array:
        """Linear parts of free joints from body to world axes, or back."""
        position = batch(q, self._nq, "q")
        shape = (*np.broadcast_shapes(position.shape[:-1], theirs.shape[:-1]), self._their_nv)
        out = np.array(np.broadcast_to(theirs, shape))
        for pair in self._free():
            E = _rotations(position[..., pair.q][..., 3:])
            linear = slice(pair.their_v.start, pair.their_v.start + 3)
            rule = "...ji,...j->...i" if to_world else "...ij,...j->...i"
            out[..., linear] = np.einsum(rule, E, out[..., linear])
        return out

    def _carried(self, v: ArrayLike) -> Array:
        """W x v of every free joint: classical minus componentwise acceleration."""
        velocity = batch(v, self._nv, "v")
        out = np.zeros_like(velocity)
        for pair in self._free():
            own = velocity[..., pair.v]
            out[..., pair.v.start + 3 : pair.v.stop] = np.cross(own[..., :3], own[..., 3:])
        return out


def _check_free_on_base(body: Body, name: str) -> None:
    if not isinstance(body.joint, Free):
        return
    placed = np.allclose(body.placement.E, np.eye(3)) and not np.any(body.placement.r)
    if body.parent >= 0 or not placed:
        raise ModelError(f"joint {name!r}: MuJoCo's free joints sit at the origin of the world")


def _reordered(joint: AbstractJoint, q: Array, order: list[int]) -> Array:
    if isinstance(joint, Spherical):
        return q[..., order]
    if isinstance(joint, Free):
        return np.concatenate([q[..., :3], q[..., 3:][..., order]], axis=-1)
    return q


def _rotations(quaternion: Array) -> Array:
    """E (..., 3, 3) of quaternions (..., 4)."""
    E = np.asarray(quaternion_to_rotation(np.moveaxis(quaternion, -1, 0)), dtype=np.float64)
    return np.moveaxis(E, (0, 1), (-2, -1))
