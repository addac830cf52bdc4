"""A robot at values of some of its parameters that are not numbers yet: scalars of any kind.

    kernel(q, qd, qdd, p) :  p in place of the constants, the same equations

What the recursions read of a robot, mass moments, rotor inertias and friction, is linear in the
parameters (:mod:`dynsys.model.parameters`): entries of these arrays become the scalars, all
others stay the numbers they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dynsys.errors import ModelError
from dynsys.model.natural import NaturalUnits, unusual
from dynsys.model.parameters import (
    BODY_PARAMETERS,
    FRICTION,
    SMOOTHING,
    JointFriction,
    Parameter,
    joint_friction,
)
from dynsys.model.spatial import MassMoments
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, ScalarArray

__all__ = [
    "AtParameters",
    "at_parameters",
    "parameter_samples",
    "parameter_units",
    "varying_parameters",
]


@final
@dataclass(frozen=True, eq=False)
class AtParameters:
    """Moments of the bodies whose parameters vary, about their origins; and of all joints."""

    moments: Mapping[int, MassMoments]
    armature: ScalarArray
    friction: JointFriction | None


def varying_parameters(robot: KinematicTree, names: Sequence[str]) -> tuple[Parameter, ...]:
    """Where the named parameters are; ModelError names the nearest, or one named twice."""
    if isinstance(names, str):
        raise ModelError(f"parameters must be a list of names, got {names!r}")
    found = tuple(robot.parameter(name) for name in names)
    for k, name in enumerate(names):
        if found[k] in found[:k]:
            raise ModelError(f"parameter {name!r} is named twice")
    return found


def parameter_samples(
    robot: KinematicTree, names: Sequence[str], count: int, seed: int
) -> Array:
    """Values (count, parameters) near those of the robot."""
    rng = np.random.default_rng(seed)
    values = np.array([at.value(robot.bodies) for at in varying_parameters(robot, names)])
    change = 0.02 * rng.normal(size=(count, len(values)))
    least = 0.01 * unusual(parameter_units(robot, names))
    return np.asarray(values + change * np.maximum(np.abs(values), least))


def parameter_units(robot: KinematicTree, names: Sequence[str]) -> Array:
    """Natural units (parameters,) of parameters."""
    natural = NaturalUnits(robot)
    M, L = natural.mass, natural.length
    inertial = {"mass": M} | dict.fromkeys(("mx", "my", "mz"), M * L)
    found = []
    for at in varying_parameters(robot, names):
        if not at.of_joint:
            found.append(inertial.get(at.kind, natural.energy))
            continue
        freedom = robot.v_slices()[at.body].start + at.freedom
        by_motion = at.kind in ("armature", "viscous")
        unit = natural.drive[freedom]
        found.append(float(unit / natural.motion[freedom] if by_motion else unit))
    return np.array(found)


def at_parameters(robot: KinematicTree, names: Sequence[str], p: ScalarArray) -> AtParameters:
    """Return what the recursions read of a robot whose named parameters are p (parameters,)."""
    given = dict(zip(varying_parameters(robot, names), p, strict=True))
    moments = {}
    for i in {at.body for at in given if not at.of_joint}:
        exact = robot.bodies[i].inertia.moments(np.longdouble)
        moments[i] = _moments(exact, {at.kind: x for at, x in given.items() if at.body == i})
    armature = robot.armature.astype(object)
    for at, x in given.items():
        if at.kind == "armature":
            coupling = robot.bodies[at.body].coupling
            weight = 1.0 if coupling is None else coupling.ratio**2
            place = robot.v_slices()[at.body].start + at.freedom
            armature[place] = armature[place] + weight * (x - at.value(robot.bodies))
    return AtParameters(moments, armature, _friction(robot, given))


def _moments(exact: MassMoments, given: Mapping[str, object]) -> MassMoments:
    """Moments with some of the ten replaced; what none of them touches stays exact."""
    first, rotational = exact.first.astype(object), exact.rotational.astype(object)
    for k, kind in enumerate(("mx", "my", "mz")):
        first[k] = given.get(kind, first[k])
    for kind, i, j in zip(BODY_PARAMETERS[4:], *np.triu_indices(3), strict=True):
        if kind in given:
            rotational[i, j] = rotational[j, i] = given[kind]
    second = exact.second.astype(object)
    if any(kind in given for kind in BODY_PARAMETERS[4:]):
        second = (rotational[0, 0] + rotational[1, 1] + rotational[2, 2]) / 2 * np.eye(3)
        second = second - rotational
    return MassMoments(given.get("mass", exact.mass), first, second)  # type: ignore[arg-type]


def _friction(robot: KinematicTree, given: Mapping[Parameter, object]) -> JointFriction | None:
    asked = [at for at in given if at.kind in FRICTION]
    if not asked:
        return robot.joint_friction
    smoothing = SMOOTHING if robot.smoothing is None else robot.smoothing
    law = joint_friction(robot.bodies, robot.v_slices(), smoothing)
    rows = {kind: getattr(law, kind).astype(object) for kind in FRICTION}
    first = np.cumsum([0, *(body.joint.nv for body in robot.bodies)])
    for at in asked:
        row = first[at.body] + at.freedom
        rows[at.kind][row] = given[at]
        minus = at._replace(kind="coulomb_minus")
        both = at.kind == "coulomb" and robot.bodies[at.body].friction_minus is None
        if both and minus not in given:
            rows["coulomb_minus"][row] = given[at]
    return replace(law, **rows)
