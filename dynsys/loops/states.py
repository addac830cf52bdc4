"""What a kernel calls: compiled loops over states, with the GIL released.

Each reads a row of the inputs, runs the passes over the bodies and writes a row of the outputs
asked for. They return whether all of these are finite. Outputs not asked for are never touched.
Also what no answer depends on must be finite: else NaN goes where the answer shows it.

Robot and workspace come as plain tuples, which numba takes faster than named ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from dynsys.jit import fused, inlined
from dynsys.loops import flat as at
from dynsys.loops.articulated import gather_inertias, own_freedoms, respond
from dynsys.loops.composite import fill_inertia_matrix, solve_unknown
from dynsys.loops.flat import Model, Work
from dynsys.loops.newton_euler import ROWS, gather_wrenches, move_bodies, push_bodies
from dynsys.loops.rotations import (
    cross,
    own_transforms,
    place_bodies,
    to_body,
    turn_back,
    wrench_back,
)
from dynsys.model.parameters import friction_torque
from dynsys.types import Array

__all__ = [
    "articulated_freedoms",
    "body_transforms",
    "forward_states",
    "inertia_states",
    "inverse_states",
]

Inputs = tuple[Array, Array, Array, Array]  # q, qd, given, f_ext: a row per state
Outputs = tuple[Array, Array, Array, Array]  # torque, qdd, acceleration, wrench
_friction_torque = inlined(friction_torque)


@fused
def _inverse(
    robot: Model, store: Work, want: int, push: bool, inputs: Inputs, outputs: Outputs
) -> bool:
    """Every qdd known: recursive Newton-Euler."""
    model, work = Model(*robot), Work(*store)
    finite = True
    for state in range(len(inputs[0])):
        f_ext = inputs[3][state if push else 0]
        _read_state(model, work, inputs, state)
        _bias(model, work, push, f_ext)
        gather_wrenches(model, work)
        finite = _write_state(model, work, want, outputs, state) and finite
    return finite


@fused
def _forward(
    robot: Model, store: Work, want: int, push: bool, inputs: Inputs, outputs: Outputs
) -> bool:
    """Some qdd unknown: articulated bodies, or H where joints are coupled and H has room."""
    model, work = Model(*robot), Work(*store)
    some_known = len(model.unknown) < work.vectors.shape[1] - 1
    again = (want & (at.ACCELERATION_OUT | at.WRENCH_OUT)) != 0
    again = again or (some_known and (want & at.TORQUE_OUT) != 0)
    finite = True
    for state in range(len(inputs[0])):
        f_ext = inputs[3][state if push else 0]
        _read_state(model, work, inputs, state)
        _bias(model, work, push, f_ext)
        if len(work.H) > 0:
            _solve_matrix(model, work)
        else:
            gather_inertias(model, work)
            respond(model, work)
        if again:  # Newton-Euler once more with all of qdd
            _bias(model, work, push, f_ext)
            gather_wrenches(model, work)
        finite = _write_state(model, work, want, outputs, state) and finite
    return finite


@fused
def _inertia(robot: Model, store: Work, q: Array, out: Array) -> bool:
    """Inertia matrices, by rows in ``out`` (N, nv nv)."""
    model, work = Model(*robot), Work(*store)
    finite = True
    for state in range(len(q)):
        readable = _read(q[state], work.position)
        place_bodies(model, work)
        fill_inertia_matrix(model, work, work.H)
        for i in range(1, len(model.integers)):  # H does not show how the base is turned
            readable = readable and math.isfinite(work.angles[1, i])
        if not readable:
            work.H[0, 0] = math.nan
        finite = _write(work.H.reshape(-1), out[state]) and finite
    return finite


@fused
def _transforms(robot: Model, store: Work, q: Array, E: Array, r: Array) -> None:
    """Transforms parent -> body at q (nq,), in the robot's own frames."""
    model, work = Model(*robot), Work(*store)
    _read(q, work.position)
    place_bodies(model, work)
    own_transforms(model, work, E, r)


@fused
def _freedoms(robot: Model, store: Work, q: Array, U: Array, D: Array) -> None:
    """Articulated-body quantities U, D of every freedom at q (nq,); see own_freedoms."""
    model, work = Model(*robot), Work(*store)
    _read(q, work.position)
    place_bodies(model, work)
    work.inertia[:] = 0.0
    work.motion[:, at.WRENCH : at.WRENCH + 6] = 0.0
    gather_inertias(model, work)
    own_freedoms(model, work, U, D)


