"""Columns of the flat arrays the loops read and write: one row per body, row 0 the base.

Body i of the robot is row i + 1, so that a row's parent is always a row. Every rotation is
E = Rz(c, s) Rx(ca, sa) Rz(ct, st), parent to body, three elementary turns; 3-vectors and
matrices lie in consecutive columns. Symmetric matrices (3, 3) are xx xy xz yy yz zz.
"""

from __future__ import annotations

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
QD, QDD, GIVEN, TORQUE, ARMATURE = 0, 1, 2, 3, 4
N_VECTORS = 5

# ---- outputs, bits --------------------------------------------------------------------------
TORQUE_OUT, QDD_OUT, ACCELERATION_OUT, WRENCH_OUT = 1, 2, 4, 8
