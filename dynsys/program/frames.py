"""The same robot with cheaper link frames and fewer mass moments: exact, invisible outside.

Frames (Denavit-Hartenberg, for trees): a joint's axis is z of its body; x of a body lies along
the common normal to the axis of its heaviest branch, and origins sit so that the way to the
next joint is (a, 0, d). Joints come apart into elementary stages, each a body without mass on a
fixed joint: shift and rotation about z, rotation about x, joint motion. The recursions then pay
for elementary rotations only.

All constants are computed in extended precision and rounded once, when code is emitted.

Masses: moments that a joint cannot tell from moments of its parent move to the parent. About a
revolute axis these are all point masses on the axis (mass, h_z, J_zz); torque, qdd and H do not
change, body wrenches do. What reaches the fixed base is gone. But the pivot of a link that is
nearly a point mass cancels almost all of its inertia; with its mass on the parent that
difference is taken between larger numbers and loses digits.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, final

import numpy as np

from dynsys.model.joints import (
    AbstractJoint,
    Cylindrical,
    Fixed,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
)
from dynsys.model.natural import NaturalUnits, unusual
from dynsys.model.spatial import (
    ROUNDING,
    Inertia,
    MassMoments,
    Transform,
    rotation_about,
    without_rounding,
)
from dynsys.model.tree import Frame, KinematicTree
from dynsys.model.varying import AtParameters
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["Reframed", "Regrouping", "invisible_moments", "reframe"]

Z_AXIS = np.array([0.0, 0.0, 1.0])
X_AXIS = np.array([1.0, 0.0, 0.0])
Turn: TypeAlias = tuple[np.longdouble, np.longdouble]
"""Cosine and sine of an angle."""
AHEAD: Turn = (np.longdouble(1), np.longdouble(0))

Regrouping: TypeAlias = Literal["all", "solid", "none"] | frozenset[int]
"""Whose moments move to the parent: every body's, those of solid bodies, nobody's, of some."""

EXTENDED = 2.0**-56
"""Rounding after some operations in extended precision, well below that of float64."""
SOLID = 1e-3
"""Smallest moment about the centre of mass of a solid body, in the largest about its origin."""


class _Stage(NamedTuple):
    """One body of the rewritten robot: fixed placement, then a joint with an angle offset."""

    parent: int
    placement: Transform
    joint: AbstractJoint
    user_body: int  # -1 for a stage in between
    offset: Turn  # cos, sin of the constant turn about z behind the joint


@final
@dataclass(frozen=True, eq=False)
class Reframed:
    """A Mechanism equivalent to ``robot``; see the module.

    ``place[i]`` is the number of the robot's body i here, ``to_new[i]`` the constant transform
    from its own frame to the frame it has here.
    """

    robot: KinematicTree
    stages: tuple[_Stage, ...]
    moments: tuple[MassMoments, ...]
    place: tuple[int, ...]
    to_new: tuple[Transform, ...]
    at: AtParameters | None = None  # where some of the robot's parameters are no numbers

    @property
    def n_bodies(self) -> int:
        """Number of stages."""
        return len(self.stages)

    @property
    def nv(self) -> int:
        """Number of freedoms, those of the robot."""
        return self.robot.nv

    @property
    def gravity(self) -> Array:
        """Gravity (3,) in base coordinates."""
        return self.robot.gravity

    @property
    def armature(self) -> Array:
        """Rotor inertia (nv,)."""
        return self.robot.armature if self.at is None else self.at.armature

    def friction_torque(self, qd: ScalarArray) -> ScalarArray:
        """Torque (nv,) that the drives spend on friction, as the robot has it."""
        if self.at is None or self.at.friction is None:
            return self.robot.friction_torque(qd)
        return self.at.friction.torque(qd)

    @cached_property
    def parent(self) -> IntArray:
        """Parent of each stage, -1 for the base."""
        return np.array([stage.parent for stage in self.stages], dtype=np.intp)

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        own = self.robot.v_slices()
        return tuple(own[s.user_body] if s.user_body >= 0 else slice(0, 0) for s in self.stages)

    def v_slices(self) -> tuple[slice, ...]:
        """Where each stage's joint sits in qd, qdd and torque."""
        return self._slices

    @cached_property
    def motion_subspace(self) -> tuple[Array, ...]:
        """S (6, nv) of each stage's joint, ratio of coupled joints included."""
        subspaces = []
        for stage in self.stages:
            S = stage.joint.S
            coupling = (
                None if stage.user_body < 0 else self.robot.bodies[stage.user_body].coupling
            )
            subspaces.append(S if coupling is None else S * coupling.ratio)
        return tuple(subspaces)

    def joint_transform(self, i: int, q: ScalarArray) -> Transform:
        """Transform parent -> stage i at q (nq,) of the robot."""
        stage = self.stages[i]
        if stage.user_body < 0:
            return stage.placement
        position = self.robot.joint_position(stage.user_body, q)
        return stage.placement.then(_joint_motion(stage, position))

    def wrench_to_new(self, body: int, wrench: ScalarArray) -> ScalarArray:
        """A wrench (6,) on the robot's body from its own coordinates to those it has here."""
        return self.to_new[body].inverse().force_back(wrench)

    def frame_here(self, frame: Frame) -> Frame:
        """A frame on a body of the robot as one on a body of this mechanism."""
        if frame.body < 0:
            return frame
        moved = self.to_new[frame.body].inverse().then(_extended(frame.transform))
        return Frame(self.place[frame.body], _clean(moved))