# ---- numba's types of the arguments ----------------------------------------------------------

_ROWS, _VECTOR = "float64[:, ::1]", "float64[::1]"
_ROBOT = f"Tuple(({_ROWS}, {_ROWS}, int64[:, ::1], int64[::1], {_ROWS}))"
_STORE = f"Tuple(({', '.join([_ROWS] * 5)}, {_VECTOR}, {_ROWS}, {_ROWS}))"
_INPUT, _OUTPUT = "Array(float64, 2, 'A', readonly=True)", "float64[:, :]"
_FOUR = f"UniTuple({_INPUT}, 4), UniTuple({_OUTPUT}, 4)"
_POSITION = "Array(float64, 1, 'A', readonly=True)"


@cache
def inverse_states() -> Callable[..., Any]:
    """Compiled inverse dynamics."""
    return _inverse.compiled(f"boolean({_ROBOT}, {_STORE}, int64, boolean, {_FOUR})")


@cache
def forward_states() -> Callable[..., Any]:
    """Compiled forward and hybrid dynamics."""
    return _forward.compiled(f"boolean({_ROBOT}, {_STORE}, int64, boolean, {_FOUR})")


@cache
def inertia_states() -> Callable[..., Any]:
    """Compiled inertia matrix."""
    return _inertia.compiled(f"boolean({_ROBOT}, {_STORE}, {_INPUT}, {_OUTPUT})")


@cache
def body_transforms() -> Callable[..., Any]:
    """Compiled transforms parent -> body."""
    return _transforms.compiled(
        f"void({_ROBOT}, {_STORE}, {_POSITION}, float64[:, :, ::1], {_ROWS})"
    )


@cache
def articulated_freedoms() -> Callable[..., Any]:
    """Compiled articulated-body quantities."""
    return _freedoms.compiled(f"void({_ROBOT}, {_STORE}, {_POSITION}, {_ROWS}, {_VECTOR})")


# ---- stretches of work that the loops over states share ----------------------------------


@inlined
def _read(source: Array, target: Array) -> bool:
    """Copy a row of inputs to the head of a buffer; whether it is finite."""
    zero = 0.0
    for k in range(len(source)):
        target[k] = source[k]
        zero += 0.0 * source[k]
    return zero == 0.0


@inlined
def _write(source: Array, target: Array) -> bool:
    """Copy the head of a buffer to a row of outputs; whether it is finite."""
    finite = True
    for k in range(len(target)):
        target[k] = source[k]
        finite = finite and math.isfinite(source[k])
    return finite


@fused
def _read_state(model: Model, work: Work, inputs: Inputs, state: int) -> None:
    """Read one state and place the bodies; QDD gets the known accelerations, zero elsewhere."""
    vectors = work.vectors
    finite = _read(inputs[0][state], work.position)
    finite = _read(inputs[1][state], vectors[at.QD]) and finite
    _read(inputs[2][state], vectors[at.GIVEN])
    if not finite:
        vectors[at.GIVEN, 0] = math.nan
    _read(vectors[at.GIVEN], vectors[at.QDD])
    for v in model.unknown:
        vectors[at.QDD, v] = 0.0
    _resist(model.friction, vectors)
    place_bodies(model, work)


@fused
def _resist(friction: Array, vectors: Array) -> None:
    """Torques that friction takes at QD."""
    for k in range(len(friction)):
        vectors[at.FRICTION, int(friction[k, at.PLACE])] = 0.0
    for row in friction:
        place, ratio = int(row[at.PLACE]), row[at.RATIO]
        vectors[at.FRICTION, place] += ratio * _friction_torque(
            ratio * vectors[at.QD, place],
            row[at.VISCOUS],
            row[at.COULOMB],
            row[at.COULOMB_MINUS],
            row[at.CONSTANT],
            row[at.SMOOTHING],
        )


@fused
def _bias(model: Model, work: Work, push: bool, f_ext: Array) -> None:
    """Motion and net wrenches of all bodies at QD and QDD, external wrenches taken off."""
    move_bodies(model, work)
    if push:
        push_bodies(model, work, f_ext)


