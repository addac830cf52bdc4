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

Velocities go by v_theirs = T v and v = V v_theirs, torques by the transposes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError, StateError, nearest_name
from dynsys.model.joints import AbstractJoint, Free, Planar, Prismatic, Revolute, Spherical
from dynsys.model.readers.mjcf import BALL, FREE, HINGE, SLIDE, joint_names
from dynsys.model.readers.pinocchio import (
    ROOT_JOINT,
    from_pinocchio,
    pinocchio_subspace,
    velocity_order,
)
from dynsys.model.spatial import quaternion_to_rotation
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array, ArrayLike, float_array

__all__ = ["MujocoMap", "PinocchioMap", "from_pinocchio"]

_MUJOCO_TYPE: dict[type[AbstractJoint], int] = {
    Free: FREE,
    Spherical: BALL,
    Prismatic: SLIDE,
    Revolute: HINGE,
}
_WXYZ, _XYZW = [3, 0, 1, 2], [1, 2, 3, 0]

# ---- joints of two libraries, paired by name ---------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Pair:
    """One of our joints and its places in both orders; an empty place is a follower's."""

    body: Body
    q: slice
    v: slice
    their_q: slice
    their_v: slice

    @property
    def leads(self) -> bool:
        return self.body.coupling is None

    def position(self, q: Array) -> Array:
        own = q[..., self.q]
        rule = self.body.coupling
        return own if rule is None else rule.ratio * own + rule.offset


def _batch(x: ArrayLike, size: int, what: str) -> Array:
    """Return x as float64 (..., size); StateError names ``what``."""
    try:
        array = float_array(x)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} is not numeric: {error}") from None
    if array.ndim == 0 or array.shape[-1] != size:
        raise StateError(f"{what} must have shape (..., {size}), got {array.shape}")
    return array


def _pair_up(
    robot: KinematicTree, what: str, theirs: Sequence[str], root_names: Sequence[str]
) -> list[int]:
    """Number, in their order, of each of our joints; every joint needs a partner."""
    number = {name: i for i, name in enumerate(theirs)}
    found: list[int] = []
    for name in robot.joint_names:
        aliases = [name, *(root_names if name == "root" else ())]
        match = next((number[alias] for alias in aliases if alias in number), None)
        if match is None:
            hint = nearest_name(name, tuple(theirs))
            raise ModelError(
                f"robot {robot.name!r}: joint {name!r} is not in the {what} model{hint}"
            )
        found.append(match)
    left = [name for i, name in enumerate(theirs) if i not in set(found)]
    if left:
        raise ModelError(
            f"robot {robot.name!r} has no joint {left[0]!r} of the {what} model; load both from"
            " the same file with the same base"
        )
    return found


class _JointMap(ABC):
    """Pairs of joints and the orders of both libraries; a subclass converts positions."""

    def __init__(self, robot: KinematicTree, model: Any, pairs: Sequence[_Pair]) -> None:
        self._pairs = tuple(pairs)
        self._nq, self._nv = robot.nq, robot.nv
        self._their_nq, self._their_nv = int(model.nq), int(model.nv)
        T, V = np.zeros((self._their_nv, self._nv)), np.zeros((self._nv, self._their_nv))
        for pair in pairs:
            ours = np.arange(pair.v.start, pair.v.stop)[velocity_order(pair.body.joint)]
            theirs = np.arange(pair.their_v.start, pair.their_v.stop)
            if pair.body.coupling is not None:
                T[theirs, ours[: len(theirs)]] = pair.body.coupling.ratio
            else:
                T[theirs, ours] = V[ours, theirs] = 1.0
        T.setflags(write=False)
        V.setflags(write=False)
        self._T, self._V = T, V

    @staticmethod
    @abstractmethod
    def _to(pair: _Pair, q: Array) -> Array:
        """Position (..., their nq) of one joint from ours (..., nq)."""

    @staticmethod
    @abstractmethod
    def _from(pair: _Pair, q: Array) -> Array:
        """Position (..., nq) of one joint from theirs (..., their nq)."""

    def _q_to(self, q: ArrayLike) -> Array:
        ours = _batch(q, self._nq, "q")
        out = np.empty((*ours.shape[:-1], self._their_nq))
        for pair in self._pairs:
            out[..., pair.their_q] = self._to(pair, pair.position(ours))
        return out

    def _q_from(self, q: ArrayLike, what: str) -> Array:
        theirs = _batch(q, self._their_nq, what)
        out = np.empty((*theirs.shape[:-1], self._nq))
        for pair in self._pairs:
            if pair.leads:
                out[..., pair.q] = self._from(pair, theirs[..., pair.their_q])
        return out

    def _ours(self, x: ArrayLike, what: str) -> Array:
        return _batch(x, self._nv, what)

    def _theirs(self, x: ArrayLike, what: str) -> Array:
        return _batch(x, self._their_nv, what)


