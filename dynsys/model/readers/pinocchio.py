"""KinematicTree of a ``pinocchio.Model``, and what its joints are in dynsys terms.

Pinocchio puts the linear part of spatial vectors first; dynsys the angular part. Nothing here
imports pinocchio: the model is only asked for its attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynsys.errors import ModelError
from dynsys.model import joints
from dynsys.model.readers.assembly import (
    Assembly,
    FrictionPolicy,
    InertiaPolicy,
    check_policies,
    emit,
)
from dynsys.model.spatial import Inertia, Transform, without_rounding
from dynsys.model.tree import Body, Coupling, Frame, KinematicTree
from dynsys.types import Array

__all__ = ["ROOT_JOINT", "from_pinocchio", "pinocchio_subspace", "velocity_order"]

ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]
ROOT_JOINT = "root_joint"
_STATED = {
    "armature": ("armature",),
    "damping": ("damping",),
    "friction": ("upperDryFrictionLimit", "friction"),
    "effort_limit": ("upperEffortLimit", "effortLimit"),
    "velocity_limit": ("upperVelocityLimit", "velocityLimit"),
}
"""What a body states about its joint, and the names it has in Pinocchio's versions."""


def from_pinocchio(
    model: Any, *, inertia: InertiaPolicy = "warn", friction: FrictionPolicy = "ignore"
) -> KinematicTree:
    """Build the tree of a ``pinocchio.Model``.

    Bodies are named after the first BODY frame at their joint, joints as in the model, except
    that ``root_joint`` is called "root". Mimic joints are coupled. All frames are kept.

    Parameters
    ----------
    model : a ``pinocchio.Model``.
    inertia : "warn" about or, with "strict", refuse inertias that no mass distribution has;
        "any" also takes those with a negative principal moment.
    friction : "file" makes the model's damping and friction part of the equations of motion,
        which they are not in Pinocchio's own algorithms.

    Raises
    ------
    ModelError
        for joints without a counterpart: composite, universal, translation, ZYX angles,
        ellipsoid. Replace them by elementary joints with massless bodies between.
    """
    check_policies("independent", inertia, friction)
    assembly = Assembly(model.name, f"pinocchio model {model.name!r}")
    bodies = _body_names(model)
    for i in range(1, model.njoints):
        assembly.add(_body(model, i, bodies[i]))
    assembly.couple(_couplings(model))
    for frame in model.frames:
        place = _transform(frame.placement)
        assembly.frames.setdefault(frame.name, Frame(int(frame.parentJoint) - 1, place))
    tree = assembly.finish(np.array(model.gravity.linear), inertia, friction)
    emit(assembly.notes, stacklevel=2)
    return tree


def pinocchio_joint(joint: Any, name: str) -> joints.AbstractJoint:
    """Return the dynsys counterpart of one ``pinocchio`` joint model."""
    short = joint.shortname()
    if short == "JointModelFreeFlyer":
        return joints.Free()
    if short == "JointModelPlanar":
        return joints.Planar(np.array([0.0, 0.0, 1.0]))
    if short == "JointModelSpherical":
        return joints.Spherical()
    if short != "JointModelComposite" and (joint.nv == 1 or short == "JointModelMimic"):
        S = pinocchio_subspace(joint)
        if S.shape == (6, 1):
            return _screw(S[:, 0], joint, name)
    raise ModelError(
        f"joint {name!r}: Pinocchio's {short.removeprefix('JointModel').lower()} joint has no"
        " counterpart; build it of elementary joints with massless bodies between"
    )


def _screw(S: Array, joint: Any, name: str) -> joints.AbstractJoint:
    if joint.shortname() == "JointModelMimic":  # its S carries the ratio
        S = S / (float(np.linalg.norm(S[:3])) or float(np.linalg.norm(S)) or 1.0)
        scaling = float(joint.extract().scaling)
        S = S if scaling >= 0 else -S
    angular, linear = S[:3], S[3:]
    if not angular.any() and not linear.any():
        raise ModelError(f"joint {name!r}: its motion subspace is zero")
    if not linear.any():
        return joints.Revolute(angular)
    if not angular.any():
        return joints.Prismatic(linear)
    return joints.Helical(angular, pitch=float(angular @ linear))


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
    stated: dict[str, Any] = {}
    if joint.nv > 0:
        theirs = np.arange(joint.idx_v, joint.idx_v + joint.nv)
        ours = theirs[np.argsort(velocity_order(counterpart))]
        for key, names in _STATED.items():  # the newer name first
            values = next(getattr(model, name) for name in names if hasattr(model, name))
            stated[key] = (_limited(values) if "limit" in key else np.array(values))[ours]
    if joint.nq == 1:
        stated["lower"] = _limited(model.lowerPositionLimit)[joint.idx_q]
        stated["upper"] = _limited(model.upperPositionLimit)[joint.idx_q]
    return Body(
        name=name,
        parent=int(model.parents[i]) - 1,
        joint=counterpart,
        placement=_transform(model.jointPlacements[i]),
        inertia=Inertia(
            float(inertia.mass), np.array(inertia.lever), np.array(inertia.inertia)
        ),
        joint_name="root" if model.names[i] == ROOT_JOINT else model.names[i],
        **stated,
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


def velocity_order(joint: joints.AbstractJoint) -> list[int]:
    """Our velocity entries in the order of Pinocchio and MuJoCo: theirs = ours[order]."""
    if isinstance(joint, joints.Free):
        return [3, 4, 5, 0, 1, 2]
    if isinstance(joint, joints.Planar):
        return [1, 2, 0]
    return list(range(joint.nv))
