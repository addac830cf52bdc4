"""Loops over states: what a kernel calls, with the GIL released.

Each reads a row of the inputs, runs the passes over the bodies and writes a row of the outputs
asked for. They return whether all of these are finite. Outputs not asked for are never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from dynsys.jit import fused, inlined
from dynsys.loops.articulated import gather_inertias, respond
from dynsys.loops.columns import (
    ACC,
    ACCELERATION_OUT,
    ARMATURE,
    AXIAL,
    COS_T,
    COS_X,
    FRAME_E,
    FRAME_R,
    GIVEN,
    KIND,
    NV,
    PARENT,
    QD,
    QDD,
    QDD_OUT,
    SIN_T,
    SIN_X,
    SLIDE,
    TORQUE,
    TORQUE_OUT,
    V0,
    VELOCITY,
    WAY,
    WD,
    WRENCH,
    WRENCH_OUT,
    W,
)
from dynsys.loops.composite import fill_inertia_matrix, solve_unknown
from dynsys.loops.flat import Model, Work
from dynsys.loops.rotations import Vector, cross, place_bodies, to_body
from dynsys.loops.wrenches import ROWS, gather_wrenches, move_bodies, push_bodies
from dynsys.types import Array, IntArray

__all__ = [
    "bias",
    "form_matrix",
    "forward_states",
    "gather",
    "inertia_states",
    "inverse_states",
    "linear_velocities",
    "place",
    "read",
    "read_state",
    "solve_matrix",
    "solve_tree",
    "wrenches_of_solution",
    "write",
    "write_accelerations",
    "write_state",
    "write_wrenches",
]


@fused
def _inverse(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    unknown: IntArray,
    motion: Array,
    inertia: Array,
    freedoms: Array,
    angles: Array,
    vectors: Array,
    position: Array,
    small: Array,
    H: Array,
    want: int,
    push: bool,
    q: Array,
    qd: Array,
    given: Array,
    f_ext: Array,
    torque: Array,
    qdd: Array,
    acceleration: Array,
    wrench: Array,
) -> bool:
    """Every qdd known: recursive Newton-Euler."""
    model = Model(numbers, frames, integers, unknown)
    work = Work(motion, inertia, freedoms, angles, vectors, position, small, H)
    finite = True
    for state in range(len(q)):
        f = f_ext[state] if push else f_ext[0]
        read_state(model, work, q[state], qd[state], given[state])
        bias(model, work, push, f)
        gather(model, work)
        outputs = torque[state], qdd[state], acceleration[state], wrench[state]
        finite = write_state(model, work, want, *outputs) and finite
    return finite


@fused
def _forward(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    unknown: IntArray,
    motion: Array,
    inertia: Array,
    freedoms: Array,
    angles: Array,
    vectors: Array,
    position: Array,
    small: Array,
    H: Array,
    want: int,
    push: bool,
    q: Array,
    qd: Array,
    given: Array,
    f_ext: Array,
    torque: Array,
    qdd: Array,
    acceleration: Array,
    wrench: Array,
) -> bool:
    """Some qdd unknown: articulated bodies, or H where joints are coupled and H has room."""
    model = Model(numbers, frames, integers, unknown)
    work = Work(motion, inertia, freedoms, angles, vectors, position, small, H)
    finite = True
    for state in range(len(q)):
        f = f_ext[state] if push else f_ext[0]
        read_state(model, work, q[state], qd[state], given[state])
        bias(model, work, push, f)
        if len(H) > 0:
            solve_matrix(model, work)
        else:
            solve_tree(model, work)
        wrenches_of_solution(model, work, want, push, f)
        outputs = torque[state], qdd[state], acceleration[state], wrench[state]
        finite = write_state(model, work, want, *outputs) and finite
    return finite


@fused
def _inertia(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    unknown: IntArray,
    motion: Array,
    inertia: Array,
    freedoms: Array,
    angles: Array,
    vectors: Array,
    position: Array,
    small: Array,
    H: Array,
    q: Array,
    out: Array,
) -> bool:
    """Inertia matrices, by rows in ``out`` (N, nv nv)."""
    model = Model(numbers, frames, integers, unknown)
    work = Work(motion, inertia, freedoms, angles, vectors, position, small, H)
    finite = True
    for state in range(len(q)):
        readable = read(q[state], position)
        place(model, work)
        form_matrix(model, work)
        if not readable:
            H[0, 0] = math.nan
        finite = write(H.reshape(-1), out[state]) and finite
    return finite


# numba's types of the arguments
_VECTOR, _ROWS = "float64[::1]", "float64[:, ::1]"
_MODEL = (_ROWS, _ROWS, "int64[:, ::1]", "int64[::1]")
_WORK = (_ROWS, _ROWS, _ROWS, _ROWS, _ROWS, _VECTOR, _ROWS, _ROWS)
_INPUT, _OUTPUT = "Array(float64, 2, 'A', readonly=True)", "float64[:, :]"
_DYNAMICS = (*_MODEL, *_WORK, "int64", "boolean", *[_INPUT] * 4, *[_OUTPUT] * 4)
_INERTIA = (*_MODEL, *_WORK, _INPUT, _OUTPUT)


@cache
def inverse_states() -> Callable[..., Any]:
    """Compiled inverse dynamics."""
    return _inverse.compiled(f"boolean({', '.join(_DYNAMICS)})")


@cache
def forward_states() -> Callable[..., Any]:
    """Compiled forward and hybrid dynamics."""
    return _forward.compiled(f"boolean({', '.join(_DYNAMICS)})")


@cache
def inertia_states() -> Callable[..., Any]:
    """Compiled inertia matrix."""
    return _inertia.compiled(f"boolean({', '.join(_INERTIA)})")


# ----------------------------------------------------------------------
# Stretches of work that the loops over states share: bias, wrenches, outputs of one state.


@inlined
def read(source: Array, target: Array) -> bool:
    """Copy a row of inputs to the head of a buffer; whether it is finite."""
    zero = 0.0
    for k in range(len(source)):
        target[k] = source[k]
        zero += 0.0 * source[k]
    return zero == 0.0


@inlined
def write(source: Array, target: Array) -> bool:
    """Copy the head of a buffer to a row of outputs; whether it is finite."""
    finite = True
    for k in range(len(target)):
        target[k] = source[k]
        finite = finite and math.isfinite(source[k])
    return finite


@fused
def read_state(model: Model, work: Work, q: Array, qd: Array, given: Array) -> None:
    """Read one state and place the bodies; QDD gets the known accelerations, zero elsewhere.

    Also what no answer depends on must be finite: else NaN goes where the answer shows it.
    """
    vectors = work.vectors
    finite = read(q, work.position)
    finite = read(qd, vectors[QD]) and finite
    read(given, vectors[GIVEN])
    if not finite:
        vectors[GIVEN, 0] = math.nan
    read(vectors[GIVEN], vectors[QDD])
    for v in model.unknown:
        vectors[QDD, v] = 0.0
    place(model, work)


@fused
def place(model: Model, work: Work) -> None:
    """Transforms of all joints at the position that was read."""
    place_bodies(
        model.numbers, model.frames, model.integers, work.position, work.angles, work.motion
    )


@fused
def bias(model: Model, work: Work, push: bool, f_ext: Array) -> None:
    """Motion and net wrenches of all bodies at qd and QDD, external wrenches taken off."""
    move_bodies(
        *(model.numbers, model.integers, work.angles, work.vectors, work.motion, work.small)
    )
    if push:
        push_bodies(model.frames, f_ext, work.motion)


@fused
def gather(model: Model, work: Work) -> None:
    """Wrenches through all joints from the net ones, and the torques they need."""
    gather_wrenches(model.numbers, model.integers, work.angles, work.vectors, work.motion)


@fused
def form_matrix(model: Model, work: Work) -> None:
    """H of the bodies as they are placed."""
    fill_inertia_matrix(
        *(model.numbers, model.integers, work.vectors[ARMATURE], work.angles, work.motion),
        *(work.inertia, work.small, work.H),
    )


@fused
def solve_tree(model: Model, work: Work) -> None:
    """QDD of a tree from its bias: articulated bodies, O(n)."""
    numbers, integers, angles, vectors = (
        model.numbers,
        model.integers,
        work.angles,
        work.vectors,
    )
    motion, inertia, freedoms = work.motion, work.inertia, work.freedoms
    gather_inertias(numbers, integers, angles, vectors, motion, inertia, freedoms)
    respond(numbers, integers, angles, motion, inertia, freedoms, vectors[QDD])


@fused
def solve_matrix(model: Model, work: Work) -> None:
    """QDD with coupled joints from its bias: the inertia matrix, solved densely."""
    gather(model, work)
    form_matrix(model, work)
    for v in model.unknown:
        work.vectors[QDD, v] = work.vectors[GIVEN, v] - work.vectors[TORQUE, v]
    solve_unknown(work.H, model.unknown, work.vectors[QDD])


@fused
def wrenches_of_solution(model: Model, work: Work, want: int, push: bool, f_ext: Array) -> None:
    """Newton-Euler once more with all of qdd, where an output asks for it."""
    some_known = len(model.unknown) < work.vectors.shape[1] - 1
    if (want & (ACCELERATION_OUT | WRENCH_OUT)) != 0 or (
        some_known and (want & TORQUE_OUT) != 0
    ):
        bias(model, work, push, f_ext)
        gather(model, work)


@fused
def write_state(
    model: Model,
    work: Work,
    want: int,
    torque: Array,
    qdd: Array,
    acceleration: Array,
    wrench: Array,
) -> bool:
    """Write the outputs of one state from its motion and wrenches; whether all are finite."""
    finite, vectors, motion, inertia = True, work.vectors, work.motion, work.inertia
    if want & TORQUE_OUT:
        for v in model.unknown:
            vectors[TORQUE, v] = vectors[GIVEN, v]
        finite = write(vectors[TORQUE], torque)
    if want & QDD_OUT:
        finite = write(vectors[QDD], qdd) and finite
    if want & ACCELERATION_OUT:
        linear_velocities(
            model.numbers, model.integers, work.angles, vectors[QD], motion, inertia
        )
        finite = write_accelerations(model.frames, motion, inertia, acceleration) and finite
    if want & WRENCH_OUT:
        finite = write_wrenches(model.frames, motion, wrench) and finite
    return finite


# ----------------------------------------------------------------------
# Accelerations and wrenches of the bodies, back in the robot's own frames.


@inlined
def _turn_back(e: Array, x: float, y: float, z: float) -> Vector:
    return (
        e[0] * x + e[3] * y + e[6] * z,
        e[1] * x + e[4] * y + e[7] * z,
        e[2] * x + e[5] * y + e[8] * z,
    )


@fused
def linear_velocities(
    numbers: Array,
    integers: IntArray,
    angles: Array,
    qd: Array,
    motion: Array,
    velocity: Array,
) -> None:
    """Fill v = E (v_parent + w_parent x r) + S_linear qd; angular velocities are in motion."""
    for i in range(1, len(integers)):
        joint, row, own = integers[i], motion[i], velocity[i]
        up, above = motion[joint[PARENT]], velocity[joint[PARENT]]
        x, y, z = cross(up[W], up[W + 1], up[W + 2], row[WAY], row[WAY + 1], row[WAY + 2])
        x, y, z = above[VELOCITY] + x, above[VELOCITY + 1] + y, above[VELOCITY + 2] + z
        c, s = angles[1, i], angles[2, i]
        x, y, z = to_body(c, s, row[COS_X], row[SIN_X], row[COS_T], row[SIN_T], x, y, z)
        own[VELOCITY], own[VELOCITY + 1], own[VELOCITY + 2] = x, y, z
        if joint[KIND] == AXIAL:
            own[VELOCITY + 2] += numbers[i, SLIDE] * qd[joint[V0]]
        else:
            for k in range(joint[NV]):
                place = ROWS[joint[KIND], k]
                if place >= 3:
                    own[VELOCITY + place - 3] += qd[joint[V0] + k]


@fused
def write_accelerations(frames: Array, motion: Array, velocity: Array, out: Array) -> bool:
    """Spatial proper accelerations (6 n_bodies,): (wd, a - w x v), a the classical one."""
    finite = True
    for i in range(1, len(frames)):
        row, own, to = motion[i], velocity[i], out[6 * i - 6 :]
        e, r = frames[i, FRAME_E:], frames[i, FRAME_R:]
        x, y, z = own[VELOCITY], own[VELOCITY + 1], own[VELOCITY + 2]
        tx, ty, tz = cross(row[W], row[W + 1], row[W + 2], x, y, z)
        wx, wy, wz = _turn_back(e, row[WD], row[WD + 1], row[WD + 2])
        x, y, z = _turn_back(e, row[ACC] - tx, row[ACC + 1] - ty, row[ACC + 2] - tz)
        tx, ty, tz = cross(r[0], r[1], r[2], wx, wy, wz)
        to[0], to[1], to[2], to[3], to[4], to[5] = wx, wy, wz, x + tx, y + ty, z + tz
        finite = finite and math.isfinite(wx + wy + wz + to[3] + to[4] + to[5])
    return finite


@fused
def write_wrenches(frames: Array, motion: Array, out: Array) -> bool:
    """Joint wrenches (6 n_bodies,)."""
    finite = True
    for i in range(1, len(frames)):
        row, to = motion[i], out[6 * i - 6 :]
        e, r = frames[i, FRAME_E:], frames[i, FRAME_R:]
        nx, ny, nz = _turn_back(e, row[WRENCH], row[WRENCH + 1], row[WRENCH + 2])
        fx, fy, fz = _turn_back(e, row[WRENCH + 3], row[WRENCH + 4], row[WRENCH + 5])
        tx, ty, tz = cross(r[0], r[1], r[2], fx, fy, fz)
        to[0], to[1], to[2], to[3], to[4], to[5] = nx + tx, ny + ty, nz + tz, fx, fy, fz
        finite = finite and math.isfinite(nx + ny + nz + fx + fy + fz)
    return finite