# ---- Pinocchio -----------------------------------------------------------------------------


@final
class PinocchioMap(_JointMap):
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
        numbers = _pair_up(robot, "Pinocchio", names, (ROOT_JOINT,))
        pairs: list[_Pair] = []
        places = zip(robot.bodies, robot.q_slices(), robot.v_slices(), strict=True)
        for (body, q, v), k in zip(places, numbers, strict=True):
            joint = model.joints[k + 1]
            if joint.nv > 0 or body.coupling is None:
                _check_pinocchio_joint(body, joint, names[k])
                their_q = slice(joint.idx_q, joint.idx_q + joint.nq)
                their_v = slice(joint.idx_v, joint.idx_v + joint.nv)
                pairs.append(_Pair(body, q, v, their_q, their_v))
        super().__init__(robot, model, pairs)

    @staticmethod
    def _to(pair: _Pair, q: Array) -> Array:
        if isinstance(pair.body.joint, Planar):
            angle = q[..., 0]
            return np.stack([q[..., 1], q[..., 2], np.cos(angle), np.sin(angle)], axis=-1)
        if pair.their_q.stop - pair.their_q.start == 2:
            return np.concatenate([np.cos(q), np.sin(q)], axis=-1)
        return q

    @staticmethod
    def _from(pair: _Pair, q: Array) -> Array:
        if isinstance(pair.body.joint, Planar):
            return np.stack([np.arctan2(q[..., 3], q[..., 2]), q[..., 0], q[..., 1]], axis=-1)
        if pair.their_q.stop - pair.their_q.start == 2:
            return np.arctan2(q[..., 1:], q[..., :1])
        return q

    def q_to_pin(self, q: ArrayLike) -> Array:
        """Position (..., nq) in Pinocchio's order (..., model.nq)."""
        return self._q_to(q)

    def q_from_pin(self, q: ArrayLike) -> Array:
        """Position (..., nq) from Pinocchio's; angles of (cos, sin) in (-pi, pi]."""
        return self._q_from(q, "Pinocchio's q")

    def v_to_pin(self, v: ArrayLike) -> Array:
        """Velocity or acceleration (..., nv) in Pinocchio's order."""
        return self._ours(v, "v") @ self._T.T

    def v_from_pin(self, v: ArrayLike) -> Array:
        """Velocity or acceleration (..., nv) from Pinocchio's; followers are left out."""
        return self._theirs(v, "Pinocchio's v") @ self._V.T

    def tau_to_pin(self, tau: ArrayLike) -> Array:
        """Torque (..., nv) in Pinocchio's order; coupled followers get none."""
        return self._ours(tau, "tau") @ self._V

    def tau_from_pin(self, tau: ArrayLike) -> Array:
        """Torque (..., nv) from Pinocchio's; a leader feels its followers by their ratio."""
        return self._theirs(tau, "Pinocchio's tau") @ self._T


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


