"""Loops over states: what a kernel calls, with the GIL released.

Each reads a row of the inputs, runs the passes over the bodies and writes a row of the outputs
asked for. They return whether all of these are finite. Outputs not asked for are never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import types

from dynsys.loops.arrays import Model, Work
from dynsys.loops.jit import compiled
from dynsys.loops.passes import (
    bias,
    form_matrix,
    gather,
    place,
    read,
    read_state,
    solve_matrix,
    solve_tree,
    wrenches_of_solution,
    write,
    write_state,
)
from dynsys.types import Array, IntArray

__all__ = ["forward_states", "inertia_states", "inverse_states"]


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
    """Compiled forward and hybrid dynamics."""
    return compiled(_forward, _DYNAMICS)


@cache
def inertia_states() -> Callable[..., Any]:
    """Compiled inertia matrix."""
    return compiled(_inertia, numba.boolean(*_MODEL, *_WORK, _INPUT, _OUTPUT))
