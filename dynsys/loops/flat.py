"""A robot as flat arrays: frames re-chosen so that every rotation is elementary.

Joint axes become z of their bodies, with x along the common normal to the heaviest branch
(:mod:`dynsys.program.frames`), and any constant rotation is Rz(psi) Rx(alpha) Rz(theta): psi
is added to the joint's angle, theta is zero along heavy branches. Exact, invisible outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import ModelError
from dynsys.loops import columns as at
from dynsys.model.joints import (
    AbstractJoint,
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
)
from dynsys.model.spatial import ROUNDING, Transform
from dynsys.model.tree import KinematicTree
from dynsys.program.frames import reframe
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "FlatRobot",
    "Model",
    "Work",
    "flatten",
    "workspace",
]

_KINDS: dict[type[AbstractJoint], int] = {
    Fixed: at.AXIAL,
    Revolute: at.AXIAL,
    Prismatic: at.AXIAL,
    Helical: at.AXIAL,
    Cylindrical: at.CYLINDRICAL,
    Planar: at.PLANAR,
    Spherical: at.SPHERICAL,
    Free: at.FREE,
}


@final
@dataclass(frozen=True, eq=False)
class FlatRobot:
    """Arrays the loops read; see :mod:`dynsys.loops.columns` for what each column means.

    One row per body, row 0 the base: ``numbers``, ``frames``, ``integers``, and ``motion`` to
    start a workspace with; ``armature`` (nv + 1,) with a zero for joints without freedoms;
    ``n_stored`` freedoms in joints of several.
    """

    numbers: Array
    frames: Array
    integers: NDArray[np.int64]
    motion: Array
    armature: Array
    n_stored: int


def flatten(robot: KinematicTree, known: BoolArray) -> FlatRobot:
    """Arrays of a robot; ``known`` (nv,) marks freedoms whose qdd is given. O(n).

    Raises
    ------
    ModelError
        naming a joint of several freedoms of which only some are known, or of a type that the
        loops do not have.
    """
    rows = robot.n_bodies + 1
    numbers, frames = np.zeros((rows, at.N_NUMBERS)), np.zeros((rows, at.N_FRAMES))
    integers = np.zeros((rows, at.N_INTEGERS), dtype=np.int64)
    motion = np.zeros((rows, at.N_MOTION))
    motion[0, at.ACC : at.ACC + 3] = -robot.gravity
    to_new = _frames(robot)
    n_stored = 0
    for i in range(robot.n_bodies):
        row = integers[i + 1]
        _fill_integers(robot, known, i, integers)
        if row[at.KIND] != at.AXIAL:
            row[at.BLOCK] = n_stored
            n_stored += row[at.NV]
        constant = _constant_transform(robot, to_new, i)
        frames[i + 1] = np.concatenate(
            [np.ravel(to_new[i].E), to_new[i].r, np.ravel(constant.E), constant.r]
        )
        numbers[i + 1, at.OFFSET], *turns = _elementary_turns(constant.E)
        motion[i + 1, at.COS_X : at.WAY + 3] = [*turns, *constant.r]
        _fill_joint(robot, i, numbers[i + 1])
        moments = robot.moments[i].seen_from(to_new[i].inverse())
        upper = moments.second[(0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)]
        numbers[i + 1, at.MASS :] = [moments.mass, *moments.first, *upper]
    armature = np.append(robot.armature, 0.0)
    return FlatRobot(numbers, frames, integers, motion, armature, int(n_stored))


def _frames(robot: KinematicTree) -> list[Transform]:
    """Transform from each body's own frame to the one it has here."""
    frames = list(reframe(robot, regroup="none").to_new)
    for i, joint in enumerate(robot.joints):
        if isinstance(joint, Planar):
            e1, e2 = joint.directions
            frames[i] = Transform(np.array([e1, e2, joint.axis]), np.zeros(3))
    return frames


def _fill_integers(
    robot: KinematicTree, known: BoolArray, i: int, integers: NDArray[np.int64]
) -> None:
    joint, q, v = robot.joints[i], robot.q_slices()[i], robot.v_slices()[i]
    row, parent = integers[i + 1], integers[robot.parent[i] + 1]
    name = f"robot {robot.name!r}, joint {robot.joint_names[i]!r}"
    if type(joint) not in _KINDS:
        raise ModelError(
            f"{name}: the loops for large robots have no {joint.kind} joint; use the reference"
            " recursions (dynsys.rnea, dynsys.aba)"
        )
    moves = v.stop > v.start
    if moves and known[v].any() != known[v].all():
        raise ModelError(
            f"{name}: qdd of some of its freedoms is known and of others not; the freedoms of"
            " one joint go together"
        )
    row[at.KIND] = _KINDS[type(joint)]
    row[at.PARENT] = robot.parent[i] + 1
    row[at.Q0], row[at.V0] = (q.start, v.start) if moves else (robot.nq, robot.nv)
    row[at.NV] = v.stop - v.start
    row[at.UNKNOWN] = moves and not known[v].all()
    row[at.CARRIES] = parent[at.UNKNOWN] or parent[at.CARRIES]


