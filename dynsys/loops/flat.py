"""A robot as flat arrays: what every compiled loop reads. Made once per robot.

The arrays have one row per body. Most of them use link frames of their own, in which every
rotation is a product of elementary turns,

    E = Rz(c, s) Rx(ca, sa) Rz(ct, st)        parent to body

Joint axes become z of their bodies, with x along the common normal to the heaviest branch
(:mod:`dynsys.program.frames`). A constant rotation is Rz(psi) Rx(alpha) Rz(theta): psi is added
to the joint's angle, theta is zero along heavy branches. The loops pay for elementary turns
only, and their results are exact in the robot's own frames, to which they are taken back.

Row 0 of these arrays is the base and body i of the robot is row i + 1, so that a row's parent
is always a row. The constants below name the columns; 3-vectors and matrices lie in consecutive
columns, symmetric matrices (3, 3) as xx xy xz yy yz zz.

:class:`TreeArrays` are the few arrays that sparse algorithms need in the robot's own frames.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from dynsys.errors import ModelError
from dynsys.model.expanded import expanded_parent, last_freedom
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
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = ["FlatRobot", "Model", "TreeArrays", "Work", "elementary_turns", "flat_robot"]

# ---- model, whole numbers -----------------------------------------------------------------
KIND = 0  # of the joint, below
PARENT = 1  # row of the parent
Q0, V0, NV = 2, 3, 4  # first place in q and in qd, number of freedoms
UNKNOWN = 5  # 1 where the joint's qdd is to be found
CARRIES = 6  # 1 where a joint below the parent or its own is unknown
BLOCK = 7  # first row in the store of the freedoms of joints with several
N_INTEGERS = 8

# ---- joint kinds, all about z of their body ------------------------------------------------
AXIAL = 0  # fixed, revolute, prismatic, helical: S = (0 0 TURN, 0 0 SLIDE)
CYLINDRICAL, PLANAR, SPHERICAL, FREE = 1, 2, 3, 4
FREEDOM_ROWS = (
    (2, 5, 0, 0, 0, 0),
    (2, 5, 0, 0, 0, 0),
    (2, 3, 4, 0, 0, 0),
    (0, 1, 2, 0, 0, 0),
    (0, 1, 2, 3, 4, 5),
)
"""Coordinates of the spatial velocity that the freedoms of each kind are."""

# ---- model, numbers -----------------------------------------------------------------------
SLOPE, OFFSET = 0, 1  # angle about z = SLOPE q[Q0] + OFFSET
TURN, SLIDE = 2, 3  # S of an axial joint, ratio of a coupled one included
ADVANCE, ADVANCE0 = 4, 5  # way along z = ADVANCE q[Q0] + ADVANCE0, axial joints
MASS, FIRST, SECOND = 6, 7, 10  # moments about the origin: mass, (3,), symmetric (6,)
N_NUMBERS = 16

# ---- model, constant transforms -------------------------------------------------------------
FRAME_E, FRAME_R = 0, 9  # the robot's own frame of the body -> its frame here
JOINT_E, JOINT_R = 12, 21  # parent -> joint at rest
N_FRAMES = 24

# ---- motion -------------------------------------------------------------------------------
COS_X, SIN_X, COS_T, SIN_T = 0, 1, 2, 3  # constant but for quaternions
WAY = 4  # r (3,), parent coordinates
W, WD, ACC = 7, 10, 13  # angular velocity and acceleration, classical acceleration (3,)
TENSOR = 16  # U = [wd]x + [w]x [w]x (3, 3)
RESPONSE = 16  # (6,) acceleration on top of the bias motion, in place of a tensor used up
WRENCH = 25  # moment and force (6,)
N_MOTION = 32

# ---- articulated inertia --------------------------------------------------------------------
ROTARY, MIXED, LINEAR = 0, 6, 15  # A (6,), B (3, 3), C (6,) of [[A, B], [B^T, C]]
GAIN = 21  # U = IA S (6,)
PIVOT, LOAD = 27, 28  # 1 / D and torque - S^T p
VELOCITY = 21  # (3,) linear velocity, where body accelerations are asked for
N_ARTICULATED = 32

# ---- one freedom of a joint with several: as GAIN, PIVOT, LOAD above ------------------------
FREEDOM_GAIN, FREEDOM_PIVOT, FREEDOM_LOAD = 0, 6, 7
N_FREEDOM = 8

# ---- per-freedom vectors (nv + 1 each, the last one for joints without freedoms) -----------
QD, QDD, GIVEN, TORQUE, ARMATURE, FRICTION = 0, 1, 2, 3, 4, 5
N_VECTORS = 6

# ---- friction, a row per freedom of a joint: see dynsys.model.parameters.JointFriction ------
PLACE, RATIO, VISCOUS, COULOMB, COULOMB_MINUS, CONSTANT, SMOOTHING = 0, 1, 2, 3, 4, 5, 6

# ---- outputs, bits --------------------------------------------------------------------------
TORQUE_OUT, QDD_OUT, ACCELERATION_OUT, WRENCH_OUT = 1, 2, 4, 8


_KINDS: dict[type[AbstractJoint], int] = {
    Fixed: AXIAL,
    Revolute: AXIAL,
    Prismatic: AXIAL,
    Helical: AXIAL,
    Cylindrical: CYLINDRICAL,
    Planar: PLANAR,
    Spherical: SPHERICAL,
    Free: FREE,
}


# ---- arrays a loop is called with: the robot's, and a workspace for one thread -------------


class Model(NamedTuple):
    """The robot; read only while it runs."""

    numbers: Array
    frames: Array
    integers: NDArray[np.int64]
    unknown: NDArray[np.int64]  # freedoms whose qdd is to be found
    friction: Array  # (rows, 7) as below; no rows where it is no part of the equations


class Work(NamedTuple):
    """Everything written while one state is solved; one per thread."""

    motion: Array
    inertia: Array
    freedoms: Array
    angles: Array  # angle, cosine, sine of each joint
    vectors: Array  # (6, nv + 1)
    position: Array  # (nq + 1,)
    small: Array  # (8, 6)
    H: Array  # (nv, nv), or empty where no inertia matrix is formed


class TreeArrays(NamedTuple):
    """A tree without coupled joints, in the robot's own frames; freedoms are in order."""

    parent: IntArray  # (N,) parent of each body
    first: IntArray  # (N + 1,) freedoms of body i are first[i] .. first[i + 1] - 1
    S: Array  # (nv, 6) motion subspace, one row per freedom
    inertia: Array  # (N, 6, 6) spatial inertia of each body
    armature: Array  # (nv,)
    freedom_parent: IntArray  # (nv,) expanded parent array
    last: IntArray  # (N,) last freedom that moves each body, -1 if none does