# ---- MuJoCo --------------------------------------------------------------------------------


@final
class MujocoMap(_JointMap):
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
        numbers = _pair_up(robot, "MuJoCo", names, free if len(free) == 1 else ())
        pairs: list[_Pair] = []
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
            pairs.append(_Pair(body, q, v, their_q, slice(at, at + body.joint.nv)))
        super().__init__(robot, model, pairs)

    @staticmethod
    def _to(pair: _Pair, q: Array) -> Array:
        return _reordered(pair.body.joint, q, _WXYZ)

    @staticmethod
    def _from(pair: _Pair, q: Array) -> Array:
        own = _reordered(pair.body.joint, q, _XYZW)
        if own.shape[-1] >= 4:
            own[..., -4:] /= np.linalg.norm(own[..., -4:], axis=-1, keepdims=True)
        return own

    def q_to_mujoco(self, q: ArrayLike) -> Array:
        """Position (..., nq) as MuJoCo's qpos."""
        return self._q_to(q)

    def q_from_mujoco(self, qpos: ArrayLike) -> Array:
        """Position (..., nq) from MuJoCo's qpos; quaternions are normalised."""
        return self._q_from(qpos, "qpos")

    def v_to_mujoco(self, q: ArrayLike, v: ArrayLike) -> Array:
        """Velocity (..., nv) as MuJoCo's qvel."""
        return self._turned(q, self._ours(v, "v") @ self._T.T, to_world=True)

    def v_from_mujoco(self, q: ArrayLike, qvel: ArrayLike) -> Array:
        """Velocity (..., nv) from MuJoCo's qvel."""
        return self._turned(q, self._theirs(qvel, "qvel"), to_world=False) @ self._V.T

    def a_to_mujoco(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Acceleration qdd (..., nv) as MuJoCo's qacc."""
        ours = self._ours(a, "a") + self._carried(v)
        return self._turned(q, ours @ self._T.T, to_world=True)

    def a_from_mujoco(self, q: ArrayLike, v: ArrayLike, qacc: ArrayLike) -> Array:
        """Acceleration qdd (..., nv) from MuJoCo's qacc; ``v`` is the dynsys velocity."""
        return self._turned(
            q, self._theirs(qacc, "qacc"), to_world=False
        ) @ self._V.T - self._carried(v)

    def tau_to_mujoco(self, q: ArrayLike, tau: ArrayLike) -> Array:
        """Torque (..., nv) as MuJoCo's qfrc; coupled followers get none."""
        return self._turned(q, self._ours(tau, "tau") @ self._V, to_world=True)

    def tau_from_mujoco(self, q: ArrayLike, qfrc: ArrayLike) -> Array:
        """Torque (..., nv) from MuJoCo's qfrc; a leader feels its followers by their ratio."""
        return self._turned(q, self._theirs(qfrc, "qfrc"), to_world=False) @ self._T

    def _free(self) -> list[_Pair]:
        return [pair for pair in self._pairs if isinstance(pair.body.joint, Free)]

    def _turned(self, q: ArrayLike, theirs: Array, *, to_world: bool) -> Array:
        """Linear parts of free joints from body to world axes, or back."""
        position = _batch(q, self._nq, "q")
        shape = (*np.broadcast_shapes(position.shape[:-1], theirs.shape[:-1]), self._their_nv)
        out = np.array(np.broadcast_to(theirs, shape))
        for pair in self._free():
            E = _rotations(position[..., pair.q][..., 3:])
            linear = slice(pair.their_v.start, pair.their_v.start + 3)
            rule = "...ji,...j->...i" if to_world else "...ij,...j->...i"
            out[..., linear] = np.einsum(rule, E, out[..., linear])
        return out

    def _carried(self, v: ArrayLike) -> Array:
        """Product w x v of every free joint: classical minus componentwise acceleration."""
        velocity = self._ours(v, "v")
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
