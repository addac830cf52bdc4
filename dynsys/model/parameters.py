"""Parameters of a robot by name, and the law of friction at a joint.

    BODY.mass                            kg
    BODY.mx my mz                        first moment m c, kg m
    BODY.Ixx Ixy Ixz Iyy Iyz Izz         about the BODY'S ORIGIN, in body axes, kg m^2
    JOINT.viscous                        N m s/rad
    JOINT.coulomb, JOINT.coulomb_minus   N m; the second one for negative speed, if stated
    JOINT.armature                       rotor inertia seen at the joint, kg m^2
    JOINT.offset                         constant torque, N m

(N s/m, N, kg and N for freedoms that slide.) The equations of motion are linear in them. A
joint of several freedoms has ``JOINT.viscous[0]``, ``JOINT.viscous[1]`` and so on. A joint that
follows another one (mimic) has parameters of its own, at its own speed.

What a joint takes from its drive at speed v, zero unless the robot was asked to have friction
(``robot.with_friction()``, ``load(friction="file")``):

    viscous v + coulomb s(v) + offset,       s(v) = v / sqrt(v^2 + smoothing^2)

and with a coulomb_minus of its own   coulomb (s + s^2)/2 + coulomb_minus (s - s^2)/2, smooth
as well: coulomb at large positive speed, -coulomb_minus at large negative speed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from dynsys.errors import ModelError, nearest_name
from dynsys.model.body import Body, Frame
from dynsys.model.joints import Free
from dynsys.model.spatial import Inertia
from dynsys.types import Array, ArrayLike, IntArray, ScalarArray

__all__ = [
    "BODY_PARAMETERS",
    "JOINT_PARAMETERS",
    "SMOOTHING",
    "JointFriction",
    "Parameter",
    "find_parameter",
    "friction_torque",
    "inertia_of",
    "inertial_values",
    "joint_friction",
    "parameter_values",
    "smooth_sign",
    "with_values",
]

BODY_PARAMETERS = ("mass", "mx", "my", "mz", "Ixx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")
JOINT_PARAMETERS = {
    "viscous": "damping",
    "coulomb": "friction",
    "coulomb_minus": "friction_minus",
    "armature": "armature",
    "offset": "offset",
}
"""Parameters of a joint, and what :class:`Body` calls them."""

FRICTION = ("viscous", "coulomb", "coulomb_minus", "offset")
"""Those that are part of the equations on request only."""

SMOOTHING = 0.01
"""Speed (rad/s, m/s) below which dry friction fades, unless another one is asked for."""


# ---- friction --------------------------------------------------------------------------------


def smooth_sign(v: Any, smoothing: float | Array) -> Any:
    """s(v) = v / sqrt(v^2 + smoothing^2): the sign of v, smooth; scalars of any kind.

    Examples
    --------
    >>> smooth_sign(np.array([0.3, 0.0, -4000.0]), 0.4).round(6).tolist()
    [0.6, 0.0, -1.0]
    """
    return friction_torque(v, 0.0, 1.0, 1.0, 0.0, smoothing)


def friction_torque(
    v: Any, viscous: Any, coulomb: Any, coulomb_minus: Any, offset: Any, smoothing: Any
) -> Any:
    """What a joint takes from its drive at speed v; linear in the four parameters.

    Equal ``coulomb`` and ``coulomb_minus`` give  viscous v + coulomb s(v) + offset; see the
    module. Scalars of any kind, arrays of them.
    """
    s = v / np.sqrt(v * v + smoothing * smoothing)
    mean, half = (coulomb + coulomb_minus) / 2, (coulomb - coulomb_minus) / 2
    return viscous * v + mean * s + half * (s * s) + offset


@final
@dataclass(frozen=True, eq=False)
class JointFriction:
    """Friction of all joints of a robot, one row per freedom of a joint (coupled ones too).

    Row k resists at ``place[k]`` of qd, which it sees ``ratio[k]`` times as fast: by the ratio
    of a joint that follows another one, else 1. All are (rows,).
    """

    place: IntArray
    ratio: Array
    viscous: Array
    coulomb: Array
    coulomb_minus: Array
    offset: Array
    smoothing: float

    def torque(self, qd: ScalarArray) -> ScalarArray:
        """Torque (nv,) or (..., nv) that the drives spend on friction at qd."""
        v = self.ratio * qd[..., self.place]
        own = friction_torque(
            v, self.viscous, self.coulomb, self.coulomb_minus, self.offset, self.smoothing
        )
        out: ScalarArray = 0 * qd
        np.add.at(out.T, self.place, (self.ratio * own).T)
        return out

    def magnitude(self, qd: Array) -> Array:
        """Sum (nv,) of the magnitudes of all that adds up to :meth:`torque`."""
        dry = np.maximum(np.abs(self.coulomb), np.abs(self.coulomb_minus))
        sizes = (np.abs(self.ratio), np.abs(self.viscous), dry, dry, np.abs(self.offset))
        rows = JointFriction(self.place, *sizes, smoothing=self.smoothing)
        return np.asarray(rows.torque(np.abs(qd)), dtype=np.float64)


def joint_friction(
    bodies: Sequence[Body], places: Sequence[slice], smoothing: float
) -> JointFriction:
    """Friction as the bodies state it; ``places`` are those of their joints in qd."""
    place = np.concatenate([np.arange(v.start, v.stop) for v in places]).astype(np.intp)

    def rows(what: str) -> Array:
        return np.concatenate([_stated(body, what) for body in bodies])

    ratio = [
        np.full(body.joint.nv, 1.0 if body.coupling is None else body.coupling.ratio)
        for body in bodies
    ]
    viscous, coulomb, minus, offset = (rows(what) for what in FRICTION)
    ratios = np.concatenate(ratio)
    return JointFriction(place, ratios, viscous, coulomb, minus, offset, smoothing)


def _stated(body: Body, what: str) -> Array:
    """One parameter of all freedoms (nv,) of a body's joint; 0 where nothing is stated."""
    value = getattr(body, JOINT_PARAMETERS[what])
    if value is None and what == "coulomb_minus":
        value = body.friction
    return np.broadcast_to(np.asarray(0.0 if value is None else value), (body.joint.nv,))


