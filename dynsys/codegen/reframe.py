"""The same robot with cheaper link frames and fewer mass moments: exact, invisible outside.

Frames (Denavit-Hartenberg, for trees): a joint's axis is z of its body; x of a body lies along
the common normal to the axis of its heaviest branch, and origins sit so that the way to the
next joint is (a, 0, d). Joints come apart into elementary stages, each a body without mass on a
fixed joint: shift and rotation about z, rotation about x, joint motion. The recursions then pay
for elementary rotations only.

All constants are computed in extended precision and rounded once, when code is emitted.

Masses: moments that a joint cannot tell from moments of its parent move to the parent. About a
revolute axis these are all point masses on the axis (mass, h_z, J_zz); torque, qdd and H do not
change, body wrenches do. What reaches the fixed base is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dynsys.codegen.link_frames import (
    AHEAD,
    Z_AXIS,
    Turn,
    along_z,
    clean,
    elementary_stages,
    extended,
    has_axis,
    joint_frame,
    turn_towards_child,
)
from dynsys.codegen.regroup import Regrouping, regroup_moments, snapped_moments
from dynsys.model.joints import AbstractJoint, Fixed, Prismatic
from dynsys.model.spatial import MassMoments, Transform, rotation_about
from dynsys.model.tree import KinematicTree
from dynsys.types import Array, IntArray, ScalarArray

__all__ = ["Reframed", "reframe"]


@final
@dataclass(frozen=True, eq=False)
class _Stage:
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
        return self.robot.armature

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
    robot: KinematicTree, *, regroup: Regrouping = "all", own_frames: bool = False
) -> Reframed:
    """Choose frames, and move mass moments of the bodies asked for towards the base. O(n).

    ``own_frames`` keeps the robot's frames and masses and only takes its joints apart.
    """
    weight = _subtree_sizes(robot)
    to_new: list[Transform] = []
    stages: list[_Stage] = []
    place: list[int] = []
    joint_frames: list[Transform] = []  # parent's new frame -> joint's new frame, constant
    for i, body in enumerate(robot.bodies):
        parent = body.parent
        before = Transform.identity() if parent < 0 else to_new[parent]
        to_joint = before.inverse().then(extended(body.placement))
        at = -1 if parent < 0 else place[parent]
        frame, joint, offset = to_joint, body.joint, AHEAD
        if has_axis(joint) and not own_frames:
            frame = joint_frame(to_joint, joint)
            joint = along_z(joint)
            constant = to_joint.inverse().then(frame)
            offset = turn_towards_child(robot, i, constant, weight)
            turned = constant.then(Transform(rotation_about(Z_AXIS, *offset), np.zeros(3)))
            to_new.append(clean(turned))
        else:
            to_new.append(Transform.identity())
        for placement in [frame] if own_frames else elementary_stages(frame):
            stages.append(_Stage(at, placement, Fixed(), -1, AHEAD))
            at = len(stages) - 1
        stages.append(_Stage(at, Transform.identity(), joint, i, offset))
        place.append(len(stages) - 1)
        joint_frames.append(frame)
    moments = [
        snapped_moments(body.inertia.moments(np.longdouble).seen_from(X.inverse()))
        for body, X in zip(robot.bodies, to_new, strict=True)
    ]
    if not own_frames:
        regroup_moments(robot, moments, joint_frames, regroup)
    nothing = MassMoments(0.0, np.zeros(3), np.zeros((3, 3)))
    by_stage = [nothing] * len(stages)
    for i, k in enumerate(place):
        by_stage[k] = moments[i]
    return Reframed(robot, tuple(stages), tuple(by_stage), tuple(place), tuple(to_new))


def _subtree_sizes(robot: KinematicTree) -> list[int]:
    size = [1] * robot.n_bodies
    for i in reversed(range(robot.n_bodies)):
        if robot.parent[i] >= 0:
            size[robot.parent[i]] += size[i]
    return size