def _joint_motion(stage: _Stage, position: ScalarArray) -> Transform:
    """Motion of an axis joint turned further by the constant offset about z."""
    joint, (c0, s0) = stage.joint, stage.offset
    if stage.offset == AHEAD:
        return joint.transform(position)
    if isinstance(joint, Prismatic):
        moved = joint.transform(position)
        return Transform(rotation_about(Z_AXIS, c0, s0), moved.r)
    if 0.0 in (c0, s0):  # quarter turns permute sine and cosine
        c, s = np.cos(position[0]), np.sin(position[0])
        c, s = c * c0 - s * s0, s * c0 + c * s0
    else:
        angle = position[0] + np.arctan2(s0, c0)
        c, s = np.cos(angle), np.sin(angle)
    return Transform(rotation_about(Z_AXIS, c, s), joint.transform(position).r)


def reframe(
    robot: KinematicTree,
    *,
    regroup: Regrouping = "all",
    own_frames: bool = False,
    at_values: AtParameters | None = None,
) -> Reframed:
    """Choose frames, and move mass moments of the bodies asked for towards the base. O(n).

    ``own_frames`` keeps the robot's frames and masses and only takes its joints apart.
    ``at_values`` of parameters that are no numbers: moments of these bodies stay in place.
    """
    weight, natural = _subtree_sizes(robot), NaturalUnits(robot)
    length, first = unusual(np.array([natural.length, natural.mass * natural.length])).tolist()
    to_new: list[Transform] = []
    stages: list[_Stage] = []
    place: list[int] = []
    joint_frames: list[Transform] = []  # parent's new frame -> joint's new frame, constant
    for i, body in enumerate(robot.bodies):
        parent = body.parent
        before = Transform.identity() if parent < 0 else to_new[parent]
        # the joint, seen from the new frame of the parent
        to_joint = before.inverse().then(_extended(body.placement))
        at = -1 if parent < 0 else place[parent]
        frame, joint, offset = to_joint, body.joint, AHEAD
        if _has_axis(joint) and not own_frames:
            # z along its axis, x along the normal common with the axis of the next joint
            frame = _joint_frame(to_joint, joint, length)
            joint = _along_z(joint)
            constant = to_joint.inverse().then(frame)
            offset = _turn_towards_child(robot, i, constant, weight, (length, first))
            turned = constant.then(Transform(rotation_about(Z_AXIS, *offset), np.zeros(3)))
            to_new.append(_clean(turned))
        else:
            to_new.append(Transform.identity())
        # the constant way to the joint in elementary stages, then the motion of the joint
        for placement in [frame] if own_frames else _elementary_stages(frame):
            stages.append(_Stage(at, placement, Fixed(), -1, AHEAD))
            at = len(stages) - 1
        stages.append(_Stage(at, Transform.identity(), joint, i, offset))
        place.append(len(stages) - 1)
        joint_frames.append(frame)
    # masses in the new frames, and what joints cannot see moved towards the base
    moments = [
        _snapped_moments(body.inertia.moments(np.longdouble).seen_from(X.inverse()))
        for body, X in zip(robot.bodies, to_new, strict=True)
    ]
    varying = {} if at_values is None else at_values.moments
    for i, own in varying.items():
        moments[i] = own.seen_from(to_new[i].inverse())
    if not own_frames:
        _regroup_moments(robot, moments, joint_frames, regroup, varying)
    nothing = MassMoments(0.0, np.zeros(3), np.zeros((3, 3)))
    by_stage = [nothing] * len(stages)
    for i, k in enumerate(place):
        by_stage[k] = moments[i]
    parts = (tuple(stages), tuple(by_stage), tuple(place), tuple(to_new))
    return Reframed(robot, *parts, at_values)


