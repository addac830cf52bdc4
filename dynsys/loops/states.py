"""Loops over states: what a kernel calls, with the GIL released.

Each reads a row of the inputs, runs the passes over the bodies and writes a row of the outputs
asked for. They return whether all of these are finite. Outputs not asked for are never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import types

from dynsys.loops.articulated import gather_inertias, respond
from dynsys.loops.columns import ARMATURE, GIVEN, QDD, TORQUE
from dynsys.loops.composite import fill_inertia_matrix, solve_unknown
from dynsys.loops.jit import compiled
from dynsys.loops.passes import bias, read, read_state, wrenches_of_solution, write, write_state
from dynsys.loops.rotations import place_bodies
from dynsys.loops.wrenches import gather_wrenches
from dynsys.types import Array, IntArray

__all__ = ["coupled_states", "forward_states", "inertia_states", "inverse_states"]


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
    finite = True
    for state in range(len(q)):
        read_state(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            angles,
            vectors,
            position,
            q[state],
            qd[state],
            given[state],
        )
        f = f_ext[state] if push else f_ext[0]
        bias(numbers, frames, integers, motion, angles, vectors, small, push, f)
        gather_wrenches(numbers, integers, angles, vectors, motion)
        good = write_state(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            inertia,
            angles,
            vectors,
            want,
            torque[state],
            qdd[state],
            acceleration[state],
            wrench[state],
        )
        finite = finite and good
    return finite


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
    """Some qdd unknown: articulated bodies."""
    finite = True
    for state in range(len(q)):
        read_state(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            angles,
            vectors,
            position,
            q[state],
            qd[state],
            given[state],
        )
        f = f_ext[state] if push else f_ext[0]
        bias(numbers, frames, integers, motion, angles, vectors, small, push, f)
        gather_inertias(numbers, integers, angles, vectors, motion, inertia, freedoms)
        respond(numbers, integers, angles, motion, inertia, freedoms, vectors[QDD])
        wrenches_of_solution(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            angles,
            vectors,
            small,
            want,
            push,
            f,
        )
        good = write_state(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            inertia,
            angles,
            vectors,
            want,
            torque[state],
            qdd[state],
            acceleration[state],
            wrench[state],
        )
        finite = finite and good
    return finite


def _coupled(
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
    """Some qdd unknown and joints coupled: the inertia matrix, solved densely."""
    finite = True
    for state in range(len(q)):
        read_state(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            angles,
            vectors,
            position,
            q[state],
            qd[state],
            given[state],
        )
        f = f_ext[state] if push else f_ext[0]
        bias(numbers, frames, integers, motion, angles, vectors, small, push, f)
        gather_wrenches(numbers, integers, angles, vectors, motion)
        armature = vectors[ARMATURE]
        fill_inertia_matrix(numbers, integers, armature, angles, motion, inertia, small, H)
        for v in unknown:
            vectors[QDD, v] = vectors[GIVEN, v] - vectors[TORQUE, v]
        solve_unknown(H, unknown, vectors[QDD])
        wrenches_of_solution(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            angles,
            vectors,
            small,
            want,
            push,
            f,
        )
        good = write_state(
            numbers,
            frames,
            integers,
            unknown,
            motion,
            inertia,
            angles,
            vectors,
            want,
            torque[state],
            qdd[state],
            acceleration[state],
            wrench[state],
        )
        finite = finite and good
    return finite


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
    finite = True
    for state in range(len(q)):
        read(q[state], position)
        place_bodies(numbers, frames, integers, position, angles, motion)
        armature = vectors[ARMATURE]
        fill_inertia_matrix(numbers, integers, armature, angles, motion, inertia, small, H)
        good = write(H.reshape(-1), out[state])
        finite = finite and good
    return finite


_VECTOR, _ROWS = numba.float64[::1], numba.float64[:, ::1]
_MODEL = (_ROWS, _ROWS, numba.int64[:, ::1], numba.int64[::1])
_WORK = (_ROWS, _ROWS, _ROWS, _ROWS, _ROWS, _VECTOR, _ROWS, _ROWS)
_INPUT = types.Array(numba.float64, 2, "A", readonly=True)
_OUTPUT = types.Array(numba.float64, 2, "A")
_DYNAMICS = numba.boolean(
    *_MODEL, *_WORK, numba.int64, numba.boolean, *[_INPUT] * 4, *[_OUTPUT] * 4
)


@cache
def inverse_states() -> Callable[..., Any]:
    """Compiled inverse dynamics."""
    return compiled(_inverse, _DYNAMICS)


@cache
def forward_states() -> Callable[..., Any]:
    """Compiled forward and hybrid dynamics of trees."""
    return compiled(_forward, _DYNAMICS)


@cache
def coupled_states() -> Callable[..., Any]:
    """Compiled forward and hybrid dynamics with coupled joints."""
    return compiled(_coupled, _DYNAMICS)


@cache
def inertia_states() -> Callable[..., Any]:
    """Compiled inertia matrix."""
    return compiled(_inertia, numba.boolean(*_MODEL, *_WORK, _INPUT, _OUTPUT))