# ---- the ten of a body -----------------------------------------------------------------------


def inertial_values(inertia: Inertia) -> Array:
    """Return the ten parameters (10,) of an inertia, in the order of :data:`BODY_PARAMETERS`.

    Examples
    --------
    >>> inertial_values(Inertia(2.0, np.array([0.0, 0.0, 0.5]), np.eye(3))).tolist()
    [2.0, 0.0, 0.0, 1.0, 1.5, 0.0, 0.0, 1.5, 0.0, 1.0]
    """
    about = inertia.about_origin[np.triu_indices(3)]
    return np.concatenate([[inertia.mass], inertia.first_moment, about])


def inertia_of(values: ArrayLike) -> Inertia:
    """Inertia with the ten parameters (10,), the inverse of :func:`inertial_values`.

    Raises
    ------
    ModelError
        if a first moment has no mass to it.
    """
    ten = np.asarray(values, dtype=np.longdouble)
    mass, first = ten[0], ten[1:4]
    if mass == 0 and first.any():
        told = ", ".join(f"{x:.4g}" for x in first)
        raise ModelError(f"first moment [{told}] kg m of no mass; give it a mass")
    com = first / mass if mass else first
    about = np.zeros((3, 3), dtype=np.longdouble)
    about[np.triu_indices(3)] = ten[4:]
    about = about + np.triu(about, 1).T
    moved = np.outer(first, first) / (mass or 1)  # m c c^T, symmetric to the last digit
    about_com = about - (np.trace(moved) * np.eye(3) - moved)
    return Inertia(float(mass), com.astype(np.float64), about_com.astype(np.float64))


