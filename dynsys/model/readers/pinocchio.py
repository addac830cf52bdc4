"""KinematicTree of a ``pinocchio.Model``, and what its joints are in dynsys terms.

Pinocchio puts the linear part of spatial vectors first; dynsys the angular part. Nothing here
imports pinocchio: the model is only asked for its attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.errors import ModelError, StateError, nearest_name
from dynsys.model.joints import (
    AbstractJoint,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
)
from dynsys.model.readers.assembly import Assembly, InertiaPolicy, check_policies, emit
from dynsys.model.spatial import Inertia, Transform, without_rounding
from dynsys.model.tree import Body, Coupling, Frame, KinematicTree
from dynsys.types import Array, ArrayLike

__all__ = [
    "Pair",
    "batch",
    "from_pinocchio",
    "pair_up",
    "pinocchio_joint",
    "pinocchio_subspace",
    "velocity_maps",
    "velocity_order",
]

ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
ROOT_JOINT = "root_joint"


def from_pinocchio(model: Any, *, inertia: InertiaPolicy = "warn") -> KinematicTree:
    """Build the tree of a ``pinocchio.Model``.

    Bodies are named after the first BODY frame at their joint, joints as in the model, except
    that ``root_joint`` is called "root". Mimic joints are coupled. All frames are kept.

    Parameters
    ----------
    model : a ``pinocchio.Model``.
    inertia : "warn" about or, with "strict", refuse inertias that no mass distribution has.

    Raises
    ------
    ModelError
        for joints without a counterpart: composite, universal, translation, ZYX angles,
        ellipsoid. Replace them by elementary joints with massless bodies between.
    """
    check_policies("independent", inertia)
    assembly = Assembly(model.name, f"pinocchio model {model.name!r}")
    bodies = _body_names(model)
    for i in range(1, model.njoints):
        assembly.add(_body(model, i, bodies[i]))
    assembly.couple(_couplings(model))
    for frame in model.frames:
        place = _transform(frame.placement)
        assembly.frames.setdefault(frame.name, Frame(int(frame.parentJoint) - 1, place))
    tree = assembly.finish(np.array(model.gravity.linear), inertia)
    emit(assembly.notes, stacklevel=2)
    return tree


def pinocchio_joint(joint: Any, name: str) -> AbstractJoint:
    """Return the dynsys counterpart of one ``pinocchio`` joint model."""
    short = joint.shortname()
    if short == "JointModelFreeFlyer":
        return Free()
    if short == "JointModelPlanar":
        return Planar(np.array([0.0, 0.0, 1.0]))
    if short == "JointModelSpherical":
        return Spherical()
    if short != "JointModelComposite" and (joint.nv == 1 or short == "JointModelMimic"):
        S = pinocchio_subspace(joint)
        if S.shape == (6, 1):
            return _screw(S[:, 0], joint, name)
    raise ModelError(
        f"joint {name!r}: Pinocchio's {short.removeprefix('JointModel').lower()} joint has no"
        " counterpart; build it of elementary joints with massless bodies between"
    )


def _screw(S: Array, joint: Any, name: str) -> AbstractJoint:
    if joint.shortname() == "JointModelMimic":  # its S carries the ratio
        S = S / (float(np.linalg.norm(S[:3])) or float(np.linalg.norm(S)) or 1.0)
        scaling = float(joint.extract().scaling)
        S = S if scaling >= 0 else -S
    angular, linear = S[:3], S[3:]
    if not angular.any() and not linear.any():
        raise ModelError(f"joint {name!r}: its motion subspace is zero")
    if not linear.any():
        return Revolute(angular)
    if not angular.any():
        return Prismatic(linear)
    return Helical(angular, pitch=float(angular @ linear))


def pinocchio_subspace(joint: Any) -> Array:
    """S (6, nv) of a joint with constant motion subspace, angular part first."""
    neutral = np.zeros(joint.idx_q + max(joint.nq, 1))
    data = joint.createData()
    joint.calc(data, neutral)
    S = np.array(data.S, dtype=np.float64)
    return S.reshape(6, -1)[ANGULAR_FIRST]


def _transform(placement: Any) -> Transform:
    E = np.array(placement.rotation, dtype=np.float64).T
    return Transform(without_rounding(E), np.array(placement.translation, dtype=np.float64))


def _body_names(model: Any) -> list[str]:
    names = list(model.names)
    for frame in reversed(list(model.frames)):
        identity = np.allclose(frame.placement.homogeneous, np.eye(4), atol=0.0)
        if frame.type.name == "BODY" and frame.parentJoint > 0 and identity:
            names[frame.parentJoint] = frame.name
    return names


def _body(model: Any, i: int, name: str) -> Body:
    joint = model.joints[i]
    counterpart = pinocchio_joint(joint, model.names[i])
    inertia = model.inertias[i]
    entries: list[ArrayLike | None] = [None] * 6
    if joint.nv > 0:
        theirs = np.arange(joint.idx_v, joint.idx_v + joint.nv)
        ours = theirs[np.argsort(velocity_order(counterpart))]
        friction = getattr(model, "upperDryFrictionLimit", None)
        effort = getattr(model, "upperEffortLimit", None)
        speed = getattr(model, "upperVelocityLimit", None)
        friction = model.friction if friction is None else friction
        effort = model.effortLimit if effort is None else effort
        speed = model.velocityLimit if speed is None else speed
        values = (model.armature, model.damping, friction, _limited(effort), _limited(speed))
        entries[:5] = [np.array(value)[ours] for value in values]
    limits: tuple[float | None, float | None] = (None, None)
    if joint.nq == 1:
        limits = (
            float(_limited(model.lowerPositionLimit)[joint.idx_q]),
            float(_limited(model.upperPositionLimit)[joint.idx_q]),
        )
    return Body(
        name=name,
        parent=int(model.parents[i]) - 1,
        joint=counterpart,
        placement=_transform(model.jointPlacements[i]),
        inertia=Inertia(
            float(inertia.mass), np.array(inertia.lever), np.array(inertia.inertia)
        ),
        joint_name="root" if model.names[i] == ROOT_JOINT else model.names[i],
        armature=entries[0],
        damping=entries[1],
        friction=entries[2],
        effort_limit=entries[3],
        velocity_limit=entries[4],
        lower=limits[0],
        upper=limits[1],
    )


def _limited(limits: Any) -> Array:
    """Limits with infinity for Pinocchio's "none": the largest number of float64."""
    values = np.array(limits)
    none = np.abs(values) == np.finfo(np.float64).max
    return np.where(none, np.copysign(np.inf, values), values)