@lru_cache(maxsize=32)
def flat_robot(robot: KinematicTree) -> FlatRobot:
    """Flat arrays of a robot, kept for the robots used last."""
    return FlatRobot(robot)


@final
class FlatRobot:
    """The arrays of one robot; see the module. O(n) to make.

    ``numbers``, ``frames``, ``integers`` and ``motion``, to start a workspace with, have a row
    per body and one for the base; ``n_stored`` freedoms are those of joints of several.

    Raises
    ------
    ModelError
        naming a joint of a type that the loops do not have.
    """

    def __init__(self, robot: KinematicTree) -> None:
        self.robot = robot
        rows = robot.n_bodies + 1
        self.numbers, self.frames = np.zeros((rows, N_NUMBERS)), np.zeros((rows, N_FRAMES))
        self.integers: NDArray[np.int64] = np.zeros((rows, N_INTEGERS), dtype=np.int64)
        self.motion = np.zeros((rows, N_MOTION))
        self.motion[0, ACC : ACC + 3] = -robot.gravity
        self.frames[0, FRAME_E : FRAME_E + 9 : 4] = 1.0
        self.friction = np.zeros((0, 7))
        if (law := robot.joint_friction) is not None:
            own = (
                law.place,
                law.ratio,
                law.viscous,
                law.coulomb,
                law.coulomb_minus,
                law.offset,
            )
            self.friction = np.column_stack([*own, np.full(len(law.place), law.smoothing)])
        self.n_stored = 0
        self._free: list[tuple[Array, ...]] = []
        for i, joint in enumerate(robot.joints):
            if type(joint) not in _KINDS:
                raise ModelError(
                    f"robot {robot.name!r}, joint {robot.joint_names[i]!r}: the loops for large"
                    f" robots have no {joint.kind} joint; use the reference recursions"
                    " (dynsys.rnea, dynsys.aba) and the dense methods"
                )
        to_new = _frames(robot)
        for i in range(robot.n_bodies):
            self._fill_integers(i)
            self._fill_body(i, to_new)
            _fill_joint(robot, i, self.numbers[i + 1])

    def model(self, known: BoolArray) -> Model:
        """Arrays for a problem in which the freedoms marked ``known`` (nv,) have a given qdd.

        Raises
        ------
        ModelError
            naming a joint of several freedoms of which only some are known.
        """
        integers = self.integers.copy()
        for i, v in enumerate(self.robot.v_slices()):
            row, up = integers[i + 1], integers[integers[i + 1, PARENT]]
            if v.stop > v.start and known[v].any() != known[v].all():
                raise ModelError(
                    f"robot {self.robot.name!r}, joint {self.robot.joint_names[i]!r}: qdd of"
                    " some of its freedoms is known and of others not; the freedoms of one"
                    " joint go together"
                )
            row[UNKNOWN] = v.stop > v.start and not known[v].all()
            row[CARRIES] = up[UNKNOWN] or up[CARRIES]
        unknown = np.flatnonzero(~known).astype(np.int64)
        return Model(self.numbers, self.frames, integers, unknown, self.friction)

    @cached_property
    def _all_unknown(self) -> tuple[object, ...]:
        return tuple(self.model(np.zeros(self.robot.nv, dtype=bool)))

    @cached_property
    def tree(self) -> TreeArrays:
        """Arrays in the robot's own frames.

        Raises
        ------
        ModelError
            if the robot has coupled (mimic) joints: its inertia matrix has no tree sparsity.
        """
        robot = self.robot
        if robot.is_coupled:
            raise ModelError(
                f"robot {robot.name!r} has coupled (mimic) joints, so its inertia matrix has no"
                ' tree sparsity; load it with mimic="independent" (operational_space and'
                ' inverse_inertia have the method "dense", too)'
            )
        subspaces = [S.T for S in robot.motion_subspace]
        return TreeArrays(
            parent=np.array(robot.parent),
            first=np.cumsum([0, *(joint.nv for joint in robot.joints)]).astype(np.intp),
            S=np.ascontiguousarray(np.concatenate([np.zeros((0, 6)), *subspaces])),
            inertia=np.array([moments.matrix() for moments in robot.moments]),
            armature=np.array(robot.armature),
            freedom_parent=expanded_parent(robot),
            last=last_freedom(robot),
        )

    def call(self, loop: Callable[..., Any], *arrays: Array) -> None:
        """Call a compiled loop on the robot, where every qdd is unknown, with a workspace.

        Any thread may; a workspace, with room for H, is kept for the next call.
        """
        try:
            work = self._free.pop()
        except IndexError:
            work = tuple(self.workspace(matrix=True))
        loop(self._all_unknown, work, *arrays)
        self._free.append(work)

    def workspace(self, *, matrix: bool) -> Work:
        """Fresh workspace; ``matrix`` makes room for H."""
        rows, nv = len(self.integers), self.robot.nv
        side = nv if matrix else 0
        vectors = np.zeros((N_VECTORS, nv + 1))
        vectors[ARMATURE, :nv] = self.robot.armature
        motion = _aligned(rows, N_MOTION, 0)
        motion[:] = self.motion
        return Work(
            motion,
            _aligned(rows, N_ARTICULATED, _SKEW),
            np.zeros((self.n_stored, N_FREEDOM)),
            np.zeros((3, rows)),
            vectors,
            np.zeros(self.robot.nq + 1),
            np.zeros((8, 6)),
            np.zeros((side, side)),
        )

    def _fill_integers(self, i: int) -> None:
        robot, row = self.robot, self.integers[i + 1]
        q, v = robot.q_slices()[i], robot.v_slices()[i]
        moves = v.stop > v.start
        row[KIND] = _KINDS[type(robot.joints[i])]
        row[PARENT] = robot.parent[i] + 1
        row[Q0], row[V0] = (q.start, v.start) if moves else (robot.nq, robot.nv)
        row[NV] = v.stop - v.start
        if row[KIND] != AXIAL:
            row[BLOCK] = self.n_stored
            self.n_stored += int(row[NV])

    def _fill_body(self, i: int, to_new: list[Transform]) -> None:
        """Constant transforms, elementary turns and mass moments of a body."""
        robot, parent = self.robot, int(self.robot.parent[i])
        before = Transform.identity() if parent < 0 else to_new[parent].inverse()
        constant = before.then(robot.bodies[i].placement).then(to_new[i])
        self.frames[i + 1] = np.concatenate(
            [np.ravel(to_new[i].E), to_new[i].r, np.ravel(constant.E), constant.r]
        )
        self.numbers[i + 1, OFFSET], *turns = elementary_turns(constant.E)
        self.motion[i + 1, COS_X : WAY + 3] = [*turns, *constant.r]
        moments = robot.moments[i].seen_from(to_new[i].inverse())
        upper = moments.second[(0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)]
        self.numbers[i + 1, MASS:] = [moments.mass, *moments.first, *upper]


def _frames(robot: KinematicTree) -> list[Transform]:
    """Transform from each body's own frame to the one it has here."""
    frames = list(reframe(robot, regroup="none").to_new)
    for i, joint in enumerate(robot.joints):
        if isinstance(joint, Planar):
            e1, e2 = joint.directions
            frames[i] = Transform(np.array([e1, e2, joint.axis]), np.zeros(3))
    return frames


def elementary_turns(E: ScalarArray) -> tuple[float, float, float, float, float]:
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
    numbers[SLOPE] = ratio * turns
    numbers[OFFSET] += shift * turns
    numbers[TURN], numbers[SLIDE] = ratio * turns, ratio * slide
    numbers[ADVANCE], numbers[ADVANCE0] = ratio * slide, shift * slide


_SKEW = 264  # half a page and a line


def _aligned(rows: int, columns: int, skew: int) -> Array:
    """Zeros whose rows begin on cache lines, ``skew`` numbers into a page.

    Equal rows of two arrays must not differ by whole pages only: loads would wait for stores
    they have nothing to do with.
    """
    page = 4096 // 8
    store = np.zeros(rows * columns + 2 * page)
    start = (-store.ctypes.data // 8) % page + skew
    return store[start : start + rows * columns].reshape(rows, columns)