# ---- names -----------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """Where a parameter is: ``kind`` of a body's inertia, or of a freedom of its joint."""

    body: int
    kind: str
    freedom: int = 0

    @property
    def of_joint(self) -> bool:
        """Whether it is one of :data:`JOINT_PARAMETERS`."""
        return self.kind in JOINT_PARAMETERS

    def value(self, bodies: Sequence[Body]) -> float:
        """Its value; 0 where nothing is stated."""
        body = bodies[self.body]
        if self.of_joint:
            return float(_stated(body, self.kind)[self.freedom])
        return float(inertial_values(body.inertia)[BODY_PARAMETERS.index(self.kind)])


def parameter_values(bodies: Sequence[Body]) -> dict[str, float]:
    """All parameters by name: ten for each body, then those of the joints.

    A coulomb_minus is among them where the body states one; a free joint has those that are
    not zero.
    """
    found: dict[str, float] = {}
    for body in bodies:
        values = inertial_values(body.inertia).tolist()
        found |= {f"{body.name}.{k}": x for k, x in zip(BODY_PARAMETERS, values, strict=True)}
    for body in bodies:
        kinds = [
            k
            for k in JOINT_PARAMETERS
            if k != "coulomb_minus" or body.friction_minus is not None
        ]
        for kind in kinds:
            values = _stated(body, kind).tolist()
            if any(values) or not isinstance(body.joint, Free):
                found |= dict(zip(joint_parameter_names(body, kind), values, strict=True))
    return found


def joint_parameter_names(body: Body, kind: str) -> list[str]:
    """Names of one kind of parameter of a body's joint, freedom by freedom."""
    name = f"{body.joint_name or body.name}.{kind}"
    return [name] if body.joint.nv == 1 else [f"{name}[{k}]" for k in range(body.joint.nv)]


def find_parameter(
    robot: str, bodies: Sequence[Body], frames: Mapping[str, Frame], name: str
) -> Parameter:
    """Parameter by name; bodies and joints may have dots in theirs.

    Raises
    ------
    ModelError
        that says what there is instead.
    """
    whose, _, kind = str(name).rpartition(".")
    if kind in BODY_PARAMETERS:
        for i, body in enumerate(bodies):
            if body.name == whose:
                return Parameter(i, kind)
        if whose in frames:
            carrier = frames[whose].body
            there = f"of body {bodies[carrier].name!r}" if carrier >= 0 else "of the fixed base"
            raise ModelError(
                f"robot {robot!r}: {whose!r} is a part {there} and has no {kind} of its own"
                + (f"; name {bodies[carrier].name}.{kind}" if carrier >= 0 else "")
            )
    indexed = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?", kind)
    if indexed and indexed[1] in JOINT_PARAMETERS:
        for i, body in enumerate(bodies):
            names = joint_parameter_names(body, indexed[1])
            if name in names:
                return Parameter(i, indexed[1], names.index(name))
    known = [*parameter_values(bodies)]
    raise ModelError(
        f"robot {robot!r} has no parameter {name!r}{nearest_name(name, known)}"
        f" (of a body: {', '.join(BODY_PARAMETERS)}; of a joint: {', '.join(JOINT_PARAMETERS)},"
        " with [0], [1], ... where it has several freedoms)"
    )


def with_values(bodies: Sequence[Body], values: Mapping[Parameter, float]) -> list[Body]:
    """Bodies with some of their parameters changed; all others are left as they are, exactly.

    Raises
    ------
    ModelError
        naming the body whose ten make no inertia.
    """
    changed = list(bodies)
    inertias: dict[int, Array] = {}
    for at, value in values.items():
        body = changed[at.body]
        if at.of_joint:
            freedoms = _stated(body, at.kind).copy()
            freedoms[at.freedom] = value
            entry: dict[str, Any] = {JOINT_PARAMETERS[at.kind]: freedoms}
            changed[at.body] = replace(body, **entry)
        else:
            ten = inertias.setdefault(at.body, inertial_values(body.inertia))
            ten[BODY_PARAMETERS.index(at.kind)] = value
    for i, ten in inertias.items():
        try:
            changed[i] = replace(changed[i], inertia=inertia_of(ten))
        except ModelError as error:
            raise ModelError(f"body {changed[i].name!r}: {error}") from None
    return changed
