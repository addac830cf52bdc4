"""Stretches of work that the loops over states share: bias, wrenches, outputs of one state."""

from __future__ import annotations

import math

from dynsys.loops.columns import (
    ACCELERATION_OUT,
    GIVEN,
    QD,
    QDD,
    QDD_OUT,
    TORQUE,
    TORQUE_OUT,
    WRENCH_OUT,
)
from dynsys.loops.jit import inlined, loop
from dynsys.loops.quantities import linear_velocities, write_accelerations, write_wrenches
from dynsys.loops.rotations import place_bodies
from dynsys.loops.wrenches import gather_wrenches, move_bodies, push_bodies
from dynsys.types import Array, IntArray

__all__ = ["bias", "read", "read_state", "wrenches_of_solution", "write", "write_state"]


@inlined
def read(source: Array, target: Array) -> None:
    """Copy a row of inputs to the head of a buffer."""
    for k in range(len(source)):
        target[k] = source[k]


@inlined
def write(source: Array, target: Array) -> bool:
    """Copy the head of a buffer to a row of outputs; whether it is finite."""
    finite = True
    for k in range(len(target)):
        target[k] = source[k]
        finite = finite and math.isfinite(source[k])
    return finite


@loop
def read_state(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    unknown: IntArray,
    motion: Array,
    angles: Array,
    vectors: Array,
    position: Array,
    q: Array,
    qd: Array,
    given: Array,
) -> None:
    """Read one state and place the bodies; QDD gets the known accelerations, zero elsewhere."""
    read(q, position)
    read(qd, vectors[QD])
    read(given, vectors[GIVEN])
    read(given, vectors[QDD])
    for v in unknown:
        vectors[QDD, v] = 0.0
    place_bodies(numbers, frames, integers, position, angles, motion)


@loop
def bias(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    motion: Array,
    angles: Array,
    vectors: Array,
    small: Array,
    push: bool,
    f_ext: Array,
) -> None:
    """Motion and net wrenches of all bodies at qd and QDD, external wrenches taken off."""
    move_bodies(numbers, integers, angles, vectors, motion, small)
    if push:
        push_bodies(frames, f_ext, motion)


@loop
def write_state(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    unknown: IntArray,
    motion: Array,
    inertia: Array,
    angles: Array,
    vectors: Array,
    want: int,
    torque: Array,
    qdd: Array,
    acceleration: Array,
    wrench: Array,
) -> bool:
    """Write the outputs of one state from its motion and wrenches; whether all are finite."""
    finite = True
    if want & TORQUE_OUT:
        for v in unknown:
            vectors[TORQUE, v] = vectors[GIVEN, v]
        finite = write(vectors[TORQUE], torque)
    if want & QDD_OUT:
        finite = write(vectors[QDD], qdd) and finite
    if want & ACCELERATION_OUT:
        linear_velocities(numbers, integers, angles, vectors[QD], motion, inertia)
        finite = write_accelerations(frames, motion, inertia, acceleration) and finite
    if want & WRENCH_OUT:
        finite = write_wrenches(frames, motion, wrench) and finite
    return finite


@loop
def wrenches_of_solution(
    numbers: Array,
    frames: Array,
    integers: IntArray,
    unknown: IntArray,
    motion: Array,
    angles: Array,
    vectors: Array,
    small: Array,
    want: int,
    push: bool,
    f_ext: Array,
) -> None:
    """Newton-Euler once more with all of qdd, where an output asks for it."""
    some_known = len(unknown) < vectors.shape[1] - 1
    if (want & (ACCELERATION_OUT | WRENCH_OUT)) != 0 or (
        some_known and (want & TORQUE_OUT) != 0
    ):
        bias(numbers, frames, integers, motion, angles, vectors, small, push, f_ext)
        gather_wrenches(numbers, integers, angles, vectors, motion)