def _subtree_sizes(robot: KinematicTree) -> list[int]:
    size = [1] * robot.n_bodies
    for i in reversed(range(robot.n_bodies)):
        if robot.parent[i] >= 0:
            size[robot.parent[i]] += size[i]
    return size


# ---- where the frames sit: axes along z, common normals along x ------------------------------


def _has_axis(joint: AbstractJoint) -> bool:
    """True of joints that move about or along one line."""
    return isinstance(joint, (Revolute, Prismatic, Helical, Cylindrical))


def _along_z(joint: AbstractJoint) -> AbstractJoint:
    """The same joint about z."""
    return Helical(Z_AXIS, joint.pitch) if isinstance(joint, Helical) else type(joint)()


def _extended(X: Transform) -> Transform:
    """The transform in extended precision."""
    return Transform(X.E.astype(np.longdouble), X.r.astype(np.longdouble))


def _unit(z: ScalarArray) -> ScalarArray:
    """Direction z (3,) without rounding of zeros and of exactly unit length."""
    z = without_rounding(z)
    return z / np.sqrt(z @ z)


def _clean(X: Transform) -> Transform:
    """The transform without rounding of exact zeros and ones."""
    return Transform(without_rounding(X.E), _snapped(X.r))


def _normal(z: ScalarArray, to: ScalarArray, unit: float) -> ScalarArray | None:
    """Unit common normal (3,) of e_z and direction z, or None where they are one axis.

    ``to`` leads from one to the other; beside ``unit``, of the robot, it may be rounding.
    """
    x = np.array([-z[1], z[0], 0.0])  # e_z x z
    length = np.hypot(z[0], z[1])
    if length <= ROUNDING:
        x = np.array([to[0], to[1], 0.0])  # parallel axes: along the way between them
        length = np.hypot(to[0], to[1])
        if length <= 4 * ROUNDING * max(unit, np.abs(to).max()):
            return None
    return np.asarray(x / length)


def _joint_frame(to_joint: Transform, joint: AbstractJoint, length: float) -> Transform:
    """Joint's new frame on the parent: z along the axis, x the common normal, way (a, 0, d)."""
    axis: Array = joint.axis  # type: ignore[attr-defined]
    z = _unit(to_joint.E.T @ axis)
    o = to_joint.r
    x = _normal(z, o, length)
    if x is None:
        x = X_AXIS
    y = np.array(
        [z[1] * x[2] - z[2] * x[1], z[2] * x[0] - z[0] * x[2], z[0] * x[1] - z[1] * x[0]]
    )
    E = without_rounding(np.array([x, y, z]))
    if isinstance(joint, Prismatic):  # any point will do
        return Transform(E, np.zeros(3))
    across = np.array([-x[1], x[0], 0.0])  # e_z x x: the direction the way should not have
    slope = z @ across
    t = -(o @ across) / slope if abs(slope) > 0.5 else -o[2] / z[2]
    return Transform(E, _snapped(o + t * z))


def _turn_towards_child(
    robot: KinematicTree,
    i: int,
    constant: Transform,
    weight: list[int],
    units: tuple[float, float],
) -> Turn:
    """Cosine and sine of the turn about z that puts x of body i on the next common normal.

    ``units`` are those of lengths and of first moments.
    """
    x: ScalarArray | None = None
    children = [c for c in robot.children[i] if _has_axis(robot.joints[c])]
    if children:
        child = max(children, key=lambda c: weight[c])
        to_joint = constant.inverse().then(_extended(robot.bodies[child].placement))
        axis: Array = robot.joints[child].axis  # type: ignore[attr-defined]
        x = _normal(_unit(to_joint.E.T @ axis), to_joint.r, units[0])
    elif not robot.children[i]:  # a leaf: x towards its centre of mass
        h = robot.bodies[i].inertia.moments(np.longdouble).seen_from(constant.inverse()).first
        x = _normal(Z_AXIS, _snapped(h), units[1])
    if x is None or isinstance(robot.joints[i], Prismatic):
        return AHEAD
    return _exact(x[0]), _exact(x[1])