def _constant_transform(robot: KinematicTree, to_new: list[Transform], i: int) -> Transform:
    """Transform between the new frames of the parent and of the joint at rest."""
    parent = int(robot.parent[i])
    before = Transform.identity() if parent < 0 else to_new[parent].inverse()
    return before.then(robot.bodies[i].placement).then(to_new[i])


def _elementary_turns(E: ScalarArray) -> tuple[float, float, float, float, float]:
    """psi, cos and sin of alpha, cos and sin of theta with E = Rz(psi) Rx(alpha) Rz(theta)."""
    ct, st = 1.0, 0.0
    length = float(np.hypot(E[2, 0], E[2, 1]))
    if length > 4 * ROUNDING:  # third row: (sa st, -sa ct, ca)
        sign = -1.0 if E[2, 1] > 0.0 else 1.0
        ct, st = float(-sign * E[2, 1]) / length, float(sign * E[2, 0]) / length
        length = sign * length
    if abs(st) <= 4 * ROUNDING:
        ct, st = 1.0, 0.0
    ca, sa = float(E[2, 2]), length
    scale = float(np.hypot(ca, sa))
    ca, sa = ca / scale, sa / scale
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, ca, sa], [0.0, -sa, ca]])
    about_z = np.array([[ct, st, 0.0], [-st, ct, 0.0], [0.0, 0.0, 1.0]])
    rest = E @ (about_x @ about_z).T
    return float(np.arctan2(rest[0, 1], rest[0, 0])), ca, sa, ct, st


def _fill_joint(robot: KinematicTree, i: int, numbers: Array) -> None:
    """Angle, advance and subspace of the joint, those of a coupled one by its leader's q."""
    joint, coupling = robot.joints[i], robot.bodies[i].coupling
    ratio, shift = (1.0, 0.0) if coupling is None else (coupling.ratio, coupling.offset)
    turns = isinstance(joint, (Revolute, Helical, Cylindrical, Planar))
    slide = 1.0 if isinstance(joint, Prismatic) else 0.0
    if isinstance(joint, Helical):
        slide = joint.pitch
    numbers[at.SLOPE] = ratio * turns
    numbers[at.OFFSET] += shift * turns
    numbers[at.TURN], numbers[at.SLIDE] = ratio * turns, ratio * slide
    numbers[at.ADVANCE], numbers[at.ADVANCE0] = ratio * slide, shift * slide


# ----------------------------------------------------------------------
# Arrays a loop is called with: the robot's, and a workspace for one thread.

_SKEW = 264  # half a page and a line


class Model(NamedTuple):
    """The robot; read only while it runs."""

    numbers: Array
    frames: Array
    integers: NDArray[np.int64]
    unknown: NDArray[np.int64]  # freedoms whose qdd is to be found


class Work(NamedTuple):
    """Everything written while one state is solved; one per thread."""

    motion: Array
    inertia: Array
    freedoms: Array
    angles: Array  # angle, cosine, sine of each joint
    vectors: Array  # (5, nv + 1)
    position: Array  # (nq + 1,)
    small: Array  # (8, 6)
    H: Array  # (nv, nv), or empty where no inertia matrix is formed


def workspace(flat: FlatRobot, nq: int, *, matrix: bool) -> Work:
    """Fresh workspace; ``matrix`` makes room for H."""
    rows, size = len(flat.integers), len(flat.armature)
    side = size - 1 if matrix else 0
    vectors = np.zeros((at.N_VECTORS, size))
    vectors[at.ARMATURE] = flat.armature
    motion = _aligned(rows, at.N_MOTION, 0)
    motion[:] = flat.motion
    return Work(
        motion,
        _aligned(rows, at.N_ARTICULATED, _SKEW),
        np.zeros((flat.n_stored, at.N_FREEDOM)),
        np.zeros((3, rows)),
        vectors,
        np.zeros(nq + 1),
        np.zeros((8, 6)),
        np.zeros((side, side)),
    )


def _aligned(rows: int, columns: int, skew: int) -> Array:
    """Zeros whose rows begin on cache lines, ``skew`` numbers into a page.

    Equal rows of two arrays must not differ by whole pages only: loads would wait for stores
    they have nothing to do with.
    """
    page = 4096 // 8
    store = np.zeros(rows * columns + 2 * page)
    start = (-store.ctypes.data // 8) % page + skew
    return store[start : start + rows * columns].reshape(rows, columns)