def _couplings(model: Any) -> dict[int, Coupling]:
    couplings: dict[int, Coupling] = {}
    followers = getattr(model, "mimicking_joints", ())
    leaders = getattr(model, "mimicked_joints", ())
    for follower, leader in zip(followers, leaders, strict=True):
        rule = model.joints[int(follower)].extract()
        couplings[int(follower) - 1] = Coupling(
            int(leader) - 1, float(rule.scaling), float(rule.offset)
        )
    return couplings


# ----------------------------------------------------------------------
# Pairing the joints of a robot with those of another library's model, by name.


@final
@dataclass(frozen=True, eq=False)
class Pair:
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


def batch(x: ArrayLike, size: int, what: str) -> Array:
    """Return x as float64 (..., size); StateError names ``what``."""
    try:
        array = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what} is not numeric: {error}") from None
    if array.ndim == 0 or array.shape[-1] != size:
        raise StateError(f"{what} must have shape (..., {size}), got {array.shape}")
    return array


def velocity_maps(pairs: Sequence[Pair], nv: int, their_nv: int) -> tuple[Array, Array]:
    """T (their_nv, nv) with v_theirs = T v, and V (nv, their_nv) with v = V v_theirs."""
    T, V = np.zeros((their_nv, nv)), np.zeros((nv, their_nv))
    for pair in pairs:
        ours = np.arange(pair.v.start, pair.v.stop)[velocity_order(pair.body.joint)]
        theirs = np.arange(pair.their_v.start, pair.their_v.stop)
        if pair.body.coupling is not None:
            T[theirs, ours[: len(theirs)]] = pair.body.coupling.ratio
        else:
            T[theirs, ours] = 1.0
            V[ours, theirs] = 1.0
    T.setflags(write=False)
    V.setflags(write=False)
    return T, V


def pair_up(
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


def velocity_order(joint: AbstractJoint) -> list[int]:
    """Our velocity entries in the order of Pinocchio and MuJoCo: theirs = ours[order]."""
    if isinstance(joint, Free):
        return [3, 4, 5, 0, 1, 2]
    if isinstance(joint, Planar):
        return [1, 2, 0]
    return list(range(joint.nv))