def _exact(x: np.longdouble) -> np.longdouble:
    """X, with rounding of 0 and +-1 removed."""
    return np.round(x) if abs(x - np.round(x)) <= 2 * ROUNDING else x


def _elementary_stages(frame: Transform) -> list[Transform]:
    """Stages whose product is ``frame``: shift and turn about z, turn about x."""
    E, r = frame.E, frame.r
    if np.isin(np.abs(E), (0.0, 1.0)).all() or E[0, 2] != 0.0:
        return [frame]  # a permutation costs nothing; a general rotation stays whole
    about_z = rotation_about(Z_AXIS, E[0, 0], E[0, 1])
    about_x = rotation_about(X_AXIS, E[2, 2], -_sine_x(E))
    if (E[0, 0], E[0, 1]) == (1.0, 0.0):
        return [Transform(about_x, r)]
    if E[2, 2] == 1.0:
        return [Transform(about_z, r)]
    return [Transform(about_z, r), Transform(about_x, np.zeros(3))]


def _sine_x(E: ScalarArray) -> np.longdouble:
    """Minus the sine of alpha in E = Rx(alpha) Rz(beta): z = (s_b s_a, -c_b s_a, c_a)."""
    return np.longdouble(E[2, 1] * E[0, 0] - E[2, 0] * E[0, 1])


# ---- mass moments that move to the parent ----------------------------------------------------


def _snapped(r: ScalarArray, rounding: float = ROUNDING) -> ScalarArray:
    """R with components that are rounding of the largest one set to zero."""
    return np.where(np.abs(r) <= rounding * np.abs(r).max(initial=0.0), 0.0, r)


def _snapped_moments(m: MassMoments) -> MassMoments:
    """M without what extended precision leaves of entries that the frames were to remove."""
    return MassMoments(m.mass, _snapped(m.first, EXTENDED), _snapped(m.second, EXTENDED))


def _is_solid(inertia: Inertia) -> bool:
    """Whether a body is far from a point mass and from a rod without thickness."""
    about_com, about_origin = inertia.about_com, inertia.about_origin
    smallest, largest = np.linalg.eigvalsh(about_com)[0], np.linalg.eigvalsh(about_origin)[-1]
    return bool(smallest > SOLID * largest)


def _regroup_moments(
    robot: KinematicTree,
    moments: list[MassMoments],
    joint_frame: list[Transform],
    which: Regrouping,
    varying: Container[int],
) -> None:
    """Move what each joint cannot see from its body to its parent, leaves first, in place.

    ``joint_frame`` goes from the parent's frame to the joint's, axis along z; what ``varying``
    bodies have stays.
    """
    for i in reversed(range(robot.n_bodies)):
        if i in varying or not _moves(robot, i, which):
            continue
        moved = invisible_moments(robot.joints[i], moments[i])
        moments[i] = _snapped_moments(moments[i].minus(moved))
        parent = robot.bodies[i].parent
        if parent >= 0:
            moments[parent] = moments[parent].plus(moved.seen_from(joint_frame[i]))


def _moves(robot: KinematicTree, i: int, which: Regrouping) -> bool:
    """Whether moments of body i move to its parent."""
    if isinstance(which, frozenset):
        return i in which
    return which == "all" or (which == "solid" and _is_solid(robot.bodies[i].inertia))


def invisible_moments(joint: AbstractJoint, m: MassMoments) -> MassMoments:
    """Part of a body's moments that moves with the parent just as well (axis along z).

    Revolute: point masses on the axis. Cylindrical, helical, planar: those without mass or
    first moment. Spherical: a point mass at the centre. Prismatic: pure second moments.
    """
    nothing, zz = np.zeros_like(m.second), np.zeros_like(m.second)
    zz[2, 2] = m.second[2, 2]
    if isinstance(joint, Revolute):
        return MassMoments(m.mass, np.array([0.0, 0.0, m.first[2]]), zz)
    if isinstance(joint, (Cylindrical, Helical)):
        return MassMoments(0.0, np.zeros(3), zz)
    if isinstance(joint, Planar) and joint.axis[2] == 1.0:
        return MassMoments(0.0, np.zeros(3), zz)
    if isinstance(joint, Spherical):
        return MassMoments(m.mass, np.zeros(3), nothing)
    if isinstance(joint, Prismatic):
        return MassMoments(0.0, np.zeros(3), m.second)
    return MassMoments(0.0, np.zeros(3), nothing)