@fused
def _solve_matrix(model: Model, work: Work) -> None:
    """QDD with coupled joints from its bias: H qdd = torque - C, solved densely."""
    gather_wrenches(model, work)
    fill_inertia_matrix(model, work, work.H)
    for v in model.unknown:
        work.vectors[at.QDD, v] = work.vectors[at.GIVEN, v] - work.vectors[at.TORQUE, v]
    solve_unknown(work.H, model.unknown, work.vectors[at.QDD])


@fused
def _write_state(model: Model, work: Work, want: int, outputs: Outputs, state: int) -> bool:
    """Write the outputs of one state from its motion and wrenches; whether all are finite."""
    finite, vectors = True, work.vectors
    if want & at.TORQUE_OUT:
        for v in model.unknown:
            vectors[at.TORQUE, v] = vectors[at.GIVEN, v]
        finite = _write(vectors[at.TORQUE], outputs[0][state])
    if want & at.QDD_OUT:
        finite = _write(vectors[at.QDD], outputs[1][state]) and finite
    if want & at.ACCELERATION_OUT:
        _linear_velocities(model, work)
        finite = _write_accelerations(model.frames, work, outputs[2][state]) and finite
    if want & at.WRENCH_OUT:
        finite = _write_wrenches(model.frames, work.motion, outputs[3][state]) and finite
    return finite


@fused
def _linear_velocities(model: Model, work: Work) -> None:
    """Fill v = E (v_parent + w_parent x r) + S_linear qd; angular velocities are in motion."""
    qd = work.vectors[at.QD]
    for i in range(1, len(model.integers)):
        joint, row, v = model.integers[i], work.motion[i], work.inertia[i, at.VELOCITY :]
        w, r = work.motion[joint[at.PARENT], at.W :], row[at.WAY :]
        above = work.inertia[joint[at.PARENT], at.VELOCITY :]
        x, y, z = cross(w[0], w[1], w[2], r[0], r[1], r[2])
        x, y, z = above[0] + x, above[1] + y, above[2] + z
        c, s = work.angles[1, i], work.angles[2, i]
        ca, sa, ct, st = row[at.COS_X], row[at.SIN_X], row[at.COS_T], row[at.SIN_T]
        v[0], v[1], v[2] = to_body(c, s, ca, sa, ct, st, x, y, z)
        if joint[at.KIND] == at.AXIAL:
            v[2] += model.numbers[i, at.SLIDE] * qd[joint[at.V0]]
        else:
            for k in range(joint[at.NV]):
                place = ROWS[joint[at.KIND], k]
                if place >= 3:
                    v[place - 3] += qd[joint[at.V0] + k]


@fused
def _write_accelerations(frames: Array, work: Work, out: Array) -> bool:
    """Spatial proper accelerations (6 n_bodies,): (wd, a - w x v), a the classical one."""
    finite = True
    for i in range(1, len(frames)):
        row, v, to = work.motion[i], work.inertia[i, at.VELOCITY :], out[6 * i - 6 :]
        w, wd, a = row[at.W :], row[at.WD :], row[at.ACC :]
        e, r = frames[i, at.FRAME_E :], frames[i, at.FRAME_R :]
        tx, ty, tz = cross(w[0], w[1], w[2], v[0], v[1], v[2])
        wx, wy, wz = turn_back(e, wd[0], wd[1], wd[2])
        x, y, z = turn_back(e, a[0] - tx, a[1] - ty, a[2] - tz)
        tx, ty, tz = cross(r[0], r[1], r[2], wx, wy, wz)
        to[0], to[1], to[2], to[3], to[4], to[5] = wx, wy, wz, x + tx, y + ty, z + tz
        finite = finite and math.isfinite(wx + wy + wz + to[3] + to[4] + to[5])
    return finite


@fused
def _write_wrenches(frames: Array, motion: Array, out: Array) -> bool:
    """Joint wrenches (6 n_bodies,)."""
    finite = True
    for i in range(1, len(frames)):
        to = out[6 * i - 6 :]
        wrench_back(frames[i], motion[i, at.WRENCH :], to)
        finite = finite and math.isfinite(to[0] + to[1] + to[2] + to[3] + to[4] + to[5])
    return finite
